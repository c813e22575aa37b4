"""The framework's runtime: informers, queue, election, and the runners of boxes and reconcilers."""
