"""A box with several revisions as one controller: each parent is decided by the revision that it has (PH-10).

The controller watches what any of its revisions needs, so that parents of older revisions are reconciled as before.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Final, TypeVar

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.definitions import BROUGHT_TO
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import ConditionStatus
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of, decide, explanation_of
from purekube.boxes.rollouts.revisions import CONDITION, Assignments, record_of
from purekube.composites.composite import Composite, Explanation, External, SecretUse
from purekube.composites.decisions import present_fields, unchanged
from purekube.composites.parent import Parent
from purekube.controller.decision import Decision, Finalizer, Snapshot

T = TypeVar("T")

NOT_SERVED: Final = "RevisionNotServed"

_MOST_OF_SECRETS: Final = (SecretUse.CONTENT, SecretUse.TYPE, SecretUse.METADATA)


@attrs.frozen(eq=False)
class RevisedBox:
    """An applied box with the compiled boxes of all its revisions that are in use, by revision name.

    `assignments` returns the present `Assignments`, from which each parent (object of the box's kind) has its revision.
    """

    boxes: Mapping[str, Box]
    assignments: Callable[[], Assignments]

    @cached_property
    def composite(self) -> Composite:
        """The description from which a controller of the box's kind is made.

        The controller reconciles each parent, an object of that kind, with the box of the parent's own revision.
        """
        boxes = [*self.boxes.values()]
        parts = [composite_of(box) for box in boxes]
        newest, account = parts[-1], parts[-1].account
        return attrs.evolve(
            newest,
            child_kinds=_each(kind for part in reversed(parts) for kind in part.child_kinds),
            fields=_each(field for part in parts for field in part.fields),
            conditions=_each((*(type for part in parts for type in part.conditions), CONDITION)),
            externals=tuple(external for part in parts for external in part.externals),
            anywhere=frozenset(kind for part in parts for kind in part.anywhere),
            namespaces=next((part.namespaces for part in parts if part.namespaces), None),
            asks_namespaces=any(part.asks_namespaces for part in parts),
            secrets=next(use for use in _MOST_OF_SECRETS if any(part.secrets is use for part in parts)),
            resync=min(part.resync for part in parts),
            rounds=max(part.rounds for part in parts),
            decide=self._decide,
            external_refs=self._external_refs,
            explain=self._explain,
            account=None if account is None else self._account,
            kinds_of=self._kinds,
        )

    def _kinds(self, parent: Parent) -> tuple[Kind, ...]:
        """Return the child kinds of the parent's own revision, since its ServiceAccount may lack rights on
        other kinds.
        """
        box = self._box(parent)
        return () if box is None else composite_of(box).child_kinds

    def _box(self, parent: Parent) -> Box | None:
        return self.boxes.get(self.assignments().of(parent.metadata))

    def _external_refs(self, parent: Parent) -> Iterable[tuple[External, ObjectRef]]:
        box = self._box(parent)
        return () if box is None else composite_of(box).external_refs(parent)

    def _account(self, parent: Parent) -> ObjectRef | None:
        box = self._box(parent)
        return None if box is None else composite_of(box).account_of(parent)

    def _explain(self, parent: Parent, observed: Snapshot, now: datetime) -> Explanation:
        box = self._box(parent) or [*self.boxes.values()][-1]
        return explanation_of(box, parent, observed, now)

    def _decide(self, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
        """Return the decision (the writes to make) of the box at the parent's revision.

        It records that revision on the parent (object of the box's kind) before other writes.
        """
        assignments, meta = self.assignments(), parent.metadata
        name = assignments.of(meta)
        reason, message = assignments.told(meta)
        condition = DesiredCondition(CONDITION, ConditionStatus.TRUE, reason, message)
        box, parent = self.boxes.get(name), attrs.evolve(parent, notes=(condition,))
        if box is None:
            return self._held(parent, name, now)
        decision = decide(box, parent, observed, now)
        if decision.finalizer is Finalizer.REMOVE or meta.deletion_timestamp or _recorded(parent) == name:
            return decision
        return attrs.evolve(decision, annotations={**decision.annotations, BROUGHT_TO: record_of(name, now)})

    def _held(self, parent: Parent, name: str, now: datetime) -> Decision:
        """Return a decision (the writes to make) that only reports that the parent's revision is not available.

        Nothing else is changed, since applying another revision would bypass the rollout.
        """
        message = (
            f"revision {name} of the {self.composite.title} does not compile any more, or rights that it needs are "
            "missing: until it is served, nothing is made, changed or removed"
        )
        fields = present_fields(self.composite, parent)
        return unchanged(self.composite, parent, NOT_SERVED, message, fields, now)


def retired_kinds(box: Box, former: Mapping[str, Box], parents: Iterable[Manifest]) -> tuple[Kind, ...]:
    """Return the kinds of children that earlier revisions of a box had, that `box` no longer has, and of which parents
    may still own objects.

    `former` maps the names of revisions to their compiled boxes. `parents` are the objects of the box's kind. Each of
    them may own objects of the kinds of its own revision, and of the kinds that an annotation on it records. The result
    is empty for a box that acts through ServiceAccounts, because they may lack rights on these kinds.
    """
    present = composite_of(box)
    kinds = {name: composite_of(each).child_kinds for name, each in former.items()}
    retired = [kind for kind in _each(chain.from_iterable(kinds.values())) if kind not in present.child_kinds]
    if not retired or present.impersonates:
        return ()
    held: set[Kind] = set()
    for parent in map(present.read, parents):
        held.update(kinds.get(_recorded(parent), ()), present.recorded_kinds(parent))
    return tuple(kind for kind in retired if kind in held)


def _recorded(parent: Parent) -> str:
    return parent.metadata.annotations.get(BROUGHT_TO, "").partition(" ")[0]


def _each(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
