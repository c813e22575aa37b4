"""The jobs that the agent fetches from the control plane, without I/O: their wire types, the limits on them, and the
state machine that decides what is done for each job.

A job is a request of the control plane (a server such as Odoo), applied once and answered with one result.
"""
