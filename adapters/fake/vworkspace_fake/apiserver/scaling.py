"""The scale subresource: replicas of any kind, seen and set as one `autoscaling/v1` Scale (S-51)."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.manifest import dig
from vworkspace_core.ports import PatchType
from vworkspace_fake.apiserver.definition import Definition, ScalePaths
from vworkspace_fake.apiserver.failure import FailureCause, bad_request, invalid, unsupported_media_type
from vworkspace_fake.apiserver.patches import json_patch, merge_patch

__all__ = ["applied_scale", "patched_scale", "rescaled", "scale_of"]

Manifest = Mapping[str, Any]


def scale_of(definition: Definition, live: Manifest) -> dict[str, Any]:
    """The Scale of an object."""
    paths = _paths(definition)
    meta = live["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": dig(live, *paths.status_replicas.split(".")) or 0}
    selector = _selector(definition, live)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": dig(live, *paths.spec_replicas.split(".")) or 0},
        "status": status,
    }


def rescaled(definition: Definition, live: Manifest, scale: Any) -> Manifest:
    """`live` with the replicas of a Scale, and its resourceVersion as a precondition when it names one."""
    replicas = _replicas(scale, live)
    version = dig(scale, "metadata", "resourceVersion") or live["metadata"]["resourceVersion"]
    changed = _with(live, _paths(definition).spec_replicas.split("."), replicas)
    return {**changed, "metadata": {**live["metadata"], "resourceVersion": version}}


def patched_scale(definition: Definition, live: Manifest, patch: Any, patch_type: PatchType) -> Manifest:
    """`live` after a patch of its Scale."""
    scale = scale_of(definition, live)
    match patch_type:
        case PatchType.JSON:
            return rescaled(definition, live, json_patch(scale, patch))
        case PatchType.MERGE:
            return rescaled(definition, live, merge_patch(scale, patch))
        case PatchType.STRATEGIC if definition.built_in:
            return rescaled(definition, live, merge_patch(scale, patch))
        case _:
            raise unsupported_media_type((PatchType.JSON.value, PatchType.MERGE.value))


def applied_scale(definition: Definition, live: Manifest, scale: Any) -> Manifest:
    """An apply configuration of the object that says what an applied Scale says."""
    if not isinstance(scale, Mapping) or scale.get("kind") != "Scale":
        raise bad_request(f"invalid object type: /, Kind={dig(scale, 'kind') or ''}")
    config = {**definition.empty(), "metadata": {"name": live["metadata"]["name"]}}
    return _with(config, _paths(definition).spec_replicas.split("."), _replicas(scale, live))


def _paths(definition: Definition) -> ScalePaths:
    assert definition.scale is not None, "only kinds with a scale subresource get here"
    return definition.scale


def _replicas(scale: Any, live: Manifest) -> int:
    if not isinstance(scale, Mapping):
        raise bad_request("a Scale is an object")
    replicas = dig(scale, "spec", "replicas")
    if replicas is None:
        return 0
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise bad_request("json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32")
    if replicas < 0:
        cause = FailureCause("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", live["metadata"]["name"], (cause,))
    return replicas


def _selector(definition: Definition, live: Manifest) -> str:
    if definition.built_in:
        labels = dig(live, "spec", "selector", "matchLabels") or {}
        return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    path = _paths(definition).label_selector
    return str(dig(live, *path.split(".")) or "") if path else ""


def _with(manifest: Manifest, path: list[str], value: Any) -> dict[str, Any]:
    """A copy of `manifest` with `value` at `path`."""
    first, *rest = path
    inner = manifest.get(first)
    return {**manifest, first: _with(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value}
