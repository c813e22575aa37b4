"""The validation of an object: structure, embedded resources, list types (`x-kubernetes-list-type`), then CEL rules."""

from typing import Any, Final

from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import NO_FIELD, duplicate, go_value, invalid_value, required
from purekube.schema.node import MISSING, ListType, Schema
from purekube.schema.rules import check_rules
from purekube.schema.structure import check_structure


def check_list_types(schema: Schema, value: Any, path: str = "") -> list[StatusCause]:
    """Return a cause for every duplicate item in a list of type set or map that `value` contains, at any depth.

    Items of a map list are duplicates if their keys are equal. `path` is the place of `value` in the object.
    """
    if not schema.has_keys:
        return []
    if isinstance(value, dict):
        causes: list[StatusCause] = []
        for key, item in value.items():
            child = schema.properties.get(key)
            if child is not None:
                # apimachinery: api/validation/objectmeta.go refuses no duplicates: the list types of metadata are those
                # of server-side apply only.
                is_metadata = schema.embedded and key == "metadata"
                if isinstance(item, (dict, list)) and not is_metadata:
                    causes += check_list_types(child, item, f"{path}.{key}" if path else key)
            elif schema.additional is not None and isinstance(item, (dict, list)):
                causes += check_list_types(schema.additional, item, f"{path}[{key}]")
        return causes
    if isinstance(value, list):
        return _check_list(schema, value, path)
    return []


def _check_list(schema: Schema, value: list[Any], path: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    if schema.list_type is ListType.SET:
        causes += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
    elif schema.list_type is ListType.MAP:
        causes += _check_map(schema, value, path)
    if schema.items is not None:
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                causes += check_list_types(schema.items, item, f"{path}[{index}]")
    return causes


def _check_map(schema: Schema, value: list[Any], path: str) -> list[StatusCause]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            return [invalid_value(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [{key: item[key] for key in schema.list_keys if key in item} if item else {} for item in value]
    return [duplicate(f"{path}[{index}]", keys[index]) for index in _repeated(keys)]


def _repeated(items: list[Any]) -> list[int]:
    """Return, for every item that occurs more than once, the index of its second occurrence."""
    if len(items) < 2:
        return []
    times: dict[str, int] = {}
    indices = []
    for index, item in enumerate(items):
        key = go_value(item)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            indices.append(index)
    return indices


def check_embedded(schema: Schema, value: Any, path: str = "", *, root: bool = True) -> list[StatusCause]:
    """Return a cause for each missing or invalid apiVersion and kind of an embedded resource inside `value`.

    An embedded resource is a whole object as the value of a field. `root` says that `value` is the whole outer object,
    which is not checked itself. `path` is the place of `value` in the outer object.
    """
    causes: list[StatusCause] = []
    if isinstance(value, dict):
        if schema.embedded and not root:
            causes += _type_meta(value, path)
        if not schema.has_embedded:
            return causes
        for key, item in value.items():
            child = schema.child(key)
            if child is not None and isinstance(item, (dict, list)):
                causes += check_embedded(child, item, f"{path}.{key}" if path else key, root=False)
    elif isinstance(value, list) and schema.items is not None and schema.has_embedded:
        for index, item in enumerate(value):
            causes += check_embedded(schema.items, item, f"{path}[{index}]", root=False)
    return causes


def _type_meta(value: dict[str, Any], path: str) -> list[StatusCause]:
    causes = []
    for key in ("apiVersion", "kind"):
        text = value.get(key)
        if key not in value:
            causes.append(required(f"{path}.{key}"))
        elif not isinstance(text, str):
            causes.append(invalid_value(f"{path}.{key}", text, "must be a string"))
        elif not text:
            causes.append(invalid_value(f"{path}.{key}", text, "must not be empty"))
    return causes


_BLOCKING: Final = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def validate(
    schema: Schema, value: Any, old: Any = None, *, settled: bool = False, list_types: bool = True
) -> list[StatusCause]:
    """Return all causes why the object `value` is invalid. `old` is the replaced object, None for a new object.

    Reasons and paths are those of a real API server. Unchanged parts do not make an update invalid (ratcheting).
    Transition rules (`oldSelf`) run only if an old value exists. `settled` says that the old object is valid under this
    same schema; the structure of list items and rules without `oldSelf` are then not checked again in parts that
    `value` shares with the old object. Without `list_types` a list of type set or map may have duplicates: for built-in
    kinds the types are those of server-side apply only.
    """
    before = MISSING if old is None else old
    causes = check_structure(schema, value, before, settled=settled)
    causes += check_embedded(schema, value)
    repeated = check_list_types(schema, value) if list_types else []
    if repeated and not check_list_types(schema, old):
        causes += repeated
    if schema.has_rules and any(cause.reason in _BLOCKING for cause in causes):
        return [*causes, invalid_value(NO_FIELD, None, _UNCHECKED)]
    return causes + check_rules(schema, value, before, settled=settled)
