"""CRDs of the downstream kinds for a cluster without them: our own structural schemas, faithful in what they declare.

They declare the fields that the operator writes, those that users set by hand, and those that the simulated controllers
write into statuses. Names, types, enums, defaults, patterns and rules are those of the projects; unused fields are left
out, so that a server with these CRDs may prune or refuse what the real ones accept, and never the other way round.
"""

from collections.abc import Iterable
from typing import Any, Final

from kubelab.downstream.crd_others import argo_crds, snapshot_crds, volsync_crds
from kubelab.downstream.crd_velero import velero_crds

_BY_NAME: Final = {
    "velero": velero_crds,
    "workflow": argo_crds,
    "job": tuple,
    "volsync": volsync_crds,
    "snapshot": snapshot_crds,
    "workloads": tuple,
}


def downstream_crds(names: Iterable[str] | None = None) -> tuple[dict[str, Any], ...]:
    """Return new CustomResourceDefinitions for these controllers (of `CONTROLLERS`), by default for all."""
    return tuple(definition for name in (_BY_NAME if names is None else names) for definition in _BY_NAME[name]())
