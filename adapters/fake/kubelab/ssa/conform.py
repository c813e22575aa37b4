"""The check that an applied configuration fits the schema. If it does not, the API server answers 500 (S-15 to S-17).

It is looser than validation. It only checks the shapes of values, that all fields are known, and that the items of sets
and map lists can be distinguished. Null is accepted everywhere. The messages are kube-apiserver's, since operators
recognize permanent failures by them.
"""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.ssa.field_paths import element_text
from kubelab.ssa.typed import ItemError, element_of, items_schema, shape
from purekube.schema.causes import quoted
from purekube.schema.node import JsonType, ListType, Schema

_FREE_SCALAR = ("", "byte")
_NUMERIC: Final = frozenset((JsonType.ANY, JsonType.INTEGER, JsonType.NUMBER))
_FITTING: Final[Mapping[type, frozenset[JsonType]]] = {
    str: frozenset((JsonType.ANY, JsonType.STRING)),
    bool: frozenset((JsonType.ANY, JsonType.BOOLEAN)),
    int: _NUMERIC,
    float: _NUMERIC,
}
"""The schema types that a scalar of each Python type fits, so that it needs no further check."""


def misfits(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Return a message `path: problem` for each part of `value` that does not fit the schema.

    `path` is the path of `value` itself, with which the path of each part begins.
    """
    # SMD: typed/validate.go accepts null for every type; only the later validation of the object refuses it (S-62).
    if value is None:
        return []
    match shape(schema, value):
        case "scalar":
            wrong = _wrong_scalar(schema, value)
            return [f"{path}: {wrong}"] if wrong else []
        case "list":
            if not isinstance(value, list):
                return [f"{path}: expected list, got &{{{go_plain(value)}}}"]
            return _list_misfits(schema, value, path)
        case _:
            if not isinstance(value, dict):
                return [f"{path}: expected map, got &{{{go_plain(value)}}}"]
            return _map_misfits(schema, value, path)


def misfit_text(problems: list[str]) -> str:
    """Return the error message for the problems: a single problem as it is, several problems with one per line."""
    return problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])


def _list_misfits(schema: Schema, value: list[Any], path: str) -> list[str]:
    problems: list[str] = []
    seen: set[str] = set()
    inner = items_schema(schema)
    for index, item in enumerate(value):
        if schema.list_type is ListType.ATOMIC:
            where = f"{path}[{index}]"
        else:
            try:
                element = element_of(schema, item)
            except ItemError as error:
                # SMD: typed/validate.go, visitListItems stops at an item without an identity, but goes on after a
                # duplicate.
                return [*problems, f"{path}: element {index}: {error}"]
            where = path + element_text(element)
            if element in seen:
                problems.append(f"{path}: duplicate entries for key {element_text(element)}")
            seen.add(element)
        problems += misfits(inner, item, where)
    return problems


def _map_misfits(schema: Schema, value: dict[str, Any], path: str) -> list[str]:
    problems: list[str] = []
    for key, item in value.items():
        child = schema.applied(key)
        if child is None:
            # SMD: typed/validate.go, visitMapItems ends the iteration at the first unknown field. Go iterates over maps
            # at random, so which of several unknown fields is named differs there from run to run.
            return [*problems, f"{path}.{key}: field not declared in schema"]
        if child.type not in _FITTING.get(type(item), ()):
            problems += misfits(child, item, f"{path}.{key}")
    return problems


def _wrong_scalar(schema: Schema, value: Any) -> str:
    match schema.type:
        case JsonType.INTEGER | JsonType.NUMBER:
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
            return "" if good else f"expected numeric (int or float), got {_go_type(value)}"
        # kube-openapi: schemaconv/smd.go, convertPrimitive gives strings with a format, such as int-or-string, the type
        # `untyped`, which takes any scalar.
        case JsonType.STRING if schema.format in _FREE_SCALAR:
            if isinstance(value, str):
                return ""
            # SMD: typed/validate.go, validateScalar prints the value by `%#v` for strings only, and by `%v` and `%T`
            # for others.
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case JsonType.BOOLEAN:
            return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_plain(value)}}}"
        case _:
            return "" if isinstance(value, (str, int, float)) else f"expected any scalar, got &{{{go_plain(value)}}}"


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"


def _go_syntax(value: Any) -> str:
    """Return a value formatted as by Go's `%#v`, for kube-apiserver's messages."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return quoted(value)
        case dict():
            inner = ", ".join(f"{quoted(key)}:{_go_syntax(value[key])}" for key in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
        case _:
            return go_plain(value)


def go_plain(value: Any) -> str:
    """Return a value formatted as by Go's `%v`, for kube-apiserver's messages."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{key}:{go_plain(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(go_plain, value)) + "]"
        case _:
            return str(value)
