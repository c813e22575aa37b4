"""The validation of one schema node: list types, defaults, and junctors that restrict undeclared fields."""

from collections.abc import Iterator
from typing import Final

from purekube.schema.node import MISSING, JsonType, ListType, Schema, SchemaProblem, ValueChecks
from purekube.schema.structure import check_structure

_SCALARS: Final = frozenset((JsonType.STRING, JsonType.INTEGER, JsonType.NUMBER, JsonType.BOOLEAN))


def node_problems(node: Schema, path: str) -> Iterator[SchemaProblem]:
    """Yield the problems of `node` itself, without those of the nodes below it."""
    match node.list_type:
        case ListType.MAP:
            yield from _map_problems(node, path)
        case ListType.SET if node.items is not None and not _set_item(node.items):
            yield SchemaProblem(f"{path}.items", "items of a list of type set must be scalar or atomic")
    if node.list_type is not ListType.ATOMIC and node.type is not JsonType.ARRAY:
        yield SchemaProblem(f"{path}.type", "must be array if x-kubernetes-list-type is specified")
    for branch in _branches(node.checks):
        yield from _branch_problems(branch, node, path)
    if node.default is not MISSING:
        for cause in check_structure(node, node.default, path="default"):
            yield SchemaProblem(f"{path}.default", cause.message)


def _map_problems(node: Schema, path: str) -> Iterator[SchemaProblem]:
    keys = f"{path}.x-kubernetes-list-map-keys"
    if not node.list_keys:
        yield SchemaProblem(keys, "must not be empty if x-kubernetes-list-type is map")
    item = node.items
    if item is None or item.type is not JsonType.OBJECT:
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield SchemaProblem(f"{path}.items.type", text)
        return
    for key in node.list_keys:
        child, where = item.properties.get(key), f"{path}.items.properties[{key}]"
        if child is None:
            yield SchemaProblem(keys, f"{key!r} must be a property of the items")
        elif child.type not in _SCALARS and not child.int_or_string:
            yield SchemaProblem(f"{where}.type", "must be a scalar type if it is a list map key")
        elif key not in item.required and child.default is MISSING:
            yield SchemaProblem(where, "a list map key must be required or have a default")


def _branch_problems(branch: Schema, node: Schema, path: str) -> Iterator[SchemaProblem]:
    """Yield a problem for each field that a junctor restricts and that is not declared outside of it."""
    for key, restricted in branch.properties.items():
        declared, where = node.child(key), f"{path}.properties[{key}]"
        if declared is not None:
            yield from _branch_problems(restricted, declared, where)
        elif not node.preserve_unknown:
            yield SchemaProblem(where, "must be declared, because a junctor restricts it")
    if branch.items is not None and node.items is not None:
        yield from _branch_problems(branch.items, node.items, f"{path}.items")
    for inner in _branches(branch.checks):
        yield from _branch_problems(inner, node, path)


def _branches(checks: ValueChecks | None) -> tuple[Schema, ...]:
    if checks is None:
        return ()
    negated = (checks.negated,) if checks.negated is not None else ()
    return (*checks.all_of, *checks.any_of, *checks.one_of, *negated)


def _set_item(item: Schema) -> bool:
    match item.type:
        case JsonType.OBJECT:
            return item.atomic_map
        case JsonType.ARRAY:
            return item.list_type is ListType.ATOMIC
        case _:
            return True
