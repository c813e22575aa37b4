"""The kinds that are served without a CRD, with the list types, defaults and immutable fields that users notice."""

from typing import Final

from kubelab.builtin.admission import WEBHOOKS
from kubelab.builtin.configs import CONFIGS
from kubelab.builtin.crds import CRDS
from kubelab.builtin.events import EVENTS
from kubelab.builtin.jobs import JOBS
from kubelab.builtin.leases import LEASES
from kubelab.builtin.networking import NETWORKING
from kubelab.builtin.pods import PODS
from kubelab.builtin.rbac import RBAC
from kubelab.builtin.storage import STORAGE
from kubelab.builtin.workloads import WORKLOADS
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
    *CRDS,
)
"""Every built-in definition."""
