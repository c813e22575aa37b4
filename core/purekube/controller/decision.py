"""Input and output of a reconcile decision as plain data (REC-2), with the time of the next reconcile (REC-6)."""

import string
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Final

import attrs

from purekube.apimachinery.conditions import Transition
from purekube.apimachinery.errors import Forbidden, Invalid, OperatorError, Permanent, Right, Stale, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, encoded_fields, ref_of
from purekube.ports import KubernetesEvent

SLOW_SECONDS: Final = 60.0
"""The delay in seconds before a retry that only an outside change can make succeed. A watch event may come earlier."""

REFUSED_SECONDS: Final = 30.0
"""The longest backoff in seconds while a right is missing. No watch event reports a newly granted role."""


class RequeuePace(Enum):
    """The rule for the delay before an object's next reconcile pass, and for its failure count in the work queue.

    For example, BACKOFF counts a failure and waits for the object's exponential backoff, and NONE resets the count.
    """

    NONE = "no failure that a retry can cure; the count starts anew"
    IMMEDIATE = "the copy was overtaken: at once; only from the second time in a row, after 50 ms or more"
    BACKOFF = "a transient failure: after the key's exponential backoff"
    SLOW = "only outside help can cure it: after a minute; the count starts anew"
    REFUSED = "a right is missing: backoff of half a minute at most, so that it goes on soon after the role came"
    TOLD = "a failure: after the seconds that are told, or not at all; the count goes on"
    UNDECIDED = "nothing was decided; the count stays as it is"


@attrs.frozen
class Requeue:
    """The time of an object's next reconcile, if no watch event triggers a reconcile earlier.

    `after` is an upper limit in seconds that applies whatever the backoff is (OPS-12), or None for no limit. The pace
    IMMEDIATE (the write was refused because the object had changed) ignores `after`. `not_before` is the number of
    seconds from the server's `Retry-After` in which no request may be sent.
    """

    pace: RequeuePace = RequeuePace.NONE
    after: float | None = None
    not_before: float = 0.0

    NO: ClassVar["Requeue"]
    IMMEDIATE: ClassVar["Requeue"]
    BACKOFF: ClassVar["Requeue"]
    SLOW: ClassVar["Requeue"]
    REFUSED: ClassVar["Requeue"]

    @classmethod
    def at_latest(cls, seconds: float | None) -> "Requeue":
        """Return a requeue after at most `seconds` that does not count as a failure.

        For None, return `Requeue.NO`, which sets no time.
        """
        return cls.NO if seconds is None else cls(after=seconds)

    def no_later_than(self, seconds: float | None) -> "Requeue":
        """Return this requeue with `after` lowered to `seconds`; unchanged for None, or if `after` is already lower."""
        if seconds is None or (self.after is not None and self.after <= seconds):
            return self
        return attrs.evolve(self, after=seconds)


Requeue.NO = Requeue()
Requeue.IMMEDIATE = Requeue(RequeuePace.IMMEDIATE)
Requeue.BACKOFF = Requeue(RequeuePace.BACKOFF)
Requeue.SLOW = Requeue(RequeuePace.SLOW)
Requeue.REFUSED = Requeue(RequeuePace.REFUSED)


def requeue_for(error: OperatorError | None) -> Requeue:
    """Return the requeue after a request that failed with `error`.

    The result is `Requeue.NO` (no time is set) if `error` is None, or is an error that a retry cannot fix. Its pace is
    IMMEDIATE for Stale, REFUSED (a backoff of at most half a minute) for a missing right, and otherwise BACKOFF, not
    before the server's `Retry-After`.
    """
    match error:
        case None | Invalid() | Permanent() | Forbidden(namespace_terminating=True):
            return Requeue.NO
        case Stale():
            return Requeue.IMMEDIATE
        case Forbidden() if error.right is not None:
            return Requeue.REFUSED
        case Unavailable(retry_after=seconds) if seconds:
            return Requeue(RequeuePace.BACKOFF, not_before=seconds)
        case _:
            return Requeue.BACKOFF


ALPHANUMERIC: Final = string.ascii_letters + string.digits
"""The default alphabet of the random text of a `Fill`."""


@attrs.frozen
class Failure:
    """A write that the API server refused.

    `live` is the object with its managedFields, if it could be read. `wanted` is the manifest that was refused.
    """

    ref: ObjectRef
    verb: str
    error: OperatorError
    live: Manifest | None = None
    wanted: Manifest | None = None


