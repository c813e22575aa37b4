"""Composites, which are kinds whose objects have children: what boxes and pure reconcilers share (PH-6, PH-7, PH-9)."""
