"""The framework's runtime: informers, work queues, leader election, and the controllers of boxes and reconcilers.

A box is an operator that is defined in YAML; reconcilers are written in Python.
"""
