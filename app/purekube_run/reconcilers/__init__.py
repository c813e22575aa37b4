"""The runtime of reconcilers and watchers in Python: their informers, the calls of user code, the outcomes (PH-7)."""
