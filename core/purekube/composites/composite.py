"""The description of a parent kind, a kind whose objects have children: its names, labels, child kinds and decision
function (PH-9).
"""

from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Protocol

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.apimachinery.meta import names_in
from purekube.apimachinery.resources import SECRET
from purekube.composites.parent import STANDARD, Parent, created_records, read_parent, recorded_kinds
from purekube.composites.status_writers import StatusWriter
from purekube.controller.decision import Decision, Delete, Snapshot
from purekube.controller.execute import PassRules
from purekube.controller.managed_fields import StatusOwner, with_written_annotations, written_annotation
from purekube.graph.node_order import Graph
from purekube.graph.owner import Marks, Owner
from purekube.graph.plan import Plan
from purekube.ports import Entropy

MOST_ROUNDS: Final = 16
"""The largest number of rounds (decide, then write) in one reconcile pass.

A pass needs a round for each wave (depth in the graph of children): a wave that is ready at once lets the next begin.
"""


class SecretUse(StrEnum):
    """The part of child Secrets (Secrets that a controller creates for an object) that the controller reads: their
    metadata, their metadata and type, or everything.

    Data that it does not read is not requested or not kept.
    """

    METADATA = "metadata"
    TYPE = "type"
    """Metadata and type. A list request cannot leave out only the data, so the data is dropped when it arrives."""
    CONTENT = "content"


class External(Protocol):
    """An object of another owner that the controller reads.

    `fields` are the paths that are read; the empty path means the whole object. `elsewhere` says that the object may be
    in another namespace than the parent that reads it.
    """

    @property
    def kind(self) -> Kind: ...
    @property
    def fields(self) -> tuple[tuple[str, ...], ...]: ...
    @property
    def selector(self) -> Mapping[str, Any]: ...
    @property
    def watch(self) -> bool: ...
    @property
    def elsewhere(self) -> bool: ...


def wants_metadata(external: External) -> bool:
    """Report whether the controller reads only the metadata of `external`: a Secret of which no more is needed."""
    return external.kind == SECRET and all(path[:1] == ("metadata",) for path in external.fields)


