"""The drivers of the operator: they await what the pure runtime in the core decides.

Everything runs under a virtual clock as well: time comes from the `Clock` port and anyio, nothing uses
threads, and what looks random is injected.
"""