@attrs.frozen
class Snapshot:
    """The observed state on which a decision about a source (the reconciled object) is made.

    `objects` holds the existing downstream objects, in any order: every object whose name the source requires, and
    every object of a downstream kind that carries the source's uid. `failures` are refused writes of an earlier
    decision in the same pass. `namespace` is the source's Namespace object, if the decision needs it. `peers` are the
    names of other namespaces in which objects may be made for a source in this namespace.

    `missing_kinds` are kinds that the API server does not serve. `hidden_kinds` are former kinds of downstream objects
    that the operator may not list, each with the missing right; objects of these kinds may exist unseen. A former kind
    is one that only an earlier definition of the source's kind used. `is_orphaning` says that the source was deleted
    with `--cascade=orphan`, which it no longer shows once the garbage collector has removed its finalizer.
    """

    namespace: Manifest | None = None
    objects: Mapping[ObjectRef, Manifest] = attrs.field(factory=dict)
    missing_kinds: frozenset[Kind] = frozenset()
    failures: tuple[Failure, ...] = ()
    hidden_kinds: Mapping[Kind, Right] = attrs.field(factory=dict)
    peers: frozenset[str] = frozenset()
    is_orphaning: bool = False


class Finalizer(Enum):
    """The change that a decision makes to the controller's finalizer on the reconciled object.

    ADD precedes all other writes, REMOVE follows all other writes.
    """

    ADD = "add"
    REMOVE = "remove"


@attrs.frozen
class Apply:
    """One server-side apply of a whole manifest made for the reconciled object.

    `force` is True only to take fields over from an older managedFields entry of the same manager (REC-6). `after`
    lists objects that must be written first: if the write of one of them is refused, this apply is skipped.
    """

    kind: Kind
    manifest: Manifest
    force: bool = False
    after: frozenset[ObjectRef] = frozenset()
    ref: ObjectRef = attrs.field(init=False, eq=False, repr=False)
    """The object to apply."""

    @cached_property
    def encoded(self) -> Mapping[str, bytes]:
        """The top-level fields of the manifest that are objects or lists, except metadata, by name and as canonical
        JSON; cached for comparisons with the live object.
        """
        return encoded_fields(self.manifest)

    @ref.default
    def _ref_of_manifest(self) -> ObjectRef:
        return ref_of(self.manifest, self.kind)


def chained(applies: Iterable[Apply]) -> tuple[Apply, ...]:
    """Return the applies in order, each with all earlier ones in its `after`. If one is refused, the later ones are
    skipped.
    """
    before: frozenset[ObjectRef] = frozenset()
    chain = []
    for apply in applies:
        chain.append(attrs.evolve(apply, after=before))
        before |= {apply.ref}
    return tuple(chain)


def _keys(path: Iterable[str]) -> tuple[str, ...]:
    keys = tuple(path.split(".") if isinstance(path, str) else path)
    if not keys or not all(isinstance(key, str) and key for key in keys):
        raise ValueError(f"Fill({path!r}): the path of a field is such as data.password, or ('data', 'password')")
    return keys


@attrs.frozen
class Fill:
    """A field that is filled with random text when an object is created, since a decision has no randomness.

    `path` is a sequence of keys or a string such as `data.password`; the field itself may be absent. With `base64` the
    text is encoded as a Secret's `data` requires. Raises ValueError for a path without keys.
    """

    path: tuple[str, ...] = attrs.field(converter=_keys)
    length: int = 32
    alphabet: str = ALPHANUMERIC
    base64: bool = False


@attrs.frozen
class Create:
    """A POST of an object that must be created at most once; an apply would create the object again (OPS-1).

    `fill` lists the fields of the manifest that get a random text, which is drawn when the request is sent. `after`
    lists objects that must be written first: if the write of one of them is refused, this create is skipped.
    """

    kind: Kind
    manifest: Manifest
    fill: tuple[Fill, ...] = ()
    after: frozenset[ObjectRef] = frozenset()
    ref: ObjectRef = attrs.field(init=False, eq=False, repr=False)
    """The object to create."""

    @ref.default
    def _ref_of_manifest(self) -> ObjectRef:
        return ref_of(self.manifest, self.kind)


@attrs.frozen
class MergePatch:
    """A merge patch with the object's resourceVersion. It is skipped if a write of an object in `after` is refused."""

    ref: ObjectRef
    patch: Manifest
    after: frozenset[ObjectRef] = frozenset()


@attrs.frozen
class Delete:
    """A delete with background propagation, for an object with this uid and, unless None, this resourceVersion."""

    ref: ObjectRef
    uid: str
    resource_version: str | None = None


