"""The kinds that are served without a CRD, with their schemas, defaults and immutable fields."""

from typing import Final

from kubelab.builtin.admission_kinds import POLICIES, WEBHOOKS
from kubelab.builtin.capacity_kinds import CAPACITY
from kubelab.builtin.config_kinds import CONFIGS
from kubelab.builtin.crd_kinds import CRDS
from kubelab.builtin.event_kinds import EVENTS
from kubelab.builtin.job_kinds import JOBS
from kubelab.builtin.lease_kinds import LEASES
from kubelab.builtin.network_kinds import NETWORKING
from kubelab.builtin.pod_kinds import PODS
from kubelab.builtin.rbac_kinds import RBAC
from kubelab.builtin.storage_kinds import STORAGE
from kubelab.builtin.untyped_kinds import STORED
from kubelab.builtin.workload_kinds import WORKLOADS
from kubelab.model.definition import ServedKind

__all__ = ["BUILTIN_DEFINITIONS"]

BUILTIN_DEFINITIONS: Final[tuple[ServedKind, ...]] = (
    *CONFIGS,
    *EVENTS,
    *PODS,
    *NETWORKING,
    *STORAGE,
    *WORKLOADS,
    *JOBS,
    *LEASES,
    *RBAC,
    *WEBHOOKS,
    *POLICIES,
    *CRDS,
    *CAPACITY,
    *STORED,
)
"""The definitions of all built-in kinds."""
