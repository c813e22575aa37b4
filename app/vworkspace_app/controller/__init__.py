"""Controllers' machinery that awaits: informers, worker pool, election, Events. The core decides, these execute.

Everything runs under a virtual clock as well: time comes from the `Clock` port and anyio, nothing uses
threads, and what looks random is injected.
"""
