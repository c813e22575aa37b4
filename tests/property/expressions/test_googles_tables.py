# ruff: noqa: E501
"""Tables in which our language and Google's library must agree: operators by type, `format`, times (PH-6).

Where Google's C++ differs from its Go, which Kubernetes runs, ours is Go's; these cases are named.
"""

import itertools
import re
from typing import Any

import pytest

from purekube.cel import CelSyntaxError, Environment, compile_expression
from purekube.cel import types as kinds
from purekube.cel.values import Uint

cel = pytest.importorskip("cel_expr_python.cel", reason="Google's library is not installed: cel-expr-python")
from tests.property.expressions.test_differential import FAILED, alike, ours, theirs  # noqa: E402, it skips itself, too

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


@pytest.mark.slow
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
    found, expected = value_of(text), googles_value(text)
    if isinstance(expected, str):
        expected = re.sub(r"(\.\d*?)0+(?=[sZ])", r"\1", expected)
    assert alike(found, expected), (text, found, expected)


def value_of(text: str) -> Any:
    """What ours answers, in types of Python."""
    try:
        found = ours(text, {})
    except CelSyntaxError:
        return FAILED
    return int(found) if isinstance(found, Uint) else found


def googles_value(text: str) -> Any:
    try:
        found = theirs().compile(text).eval(data={})
    except RuntimeError as error:
        if "INVALID_ARGUMENT" in str(error):
            return FAILED
        raise
    value = FAILED if found.type() == cel.Type.ERROR else found.plain_value()
    return bytes(value) if isinstance(value, bytearray) else value


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
        check(expression)


DURATIONS = ["1h30m", "-1.5s", "100ms", "1us", "1ns", "0", "0s", "1", "1d", "", "-", "1h-1m", ".5s", "2562047h", "9e9s"]


@pytest.mark.parametrize("text", DURATIONS)
def test_a_text_near_a_duration_is_one_where_googles_reads_one_PH_6(text: str) -> None:
    for part in ("", ".getHours()", ".getMinutes()", ".getSeconds()"):
        check(f"string(duration('{text}'){part})")


def test_milliseconds_of_a_duration_are_all_of_it_as_in_go_PH_6() -> None:
    assert ours("duration('1h30m').getMilliseconds()", {}) == 5_400_000
    assert ours("duration('-1500us').getMilliseconds()", {}) == -1


