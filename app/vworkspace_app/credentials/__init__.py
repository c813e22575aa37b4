"""The credential of the control plane: how the operator reads and rotates it, and how a cluster gets its first one."""
