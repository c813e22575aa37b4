"""The agent's credential for the control plane: how it is first obtained, read, watched and rotated.

The control plane is the server that offers jobs to the operator.
"""
