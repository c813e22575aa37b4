"""The asynchronous part of controllers: informers, worker pool, election, Events. It executes what the core decides.

The core is the package `purekube`, which does no I/O of its own. Everything runs under a virtual clock as well: time
comes from the `Clock` port and anyio, no thread is used, and random numbers are injected.
"""
