"""Fields, keys and elements: how a rule gets at the parts of a value."""

from collections.abc import Mapping
from typing import Any

from vworkspace_fake.apiserver.cel.names import unescape
from vworkspace_fake.apiserver.cel.operators import Program, Variables
from vworkspace_fake.apiserver.cel.values import (
    ABSENT,
    CelError,
    OptionalValue,
    is_number,
    no_overload,
)

__all__ = ["index", "optional_select", "present", "select"]


def _lookup(value: Any, field: str, plain: str) -> Any:
    if isinstance(value, OptionalValue):
        if not value.present:
            return ABSENT
        return _optionally(value.value, field, plain)
    if not isinstance(value, Mapping):
        raise no_overload()
    if field in value:
        return value[field]
    if plain in value:
        return value[plain]
    raise CelError(f"no such key: {plain}")


def select(operand: Program, field: str) -> Program:
    """The field of an object, or the entry of a map under a name."""
    plain = unescape(field)
    return lambda variables: _lookup(operand(variables), field, plain)


def _optionally(value: Any, field: str, plain: str) -> OptionalValue:
    if not isinstance(value, Mapping):
        raise no_overload()
    key = field if field in value else plain
    return OptionalValue(value[key], True) if key in value else ABSENT


def optional_select(operand: Program, field: str) -> Program:
    """The same with `?`: an optional value."""
    plain = unescape(field)

    def run(variables: Variables) -> Any:
        value = operand(variables)
        if isinstance(value, OptionalValue):
            return _optionally(value.value, field, plain) if value.present else ABSENT
        return _optionally(value, field, plain)

    return run


def index(operand: Program, key: Program, optional: bool) -> Program:
    """The element of a list, or the entry of a map."""

    def run(variables: Variables) -> Any:
        value, at = operand(variables), key(variables)
        if isinstance(value, OptionalValue):
            if not value.present:
                return ABSENT
            value, wrapped = value.value, True
        else:
            wrapped = optional
        try:
            found = _at(value, at)
        except CelError:
            if wrapped:
                return ABSENT
            raise
        return OptionalValue(found, True) if wrapped else found

    return run


def _at(value: Any, at: Any) -> Any:
    if isinstance(value, list) and is_number(at):
        if not 0 <= at < len(value) or at != int(at):
            raise CelError(f"index out of bounds: {at}")
        return value[int(at)]
    if isinstance(value, Mapping):
        if at in value:
            return value[at]
        raise CelError(f"no such key: {at}")
    raise no_overload()


def present(operand: Program, field: str) -> Program:
    """Whether `has()` finds the field."""
    plain = unescape(field)

    def run(variables: Variables) -> bool:
        value = operand(variables)
        if isinstance(value, OptionalValue):
            if not value.present:
                return False
            value = value.value
        if not isinstance(value, Mapping):
            raise no_overload()
        return field in value or plain in value

    return run
