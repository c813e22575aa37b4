"""The connection to the control plane, as values: its state, how often to retry, which events wait to be sent."""
