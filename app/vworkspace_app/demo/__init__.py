"""The command `demo`: it plays live how a job of the control plane becomes a release, and how its result is reported.

All parts talk over real HTTP, and everything that the demo shows is also checked.
"""
