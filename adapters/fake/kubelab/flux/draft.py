"""The working copy of an object during one pass of a controller, and the writes that follow from it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kubelab.flux.conditions import (
    DRIFTED,
    FETCH_FAILED,
    READY,
    RECONCILING,
    STALLED,
    condition,
    merge_conditions,
    status_of,
    with_condition,
    without_condition,
)
from kubelab.model.records import decode, encode
from kubelab.simulation.effects import PassStep, PostEvent, Sleep, get_object, patch_object
from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.errors import Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, patch_between, ref_of
from purekube.apimachinery.timestamps import format_time

# Five attempts in all, as in the backoff of patch/patch.go, patchStatusConditions.
_CONFLICTS: Final = 4
"""The number of consecutive conflicts after which a patch of the conditions is still repeated."""


def write_difference(
    ref: ObjectRef, before: Manifest, after: Manifest, now: datetime, *, conditions: bool = True
) -> PassStep[None]:
    """Write the difference between `before` and `after`, two states of the object `ref`, into the cluster.

    `now` is the time of the change. The conditions are written first, then the metadata, then the rest of the status,
    each only if it changed. Readers can thus see Ready=True before the matching history, as with the real controllers.
    The writing stops if the object no longer exists. With `conditions` False the conditions are left out.
    """
    # fluxcd/pkg: runtime/patch/patch.go, Patch. Go evaluates its three calls in this order.
    if conditions and not (yield from _write_conditions(ref, before, after, now)):
        return
    body = metadata_patch(before, after)
    if body is not None and not (yield from patch_object(ref, body)):
        return
    body = status_patch(before, after)
    if body is not None:
        yield from patch_object(ref, body, subresource="status")


def _write_conditions(ref: ObjectRef, before: Manifest, after: Manifest, now: datetime) -> PassStep[bool]:
    """Merge the changed conditions into the latest object, and repeat that after each conflict.

    Return whether the object still exists.
    """
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
    """Return the status patch that merges changed conditions into the object `latest`, or None if none changed.

    The changes are those from `before` to `after`, two states of the object in a pass, and `now` is their time. The
    patch has the resourceVersion of `latest`. After a conflict the object must be read again.
    """
    if conditions_of(before) == conditions_of(after):
        return None
    merged = merge_conditions(latest, conditions_of(before), conditions_of(after), now)
    if merged == conditions_of(latest):
        return None
    # Only the conditions are sent with a lock; in the rest of the status the last writer wins (patch/patch.go,
    # patchStatusConditions and patchStatus).
    return {"metadata": {"resourceVersion": metadata(latest).get("resourceVersion")}, "status": {"conditions": merged}}


def metadata_patch(before: Manifest, after: Manifest) -> dict[str, Any] | None:
    """Return the patch that changes an object's metadata from `before` to `after`, or None if both are equal.

    The patch replaces all finalizers without a resourceVersion, as Flux does.
    """
    # Go sends a merge patch (MergeFrom), in which a list is one value: a finalizer that another client added since is
    # lost.
    diff = patch_between(metadata(before), metadata(after))
    return {"metadata": diff} if diff else None


def status_patch(before: Manifest, after: Manifest) -> dict[str, Any] | None:
    """Return the patch that changes an object's status, except its conditions, from `before` to `after`.

    Return None if that part of the status has not changed.
    """
    if "status" in before and "status" not in after:
        return {"status": None}
    diff = patch_between(_rest(before), _rest(after))
    return {"status": diff} if diff else None


def _rest(manifest: Manifest) -> Mapping[str, Any]:
    status = get_path(manifest, "status")
    return {key: value for key, value in status.items() if key != "conditions"} if isinstance(status, Mapping) else {}


FINALIZER = "finalizers.fluxcd.io"
"""The finalizer of both controllers, on HelmReleases and on sources."""

REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"

_NORMAL = ("PendingRelease", "DependencyNotReady", "NewArtifact", "DriftCorrected", "HelmChartCreated")
"""The reasons of Events of type Normal, in addition to those that end with `Succeeded`."""


class Draft:
    """A working copy of one object, with the simulated time of the pass that changes it.

    The object is read once, at the beginning of the pass, so a controller that is busy with an upgrade does not see
    later changes of the spec. `patch` writes the changes since the last patch. If one pass changes the condition
    Drifted twice, the second patch raises Stale, as the real helm-controller gets a conflict: it does not declare that
    condition as its own. Without `events` no Events are posted.
    """

    def __init__(self, manifest: Manifest, kind: Kind, now: datetime, *, events: bool = False) -> None:
        self.object: dict[str, Any] = _copy_of(manifest)
        self.ref: ObjectRef = ref_of(manifest, kind)
        self.now = now
        self._before: Manifest = manifest
        self._drift_written = False
        self._events: list[PostEvent] | None = [] if events else None
        self.had_failed = status_of(manifest, FETCH_FAILED) == "True"

    @property
    def generation(self) -> int:
        """The generation of the spec that this pass works on."""
        return int(get_path(self.object, "metadata", "generation") or 0)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec that this pass works on."""
        spec = self.object.get("spec")
        return spec if isinstance(spec, Mapping) else {}

    @property
    def status(self) -> dict[str, Any]:
        """The status in the working copy, which callers change in place."""
        status: dict[str, Any] = self.object.setdefault("status", {})
        return status

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations."""
        annotations = metadata(self.object).get("annotations")
        return annotations if isinstance(annotations, Mapping) else {}

    @property
    def deleting(self) -> bool:
        """True if the object has a deletion timestamp."""
        return bool(metadata(self.object).get("deletionTimestamp"))

    @property
    def has_finalizer(self) -> bool:
        """True if the object has Flux's finalizer."""
        return FINALIZER in (metadata(self.object).get("finalizers") or ())

    def add_finalizer(self) -> None:
        """Add Flux's finalizer to the working copy of the object."""
        meta = self.object["metadata"]
        meta["finalizers"] = [*(meta.get("finalizers") or ()), FINALIZER]

    def remove_finalizer(self) -> None:
        """Remove Flux's finalizer from the working copy of the object, if it is there."""
        if self.has_finalizer:
            meta = self.object["metadata"]
            meta["finalizers"] = [item for item in meta["finalizers"] if item != FINALIZER]

    def mark(self, type_: str, status: str, reason: str, message: str) -> None:
        """Set the condition `type_` to `status` in the working copy, with this reason and message.

        The next `patch` writes it to the object. The condition's `observedGeneration` is the generation that this pass
        works on.
        """
        new = {"type": type_, "status": status, "reason": reason, "message": message}
        self.status["conditions"] = with_condition(
            conditions_of(self.object), new, generation=self.generation, now=self.now
        )

    def report(self, type_: str, status: str, reason: str, message: str) -> None:
        """Set the condition `type_` in the status of the working copy, and queue an Event with its reason and message.

        The next `patch` writes the condition and posts the Event. If the working copy was made without `events`, no
        Event is queued.
        """
        self.mark(type_, status, reason, message)
        self.tell(reason, message)

    def tell(self, reason: str, message: str) -> None:
        """Queue an Event about the object with this reason and message, which the next `patch` posts.

        Nothing is queued if the working copy was made without `events`. The Event's type, Normal or Warning, follows
        from the reason.
        """
        if self._events is not None:
            kind = "Normal" if reason.endswith("Succeeded") or reason in _NORMAL else "Warning"
            uid = str(metadata(self.object).get("uid", ""))
            self._events.append(PostEvent(self.ref, uid, kind, reason, message, self.timestamp()))

    def unmark(self, type_: str) -> None:
        """Remove the condition of the type `type_` from the status of the working copy, if it is there."""
        if condition(self.object, type_) is not None:
            self.status["conditions"] = without_condition(conditions_of(self.object), type_)

    def mark_reconciling(self, reason: str, message: str) -> None:
        """Set Reconciling=True in the status of the working copy, with this reason and message, and remove Stalled."""
        self.unmark(STALLED)
        self.mark(RECONCILING, "True", reason, message)

    def mark_stalled(self, reason: str, message: str) -> None:
        """Set Stalled=True in the status of the working copy, with this reason and message, and remove Reconciling."""
        self.unmark(RECONCILING)
        self.mark(STALLED, "True", reason, message)

    def progress(self, message: str, *, drift: bool) -> None:
        """Set Reconciling=True in the status of the working copy, with `message`, and remove Stalled.

        Also set Ready=Unknown if `drift` says that the present artifact is outdated, or if Ready has not been True or
        False yet.
        """
        self.mark_reconciling("Progressing", message)
        ready = condition(self.object, READY)
        if drift or ready is None or ready["status"] == "Unknown":
            self.mark(READY, "Unknown", "Progressing", message)

    def handle_request(self) -> None:
        """Copy the annotation `requestedAt` into `status.lastHandledReconcileAt` of the working copy.

        The annotation is the token of a manual request to reconcile. Without one nothing is copied.
        """
        # Any token counts, also an older time than the last one: it is compared as text.
        token = self.annotations.get(REQUESTED_AT)
        if token is not None:
            self.status["lastHandledReconcileAt"] = token

    def timestamp(self) -> str:
        """Return the current simulated time as a string in the format of times in a status (RFC 3339)."""
        return format_time(self.now)

    def sleep(self, seconds: float) -> PassStep[None]:
        """Let `seconds` pass while the controller is busy. The working copy does not change."""
        if seconds > 0:
            self.now = yield Sleep(seconds)

    def patch(self, *, observed: bool = False) -> PassStep[None]:
        """Write the changes of the working copy since the last patch to the object, and post the queued Events.

        With `observed`, `status.observedGeneration` is also set, to the generation that this pass works on.
        """
        if observed:
            self.status["observedGeneration"] = self.generation
        events, self._events = self._events or [], None if self._events is None else []
        yield from events
        before = self._before
        if before == self.object:
            return
        self._before = _copy_of(self.object)
        # Drifted is missing in helm-controller's OwnedConditions (reconcile/atomic_release.go), so a change of it is
        # refused if the live one is not as expected (conditions/patch.go, Apply): the second in a pass always was
        # (tests/conformance/flux/drift_is_corrected.json).
        drifted = condition(self.object, DRIFTED)
        moved = drifted is not None and drifted != condition(before, DRIFTED)
        conflict, self._drift_written = moved and self._drift_written, moved or self._drift_written
        yield from write_difference(self.ref, before, self._before, self.now, conditions=not conflict)
        if conflict:
            raise Stale(f'error patching conditions: The condition "{DRIFTED}" was modified by a different process')


def _copy_of(manifest: Manifest) -> dict[str, Any]:
    """Return a deep copy of a manifest. JSON is used because it is five times as fast as `copy.deepcopy`."""
    copy: dict[str, Any] = decode(encode(manifest))
    return copy
