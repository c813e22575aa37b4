"""Composites: kinds whose objects have children. Boxes and pure reconcilers are built on them (PH-6, PH-7, PH-9)."""
