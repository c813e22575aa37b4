"""The input and output of a pure reconciler's function: an object and its children as they are, and the nodes (objects
that should exist) and the status that are desired for it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import Condition, ObjectMeta
from purekube.apimachinery.problems import Problem
from purekube.controller.decision import Fill
from purekube.graph.node import ApplyPolicy, OnImmutable, PruneTime, Removal, Until
from purekube.graph.owner import label_text
from purekube.readiness import State, readiness
from purekube.reconcilers.request import is_delay
from purekube.schema import Schema

Spec = TypeVar("Spec")
Status = TypeVar("Status")


@attrs.frozen
class _StoredObject:
    """The part of an object that is available even if the rest cannot be read."""

    kind: Kind
    metadata: ObjectMeta

    @property
    def ref(self) -> ObjectRef:
        """The reference of the object."""
        return ObjectRef(self.kind, self.metadata.namespace or None, self.metadata.name)

    @property
    def is_deleting(self) -> bool:
        """Report whether the object is being deleted while finalizers still keep it."""
        return self.metadata.deletion_timestamp is not None


@attrs.frozen
class Object(_StoredObject, Generic[Spec, Status]):
    """One object of a user's kind. `status` has its default values if none was written yet.

    `manifest` is everything that the API server sent, including fields that the classes do not declare. Equality
    ignores `manifest`.
    """

    spec: Spec
    status: Status
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    manifest: Manifest = attrs.field(factory=dict, eq=False, repr=False)

    def condition(self, condition_type: str) -> Condition | None:
        """Return the condition of this type; None if the object has no such condition."""
        return next((condition for condition in self.conditions if condition.type == condition_type), None)


@attrs.frozen
class UnreadableObject(_StoredObject):
    """An object whose spec or status does not fit its classes, with the readable parts and every problem.

    The CRD refuses such objects, but an object stored under an older schema may still exist.
    """

    problems: str
    conditions: tuple[Condition, ...] = ()
    manifest: Manifest = attrs.field(factory=dict, eq=False, repr=False)


# --- reviews of writes before they are stored (PH-8) -----------------------------------------------------------------


@attrs.frozen
class AdmissionWarning:
    """A text that the API server shows to the author of a write. The write is admitted."""

    message: str
    path: str = ""
    """The path of the field, such as `spec.quota`; empty for the whole object."""


@attrs.frozen
class Admission(Generic[Spec, Status]):
    """One write that is about to be stored: the new object, the object that it replaces (None on create), and
    the user.
    """

    object: Object[Spec, Status]
    old: Object[Spec, Status] | None = None
    user: str = ""


Validator: TypeAlias = Callable[[Admission[Spec, Status]], Iterable[Problem | AdmissionWarning]]
"""A function that returns the problems for which a write is refused, and warnings."""
Defaulter: TypeAlias = Callable[[Object[Spec, Status]], Spec]
"""A function that returns an object's spec with defaults filled in. From its own result it must return the same spec.
"""


@attrs.frozen(eq=False)
class Reviews(Generic[Spec, Status]):
    """The functions that review each write of a kind's objects: `validate` may refuse it, `default` fills in fields."""

    validate: Validator[Spec, Status] | None = None
    default: Defaulter[Spec, Status] | None = None


# --- nodes -----------------------------------------------------------------------------------------------------------


def _by_own_readiness(live: Manifest) -> bool:
    """Return True. This is the default of `Node.healthy`: only the readiness rule of the kind decides."""
    return True


def _as_list(given: "Sequence[Node | str] | Node | str") -> "Sequence[Node | str]":
    """Return a single node or id as a sequence with one item. A string would otherwise be a sequence of letters."""
    return (given,) if isinstance(given, Node | str) else tuple(given)


def _is_gate(node: "Node", _: Any, value: Any) -> None:
    """Raise ValueError unless `value` is True, False or a text.

    An empty text would hold the node without a reason; it is often meant as "nothing to wait for".
    """
    if not isinstance(value, bool) and (not isinstance(value, str) or not value):
        text = "must be True, False, or a text that says what the node waits for"
        raise ValueError(f"`when` of node {node.id} {text}, not {value!r}")


