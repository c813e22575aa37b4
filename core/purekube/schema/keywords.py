"""The reading of a schema's keywords, and the check of their types as in a real API server's decoder."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.regex import Pattern, PatternError, compile_pattern
from purekube.schema.node import JsonType, ListType, SchemaProblem


@attrs.define
class KeywordReader:
    """A reader of schema keywords, which adds each problem to `problems` instead of raising it.

    In its methods, `raw` is a schema node as JSON, and `path` is the place of that node in the whole schema.
    """

    problems: list[SchemaProblem] = attrs.field(factory=list)

    def type_of(self, raw: Mapping[str, Any], path: str) -> JsonType:
        """Return the JSON type of the schema node `raw`, as `json_type` does, and check that the node is complete.

        Record a problem if the type is absent, except from a node of any type (such as int-or-string), or if a list has
        no `items`.
        """
        kind = self.json_type(raw, path)
        if kind is JsonType.ANY and raw.get("type"):
            return kind
        known = raw.get("x-kubernetes-int-or-string") or raw.get("x-kubernetes-preserve-unknown-fields")
        if kind is JsonType.ANY and not known:
            self.problem(f"{path}.type", "must not be empty for specified fields and items")
        if kind is JsonType.ARRAY and raw.get("items") is None:
            self.problem(f"{path}.items", "must be specified")
        return kind

    def json_type(self, raw: Mapping[str, Any], path: str) -> JsonType:
        """Return the value of the keyword `type` of the node `raw`; ANY if it is absent. Record a problem for an
        unknown value.
        """
        text = raw.get("type") or ""
        try:
            return JsonType(text)
        except ValueError:
            self.problem(f"{path}.type", f"{text!r} is none of {', '.join(filter(None, JsonType))}")
            return JsonType.ANY

    def list_type(self, raw: Mapping[str, Any], path: str) -> ListType:
        """Return the value of `x-kubernetes-list-type` of the node `raw`; ATOMIC if it is absent.

        Record a problem if the value is unknown.
        """
        text = raw.get("x-kubernetes-list-type", "atomic")
        try:
            return ListType(text)
        except ValueError:
            self.problem(f"{path}.x-kubernetes-list-type", f"{text!r} is none of {', '.join(ListType)}")
            return ListType.ATOMIC

    def pattern(self, text: str, path: str) -> Pattern | None:
        """Return the compiled pattern `text`. If the pattern is invalid, record a problem of the node at `path` and
        return None.
        """
        try:
            return compile_pattern(text)
        except PatternError as error:
            self.problem(f"{path}.pattern", f"must be a valid regular expression, but isn't: {error}")
            return None

    def mapping(self, raw: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
        """Return the JSON object under `key` of the schema node `raw`; {} if the value is absent or not an object.

        A value that is not an object is recorded as a problem of the node at `path`.
        """
        value = raw.get(key) or {}
        if isinstance(value, Mapping):
            return value
        self.problem(f"{path}.{key}", "must be an object")
        return {}

    def refuse_unstructural(self, raw: Mapping[str, Any], path: str) -> None:
        """Record a problem for each keyword of the node `raw` that a structural schema may not have."""
        for keyword in ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems"):
            if raw.get(keyword) is not None:
                self.problem(f"{path}.{keyword}", "is not supported")
        # `x-kubernetes-list-type: set` says the same, and server-side apply merges by it.
        if raw.get("uniqueItems"):
            self.problem(f"{path}.uniqueItems", "cannot be set to true since the runtime complexity becomes quadratic")
        if raw.get("x-kubernetes-preserve-unknown-fields") is False:
            self.problem(f"{path}.x-kubernetes-preserve-unknown-fields", "must be true or undefined")

    def problem(self, path: str, message: str) -> None:
        """Add the problem `message` about the part of the schema at `path` to `problems`."""
        self.problems.append(SchemaProblem(path.removeprefix("."), message))


_Walk = Callable[[Any, str], Iterator[str]]


def mistyped_keywords(schema: Any, path: str) -> Iterator[str]:
    """Yield a string `path: reason` for each keyword whose value has the wrong type, depth first. Null counts as
    absent.

    `path` is the place of the node `schema` in the whole schema. Unknown keywords are not reported.
    """
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
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "nullable"), _BOOL),
    **dict.fromkeys(
        ("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"), _BOOL
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
