"""The credential of the control plane: where it is read, how it is renewed, how a cluster gets its first."""
