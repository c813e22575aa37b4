"""What happens to objects without a request: garbage collection, ends of namespaces and definitions."""
