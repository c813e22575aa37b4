"""An object and everything below it as a drawing: nodes in columns, and the edges between them (SEE-3).

For instances and Operations, the drawing shows the tree of owners. For an object whose operator is a box (a YAML file)
or a reconciler in Python, it shows the graph of its resources, with the conditions on which each one waits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.apimachinery.resources import POD
from purekube.apimachinery.secret_material import safe
from purekube.composites.composite import Composite, Explanation
from purekube.controller.decision import Snapshot
from purekube.graph.node_order import Graph
from purekube.graph.states import NodeState, Observation
from vworkspace_core.overview.origin import ObjectOrigin, origin_of
from vworkspace_core.overview.severity import Severity, severity_of, severity_of_node, urgency
from vworkspace_core.overview.summary import FORMER, Summary, redacted_summary, summary_of, summary_of_child
from vworkspace_core.overview.tree import Branch

MOST_NODES: Final = 200
"""The maximum number of nodes in a drawing; further nodes are only counted."""
_MOST_ITEMS: Final = 12
"""The maximum number of objects drawn for one resource with many objects; those in a bad state are always drawn."""
_MOST_PODS: Final = 4
"""The maximum number of pods drawn for one owner; pods in a bad state are always drawn."""


@attrs.frozen
class ObjectGraphNode:
    """One node of a drawing: an object with its state.

    `waits_for` has the names of the nodes that block the object. `when_conditions` has the object's gates, the
    conditions that must hold before it is written.
    """

    id: str
    kind: str
    name: str
    state: str
    severity: Severity
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    ref: ObjectRef | None = None
    waits_for: tuple[str, ...] = ()
    when_conditions: tuple[str, ...] = ()
    phase: str = ""
    column: int = 0
    row: int = 0


@attrs.frozen
class ObjectGraphEdge:
    """An edge of the drawing: the node `target` depends on `source`.

    `is_open` says that `source` does not block `target`.
    """

    source: str
    target: str
    is_open: bool = True


@attrs.frozen
class ObjectGraph:
    """A drawing of objects and their dependencies, with at most `MOST_NODES` nodes.

    `left_out` is the number of further nodes, which are not drawn.
    """

    nodes: tuple[ObjectGraphNode, ...]
    edges: tuple[ObjectGraphEdge, ...]
    left_out: int = 0

    @property
    def columns(self) -> int:
        """The number of columns of the drawing."""
        return 1 + max((node.column for node in self.nodes), default=-1)

    @property
    def rows(self) -> int:
        """The number of rows of the tallest column of the drawing."""
        return 1 + max((node.row for node in self.nodes), default=-1)


# --- trees -----------------------------------------------------------------------------------------------------------


def graph_of_tree(branch: Branch, origin: ObjectOrigin) -> ObjectGraph:
    """Return the drawing of the object at the root of `branch`, with the objects below it.

    The columns, from left to right, are the object's requester (`origin`), the object, its Flux sources and its
    release, and then other objects, each to the right of its owner.
    """
    asked = _of_origin(origin)
    root = _of_summary(branch.summary)
    nodes, edges = [asked, root], [ObjectGraphEdge(asked.id, root.id)]
    _grow(branch, nodes, edges)
    return _laid_out(nodes, edges)


def _of_origin(origin: ObjectOrigin) -> ObjectGraphNode:
    if origin.job:
        return ObjectGraphNode(
            "origin", "job of the control plane", safe(origin.job.rpartition("/")[2]), "", Severity.QUIET
        )
    if origin.tool:
        return ObjectGraphNode("origin", str(origin.tool), safe(origin.name), "", Severity.QUIET)
    return ObjectGraphNode("origin", "applied directly", safe(origin.manager) or "writer unknown", "", Severity.QUIET)


def _grow(branch: Branch, nodes: list[ObjectGraphNode], edges: list[ObjectGraphEdge]) -> None:
    parent = _of_summary(branch.summary)
    beside = {child.summary.ref: _of_summary(child.summary) for child in branch.children}
    for child in branch.children:
        node = beside[child.summary.ref]
        sources = [beside[ref] for ref in child.made_from if ref in beside]
        if child.summary.ref.kind == POD:
            continue
        nodes.append(node)
        edges += [ObjectGraphEdge(source.id, node.id, source.severity is Severity.GOOD) for source in sources]
        edges += [] if sources else [ObjectGraphEdge(parent.id, node.id)]
        _grow(child, nodes, edges)
    pods = _folded([node for ref, node in beside.items() if ref.kind == POD], f"Pods of {parent.name}", _MOST_PODS)
    nodes += pods
    edges += [ObjectGraphEdge(parent.id, pod.id) for pod in pods]


def _of_summary(summary: Summary) -> ObjectGraphNode:
    shown = redacted_summary(summary)
    ref = shown.ref
    severity = severity_of(shown.state)
    return ObjectGraphNode(
        _id(ref), ref.kind.kind, ref.name, shown.state.value, severity, shown.reason, shown.message, shown.since, ref
    )


def _id(ref: ObjectRef) -> str:
    return f"{ref.kind.crd_name}/{ref.namespace or ''}/{ref.name}"


# --- parents of composites -------------------------------------------------------------------------------------------


def graph_of_parent(composite: Composite, manifest: Manifest, observed: Snapshot, now: datetime) -> ObjectGraph:
    """Return the drawing of the parent `manifest`, an object of the composite's kind, and the resources in its graph.

    `observed` has the objects in the cluster, as seen at the time `now`. A composite is a box (a YAML file) or a
    reconciler in Python that creates child objects for a parent. If the parent is being deleted, or its graph is
    unknown, its existing child objects are drawn instead.
    """
    explanation = composite.explain(composite.read(manifest), observed, now) if composite.explain is not None else None
    if explanation is None or metadata(manifest).get("deletionTimestamp"):
        from vworkspace_core.overview.box_tree import tree_of_marked  # of boxes, of which many operators have none

        return graph_of_tree(tree_of_marked(composite.kind, manifest, observed.objects), origin_of(manifest))
    root = _of_summary(summary_of(composite.kind, manifest))
    nodes, edges, ends = [root], list[ObjectGraphEdge](), dict[str, list[str]]()
    observations = explanation.plan.observations
    for name, items in observations.items():
        made = _folded([_of_observation(item, explanation) for item in items], name, _MOST_ITEMS)
        nodes += made
        ends[name] = [node.id for node in made]
    is_open = {name: all(one.is_ready for one in seen) for name, seen in observations.items()}
    for name, mine in ends.items():
        sources = _sources(explanation.graph, name, ends)
        for target in mine:
            edges += [ObjectGraphEdge(source, target, is_open[of]) for of, source in sources]
            edges += [] if sources else [ObjectGraphEdge(root.id, target)]
    leaving = (*explanation.plan.former, *(one.ref for one in explanation.plan.going if one.ref is not None))
    former = _folded([_of_former(ref, observed.objects[ref]) for ref in leaving], "former ones", _MOST_ITEMS)
    edges += [ObjectGraphEdge(root.id, node.id) for node in former]
    return _laid_out([*nodes, *former], edges)


def _of_former(ref: ObjectRef, live: Manifest) -> ObjectGraphNode:
    return _of_summary(attrs.evolve(summary_of_child(ref.kind, live), reason="Former", message=FORMER))


def _sources(graph: Graph, name: str, ends: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return the sources from which edges are drawn to the node `name` of `graph`: the nodes on which it depends.

    Each is a pair of the source's name and the id under which its first object is drawn. `ends` has the ids of the
    drawn objects of each node.
    """
    targets = dict.fromkeys(edge.to for edge in graph.edges.get(name, ()))
    return [(to, ends[to][0]) for to in targets if ends.get(to)]


