"""OpenAPI schemas of attrs classes, structural as Kubernetes requires (RES-6).

The type of a field gives its shape. `schema_field` adds what a type cannot express. The `SCHEMA` of a class adds what
no field can express: keywords of the whole object, and further `properties` and `required`. The `CEL_RULES` of a class
and the rules of its fields become `x-kubernetes-validations`. A field without default is required; `X | None` is
optional, never nullable.
"""

import inspect
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs

from purekube.apimachinery.fields import CelRule, camel
from purekube.apimachinery.problems import join

_SCALARS: Final[Mapping[Any, str]] = {str: "string", int: "integer", bool: "boolean", float: "number"}
_LISTS: Final = (tuple, list, Sequence)
_MAPPINGS: Final = (Mapping, dict)
_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
_FITTING: Final = (
    "str, int, float, bool, int | str, a StrEnum, a Literal of texts, an attrs class, tuple[X, ...], Mapping[str, X],"
    " Any, or X | None"
)


class SchemaTypeError(TypeError):
    """The error for a class from which no OpenAPI schema can be made. The message names the path of the field that
    prevents it, and the reason.
    """


def object_schema(cls: type[Any], *, every_default: bool = False) -> dict[str, Any]:
    """Return the OpenAPI schema of an attrs class. The class's docstring becomes the description.

    The schema has a `default` for fields with `publish_default`; with `every_default`, for each field whose default is
    a non-empty string, a number or a boolean.

    Raises SchemaTypeError with the path of a field whose type has no schema.
    """
    return _Generator(every_default).object(cls, cls.__name__, ())


def validations(rules: Sequence[CelRule]) -> dict[str, Any]:
    """Return `x-kubernetes-validations` with the rules; an empty mapping without rules."""
    return _with_rules({}, rules)


def _with_rules(schema: dict[str, Any], rules: Sequence[CelRule]) -> dict[str, Any]:
    known = [*schema.get(_RULES, ()), *map(_validation, rules)]
    return {**schema, _RULES: known} if known else schema


def _validation(rule: CelRule) -> dict[str, str]:
    entry = {"rule": rule.rule, "message": rule.message, "reason": rule.reason}
    return {**entry, "fieldPath": rule.field_path} if rule.field_path else entry


def inner_type(annotation: Any) -> tuple[Any, bool]:
    """Return a pair: the type `annotation` without `| None`, and True if `annotation` had `| None`."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    others = [one for one in get_args(annotation) if one is not NoneType]
    optional = len(others) < len(get_args(annotation))
    return (others[0] if len(others) == 1 else Union[tuple(others)], optional)  # noqa: UP007


@attrs.frozen
class _Generator:
    every_default: bool

    def object(self, cls: type[Any], path: str, above: tuple[type[Any], ...]) -> dict[str, Any]:
        if cls in above:
            raise SchemaTypeError(f"{path}: {cls.__name__} holds itself, which the schema of a CRD cannot say")
        fields, own = attrs.fields(cls), getattr(cls, "SCHEMA", {})
        required = {camel(field.name) for field in fields if field.default is attrs.NOTHING} | {
            *own.get("required", ())
        }
        below = (*above, cls)
        described = {"description": text} if (text := inspect.cleandoc(cls.__doc__ or "")) else {}
        properties = {camel(field.name): self._field(field, join(path, field.name), below) for field in fields}
        schema: dict[str, Any] = {
            "type": "object",
            **described,
            **own,
            "properties": {**properties, **own.get("properties", {})},
        }
        if required:
            schema["required"] = sorted(required)
        return _with_rules(schema, getattr(cls, "CEL_RULES", ()))

    def _field(self, field: "attrs.Attribute[Any]", path: str, above: tuple[type[Any], ...]) -> dict[str, Any]:
        schema = self._type(field.type, path, above)
        if field.metadata.get("doc"):
            schema = {**schema, "description": field.metadata["doc"]}
        schema.update(field.metadata.get("schema", {}))
        # The default "" is not published, since it means the same as no value.
        has_default = isinstance(field.default, str | int | float) and field.default != ""
        if field.metadata.get("publish_default") or (self.every_default and has_default):
            schema["default"] = field.default.value if isinstance(field.default, StrEnum) else field.default
        return _with_rules(schema, field.metadata.get("rules", ()))

    def _type(self, annotation: Any, path: str, above: tuple[type[Any], ...]) -> dict[str, Any]:
        annotation, _ = inner_type(annotation)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if (form := getattr(annotation, "JSON_SCHEMA", None)) is not None:
            return dict(form)  # a class that is written in several forms has its own schema
        if annotation is Any:
            return {_FREE: True}
        if origin in _LISTS and arguments:
            return {"type": "array", "items": self._type(_item(arguments, path), path, above)}
        if origin in _MAPPINGS and arguments[0] is str:
            return self._mapping(arguments[1], path, above)
        if origin is Literal and all(isinstance(argument, str) for argument in arguments):
            return {"type": "string", "enum": list(arguments)}
        if origin in (Union, UnionType) and set(arguments) == {int, str}:
            return {"x-kubernetes-int-or-string": True}
        if isinstance(annotation, type):
            return self._class(annotation, path, above)
        raise _unfitting(annotation, path)

    def _mapping(self, value: Any, path: str, above: tuple[type[Any], ...]) -> dict[str, Any]:
        if value is Any:
            return {"type": "object", _FREE: True}
        return {"type": "object", "additionalProperties": self._type(value, path, above)}

    def _class(self, cls: type[Any], path: str, above: tuple[type[Any], ...]) -> dict[str, Any]:
        if attrs.has(cls):
            return self.object(cls, path, above)
        if issubclass(cls, StrEnum):
            return {"type": "string", "enum": [member.value for member in cls]}
        if cls not in _SCALARS:
            raise _unfitting(cls, path)
        return {"type": _SCALARS[cls]}


def _item(arguments: tuple[Any, ...], path: str) -> Any:
    if len(arguments) == 2 and arguments[1] is not Ellipsis:
        raise SchemaTypeError(f"{path}: a list has items of one type: write tuple[X, ...]")
    return arguments[0]


def _unfitting(annotation: Any, path: str) -> SchemaTypeError:
    name = getattr(annotation, "__name__", None) or str(annotation)
    return SchemaTypeError(f"{path}: {name} has no schema; a field is {_FITTING}")
