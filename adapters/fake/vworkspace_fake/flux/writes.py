"""Patches as Flux sends them: merge patches of what changed, conditions apart and first."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from vworkspace_core.apimachinery.manifest import Manifest, dig, metadata
from vworkspace_fake.flux.conditions import conditions_of, merge_conditions


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns `before` into `after`; empty when they are equal."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        known = before.get(key)
        if key in before and known == value:
            continue
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            patch[key] = merge_diff(known, value)
        else:
            patch[key] = value
    return patch


def conditions_patch(latest: Manifest, before: Manifest, after: Manifest, now: datetime) -> dict[str, Any] | None:
    """The status patch that brings the changed conditions to the latest object; None when none changed.

    It carries the resourceVersion it was made from: a conflict means looking at the object again.
    """
    if list(conditions_of(before)) == list(conditions_of(after)):
        return None
    merged = merge_conditions(latest, conditions_of(before), conditions_of(after), now)
    if merged == list(conditions_of(latest)):
        return None
    return {
        "metadata": {"resourceVersion": metadata(latest).get("resourceVersion")},
        "status": {"conditions": merged},
    }


def metadata_patch(before: Manifest, after: Manifest) -> dict[str, Any] | None:
    """The patch of the object itself: the finalizers, replaced as a whole and without a lock, as Flux does."""
    diff = merge_diff(metadata(before), metadata(after))
    return {"metadata": diff} if diff else None


def status_patch(before: Manifest, after: Manifest) -> dict[str, Any] | None:
    """The patch of the status without its conditions; None when nothing else changed."""
    if "status" in before and "status" not in after:
        return {"status": None}
    diff = merge_diff(_rest(before), _rest(after))
    return {"status": diff} if diff else None


def _rest(manifest: Manifest) -> Mapping[str, Any]:
    status = dig(manifest, "status")
    return {key: value for key, value in status.items() if key != "conditions"} if isinstance(status, Mapping) else {}
