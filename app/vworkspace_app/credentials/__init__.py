"""The credential of the control plane: how it is read and renewed, and how a cluster gets its first."""
