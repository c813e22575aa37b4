"""Tables in which our language and Google's library must agree: operators by type, `format`, times (PH-6).

Where Google's C++ differs from its Go, which Kubernetes runs, ours is Go's; these cases are named.
"""

import itertools
import re
from typing import Any

import pytest

from purekube.cel import CelSyntaxError, Environment, compile_expression
from purekube.cel import types as kinds
from tests.property.expressions.test_differential import FAILED, alike, googles, ours

cel = pytest.importorskip("cel_expr_python.cel", reason="Google's library is not installed: cel-expr-python")

TYPES: dict[str, tuple[kinds.CelType, Any]] = {
    "bool": (kinds.BOOL, cel.Type.BOOL),
    "int": (kinds.INT, cel.Type.INT),
    "uint": (kinds.UINT, cel.Type.UINT),
    "double": (kinds.DOUBLE, cel.Type.DOUBLE),
    "string": (kinds.STRING, cel.Type.STRING),
    "bytes": (kinds.BYTES, cel.Type.BYTES),
    "timestamp": (kinds.TIMESTAMP, cel.Type.TIMESTAMP),
    "duration": (kinds.DURATION, cel.Type.DURATION),
    "dyn": (kinds.DYN, cel.Type.DYN),
}
NUMBERS = {"int", "uint", "double"}
OPERATORS = ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "&&", "||", "==", "!=")


def we_accept(text: str, **names: str) -> bool:
    try:
        compile_expression(text, Environment({name: TYPES[kind][0] for name, kind in names.items()}))
    except CelSyntaxError:
        return False
    return True


def they_accept(text: str, **names: str) -> bool:
    env = cel.NewEnv(variables={name: TYPES[kind][1] for name, kind in names.items()})
    try:
        env.compile(text)
    except Exception as error:
        if "no matching overload" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_check_accepts_the_operands_that_googles_accepts_PH_6(operator: str) -> None:
    text = f"x {operator} y"
    for left, right in itertools.product(TYPES, repeat=2):
        if operator in ("<", "<=", ">", ">=") and {left, right} <= NUMBERS:
            assert we_accept(text, x=left, y=right), "Kubernetes compares numbers of different types"
            continue
        assert we_accept(text, x=left, y=right) == they_accept(text, x=left, y=right), (left, operator, right)


@pytest.mark.parametrize("operator", ["-", "!"])
def test_the_check_accepts_the_operand_that_googles_accepts_PH_6(operator: str) -> None:
    for kind in TYPES:
        assert we_accept(f"{operator}x", x=kind) == they_accept(f"{operator}x", x=kind), kind


def check(text: str) -> None:
    """Go writes as many digits of a second as needed, C++ three, six or nine."""
    found, expected = ours(text, {}), googles(text, {})
    if isinstance(expected, str):
        expected = re.sub(r"(\.\d*?)0+(?=[sZ])", r"\1", expected)
    assert alike(found, expected), (text, found, expected)


VALUES = ("true", "7", "-255", "255u", "1.5", "-0.25", "2.0", "'text'", "b'bytes'", "null", "[1, 'a', [true]]",
          "{'b': 1, 'a': [2]}", "timestamp('2026-01-02T03:04:05.5Z')", "duration('-90.5s')", "int",
          "double('NaN')", "double('Infinity')", "double('-Infinity')")  # fmt: skip
CLAUSES = ("%s", "%d", "%f", "%.2f", "%.0f", "%e", "%.3e", "%b", "%o", "%x", "%X", "%%", "%q", "%.", "%")


@pytest.mark.parametrize("clause", CLAUSES)
def test_format_writes_what_googles_writes_PH_6(clause: str) -> None:
    for value in VALUES:
        if clause == "%d" and value in ("1.5", "-0.25", "2.0"):
            assert ours(f"'%d'.format([{value}])", {}) == ("2" if value == "2.0" else FAILED)
        else:
            check(f"'{clause}|'.format([{value}])")


TIMES = [
    "2026-01-31T23:59:59Z", "2026-01-31T24:00:00Z", "2026-01-31T23:60:00Z", "2026-01-31T23:59:60Z",
    "2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
    "2026-01-31T12:00:00+01:00", "2026-01-31T12:00:00-23:59", "2026-01-31T12:00:00.123456789Z",
    "2026-01-31T12:00:00.1Z", "0001-01-01T00:00:00Z", "0000-12-31T00:00:00Z", "9999-12-31T23:59:59.999999999Z",
    "2026-01-31T12:00Z", "2026-1-31T12:00:00Z", "20260131T120000Z", "12:00:00Z", "", "now",
]  # fmt: skip
PARTS = ("getFullYear()", "getMonth()", "getDayOfYear()", "getDayOfMonth()", "getDate()", "getDayOfWeek()",
         "getHours()", "getMinutes()", "getSeconds()", "getMilliseconds()")  # fmt: skip


@pytest.mark.parametrize("text", TIMES)
def test_a_text_near_a_time_is_one_where_googles_reads_one_PH_6(text: str) -> None:
    for expression in (f"string(timestamp('{text}'))", f"int(timestamp('{text}'))"):
        if text in ("2026-01-31T23:59:60Z", "2026-1-31T12:00:00Z"):
            assert ours(expression, {}) == FAILED, "Go knows no leap second, and no month of one digit"
        else:
            check(expression)


@pytest.mark.parametrize("zone", ["", "'UTC'", "'+05:30'", "'-09:30'", "'Europe/Berlin'"])
@pytest.mark.parametrize("part", PARTS)
def test_the_parts_of_a_time_are_those_of_googles_PH_6(part: str, zone: str) -> None:
    for time in ("2026-01-01T00:00:00.789Z", "2024-12-31T23:30:59Z", "1969-07-20T20:17:40Z"):
        expression = f"timestamp('{time}').{part[:-2]}({zone})"
        assert ours(expression, {}) == googles(expression, {}), expression


DURATIONS = ["1h30m", "-1.5s", "100ms", "1us", "1ns", "0", "0s", "1", "1d", "", "-", "1h-1m", ".5s", "2562047h", "9e9s"]


@pytest.mark.parametrize("text", DURATIONS)
def test_a_text_near_a_duration_is_one_where_googles_reads_one_PH_6(text: str) -> None:
    for part in ("", ".getHours()", ".getMinutes()", ".getSeconds()"):
        check(f"string(duration('{text}'){part})")


def test_milliseconds_of_a_duration_are_all_of_it_as_in_go_PH_6() -> None:
    assert ours("duration('1h30m').getMilliseconds()", {}) == 5_400_000
    assert ours("duration('-1500us').getMilliseconds()", {}) == -1
