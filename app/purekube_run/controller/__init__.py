"""The asynchronous half of controllers: informers, worker pool, election, Events. The core decides, this half executes.

Everything runs under a virtual clock as well: time comes from the `Clock` port and anyio, no thread is used, and random
numbers are injected.
"""
