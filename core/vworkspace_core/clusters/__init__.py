"""The status of the Cluster object with the operator's own id: the operator's report about itself (RES-3, RES-4)."""
