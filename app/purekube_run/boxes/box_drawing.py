"""The graph of a box as Mermaid or DOT: the dependencies of its resources. Each edge shows the line that causes it."""

import re
from collections.abc import Iterator
from typing import Final

from purekube.boxes.box import Box, BoxNode
from purekube.graph.node import Edge, Until

_LABELS: Final = {
    Until.APPLIED: "applied",
    Until.OBSERVED: "there",
    Until.READY: "ready",
    Until.NOTHING: "looked at",
}
_DASHED: Final = frozenset((Until.NOTHING,))


def mermaid(box: Box) -> str:
    """Return the graph of a box's resources and their dependencies as a Mermaid flowchart, for Markdown pages."""
    lines = ["flowchart TD"]
    lines += [f"  {_id(external.id)}[/{_label(external.id, external.kind.kind)}/]" for external in box.externals]
    lines += [f'  {_id(node.id)}["{_label(node.id, node.kind.kind)}{_stack(node)}"]' for node in box.all_nodes]
    for node in box.all_nodes:
        for edge in _edges(node):
            arrow = "-.->" if edge.until in _DASHED else "-->"
            lines.append(f'  {_id(edge.to)} {arrow}|"{_condition_text(edge)}"| {_id(node.id)}')
        lines += [
            f'  gate_{_id(node.id)}_{at}{{{{"{_quoted(gate)}"}}}} -.-> {_id(node.id)}'
            for at, gate in _when_conditions(node)
        ]
    return "\n".join(lines) + "\n"


def dot(box: Box) -> str:
    """Return the graph of a box's resources and their dependencies in DOT, the language of Graphviz."""
    lines = [f'digraph "{box.name}" {{', "  rankdir=TB;", "  node [shape=box];"]
    lines += [
        f'  "{external.id}" [label="{_label(external.id, external.kind.kind)}", style=dashed];'
        for external in box.externals
    ]
    lines += [f'  "{node.id}" [label="{_label(node.id, node.kind.kind)}{_stack(node)}"];' for node in box.all_nodes]
    for node in box.all_nodes:
        for edge in _edges(node):
            style = ", style=dashed" if edge.until in _DASHED else ""
            lines.append(f'  "{edge.to}" -> "{node.id}" [label="{_condition_text(edge)}"{style}];')
        for at, gate in _when_conditions(node):
            name = f"gate {node.id} {at}"
            lines.append(f'  "{name}" [label="{_quoted(gate)}", shape=diamond];')
            lines.append(f'  "{name}" -> "{node.id}" [style=dotted];')
    return "\n".join([*lines, "}"]) + "\n"


def _edges(node: BoxNode) -> Iterator[Edge]:
    """Yield the edges of a node in the drawing, without duplicates.

    Two edges are duplicates if they lead to the same resource (`to`) and wait for the same stage of it (`until`).
    """
    seen: set[tuple[str, Until]] = set()
    for edge in node.edges:
        if (edge.to, edge.until) not in seen:
            seen.add((edge.to, edge.until))
            yield edge


def _condition_text(edge: Edge) -> str:
    line = f", line {edge.place.line}" if edge.place.line else ""
    return f"{_LABELS[edge.until]}{line}"


def _when_conditions(node: BoxNode) -> Iterator[tuple[int, str]]:
    return enumerate(f"when {gate.shown}" for gate in node.when_conditions)


def _id(name: str) -> str:
    """Return the id of a resource of the box, or of an external (an object of another owner), in a Mermaid flowchart.

    The id has a prefix, since a plain name may be a keyword of Mermaid.
    """
    return f"n_{name}"


def _label(name: str, kind: str) -> str:
    return f"{name}: {kind}"


def _stack(node: BoxNode) -> str:
    return " for each" if node.iteration is not None else ""


def _quoted(text: str) -> str:
    return re.sub(r"[\"\\\n{}|<>]", " ", text)
