"""The operator's connection to the control plane, and the sender of events to the control plane."""
