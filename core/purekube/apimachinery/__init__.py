"""The ground: manifests, object metadata, conditions, errors, times. It imports nothing above it."""
