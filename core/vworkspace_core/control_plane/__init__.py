"""The connection to the control plane as immutable values: its state, the pace of retries, the events to send."""
