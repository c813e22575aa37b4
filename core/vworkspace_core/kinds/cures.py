"""What mends an obstacle that only an administrator can take away, as commands and names to paste (U8)."""

from collections.abc import Iterable
from typing import Final

from vworkspace_core.kinds.labels import CAPABILITY_PREFIX, NAMESPACE_GATE, NAMESPACE_GATE_VALUE

__all__ = ["capability_command", "gate_command", "not_installed"]

_BY_GROUP: Final = (
    ("toolkit.fluxcd.io", "Flux (flux install)"),
    ("velero.io", "Velero (velero install)"),
    ("argoproj.io", "Argo Workflows"),
    ("volsync.backube", "VolSync"),
    ("snapshot.storage.k8s.io", "the CSI snapshot controller with its CRDs"),
)


def gate_command(namespace: str) -> str:
    """How a namespace is given to the operator (RES-5)."""
    return f"kubectl label namespace {namespace} {NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}"


def capability_command(target: str, namespace: str, capability: str, engine: str) -> str:
    """How an application says which engine it is prepared for (RES-5)."""
    return f"kubectl annotate appinst {target} -n {namespace} {CAPABILITY_PREFIX}{capability}={engine} --overwrite"


def not_installed(definitions: Iterable[str]) -> str:
    """Which CRDs are missing, and what brings them; it goes on by itself once they are there (REC-12)."""
    missing = list(definitions)
    brought = [name for group, name in _BY_GROUP if any(one.endswith(group) for one in missing)]
    cure = f": install {' and '.join(brought)}" if brought else ""
    return f"not installed in this cluster: {', '.join(missing)}{cure}"
