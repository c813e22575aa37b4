"""The merge of an applied configuration into the live value, and the removal of fields from a value."""

from typing import Any

from kubelab.ssa.field_paths import field
from kubelab.ssa.fieldset import MEMBER, FieldSet, is_member
from kubelab.ssa.typed import MAP, element_of, items_schema, shape
from purekube.schema.node import ANYTHING, MISSING, ListType, Schema


def merge(schema: Schema, live: Any, config: Any) -> Any:
    """Return `live` with `config` merged into it. Either value may be MISSING, which means absent.

    Parts that the configuration does not change are the same Python objects as in `live`.
    """
    if live is config:
        return live
    lead = live if config is MISSING else config
    match shape(schema, lead):
        case "scalar":
            # True == 1 in Python, so the types are compared, too.
            return live if type(live) is type(lead) and live == lead else lead
        case "list":
            return _merge_lists(schema, live, config)
        case _:
            return _merge_maps(schema, live, config)


def _merge_maps(schema: Schema, live: Any, config: Any) -> Any:
    left = live if isinstance(live, dict) else {}
    right = config if isinstance(config, dict) else {}
    if schema.atomic_map or not (left or right):
        return live if config is MISSING else config
    if not right:
        # SMD: typed/merge.go, doMap: an applied {} or null adds nothing to a map that has members, and takes nothing
        # from it.
        if config is MISSING or shape(schema, live) == MAP:
            return live
        return config
    out = left
    for key, item in right.items():
        before = left.get(key, MISSING)
        if type(item) is str and type(before) is str and item == before:
            continue
        merged = merge(schema.applied(key) or ANYTHING, before, item)
        if merged is not before:
            out = dict(left) if out is left else out
            out[key] = merged
    return out


def _merge_lists(schema: Schema, live: Any, config: Any) -> Any:
    left = live if isinstance(live, list) else []
    right = config if isinstance(config, list) else []
    if schema.list_type is ListType.ATOMIC or not (left or right):
        return live if config is MISSING else config
    if not right:
        return left
    merged = _Items(schema, left, right).merged()
    same = len(merged) == len(left) and all(new is old for new, old in zip(merged, left, strict=True))
    return left if same else merged


class _Items:
    """The merge of two lists whose items have identities: the live list and the applied list."""

    def __init__(self, schema: Schema, left: list[Any], right: list[Any]) -> None:
        self._inner = items_schema(schema)
        self._left = [(element_of(schema, item), item) for item in left]
        self._right = [(element_of(schema, item), item) for item in right]
        self._old: dict[str, Any] = {}
        for element, item in self._left:
            # An item that the live list has twice is replaced instead of merged (S-61).
            self._old[element] = None if element in self._old else item
        self._new = {element for element, _ in self._right}

    def merged(self) -> list[Any]:
        out: list[Any] = []
        shared = [element for element, _ in self._right if element in self._old]
        done: set[str] = set()
        at_left = at_right = at_shared = 0
        # SMD: typed/merge.go, visitListItems: the items of the configuration come in its order, and the items of others
        # keep their places between them (S-56).
        while at_left < len(self._left) or at_right < len(self._right):
            element = self._left[at_left][0] if at_left < len(self._left) else None
            if element is not None and at_right < len(self._right):
                if element == self._right[at_right][0]:
                    out.append(self._combine(element, self._right[at_right][1]))
                    done.add(element)
                    at_left, at_right, at_shared = at_left + 1, at_right + 1, at_shared + 1
                    continue
                desired = shared[at_shared] if at_shared < len(shared) else None
                if element in self._new and desired is not None and desired != element:
                    at_left += 1
                    continue
            if element is not None:
                if element not in self._new:
                    out.append(self._left[at_left][1])
                    at_left += 1
                    continue
                if element in done:
                    at_left += 1
            if at_right < len(self._right):
                element, item = self._right[at_right]
                out.append(self._combine(element, item))
                done.add(element)
                at_right += 1
                if at_shared < len(shared) and shared[at_shared] == element:
                    at_shared += 1
        return out

    def _combine(self, element: str, item: Any) -> Any:
        old = self._old.get(element, MISSING)
        return merge(self._inner, MISSING if old is None else old, item)


def remove(schema: Schema, value: Any, fields: FieldSet) -> Any:
    """Return `value` without the paths in `fields`. A map or list that loses its last member becomes null (S-42).

    kube-apiserver 1.36.0 to 1.36.2 kept an empty map or list (structured-merge-diff 6.3.2); earlier and later versions
    do not.
    """
    match shape(schema, value):
        case "scalar":
            return value
        case "list":
            return _remove_items(schema, value, fields)
        case _:
            return _remove_members(schema, value, fields)


def _remove_items(schema: Schema, value: Any, fields: FieldSet) -> Any:
    if not isinstance(value, list) or schema.list_type is ListType.ATOMIC:
        return value
    inner = items_schema(schema)
    remainder = []
    for item in value:
        node = fields.get(element_of(schema, item))
        if node is None:
            remainder.append(item)
        # SMD: typed/remove.go, doList: an item whose own path is in the set goes with all that is in it (S-41).
        elif not is_member(node):
            remainder.append(remove(inner, item, node))
    # SMD 6.3.3: typed/remove.go, doList sets no result if nothing is left, and Go's nil is JSON's null.
    return remainder or None


def _remove_members(schema: Schema, value: Any, fields: FieldSet) -> Any:
    if not isinstance(value, dict) or schema.atomic_map:
        return value
    remainder = {}
    for key, item in value.items():
        node = fields.get(field(key))
        if node is None:
            remainder[key] = item
        elif not is_member(node):
            remainder[key] = remove(schema.applied(key) or ANYTHING, item, node)
    return remainder or None


def with_named_fields(schema: Schema | None, fields: FieldSet) -> FieldSet:
    """Return `fields` with further paths: for each path in it, the shorter paths that lead to it, if they are fields of
    the schema.

    With `.spec.size` the result also contains `.spec` if `schema` declares that field, but no keys of a map without
    declared fields.
    """
    out: dict[str, Any] = {}
    for element, node in fields.items():
        if element == MEMBER or not node:
            out[element] = node
            continue
        child, declared = _below(schema, element)
        below = with_named_fields(child, node)
        # SMD: fieldpath/set.go, EnsureNamedFieldsAreMembers adds fields that the schema declares, but no keys of free
        # maps and no list items.
        out[element] = {MEMBER: {}, **below} if declared and MEMBER not in below else below
    return out


def _below(schema: Schema | None, element: str) -> tuple[Schema | None, bool]:
    """Return two values about the part of a value that a path element names.

    The first is the schema of the part, None if unknown. The second is True if the part is a field that `schema`, the
    schema of the whole value, declares.
    """
    if schema is None:
        return None, False
    if element.startswith("f:"):
        key = element[2:]
        return schema.applied(key), key in schema.properties
    return (items_schema(schema) if element.startswith("k:") else None), False
