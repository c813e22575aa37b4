"""The simulated Velero: its CRDs, storage, backups and restores."""
