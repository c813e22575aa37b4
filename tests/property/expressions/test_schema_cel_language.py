"""The language of CEL: literals, operators, errors, macros, functions and optionals, expression by expression."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.cel import Budget, CelError, CelSyntaxError, Environment, compile_expression
from purekube.cel.types import DYN
from purekube.cel.values import cel_equal


def run(source: str, self: Any = None, **variables: Any) -> Any:
    given = {"self": self, **variables}
    return compile_expression(source, Environment(dict.fromkeys(given, DYN)), checked=False).evaluate(given)


SELF = {
    "a": 1,
    "s": "text",
    "l": [1, 2, 3],
    "m": {"k": "v"},
    "b": True,
    "n": None,
    "x-y": 7,
    "namespace": "ns",
    "d": 1.5,
}


@pytest.mark.parametrize(
    "source",
    [
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 2 == 1 && -7 % 2 == -1",
        "1.5 + 1.5 == 3.0",
        "2 == 2.0 && 2u == 2",
        "0x1f == 31",
        "'a' + 'b' == \"ab\"",
        "r'\\d' == '\\\\d'",
        "'\\u0041\\x42\\103' == 'ABC'",
        "'''a\nb''' == 'a\\nb'",
        "b'ab' == bytes('ab')",
        "[1, 2] + [3] == [1, 2, 3]",
        "{'a': 1}.a == 1 && {'a': 1}['a'] == 1",
        "true || false && false",
        "!false && !(true && false)",
        "1 < 2 && 2 <= 2 && 'a' < 'b' && 3 > 2 && 3 >= 3",
        "true ? 1 == 1 : 1 == 2",
        "false ? false : true ? true : false",
        "1 in [1, 2] && !(3 in [1, 2])",
        "'k' in self.m && !('z' in self.m)",
        "self.a == 1 && self['a'] == 1",
        "self.x__dash__y == 7 && self.__namespace__ == 'ns'",
        "has(self.a) && !has(self.zz) && has(self.m.k)",
        "self.n == null && self.a != null",
        "self.l[0] == 1 && self.l.size() == 3 && size(self.l) == 3",
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 2)",
        "self.l.map(x, x * 2) == [2, 4, 6]",
        "self.l.map(x, x > 1, x * 2) == [4, 6]",
        "self.l.filter(x, x > 1) == [2, 3]",
        "self.m.all(k, k == 'k') && self.m.exists(k, self.m[k] == 'v')",
        "[[1], [2]].all(x, x.all(y, y > 0))",
        "self.s.startsWith('te') && self.s.endsWith('xt') && self.s.contains('ex') && self.s.matches('^t.*t$')",
        "self.s.size() == 4 && 'é'.size() == 1",
        "self.s.upperAscii() == 'TEXT' && 'AB'.lowerAscii() == 'ab'",
        "'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b'",
        "'hello'.substring(1, 3) == 'el' && 'hello'.substring(2) == 'llo' && 'hello'.charAt(1) == 'e'",
        "'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'hello'.replace('l', 'L') == 'heLLo'",
        "' a '.trim() == 'a' && 'abc'.reverse() == 'cba'",
        "'a1b2'.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "int('5') == 5 && string(5) == '5' && double('1.5') == 1.5 && uint(3) == 3u && bool('true')",
        "type(1) == int && type('a') == string && type(null) == null_type && type([]) == list",
        "[1, 2, 3].sum() == 6 && [3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && [1, 2].isSorted()",
        "[1, 2].indexOf(2) == 1 && [1, 2, 1].lastIndexOf(1) == 2",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1]) && sets.intersects([1], [1, 2])",
        "timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-02T00:00:00Z')",
        "timestamp('2026-01-01T00:00:00Z') + duration('24h') == timestamp('2026-01-02T00:00:00Z')",
        "duration('90m') == duration('1h30m') && duration('1h').getMinutes() == 60",
        "self.?a.orValue(5) == 1 && self.?zz.orValue(5) == 5 && self.m.?zz.hasValue() == false",
        "self.?m.k.value() == 'v' && self.?zz.k.orValue('none') == 'none'",
        "self.l[?9].orValue(0) == 0 && self.l[?0].orValue(0) == 1",
        "optional.of(1).value() == 1 && optional.none().orValue(2) == 2",
        "self.?a.optMap(x, x + 1).value() == 2 && !self.?zz.optMap(x, x + 1).hasValue()",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m') == quantity('0.5') && isQuantity('1k')",
        "isIP('10.0.0.1') && !isIP('x') && isCIDR('10.0.0.0/8') && isURL('https://x/y') && !isURL('::x')",
        "base64.encode(b'b') == 'Yg==' && base64.decode('Yg==') == b'b'",
        "math.greatest(1, 2) == 2 && math.least([3, 1]) == 1",
        "size('') == 0 // and a comment",
    ],
)
def test_true_expressions(source: str) -> None:
    assert run(source, SELF) is True


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("self.zz", "no such key: zz"),
        ("self.zz.y == 1", "no such key: zz"),
        ("self.l[3]", "index out of bounds: 3"),
        ("self.m['zz']", "no such key: zz"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("1 + 'a'", "no such overload"),
        ("1 + 1.5", "no such overload"),
        ("!1", "no such overload"),
        ("-'a'", "no such overload"),
        ("1 && true", "no such overload"),
        ("1 < 'a'", "no such overload"),
        ("'a'.all(x, true)", "no such overload"),
        ("self.a.startsWith('x')", "no such overload"),
        ("int('x')", "'x' is no integer"),
        ("timestamp('x')", "'x' is no timestamp such as 2026-01-31T12:00:00Z"),
        ("duration('x')", "'x' is no duration such as 1h30m"),
        ("quantity('x')", "'x' is no quantity such as 500m or 1Gi"),
        ("optional.none().value()", "optional.none() dereference"),
        ("'abc'.substring(2, 1)", "index out of range: 2"),
        ("[].max()", "min and max need an item at the least"),
        ("1 ? true : false", "no such overload"),
        ("[1].all(x, x.y)", "no such overload"),
    ],
)
def test_expressions_without_a_result(source: str, error: str) -> None:
    with pytest.raises(CelError) as caught:
        run(source, SELF)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("self.zz == 1 || true", True),
        ("true || self.zz == 1", True),
        ("self.zz == 1 && false", False),
        ("false && self.zz == 1", False),
        ("[1, 2].exists(x, x == 2 || self.zz)", True),
        ("[1, 2].exists(x, self.zz == x || x == 2)", True),
        ("[1, 2].all(x, x == 2 && self.zz == 1)", False),
        ("true ? 1 : self.zz", 1),
    ],
)
def test_an_error_does_not_matter_where_the_rest_decides(source: str, result: Any) -> None:
    assert run(source, SELF) == result


@pytest.mark.parametrize("source", ["self.zz == 1 || false", "self.zz == 1 && true", "[1].all(x, self.zz == x)"])
def test_an_error_matters_where_the_rest_does_not_decide(source: str) -> None:
    with pytest.raises(CelError):
        run(source, SELF)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "1 +",
        "(1",
        "[1",
        "{1}",
        "a b",
        "self.",
        "self.1",
        "has(self)",
        "has(self.a, self.b)",
        "[1].all(1, true)",
        "[1].all(x)",
        "'unclosed",
        "@",
        "for",
        "a.b(",
        "'\\q'",
    ],
)
def test_what_is_no_expression_is_a_syntax_error(source: str) -> None:
    with pytest.raises(CelSyntaxError):
        compile_expression(source, Environment(), checked=False)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_equality_is_an_equivalence_and_total(left: Any, right: Any) -> None:
    assert cel_equal(left, left, Budget())
    assert cel_equal(left, right, Budget()) == cel_equal(right, left, Budget())
    assert run("self == other", left, other=right) is not run("self != other", left, other=right)


@given(VALUES, VALUES)
def test_ordering_is_consistent_or_an_error(left: Any, right: Any) -> None:
    try:
        less, more = run("self < o", left, o=right), run("self > o", left, o=right)
    except CelError:
        return
    assert [less, more, run("self == o", left, o=right)].count(True) == 1


@given(st.text("()[]{}.,!?:&|=<>+-*/%'\"ab1 \\", max_size=12))
def test_any_text_parses_or_is_a_syntax_error(source: str) -> None:
    with suppress(CelSyntaxError):
        compile_expression(source, Environment(), checked=False)
