"""The kinds that are served without a CRD, with the list types, defaults and immutable fields that users notice."""

from typing import Final

from vworkspace_apiserver.builtin.admission import WEBHOOKS
from vworkspace_apiserver.builtin.configs import CONFIGS
from vworkspace_apiserver.builtin.crds import CRDS
from vworkspace_apiserver.builtin.events import EVENTS
from vworkspace_apiserver.builtin.jobs import JOBS
from vworkspace_apiserver.builtin.leases import LEASES
from vworkspace_apiserver.builtin.networking import NETWORKING
from vworkspace_apiserver.builtin.pods import PODS
from vworkspace_apiserver.builtin.rbac import RBAC
from vworkspace_apiserver.builtin.storage import STORAGE
from vworkspace_apiserver.builtin.workloads import WORKLOADS
from vworkspace_apiserver.model.definition import Definition

__all__ = ["BUILTIN_DEFINITIONS"]

BUILTIN_DEFINITIONS: Final[tuple[Definition, ...]] = (
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
