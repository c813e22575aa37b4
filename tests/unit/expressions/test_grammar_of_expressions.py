# ruff: noqa: E501
"""The grammar of expressions (PH-6): the tree of each form and where its nodes stand, or the mistake; and the limits."""

import pytest

from purekube.cel import DYN, Budget, CelSyntaxError, Environment, LimitExceeded, Limits, compile_expression
from purekube.cel.parser import parse
from purekube.cel.resolve import resolved
from purekube.cel.syntax import (
    Binary,
    Bind,
    Call,
    Conditional,
    Expression,
    HasMacro,
    Identifier,
    Index,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Select,
    Unary,
    children,
    escape,
    rebuilt,
    size_of,
    unescape,
)
from purekube.cel.values import type_name

TABLE = r"""
1 + => error expected an expression, found the end at line 1, column 4
(1 => error expected ')', found the end at line 1, column 3
(1 2) => error expected ')', found '2' at line 1, column 4
[1 => error expected ']', found the end at line 1, column 3
[1 2] => error expected ']', found '2' at line 1, column 4
[1,,2] => error expected an expression, found ',' at line 1, column 4
{1} => error expected ':', found '}' at line 1, column 3
{1: 2 => error expected '}', found the end at line 1, column 6
{1: 2 3: 4} => error expected '}', found '3' at line 1, column 7
{'a' 1} => error expected ':', found '1' at line 1, column 6
a b => error expected the end, found 'b' at line 1, column 3
a. => error expected a name, found the end at line 1, column 3
a.1 => error expected the end, found '.1' at line 1, column 2
a.true => error expected a name, found 'true' at line 1, column 3
a.in => error expected a name, found 'in' at line 1, column 3
a.(b) => error expected a name, found '(' at line 1, column 3
a.? => error expected a name, found the end at line 1, column 4
a.if => a.if @ 1 0
has(self) => error has() takes one field, as in has(self.spec.host) at line 1, column 1
has(self.a, self.b) => error has() takes one field, as in has(self.spec.host) at line 1, column 1
has(self.?a) => error has() takes one field, as in has(self.spec.host) at line 1, column 1
has() => error has() takes one field, as in has(self.spec.host) at line 1, column 1
has(a[0]) => error has() takes one field, as in has(self.spec.host) at line 1, column 1
[1].all(1, true) => error all() takes a variable and an expression at line 1, column 5
[1].all(x) => error all() takes a variable and an expression at line 1, column 5
[1].all(x.y, true) => error all() takes a variable and an expression at line 1, column 5
[1].all(.x, true) => error all() takes a variable and an expression at line 1, column 5
[1].all(x, x, true) => error all() takes two different variables at line 1, column 5
[1].transformList(x, x, 1) => error transformList() takes two different variables at line 1, column 5
[1].transformMap(1, v, 1) => error transformMap() takes a variable and an expression at line 1, column 5
[1].map(x, 1, 2, 3) => error map() takes a variable and an expression at line 1, column 5
a.all(x) => all<a x> @ 2 0 6
cel.bind(1, 2, 3) => error bind() takes a variable and an expression at line 1, column 5
cel.bind(x, 2) => bind<cel x 2> @ 4 0 9 12
f(1,) => error expected an expression, found ')' at line 1, column 5
f(1 => error expected ')', found the end at line 1, column 4
f(,) => error expected an expression, found ',' at line 1, column 3
f(1 2) => error expected ')', found '2' at line 1, column 5
'unclosed => error a text without an end at line 1, column 1
"unclosed => error a text without an end at line 1, column 1
'''un'closed => error a text without an end at line 1, column 1
'a => error a text without an end at line 1, column 1
b' => error a text without an end at line 1, column 1
'\q' => error invalid escape \q at line 1, column 1
'\8' => error invalid escape \8 at line 1, column 1
'\400' => error invalid escape \4 at line 1, column 1
'\x4' => error invalid escape \x at line 1, column 1
'\u12' => error invalid escape \u at line 1, column 1
'\U00110000' => error \U00110000 is no character at line 1, column 1
'\U0010ffff' => '\U0010ffff' @ 0
'\ud7ff' => '\ud7ff' @ 0
'\ud800' => error \ud800 is no character at line 1, column 1
'\udfff' => error \udfff is no character at line 1, column 1
'\ue000' => '\ue000' @ 0
b'\u0041' => error \u0041 is no byte at line 1, column 1
b'\U00000041' => error \U00000041 is no byte at line 1, column 1
b'\q' => error invalid escape \q at line 1, column 1
'a\' => error a text without an end at line 1, column 1
r'\'a' => error a text without an end at line 1, column 6
@ => error unexpected '@' at line 1, column 1
a # b => error unexpected '#' at line 1, column 3
& => error unexpected '&' at line 1, column 1
a & b => error unexpected '&' at line 1, column 3
a = b => error unexpected '=' at line 1, column 3
$ => error unexpected '$' at line 1, column 1
for => error reserved identifier 'for' at line 1, column 1
if => error reserved identifier 'if' at line 1, column 1
true.x => True.x @ 4 0
as.b => error reserved identifier 'as' at line 1, column 1
in => error reserved identifier 'in' at line 1, column 1
.in => error reserved identifier 'in' at line 1, column 2
.true => error reserved identifier 'true' at line 1, column 2
.for => error reserved identifier 'for' at line 1, column 2
..x => error expected an expression, found '.' at line 1, column 1
.1.x => 0.1.x @ 2 0
1.a => 1.a @ 1 0
1e => error expected the end, found 'e' at line 1, column 2
0x => error expected the end, found 'x' at line 1, column 2
9223372036854775807 => 9223372036854775807 @ 0
9223372036854775808 => error the number does not fit into 64 bits at line 1, column 1
-9223372036854775808 => -9223372036854775808 @ 0
- 9223372036854775808 => -9223372036854775808 @ 0
--9223372036854775808 => error the number does not fit into 64 bits at line 1, column 3
1 - 9223372036854775808 => error the number does not fit into 64 bits at line 1, column 5
9223372036854775809 => error the number does not fit into 64 bits at line 1, column 1
18446744073709551615u => 18446744073709551615u @ 0
18446744073709551616u => error the number does not fit into 64 bits at line 1, column 1
0xffffffffffffffffu => 18446744073709551615u @ 0
0x7fffffffffffffff => 9223372036854775807 @ 0
0x8000000000000000 => error the number does not fit into 64 bits at line 1, column 1
-0x8000000000000000 => -9223372036854775808 @ 0
!-1 => error ! and - do not mix, found '1' at line 1, column 3
-!true => error ! and - do not mix, found 'true' at line 1, column 3
!!true => (!(!True)) @ 0 1 2
--1 => 1 @ 2
---1 => -1 @ 0
-1.5 => -1.5 @ 0
- -1.5 => 1.5 @ 3
-a => (-a) @ 0 1
--a => (-(-a)) @ 0 1 2
!a => (!a) @ 0 1
!!a => (!(!a)) @ 0 1 2
a ? b => error expected ':', found the end at line 1, column 6
a ? b :  => error expected an expression, found the end at line 1, column 9
a ? b : c ? d : e => (a ? b : (c ? d : e)) @ 0 0 4 8 8 12 16
a ? b ? c : d : e => error expected ':', found '?' at line 1, column 7
a ? : b => error expected an expression, found ':' at line 1, column 5
a || b && c == d + e * f => (a || (b && (c == (d + (e * f))))) @ 2 0 7 5 12 10 17 15 21 19 23
a * b + c => ((a * b) + c) @ 6 2 0 4 8
a - b - c => ((a - b) - c) @ 6 2 0 4 8
a / b % c => ((a / b) % c) @ 6 2 0 4 8
a < b == c => ((a < b) == c) @ 6 2 0 4 9
a in b in c => ((a in b) in c) @ 7 2 0 5 10
a.b.c => a.b.c @ 3 1 0
a[b][c] => a[b][c] @ 4 1 0 2 5
a[?b] => a[?b] @ 1 0 3
a.?b => a.?b @ 1 0
a.?b.c => a.?b.c @ 4 1 0
a.`b-c` => a.`b-c @ 1 0
a.`` => error unexpected '`' at line 1, column 3
a.`b$c` => error unexpected '`' at line 1, column 3
a.?`b` => a.?`b @ 1 0
`a` => error expected an expression, found 'a' at line 1, column 1
a[] => error expected an expression, found ']' at line 1, column 3
a[1 => error expected ']', found the end at line 1, column 4
a[1, 2] => error expected ']', found ',' at line 1, column 4
a.f() => f<a> @ 2 0
a.f(b, c) => f<a b c> @ 2 0 4 7
f() => f<-> @ 0
f(b) => f<- b> @ 0 2
.f(b) => f<- b> @ 1 3
.a.b => .a.b @ 2 1
[] => [] @ 0
[1, 2,] => [1, 2] @ 0 1 4
[?a, b] => [?a, b] @ 0 2 5
{} => {} @ 0
{1: 2, 'a': b,} => {1: 2, 'a': b} @ 0 1 4 7 12
{?'a': b} => {?'a': b} @ 0 2 7
A{} => A{}<- {}> @ 1 1
A{b: 1} => A{}<- {'b': 1}> @ 1 1 2 5
A.B{b: 1, c: 2} => A.B{}<- {'b': 1, 'c': 2}> @ 3 3 4 7 10 13
A{'b': 1} => error a field of A is a name, as in A{field: 1} at line 1, column 2
A{b: 1,} => A{}<- {'b': 1}> @ 1 1 2 5
A{?b: c} => A{}<- {?'b': c}> @ 1 1 3 6
a.all(x, y) => all!<a x y -> @ 2 0 9
a.exists(x, y) => exists!<a x y -> @ 2 0 12
a.exists(x, y, z) => exists!<a x/y z -> @ 2 0 15
a.exists_one(x, y) => exists_one!<a x y -> @ 2 0 16
a.existsOne(x, y, z) => existsOne!<a x/y z -> @ 2 0 18
a.filter(x, y) => filter!<a x y -> @ 2 0 12
a.filter(x, y, z) => filter<a x y z> @ 2 0 9 12 15
a.map(x, y) => map!<a x y -> @ 2 0 9
a.map(x, y, z) => map!<a x y z> @ 2 0 9 12
a.optMap(x, y) => optMap!<a x y -> @ 2 0 12
a.optFlatMap(x, y) => optFlatMap!<a x y -> @ 2 0 16
a.sortBy(x, y) => sortBy!<a x y -> @ 2 0 12
a.transformList(x, y, z) => transformList!<a x/y - z> @ 2 0 22
a.transformList(x, y, z, w) => transformList!<a x/y z w> @ 2 0 22 25
a.transformMap(x, y, z) => transformMap!<a x/y - z> @ 2 0 21
a.transformMapEntry(x, y, z, w) => transformMapEntry!<a x/y z w> @ 2 0 26 29
cel.bind(x, y, z) => bind!<x y z> @ 4 12 15
cel.bind(x, y) => bind<cel x y> @ 4 0 9 12
a.cel.bind(x, y, z) => bind<a.cel x y z> @ 6 1 0 11 14 17
has(a.b) => has(a.b) @ 0 4
has(a.`b-c`) => has(a.`b-c) @ 0 4
1 => 1 @ 0
1u => 1u @ 0
1U => 1u @ 0
0x1F => 31 @ 0
0X1f => 31 @ 0
0x1Fu => 31u @ 0
1.5 => 1.5 @ 0
.5 => 0.5 @ 0
1e3 => 1000.0 @ 0
1E-3 => 0.001 @ 0
1.5e+3 => 1500.0 @ 0
1. => error expected a name, found the end at line 1, column 3
5.e => 5.e @ 1 0
'a' => 'a' @ 0
"a" => 'a' @ 0
'''a'b''' => "a'b" @ 0
r'a\n' => 'a\\n' @ 0
R"a\n" => 'a\\n' @ 0
b'a' => b'a' @ 0
B'a' => b'a' @ 0
rb'\xff' => b'\\xff' @ 0
bR'a' => b'a' @ 0
br"a" => b'a' @ 0
'\a\b\f\n\r\t\v\\\'\"\`\?' => '\x07\x08\x0c\n\r\t\x0b\\\'"`?' @ 0
'\x41\X41\u0041\U00000041\101' => 'AAAAA' @ 0
'\377' => 'ÿ' @ 0
b'\377\xff\x41é\n' => b'\xff\xffA\xc3\xa9\n' @ 0
'é' => 'é' @ 0
'\u00e9' => 'é' @ 0
true => True @ 0
false => False @ 0
null => None @ 0
// comment => error expected an expression, found the end at line 1, column 11
1 // comment => 1 @ 0
a /* b => error expected an expression, found '*' at line 1, column 4
_a1 => _a1 @ 0
a.b1_ => a.b1_ @ 1 0
  a => a @ 2
a.size => a.size @ 1 0
(a) => a @ 1
((a)) => a @ 2
(a).b => a.b @ 3 1
a.all(x, y).z => all!<a x y ->.z @ 11 2 0 9
a&&b => (a && b) @ 1 0 3
a==b!=c => ((a == b) != c) @ 4 1 0 3 6
a>=b => (a >= b) @ 1 0 3
a>b => (a > b) @ 1 0 2
a<=b => (a <= b) @ 1 0 3
a!=b => (a != b) @ 1 0 3
"""


