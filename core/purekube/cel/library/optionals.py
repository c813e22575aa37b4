"""The CEL library of optional values. It includes the list methods `first` and `last`, whose result may be absent."""

from collections.abc import Mapping
from typing import Any, Final

from purekube.cel.limits import Budget, Missing, of_type
from purekube.cel.signatures import built, function, list_cost
from purekube.cel.values import ABSENT, OptionalValue


def _value(value: Any) -> Any:
    if not of_type(OptionalValue, value).present:
        raise Missing("optional.none() dereference")
    return value.value


def _of_non_zero(value: Any) -> OptionalValue:
    empty = value is None or (isinstance(value, (bool, int, float, str, bytes, list, Mapping)) and not value)
    return ABSENT if empty else OptionalValue(value, True)


def _first(items: Any) -> OptionalValue:
    return OptionalValue(items[0], True) if of_type(list, items) else ABSENT


def _last(items: Any) -> OptionalValue:
    return OptionalValue(items[-1], True) if of_type(list, items) else ABSENT


def _unwrap(budget: Budget, items: Any) -> list[Any]:
    return list(built(budget, [item.value for item in of_type(list, items) if of_type(OptionalValue, item).present]))


FUNCTIONS: Final = (
    function("optional.of($A) -> optional($A)", lambda value: OptionalValue(value, True)),
    function("optional.ofNonZeroValue($A) -> optional($A)", _of_non_zero),
    function("optional.none() -> optional($A)", lambda: ABSENT),
    function("optional.unwrap(list(optional($A))) -> list($A)", _unwrap, cost=list_cost, with_budget=True),
    function("list(optional($A)).unwrapOpt() -> list($A)", _unwrap, cost=list_cost, with_budget=True),
    function("optional($A).hasValue() -> bool", lambda value: of_type(OptionalValue, value).present),
    function("optional($A).value() -> $A", _value),
    function("list($A).first() -> optional($A)", _first),
    function("list($A).last() -> optional($A)", _last),
)
"""The functions and methods of optional values.

`or` and `orValue` are compiled as operators instead, because their argument is evaluated only if needed.
"""
