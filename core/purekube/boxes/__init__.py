"""Boxes, the operators that a YAML file describes: the file's classes, compilation and decisions (PH-4 to PH-6)."""
