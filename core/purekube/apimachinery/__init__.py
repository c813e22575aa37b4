"""The base layer: manifests, object metadata, conditions, errors and times. It imports no other package of purekube."""
