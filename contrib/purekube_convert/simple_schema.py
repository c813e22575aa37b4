"""The conversion of kro's short schemas, such as `replicas: integer | default=3 minimum=1`, to OpenAPI."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.problems import join
from purekube_convert.result import Problems

_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "float": {"type": "number"},
    "object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_MARKER: Final = re.compile(r"(\w+)=")
_SEPARATORS: Final = re.compile(r"[\s|]*")
"""Several markers of a field are separated by blanks or bars."""
_ESCAPED: Final = re.compile(r"""\\(["\\])""")
_FLAGS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The texts that Go reads as true or false."""
_MAP: Final = re.compile(r"map\[string\](.+)")
_NUMBERS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_DEEPEST: Final = 16
_MOST_FIELDS: Final = 2_000
_LONGEST: Final = 8_192


class SimpleSchemaError(ValueError):
    """The error of a field whose short schema cannot be read."""


@attrs.define
class SimpleSchemas:
    """A converter of kro's short schemas. `types` are the types that the ResourceGraphDefinition declares.

    What cannot be converted is added to `problems`.
    """

    types: Mapping[str, Any]
    problems: Problems
    _fields: int = 0

    def of_object(self, raw: Any, path: str, depth: int = 0) -> dict[str, Any]:
        """Return the OpenAPI schema of an object. `raw` maps the names of its fields to their short schemas.

        `path` leads to `raw` in the file, and `depth` is the depth of nesting so far. What cannot be converted, or is
        nested too deeply, is reported as a problem. As in kro, an absent object is created if one of its fields has a
        default and none is required.
        """
        if not isinstance(raw, Mapping):
            self.problems.add(path, "must be an object of fields")
            return dict(_TYPES["object"])
        properties: dict[str, Any] = {}
        required: list[str] = []
        for name, field in raw.items():
            found = self._field(field, join(path, str(name)), depth)
            if found is not None:
                properties[str(name)] = found[0]
                required += [str(name)] if found[1] else []
        out: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            return {**out, "required": required}
        return {**out, "default": {}} if any("default" in field for field in properties.values()) else out

    def _field(self, raw: Any, path: str, depth: int) -> tuple[dict[str, Any], bool] | None:
        """Return two values: the schema of a field, and whether the field is required.

        Return None for an unreadable field.
        """
        self._fields += 1
        try:
            if self._fields > _MOST_FIELDS:
                raise SimpleSchemaError(f"a definition has at most {_MOST_FIELDS} fields")
            if depth > _DEEPEST:
                raise SimpleSchemaError(f"is nested more than {_DEEPEST} levels deep; does a type contain itself?")
            if isinstance(raw, Mapping):
                return self.of_object(raw, path, depth + 1), False
            if not isinstance(raw, str):
                raise SimpleSchemaError("must be the name of a type, or an object of fields")
            if len(raw) > _LONGEST:
                raise SimpleSchemaError(f"has {len(raw)} characters; a field has at most {_LONGEST}")
            name, _, markers = raw.partition("|")
            declared = self.types.get(name.strip())
            schema, required = (
                self._alias(name.strip(), declared, path, depth)
                if isinstance(declared, str)
                else (self._type(name.strip(), path, depth), False)
            )
            marked, itself = self._marked(schema, markers)
            return marked, required or itself
        except SimpleSchemaError as error:
            self.problems.add(path, str(error))
            return None

    def _alias(self, name: str, declared: str, path: str, depth: int) -> tuple[dict[str, Any], bool]:
        """Return two values for a field whose type `name` is an alias: its schema, and whether the field is required.

        `declared` is the alias: another type with markers (such as `default=3`), which the field gets too.
        """
        if depth > _DEEPEST:
            raise SimpleSchemaError(f"is nested more than {_DEEPEST} levels deep; does a type contain itself?")
        found = self._field(declared, path, depth + 1)
        if found is None:
            raise SimpleSchemaError(f"the type {name[:40]!r} cannot be read")
        return found

    def _type(self, name: str, path: str, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise SimpleSchemaError(f"is nested more than {_DEEPEST} levels deep; does a type contain itself?")
        if name in _TYPES:
            return dict(_TYPES[name])
        if name.startswith("[]"):
            return {"type": "array", "items": self._type(name[2:].strip(), path, depth + 1)}
        if (match := _MAP.fullmatch(name)) is not None:
            return {"type": "object", "additionalProperties": self._type(match[1].strip(), path, depth + 1)}
        if name not in self.types:
            raise SimpleSchemaError(f"the type {name[:40]!r} is not known")
        declared = self.types[name]
        if isinstance(declared, str):
            return self._alias(name, declared, path, depth + 1)[0]
        return self.of_object(declared, path, depth + 1)

    def _marked(self, schema: dict[str, Any], markers: str) -> tuple[dict[str, Any], bool]:
        required = False
        for key, value in _markers(markers):
            if key == "required":
                required = _flag(value)
            elif key in _NUMBERS:
                schema[key] = _value(value, _TYPES["float"] if "." in value else _TYPES["integer"])
            elif key in _KEYWORDS:
                _KEYWORDS[key](schema, value)
            else:
                raise SimpleSchemaError(f"the marker {key[:40]!r} is not known")
        return schema, required


def _rule(schema: dict[str, Any], rule: str, message: str = "") -> None:
    found = {"rule": rule, "message": message} if message else {"rule": rule}
    schema.setdefault("x-kubernetes-validations", []).append(found)


def _immutable(schema: dict[str, Any], value: str) -> None:
    if _flag(value):
        _rule(schema, "self == oldSelf", "is immutable")


def _unique(schema: dict[str, Any], value: str) -> None:
    if _flag(value):
        schema["x-kubernetes-list-type"] = "set"


def _flag(value: str) -> bool:
    if value not in _FLAGS:
        raise SimpleSchemaError(f"{value[:40]!r} must be true or false")
    return _FLAGS[value]


def _defaulted(schema: dict[str, Any], value: str) -> None:
    """Add the default of a field. kro reads the escapes of JSON in a text, such as the end of a line."""
    default = _value(value, schema)
    if schema.get("type") == "string":
        with suppress(msgspec.MsgspecError, ValueError):
            default = msgspec.json.decode(f'"{value}"', type=str)
    schema["default"] = default


def _enumerated(schema: dict[str, Any], value: str) -> None:
    schema["enum"] = [_value(item.strip(), schema) for item in value.split(",")]


_KEYWORDS: Final[Mapping[str, Callable[[dict[str, Any], str], Any]]] = {
    "default": _defaulted,
    "description": lambda schema, value: schema.update(description=value),
    "pattern": lambda schema, value: schema.update(pattern=value),
    "enum": _enumerated,
    "uniqueItems": _unique,
    "listType": lambda schema, value: schema.update({"x-kubernetes-list-type": value}),
    "listMapKey": lambda schema, value: schema.setdefault("x-kubernetes-list-map-keys", []).append(value),
    "immutable": _immutable,
    "validation": _rule,
}
"""The functions that apply a marker of a short schema, such as `default=3`, to an OpenAPI schema, by marker."""


def _markers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the key and the value of each marker, such as `default=3`, as kro reads them.

    A value ends at a blank that is neither in quotes nor in brackets.
    """
    at = _skipped(text, 0)
    while at < len(text):
        match = _MARKER.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        end = _end_of_value(text, match.end())
        yield match[1], _unquoted(text[match.end() : end])
        at = _skipped(text, end)


def _skipped(text: str, at: int) -> int:
    match = _SEPARATORS.match(text, at)
    return at if match is None else match.end()


def _end_of_value(text: str, begin: int) -> int:
    """Return the position after the value that begins at `begin`."""
    at, depth, quoted = begin, 0, False
    while at < len(text):
        sign = text[at]
        if sign == '"':
            quoted = not quoted
        elif quoted:
            at += sign == "\\"
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign.isspace() and depth == 0:
            break
        if depth < 0:
            break
        at += 1
    if quoted or depth:
        raise _unreadable(text, begin)
    return at


def _unreadable(text: str, at: int) -> SimpleSchemaError:
    return SimpleSchemaError(f"cannot read the markers at {text[at : at + 40]!r}")


def _unquoted(value: str) -> str:
    r"""Return the value of a marker without the quotes around it. As in kro, only `\"` and `\\` are escapes there."""
    if len(value) < 2 or not (value.startswith('"') and value.endswith('"')):
        return value
    return _ESCAPED.sub(r"\1", value[1:-1])


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the value in the text of a marker, such as the 3 of `default=3`, as a value of the field's type.

    `schema` is the schema of the field. Raises SimpleSchemaError if the text is not a value of its type.
    """
    try:
        match schema.get("type"):
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean" if text in ("true", "false"):
                return text == "true"
            case "array" | "object":
                return msgspec.json.decode(text)
            case "string":
                return text
    except (ValueError, msgspec.MsgspecError):
        pass
    raise SimpleSchemaError(f"{text[:40]!r} is no value of type {schema.get('type')}")
