"""What a reconcile is given and what it answers: plain data on both sides (REC-2).

`reconcile(source, observed, context) -> Decision` reads these values and nothing else. The interpreter
(`vworkspace_core.controller.reconcile`) is the only code that turns a Decision into calls of the `KubeApi` port.
"""

import string
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property
from typing import Final

import attrs

from vworkspace_core.apimachinery.conditions import Transition
from vworkspace_core.apimachinery.errors import OperatorError, Right
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, encoded_fields, ref_of
from vworkspace_core.controller.requeue import Requeue
from vworkspace_core.ports import KubernetesEvent

ALPHANUMERIC: Final = string.ascii_letters + string.digits
"""What random text is made of, where nothing else is said."""


@attrs.frozen
class Failure:
    """A write that the API server refused.

    `live` is the object with its managedFields, where it was read; `wanted` what was to be applied.
    """

    ref: ObjectRef
    verb: str
    error: OperatorError
    live: Manifest | None = None
    wanted: Manifest | None = None


@attrs.frozen
class Snapshot:
    """What every decision is made on, whatever its source's kind.

    `objects` holds what exists downstream: every object whose name the source wants, and every object of
    a downstream kind that carries its uid. Their order has no meaning. `failures` is what the writes of an
    earlier decision in the same pass met. `hidden_kinds` are kinds of an earlier definition that may not be
    listed, each with the right that is missing: what exists of them is not known. `peers` are other namespaces
    that let objects of the source's namespace in.
    """

    namespace: Manifest | None = None
    objects: Mapping[ObjectRef, Manifest] = attrs.field(factory=dict)
    missing_kinds: frozenset[Kind] = frozenset()
    failures: tuple[Failure, ...] = ()
    hidden_kinds: Mapping[Kind, Right] = attrs.field(factory=dict)
    peers: frozenset[str] = frozenset()


class Finalizer(Enum):
    """What to do with our finalizer on the source, always before (add) or after (remove) everything else."""

    ADD = "add"
    REMOVE = "remove"


@attrs.frozen
class Apply:
    """One server-side apply of a whole downstream manifest. `force` only against our own history (REC-6).

    `after` are objects that it refers to: where the apply of one of them is refused, this one is left out.
    """

    kind: Kind
    manifest: Manifest
    force: bool = False
    after: frozenset[ObjectRef] = frozenset()
    ref: ObjectRef = attrs.field(init=False, eq=False, repr=False)
    """The object it is about."""

    @cached_property
    def encoded(self) -> Mapping[str, bytes]:
        """Its fields as canonical JSON, metadata apart: what the live object is compared with, pass after pass."""
        return encoded_fields(self.manifest)

    @ref.default
    def _ref_of_manifest(self) -> ObjectRef:
        return ref_of(self.manifest, self.kind)


def one_after_another(applies: Iterable[Apply]) -> tuple[Apply, ...]:
    """Each only where none before it was refused: what follows refers to it."""
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
    """A field that is filled with random text while an object is created: a decision knows no randomness.

    `path` are keys, or a text such as `data.password`; the last need not be there. In `base64` it is written as a
    Secret holds it. Raises ValueError for a path without keys.
    """

    path: tuple[str, ...] = attrs.field(converter=_keys)
    length: int = 32
    alphabet: str = ALPHANUMERIC
    base64: bool = False


@attrs.frozen
class Create:
    """A POST of what must come into being at most once; apply would make it again after it was removed (OPS-1).

    `fill` are drawn as it is sent; `after` as for an apply.
    """

    kind: Kind
    manifest: Manifest
    fill: tuple[Fill, ...] = ()
    after: frozenset[ObjectRef] = frozenset()
    ref: ObjectRef = attrs.field(init=False, eq=False, repr=False)
    """The object it is about."""

    @ref.default
    def _ref_of_manifest(self) -> ObjectRef:
        return ref_of(self.manifest, self.kind)


@attrs.frozen
class MergePatch:
    """A merge patch, guarded by the resourceVersion inside it."""

    ref: ObjectRef
    patch: Manifest


@attrs.frozen
class Delete:
    """A background delete of exactly that incarnation; with `resource_version`, of exactly that version of it."""

    ref: ObjectRef
    uid: str
    resource_version: str | None = None


@attrs.frozen
class Decision:
    """Effects as data. All empty and `status` None: there is nothing to do (REC-6).

    `rehearsals` are applies to be tried without effect before anything is written at all; where one is refused, nothing
    is. `status` is the whole status as it is to be applied, or None when the present one already says it.
    `transitions` and `events` follow from the change of conditions and count only once the status is written.
    `annotations` are the source's own, written with the finalizer before anything downstream; None takes one away.
    With `only_if_current` the source is read again before anything is written downstream: a decision from an old copy
    then writes nothing at all.
    `status_may_wait`: the status tells only that something has begun. Seconds for which it may wait after the writes
    downstream, while the API server is wanted for more. `awaits` are objects of others that stand in the way: what
    becomes of them is to wake the source, and no cache shows it.
    """

    finalizer: Finalizer | None = None
    annotations: Mapping[str, str | None] = attrs.field(factory=dict)
    rehearsals: tuple[Apply, ...] = ()
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

    @property
    def writes_downstream(self) -> bool:
        """Whether anything but the status is to be written."""
        return bool(self.finalizer or self.annotations or self.patches or self.applies or self.creates or self.deletes)

    @property
    def is_empty(self) -> bool:
        """Whether carrying it out would write nothing at all."""
        return not self.writes_downstream and self.status is None and not self.events
