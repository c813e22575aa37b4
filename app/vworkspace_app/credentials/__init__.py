"""The agent's credential for the control plane: how it is first obtained, read, watched and rotated."""
