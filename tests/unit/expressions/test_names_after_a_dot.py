"""A dot before a name (`.name`) reaches past the variables of macros (PH-6), also where they are nested."""

from typing import Any

import pytest

from purekube.cel import DYN, INT, CelSyntaxError, Environment, FieldRead, compile_expression, list_of
from purekube.cel.parser import parse

TYPES = {"x": INT, "y": list_of(INT), "o": DYN, "a.x": INT}
VALUES: dict[str, Any] = {"x": 1, "y": [20, 30], "o": {"x": 4}, "a.x": 500}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".x", 1),
        ("[7].map(x, .x)", [1]),
        ("[7].map(x, x)", [7]),
        ("[7].map(x, .x * 10 + x)", [17]),
        ("[x].map(x, .x + x + 1)", [3]),
        ("[7].map(x, [8].map(x, .x * 100 + x))", [[108]]),
        ("[7].map(x, [8].map(z, x * 100 + z + .x))", [[709]]),
        ("[7].map(x, [x].map(x, x + .x))[0] + [x]", [8, 1]),
        ("[7].map(z, [z].map(x, z + .x))", [[8]]),
        ("[7].map(x, true, .x + x)", [8]),
        ("[7].filter(x, .x == 1 && x == 7)", [7]),
        ("[7, 9].transformList(i, x, i * 100 + x * 10 + .x)", [71, 191]),
        ("[7, 9].transformList(x, i, i > 7, i * 100 + x * 10 + .x)", [911]),
        ("{'k': 7}.transformMap(k, x, x + .x)", {"k": 8}),
        ("cel.bind(x, 7, .x * 10 + x)", 17),
        ("cel.bind(x, x + 1, .x * 10 + x)", 12),
        ("cel.bind(y, x, [.y[1] + y])", [31]),
        ("cel.bind(x, 7, x) + cel.bind(x, 8, x + .x)", 16),
        ("[7].map(o, has(.o.x) && !has(.o.y))", [True]),
        ("[7].map(o, .o.x + o)", [11]),
        ("[2].map(y, .y[?0].orValue(0) + y)", [22]),
        ("[7].map(int, .int == type(int))", [True]),
        ("[7].map(x, [x, .x] == [7, 1] ? {x: -.x} : {})", [{7: -1}]),
        ("optional.of(7).optMap(x, x + .x).value()", 8),
        ("[3].sortBy(x, x - .x)", [3]),
    ],
)
def test_the_name_is_that_of_a_variable_of_the_expression(text: str, value: Any) -> None:
    for checked in (True, False):
        found = compile_expression(text, Environment(TYPES), checked=checked).evaluate(VALUES)

        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x", 500),
        (".x", 1),
        ("a.x", 500),
        ("[7].map(x, x)", [7]),
        ("[7].map(x, .x)", [1]),
        ("[7].map(x, .a.x)", [500]),
        ("[7].map(x, a.x + x)", [507]),
        ("[{'x': 7}].map(a, a.x)", [7]),
        ("[{'x': 7}].map(a, .a.x)", [500]),
        ("cel.bind(x, x, x + .x)", 501),
        ("cel.bind(a, {'x': 7}, a.x + .a.x + x)", 1007),
    ],
)
def test_in_a_container_the_dot_begins_at_the_outermost(text: str, value: Any) -> None:
    program = compile_expression(text, Environment(TYPES, container="a.b"))

    assert program.evaluate(VALUES) == value


def test_the_check_knows_the_type_and_what_is_read() -> None:
    checked = compile_expression("['s'].exists(x, .x > 0 && x.size() > 0)", Environment(TYPES)).checked

    assert checked is not None
    assert checked.reads == {FieldRead(("x",))}
    with pytest.raises(CelSyntaxError, match=r"^no matching overload for '>' applied to \(string, int\)"):
        compile_expression("['s'].exists(x, x > 0 && .x > 0)", Environment(TYPES))


def test_no_other_name_of_a_variable_is_shown_to_anybody() -> None:
    with pytest.raises(CelSyntaxError, match=r"^undeclared reference to 'xs' at line 1, column 19$"):
        compile_expression("['s'].exists(xs, .xs == xs)", Environment())


def test_without_such_a_name_the_tree_is_as_it_was_written() -> None:
    assert parse("[1].map(x, x + .y)") == parse("[1].map(x, x + (.y))")
    assert "'x'" in repr(parse("[1].map(x, x + .y)"))
    assert "x'" not in repr(parse("[1].map(x, x + .y)")).replace("'x'", "")
