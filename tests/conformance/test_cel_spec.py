"""The public conformance cases of CEL, as far as they need no protobuf messages (PH-6).

`CEL_CASES` names the file of cases; without it the file beside the repository is taken where it is there.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from purekube.cel import CelError, CelSyntaxError, Environment, compile_expression
from purekube.cel.types import DYN
from purekube.cel.values import OptionalValue, TypeValue, Uint, is_number, type_name

FILE: Final = Path(os.environ.get("CEL_CASES") or Path(__file__).parents[3] / "shared" / "cel" / "cases.json")
CASES: Final[list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else []

pytestmark = pytest.mark.skipif(not CASES, reason=f"{FILE} is not there: CEL_CASES names the conformance cases of CEL")

_NO_VALUE: Final = "a case of the deduced type, which the file has no value for"
EXCEPTIONS: Final[Mapping[str, str]] = {
    "network_ext/ipv4/ipv4_equals_ipv6": "Kubernetes takes no IPv4 address in the form of IPv6",
    "string_ext/format/map support (all key types)": "a map holds true and 1 as one key",
    "type_deduction/functions/function_result_type": _NO_VALUE,
    "type_deduction/flexible_type_parameter_assignment/list_parameter": _NO_VALUE,
    "type_deduction/flexible_type_parameter_assignment/list_parameter_order_independent": _NO_VALUE,
    "type_deduction/flexible_type_parameter_assignment/unconstrained_type_var_as_dyn": _NO_VALUE,
    "type_deduction/flexible_type_parameter_assignment/optional_none": _NO_VALUE,
    "type_deduction/flexible_type_parameter_assignment/optional_dyn_promotion": _NO_VALUE,
    "type_deduction/type_parameters/multiple_parameters_generality": _NO_VALUE,
    "type_deduction/type_parameters/multiple_parameters_generality_2": _NO_VALUE,
}
"""Cases that do not hold, each with the reason."""


def value_of(shown: Mapping[str, Any]) -> Any:
    """A value from the way in which the cases write it."""
    ((kind, value),) = shown.items()
    match kind:
        case "int":
            return int(value)
        case "uint":
            return Uint(value)
        case "double":
            return float(value)
        case "bytes":
            return bytes.fromhex(value)
        case "null":
            return None
        case "list":
            return [value_of(one) for one in value]
        case "map":
            return {value_of(key): value_of(one) for key, one in value}
        case "type":
            return TypeValue(value)
        case _:
            return value


def same(one: Any, other: Any) -> bool:
    """Equality of results: of one type, and nan is nan."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if is_number(one) or is_number(other):
        return type_name(one) == type_name(other) and bool(one == other)
    return type(one) is type(other) and bool(one == other)


def environment(case: Mapping[str, Any]) -> Environment:
    return Environment(dict.fromkeys(case.get("bindings", {}), DYN), container=case.get("container", ""))


def evaluated(case: Mapping[str, Any], bindings: Mapping[str, Any]) -> Any:
    program = compile_expression(case["expr"], environment(case), checked=not case.get("disableCheck"))
    return program.evaluate(bindings)


def name_of(case: Mapping[str, Any]) -> str:
    return f"{case['file']}/{case['section']}/{case['name']}"


def holds(case: Mapping[str, Any]) -> bool:
    """Whether the expression of a case has the value, or fails, as the language demands."""
    bindings = {name: value_of(value) for name, value in case.get("bindings", {}).items()}
    try:
        found = evaluated(case, bindings)
    except (CelError, CelSyntaxError):
        return bool(case.get("error"))
    found = found.value if isinstance(found, OptionalValue) else found
    return not case.get("error") and same(found, value_of(case["value"]))


def test_each_case_has_the_value_or_the_failure_that_the_language_demands() -> None:
    assert {name_of(case) for case in CASES if not holds(case)} == {*EXCEPTIONS}


def test_at_least_ninety_seven_of_a_hundred_cases_hold() -> None:
    assert len(EXCEPTIONS) <= 0.03 * len(CASES)
