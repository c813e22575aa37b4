"""Patches other than server-side apply and JSON merge patch: JSON patch (RFC 6902), strategic merge patch.

Pure functions from a document and a patch to a new document; arguments are never changed.
"""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.model.failure import ApiFailure, bad_request, too_large
from purekube.schema.structure import equal

MAX_OPERATIONS: Final = 10_000
"""The most operations of a JSON patch (W-37)."""


def json_patch(document: Any, operations: Any) -> Any:
    """Apply a JSON patch (RFC 6902).

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
    """Build the 422 with the generic message of kube-apiserver, which does not reveal the cause (W-37)."""
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
            return _add(document, path, _get(document, _pointer(operation.get("from"))))
        case "move":
            source = _pointer(operation.get("from"))
            return _add(_remove(document, source), path, _get(document, source))
        case "test":
            if not equal(_tested(document, path), operation.get("value")):
                raise cannot()
            return document
        case _:
            raise cannot()


def _pointer(text: Any) -> tuple[str, ...]:
    """Return the steps of a JSON pointer."""
    if text == "":
        return ()
    if not isinstance(text, str) or not text.startswith("/"):
        raise cannot()
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))


def _index(steps: list[Any], text: str, *, last: int) -> int:
    """Return the list index of a step, at most `last`. Negative ones count from the end."""
    try:
        index = int(text)
    except ValueError:
        raise cannot() from None
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


def _tested(document: Any, path: tuple[str, ...]) -> Any:
    """Return the value that a `test` compares: an absent member counts as null."""
    if path and isinstance(parent := _get(document, path[:-1]), Mapping):
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
        index = len(document) if step == "-" else _index(document, step, last=len(document))
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
    if not isinstance(document, Mapping) or step not in document:
        raise cannot()
    return {**document, step: _replace(document[step], rest, value)}


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
