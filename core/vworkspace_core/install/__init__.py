"""Facts about the operator's installation: the access that it needs, and settings that are too weak."""
