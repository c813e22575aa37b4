"""The pure half of the runtime: work queue, informer machine, object store, hot-loop detector (RUN-1 to RUN-3)."""