def shown(node: Expression | None) -> str:  # noqa: C901 - one case per kind of node
    match node:
        case None:
            return "-"
        case Literal(value):
            return repr(value) + "u" * (type_name(value) == "uint")
        case Identifier(name, absolute):
            return "." * absolute + name
        case Select(operand, field, optional, quoted):
            return f"{shown(operand)}.{'?' * optional}{'`' * quoted}{field}"
        case HasMacro(operand, field, quoted):
            return f"has({shown(operand)}.{'`' * quoted}{field})"
        case Index(operand, key, optional):
            return f"{shown(operand)}[{'?' * optional}{shown(key)}]"
        case Call(name, target, arguments):
            return f"{name}<{' '.join(map(shown, (target, *arguments)))}>"
        case Macro(name, target, variables, body, transform):
            return f"{name}!<{shown(target)} {'/'.join(variables)} {shown(body)} {shown(transform)}>"
        case Bind(name, value, body):
            return f"bind!<{name} {shown(value)} {shown(body)}>"
        case Unary(operator, operand):
            return f"({operator}{shown(operand)})"
        case Binary(operator, left, right):
            return f"({shown(left)} {operator} {shown(right)})"
        case Conditional(condition, positive, negative):
            return f"({shown(condition)} ? {shown(positive)} : {shown(negative)})"
        case ListLiteral(items, optionals):
            return f"[{', '.join('?' * (at in optionals) + shown(item) for at, item in enumerate(items))}]"
        case MapLiteral(entries, optionals):
            pairs = (f"{'?' * (at in optionals)}{shown(key)}: {shown(item)}" for at, (key, item) in enumerate(entries))
            return f"{{{', '.join(pairs)}}}"


