"""The decisions of a box: evaluated expressions, the nodes of its graph, and the status of a parent (PH-4)."""
