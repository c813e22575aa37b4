"""The kernel of a controller: decisions, reconcile pass, work queue, informer and leader election (RUN-1 to RUN-4)."""
