"""The runtime of kinds whose objects have children: boxes, and pure reconcilers (PH-6, PH-7)."""
