"""The embedded vWorkspace control plane (`controlplane`) and an in-memory `JobStore`, for tests, demo and development.

The control plane is the side of Odoo that sends jobs (units of work) to the operator in a cluster; a `JobStore` stores
the jobs that the operator has accepted. The simulated Kubernetes cluster is a package of its own, `kubelab`.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from vworkspace_fake.job_store import MemoryJobStore

__all__ = [
    "MemoryJobStore",
]

__getattr__, __dir__ = lazy_door(__name__)
