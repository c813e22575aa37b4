"""The macros of CEL on the values they run over."""

from collections.abc import Mapping
from typing import Any

from vworkspace_fake.apiserver.cel.operators import Program, Variables, boolean
from vworkspace_fake.apiserver.cel.values import ABSENT, CelError, OptionalValue, no_overload

__all__ = ["count", "elements", "mapped", "opt_map", "quantified"]


def elements(value: Any) -> list[Any]:
    """What a macro runs over: items of a list, keys of a map."""
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return list(value)
    raise no_overload()


def quantified(items: list[Any], variables: Variables, name: str, body: Program, deciding: bool) -> bool:
    """`all` (False decides) and `exists` (True decides): one deciding item wins over errors in others."""
    failure: CelError | None = None
    for item in items:
        try:
            if boolean(body({**variables, name: item})) is deciding:
                return deciding
        except CelError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not deciding


def count(items: list[Any], variables: Variables, name: str, body: Program) -> int:
    """How many items fulfil the body."""
    return sum(boolean(body({**variables, name: item})) for item in items)


def mapped(items: list[Any], variables: Variables, name: str, body: Program, transform: Program | None) -> list[Any]:
    """`map` over all items, or over those that fulfil the body when there is a transform."""
    if transform is None:
        return [body({**variables, name: item}) for item in items]
    scopes = [{**variables, name: item} for item in items]
    return [transform(scope) for scope in scopes if boolean(body(scope))]


def opt_map(value: Any, variables: Variables, name: str, body: Program, flat: bool) -> Any:
    """`optMap` and, when `flat`, `optFlatMap`."""
    if not isinstance(value, OptionalValue):
        raise no_overload()
    if not value.present:
        return ABSENT
    result = body({**variables, name: value.value})
    return result if flat else OptionalValue(result, True)
