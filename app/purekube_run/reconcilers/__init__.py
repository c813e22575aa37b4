"""The runtime of reconcilers and watchers in Python: their informers, the calls of user code and their outcomes (PH-7).

A watcher is a controller that is notified of changes to objects and writes no status.
"""
