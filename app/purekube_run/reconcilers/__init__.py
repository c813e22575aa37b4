"""Reconcilers and watchers in a process: their watches, how their calls are made, and the outcomes (PH-7)."""
