"""How kinds whose objects have children are run: boxes, and pure reconcilers (PH-6, PH-7)."""