def places(node: Expression) -> list[str]:
    return [str(node.at), *(place for child in children(node) for place in places(child))]


def answer(text: str) -> str:
    try:
        tree = parse(text)
    except CelSyntaxError as error:
        return f"error {error}"
    return f"{shown(tree)} @ {' '.join(places(tree))}"


def test_each_form_has_its_tree_and_its_places_or_its_mistake() -> None:
    rows = [line.partition(" => ") for line in TABLE.strip("\n").splitlines()]

    assert [(text, answer(text)) for text, _, wanted in rows if answer(text) != wanted] == []


def test_a_tree_whose_nodes_are_rebuilt_is_the_same() -> None:
    def again(node: Expression) -> Expression:
        return rebuilt(node, again)

    for line in TABLE.strip("\n").splitlines():
        text, _, wanted = line.partition(" => ")
        if not wanted.startswith("error"):
            tree = parse(text)
            assert (again(tree), places(again(tree))) == (tree, places(tree))


@pytest.mark.parametrize(
    ("text", "size"),
    [("a", 1), ("a.b", 2), ("a + b", 3), ("a.all(x, x > 1)", 2), ("[a, b]", 3), ("{a: b}", 3), ("f(a, b)", 3), ("a.f()", 2),
     ("a ? b : c", 4), ("-a", 2), ("a[b]", 3), ("has(a.b)", 2), ("cel.bind(x, 1, x)", 3), ("1 + a.b.map(x, x) + 1", 7)],
)  # fmt: skip
def test_the_size_counts_the_nodes_but_those_in_macros(text: str, size: int) -> None:
    assert size_of(parse(text)) == size


