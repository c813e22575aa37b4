"""The connection to the control plane, as values: whether it is there, how often to try, what waits to be sent."""
