"""Strategic merge patch, which built-in kinds accept: lists with a merge key merge item by item."""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.model.failure import bad_request
from purekube.schema.node import ANYTHING, ListType, Schema
from purekube.schema.structure import equal

DIRECTIVE: Final = "$patch"
RETAIN: Final = "$retainKeys"
DELETE_ITEMS: Final = "$deleteFromPrimitiveList/"
ORDER_ITEMS: Final = "$setElementOrder/"


def strategic_merge(schema: Schema, document: Any, patch: Any) -> Any:
    """Return `document` with `patch` merged in. Raises ApiFailure 400 for invalid directives.

    `$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList` and `$setElementOrder` work as in
    Kubernetes; `$setElementOrder` orders the items that it names.
    """
    if not isinstance(patch, Mapping):
        raise bad_request("a strategic merge patch is an object")
    return _merge_map(schema, document if isinstance(document, Mapping) else {}, patch)


def _merge_map(schema: Schema, document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in patch.items() if not key.startswith("$")}
    match patch.get(DIRECTIVE):
        case None | "merge":
            pass
        case "replace":
            return plain
        case "delete":
            return {}
        case other:
            raise bad_request(f"Unknown patch type found: {other!r}")
    out = dict(document)
    if RETAIN in patch:
        out = {key: value for key, value in out.items() if key in patch[RETAIN]}
    for key, items in patch.items():
        if key.startswith(DELETE_ITEMS):
            name = key.removeprefix(DELETE_ITEMS)
            out[name] = [item for item in out.get(name) or [] if not any(equal(item, deletion) for deletion in items)]
    for key, value in plain.items():
        merged = _merge_value(schema.applied(key) or ANYTHING, out.get(key), value)
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged
    for key, order in patch.items():
        if key.startswith(ORDER_ITEMS):
            name = key.removeprefix(ORDER_ITEMS)
            out[name] = _ordered(schema.applied(name) or ANYTHING, out.get(name), order)
    return out


def _merge_value(schema: Schema, value: Any, patch: Any) -> Any:
    if isinstance(patch, Mapping):
        return _merge_map(schema, value if isinstance(value, Mapping) else {}, patch)
    if isinstance(patch, list) and isinstance(value, list):
        key = _merge_key(schema)
        if key:
            return _merge_items(schema, key, value, patch)
        if schema.list_type is ListType.SET:
            return value + [item for item in patch if not any(equal(item, member) for member in value)]
    if isinstance(patch, list):
        return [_without_directive(item) for item in patch if not _is_delete(item)]
    return patch


def _merge_key(schema: Schema) -> str:
    if schema.patch_key:
        return schema.patch_key
    return schema.list_keys[0] if schema.list_type is ListType.MAP else ""


def _is_delete(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get(DIRECTIVE) == "delete"


def _without_directive(item: Any) -> Any:
    if isinstance(item, Mapping) and DIRECTIVE in item:
        return {key: value for key, value in item.items() if key != DIRECTIVE}
    return item


def _merge_items(schema: Schema, key: str, value: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(item, Mapping) and item.get(DIRECTIVE) == "replace" for item in patch):
        return [_without_directive(item) for item in patch if item != {DIRECTIVE: "replace"}]
    out = list(value)
    inner = schema.items or ANYTHING
    for item in patch:
        if not isinstance(item, Mapping) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, candidate in enumerate(out) if equal(candidate.get(key), item[key])), None)
        if _is_delete(item):
            out = [candidate for candidate in out if not equal(candidate.get(key), item[key])]
        elif at is None:
            out.append(_merge_map(inner, {}, item))
        else:
            out[at] = _merge_map(inner, out[at], item)
    return out


def _ordered(schema: Schema, items: Any, order: Any) -> Any:
    """Return `items` in the order of `$setElementOrder`; other items follow, in their order."""
    if not isinstance(items, list) or not isinstance(order, list):
        return items
    key = _merge_key(schema)
    names = [entry.get(key) if isinstance(entry, Mapping) else entry for entry in order]

    def rank(item: Any) -> int:
        name = item.get(key) if isinstance(item, Mapping) else item
        return next((i for i, entry in enumerate(names) if equal(entry, name)), len(names))

    return sorted(items, key=rank)