@pytest.mark.parametrize(
    ("limits", "good", "bad", "problem"),
    [
        (Limits(text=5), "a + b", "a + bc", "an expression has at most 5 characters, this one has 6"),
        (Limits(depth=3), "((a)) + ((b))", "(((a)))", "an expression is nested 3 levels deep at most, found 'a' at line 1, column 4"),
        (Limits(depth=2), "a[b][c] ? d : e", "a[b[c]]", "an expression is nested 2 levels deep at most, found 'c' at line 1, column 5"),
        (Limits(chain=2), "a + b - c * d * e", "a + b + c + d", "at most 2 operators stand in a row, found 'd' at line 1, column 13"),
        (Limits(chain=2), "a.b.c + d.e[f]", "a.b[c].d", "at most 2 members stand in a row, found the end at line 1, column 9"),
        (Limits(chain=2), "!!a", "!!!a", "at most 2 operators stand in a row, found 'a' at line 1, column 4"),
    ],
)  # fmt: skip
def test_an_expression_has_limits(limits: Limits, good: str, bad: str, problem: str) -> None:
    assert parse(good, limits)
    with pytest.raises(CelSyntaxError) as refused:
        parse(bad, limits)

    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("text", "line", "column"), [("@", 1, 1), ("a\n  @", 2, 3), ("a\n\n@", 3, 1), ("a +\n", 2, 1), ("\n'b'c", 2, 4)]
)
def test_a_mistake_has_its_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(CelSyntaxError) as refused:
        parse(text)

    assert (refused.value.line, refused.value.column) == (line, column)
    assert str(refused.value) == f"{refused.value.problem} at line {line}, column {column}"


