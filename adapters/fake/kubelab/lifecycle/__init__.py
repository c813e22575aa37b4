"""Changes that no request makes: garbage collection, termination of namespaces and of CRDs."""
