"""The resources of a box as nodes of a graph (PH-1, PH-4), and the checks of consent for other namespaces and Secrets
(RUN-12).
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import names_in
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.boxes.box import MARKS, READERS, Box, BoxNode, ExternalNode, Iteration
from purekube.boxes.decision.evaluation import Evaluation, evaluation_of, hold_of, together, variables, when_test
from purekube.boxes.expressions import BoxExpression, ExpressionFailure
from purekube.boxes.model import GeneratedField, OwnerMode, ReadinessRule
from purekube.cel.syntax import Binary, Call, Conditional, Expression, children
from purekube.composites.parent import as_stored
from purekube.controller.decision import ALPHANUMERIC, Fill
from purekube.controller.managed_fields import kubectl_name
from purekube.graph.node import ApplyPolicy, Edge, GraphNode, Hold, HoldCause, Item, Rendered, Scope, Until
from purekube.graph.node_order import Graph
from purekube.readiness import Readiness, State


def closed_namespace(evaluation: Evaluation, scope: Scope, namespace: str | None, place: Place) -> Hold | None:
    """Return a Hold (a reason to wait) if the box may not use objects in `namespace`, which an expression computed.

    Return None if the namespace is the parent's own, was created by the box for this parent, or consents by its
    annotation. `evaluation` has the parent and the observed namespaces, and `scope` the resources evaluated so far.
    `place` is the place in the file to name in the Hold.
    """
    own = get_path(evaluation.parent, "metadata", "namespace")
    if (
        own is None
        or namespace is None
        or namespace in (own, *evaluation.observed.peers, *_created_namespaces(evaluation, scope))
    ):
        return None
    live = evaluation.observed.objects.get(ObjectRef(NAMESPACE, None, namespace))
    command = _annotate(ObjectRef(NAMESPACE, None, namespace), live, MARKS.peers, str(own))
    return Hold(HoldCause.DENIED, f"namespace {namespace} has not let namespace {own} in: {command}", place)


def closed_secret(evaluation: Evaluation, external: ExternalNode, ref: ObjectRef) -> Hold | None:
    """Return a Hold (a reason to wait) if the box may not read the Secret `ref`, which a parent (object of the box's
    kind) names.

    Return None if the Secret does not exist, if an annotation of the Secret permits parents of this kind to use it, or
    if `external`, the box's entry for the Secret, requires no such annotation.
    """
    live, kind = evaluation.observed.objects.get(ref), evaluation.box.kind
    if not external.must_agree or live is None or kind.crd_name in names_in(live, READERS):
        return None
    command = _annotate(ref, live, READERS, kind.crd_name)
    return Hold(HoldCause.DENIED, f"{ref} does not let {kind.kind} objects use it: {command}", external.place)


def _created_namespaces(evaluation: Evaluation, scope: Scope) -> set[str]:
    """Return the names of the namespaces that the box itself creates for this parent (object of the box's kind)."""
    nodes = (node.id for node in evaluation.box.nodes if node.kind == NAMESPACE)
    children = (child for name in nodes if name in scope.nodes for child in scope.nodes[name].items)
    return {child.ref.name for child in children if child.ref is not None}


def _annotate(ref: ObjectRef, live: Manifest | None, annotation: str, name: str) -> str:
    """Return the kubectl command that adds `name` to the names in an annotation of the object `ref`; `live` is the
    present object.
    """
    names = ",".join(sorted({*names_in(live, annotation), name}))
    quoted = shlex.join(kubectl_name(ref).split(" "))
    return f"kubectl annotate --overwrite {quoted} {shlex.quote(f'{annotation}={names}')}"


MOST_ITEMS: Final = 100
"""The largest number of objects that `forEach` may make of one resource."""


@lru_cache(maxsize=256)
def graph_of(box: Box) -> Graph:
    """Return the dependency graph of a box: the externals (objects that it only reads), then its resources.

    Raises GraphError for an id that is used twice, an unknown dependency, or a cycle.
    """
    return Graph.of([*map(_external, box.externals), *(_resource(box, node) for node in box.nodes)])


@lru_cache(maxsize=256)
def drains_of(box: Box) -> Graph:
    """Return the graph of the resources that must finish before a deletion. Each phase waits for the phase before it.

    Raises GraphError for an id that is used twice, an unknown dependency, or a cycle.
    """
    nodes: list[GraphNode] = []
    before: tuple[str, ...] = ()
    for phase in box.drains:
        waits = tuple(Edge(name, Until.READY, declared=True) for name in before)
        made = [_resource(box, node) for node in phase]
        nodes += [attrs.evolve(one, policy=ApplyPolicy.ONCE, edges=(*_within(one, made), *waits)) for one in made]
        before = tuple(node.id for node in phase)
    return Graph.of(nodes)


def _within(node: GraphNode, phase: Sequence[GraphNode]) -> Iterator[Edge]:
    """Yield the dependencies of the resource `node` on other resources of the same deletion phase."""
    ids = {other.id for other in phase}
    return (edge for edge in node.edges if edge.to in ids)


# --- externals -------------------------------------------------------------------------------------------------------


def external_name(evaluation: Evaluation, external: ExternalNode) -> tuple[str | None, str] | None:
    """Return the namespace and name of an external (an object that is only read). Return None if the name is not known
    yet.

    Raises ExpressionFailure if an expression in the name or namespace fails.
    """
    names = variables(external.name.expressions)
    said = evaluation.render(external.name, evaluation.variables(Scope(), names))
    name, namespace = get_path(said, "name"), get_path(said, "namespace")
    if not isinstance(name, str) or not name:
        return None
    own = str(get_path(evaluation.parent, "metadata", "namespace") or "")
    where = namespace if isinstance(namespace, str) and namespace else own
    return (where if external.kind.namespaced else None), name


def _external(external: ExternalNode) -> GraphNode:
    include, ready = together(external.include), together(external.ready)

    def render(scope: Scope) -> Rendered | Hold:
        try:
            found = external_name(evaluation_of(scope), external)
        except ExpressionFailure as failure:
            return hold_of(failure)
        if found is None:
            return Hold(HoldCause.MISSING, "its name is not known yet", external.place)
        namespace, name = found
        evaluation = evaluation_of(scope)
        closed = closed_namespace(evaluation, scope, namespace, external.place) if external.asks_namespace else None
        closed = closed or closed_secret(evaluation, external, ObjectRef(external.kind, namespace, name))
        if closed is not None:
            return closed
        return Rendered((Item("", external.kind.manifest(name, namespace)),))

    return GraphNode(
        external.id,
        external.kind,
        render,
        include=lambda scope: include(scope, {}),
        ready=lambda scope, item, live: ready(scope, {external.id: live}),
        schema=external.schema,
        policy=ApplyPolicy.NEVER,
        place=external.place,
        title=f"{external.kind.kind} {external.id}",
    )


# --- resources -------------------------------------------------------------------------------------------------------


def _resource(box: Box, node: BoxNode) -> GraphNode:
    include = together(node.include)
    return GraphNode(
        node.id,
        node.kind,
        _renderer(node, _Touching.of(node)),
        edges=node.edges,
        include=lambda scope: include(scope, {}),
        when=when_test(node.when_conditions),
        is_choice=bool(node.when_conditions) and all(gate.is_choice for gate in node.when_conditions),
        ready=_ready(node),
        readiness=_exists if node.readiness is ReadinessRule.EXISTS else None,
        schema=node.schema,
        policy=ApplyPolicy[node.apply.name],
        removal=node.on_delete,
        prune=node.prune,
        on_immutable=node.on_immutable,
        refers=node.owner is OwnerMode.REFERENCE,
        generate=tuple(_fill(node.kind, field) for field in node.generate),
        roll_on=node.roll_on,
        place=node.place,
        title=f"{node.kind.kind} {node.id}",
    )


def _fill(kind: Kind, field: GeneratedField) -> Fill:
    path = tuple(field.path.split("."))
    encoded = kind == SECRET and path[0] == "data"
    return Fill(path, field.length, field.alphabet or ALPHANUMERIC, base64=encoded)


def _exists(live: Manifest) -> Readiness:
    return Readiness(State.READY, "Exists")


def _ready(node: BoxNode) -> Callable[[Scope, Item, Manifest], bool | Hold]:
    ask = together(node.ready)
    if not node.ready:
        return lambda scope, item, live: True
    return lambda scope, item, live: ask(scope, {**item.bindings, node.id: live})


# --- rendering -------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Touching:
    """A test that finds which inferred dependencies of a resource were really needed to render its objects.

    If a conditional expression did not evaluate a branch, the branch causes no dependency. Without conditional
    expressions every inferred dependency counts.
    """

    edges: tuple[Edge, ...]
    choosing: tuple[BoxExpression, ...]
    plain: frozenset[str]
    """The variables that unconditional expressions read."""

    @classmethod
    def of(cls, node: BoxNode) -> "_Touching":
        iteration = () if node.iteration is None else (node.iteration.items, node.iteration.key)
        expressions = (*node.template.expressions, *iteration)
        choosing = tuple(expression for expression in expressions if _chooses(expression.program.tree))
        return cls(
            node.edges, choosing, variables(expression for expression in expressions if expression not in choosing)
        )

    def by(self, evaluation: Evaluation, values: Sequence[Mapping[str, Any]]) -> Set[Edge] | None:
        """Return the dependencies that were needed to render the resource with `values`, the variables of each item.
        Return None if every dependency counts.
        """
        if not self.choosing or not self.edges:
            return None
        return {edge for edge in self.edges if edge.to in self.plain or self._needs(evaluation, edge.to, values)}

    def _needs(self, evaluation: Evaluation, name: str, values: Sequence[Mapping[str, Any]]) -> bool:
        """Report whether a conditional expression reads the variable `name` for some item. It does if it fails without
        the variable.
        """
        for scope in values:
            without = {key: value for key, value in scope.items() if key != name}
            for expression in self.choosing:
                try:
                    evaluation.evaluate(expression, without)
                except ExpressionFailure:
                    return True
        return False


def _chooses(tree: Expression) -> bool:
    """Report whether an expression may leave some of its parts unevaluated.

    Conditionals, `&&`, `||`, `or` and `orValue` can do so.
    """
    match tree:
        case Conditional():
            return True
        case Binary(operator="&&" | "||"):
            return True
        case Call(name="orValue" | "or"):
            return True
    return any(map(_chooses, children(tree)))


def _renderer(node: BoxNode, touching: _Touching) -> Callable[[Scope], Rendered | Hold]:
    names = variables(node.template.expressions)

    def render(scope: Scope) -> Rendered | Hold:
        evaluation = evaluation_of(scope)
        try:
            each = list(_bindings(evaluation, node.iteration, scope))
            values = [evaluation.variables(scope, names, bindings) for _, bindings in each]
            items = tuple(
                Item(key, _manifest(evaluation, node, one), bindings)
                for (key, bindings), one in zip(each, values, strict=True)
            )
        except ExpressionFailure as failure:
            return hold_of(failure)
        except _Unusable as problem:
            return Hold(HoldCause.FAULT, problem.message, node.place)
        for item in items if node.asks_namespace else ():
            if (closed := closed_namespace(evaluation, scope, _namespace(item), node.place)) is not None:
                return closed
        return Rendered(items, touching.by(evaluation, values))

    return render


def _namespace(item: Item) -> str | None:
    namespace = get_path(item.manifest, "metadata", "namespace")
    return namespace if isinstance(namespace, str) else None


class _Unusable(Exception):
    """The error raised when an expression returned values from which no object can be built."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def _bindings(
    evaluation: Evaluation, iteration: Iteration | None, scope: Scope
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the key and the variables of each item of `forEach`; without `forEach`, an empty key without variables.

    Raises ExpressionFailure if an expression fails, and _Unusable for invalid or repeated keys.
    """
    if iteration is None:
        yield "", {}
        return
    items = evaluation.evaluate(iteration.items, evaluation.variables(scope, variables((iteration.items,))))
    if not isinstance(items, list):
        raise _Unusable("forEach takes a list")
    if len(items) > MOST_ITEMS:
        raise _Unusable(f"forEach takes at most {MOST_ITEMS} items, and there are {len(items)}")
    known: set[str] = set()
    names = variables((iteration.key,))
    for item in items:
        bindings = {iteration.variable: item}
        key = evaluation.evaluate(iteration.key, evaluation.variables(scope, names, bindings))
        if not isinstance(key, str) or not key:
            raise _Unusable("the key of an item is a text that is not empty")
        if key in known:
            raise _Unusable(f"two items have the key {key!r}")
        known.add(key)
        yield key, bindings


def _manifest(evaluation: Evaluation, node: BoxNode, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of one object of the resource `node`, rendered with `values` (variables with their values).

    The object is in the parent's namespace unless the template names another. Raises _Unusable if it has no name or
    lacks a namespace.
    """
    said = evaluation.render(node.template, values)
    meta = said.get("metadata") if isinstance(said, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(name, str) or not name:
        raise _Unusable("metadata.name has no value")
    namespace = meta.pop("namespace", None) or get_path(evaluation.parent, "metadata", "namespace")
    if node.kind.namespaced:
        if not isinstance(namespace, str):
            raise _Unusable("metadata.namespace has no value, and the parent is in no namespace")
        meta["namespace"] = namespace
    said["apiVersion"], said["kind"] = node.kind.api_version, node.kind.kind
    return as_stored(said) if node.kind == SECRET else said
