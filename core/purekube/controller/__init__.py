"""The kernel: decision, reconcile pass, work queue, informer and lease machines. It knows no kind (RUN-1 to RUN-4)."""
