"""Patches other than server-side apply and JSON merge patch: JSON patch (RFC 6902), strategic merge patch."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

from kubelab.model.failure import ApiFailure, bad_request, internal, too_large
from kubelab.ssa.conform import go_plain
from purekube.schema.node import ANYTHING, ListType, Schema
from purekube.schema.structure import equal

DIRECTIVE: Final = "$patch"
RETAIN: Final = "$retainKeys"
DELETE_ITEMS: Final = "$deleteFromPrimitiveList/"
ORDER_ITEMS: Final = "$setElementOrder/"


def strategic_merge(schema: Schema, document: Any, patch: Any) -> Any:
    """Return `document` with the strategic merge patch `patch` merged in. Raises ApiFailure 400 for invalid directives.

    The directives `$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList` and `$setElementOrder` work
    as in Kubernetes. `$setElementOrder` orders the items that it names.
    """
    if not isinstance(patch, Mapping):
        raise bad_request("a strategic merge patch is an object")
    return _merge_map(schema, document if isinstance(document, Mapping) else {}, patch)


def _merge_map(schema: Schema, document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in patch.items() if not key.startswith("$")}
    # apimachinery: util/strategicpatch/patch.go, handleDirectiveInMergeMap and mergeMap.
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
    # strategicpatch: $retainKeys names all fields that may stay, so a change of a union's member removes the old one.
    if RETAIN in patch:
        out = {key: value for key, value in out.items() if key in patch[RETAIN]}
    for key, items in patch.items():
        if key.startswith(DELETE_ITEMS):
            name = key.removeprefix(DELETE_ITEMS)
            out[name] = [item for item in out.get(name) or [] if not any(equal(item, deletion) for deletion in items)]
    for key, value in plain.items():
        merged = _merge_value(schema.applied(key) or ANYTHING, out.get(key), value)
        if merged is None:
            out.pop(key, None)
        else:
            out[key] = merged
    for key, order in patch.items():
        if key.startswith(ORDER_ITEMS):
            name = key.removeprefix(ORDER_ITEMS)
            before = document.get(name) or []
            out[name] = _ordered(schema.applied(name) or ANYTHING, out.get(name), order, before, plain.get(name))
    return out


def _merge_value(schema: Schema, value: Any, patch: Any) -> Any:
    if isinstance(patch, Mapping) and isinstance(value, Mapping):
        return _merge_map(schema, value, patch)
    if isinstance(patch, list) and isinstance(value, list):
        key = _merge_key(schema)
        if key:
            return _merge_items(schema, key, value, patch)
        if schema.list_type is ListType.SET:
            more = [item for item in patch if not any(equal(item, member) for member in value)]
            return _arranged(value + more, patch, value, "")
    return _added(patch)


def _added(patch: Any) -> Any:
    """Return a value that a patch adds, without its directives and nulls, or None if it is only a directive."""
    # strategicpatch: removeDirectives and discardNullValuesFromPatch.
    if isinstance(patch, Mapping):
        if DIRECTIVE in patch:
            return None
        members = {key: _added(value) for key, value in patch.items() if not key.startswith("$")}
        return {key: value for key, value in members.items() if value is not None}
    if isinstance(patch, list):
        return [_added(item) for item in patch if not _is_directive(item)]
    return patch


def _merge_key(schema: Schema) -> str:
    # A Go struct's tag patchMergeKey, or the list's x-kubernetes-list-map-keys where no tag is known here.
    if schema.patch_key:
        return schema.patch_key
    return schema.list_keys[0] if schema.list_type is ListType.MAP else ""


def _is_directive(item: Any, *kinds: str) -> bool:
    """Report whether an item of a list is a directive: one of `kinds`, or any if there are none."""
    return isinstance(item, Mapping) and DIRECTIVE in item and (not kinds or item[DIRECTIVE] in kinds)


def _merge_items(schema: Schema, key: str, value: list[Any], patch: list[Any]) -> list[Any]:
    if any(_is_directive(item, "replace") for item in patch):
        return [item for item in patch if not _is_directive(item)]
    inner = schema.items or ANYTHING
    named: list[Mapping[str, Any]] = []
    gone: list[Mapping[str, Any]] = []
    for item in patch:
        if not isinstance(item, Mapping) or key not in item:
            raise internal(f"map: {go_plain(item)} does not contain declared merge key: {key}")
        (gone if _is_directive(item, "delete") else named).append(item)
    kept = [candidate for candidate in value if not any(equal(candidate.get(key), item[key]) for item in gone)]
    out = list(kept)
    for item in named:
        at = next((i for i, candidate in enumerate(out) if equal(candidate.get(key), item[key])), len(out))
        out[at:] = [_merge_map(inner, out[at] if at < len(out) else {}, item), *out[at + 1 :]]
    return _arranged(out, [item[key] for item in named], [item.get(key) for item in kept], key)


def _arranged(items: list[Any], wanted: list[Any], before: list[Any], key: str) -> list[Any]:
    """Return the `items` of a merged list in the order of a strategic merge patch.

    Items that the patch names come in its order, which is `wanted`, and all others in their order in the list `before`
    the patch. The first of the others comes first only if it came first in that list. All are names, which items have
    in the field `key`; with an empty `key` the items themselves are names.
    """
    # apimachinery: util/strategicpatch/patch.go, normalizeElementOrder and mergeSortedSlice.
    named, others = [], []
    for item in items:
        name = _name_of(item, key)
        was, place = _place(before, name), _place(wanted, name)
        if place < 0:
            others.append((was, was, item))
        else:
            named.append((place, was, item))
    named.sort(key=itemgetter(0))
    others.sort(key=itemgetter(0))
    out: list[Any] = []
    while named and others:
        is_other = 0 <= others[0][1] < named[0][1]
        out.append((others if is_other else named).pop(0)[2])
    return [*out, *(item for *_, item in (*named, *others))]


def _place(names: list[Any], name: Any) -> int:
    return next((index for index, entry in enumerate(names) if equal(entry, name)), -1)


def _ordered(schema: Schema, items: Any, order: Any, before: Any, patch: Any) -> Any:
    """Return `items`, a merged list, in the order of `$setElementOrder`.

    `before` is the list before the patch, and `patch` what the patch has of it, if it has any. Raises ApiFailure 500 if
    the patch names items in another order, or if there is nothing to order.
    """
    if not isinstance(items, list) or not isinstance(order, list):
        return items
    if not before and not patch:
        raise internal("no elements in any of the given slices")
    key = _merge_key(schema)
    wanted, old = ([_name_of(entry, key) for entry in entries] for entries in (order, before))
    if isinstance(patch, list) and patch:
        gone = [_name_of(item, key) for item in patch if _is_directive(item, "delete")]
        named = [_name_of(item, key) for item in patch if not _is_directive(item)]
        _check_order(named, wanted, patch, order)
        kept = [name for name in old if _place(gone, name) < 0]
        # strategicpatch: mergeSlice deletes and appends in place, so the new items take the places of deleted ones.
        old = [*kept, *(name for name in named if _place(kept, name) < 0)][: len(old)] if key else old
    return _arranged(items, wanted, old, key)


def _name_of(item: Any, key: str) -> Any:
    """Return what tells an item of a list from others: its field `key`, or the item itself if the key is empty."""
    return item.get(key) if key and isinstance(item, Mapping) else item


def _check_order(named: list[Any], wanted: list[Any], patch: list[Any], order: list[Any]) -> None:
    rest = iter(wanted)
    # strategicpatch: validatePatchWithSetOrderList; an empty order is in line with every patch.
    if wanted and not all(any(equal(name, entry) for entry in rest) for name in named):
        lists = f"{go_plain(patch)}\n doesn't match $setElementOrder list:\n{go_plain(order)}\n"
        raise internal(f"The order in patch list:\n{lists}")


# apiserver: handlers/patch.go, maxJSONPatchOperations.
MAX_OPERATIONS: Final = 10_000
"""The most operations of a JSON patch (W-37)."""


def json_patch(document: Any, operations: Any) -> Any:
    """Return `document` with the operations of a JSON patch (RFC 6902) applied.

    Raises ApiFailure: 400 for a malformed patch, 413 for too many operations (W-37), 422 when an operation fails.
    """
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise too_large(text)
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise bad_request("a JSON patch is a list of objects")
        document = _operate(document, operation)
    return document


def cannot() -> ApiFailure:
    """Build the 422 failure for a patch that cannot be applied (W-37).

    It has kube-apiserver's generic message, which does not reveal the cause.
    """
    # apiserver: handlers/patch.go, applyJSPatch passes the cause as the message of a generic response that is not
    # verbose, which drops it.
    return ApiFailure(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def _operate(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _add(document, path, operation.get("value"))
        case "replace":
            return _replace(document, path, operation.get("value"))
        case "remove":
            return _remove(document, path)
        case "copy":
            return _add(document, path, _got(document, _pointer(operation.get("from"))))
        case "move":
            source = _pointer(operation.get("from"))
            return _add(_remove(document, source), path, _get(document, source))
        case "test":
            if not equal(_got(document, path), operation.get("value")):
                raise cannot()
            return document
        case _:
            raise cannot()


def _pointer(text: Any) -> tuple[str, ...]:
    """Return the steps of the JSON pointer `text`, as strings. Raises ApiFailure 422 if it is not a JSON pointer."""
    if text == "":
        return ()
    if not isinstance(text, str) or not text.startswith("/"):
        raise cannot()
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))


def _index(steps: list[Any], text: str, *, last: int) -> int:
    """Return the list index that `text`, a step of a JSON pointer, names. A negative number counts from the end.

    Raises ApiFailure 422 for any other string, and for an index above `last`.
    """
    try:
        index = int(text)
    except ValueError:
        raise cannot() from None
    # evanphx/json-patch v4.13.0, SupportNegativeIndices: RFC 6902 knows no negative index, the library does by default.
    index += len(steps) if index < 0 else 0
    if not 0 <= index <= last:
        raise cannot()
    return index


def _get(document: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if isinstance(document, list):
            document = document[_index(document, step, last=len(document) - 1)]
        elif isinstance(document, Mapping) and step in document:
            document = document[step]
        else:
            raise cannot()
    return document


def _got(document: Any, path: tuple[str, ...]) -> Any:
    """Return the value at `path` that the operations `test` and `copy` read. An absent member counts as null."""
    if path and isinstance(parent := _get(document, path[:-1]), Mapping):
        # evanphx/json-patch v4.13.0, partialDoc.get never fails: `test` for null holds if the member is absent, `copy`
        # copies a null, and `replace` adds (measured).
        return parent.get(path[-1])
    return _get(document, path)


def _add(document: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        if rest:
            index = _index(document, step, last=len(document) - 1)
            return [*document[:index], _add(document[index], rest, value), *document[index + 1 :]]
        # A negative index counts from the end of the longer list, so -1 appends (evanphx/json-patch v4.13.0,
        # partialArray.add); in all other operations it names the last item.
        index = len(document) if step == "-" else _index([*document, value], step, last=len(document))
        return [*document[:index], value, *document[index:]]
    if not isinstance(document, Mapping) or (rest and step not in document):
        raise cannot()
    return {**document, step: _add(document[step], rest, value) if rest else value}


def _replace(document: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        index = _index(document, step, last=len(document) - 1)
        return [*document[:index], _replace(document[index], rest, value), *document[index + 1 :]]
    if not isinstance(document, Mapping) or (rest and step not in document):
        raise cannot()
    return {**document, step: _replace(document[step], rest, value) if rest else value}


def _remove(document: Any, path: tuple[str, ...]) -> Any:
    if not path:
        raise cannot()
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        index = _index(document, step, last=len(document) - 1)
        replacement = [_remove(document[index], rest)] if rest else []
        return [*document[:index], *replacement, *document[index + 1 :]]
    if not isinstance(document, Mapping) or step not in document:
        raise cannot()
    if rest:
        return {**document, step: _remove(document[step], rest)}
    return {key: value for key, value in document.items() if key != step}
