# ruff: noqa: E501
"""Each function of the language (PH-6): what its check refuses, its evaluation refuses, and what it builds it pays for."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.cel import (
    FUNCTIONS,
    Budget,
    CelError,
    CelSyntaxError,
    Environment,
    LimitExceeded,
    compile_expression,
)
from purekube.cel.signatures import list_cost, text_cost
from purekube.cel.types import DYN, CelType
from purekube.schema.celtypes import type_of_schema
from purekube.schema.compile import compile_schema

SAMPLES = {
    "bool": "true", "int": "1", "uint": "2u", "double": "1.5", "string": "'10'", "bytes": "b'a'",
    "timestamp": "timestamp('2026-01-02T03:04:05Z')", "duration": "duration('90s')", "url": "url('https://e.com/a')",
    "ip": "ip('10.0.0.1')", "cidr": "cidr('10.0.0.0/8')", "quantity": "quantity('2')", "semver": "semver('1.2.3')",
    "map": "{'a': 1}", "list": "[1, 2]", "optional": "optional.of(1)", "null": "null",
}  # fmt: skip
"""An expression of each type."""

LENIENT = re.compile(r"\]\.(?:lastI|i)ndexOf|isSemver\(|string\(semver|^[12]u?\.|add\(|sub\(|null\)|2u")
"""Calls that find a value also for a type that the check refuses: whole numbers of each kind and quantities stand for
each other, any value is looked for in a list or asked what it is, and null is an argument that is not given."""


REFUSED = re.compile(r"no such overload(: quantity\(\))?|'10' is no (semantic version|network|IP address)( .*)?")
"""What an evaluation says of an argument of another type; a text may stand for what it spells."""


def sample_of(kind: CelType) -> str:
    """An expression of the type of a parameter."""
    if kind.name == "list" and kind.parameters[0].name in SAMPLES:
        return f"[{sample_of(kind.parameters[0])}]"
    return SAMPLES.get(kind.name, SAMPLES["string"])


def call_of(name: str, method: bool, arguments: list[str]) -> str:
    if method:
        return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"
    return f"{name}({', '.join(arguments)})"


def calls_with_one_other_type() -> Iterator[str]:
    """Every function, as each signature has it, with an argument of each other type in each place."""
    for (name, method, _), function in FUNCTIONS.items():
        for signature in function.signatures[:3]:
            good = [sample_of(parameter) for parameter in signature.parameters]
            for at, other in itertools.product(range(len(good)), SAMPLES.values()):
                yield call_of(name, method, [*good[:at], other, *good[at + 1 :]])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_an_argument_of_a_type_that_the_check_refuses_has_no_value_PH_6(part: int) -> None:
    for text in sorted(set(calls_with_one_other_type()))[part::16]:
        if LENIENT.search(text):
            continue
        try:
            compile_expression(text, Environment({}))
        except CelSyntaxError as error:
            if "no matching overload" in str(error):
                with pytest.raises(CelError) as failure:
                    compile_expression(text, Environment({}), checked=False).evaluate({})
                assert REFUSED.fullmatch(str(failure.value)), text


def spent(text: str, **variables: Any) -> Budget:
    """What an evaluation takes of each limit."""
    budget = Budget(10**9, 10**9, 10**9)
    compile_expression(text, Environment(dict.fromkeys(variables, DYN))).evaluate(variables, budget)
    return Budget(10**9 - budget.steps, 10**9 - budget.text, 10**9 - budget.items)


@pytest.mark.parametrize(
    "text",
    [
        "l.all(x, x >= 0)", "l.exists(x, x < 0)", "l.exists_one(x, x == 1)", "l.filter(x, x > 0)", "l.map(x, x)",
        "l.map(x, x > 0, x)", "l.all(i, x, x >= 0)", "l.exists(i, x, x < 0)", "l.existsOne(i, x, x == 1)",
        "l.transformList(i, x, x)", "l.transformList(i, x, x > 0, x)", "l.transformMap(i, x, x)", "l.sortBy(x, -x)",
        "l.transformMapEntry(i, x, {x: i})", "m.all(k, m[k] >= 0)", "m.map(k, k)", "m.transformMap(k, v, v)",
        "m.transformList(k, v, v)", "-1 in l", "l == l", "m == m", "l + l", "l.sum()", "l.min()", "l.max()",
        "l.isSorted()", "l.indexOf(-1)", "l.lastIndexOf(-1)", "l.distinct()", "l.reverse()", "l.sort()", "l.slice(1, n)",
        "l.flatten()", "lists.range(n)", "sets.contains(l, l)", "sets.intersects(l, l)", "sets.equivalent(l, l)",
        "'%s'.format([l])", "[l, l].flatten()",
    ],
)  # fmt: skip
def test_an_item_more_costs_more_PH_6(text: str) -> None:
    def of(size: int) -> Budget:
        items = list(range(size))
        return spent(text, l=items, m={f"{item:03}": item for item in items}, n=size)

    less, more = of(20), of(60)
    assert more.steps + more.items - less.steps - less.items >= 40, (less, more)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("t + t", 2), ("t.lowerAscii()", 1), ("t.upperAscii()", 1), ("t.reverse()", 1), ("t.trim()", 1),
        ("t.substring(0)", 1), ("t.replace('a', 'bb')", 2), ("t.replace('a', 'bbb', n)", 3), ("[t, t].join()", 2),
        ("[t, t].join(t)", 3), ("strings.quote(t)", 1), ("'%s'.format([t])", 1), ("'%x'.format([t])", 2),
        ("t.split('b')", 1), ("t.findAll('a+')", 1), ("t.find('a+')", 1), ("[t, t].map(x, x + x)[0]", 4),
    ],
)  # fmt: skip
def test_each_character_that_is_built_counts_PH_6(text: str, length: int) -> None:
    names = {"t": "a" * 200, "n": 200}
    built = spent(text, **names)
    assert built.text >= 200 * length
    assert built.steps >= 200 // 16 or not text.startswith("t.")
    with pytest.raises(LimitExceeded, match="too much text"):
        compile_expression(text, Environment(dict.fromkeys(names, DYN))).evaluate(names, Budget(text=built.text - 1))


PIECES = st.lists(st.text("ab%é\n", max_size=4), max_size=5)


@given(PIECES, st.lists(st.integers(-5, 5) | st.text("ab", max_size=3) | st.booleans(), min_size=4, max_size=4))
def test_format_keeps_what_is_around_and_between_its_clauses_PH_6(pieces: list[str], values: list[Any]) -> None:
    shown = [("false", "true")[value] if isinstance(value, bool) else str(value) for value in values]
    text = "%s".join(piece.replace("%", "%%") for piece in pieces)
    expected = "".join(
        itertools.chain.from_iterable(itertools.zip_longest(pieces, shown[: len(pieces) - 1], fillvalue=""))
    )
    program = compile_expression("t.format(v)", Environment({"t": DYN, "v": DYN}))
    if pieces:
        assert program.evaluate({"t": text, "v": values}) == expected


TEXTS = st.text("abA é\t", max_size=8)


@given(TEXTS, st.text("ab", max_size=2), st.integers(-1, 9), st.integers(-1, 9))
def test_places_and_parts_of_a_text_are_pythons_PH_6(text: str, part: str, at: int, end: int) -> None:
    def value(expression: str) -> Any:
        names = {"t": text, "p": part, "a": at, "e": end}
        try:
            return compile_expression(expression, Environment(dict.fromkeys(names, DYN))).evaluate(names)
        except CelError:
            return None

    is_place = 0 <= at <= len(text)
    assert value("t.charAt(a)") == (text[at : at + 1] if is_place else None)
    assert value("t.indexOf(p)") == text.find(part)
    assert value("t.indexOf(p, a)") == (text.find(part, at) if is_place else None)
    assert value("t.lastIndexOf(p)") == text.rfind(part)
    starts = [start for start in range(len(text) + 1) if text.startswith(part, start) and start <= at]
    assert value("t.lastIndexOf(p, a)") == (max(starts, default=-1) if is_place else None)
    assert value("t.substring(a)") == (text[at:] if is_place else None)
    assert value("t.substring(a, e)") == (text[at:end] if 0 <= at <= end <= len(text) else None)
    assert value("t.replace(p, 'xy')") == text.replace(part, "xy")
    assert value("t.replace(p, 'xy', a)") == text.replace(part, "xy", at)
    assert value("t.trim()") == text.strip()
    assert value("t.reverse()") == text[::-1]
    assert value("t.lowerAscii()") == text.lower()
    assert value("t.upperAscii()") == text.replace("é", "E").upper().replace("E", "é")
    if part:
        assert value("t.split(p)") == text.split(part)
        assert value("t.split(p, a)") == ([] if at == 0 else text.split(part, at - 1 if at > 0 else -1))
        assert value("t.split(p).join(p)") == text
    else:
        assert value("t.split(p)") == list(text)
        assert value("t.split(p, a)") == (
            list(text) if at < 0 or at >= len(text) else [*text[: at - 1], text[at - 1 :]][:at]
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("optional.of(1).or(optional.of('a'))", "optional(dyn)"), ("optional.of(1).or(optional.of(2))", "optional(int)"),
        ("optional.of(1).or(2)", None), ("optional.of(1).or(dyn(2))", "optional(int)"), ("1.or(2)", None),
        ("dyn(1).or(optional.of(2))", "optional(dyn)"), ("optional.of(1).orValue(2)", "int"), ("dyn(1).orValue(2)", "dyn"),
        ("optional.of(1).orValue('a')", None), ("optional.of(1).orValue(dyn('a'))", "dyn"), ("'a'.orValue('a')", None),
    ],
)  # fmt: skip
def test_an_alternative_of_an_optional_value_is_typed_PH_6(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(CelSyntaxError):
            compile_expression(text, Environment({}))
    else:
        assert str(compile_expression(text, Environment({})).type) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ip('224.0.0.1').isLinkLocalMulticast()", True), ("ip('224.0.1.1').isLinkLocalMulticast()", False),
        ("ip('ff02::1').isLinkLocalMulticast()", True), ("ip('ff05::1').isLinkLocalMulticast()", False),
        ("ip('fe02::1').isLinkLocalMulticast()", False), ("ip('ff12::1').isLinkLocalMulticast()", True),
        ("ip('169.254.1.1').isLinkLocalUnicast()", True), ("ip('169.253.1.1').isLinkLocalUnicast()", False),
        ("ip('255.255.255.255').isGlobalUnicast()", False), ("ip('255.255.255.254').isGlobalUnicast()", True),
        ("ip('10.0.0.1').isGlobalUnicast()", True), ("ip('127.0.0.1').isGlobalUnicast()", False),
        ("ip('0.0.0.0').isGlobalUnicast()", False), ("ip('224.0.0.1').isGlobalUnicast()", False),
        ("ip('fe80::1').isGlobalUnicast()", False), ("ip('0.0.0.0').isUnspecified()", True),
        ("ip('::1').isUnspecified()", False), ("ip.isCanonical('::1')", True), ("ip.isCanonical('0::1')", False),
        ("isIP('1.2.3.04')", False), ("isIP('::' + '0'.replace('0', '0000:', 1))", False), ("isIP('fe80::1%eth0')", False),
        ("isCIDR('10.0.0.0/8')", True), ("isCIDR('10.0.0.0/08')", False), ("isCIDR('10.0.0.0/0')", True),
        ("isCIDR('10.0.0.0/32')", True), ("isCIDR('10.0.0.0/33')", False), ("isCIDR('::/128')", True),
        ("isCIDR('::/129')", False), ("isCIDR('10.0.0.0')", False), ("isCIDR('10.0.0.0/')", False),
        ("isCIDR('10.0.0.0/x')", False), ("isCIDR('10.0.0.0/1000')", False), ("isCIDR('x/8')", False),
        ("cidr('10.0.0.0/8').containsIP('10.255.255.255')", True), ("cidr('10.0.0.0/8').containsIP('11.0.0.0')", False),
        ("cidr('10.0.0.0/8').containsIP(ip('10.0.0.7'))", True), ("cidr('10.0.0.0/8').containsCIDR('10.0.0.0/8')", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')", False), ("cidr('10.0.0.0/8').containsCIDR('11.0.0.0/9')", False),
        ("string(cidr('10.1.2.3/8').ip())", "10.1.2.3"), ("string(cidr('10.1.2.3/8').masked())", "10.0.0.0/8"),
        ("url('HTTPS://u@e.com:80/a%20b?x=1&x=2+3&y#z').getScheme()", "https"),
        ("url('https://u@e.com:80/a%20b').getHost()", "e.com:80"), ("url('https://e.com:80').getPort()", "80"),
        ("url('https://u@e.com:80').getHostname()", "e.com"), ("url('https://[::1]:80').getHostname()", "::1"),
        ("url('https://e.com').getPort()", ""), ("url('/a?x=1&x=2+3&y#z').getQuery()", {"x": ["1", "2 3"], "y": [""]}),
        ("url('/a').getQuery()", {}), ("isURL('/a%2')", False), ("isURL('/a%2g')", False), ("isURL('a/b')", False),
        ("isURL('https://e.com:port')", False), ("isURL('/a b')", True), ("isURL('https://[::1/')", False),
        ("isURL('https://e.com\\n')", False), ("isURL('mailto:a')", True),
        ("'a1b22'.findAll('[0-9]+')", ["1", "22"]), ("'a1b22'.findAll('[0-9]+', 1)", ["1"]), ("'a1'.findAll('1', 0)", []),
        ("semver('1.2.3-a.1').isLessThan(semver('1.2.3-a.b'))", True), ("semver('1.2.3-a').isLessThan(semver('1.2.3-a.1'))", True),
        ("semver('1.10.0').isGreaterThan(semver('1.9.9'))", True), ("semver('2.0.0').compareTo(semver('1.9.9'))", 1),
        ("isSemver('1.02.3')", False), ("isSemver('v1.02', true)", True), ("isSemver('1', true)", True), ("isSemver('1')", False),
        ("quantity('2').sign()", 1), ("quantity('0').sign()", 0), ("quantity('-1m').sign()", -1),
        ("quantity('2').isGreaterThan(quantity('2'))", False), ("quantity('2').isLessThan(quantity('2'))", False),
        ("quantity('1.5').isInteger()", False), ("quantity('2k').isInteger()", True), ("quantity('1Mi').asInteger()", 2**20),
    ],
)  # fmt: skip
def test_the_libraries_of_kubernetes_at_their_edges_PH_6(text: str, expected: Any) -> None:
    found = compile_expression(text, Environment({})).evaluate({})
    assert (found, type(found) is bool) == (expected, type(expected) is bool)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-1", "int"), ("-1.5", "double"), ("!true", "bool"), ("-dyn(1)", "dyn"), ("[1, 2]", "list(int)"),
        ("[1, 'a']", "list(dyn)"), ("{'a': 1}", "map(string, int)"), ("[?optional.of(1)]", "list(int)"),
        ("[?dyn(optional.of(1))]", "list(dyn)"), ("1 in [1]", "bool"), ("true ? 1 : 2", "int"), ("[1][0]", "int"),
        ("{'a': 1}.a", "int"), ("{1: 'a'}[1]", "string"), ("[1][?0]", "optional(int)"), ("{'a': 1}.?a", "optional(int)"),
        ("[[1], [2]].flatten()", "list(dyn)"), ("[1].map(x, string(x))", "list(string)"), ("[1].filter(x, true)", "list(int)"),
        ("optional.of(1).optMap(x, 'a')", "optional(string)"), ("quantity('1').add(1)", "quantity"), ("type(1)", "type"),
        ("[3, 1].sort()", "list(int)"), ("timestamp(0) - timestamp(0)", "duration"), ("timestamp(0) + duration('1s')", "timestamp"),
        ("1u + 1u", "uint"), ("b'a' + b'b'", "bytes"), ("['a'].transformMap(i, v, v)", "map(int, string)"),
    ],
)  # fmt: skip
def test_an_expression_has_the_type_of_its_value_PH_6(text: str, kind: str) -> None:
    assert str(compile_expression(text, Environment({})).type) == kind


WRONG = ["[?1]", "{?'a': 1}", "[1][?'a']", "1[0]", "{'a': 1}[1]", "1.a", "!1", "-'a'", "-true", "1 ? 1 : 2"]


@pytest.mark.parametrize("text", WRONG)
def test_an_operand_of_another_type_is_refused_before_anything_is_evaluated_PH_6(text: str) -> None:
    with pytest.raises(CelSyntaxError):
        compile_expression(text, Environment({}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("quantity('0.5').add(quantity('" + "0" * 255 + "1')) == quantity('1500m')", True),
        ("has({'__namespace__': 1}.__namespace__)", True), ("has({'namespace': 1}.__namespace__)", True),
        ("has({'a': 1}.__namespace__)", False), ("{'__namespace__': 1}.__namespace__", 1), ("{'namespace': 2}.__namespace__", 2),
        ("{'__namespace__': 1}.?__namespace__.orValue(0)", 1), ("{'namespace': 2}.?__namespace__.orValue(0)", 2),
        ("{'a': 2}.?__namespace__.orValue(0)", 0),
        ("string(true)", "true"), ("string(false)", "false"), ("quantity('1e3') == quantity('1000')", True),
        ("quantity('15E-1') == quantity('1500m')", True), ("quantity('1E') == quantity('1000P')", True),
        ("quantity('1Ki') == quantity('1024')", True), ("quantity('1n').add(quantity('999n')) == quantity('1u')", True),
        ("['a', 'b', 'a', 1, 'b', 1].distinct()", ["a", "b", 1]), ("[dyn(1), 1.0, '1'].distinct()", [1, "1"]),
        ("base64.decode('aGVsbG8=') == b'hello'", True), ("base64.decode('aGVsbG8') == b'hello'", True), ("base64.decode('aGk') == b'hi'", True),
        ("base64.decode('aA') == b'h'", True), ("base64.decode('aGV5') == b'hey'", True), ("base64.encode(b'hi')", "aGk="),
        ("dyn(1) == optional.of(1)", False), ("optional.of(1) == dyn(1)", False), ("optional.none() == optional.of(1)", False), ("optional.of(1) == optional.of(2)", False), ("optional.none() == optional.of(null)", False),
        ("optional.of(1) == optional.of(1.0)", True), ("optional.none() == optional.none()", True), ("[dyn(1), optional.of(1)].indexOf(optional.of(1))", 1),
        ("timestamp('0001-01-01T00:00:00Z') + duration('0s') == timestamp('0001-01-01T00:00:00Z')", True),
        ("string(timestamp('9999-12-31T23:59:59Z') + duration('999999999ns'))", "9999-12-31T23:59:59.999999999Z"),
        ("[1, 1, 2, 1].distinct()", [1, 2]), ("[[1], [1]].distinct()", [[1]]), ("[3, 1, 2].sort()", [1, 2, 3]),
        ("['b', 'a'].sortBy(x, x == 'b')", ["a", "b"]), ("[1, 2, 3].slice(1, 2)", [2]), ("[1, 2].reverse()", [2, 1]),
        ("[].sum()", 0), ("[1.5, 2.5].sum()", 4.0), ("[duration('1s'), duration('2s')].sum() == duration('3s')", True),
        ("[1, 2].isSorted()", True), ("[2, 1].isSorted()", False), ("[1, 1].isSorted()", True), ("[2, 1].min()", 1), ("[1, 2].max()", 2),
        ("sets.equivalent([1, 2], [2, 1, 1])", True), ("sets.equivalent([1, 2], [1])", False), ("sets.equivalent([1], [1, 2])", False),
        ("sets.contains([1], [1, 2])", False), ("sets.intersects([1], [2])", False), ("sets.contains([1], [])", True),
        ("math.greatest([1, 3, 2])", 3), ("math.least(1, 2)", 1), ("math.greatest(1, 2.5)", 2.5), ("[1, [2]].flatten()", [1, 2]),
        ("[[[1]]].flatten(1)", [[1]]), ("[[[1]]].flatten(2)", [1]), ("lists.range(0)", []), ("[1, 2, 1].indexOf(1)", 0),
        ("semver('1.2.3') == semver('1.2.4')", False), ("semver('1.2.3').isLessThan(semver('1.2.4'))", True),
        ("semver('1.2.3-1').isLessThan(semver('1.2.3-a'))", True), ("semver('1.2.3-2').isLessThan(semver('1.2.3-10'))", True),
        ("semver('1.2.3-b').isLessThan(semver('1.2.3-a'))", False), ("semver('1.2.3-a').isLessThan(semver('1.2.3'))", True),
        ("semver('v01.02.003-a', true) == semver('1.2.3-a')", True), ("isSemver('1.2-a', true)", False), ("isSemver('', true)", False),
        ("isSemver('1.2 ', true)", False), ("semver('v00', true) == semver('0.0.0')", True), ("isSemver('v', true)", False), ("isSemver('1.2.3.4', true)", False), ("isSemver('1..3', true)", False),
        (r"""strings.quote('\a\b\f\n\r\t\v\\"')""", r'''"\a\b\f\n\r\t\v\\\""'''), (r"size(r'\n')", 2), (r"size('\n')", 1),
        (r"'\x41\u0042\103'", "ABC"), (r"b'\xff' == b'\377'", True), ("{true: 1}[true]", 1), ("{1: 'a', 0: 'b'}[0]", "b"),
        ("{'a': 1} == {'a': 1}", True), ("{'a': 1} == {'a': 2}", False), ("{'a': 1} == {'b': 1}", False), ("[1] == [1, 2]", False),
        ("1 == 1.0", True), ("dyn(1) == dyn('1')", False), ("dyn(true) == dyn(1)", False), ("null == dyn(1)", False), ("1u == 1", True),
        ("{'a': 1}[?'b'].or(optional.of(2)).value()", 2), ("{'a': 1}[?'a'].or(optional.of(2)).value()", 1),
        ("{'a': 1}[?'b'].orValue(2)", 2), ("{'a': 1}[?'b'].or({'a': 3}[?'a']) == optional.of(3)", True),
        ("[?optional.of(1), ?optional.none()]", [1]), ("{?'a': optional.none(), 'b': 1}", {"b": 1}), ("optional.none().hasValue()", False),
        ("optional.ofNonZeroValue(0).hasValue()", False), ("optional.ofNonZeroValue(1).hasValue()", True),
        ("type(1) == int && type('a') == string && type(1.0) == double && type([]) == list", True),
        ("type(type(1)) == type && type(null) == null_type && type(b'') == bytes && type({}) == map", True),
        ("[1, 2, 3].exists_one(x, x > 2)", True), ("[1, 2, 3].exists_one(x, x > 1)", False), ("[].all(x, false)", True),
        ("[1, 0].exists(x, 1 / x > 0)", True), ("[0, 1].all(x, 1 / x > 5)", False), ("'aXbX'.matches('X$') && !'a'.matches('^b')", True),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_the_language_gives_it_PH_6(text: str, value: Any) -> None:
    found = compile_expression(text, Environment({}), checked=False).evaluate({})
    assert (found, type(found) is bool) == (value, type(value) is bool)


NO_VALUE = [
    "base64.decode('aGk*')", "base64.decode('aGVsb')", "base64.decode('aG=')", "base64.decode('é')",
    "timestamp('0001-01-01T00:00:00Z') - duration('1ns')", "timestamp('9999-12-31T23:59:59.999999999Z') + duration('1ns')",
    "quantity('" + "0" * 256 + "1')", "math.greatest([])", "[].min()", "[].max()", "[true].sum()", "['a', 1].sort()", "{0: 1}[true]", "{1: 1}[true]",
    "duration('9223372036s') + duration('9223372036s')", "[1][1]", "[1][-1]", "{'a': 1}['b']", "optional.none().value()",
    "[0].all(x, 1 / x > 0)", "9223372036854775807 + 1", "-9223372036854775807 - 2", "0u - 1u", "1 / 0", "1 % 0",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_VALUE)
def test_what_has_no_value_fails_PH_6(text: str) -> None:
    with pytest.raises(CelError):
        compile_expression(text, Environment({}), checked=False).evaluate({})


@pytest.mark.parametrize("size", [0, 15, 16, 160])
def test_a_step_pays_for_sixteen_characters_or_one_item_PH_6(size: int) -> None:
    assert text_cost("a" * size) == text_cost(b"a" * size, 1) == 1 + size // 16
    assert list_cost([0] * size) == list_cost({at: at for at in range(size)}) == 1 + size
    assert spent("t.matches('a+')", t="a" * size).steps > size // 4


HAS = ["has(self.a) && has(self.b)", "!(!has(self.a) || !has(self.b))", "has(self.b) && has(self.a)"]


@pytest.mark.parametrize("condition", HAS)
@pytest.mark.parametrize(("read", "is_known"), [("self.a + self.b", True), ("self.a + self.c", False)])
def test_what_a_condition_asks_for_is_there_where_it_holds_PH_6(condition: str, read: str, is_known: bool) -> None:
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in "abc"}}
    environment = Environment({"self": type_of_schema(compile_schema(schema), plain=True)})
    where_it_holds = compile_expression(f"{condition} ? {read} : 0", environment).checked
    elsewhere = compile_expression(f"{condition} ? 0 : {read}", environment).checked
    assert where_it_holds is not None
    assert elsewhere is not None
    assert bool(where_it_holds.absences) is not is_known
    assert elsewhere.absences