@attrs.frozen(eq=False)
class Node:
    """One object that should exist. If the node with this `id` gets another object name, its old object is replaced. A
    node that is left out of `Desired` is removed.

    `depends_on` lists other nodes, or ids of `Read`s (objects of other owners that are only read); `until` says which
    of their states the node waits for. If `when` is False, or a text with the reason, nothing is created or changed,
    and the parent is not Ready. `healthy` tests the live object in addition to the rules of its kind.

    `adopt` says that an existing object of that name without a controller is taken over. `generate` are fields that are
    filled with random text when the object is created; the object is then never updated. `roll_on` are nodes, or
    ids of `Read`s, whose content is hashed into the pod template, so that a change replaces the pods.
    """

    id: str
    manifest: Manifest = attrs.field(repr=False)
    depends_on: Sequence["Node | str"] = attrs.field(default=(), converter=_as_list)
    until: Until = Until.READY
    when: bool | str = attrs.field(default=True, validator=_is_gate)
    healthy: Callable[[Manifest], bool] = attrs.field(default=_by_own_readiness, repr=False)
    apply: ApplyPolicy = ApplyPolicy.ALWAYS
    removal: Removal = Removal.DELETE
    prune: PruneTime = PruneTime.WHEN_READY
    on_immutable: OnImmutable = OnImmutable.FAIL
    adopt: bool = False
    generate: Sequence[Fill] = ()
    roll_on: Sequence["Node | str"] = attrs.field(default=(), converter=_as_list)

    @property
    def name(self) -> str:
        """The `metadata.name` of the node's object."""
        return str(metadata(self.manifest).get("name") or "")


def _as_tuple(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(nodes)


@attrs.frozen(eq=False)
class Desired(Generic[Status]):
    """The result of a pure reconciler's function: `nodes`, which are the objects that should exist, and the status.

    The framework adds conditions and the observed generation to the status. `requeue_after` is the number of seconds
    after which the function is called again at the latest, even if nothing has changed. Raises ValueError if it is no
    number of seconds.
    """

    nodes: Sequence[Node] = attrs.field(converter=_as_tuple)
    status: Status
    requeue_after: float | None = attrs.field(default=None, validator=is_delay)


NodeOrId: TypeAlias = Node | str


@attrs.frozen(eq=False)
class Children:
    """The existing objects: the objects created for nodes, by node id, and the objects that are read, by `Read.id`.

    An object of another owner that has the name of a node's object is left out. The keys of `found` are node ids in the
    form of labels (`label_text`), and ids of `Read`s.
    """

    found: Mapping[str, Sequence[Manifest]] = attrs.field(factory=dict)
    schemas: Mapping[tuple[str, str], Schema] = attrs.field(factory=dict)
    """Schemas by apiVersion and kind, for the kinds whose classes are known."""

    def get(self, node: NodeOrId) -> Manifest | None:
        """Return the live object of a node or of a `Read` (an object that is only read); None if there is none."""
        if isinstance(node, str):
            return next(iter(self.found.get(node) or self.found.get(label_text(node)) or ()), None)
        return next((live for live in self.found.get(label_text(node.id), ()) if _is_of(node, live)), None)

    def dig(self, node: NodeOrId, *path: str | int) -> Any:
        """Return the value at a path of the live object; None if the object or any step is missing."""
        return get_path(self.get(node), *path)

    def is_ready(self, node: NodeOrId) -> bool:
        """Report whether the live object of a node is ready at its own generation, by the rules of its kind."""
        live = self.get(node)
        named = (str((live or {}).get("apiVersion")), str((live or {}).get("kind")))
        return readiness(live, self.schemas.get(named)).state is State.READY


def _is_of(node: Node, live: Manifest) -> bool:
    """Report whether `live` is the present object of the node, not an older object of another name or kind."""
    return bool(metadata(live).get("name") == node.name and live.get("kind") == node.manifest.get("kind"))
