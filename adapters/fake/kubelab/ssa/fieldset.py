"""Sets of field paths, in the form of managedFields.

A set is a tree of dicts, exactly the JSON of `fieldsV1`: each key is a path element, its value the subtree
below it. An element belongs to the set itself when its subtree is empty or holds the key `.`:

    {"f:spec": {"f:size": {}, "f:tags": {".": {}, 'v:"a"': {}}}}

holds `.spec.size`, `.spec.tags` and `.spec.tags[="a"]`, but not `.spec`. Sets are values: no function here
changes its arguments, and results may share subtrees with them.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

FieldSet: TypeAlias = Mapping[str, Any]
"""A set of paths; the empty mapping is the empty set."""

MEMBER: Final = "."
EMPTY: Final[FieldSet] = {}
_LEAF: Final[FieldSet] = {}


def is_member(node: FieldSet | None) -> bool:
    """Report whether a path is itself in a set of paths. `node` is the subtree of the set below this path.

    It is not in the set if it is only the beginning of longer paths. `node` None means that no path in the set begins
    with it.
    """
    return node is not None and (not node or MEMBER in node)


def insert(fields: dict[str, Any], path: tuple[str, ...] | list[str]) -> None:
    """Add `path`, a sequence of path elements such as `f:spec`, to the set `fields`.

    The dicts of `fields` are modified in place.
    """
    if not path:
        return
    for element in path[:-1]:
        node = fields.get(element)
        if node is None:
            fields[element] = node = {}
        elif not node:
            node[MEMBER] = {}
        fields = node
    last = fields.get(path[-1])
    if last is None:
        fields[path[-1]] = {}
    elif last:
        last[MEMBER] = {}


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths that are in either set."""
    if not left or left is right:
        return right
    if not right:
        return left
    out = dict(left)
    for element, node in right.items():
        mine = left.get(element)
        out[element] = node if mine is None else _join(mine, node)
    return out


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    if left is right:
        return left
    if not left or not right:
        rich = left or right
        return rich if not rich or MEMBER in rich else {MEMBER: _LEAF, **rich}
    return union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths of `left` that are not in `right`.

    A path of `left` that is only below a path of `right` stays.
    """
    if not left or not right:
        return left
    out: dict[str, Any] = {}
    for element, node in left.items():
        if element == MEMBER:
            continue
        other = right.get(element)
        remainder = node if other is None else _without(node, other)
        if remainder is not None:
            out[element] = remainder
    return out


def _without(node: FieldSet, other: FieldSet) -> FieldSet | None:
    """Return the subtree `node` without the paths of the subtree `other`, or None if nothing remains."""
    below = difference(node, other) if node and other else {key: value for key, value in node.items() if key != MEMBER}
    stays = is_member(node) and not is_member(other)
    if not stays:
        return {key: value for key, value in below.items() if key != MEMBER} or None
    return {MEMBER: _LEAF, **below} if below else _LEAF


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths that are in both sets."""
    if left is right:
        return left
    out: dict[str, Any] = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None or element == MEMBER:
            continue
        common = _common(node, other)
        if common is not None:
            out[element] = common
    return out


def _common(node: FieldSet, other: FieldSet) -> FieldSet | None:
    below = intersection(node, other) if node and other else EMPTY
    if not (is_member(node) and is_member(other)):
        return {key: value for key, value in below.items() if key != MEMBER} or None
    return {**below, MEMBER: _LEAF} if below else _LEAF


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths of `left` that are neither in `right` nor below a path in `right`."""
    if not left or not right:
        return left
    out: dict[str, Any] = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            out[element] = node
        # A member of `right` excludes all below it: SMD: fieldpath/set.go, RecursiveDifference. Reset fields need this,
        # because a manager owns `.status.phase` and the set to exclude has `.status` only.
        elif not is_member(other):
            rest = recursive_difference(node, other)
            if rest or not node:
                out[element] = rest
    return out


def normalized(fields: FieldSet) -> FieldSet:
    """Return the same set with its keys sorted as in managedFields.

    The key `.` is removed where it is the only key of a subtree, because an empty subtree means the same.
    """
    return {key: _normal(node) if (node := fields[key]) else _LEAF for key in sorted(fields)}


def _normal(node: FieldSet) -> FieldSet:
    if len(node) == 1 and MEMBER in node:
        return _LEAF
    return normalized(node)
