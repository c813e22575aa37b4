"""The jobs that the agent fetches from the control plane: wire types, limits, plans and job machine, without I/O.

A job is a request of the control plane (a server such as Odoo), applied once and answered with one result.
"""
