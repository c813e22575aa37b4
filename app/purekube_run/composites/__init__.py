"""The runtime of composites, which are kinds whose objects have children: boxes, and pure reconcilers (PH-6, PH-7).

A box defines the children in YAML, a pure reconciler by a pure function in Python.
"""
