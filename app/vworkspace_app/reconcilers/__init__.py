"""Reconcilers and watchers in a process: what they watch, how their calls are made, what comes of these (PH-7)."""
