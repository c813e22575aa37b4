"""A compiled box: the result of `compile`, which all other modules read (PH-6).

An expression reads its variables from a scope. `self` is the parent (object of the box's kind). Each external (object
that the box only reads) and each existing resource is a variable under its id: an object, or the list of its objects
for a resource with `forEach`. `children.<kind>[*]` is the list of all children of that kind. While a variable is not in
the scope, resources whose expressions read it wait.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import BOX_DOMAIN
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.problems import Place
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.model import ApplyMode, DeclaredKind, GeneratedField, KeptIn, OperatorBox, OwnerMode, ReadinessRule
from purekube.boxes.templates import Template
from purekube.composites.composite import SecretUse
from purekube.graph.node import Edge, OnImmutable, PruneTime, Removal
from purekube.graph.owner import Marks
from purekube.schema import Schema

MARKS: Final = Marks(BOX_DOMAIN)
"""The labels and annotations of children, which are the only means of finding existing children (PH-3)."""
READERS: Final = f"{BOX_DOMAIN}/readers"
"""The annotation of a Secret with the kinds, such as `webapps.example.com`, whose objects may refer to it (RUN-12)."""


def finalizer_named(name: str) -> str:
    """Return the finalizer by which a box called `name` keeps its parents until their children have been removed."""
    return f"{BOX_DOMAIN}/{name}"


@attrs.frozen(eq=False)
class WhenElapsed:
    """A delay in a `when` gate (a condition for writes): the gate opens `seconds` after the timestamp that the
    expression `time` returns. The timestamp is a string, or an optional text if the field may be absent.
    """

    time: BoxExpression
    seconds: float


@attrs.frozen(eq=False)
class BoxWhen:
    """A compiled `when` gate of a phase or a resource, which delays writes until it is open.

    It is open if the boolean `expression` is true, or if one of the delays in `times` has passed. `phase` is empty for
    a gate of the resource itself.
    """

    place: Place
    expression: BoxExpression | None
    times: tuple[WhenElapsed, ...] = ()
    phase: str = ""
    shown: str = ""
    """The gate as the file has it: `children.deployment.status.readyReplicas equals ${self.spec.replicas}`."""
    is_choice: bool = False
    """True if the gate reads only the parent, or is declared optional: while closed, it does not affect Ready (PH-4).

    A gate that opens at a certain time does affect Ready, unless it is declared optional.
    """


@attrs.frozen(eq=False)
class Iteration:
    """The compiled `forEach` of a resource, which makes one object for each item of a list.

    It has the variable's name, the list, and the key that identifies an item.
    """

    variable: str
    items: BoxExpression
    key: BoxExpression


@attrs.frozen(eq=False)
class BoxNode:
    """A compiled resource of a box, from which a node of the graph engine (which orders the writes) is made.

    It has the template and the compiled expressions of the resource, and the settings by which its objects are written
    and removed.
    """

    id: str
    kind: Kind
    place: Place
    template: Template
    asks_namespace: bool = False
    """True if an expression computes the object's namespace. A namespace other than the parent's must then permit this
    by an annotation (RUN-12).
    """
    phase: str = ""
    schema: Schema | None = None
    """The OpenAPI schema of the resource's kind; None if it is unknown."""
    iteration: Iteration | None = None
    include: tuple[BoxExpression, ...] = ()
    when_conditions: tuple[BoxWhen, ...] = ()
    ready: tuple[BoxExpression, ...] = ()
    readiness: ReadinessRule = ReadinessRule.KIND
    edges: tuple[Edge, ...] = ()
    apply: ApplyMode = ApplyMode.ALWAYS
    on_delete: Removal = Removal.DELETE
    prune: PruneTime = PruneTime.WHEN_READY
    on_immutable: OnImmutable = OnImmutable.FAIL
    owner: OwnerMode = OwnerMode.REFERENCE
    generate: tuple[GeneratedField, ...] = ()
    roll_on: tuple[str, ...] = ()
    wave: int = 0


@attrs.frozen(eq=False)
class ExternalNode:
    """A compiled external: an object of another owner that the box only reads.

    The object's name is computed from the parent (object of the box's kind) alone.
    """

    id: str
    kind: Kind
    place: Place
    name: Template
    """The template of the object's `metadata`: its `name`, and its `namespace` if the file gives one."""
    asks_namespace: bool = False
    elsewhere: bool = False
    """True if the external object may be in another namespace than the parent."""
    must_agree: bool = False
    """True if the external is a Secret whose name a parent chooses. An annotation of the Secret then has to allow the
    parent's kind (RUN-12).
    """
    schema: Schema | None = None
    include: tuple[BoxExpression, ...] = ()
    """The conditions, over the parent alone, for which the external is looked for."""
    ready: tuple[BoxExpression, ...] = ()
    fields: tuple[tuple[str, ...], ...] = ()
    """The paths of fields of the external object that expressions read; the empty path means the whole object."""
    selector: Mapping[str, Any] = attrs.field(factory=dict)
    watch: bool = True


