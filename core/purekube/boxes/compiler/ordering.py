"""The order in which a box's resources are created, inferred from the paths that templates read (PH-1, PH-6)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.problems import Place
from purekube.boxes.box import BoxNode
from purekube.boxes.read import Findings
from purekube.boxes.templates import renders
from purekube.cel import ITEM, VariablePath
from purekube.graph.node import Edge, GraphNode, Rendered, Until
from purekube.graph.node_order import Cycle, Graph


@attrs.frozen(eq=False)
class Target:
    """A resource or external (object that the box only reads) on which other resources may depend.

    `raw` is the template of a resource; None for an external. `is_list` says that a resource has `forEach`.
    """

    raw: Any = None
    is_list: bool = False


def wait_condition(target: Target, rest: VariablePath, *, soft: bool) -> Until:
    """Return the state that `target` (a resource or external) must reach before others may read its field at `rest`.

    `rest` is a path; empty for the whole object. `soft` says that the reader tolerates the absence of the field.
    """
    if soft:
        return Until.NOTHING
    if target.is_list:
        if not rest:
            return Until.APPLIED  # the items are known once they are rendered
        rest = rest[1:] if rest[0] == ITEM else rest
    if not rest or rest[0] == "status":
        return Until.READY
    if rest[0] in ("apiVersion", "kind"):
        return Until.APPLIED
    if target.raw is not None and renders(target.raw, rest):
        return Until.APPLIED
    return Until.OBSERVED


def inferred(
    reads: Iterator[tuple[VariablePath, bool]],
    targets: Mapping[str, Target],
    lists: Mapping[str, tuple[str, ...]],
    place: Place,
) -> Iterator[Edge]:
    """Yield the dependencies of a resource that follow from the paths that its expressions read.

    Each item of `reads` is a path, with True if the expression tolerates that nothing is at the path. `targets` are the
    resources on which others may depend, by id. `lists` maps the name of a list, such as `children.deployment[*]`, to
    the ids of its resources. `place` is the place in the file to name in messages about these dependencies.
    """
    for path, soft in reads:
        root, rest = path[0], path[1:]
        for identifier in lists.get(root, (root,)):
            target = targets.get(identifier)
            if target is None:
                continue
            below = rest[1:] if root in lists and not target.is_list and rest[:1] == (ITEM,) else rest
            weak = root in lists and not rest
            yield Edge(
                identifier, Until.APPLIED if weak and not soft else wait_condition(target, below, soft=soft), place
            )


_LONGEST_CIRCLE: Final = 12
"""The largest number of ids of a cycle that a message names."""


def ordered(nodes: Sequence[BoxNode], externals: Sequence[str], findings: Findings) -> tuple[BoxNode, ...]:
    """Return the resources `nodes` in topological order, each with its wave (depth in the graph).

    If they form a cycle, add the cycle to `findings` and return the resources in their given order. `externals` are the
    ids of objects that are only read.
    """
    known = {node.id for node in nodes}.union(externals)
    stand_ins = [_stand_in(name, (), ()) for name in externals]
    for node in nodes:
        roll_on = tuple(name for name in node.roll_on if name in known and name != node.id)
        stand_ins.append(_stand_in(node.id, [edge for edge in node.edges if edge.to in known], roll_on))
    try:
        graph = Graph.of(stand_ins)
    except Cycle as error:
        first = next((node.place for node in nodes if node.id == error.path[0]), None)
        place = error.place if str(error.place) or first is None else first
        findings.problem(place.path, f"these wait for each other: {_circle(error.path)}")
        return tuple(nodes)
    by_id = {node.id: node for node in nodes}
    return tuple(attrs.evolve(by_id[name], wave=graph.waves[name]) for name in graph.nodes if name in by_id)


def known_nodes(nodes: Sequence[BoxNode], known: set[str]) -> list[BoxNode]:
    """Return the resources without their dependencies on ids that are not in `known`."""
    return [attrs.evolve(node, edges=tuple(edge for edge in node.edges if edge.to in known)) for node in nodes]


def _stand_in(name: str, edges: Sequence[Edge], roll_on: Sequence[str]) -> GraphNode:
    kind = Kind("", "v1", "Order", "orders")
    return GraphNode(name, kind, lambda scope: Rendered(), tuple(edges), roll_on=tuple(roll_on))


def _circle(path: Sequence[str]) -> str:
    """Return the dependency cycle `path` as text, `a → b → a`. The middle of a long cycle is left out."""
    if len(path) > _LONGEST_CIRCLE:
        path = (*path[: _LONGEST_CIRCLE - 2], f"({len(path) - _LONGEST_CIRCLE + 1} more)", path[-1])
    return " → ".join(path)


def descendants(reads: Mapping[str, Sequence[VariablePath]]) -> Mapping[str, set[str]]:
    """Return for each id the ids of all resources that its template reads, directly or through other resources.

    `reads` has the paths that each resource's template reads, by the resource's id.
    """
    direct = {name: {path[0] for path in paths if path[0] in reads} for name, paths in reads.items()}
    found: dict[str, set[str]] = {}
    for name in direct:
        seen, open_ = set[str](), [name]
        while open_:
            for other in direct.get(open_.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
        found[name] = seen
    return found
