"""The command `demo`: it plays live how a job of the control plane becomes a release, and how its result is reported.

The control plane is the server that offers jobs to the operator. All parts talk over real HTTP, and everything that the
demo shows is also checked.
"""
