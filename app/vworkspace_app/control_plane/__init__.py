"""The connection to the control plane, and the events that are sent to it."""
