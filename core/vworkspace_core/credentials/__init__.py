"""The credential of the control plane: the Secret that holds it, and the machine that renews it."""
