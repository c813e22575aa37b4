"""The field manager that applied an object, and an estimate of the object after that manager applies it again (SEE-2).

A server-side apply removes the fields that its manager alone held and now omits. `kubectl apply` without
`--server-side` removes the fields that its annotation has and the new configuration omits.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import LAST_APPLIED, Manifest, get_path, merge_patch, metadata, patch_between
from purekube.controller.managed_fields import entries

_HOLDERS_OF_THE_ANNOTATION: Final = ("kubectl-last-applied",)
"""The managers with which `kubectl apply --server-side` holds that annotation alone."""


@attrs.frozen
class Applier:
    """A field manager that applies an object.

    `is_client_side` is True if it applies as `kubectl apply` without `--server-side` does.
    """

    manager: str
    is_client_side: bool = False


KUBECTL: Final = Applier("kubectl")
KUBECTL_CLIENT_SIDE: Final = Applier("kubectl-client-side-apply", is_client_side=True)


def applier_named(manager: str) -> Applier:
    """Return the applier with this name of a field manager."""
    return KUBECTL_CLIENT_SIDE if manager == KUBECTL_CLIENT_SIDE.manager else Applier(manager)


def appliers_of(live: Manifest | None, operators: Collection[str] = ()) -> tuple[Applier, ...]:
    """Return the field managers that applied the object `live`, the latest first. Those in `operators` are left out.

    If any of them owns fields of the spec, only such managers are returned: the others only apply labels of their own.
    """
    found = [
        (str(get_path(entry, "time") or ""), index, applier, entry)
        for index, entry in entries(live)
        if (applier := _applier(entry, operators)) is not None
    ]
    of_spec = [each for each in found if each[2].is_client_side or get_path(each[3], "fieldsV1", "f:spec") is not None]
    latest = sorted(of_spec or found, key=lambda each: each[:2], reverse=True)
    appliers = tuple(dict.fromkeys(applier for _, _, applier, _ in latest))
    return appliers or ((KUBECTL_CLIENT_SIDE,) if _last_applied(live) else ())


def _applier(entry: Any, operators: Collection[str]) -> Applier | None:
    """Return the applier that an entry of managedFields records; None if the entry records another kind of write."""
    manager = str(get_path(entry, "manager"))
    if get_path(entry, "subresource") or manager in operators or manager in _HOLDERS_OF_THE_ANNOTATION:
        return None
    if get_path(entry, "operation") == "Apply":
        return Applier(manager)
    kept = get_path(entry, "fieldsV1", "f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
    return None if kept is None else Applier(manager, is_client_side=True)


def estimated(live: Manifest | None, manifest: Manifest, applier: Applier) -> Manifest:
    """Return an estimate of the object after the applier applied `manifest` to `live`, without the API server's
    defaults. `live` is None if the object does not exist.
    """
    if live is None:
        return manifest
    if applier.is_client_side:
        patched: Manifest = merge_patch(live, client_side_patch(live, manifest))
        return patched
    mine: list[Any] = []
    others: list[Any] = []
    for _, entry in entries(live):
        is_mine = (get_path(entry, "manager"), get_path(entry, "operation")) == (applier.manager, "Apply")
        (mine if is_mine and not get_path(entry, "subresource") else others).append(get_path(entry, "fieldsV1"))
    left: Any = live
    for fields in mine:
        left = _without_given_up(left, manifest, fields, others)
    after: Manifest = overlaid(left, manifest)
    return after


def overlaid(live: Any, desired: Any) -> Any:
    """Return an estimate of the first server-side apply of `desired` on `live`: maps merged, lists replaced."""
    if not isinstance(live, Mapping) or not isinstance(desired, Mapping):
        return desired
    merged = {key: overlaid(live[key], desired[key]) if key in desired else live[key] for key in live}
    return {**merged, **{key: value for key, value in desired.items() if key not in live}}


def _without_given_up(live: Any, desired: Any, mine: Any, others: Sequence[Any]) -> Any:
    """Return `live` without the fields of the field set `mine` (FieldsV1) that `desired` omits and no other manager
    owns.

    `others` are the field sets of other managers. Items of lists stay: `desired` replaces lists as a whole.
    """
    if not isinstance(live, Mapping) or not isinstance(mine, Mapping):
        return live
    left = dict(live)
    for step, beneath in mine.items():
        name = step.removeprefix("f:")
        if name == step or name not in live:
            continue
        held = [fields[step] for fields in others if isinstance(fields, Mapping) and step in fields]
        left[name] = _without_given_up(live[name], get_path(desired, name), beneath, held)
        is_omitted = not isinstance(desired, Mapping) or name not in desired
        if is_omitted and not held and (left[name] == {} or not _is_map(beneath)):
            del left[name]
    return left


def _is_map(beneath: Any) -> bool:
    """Report whether the part `beneath` of a field set names fields, and so describes a map, not a single value."""
    return isinstance(beneath, Mapping) and any(step.startswith("f:") for step in beneath)


# --- kubectl apply without --server-side ------------------------------------------------------------------------


def client_side_patch(live: Manifest, manifest: Manifest) -> dict[str, Any]:
    """Return the merge patch that `kubectl apply` without `--server-side` sends for `manifest`.

    The patch changes what differs from `live`, and removes what the configuration applied last has and `manifest`
    omits. kubectl also writes `manifest` into an annotation, which the result leaves out. kubectl sends such a patch
    for all kinds that a CRD defines.
    """
    desired = without_last_applied(manifest)
    removed = _removals(patch_between(_last_applied(live), _with_annotations(desired)))
    return _combined(removed, _values(patch_between(live, desired)))


def _with_annotations(manifest: Manifest) -> Manifest:
    """Return the manifest with annotations, if need be empty ones.

    What `kubectl` keeps and sends always has annotations, since one of them is its own. A manifest without the field
    would remove all annotations.
    """
    meta = metadata(manifest)
    return {**manifest, "metadata": {**meta, "annotations": meta.get("annotations") or {}}}


def without_last_applied(manifest: Manifest) -> Manifest:
    """Return the manifest without kubectl's annotation for the configuration that it applied last."""
    annotations = get_path(manifest, "metadata", "annotations")
    if not isinstance(annotations, Mapping) or LAST_APPLIED not in annotations:
        return manifest
    others = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    meta = {name: value for name, value in metadata(manifest).items() if name != "annotations"}
    return {**manifest, "metadata": {**meta, "annotations": others} if others else meta}


def _last_applied(live: Manifest | None) -> Mapping[str, Any]:
    """Return the configuration in kubectl's annotation, or an empty mapping if there is none that can be read."""
    text = get_path(live, "metadata", "annotations", LAST_APPLIED)
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _removals(patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return only those parts of a merge patch that remove fields."""
    beneath = {key: _removals(value) for key, value in patch.items() if isinstance(value, Mapping)}
    nulls: dict[str, Any] = {key: None for key, value in patch.items() if value is None}
    return {**nulls, **{key: value for key, value in beneath.items() if value}}


def _values(patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return only those parts of a merge patch that set fields. An empty map is a value."""
    kept: dict[str, Any] = {}
    for key, value in patch.items():
        left = _values(value) if isinstance(value, Mapping) else value
        if left is not None and (left != {} or value == {}):
            kept[key] = left
    return kept


def _combined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return one merge patch with the effects of two; where they disagree, with those of the second."""
    out = dict(first)
    for key, value in second.items():
        old = first.get(key)
        out[key] = _combined(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return out
