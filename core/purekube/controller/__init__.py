"""The kernel: decisions, reconcile pass, work queue, informer and leader election, for any kind (RUN-1 to RUN-4)."""
