"""The defaulting webhook: it fills in fields whose values follow from the rest of the object (RUN-6).

Defaults that a schema can express are in the CRD. No existing value is changed; the reconciler never needs these
defaults, because the CRD refuses an object that lacks them.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.admission_review import AdmissionRequest
from purekube.apimachinery.formats import DNS_LABEL
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.structuring import read_meta
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.codec import class_of
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.operation import Operation

# The longest `spec.releaseName` of a HelmRelease.
_LONGEST_RELEASE: Final = 53

Patch = list[dict[str, Any]]


def default_patch(request: AdmissionRequest) -> Patch:
    """Return JSON patch operations that add missing fields to the object of the request; empty if none is missing.

    All operations are `add`. An ApplicationInstance gets `spec.release`: the values of the stored object on an update,
    or else the instance's own name and namespace. An Operation gets apiVersion and kind in `spec.targetRef`.
    """
    new = request.written
    if new is None:
        return []
    spec, meta = new.get("spec"), read_meta(new)
    if meta.deletion_timestamp is not None or not isinstance(spec, Mapping):
        return []
    cls = class_of(new)
    if cls is ApplicationInstance and spec.get("mode") in (None, Mode.MANAGED.value):
        return _filled(spec, "release", _release(request, meta))
    if cls is Operation and isinstance(spec.get("targetRef"), Mapping):
        target = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
        return _filled(spec, "targetRef", {**target, **_before(request, "targetRef", target)})
    return []


def _release(request: AdmissionRequest, meta: ObjectMeta) -> dict[str, Any]:
    desired = {"name": request.name or meta.name, "namespace": request.namespace or meta.namespace}
    desired |= _before(request, "release", desired)
    fits = len(desired["name"]) <= _LONGEST_RELEASE and re.fullmatch(DNS_LABEL, desired["name"])
    # An invalid name is left for the schema to refuse: a shortened one would surprise.
    return {key: value for key, value in desired.items() if value and (key != "name" or fits)}


def _before(request: AdmissionRequest, part: str, desired: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the old object has in `spec.<part>`, for the keys of `desired`.

    An update must keep these values, since the fields are immutable.
    """
    value = get_path(request.old_object, "spec", part)
    return {key: value[key] for key in desired if isinstance(get_path(value, key), str)}


def _filled(spec: Mapping[str, Any], part: str, desired: Mapping[str, Any]) -> Patch:
    present = spec.get(part)
    if present is None:
        return [{"op": "add", "path": f"/spec/{part}", "value": dict(desired)}] if desired else []
    if not isinstance(present, Mapping):
        return []
    missing = {key: value for key, value in desired.items() if present.get(key) is None}
    return [{"op": "add", "path": f"/spec/{part}/{key}", "value": value} for key, value in missing.items()]
