"""The origins of names: who decides the names of objects, read from a box before anything is compiled (RUN-12)."""

from collections.abc import Iterator, Mapping
from typing import Any

from purekube.apimachinery.manifest import Kind, get_path
from purekube.boxes.children import ChildNames
from purekube.boxes.model import BoxResource, OperatorBox
from purekube.boxes.schemas import KnownKind
from purekube.boxes.scoping import names_in
from purekube.boxes.taint import PARENT, Origin, Taint, child, external, taint_of
from purekube.boxes.templates import text_parts
from purekube.cel import CelSyntaxError
from purekube.cel.parser import parse
from purekube.cel.syntax import Expression


def taints_of(model: OperatorBox, kinds: Mapping[str, KnownKind], names: ChildNames) -> Mapping[str, Taint]:
    """Return the taint of every variable of a box: the parent, its children and their lists, its externals."""
    taints: dict[str, Taint] = {"self": PARENT}
    for resource in _resources(model):
        if resource.id in kinds:
            meta = get_path(resource.template, "metadata", "name")
            is_list = resource.for_each is not None
            taints[resource.id] = child(kinds[resource.id].kind, origin_of(meta), listed=is_list)
    for one in model.spec.externals:
        if one.id in kinds:
            taints[one.id] = _external(kinds[one.id].kind, one.metadata)
    for name, ids in names.lists.items():
        if ids[0] in kinds:
            named = max(
                origin_of(get_path(resource.template, "metadata", "name"))
                for resource in _resources(model)
                if resource.id in ids
            )
            taints[name] = child(kinds[ids[0]].kind, named, listed=True)
    return taints


def _resources(model: OperatorBox) -> Iterator[BoxResource]:
    yield from model.spec.resources
    for phase in model.spec.phases:
        yield from phase.resources
    for last in model.spec.deletion.phases:
        yield from last.resources


def _external(kind: Kind, metadata: Mapping[str, Any]) -> Taint:
    namespace = metadata.get("namespace")
    elsewhere = not kind.namespaced or (namespace is not None and origin_of(namespace, literal=True) is Origin.AUTHOR)
    return external(kind, origin_of(metadata.get("name")), elsewhere=elsewhere)


def origin_of(text: Any, *, literal: bool = False) -> Origin:
    """Return who decides a text of a template, by what it reads of the parent. `literal`: an expression is a choice."""
    if not isinstance(text, str):
        return Origin.CHOSEN
    try:
        trees = [parse(piece.text) for piece in text_parts(text) if piece.is_expression]
    except CelSyntaxError:
        return Origin.CHOSEN
    if literal and trees:
        return Origin.CHOSEN
    return max((_origin(tree) for tree in trees), default=Origin.AUTHOR)


def _origin(tree: Expression) -> Origin:
    """Return who decides an expression that reads the parent alone; anything else that it reads is a choice."""
    others = {name: Taint(origin=Origin.CHOSEN) for name in names_in(tree) if name != "self"}
    return taint_of(tree, {**others, "self": PARENT}).whole.origin
