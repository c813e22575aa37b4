"""The credential for the control plane: the Secret that holds it, and the state machine that renews it."""