def test_a_mistake_without_a_place_has_none() -> None:
    error = CelSyntaxError("what is wrong")

    assert (str(error), error.problem, error.line, error.column) == ("what is wrong", "what is wrong", 0, 0)


def test_a_number_may_have_four_hundred_digits_before_it_is_read() -> None:
    with pytest.raises(CelSyntaxError, match=r"^the number does not fit into 64 bits at line 1, column 2$"):
        parse("(" + "1" * 400 + ")")
    with pytest.raises(CelSyntaxError, match=r"^the number is too long at line 1, column 2$"):
        parse("(" + "1" * 401 + ")")


def test_a_budget_is_spent_to_its_last_unit_and_no_further() -> None:
    budget = Budget.of(Limits(steps=3, built_text=4, built_items=5))

    budget.spend(3)
    budget.build_text(4)
    budget.build_items(5)
    assert budget == Budget(0, 0, 0)
    with pytest.raises(LimitExceeded, match=r"^the expression takes too many steps$"):
        budget.spend(1)
    with pytest.raises(LimitExceeded, match=r"^the expression builds too much text$"):
        budget.build_text(1)
    with pytest.raises(LimitExceeded, match=r"^the expression builds too many items$"):
        budget.build_items(1)
    assert budget == Budget(-1, -1, -1)