def _of_observation(observation: Observation, explanation: Explanation) -> ObjectGraphNode:
    node = explanation.graph.nodes[observation.node]
    return ObjectGraphNode(
        f"node/{observation.node}/{observation.key}",
        node.kind.kind,
        safe(observation.ref.name if observation.ref is not None else observation.node),
        observation.state.value,
        severity_of_node(observation.state),
        safe(observation.reason),
        safe(observation.message),
        None,
        observation.ref,
        observation.waits_for,
        tuple(safe(gate) for gate in explanation.when_conditions.get(observation.node, ())),
        safe(explanation.phases.get(observation.node, "")),
    )


def _folded(nodes: Sequence[ObjectGraphNode], name: str, most: int) -> list[ObjectGraphNode]:
    """Return the `most` most urgent of `nodes`, and one further node that replaces all others.

    Nodes with a bad severity are always returned. `name` is the name of the further node's group.
    """
    ordered = sorted(nodes, key=lambda node: urgency(node.severity))
    number = max(most, sum(node.severity is Severity.BAD for node in nodes))
    others = ordered[number:]
    if not others:
        return ordered
    well = sum(node.severity in (Severity.GOOD, Severity.QUIET) for node in others)
    worst = min((node.severity for node in others), key=urgency)
    state = NodeState.READY if well == len(others) else NodeState.PROGRESSING
    text = f"{well} of them are ready"
    rest = ObjectGraphNode(f"rest/{name}", name, f"and {len(others)} more", state.value, worst, "", text)
    return [*ordered[:number], rest]


