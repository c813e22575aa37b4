"""The attrs classes of the operator's own kinds, and how a manifest finds its class.

The codec, which reads and writes objects of these classes, is slower to import.
"""

from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Kind
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.operation import Operation

CLASSES: Final[Mapping[type[Any], Kind]] = {
    ApplicationInstance: APPLICATION_INSTANCE,
    Operation: OPERATION,
    Cluster: CLUSTER,
}
"""The attrs classes of full objects (metadata, spec and status), each with its kind."""

BY_TYPE: Final = {(kind.api_version, kind.kind): cls for cls, kind in CLASSES.items()}
"""The classes by apiVersion and kind."""


def class_of(manifest: Any) -> type[Any] | None:
    """Return the attrs class of the kind that `manifest` names, or None if the kind is not the operator's own."""
    if not isinstance(manifest, Mapping):
        return None
    api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
    return BY_TYPE.get((api_version, kind)) if isinstance(api_version, str) and isinstance(kind, str) else None
