"""The connection to the control plane as immutable values: its state, the pace of retries, the events to send.

The control plane is the server, such as Odoo, that decides which applications run on which cluster.
"""
