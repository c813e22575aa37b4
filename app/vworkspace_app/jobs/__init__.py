"""The job agent, which pulls jobs from the control plane, applies them and reports results (PULL-2, PULL-5, PULL-7).

The control plane is the server that offers jobs to the operator. The job state machine in `vworkspace_core.jobs`
decides, and this package carries out what it requests.
"""
