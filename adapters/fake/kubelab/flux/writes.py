"""Patches as Flux sends them: merge patches of the changes, with the conditions apart and first."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kubelab.flux.conditions import conditions_of, merge_conditions
from kubelab.simulation.effects import PassStep, get_object, patch_object
from kubelab.simulation.patches import merge_diff
from purekube.apimachinery.errors import Stale
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata

_CONFLICTS: Final = 4
"""The number of consecutive conflicts that a patch of the conditions survives."""


def write_difference(
    ref: ObjectRef, before: Manifest, after: Manifest, now: datetime, *, conditions: bool = True
) -> PassStep[None]:
    """Write the difference between two states of one object: conditions, then metadata, then the rest of the status.

    Each is sent only if it changed. As with the real controllers, readers can see Ready=True before the history that
    belongs to it. Nothing more is written to an object that is gone. With `conditions` false they are left out.
    """
    if conditions and not (yield from _write_conditions(ref, before, after, now)):
        return
    body = metadata_patch(before, after)
    if body is not None and not (yield from patch_object(ref, body)):
        return
    body = status_patch(before, after)
    if body is not None:
        yield from patch_object(ref, body, subresource="status")


def _write_conditions(ref: ObjectRef, before: Manifest, after: Manifest, now: datetime) -> PassStep[bool]:
    """Merge the changed conditions into the latest object, even if it changes meanwhile; return whether it exists."""
    for _ in range(_CONFLICTS):
        try:
            return (yield from _merge_conditions(ref, before, after, now))
        except Stale:
            continue
    return (yield from _merge_conditions(ref, before, after, now))


def _merge_conditions(ref: ObjectRef, before: Manifest, after: Manifest, now: datetime) -> PassStep[bool]:
    latest = yield from get_object(ref)
    if latest is None:
        return False
    body = conditions_patch(latest, before, after, now)
    return body is None or (yield from patch_object(ref, body, subresource="status"))


def conditions_patch(latest: Manifest, before: Manifest, after: Manifest, now: datetime) -> dict[str, Any] | None:
    """Return the status patch that merges the changed conditions into the latest object; None if none changed.

    It has the resourceVersion of `latest`: after a conflict the object has to be read again.
    """
    if list(conditions_of(before)) == list(conditions_of(after)):
        return None
    merged = merge_conditions(latest, conditions_of(before), conditions_of(after), now)
    if merged == list(conditions_of(latest)):
        return None
    # Only the conditions are sent with a lock; in the rest of the status the last writer wins.
    return {
        "metadata": {"resourceVersion": metadata(latest).get("resourceVersion")},
        "status": {"conditions": merged},
    }


def metadata_patch(before: Manifest, after: Manifest) -> dict[str, Any] | None:
    """Return the patch of the object itself: the finalizers, replaced as a whole and without a lock, as Flux does."""
    diff = merge_diff(metadata(before), metadata(after))
    return {"metadata": diff} if diff else None


def status_patch(before: Manifest, after: Manifest) -> dict[str, Any] | None:
    """Return the patch of the status without its conditions; None if nothing else changed."""
    if "status" in before and "status" not in after:
        return {"status": None}
    diff = merge_diff(_rest(before), _rest(after))
    return {"status": diff} if diff else None


def _rest(manifest: Manifest) -> Mapping[str, Any]:
    status = get_path(manifest, "status")
    return {key: value for key, value in status.items() if key != "conditions"} if isinstance(status, Mapping) else {}
