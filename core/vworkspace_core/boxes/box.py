"""A compiled box: what `compile` makes of a file, and everything else reads (PH-6).

Scopes hold `self`, the parent; every external and resource by its id, as far as it is there: an object, or for a
resource with `forEach` the list of its objects; and for every `children.<kind>[*]` that is read a list under that name.
A variable that is not in the scope is missing: its readers wait.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from vworkspace_core.apimachinery.manifest import Kind, Manifest
from vworkspace_core.apimachinery.places import Place
from vworkspace_core.boxes.expressions import BoxExpression
from vworkspace_core.boxes.model import (
    ApplyMode,
    GeneratedField,
    ImmutableMode,
    KeptIn,
    OnDelete,
    OperatorBox,
    OwnerMode,
    PruneMode,
    ReadinessRule,
)
from vworkspace_core.boxes.templates import Template
from vworkspace_core.composites.composite import SecretUse
from vworkspace_core.graph import Edge
from vworkspace_core.schema import Schema


@attrs.frozen(eq=False)
class TimeGate:
    """It opens so many seconds after the time that `time` gives, a text, maybe an optional one."""

    time: BoxExpression
    seconds: float


@attrs.frozen(eq=False)
class BoxGate:
    """A gate of a phase or a resource: open where `expression`, a bool, holds, or one of `times` has come.

    `phase` is empty for one of the resource itself.
    """

    place: Place
    expression: BoxExpression | None
    times: tuple[TimeGate, ...] = ()
    phase: str = ""
    shown: str = ""
    """As the file says it: `children.deployment.status.readyReplicas equals ${self.spec.replicas}`."""
    is_choice: bool = False
    """It looks at the parent only, or is said to be optional: closed, it leaves Ready alone (D13). What opens by itself
    in time is waited for."""


@attrs.frozen(eq=False)
class Iteration:
    """`forEach`: the variable of an item, the list, and what tells its items apart."""

    variable: str
    items: BoxExpression
    key: BoxExpression


@attrs.frozen(eq=False)
class BoxNode:
    """A resource of the box with its programs."""

    id: str
    kind: Kind
    place: Place
    template: Template
    asks_namespace: bool = False
    """Its namespace is worked out: another than the parent's has to agree (RUN-12)."""
    phase: str = ""
    schema: Schema | None = None
    """Of its kind; None where no schema is known."""
    iteration: Iteration | None = None
    include: tuple[BoxExpression, ...] = ()
    gates: tuple[BoxGate, ...] = ()
    ready: tuple[BoxExpression, ...] = ()
    readiness: ReadinessRule = ReadinessRule.KIND
    edges: tuple[Edge, ...] = ()
    apply: ApplyMode = ApplyMode.ALWAYS
    on_delete: OnDelete = OnDelete.DELETE
    prune: PruneMode = PruneMode.WHEN_READY
    on_immutable: ImmutableMode = ImmutableMode.FAIL
    owner: OwnerMode = OwnerMode.REFERENCE
    generate: tuple[GeneratedField, ...] = ()
    roll_on: tuple[str, ...] = ()
    wave: int = 0


@attrs.frozen(eq=False)
class ExternalNode:
    """An external: its name comes from `self` alone."""

    id: str
    kind: Kind
    place: Place
    name: Template
    """Gives `name`, and `namespace` where one is said."""
    asks_namespace: bool = False
    elsewhere: bool = False
    """It may be in another namespace than the parent."""
    must_agree: bool = False
    """A Secret that a parent names: it has to name the kind (RUN-12)."""
    schema: Schema | None = None
    ready: tuple[BoxExpression, ...] = ()
    fields: tuple[tuple[str, ...], ...] = ()
    """What expressions read of it; the empty path is all of it."""
    selector: Mapping[str, Any] = attrs.field(factory=dict)
    watch: bool = True


@attrs.frozen(eq=False)
class StatusCondition:
    """A condition of the parent: its status is a bool, reason and message are texts."""

    type: str
    status: BoxExpression
    reason: Template
    message: Template


@attrs.frozen
class BoxRule:
    """A rule that every parent keeps. `in_crd`: a CRD's rules can see all that it reads."""

    rule: str
    message: str
    field: str
    in_crd: bool


@attrs.frozen(eq=False)
class CompiledMutation:
    """A field of the parent that is filled in where it is absent. `is_default`: the CRD can do it."""

    path: tuple[str, ...]
    value: Template
    is_default: bool


@attrs.frozen(eq=False)
class CompiledVersion:
    """A version with what its fields are made of, by their paths: `up` reads `old`, `down` reads `self`."""

    name: str
    up: Mapping[tuple[str, ...], Template]
    down: Mapping[tuple[str, ...], Template]
    keeps: KeptIn
    is_storage: bool = False


@attrs.frozen(eq=False)
class Box:
    """An operator of one kind. `nodes` stand in topological order; `drains` run first when the parent goes."""

    name: str
    kind: Kind
    model: OperatorBox
    crd: Manifest
    """Empty where the kind is installed already and no file tells about it."""
    schema: Schema | None
    resync: float
    namespaces: Mapping[str, Any] | None
    nodes: tuple[BoxNode, ...]
    drains: tuple[tuple[BoxNode, ...], ...]
    externals: tuple[ExternalNode, ...]
    strict_order: bool
    account: Template | None
    """Gives the name of the ServiceAccount as which children are read and written; None: as the operator's own."""
    status_fields: Mapping[str, Template]
    """By the name of the field below `status`; each fails for itself."""
    conditions: tuple[StatusCondition, ...]
    lists: Mapping[str, tuple[str, ...]]
    """The ids that `children.<kind>[*]` stands for, by that name."""
    rules: tuple[BoxRule, ...] = ()
    mutations: tuple[CompiledMutation, ...] = ()
    versions: tuple[CompiledVersion, ...] = ()

    secrets: SecretUse = SecretUse.CONTENT
    """What is read of the Secrets that it makes, by an expression or to detect changes."""

    @property
    def asks_namespaces(self) -> bool:
        """Whether a namespace other than the parent's is worked out somewhere."""
        drains = (node for phase in self.drains for node in phase)
        asked = [node.asks_namespace for node in (*self.nodes, *drains)] + [
            one.asks_namespace for one in self.externals
        ]
        return self.kind.namespaced and any(asked)

    @property
    def field_manager(self) -> str:
        """Who writes its objects."""
        return f"vworkspace-box.{self.name}"

    def node(self, identifier: str) -> BoxNode | None:
        """The resource of an id, drains included."""
        return self._by_id.get(identifier)

    _by_id: Mapping[str, BoxNode] = attrs.field(init=False, repr=False)

    @_by_id.default
    def _index(self) -> Mapping[str, BoxNode]:
        return {node.id: node for node in (*self.nodes, *(node for phase in self.drains for node in phase))}
