"""The loading of boxes (operators defined in YAML) from files and clusters, and the running of boxes (PH-6)."""
