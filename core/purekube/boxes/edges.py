"""The strength of a dependency, which follows from the path that a template reads (PH-6)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.places import Place
from purekube.boxes.model import DependencyUntil
from purekube.boxes.templates import renders
from purekube.cel import ITEM, VariablePath
from purekube.graph import Edge, Until

UNTIL: Final[Mapping[DependencyUntil, Until]] = {
    DependencyUntil.APPLIED: Until.APPLIED,
    DependencyUntil.OBSERVED: Until.OBSERVED,
    DependencyUntil.READY: Until.READY,
}


@attrs.frozen(eq=False)
class Target:
    """A possible dependency: a resource with its template, or an external, which renders nothing."""

    raw: Any = None
    is_list: bool = False


def wait_condition(target: Target, rest: VariablePath, *, soft: bool) -> Until:
    """Return what a reader of `rest` below a target waits for."""
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
    """Yield the edges that follow from what an expression reads."""
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
