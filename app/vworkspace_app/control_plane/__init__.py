"""The operator's connection to the control plane, and the sender of events to the control plane.

The control plane is the server that offers jobs to the operator.
"""
