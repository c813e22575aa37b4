"""The durable job store: records of open jobs and tombstones of closed ones, kept in Secrets (PULL-4)."""

from vworkspace_core.jobs.store.store import KubeJobStore

__all__ = ["KubeJobStore"]
