"""Changes to objects that no client's write makes directly: garbage collection, and the end of namespaces and CRDs."""
