"""The types of a schema's keywords. A real server's decoder refuses other types before it validates the schema.

The modules that compile a schema may therefore rely on `pattern` being a string and `required` a list of strings.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_Walk = Callable[[Any, str], Iterator[str]]


def mistyped_keywords(schema: Any, path: str) -> Iterator[str]:
    """Yield each keyword of the wrong type, as `path: why`, depth first. Null means absent; unknown keywords pass."""
    if not isinstance(schema, Mapping):
        yield _wrong(path, schema, "an object")
        return
    for keyword, value in schema.items():
        if value is not None and (walk := _KEYWORDS.get(keyword)) is not None:
            yield from walk(value, f"{path}.{keyword}")


def _wrong(path: str, value: Any, desired: str) -> str:
    return f"{path}: must be {desired}, not {type(value).__name__}"


def _is(desired: str, fits: Callable[[Any], bool]) -> _Walk:
    def walk(value: Any, path: str) -> Iterator[str]:
        if not fits(value):
            yield _wrong(path, value, desired)

    return walk


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TEXT: Final = _is("a string", lambda value: isinstance(value, str))
_BOOL: Final = _is("a boolean", lambda value: isinstance(value, bool))
_COUNT: Final = _is("an integer", _is_integer)
_NUMBER: Final = _is("a number", lambda value: _is_integer(value) or isinstance(value, float))
_LIST: Final = _is("a list", lambda value: isinstance(value, list))


def _list_of(walk: _Walk) -> _Walk:
    def each(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield _wrong(path, value, "a list")
            return
        for index, item in enumerate(value):
            yield from walk(item, f"{path}[{index}]")

    return each


def _map_of(walk: _Walk) -> _Walk:
    def each(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield _wrong(path, value, "an object")
            return
        for key, item in value.items():
            yield from walk(item, f"{path}[{key}]")

    return each


def _or(accepts: type, otherwise: _Walk) -> _Walk:
    return lambda value, path: iter(()) if isinstance(value, accepts) else otherwise(value, path)


def _object(**fields: _Walk) -> _Walk:
    def walk(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield _wrong(path, value, "an object")
            return
        for key, item in value.items():
            if item is not None and key in fields:
                yield from fields[key](item, f"{path}.{key}")

    return walk


_RULE: Final = _object(
    rule=_TEXT, message=_TEXT, messageExpression=_TEXT, reason=_TEXT, fieldPath=_TEXT, optionalOldSelf=_BOOL
)
_KEYWORDS: Final[Mapping[str, _Walk]] = {
    **dict.fromkeys(("$ref", "$schema", "id", "type", "title", "description", "format", "pattern"), _TEXT),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), _TEXT),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        _COUNT,
    ),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "nullable"), _BOOL),
    **dict.fromkeys(
        (
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
            "x-kubernetes-preserve-unknown-fields",
        ),
        _BOOL,
    ),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), _list_of(_TEXT)),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _list_of(mistyped_keywords)),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), _map_of(mistyped_keywords)),
    **dict.fromkeys(("additionalProperties", "additionalItems"), _or(bool, mistyped_keywords)),
    "enum": _LIST,
    "not": mistyped_keywords,
    "items": _or(list, mistyped_keywords),
    "x-kubernetes-validations": _list_of(_RULE),
}
