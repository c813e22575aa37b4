"""CustomResourceDefinitions of the operator's own kinds, generated from their attrs classes (RES-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import Definition
from purekube.apimachinery.openapi import object_schema, validations
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.codec import CLASSES
from vworkspace_core.api.columns import COLUMNS
from vworkspace_core.api.operation import Operation

CATEGORY: Final = "vworkspace"
"""The CRD category of the operator's own kinds: `kubectl get vworkspace` lists their objects."""

_SHORT_NAMES: Final[Mapping[type[Any], Sequence[str]]] = {
    ApplicationInstance: ("appinst",),
    Operation: ("op",),
    Cluster: ("vwc",),
}


def crd_manifests() -> list[dict[str, Any]]:
    """Return the CRDs of the operator's kinds: ApplicationInstance, Operation and Cluster, in this order."""
    return [crd_manifest(cls) for cls in CLASSES]


def crd_manifest(cls: type[Any]) -> dict[str, Any]:
    """Return the CRD of one of the operator's kinds.

    `cls` is the attrs class of the kind: ApplicationInstance, Operation or Cluster.
    """
    fields = attrs.fields_dict(cls)
    return Definition(
        CLASSES[cls],
        (cls.__doc__ or "").strip(),
        object_schema(fields["spec"].type or object),
        object_schema(fields["status"].type or object),
        COLUMNS[CLASSES[cls]],
        _SHORT_NAMES[cls],
        (CATEGORY,),
        validations(getattr(cls, "CEL_RULES", ())),
    ).manifest()
