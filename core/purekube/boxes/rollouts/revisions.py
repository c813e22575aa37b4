"""The revisions of an applied box: its definitions as ControllerRevisions, and the revision of each parent (PH-10).

An applied box is an OperatorBox object in the cluster. Parents are the objects of the box's kind.

A definition is a box's spec without `rollout` and `deletionPolicy`, which concern all of the box's objects together.
Equal definitions are one revision, even if another definition was applied between them.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import BOX_DOMAIN, BOX_NAME, BROUGHT_TO, OPERATOR_BOX, PIN
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, content_hash, get_path, metadata
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.timestamps import format_time, time_or_none
from purekube.boxes.rollouts.reasons import BoxReason
from purekube.controller.decision import MergePatch
from purekube.controller.ownership import owner_reference

CONTROLLER_REVISION: Final = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")

PROVEN: Final = f"{BOX_DOMAIN}/proven"
"""The annotation of a ControllerRevision at which a parent (object of the box's kind) was once Ready."""
GIVEN_UP: Final = f"{BOX_DOMAIN}/given-up"
"""The annotation of a ControllerRevision that the rollout gave up: the parent that failed at it, and why."""
REFUSED: Final = f"{BOX_DOMAIN}/refused"
"""The annotation of a ControllerRevision whose writes would be refused: the parent concerned, and why."""
CONDITION: Final = "Revision"
"""The type of a parent's condition whose message begins with the name of the revision that decided the parent's
status.
"""

MOST_KEPT: Final = 10
"""The number of revisions that are kept in addition to those in use."""
_POLICY: Final = ("rollout", "deletionPolicy")


def definition_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an OperatorBox's spec that a revision stores: all except `rollout` and `deletionPolicy`. A
    change of these two makes no new revision.
    """
    return {name: value for name, value in spec.items() if name not in _POLICY}


def crd_name_of(definition: Mapping[str, Any]) -> str:
    """Return the name of the CRD of the kind in a box's `definition`; "" if the definition does not name the kind."""
    plural, group = (get_path(definition, "crd", "spec", *path) for path in (("names", "plural"), ("group",)))
    return str(get_path(definition, "crd", "name") or "") or (f"{plural}.{group}" if plural and group else "")


def owner_of_kind(revisions: Iterable[Manifest], boxes: Container[str]) -> str:
    """Return the name of the box whose definition of a kind was accepted first; "" if there is none.

    `boxes` are the names of existing boxes. `revisions` are all ControllerRevisions whose definitions have that kind.
    """
    accepted = (
        (str(metadata(each).get("creationTimestamp")), str(get_path(each, "metadata", "labels", BOX_NAME)))
        for each in revisions
    )
    return min((each for each in accepted if each[1] in boxes), default=("", ""))[1]


def revision_name(box: str, definition: Mapping[str, Any]) -> str:
    """Return the name of the revision that stores `definition` for the box named `box`."""
    return f"{box}-{content_hash(definition)[:10]}"


@attrs.frozen
class Revision:
    """One stored definition of a box. The revision with the highest `number` is the newest.

    `is_proven` says that a parent (object of the box's kind) was once Ready at this revision.
    """

    name: str
    number: int
    definition: Mapping[str, Any] = attrs.field(repr=False)
    ref: ObjectRef
    uid: str
    resource_version: str
    is_proven: bool = False
    given_up: str = ""
    """The parent that failed at this revision, and why, if the revision was undone; empty otherwise."""
    refused: str = ""
    """The parent for which the last dry run of this revision was refused, and why; empty if it was refused for none."""

    @property
    def is_sound(self) -> bool:
        """Report whether parents (objects of the box's kind) can return to this revision.

        They cannot if the rollout gave the revision up, because a parent failed at it. They cannot either if the last
        dry run of the revision found that a write for a parent would be refused.
        """
        return not self.given_up and not self.refused

    def annotated(self, **changed: str | None) -> Manifest:
        """Return a merge patch that sets annotations of the revision's ControllerRevision; the value None removes an
        annotation.

        `changed` maps names to values. A name is that of the annotation without `box.vworkspace.io/`, and with `_` for
        `-`: `given_up`. The API server refuses the patch if the object has changed since it was read.
        """
        named = {f"{BOX_DOMAIN}/{name.replace('_', '-')}": value for name, value in changed.items()}
        return {"metadata": {"resourceVersion": self.resource_version, "annotations": named}}


def read_revisions(manifests: Iterable[Manifest]) -> tuple[Revision, ...]:
    """Read the revisions of one box from `manifests`, its ControllerRevisions, and return them with the oldest first.
    Objects that are not such a revision are left out.
    """
    revisions = (_read(manifest) for manifest in manifests)
    return tuple(sorted(filter(None, revisions), key=lambda revision: (revision.number, revision.name)))


def _read(manifest: Manifest) -> Revision | None:
    meta, definition = metadata(manifest), get_path(manifest, "data", "spec")
    number = manifest.get("revision")
    if not isinstance(definition, Mapping) or not isinstance(number, int):
        return None
    annotations = meta.get("annotations") or {}
    return Revision(
        str(meta["name"]),
        number,
        definition,
        ObjectRef(CONTROLLER_REVISION, str(meta.get("namespace", "")), str(meta["name"])),
        str(meta.get("uid", "")),
        str(meta.get("resourceVersion", "")),
        PROVEN in annotations,
        str(annotations.get(GIVEN_UP) or ""),
        str(annotations.get(REFUSED) or ""),
    )


def revision_manifest(box: ObjectMeta, namespace: str, definition: Mapping[str, Any], number: int) -> Manifest:
    """Return the ControllerRevision that stores the definition of a box as its revision number `number`.

    The ControllerRevision is in `namespace`. It is owned by the box, and so deleted with the box.
    """
    owner = {**owner_reference(OPERATOR_BOX, box), "blockOwnerDeletion": False}
    meta = {"labels": {BOX_NAME: box.name}, "ownerReferences": [owner]}
    name = revision_name(box.name, definition)
    return CONTROLLER_REVISION.manifest(name, namespace, meta, data={"spec": definition}, revision=number)


def way_back(history: Sequence[Revision], present: str) -> Revision | None:
    """Return the revision to which `rollout undo` returns from the revision `present`; None if there is none.

    It is the newest other revision that the rollout did not give up after a parent (object of the box's kind) failed at
    it, and whose last dry run found no write that would be refused. If any revision of the box ever had a Ready parent,
    the chosen revision must have had one too. `history` has all revisions, oldest first.
    """
    earlier = [revision for revision in history if revision.name != present and revision.is_sound]
    if any(revision.is_proven for revision in history):
        earlier = [revision for revision in earlier if revision.is_proven]
    return earlier[-1] if earlier else None


def superfluous(history: Sequence[Revision], in_use: Iterable[str]) -> Iterator[Revision]:
    """Yield the oldest of the revisions in `history` that are not in use, so that at most `MOST_KEPT` unused ones
    remain.

    `history` has the oldest revision first. `in_use` has the names of the revisions that are in use.
    """
    used = set(in_use)
    unused = [revision for revision in history if revision.name not in used]
    yield from unused[: max(0, len(unused) - MOST_KEPT)]


# --- the revision of a parent -----------------------------------------------------------------------------------------


@attrs.frozen
class BroughtTo:
    """The record, in an annotation of a parent (object of a box's kind), of its revision and the time when it got that
    one.

    Both fields are empty if the parent has no such annotation.
    """

    revision: str = ""
    since: datetime | None = None

    @classmethod
    def of(cls, meta: ObjectMeta) -> "BroughtTo":
        """Read the revision and the time from the parent's annotation. Never raises."""
        name, _, since = meta.annotations.get(BROUGHT_TO, "").partition(" ")
        return cls(name, time_or_none(since))


def record_of(revision: str, now: datetime) -> str:
    """Return the text of the annotation by which a parent (object of the box's kind) records its revision.

    The text says that the parent has had `revision` since the time `now`.
    """
    return f"{revision} {format_time(now)}"


def move(ref: ObjectRef, meta: ObjectMeta, revision: str, now: datetime) -> MergePatch:
    """Return the patch that gives the parent `ref` (object of the box's kind) the revision `revision`.

    The parent gets the revision, with the time `now`, as an annotation. `meta` is the parent's metadata as last read:
    the API server refuses the patch if the parent has changed since then.
    """
    changed = {BROUGHT_TO: record_of(revision, now)}
    return MergePatch(ref, {"metadata": {"resourceVersion": meta.resource_version, "annotations": changed}})


@attrs.frozen
class Assignments:
    """The revisions that parents (objects of a box's kind) may have, oldest first.

    `newcomers` is the revision that new parents get.
    """

    names: tuple[str, ...]
    newcomers: str

    def of(self, meta: ObjectMeta) -> str:
        """Return the name of the revision of the parent (object of the box's kind) with this metadata.

        This is the revision to which an annotation pins the parent, or else the recorded revision, or else the revision
        of new parents.
        """
        recorded, _, _ = meta.annotations.get(BROUGHT_TO, "").partition(" ")
        chosen = (meta.annotations.get(PIN), recorded)
        return next((name for name in chosen if name in self.names), self.newcomers)

    def told(self, meta: ObjectMeta) -> tuple[str, str]:
        """Return the reason and the message for the condition Revision of the parent with this metadata.

        A parent is an object of the box's kind.
        """
        name, pin = self.of(meta), meta.annotations.get(PIN)
        if pin is None:
            return "Recorded", name
        if pin != name:
            return (
                BoxReason.NO_SUCH_REVISION,
                f"{name}, since the annotation {PIN} names {pin}, which the box does not have",
            )
        behind = len(self.names) - 1 - self.names.index(name)
        age = f"{behind} behind {self.names[-1]}" if behind else "the newest"
        return "Pinned", f"{name}, pinned by the annotation {PIN}: {age}"


def assignments_of(history: Sequence[Revision], in_use: Iterable[str], target: str) -> Assignments:
    """Return which revisions parents (objects of the box's kind) may have, and which one a new parent gets.

    A new parent gets the newest revision at which a parent was ever Ready; until there is such a revision, a new parent
    gets the oldest revision in use. If none is in use, it gets `target`. `history` has all revisions, oldest first.
    """
    used = set(in_use)
    sound = [revision for revision in history if not revision.given_up]
    proven = [revision.name for revision in sound if revision.is_proven]
    held = [revision.name for revision in sound if revision.name in used]
    newcomers = proven[-1] if proven else held[0] if held else target
    return Assignments(tuple(revision.name for revision in history), newcomers)
