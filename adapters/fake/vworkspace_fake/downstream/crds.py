"""CRDs of the downstream kinds for a cluster that has none: structural schemas of our own, faithful where they speak.

They hold the fields that the operator writes, that people set by hand beside it, and that the simulated
controllers write into statuses. Names, types, enums, defaults, patterns and rules are those of the projects;
fields that nobody here uses are left out, so a server with these CRDs prunes or refuses what the real ones
would accept, and never the other way round.
"""

from collections.abc import Iterable
from typing import Any, Final

from vworkspace_fake.downstream.crd_others import argo_crds, snapshot_crds, volsync_crds
from vworkspace_fake.downstream.crd_velero import velero_crds

_BY_NAME: Final = {
    "velero": velero_crds,
    "workflow": argo_crds,
    "job": tuple,
    "volsync": volsync_crds,
    "snapshot": snapshot_crds,
    "workloads": tuple,
}


def downstream_crds(names: Iterable[str] | None = None) -> tuple[dict[str, Any], ...]:
    """Fresh CustomResourceDefinitions for these controllers (of `CONTROLLERS`), for all unless told."""
    return tuple(definition for name in (_BY_NAME if names is None else names) for definition in _BY_NAME[name]())