@attrs.frozen(eq=False)
class StatusCondition:
    """A condition that the box writes into the status of each parent (object of the box's kind).

    `status` is a boolean expression; reason and message are strings.
    """

    type: str
    status: BoxExpression
    reason: Template
    message: Template


@attrs.frozen
class BoxRule:
    """A validation rule that every parent (object of the box's kind) must satisfy, and who checks the rule.

    `in_crd` is True if the CRD can check it in the storage version; a CRD's rules cannot read every field. `in_webhook`
    is True if there is a served version in which the CRD cannot check it. The webhook then checks it.
    """

    rule: str
    message: str
    field: str
    in_crd: bool
    in_webhook: bool = False


@attrs.frozen(eq=False)
class CompiledMutation:
    """A default that fills in a field of a parent (object of the box's kind) if the field is absent.

    `is_default` is True if the default can be written into the CRD. Otherwise the webhook fills in the field.
    """

    path: tuple[str, ...]
    value: Template
    is_default: bool


@attrs.frozen(eq=False)
class CompiledVersion:
    """A version of the kind that the box declares, with the templates that convert objects.

    `up` and `down` map the path of a field to the template for its value. The templates in `up` convert an object of
    this version, the variable `old`, to the storage version. Those in `down` convert back: they read the object in the
    storage version as `self`. Both are empty for the storage version itself.
    """

    name: str
    up: Mapping[tuple[str, ...], Template]
    down: Mapping[tuple[str, ...], Template]
    keeps: KeptIn
    is_storage: bool = False


@attrs.frozen(eq=False)
class Box:
    """A compiled box: an operator for one kind, whose objects are called parents.

    `nodes` are the resources that the box makes for each parent, in topological order. `drains` are resources that run
    first when the parent is deleted.
    """

    name: str
    kind: Kind
    model: OperatorBox
    crd: Manifest
    """The CRD of the kind; empty if the kind is installed already and no file describes it."""
    schema: Schema | None
    resync: float
    namespaces: Mapping[str, Any] | None
    nodes: tuple[BoxNode, ...]
    drains: tuple[tuple[BoxNode, ...], ...]
    externals: tuple[ExternalNode, ...]
    strict_order: bool
    account: Template | None
    """The template for the name of the ServiceAccount that reads and writes children; None if the operator does so
    under its own account.
    """
    status_fields: Mapping[str, Template]
    """The templates of fields below `status`, by name. An error in one does not affect the others."""
    conditions: tuple[StatusCondition, ...]
    lists: Mapping[str, tuple[str, ...]]
    """The ids of all resources of a kind, by the name of their list in a scope (`children.<kind>[*]`)."""
    rules: tuple[BoxRule, ...] = ()
    mutations: tuple[CompiledMutation, ...] = ()
    versions: tuple[CompiledVersion, ...] = ()

    secrets: SecretUse = SecretUse.CONTENT
    """The part of Secrets among the children that must be read, for expressions or to detect changes."""

    @cached_property
    def all_nodes(self) -> tuple[BoxNode, ...]:
        """The resources of the box, followed by those that run before a deletion."""
        return (*self.nodes, *(node for phase in self.drains for node in phase))

    @cached_property
    def child_kinds(self) -> tuple[Kind, ...]:
        """The kinds of all children that the box may have created.

        They include kinds that the box only declares, since an earlier version of the file may have created such
        objects.
        """
        read = {external.kind for external in self.externals}
        declared = (kind for kind in map(_declared, self.model.spec.kinds) if kind not in read)
        return tuple(dict.fromkeys((*(node.kind for node in self.all_nodes), *declared)))

    @property
    def asks_namespaces(self) -> bool:
        """Report whether an expression computes the namespace of any object of the box.

        Such an object may be in another namespace than its parent (object of the box's kind).
        """
        asking: Iterable[BoxNode | ExternalNode] = (*self.all_nodes, *self.externals)
        return self.kind.namespaced and any(each.asks_namespace for each in asking)

    @property
    def field_manager(self) -> str:
        """The field manager under which the box writes all objects."""
        return f"vworkspace-box.{self.name}"

    def node(self, identifier: str) -> BoxNode | None:
        """Return the resource with this id, or None if the box has none.

        Resources that run before a deletion (`drains`) are included.
        """
        return self._by_id.get(identifier)

    @cached_property
    def _by_id(self) -> Mapping[str, BoxNode]:
        return {node.id: node for node in self.all_nodes}


def _declared(declared_kind: DeclaredKind) -> Kind:
    group, _, version = declared_kind.api_version.rpartition("/")
    return Kind(group, version, declared_kind.kind, declared_kind.plural, declared_kind.namespaced)
