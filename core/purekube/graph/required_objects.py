"""The first half of planning: the objects that each node requires, evaluated in graph order (PH-1, PH-4).

A node is a resource of the graph, with its child objects. What earlier nodes rendered is added to the scope (the values
that expressions read), where later nodes see it. The second half (`judge`) determines the states and the gates
(conditions for writes), once the scope is complete.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, content_hash, get_path, metadata
from purekube.apimachinery.resources import SECRET
from purekube.controller.decision import Snapshot
from purekube.controller.ownership import controller_of
from purekube.graph.node import (
    ApplyPolicy,
    Child,
    Edge,
    GraphNode,
    Hold,
    HoldCause,
    Item,
    NodeChildren,
    NodeKnowledge,
    Rendered,
    Scope,
    Until,
)
from purekube.graph.node_order import Graph
from purekube.graph.owner import CreateRecord, Owner, label_text

_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


@attrs.frozen
class WantedItem:
    """A desired object of a graph node.

    `manifest` is what is applied. A node with a list makes one object for each item of the list; `item` is the one of
    this object. `live` is the existing object of that name; `is_foreign` says that it belongs to another owner.
    `record` is what the owner's status says about an object that is created only once, None for other objects.
    `problem` says why the object cannot exist.
    """

    item: Item
    ref: ObjectRef
    manifest: Manifest
    live: Manifest | None = None
    is_foreign: bool = False
    record: CreateRecord | None = None
    problem: str = ""


@attrs.frozen
class WantedNode:
    """The result of evaluating a graph node: its desired objects.

    `items` is empty if the node is excluded: by its own `include` condition, or because it depends on an excluded node,
    which `excluded_by` names. It is also empty if the node could not be evaluated; `hold` is the reason.
    """

    node: GraphNode
    knowledge: NodeKnowledge
    items: tuple[WantedItem, ...] = ()
    edges: tuple[Edge, ...] = ()
    hold: Hold | None = None
    excluded_by: str = ""


def evaluate(
    graph: Graph, owner: Owner, observed: Snapshot, scope: Scope, held: Sequence[tuple[ObjectRef, Manifest]]
) -> tuple[Scope, Mapping[str, WantedNode]]:
    """Evaluate all nodes of the graph in order. Return the complete scope (the values that expressions read), and the
    result for each node by its id. `held` are all existing objects that belong to the owner.
    """
    nodes = _objects_by_label(graph, owner, held)
    whole = Scope(scope.values, nodes)
    evaluation = _Evaluation(graph, owner, observed, whole, nodes)
    for node in graph.nodes.values():
        desired = evaluation.wanted(node)
        evaluation.found[node.id] = desired
        nodes[node.id] = NodeChildren(desired.knowledge, tuple(map(_child, desired.items)))
    return whole, evaluation.found


def _objects_by_label(
    graph: Graph, owner: Owner, held: Sequence[tuple[ObjectRef, Manifest]]
) -> dict[str, NodeChildren]:
    """Return the existing objects in `held` by the id of the graph node that their labels name.

    Until a node is rendered, other nodes read these objects instead.
    """
    children: dict[str, list[Child]] = {}
    for ref, live in held:
        key = str(get_path(live, "metadata", "labels", owner.marks.item) or "")
        children.setdefault(owner.node_of(live), []).append(Child(key, ref, live=live))
    nothing = NodeChildren()
    return {
        node_id: NodeChildren(items=tuple(children[label])) if (label := label_text(node_id)) in children else nothing
        for node_id in graph.nodes
    }


def _child(desired: WantedItem) -> Child:
    live = None if desired.is_foreign else desired.live
    return Child(desired.item.key, desired.ref, desired.item.manifest, live, desired.item.bindings)


@attrs.define
class _Evaluation:
    """The state of evaluating a graph node by node.

    `nodes` is the same mapping as `scope.nodes`; each evaluated node is added to it.
    """

    graph: Graph
    owner: Owner
    observed: Snapshot
    scope: Scope
    nodes: dict[str, NodeChildren]
    found: dict[str, WantedNode] = attrs.field(factory=dict)
    claimed: dict[ObjectRef, str] = attrs.field(factory=dict)

    def wanted(self, node: GraphNode) -> WantedNode:
        """Decide whether the graph node should exist, and render its items."""
        included = node.include(self.scope)
        if isinstance(included, Hold) and included.cause is not HoldCause.NO:
            return WantedNode(node, NodeKnowledge.UNKNOWN, hold=included)
        if included is not True:
            return WantedNode(node, NodeKnowledge.EXCLUDED)
        answer = node.render(self.scope)
        edges = self._counting(node, answer.touched)
        is_certain = isinstance(answer, Rendered) or answer.touched is not None
        for edge in edges:
            if (is_certain or edge.declared) and self.nodes[edge.to].knowledge is NodeKnowledge.EXCLUDED:
                return WantedNode(node, NodeKnowledge.EXCLUDED, edges=edges, excluded_by=edge.to)
        if isinstance(answer, Hold):
            return WantedNode(node, NodeKnowledge.UNKNOWN, edges=edges, hold=answer)
        if repeated := _repeated_key(answer):
            fault = Hold(HoldCause.FAULT, f"two items have the key {repeated!r}", node.place)
            return WantedNode(node, NodeKnowledge.UNKNOWN, edges=edges, hold=fault)
        roll = self._roll_hash(node)
        items = tuple(self._item(node, item, roll) for item in answer.items)
        return WantedNode(node, NodeKnowledge.RENDERED, items, edges)

    def _counting(self, node: GraphNode, touched: Any) -> tuple[Edge, ...]:
        """Return the dependencies that can block the graph node. These are the declared ones, and among the inferred
        ones those that the evaluation read (`touched`; None: all). A node of `roll_on` that is excluded is left out,
        since its content is nothing, which neither excludes this node nor is waited for.
        """
        edges = (
            edge
            for edge in self.graph.edges[node.id]
            if edge.until is not Until.NOTHING and not self._is_rolled_on_nothing(node, edge)
        )
        return tuple(edge for edge in edges if edge.declared or touched is None or edge in touched)

    def _is_rolled_on_nothing(self, node: GraphNode, edge: Edge) -> bool:
        is_excluded = self.nodes[edge.to].knowledge is NodeKnowledge.EXCLUDED
        return is_excluded and edge.to in node.roll_on and edge not in node.edges

    def _item(self, node: GraphNode, item: Item, roll: str) -> WantedItem:
        record = self._record(node, item) if node.policy is ApplyPolicy.ONCE else None
        if record is not None:
            item = _under(item, record)
        ref = self.owner.ref_of(node.kind, item.manifest)
        live = self.observed.objects.get(ref)
        if node.policy is ApplyPolicy.NEVER:
            return WantedItem(item, ref, item.manifest, live, problem=_problem(node, item, ref))
        problem = _problem(node, item, ref) or self._claim(node, ref)
        manifest = self.owner.rendered(node, item, ref, self.graph.waves[node.id], roll)
        is_foreign = live is not None and not self._may_write(node, live)
        return WantedItem(item, ref, manifest, live, is_foreign, record, problem)

    def _may_write(self, node: GraphNode, live: Manifest) -> bool:
        """Report whether the graph node may write the existing object `live`. The node may if the object belongs to the
        owner, or if it has no controller and the node adopts it or only requires it to exist.
        """
        if self.owner.is_ours(live):
            return True
        return controller_of(live) is None and (node.adopt or node.policy is ApplyPolicy.IF_ABSENT)

    def _record(self, node: GraphNode, item: Item) -> CreateRecord | None:
        return next(
            (record for record in self.owner.records if (record.node, record.item) == (node.id, item.key)), None
        )

    def _claim(self, node: GraphNode, ref: ObjectRef) -> str:
        """Record that the node requires the object `ref`, and return ""; return a message if another node
        does already.
        """
        if ref in self.claimed:
            return f"{self.claimed[ref]} wants this object already"
        self.claimed[ref] = node.id
        return ""

    def _roll_hash(self, node: GraphNode) -> str:
        """Return a hash of the objects of the graph nodes in `roll_on`; a change of the hash replaces the pods. Return
        "" if `roll_on` is empty.

        Nodes that are always applied are hashed as rendered, other nodes by their live objects. Of a Secret only the
        uid and the resourceVersion are hashed.
        """
        if not node.roll_on:
            return ""
        return content_hash([self._content(self.graph.nodes[target], self.nodes[target]) for target in node.roll_on])

    def _content(self, node: GraphNode, children: NodeChildren) -> list[Any]:
        if node.kind == SECRET:
            return [
                [metadata(child.live or {}).get(key) for key in ("uid", "resourceVersion")] for child in children.items
            ]
        rendered = node.is_rolled_as_rendered
        manifests = (child.rendered if rendered else child.live for child in children.items)
        return [
            {key: value for key, value in (manifest or {}).items() if key not in _NOT_CONTENT} for manifest in manifests
        ]


def _repeated_key(answer: Rendered) -> str | None:
    seen: set[str] = set()
    for item in answer.items:
        if item.key in seen:
            return item.key or "(none)"
        seen.add(item.key)
    return None


def _under(item: Item, record: CreateRecord) -> Item:
    """Return the item with the object name in `record`, since an object that is created once keeps its first name.

    The namespace in the record is ignored, since a tenant may be able to write the record.
    """
    return attrs.evolve(item, manifest={**item.manifest, "metadata": {**metadata(item.manifest), "name": record.name}})


def _problem(node: GraphNode, item: Item, ref: ObjectRef) -> str:
    """Return why the item's object, `ref`, cannot exist; "" if it can exist."""
    given = (item.manifest.get("apiVersion"), item.manifest.get("kind"))
    if given != (node.kind.api_version, node.kind.kind):
        return f"it is {given[0]} {given[1]} and not {node.kind.api_version} {node.kind.kind}"
    if not ref.name:
        return "metadata.name is empty"
    if node.kind.namespaced and not ref.namespace:
        return "metadata.namespace is empty, and its owner has none either"
    if node.policy is ApplyPolicy.ONCE and not _NAME.fullmatch(ref.name):
        # The name is recorded before the object is created, and is never changed: it must be valid.
        return f"metadata.name {ref.name!r} is no name of an object: lower case letters, digits, - and . only"
    return ""
