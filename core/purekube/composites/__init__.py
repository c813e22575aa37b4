"""Composites: kinds whose objects have children (objects that a controller creates, updates and deletes for them).

Boxes (operators that a YAML file describes) and pure reconcilers (controllers made from a function without I/O) are
built on them (PH-6, PH-7, PH-9).
"""
