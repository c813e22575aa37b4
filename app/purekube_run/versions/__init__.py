"""Migration of stored objects to the storage version of their CRD, and tests of conversions by round trips (PH-8)."""