INT, UINT = "9223372036854775807", "18446744073709551615"
CALLS = [
    *(f"{name}(dyn({value}))" for name in ("string", "int", "uint", "double", "bool", "bytes", "timestamp", "duration", "size")
      for value in ("[1]", "{'a': 1}", "null", "7", "'x'", "true")),
    *(f"'tacocat'.charAt({at})" for at in (-1, 0, 6, 7, 8)),
    *(f"'tacocat'.indexOf('{part}')" for part in ("", "ac", "none")),
    *(f"'tacocat'.indexOf('a', {at})" for at in (-1, 0, 2, 5, 7, 8)),
    *(f"'tacocat'.lastIndexOf('{part}')" for part in ("", "at", "none")),
    *(f"'tacocat'.lastIndexOf('a', {at})" for at in (-1, 0, 4, 5, 7, 8)),
    *(f"'tacocat'.substring({at})" for at in (-1, 0, 4, 7, 8)),
    *(f"'tacocat'.substring({pair})" for pair in ("0, 4", "4, 4", "4, 0", "0, 7", "0, 8", "-1, 2")),
    *(f"'hello hello'.replace('he', 'we'{most})" for most in ("", ", 0", ", 1", ", 2", ", 3", ", -1")),
    "'ab'.replace('', '-')", "'a'.replace('a', '')",
    *(f"'a,b,c'.split(','{most})" for most in ("", ", 0", ", 1", ", 2", ", 3", ", 4", ", -1")),
    "'abc'.split('')", "'abc'.split('', 2)", "''.split(',')",
    "['a', 'b'].join()", "['a', 'b'].join('-')", "[].join('-')", "' \\t a b \\n'.trim()", "'TäST'.lowerAscii()",
    "'täst'.upperAscii()", "'abc'.reverse()", "strings.quote('a\"b\\\\c\\n')",
    *(f"'abc'.{name}('{part}')" for name in ("contains", "startsWith", "endsWith") for part in ("", "a", "bc", "x")),
    "'abc'.matches('^a.c$')", "'abc'.matches('b')", "'abc'.matches('^b')", "matches('abc', 'c$')",
    *(f"size({value})" for value in ("''", "'äö'", "b'abc'", "[1, 2]", "{1: 2}", "7")),
    *(f"math.{name}({value})" for name in ("ceil", "floor", "round", "trunc", "abs", "sign", "isNaN", "isInf", "isFinite")
      for value in ("1.5", "-1.5", "2.4", "-2.6", "0.0", "double('NaN')", "double('-Infinity')")),
    *(f"math.round({value})" for value in ("0.49999999999999994", "-0.49999999999999994", "0.5", "-0.5", "-0.0", "2.5",
                                           "4503599627370497.0", "-4503599627370497.0", "1e300")),
    *(f"math.{name}({value})" for name in ("abs", "sign") for value in ("7", "-7", "0", "7u", f"-{INT} - 1", "'a'")),
    *(f"math.{name}({values})" for name in ("greatest", "least")
      for values in ("1", "1, 2", "-3, 2.5, 1u", "[3, 1, 2]", "2u, 7u", "'a', 'b'", "1.0, 1", "5, 5u")),
    *(f"math.{name}({values})" for name in ("bitAnd", "bitOr", "bitXor") for values in ("12, 10", "12u, 10u", "-1, 5")),
    "math.bitNot(5)", "math.bitNot(5u)", "math.bitNot(-1)",
    *(f"math.{name}({values})" for name in ("bitShiftLeft", "bitShiftRight")
      for values in ("5, 1", "5u, 2", "1, 63", "1, 64", "1, 200", "-8, 1", "1, -1", "8u, 64")),
    *(f"int({value})" for value in ("7u", f"{UINT}u", "1.9", "-1.9", "'7'", "'-7'", "'+7'", "'7.5'", "'x'", "true",
                                    "9.3e18", "-9.3e18", "double('NaN')", f"'{UINT}'", "timestamp('1970-01-01T00:01:00Z')")),
    *(f"uint({value})" for value in ("7", "-1", "1.9", "-0.5", "1.9e19", "'7'", "'-7'", f"'{UINT}'", f"'{UINT}0'", "true")),
    *(f"double({value})" for value in ("7", "7u", "'1.5'", "'-1e3'", "'.5'", "'1.'", "'x'", "'NaN'", "'Infinity'", "true")),
    *(f"string({value})" for value in ("7", "7u", "1.5", "1e6", "123456.0", "1234567.0", "0.0001", "0.00001", "-0.0",
                                       "1.0", "100000.0", "12.25e10", "true", "b'abc'", "b'\\xff'", "'a'")),
    *(f"bool({value})" for value in ("'true'", "'TRUE'", "'True'", "'t'", "'1'", "'false'", "'f'", "'0'", "'tRUE'", "'yes'")),
    *(f"{left} {operator} {right}" for operator in "+-*/%" for left, right in (
        ("7", "2"), ("-7", "2"), ("7", "-2"), (INT, "1"), (f"-{INT} - 1", "1"), ("7", "0"), ("7u", "2u"), ("2u", "7u"),
        (f"{UINT}u", "1u"), ("7u", "0u"), (f"(-{INT} - 1)", "-1"))),
    *(f"{left} {operator} {right}" for operator in "+-*/" for left, right in (
        ("7.5", "2.0"), ("7.0", "0.0"), ("-7.0", "0.0"), ("0.0", "0.0"), ("7.0", "-0.0"))),
    *(f"{left} {operator} {right}" for operator in ("<", "<=", ">", ">=", "==", "!=") for left, right in (
        ("1", "2"), ("2", "2"), ("dyn(1)", "1.0"), ("dyn(1u)", "1"), ("'a'", "'b'"), ("b'a'", "b'a'"), ("false", "true"),
        ("1.0", "double('NaN')"), ("timestamp(1)", "timestamp(2)"), ("duration('1s')", "duration('60s')"))),
    *(f"{left} {operator} {right}" for operator in ("==", "!=") for left, right in (
        ("[1, 2]", "[1, 2]"), ("[1]", "[1, 2]"), ("[1, 2]", "[2, 1]"), ("{'a': 1}", "{'a': 1}"), ("{'a': 1}", "{'a': 2}"),
        ("{'a': 1}", "{'b': 1}"), ("{1: 1}", "{dyn(1u): 1}"), ("null", "null"), ("type(1)", "int"), ("dyn(1)", "'1'"))),
    *(f"{value} in {where}" for value, where in (("1", "[1, 2]"), ("3", "[1, 2]"), ("dyn(1.0)", "[1]"), ("'a'", "{'a': 1}"),
                                                 ("'b'", "{'a': 1}"), ("1u", "{dyn(1): 2}"), ("[1]", "[[1]]"))),
    "string(timestamp('2026-01-01T00:00:00Z') + duration('1h'))", "string(duration('1h') + timestamp('2026-01-01T00:00:00Z'))",
    "string(timestamp('2026-01-01T00:00:00Z') - duration('1h'))", "string(duration('1h') - duration('90m'))",
    "string(timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z'))",
    "timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp('0001-01-01T00:00:00Z') - duration('1s')",
    "optional.of(1).hasValue()", "optional.none().hasValue()", "optional.of(1).value()", "optional.none().value()",
    "optional.none().orValue(2)", "optional.of(1).orValue(2)", "optional.none().or(optional.of(3)).value()",
    *(f"optional.ofNonZeroValue({value}).hasValue()" for value in ("0", "1", "''", "'a'", "[]", "[0]", "{}", "false", "0.0")),
    "optional.of(2).optMap(x, x + 1).value()", "optional.none().optMap(x, x + 1).hasValue()",
    "optional.of(2).optFlatMap(x, optional.of(x + 1)).value()", "{'a': 1}[?'a'].value()", "{'a': 1}[?'b'].hasValue()",
    "[1, 2][?1].value()", "[1, 2][?2].hasValue()", "[?optional.of(1), ?optional.none()]", "{?'a': optional.none(), 'b': 1}",
    "[1, 2][2]", "[1, 2][-1]", "{'a': 1}['b']", "[1, 2][dyn(1.0)]", "{1: 'x'}[dyn(1u)]",
    *(f"[1, 2, 3].{macro}" for macro in ("all(x, x > 0)", "all(x, x > 1)", "exists(x, x > 2)", "exists(x, x > 3)",
      "exists_one(x, x > 2)", "exists_one(x, x > 1)", "filter(x, x != 2)", "map(x, x * 2)", "map(x, x > 1, x * 2)")),
    "[].all(x, false)", "[].exists(x, true)", "[1, 0].exists(x, 1 / x == 1)", "[0, 1].all(x, 1 / x == 2)",
    "[0, 1].all(x, 1 / x == 1)", "{'a': 1}.all(k, k == 'a')", "has({'a': 1}.a)", "has({'a': 1}.b)", "has({'a': null}.a)",
    "true ? 1 : 1 / 0", "false ? 1 / 0 : 2", "1 / 0 == 1 || true", "false && 1 / 0 == 1", "true || 1 / 0 == 1",
    "1 / 0 == 1 && false", "1 / 0 == 1 || false", "-(-7)", f"-(-{INT} - 1)", "!true", "type(1u) == uint", "type(type(1)) == type",
    "bytes('ä')", "b'a' + b'b'", "[1] + [2]", "'a' + 'b'", "duration('1h') > duration('59m')",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_each_call_and_operator_answers_as_googles_does_PH_6(part: int) -> None:
    for text in CALLS[part::8]:
        if text not in OTHERWISE:
            check(text)
    assert not set(OTHERWISE) - set(CALLS)


OTHERWISE = {
    "'tacocat'.substring(0, 7)": "the end of a text is an index in Go",
    "int(dyn(true))": "no bool is a number in Go",
    "timestamp(dyn(7))": "a moment, which is compared as a text above",
}
"""Expressions to which Google's C++ has another answer than its Go, with the reason."""
