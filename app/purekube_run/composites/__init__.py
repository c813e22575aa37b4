"""The runtime of composites, which are kinds whose objects have children: boxes, and pure reconcilers (PH-6, PH-7)."""
