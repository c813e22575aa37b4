"""The scale subresource: an `autoscaling/v1` Scale with the replica counts of another object."""

from collections.abc import Mapping
from typing import Any

from kubelab.model.definition import ServedKind
from kubelab.model.failure import bad_request, invalid
from purekube.apimachinery.manifest import Manifest
from purekube.schema.causes import invalid_value


def scale_of(definition: ServedKind, live: Manifest) -> dict[str, Any]:
    """Return the Scale of the object `live`, whose kind has the scale subresource."""
    paths = definition.scale
    if paths is None:
        raise ValueError(f"{definition.kind.kind} has no scale subresource")
    meta = live["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = _dig(live, paths.label_selector) if paths.label_selector else None
    status = {"replicas": _dig(live, paths.status_replicas) or 0}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in shown if key in meta},
        # The JSON tag of ScaleSpec.replicas says omitempty, so 0 is left out; that of the status has none.
        "spec": {"replicas": replicas} if (replicas := _dig(live, paths.spec_replicas)) else {},
        "status": {**status, "selector": text} if (text := _selector_text(selector)) else status,
    }


def _selector_text(selector: Any) -> str:
    """Return a selector as text: that of a custom resource is text already, that of a built-in kind an object."""
    if not isinstance(selector, Mapping):
        return selector if isinstance(selector, str) else ""
    equal = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    rules = [(rule["key"], _rule_text(rule)) for rule in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted([*equal, *rules]))


def _rule_text(rule: Mapping[str, Any]) -> str:
    key, values = rule["key"], ",".join(sorted(rule.get("values") or ()))
    match rule["operator"]:
        case "In" | "NotIn" as operator:
            return f"{key} {operator.lower()} ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return str(key)


def replicas_of(scale: Manifest, name: str) -> int:
    """Return `spec.replicas` of a Scale of the object `name`, 0 if absent.

    Raises ApiFailure 400 for what is not a Scale of this object, and 422 for a negative number.
    """
    spec = scale.get("spec") or {}
    replicas = spec.get("replicas", 0) if isinstance(spec, Mapping) else None
    if scale.get("kind") != "Scale" or not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("the object provided is no autoscaling/v1 Scale")
    given = (scale.get("metadata") or {}).get("name") or name
    if given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
    if replicas < 0:
        text = "must be greater than or equal to 0"
        raise invalid("autoscaling", "Scale", name, [invalid_value("spec.replicas", replicas, text)])
    return replicas


def scaled(definition: ServedKind, replicas: int, live: Manifest | None = None) -> dict[str, Any]:
    """Return a copy of `live`, an object of the kind `definition`, with `replicas` as its number of replicas.

    This is what a write to `/scale` changes. Without `live`, return an apply configuration that sets only this number.
    """
    paths = definition.scale
    if paths is None:
        raise ValueError(f"{definition.kind.kind} has no scale subresource")
    base: Manifest = live or {"apiVersion": definition.api_version, "kind": definition.kind.kind, "metadata": {}}
    return _put(base, paths.spec_replicas.split("."), replicas)


def _dig(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _put(manifest: Manifest, path: list[str], value: Any) -> dict[str, Any]:
    head, *rest = path
    return {**manifest, head: _put(manifest.get(head) or {}, rest, value) if rest else value}
