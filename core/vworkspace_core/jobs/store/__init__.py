"""The durable store of the control plane's jobs, in Secrets: records of open jobs, and tombstones (PULL-4).

A tombstone is the record of what a closed job has done.
"""

from vworkspace_core.jobs.store.store import KubeJobStore

__all__ = ["KubeJobStore"]
