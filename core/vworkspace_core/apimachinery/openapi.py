"""OpenAPI schemas of our own classes, structural as Kubernetes asks for (RES-6).

Types give the shape, `schema_field` gives what types cannot say, `CEL_RULES` and field rules become
`x-kubernetes-validations`. A field without default is required; `X | None` is optional, never nullable.
"""

import inspect
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import NoneType
from typing import Any, Final, get_args, get_origin

import attrs

from vworkspace_core.apimachinery.fields import CelRule, camel

_SCALARS: Final[Mapping[Any, str]] = {str: "string", int: "integer", bool: "boolean"}


def object_schema(cls: type[Any]) -> dict[str, Any]:
    """Schema of an attrs class, its docstring as description."""
    fields = attrs.fields(cls)
    required = sorted(camel(field.name) for field in fields if field.default is attrs.NOTHING)
    schema: dict[str, Any] = {
        "type": "object",
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "properties": {camel(field.name): _field_schema(field) for field in fields},
    }
    if required:
        schema["required"] = required
    return {**schema, **validations(getattr(cls, "CEL_RULES", ()))}


def _field_schema(field: "attrs.Attribute[Any]") -> dict[str, Any]:
    schema = {**_type_schema(field.type), "description": field.metadata["doc"], **field.metadata["schema"]}
    if field.metadata["publish_default"]:
        schema["default"] = field.default.value if isinstance(field.default, StrEnum) else field.default
    rules = schema.pop("x-kubernetes-validations", [])
    rules += validations(field.metadata["rules"]).get("x-kubernetes-validations", [])
    return {**schema, "x-kubernetes-validations": rules} if rules else schema


def _type_schema(annotation: Any) -> dict[str, Any]:
    arguments = get_args(annotation)
    if NoneType in arguments:
        (annotation,) = (argument for argument in arguments if argument is not NoneType)
        return _type_schema(annotation)
    if get_origin(annotation) is tuple:
        return {"type": "array", "items": _type_schema(arguments[0])}
    if (form := getattr(annotation, "JSON_SCHEMA", None)) is not None:
        return dict(form)  # a class that is written in several forms says itself which
    if annotation is Any:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if get_origin(annotation) is Mapping:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if attrs.has(annotation):
        return object_schema(annotation)
    if issubclass(annotation, StrEnum):
        return {"type": "string", "enum": [member.value for member in annotation]}
    return {"type": _SCALARS[annotation]}


def validations(rules: Sequence[CelRule]) -> dict[str, Any]:
    """The keyword that carries `rules`; empty when there are none."""
    return {"x-kubernetes-validations": [_validation(rule) for rule in rules]} if rules else {}


def _validation(rule: CelRule) -> dict[str, str]:
    entry = {"rule": rule.rule, "message": rule.message, "reason": rule.reason}
    return {**entry, "fieldPath": rule.field_path} if rule.field_path else entry