@attrs.frozen
class Decision:
    """The writes that a decision requires, as data. An empty decision without `status` means nothing to do (REC-6).

    `source` below is the reconciled object, `downstream` are the objects made for it.

    `dry_runs` are applies sent as a dry run before anything is written; if one is refused, nothing is written.
    `annotations` are changes to the source's annotations (None removes one); they are written together with the
    finalizer, before anything downstream. With `only_if_current` the source is read again before anything is written
    downstream, so that a decision from an old copy writes nothing. `account` is the ServiceAccount as which everything
    downstream is written; if it is None, and for the source always, the operator writes as itself.

    `status` is the whole status to apply, or None if the present one is equal. `transitions` and `events` follow from
    changed conditions and count only once the status is written. `status_may_wait` is the number of seconds for which
    the status may be delayed while other objects wait in the work queue; it is set when the status reports only that
    something has begun.

    `awaits` are other owners' objects that block progress and that no cache shows; a change of one of them must cause a
    reconcile of the source. `row` names the case of the decision, such as `nothing is left`, for people only: decisions
    that differ in nothing else are equal.
    """

    finalizer: Finalizer | None = None
    annotations: Mapping[str, str | None] = attrs.field(factory=dict)
    dry_runs: tuple[Apply, ...] = ()
    patches: tuple[MergePatch, ...] = ()
    applies: tuple[Apply, ...] = ()
    creates: tuple[Create, ...] = ()
    deletes: tuple[Delete, ...] = ()
    status: Manifest | None = None
    events: tuple[KubernetesEvent, ...] = ()
    transitions: tuple[Transition, ...] = ()
    requeue: Requeue = Requeue.NO
    only_if_current: bool = False
    status_may_wait: float = 0.0
    awaits: tuple[ObjectRef, ...] = ()
    account: ObjectRef | None = None
    row: str = attrs.field(default="", eq=False)

    @property
    def writes_downstream(self) -> bool:
        """True if the decision writes anything other than the status and Events."""
        return bool(self.finalizer or self.annotations or self.patches or self.applies or self.creates or self.deletes)

    @property
    def is_empty(self) -> bool:
        """True if the decision writes nothing at all: no object, no status and no Event."""
        return not self.writes_downstream and self.status is None and not self.events

    def __str__(self) -> str:
        row = f"[{self.row}] " if self.row else ""
        return row + (", ".join(effects_of(self)) or "writes nothing")


def effects_of(decision: Decision) -> Iterator[str]:
    """Yield the writes of a decision in words."""
    if decision.finalizer is not None:
        yield f"{decision.finalizer.value}s the finalizer"
    if decision.annotations:
        yield "annotates"
    yield from (f"patches {patch.ref}" for patch in decision.patches)
    yield from (f"applies {apply.ref}" for apply in decision.applies)
    yield from (f"creates {create.ref}" for create in decision.creates)
    yield from (f"deletes {delete.ref}" for delete in decision.deletes)
    if decision.transitions:
        changed = ", ".join(
            f"{t.condition.type}={t.condition.status}/{t.condition.reason}" for t in decision.transitions
        )
        yield f"writes the status {changed}"
    elif decision.status is not None:
        yield "writes the status"


def as_data(decision: Decision) -> dict[str, Any]:
    """Return `decision` as a JSON object: its writes, Events and the next reconcile, without those that are empty.

    The keys are in the order of execution.
    """
    effects: dict[str, Any] = {
        "dryRun": [{"object": _object(dry_run.ref)} for dry_run in decision.dry_runs],
        "finalizer": decision.finalizer and decision.finalizer.value,
        "annotations": dict(decision.annotations),
        "patch": [{"object": _object(patch.ref), "mergePatch": patch.patch} for patch in decision.patches],
        "apply": [_apply(apply) for apply in decision.applies],
        "create": [_create(create) for create in decision.creates],
        "delete": [_delete(delete) for delete in decision.deletes],
        "as": decision.account and _object(decision.account),
        "status": decision.status["status"] if decision.status is not None else None,
        "events": [_event(event) for event in decision.events],
        "requeue": None if decision.requeue.pace is RequeuePace.NONE else decision.requeue.pace.name.lower(),
    }
    body = {name: effect for name, effect in effects.items() if effect}
    if decision.requeue.after is not None:
        body["lookAgainAfterSeconds"] = decision.requeue.after
    return body


def _apply(apply: Apply) -> dict[str, Any]:
    return {"force": True, "manifest": apply.manifest} if apply.force else {"manifest": apply.manifest}


def _create(create: Create) -> dict[str, Any]:
    fill = [{"path": ".".join(fill.path), "length": fill.length} for fill in create.fill]
    return {"manifest": create.manifest, **({"fill": fill} if fill else {})}


def _delete(delete: Delete) -> dict[str, Any]:
    version = {"resourceVersion": delete.resource_version} if delete.resource_version is not None else {}
    return {"object": _object(delete.ref), "uid": delete.uid, **version}


def _object(ref: ObjectRef) -> dict[str, Any]:
    where = {"namespace": ref.namespace} if ref.namespace else {}
    return {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, **where, "name": ref.name}


def _event(event: KubernetesEvent) -> dict[str, str]:
    return {"type": event.type, "reason": event.reason, "action": event.action, "note": event.note}