# --- layout ----------------------------------------------------------------------------------------------------------


def _laid_out(nodes: Sequence[ObjectGraphNode], edges: Iterable[ObjectGraphEdge]) -> ObjectGraph:
    """Return the drawing of `nodes`, with a column and a row for each of them.

    A node is one column after its last source, at the mean row of its sources or the next free row below.
    """
    drawn = {node.id: node for node in _most_urgent(nodes)}
    kept = [edge for edge in edges if edge.source in drawn and edge.target in drawn]
    columns = _columns(drawn, kept)
    rows: dict[str, int] = {}
    for _, members in sorted(_by_column(drawn, columns).items()):
        free = 0
        for name in sorted(members, key=lambda member: _pull(member, kept, rows)):
            rows[name] = max(free, int(_pull(name, kept, rows)))
            free = rows[name] + 1
    placed = (attrs.evolve(node, column=columns[name], row=rows[name]) for name, node in drawn.items())
    return ObjectGraph(tuple(placed), tuple(kept), max(0, len(nodes) - MOST_NODES))


def _most_urgent(nodes: Sequence[ObjectGraphNode]) -> Sequence[ObjectGraphNode]:
    """Return those of `nodes` that are drawn, in their given order: the most urgent ones, at most `MOST_NODES`.

    The first two are always drawn: the requester and the object, to which all other nodes belong.
    """
    by_urgency = sorted(range(len(nodes)), key=lambda at: (at > 1, urgency(nodes[at].severity)))
    return [nodes[at] for at in sorted(by_urgency[:MOST_NODES])]


def _columns(nodes: Mapping[str, ObjectGraphNode], edges: Sequence[ObjectGraphEdge]) -> dict[str, int]:
    sources: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        sources[edge.target].append(edge.source)
    columns = dict.fromkeys(nodes, 0)
    for _ in range(len(nodes)):  # no path is longer; so this ends even on a cycle
        moved = False
        for name, before in sources.items():
            column = 1 + max(columns[source] for source in before)
            if column > columns[name] and column < len(nodes):
                columns[name], moved = column, True
        if not moved:
            break
    return columns


def _by_column(nodes: Iterable[str], columns: Mapping[str, int]) -> Mapping[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for name in nodes:
        found[columns[name]].append(name)
    return found


def _pull(name: str, edges: Sequence[ObjectGraphEdge], rows: Mapping[str, int]) -> float:
    """Return the row near which the node `name` is drawn: the mean row of the nodes from which an edge leads to it.

    Return 0.0 if there are none.
    """
    above: list[int] = [rows[edge.source] for edge in edges if edge.target == name and edge.source in rows]
    return sum(above) / len(above) if above else 0.0


def walk(object_graph: ObjectGraph) -> Iterator[ObjectGraphNode]:
    """Yield the nodes of `object_graph` in reading order: column by column, each from top to bottom."""
    return iter(sorted(object_graph.nodes, key=lambda node: (node.column, node.row)))
