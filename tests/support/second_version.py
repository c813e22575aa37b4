"""A second version of ApplicationInstance, for tests only: v1alpha2 renames a field, moves one and lacks one (PH-8).

`suspend` is called `paused`, `integrations.ingress.host` is `host` beside the chart, and `integrations` are not there:
what else they hold is kept by an annotation.
"""

from copy import deepcopy
from typing import Any

from purekube.apimachinery.manifest import get_path
from purekube.schema import compile_schema
from purekube.schema.objectmeta import with_type_meta
from purekube.versions import Conversion, Converter
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.crd import crd_manifest

GROUP = "apps.vworkspace.io"


def definition() -> dict[str, Any]:
    """The CRD with both versions; objects are stored in the first."""
    crd = deepcopy(crd_manifest(ApplicationInstance))
    (first,) = crd["spec"]["versions"]
    second = deepcopy(first)
    second |= {"name": "v1alpha2", "storage": False}
    spec = second["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields = spec["properties"]
    fields["paused"] = fields.pop("suspend")
    fields["host"] = deepcopy(fields.pop("integrations")["properties"]["ingress"]["properties"]["host"])
    crd["spec"]["versions"].append(second)
    return crd


def _up(new: Any) -> Any:
    """From v1alpha2 to v1alpha1."""
    spec = dict(new.get("spec") or {})
    if "paused" in spec:
        spec["suspend"] = spec.pop("paused")
    if "host" in spec:
        spec["integrations"] = {"ingress": {"host": spec.pop("host"), "enabled": True}}
    return {**new, "spec": spec}


def _down(old: Any) -> Any:
    spec = dict(old.get("spec") or {})
    if "suspend" in spec:
        spec["paused"] = spec.pop("suspend")
    host = get_path(spec.pop("integrations", None), "ingress", "host")
    return {**old, "spec": spec if host is None else {**spec, "host": host}}


def converter() -> Converter:
    """v1alpha1 is the hub: the operator knows no other."""
    versions = definition()["spec"]["versions"]
    schemas = {
        version["name"]: with_type_meta(compile_schema(version["schema"]["openAPIV3Schema"])) for version in versions
    }
    second = Conversion("v1alpha2", _up, _down, keeps=True)
    return Converter.of(GROUP, "ApplicationInstance", "v1alpha1", second, schemas=schemas)