@pytest.mark.parametrize(
    ("field", "name"),
    [("a", "a"), ("x-y", "x__dash__y"), ("x.y", "x__dot__y"), ("x/y", "x__slash__y"), ("x__y", "x__underscores__y"),
     ("in", "__in__"), ("true", "__true__"), ("namespace", "__namespace__"), ("if", "__if__"), ("_a", "_a"), ("a1", "a1"),
     ("x-y.z", "x__dash__y__dot__z"), ("-a", "__dash__a"), ("___", "__underscores___")],
)  # fmt: skip
def test_a_field_has_a_name_in_rules_and_a_name_its_field(field: str, name: str) -> None:
    assert escape(field) == name
    assert unescape(name) == field


@pytest.mark.parametrize("field", ["1a", "a b", "é", "", "a$", "@a"])
def test_a_field_that_no_name_can_mean_has_none(field: str) -> None:
    assert escape(field) is None


@pytest.mark.parametrize("name", ["__a__", "__x", "x__", "a__b", "__", "____", "_in_"])
def test_a_name_without_an_escape_is_its_field(name: str) -> None:
    assert unescape(name) == name


@pytest.mark.parametrize(
    ("text", "name", "other"),
    [
        ("cel.bind(x, 1, cel.bind(y, 2, x + y))", "x", "c.x"),
        ("cel.bind(y, 1, cel.bind(z, 2, x + y))", "c.x", "x"),
    ],
)
def test_a_bound_name_hides_a_variable_of_the_container_in_inner_bindings_too(text: str, name: str, other: str) -> None:
    tree = resolved(parse(text), frozenset({"c.x"}), "c")

    named = {node.name for node in _nodes(tree) if isinstance(node, Identifier)}
    assert name in named
    assert other not in named


def test_the_object_whose_field_is_read_is_resolved_too() -> None:
    tree = resolved(parse("f(x).y.z"), frozenset({"c.x"}), "c")

    assert [node.name for node in _nodes(tree) if isinstance(node, Identifier)] == ["c.x"]
    tree = resolved(parse("[x][0].y"), frozenset({"c.x"}), "c")
    assert [node.name for node in _nodes(tree) if isinstance(node, Identifier)] == ["c.x"]


def _nodes(tree: Expression) -> list[Expression]:
    return [tree, *(node for child in children(tree) for node in _nodes(child))]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'''a\rb\r\nc\nd'''", "a\nb\nc\nd"),
        ('"""a\r\r\nb"""', "a\n\nb"),
        ("r'''a\rb'''", "a\nb"),
        ("b'''a\rb\r\n'''", b"a\nb\n"),
        (r"'a\rb'", "a\rb"),
        (r"'''a\rb'''", "a\rb"),
    ],
)
def test_lines_of_a_long_text_end_alike_whatever_ends_them_in_the_file(text: str, value: str | bytes) -> None:
    node = parse(text)

    assert isinstance(node, Literal)
    assert node.value == value


@pytest.mark.parametrize("text", ["(" * 60 + "1" + ("+1" * 30 + ")") * 60, "(" * 60 + "a" + (".b" * 30 + ")") * 60])
def test_an_expression_that_is_deep_within_all_limits_is_a_syntax_error_and_no_failure_PH_6(text: str) -> None:
    with pytest.raises(CelSyntaxError, match="nested too deeply"):
        compile_expression(text, Environment({"a": DYN}))
