"""Migration of stored objects to the storage version of their kind (PH-8)."""