@attrs.frozen(eq=False)
class Explanation:
    """The plan for one parent (an object that has children), with details for people.

    `graph` has the parent's resources as nodes, with their dependencies, and `plan` what happens to each.
    `when_conditions` maps a node's id to its `when` gates (conditions for writes), as the author wrote them. `phases`
    maps a node's id to the name of its phase (a group of resources with one gate), which is empty for a node outside of
    phases.
    """

    graph: Graph
    plan: Plan
    when_conditions: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    phases: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class Composite:
    """The description of a kind whose objects (parents) have children, from which a controller is made.

    Boxes (operators that a YAML file describes) and pure reconcilers (controllers made from a function without I/O) are
    converted to it.

    `word` is the noun for people (`box`). `controller` is the controller's name in metrics and logs. `role_command` is
    the command that prints the controller's roles. `manager` is the field manager of all writes. `decide` returns the
    decision about a parent, and `external_refs` the objects that are only read for a parent. `marks` are the labels and
    annotations that identify a parent's children; `labels` are further labels of every child. `selector` finds the
    children of all parents. `fields` names the fields of the parent's status other than conditions. Children of the
    kinds in `anywhere` may be in any namespace. Parents are reconciled in the namespaces that the selector `namespaces`
    chooses. With `asks_namespaces` the namespaces of children are computed, and each must consent (RUN-12). `secrets`
    says how much is read of children that are Secrets. `kinds_of`, if given, returns the kinds of one parent's
    children, since they differ between parents. Without `references` no child has an owner reference. `account` returns
    the ServiceAccount that acts for a parent, None if the parent names none. `explain`, if given, reports the state of
    every node of a parent: a child, or an object that is only read.
    """

    name: str
    word: str
    controller: str
    kind: Kind
    manager: str
    finalizer: str
    marks: Marks
    labels: Mapping[str, str]
    selector: str
    child_kinds: tuple[Kind, ...]
    fields: tuple[str, ...]
    decide: Callable[[Parent, Snapshot, datetime], Decision]
    external_refs: Callable[[Parent], Iterable[tuple[External, ObjectRef]]]
    role_command: str
    conditions: tuple[str, ...] = ()
    externals: tuple[External, ...] = ()
    anywhere: frozenset[Kind] = frozenset()
    namespaces: Mapping[str, Any] | None = None
    references: bool = True
    asks_namespaces: bool = False
    secrets: SecretUse = SecretUse.CONTENT
    resync: float = 60.0
    rounds: int = MOST_ROUNDS
    explain: Callable[[Parent, Snapshot, datetime], Explanation] | None = None
    account: Callable[[Parent], ObjectRef | None] | None = None
    kinds_of: Callable[[Parent], Iterable[Kind]] | None = None

    @property
    def impersonates(self) -> bool:
        """Report whether a ServiceAccount in the parent's namespace, not the operator itself, reads and writes
        children.
        """
        return self.account is not None

    def account_of(self, parent: Parent) -> ObjectRef | None:
        """Return the ServiceAccount that reads and writes a parent's children.

        Return None if the operator itself reads and writes them, or if the parent names no account.
        """
        return None if self.account is None else self.account(parent)

    def wants_metadata_of(self, kind: Kind) -> bool:
        """Report whether the controller reads only the metadata of children of this kind."""
        return kind == SECRET and self.secrets is SecretUse.METADATA

    @property
    def title(self) -> str:
        """The name of the composite (the description of a parent kind) in messages for people, such as `box webapp`."""
        return f"{self.word} {self.name}"

    @property
    def told(self) -> str:
        """The name of the composite (the description of a parent kind) in the log: the name of a box, or the controller
        name of anything else.
        """
        return self.name if self.word == "box" else self.controller

    @property
    def kinds_annotation(self) -> str:
        """The name of a parent's annotation that records the kinds of its children, even of an earlier definition."""
        return f"{self.marks.domain}/kinds"

    def peers(self, namespaces: Iterable[Manifest], parent: Parent) -> frozenset[str]:
        """Return the names of the other namespaces that admit children of this parent.

        `namespaces` are the Namespace objects to choose from, whose annotations are read.
        """
        letting = (namespace for namespace in namespaces if parent.namespace in names_in(namespace, self.marks.peers))
        return frozenset(str(metadata(namespace)["name"]) for namespace in letting)

    @property
    def created_annotation(self) -> str:
        """The name of a parent's annotation that records the objects created once in its life, with their uids."""
        return f"{self.marks.domain}/created"

    @property
    def condition_types(self) -> tuple[str, ...]:
        """The types of the conditions that the controller owns, in the order in which a status lists them."""
        return (*STANDARD, *self.conditions)

    @cached_property
    def status_owner(self) -> StatusOwner:
        """The field manager that writes the kind's statuses, with the condition types that the controller owns."""
        return StatusOwner(self.manager, {self.kind: frozenset(self.condition_types)})

    def read(self, manifest: Manifest) -> Parent:
        """Read a parent from its manifest, leaving out conditions that another manager partly wrote. Never raises."""
        return read_parent(self.status_owner.without_foreign_conditions(manifest), self.condition_types)

    def as_cached(self, manifest: Manifest) -> Manifest:
        """Return a parent as caches store it: with only the managedFields that `read` and `record` need.

        The result shares values with `manifest`.
        """
        records = (self.kinds_annotation, self.created_annotation)
        return with_written_annotations(self.status_owner.with_holders(manifest), manifest, records, self.manager)

    def record(self, parent: Parent, annotation: str) -> str:
        """Return the text of an annotation by which this controller keeps a record on the parent.

        Return "" if managedFields do not show that this controller wrote the annotation, since others may write it too
        (RUN-12).
        """
        return written_annotation(parent.manifest, annotation, self.manager) or ""

    def recorded_kinds(self, parent: Parent) -> tuple[Kind, ...]:
        """Return the kinds of children that are recorded on a parent."""
        return recorded_kinds(self.record(parent, self.kinds_annotation))

    def observed_kinds(self, parent: Parent) -> tuple[Kind, ...]:
        """Return the kinds that the parent's children may have, including kinds of an earlier definition."""
        return tuple(dict.fromkeys((*self.present_kinds(parent), *self.recorded_kinds(parent))))

    def present_kinds(self, parent: Parent) -> tuple[Kind, ...]:
        """Return the kinds of children in the parent's present definition."""
        return self.child_kinds if self.kinds_of is None else tuple(self.kinds_of(parent))

    def namespace_of_children(self, parent: Parent, kind: Kind) -> str | None:
        """Return the namespace that holds all children of `parent` that are of the kind `kind`.

        Return None if such children may be in any namespace, or if the kind is cluster-scoped.
        """
        return None if kind in self.anywhere or not kind.namespaced else parent.namespace

    def is_near(self, kind: Kind) -> bool:
        """Report whether all children of a kind are in their parent's namespace."""
        return self.kind.namespaced and kind.namespaced and kind not in self.anywhere

    def is_read_near(self, external: External) -> bool:
        """Report whether `external` (an object that is only read) is in the namespace of the parent that reads it."""
        return self.kind.namespaced and external.kind.namespaced and not external.elsewhere

    def owner_of(self, parent: Parent) -> Owner:
        """Return the parent as `Owner`, the form in which the graph engine identifies the parent's children."""
        records = created_records(self.record(parent, self.created_annotation))
        return Owner(self.kind, parent.metadata, self.manager, self.marks, self.labels, records, self.references)

    def deletes_afterwards(
        self, parent: Parent, observed: Snapshot, now: datetime, made: Container[ObjectRef]
    ) -> tuple[Delete, ...]:
        """Return the deletes of unwanted children that are postponed until all other objects are ready.

        `made` has the objects that are deleted without this delay: the result leaves them out. The result is empty if
        the composite has no function `explain`, whose plan names the unwanted children, or if the parent is being
        deleted.
        """
        if self.explain is None or parent.metadata.deletion_timestamp is not None:
            return ()
        unwanted = self.explain(parent, observed, now).plan.unwanted
        return tuple(delete for delete in unwanted if delete.ref not in made)

    def pass_rules(self, now: Callable[[], datetime], entropy: Entropy) -> PassRules[Parent, Snapshot]:
        """Return the rules by which a reconcile pass over a parent of this kind reads, decides and writes.

        `now` returns the time, and `entropy` the random strings for new objects.
        """
        return PassRules(
            self.kind,
            self.read,
            lambda parent, observed: self.decide(parent, observed, now()),
            self.manager,
            self.finalizer,
            idempotent=True,
            rounds=min(self.rounds, MOST_ROUNDS),
            looks_up=True,
            entropy=entropy,
        )


def status_writer(composite: Composite) -> StatusWriter:
    """Return the controller of `composite` as a `StatusWriter`, which serves to detect two controllers that write the
    same statuses.
    """
    return StatusWriter(composite.kind, composite.title)
