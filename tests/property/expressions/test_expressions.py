"""Laws of the expression language (PH-6): types are sound, reads known, limits hold, failures of three kinds."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purekube.cel import (
    FUNCTIONS,
    ITEM,
    LIMITS,
    Budget,
    CelError,
    CelSyntaxError,
    Environment,
    EvaluationError,
    LimitExceeded,
    Missing,
    Program,
    compile_expression,
)
from purekube.cel.types import DYN
from purekube.schema.celtypes import type_of_schema
from tests.support.effort import effort
from tests.support.expression_world import EXPRESSIONS, OBJECTS, SCHEMA, any_text

TYPED = Environment({"self": type_of_schema(SCHEMA, plain=True)})
UNTYPED = Environment({"self": DYN})
ARITHMETIC = ("overflow", "division by zero", "modulus by zero")
"""Faults that no type tells beforehand."""


def evaluated(program: Program, value: Any) -> Any:
    """Its value, or its failure."""
    try:
        return program.evaluate({"self": value})
    except CelError as error:
        return error


@given(EXPRESSIONS, OBJECTS)
@example("self.spec.tags.map(x, x + 'a')", {"spec": {"ports": [], "labels": {}}})
def test_a_checked_expression_has_no_fault_on_valid_objects(text: str, value: Mapping[str, Any]) -> None:
    program = compile_expression(text, TYPED)
    found = evaluated(program, value)

    if isinstance(found, EvaluationError):
        assert any(word in str(found) for word in ARITHMETIC), (text, found)
    if isinstance(found, Missing):
        assert program.checked is not None
        assert program.checked.absences, (text, found)


class Watched(dict[str, Any]):
    """An object that notes what is read of it."""

    def __init__(self, value: Mapping[str, Any], path: tuple[str, ...], reads: set[tuple[str, ...]]) -> None:
        super().__init__({key: watched(one, (*path, key), reads) for key, one in value.items()})
        self._path, self._reads = path, reads

    def __getitem__(self, key: str) -> Any:
        self._reads.add((*self._path, key))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._reads.add((*self._path, str(key)))
        return super().__contains__(key)


def watched(value: Any, path: tuple[str, ...], reads: set[tuple[str, ...]]) -> Any:
    match value:
        case dict():
            return Watched(value, path, reads)
        case list():
            return [watched(one, (*path, ITEM), reads) for one in value]
        case _:
            return value


def covers(read: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether one is a beginning of the other: whoever reads an object may look at all that is below it."""
    return all(one == other or ITEM in (one, other) for one, other in zip(read, path, strict=False))


@given(EXPRESSIONS, OBJECTS)
def test_what_an_evaluation_reads_was_known_beforehand(text: str, value: Mapping[str, Any]) -> None:
    program = compile_expression(text, TYPED)
    reads = set[tuple[str, ...]]()
    evaluated(program, watched(value, ("self",), reads))

    assert program.checked is not None
    known = {read.path for read in program.checked.reads}
    assert all(any(covers(one, path) for one in known) for path in reads), (text, reads, known)


def line_of_error(text: str, environment: Environment) -> int | None:
    """None for a program, which is then run."""
    try:
        program = compile_expression(text, environment, checked=environment is TYPED)
    except CelSyntaxError as error:
        return error.line
    evaluated(program, {"spec": {}})
    return None


@given(any_text())
@example("(" * 3_000)
@example("1" + "+1" * 2_000)
@example("-" * 5_000 + "1")
@example("!" * 5_000 + "true")
@example("a" + ".b" * 2_000)
@example("9" * 5_000)
@example("'\\")
@example("b'\\u0041'")
def test_any_text_is_a_program_or_a_syntax_error_with_its_place(text: str) -> None:
    for environment in (TYPED, UNTYPED):
        line = line_of_error(text, environment)
        assert line is None or line >= 1 or len(text) > LIMITS.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def calls() -> Iterator[str]:
    """A call of every function with variables for its arguments."""
    for name, method, arity in sorted(FUNCTIONS):
        names = ["a", "b", "c", "d"][: max(arity, 1 if arity < 0 else 0)]
        yield f"self.{name}({', '.join(names)})" if method else f"{name}({', '.join(names)})"


@pytest.mark.slow
@pytest.mark.parametrize("text", [*calls(), "self + a", "self - a", "self * a", "self / a", "self % a", "-self"])
@given(values=st.lists(JSON, min_size=5, max_size=5))
@settings(max_examples=effort(0.2))
def test_every_function_answers_any_value_with_a_value_or_a_failure(text: str, values: list[Any]) -> None:
    names = ("self", "a", "b", "c", "d")
    environment = Environment(dict.fromkeys(names, DYN))

    with suppress(CelError):
        compile_expression(text, environment, checked=False).evaluate(dict(zip(names, values, strict=True)))


WORST = [
    "l.all(a, l.all(b, l.all(c, l.all(d, a + b + c + d >= 0))))",
    "l.map(a, l.map(b, l.map(c, [a, b, c])))",
    "cel.bind(x, l + l, cel.bind(y, x + x, cel.bind(z, y + y, z + z + z)))",
    "cel.bind(x, t + t, cel.bind(y, x + x, cel.bind(z, y + y, z + z + z + z)))",
    "t.replace('', t)",
    "l.map(a, t).join(t)",
    "lists.range(100000000)",
    "lists.range(9000).map(a, lists.range(9000))",
    "'%.1000f'.format([1.5]) + '%.999999999f'.format([1.0])",
    "l.map(a, t.findAll('(a|b|ab)*'))",
    "l.exists(a, t.matches('(a*)*(a*)*(a*)*b'))",
    "l.map(a, l).flatten().distinct().sort().size() > 0",
    "lists.range(9999).map(a, 'x' + string(a)).distinct().indexOf('y')",
    "sets.equivalent(lists.range(9000), lists.range(9000))",
    "t.split('')",
    "l.transformMap(i, v, t).size()",
    "'%s'.format([l.map(a, l.map(b, t))])",
]


@pytest.mark.slow
@pytest.mark.parametrize("text", WORST)
@pytest.mark.parametrize("size", [30, 3_000])
def test_the_worst_expressions_end_within_their_steps(text: str, size: int) -> None:
    environment = Environment({"l": DYN, "t": DYN})
    budget = Budget()
    with suppress(LimitExceeded, EvaluationError):
        compile_expression(text, environment).evaluate({"l": list(range(size)), "t": "ab" * size}, budget)

    assert budget.steps >= -LIMITS.steps * 100
    assert -LIMITS.built_items <= budget.items <= LIMITS.built_items or budget.items < 0


def test_a_limit_is_absorbed_by_nothing() -> None:
    program = compile_expression("l.all(a, l.all(b, l.all(c, a + b + c > 0))) || true", Environment({"l": DYN}))

    with pytest.raises(LimitExceeded, match="too many steps"):
        program.evaluate({"l": list(range(1, 300))})


@pytest.mark.parametrize("macro", ["all(a, 'ab' + 'cd' != '')", "exists(a, 'ab' + 'cd' == '')"])
def test_a_limit_that_the_last_item_exceeds_is_no_answer(macro: str) -> None:
    program = compile_expression(f"[1].{macro}", Environment({}))

    with pytest.raises(LimitExceeded):
        program.evaluate({}, Budget(text=3))
    assert program.evaluate({}, Budget(text=4)) is ("all" in macro)


def test_a_budget_is_shared_by_all_that_spends_from_it() -> None:
    program = compile_expression("l.all(a, a > 0)", Environment({"l": DYN}))
    budget = Budget(steps=1_000)

    def many_times() -> None:
        for _ in range(1_000):
            program.evaluate({"l": [1, 2, 3]}, budget)

    with pytest.raises(LimitExceeded):
        many_times()


def test_data_of_any_depth_is_a_failure_at_the_worst() -> None:
    deep: Any = 1
    for _ in range(9_000):
        deep = [deep]
    program = compile_expression("a == b", Environment({"a": DYN, "b": DYN}))

    with pytest.raises(LimitExceeded, match="nested too deeply"):
        program.evaluate({"a": deep, "b": [deep[0]]})


# --- what may be absent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("self.spec.host", ["self.spec.host"]),
        ("self.spec.name", []),
        ("self.spec.mode", []),
        ("self.spec.?host", []),
        ("has(self.spec.host) && self.spec.host == 'a'", []),
        ("!has(self.spec.host) || self.spec.host == 'a'", []),
        ("has(self.spec.host) ? self.spec.host : 'a'", []),
        ("!has(self.spec.host) ? 'a' : self.spec.host", []),
        ("has(self.spec.host) || self.spec.host == 'a'", ["self.spec.host"]),
        ("has(self.spec.host) ? 'a' : self.spec.host", ["self.spec.host"]),
        ("self.spec.ports.map(p, p.note)", ["self.spec.ports.[*].note"]),
        ("self.spec.ports.filter(p, has(p.note)).size()", []),
        ("self.spec.ports.map(p, has(p.note), p.note)", []),
        ("self.spec.ports[0].note", ["self.spec.ports.[*].note"]),
    ],
)
def test_a_field_that_may_be_absent_is_told_unless_the_expression_has_asked(text: str, absent: list[str]) -> None:
    checked = compile_expression(text, TYPED).checked

    assert checked is not None
    assert [".".join(absence.path) for absence in checked.absences] == absent


def test_what_is_read_is_told_by_path_and_whether_it_is_needed() -> None:
    checked = compile_expression("self.spec.?host.orValue(self.spec.name) + self.spec.ports[0].name", TYPED).checked

    assert checked is not None
    assert {(".".join(read.path), read.soft) for read in checked.reads} == {
        ("self.spec.host", True),
        ("self.spec.name", False),
        ("self.spec.ports.[*].name", False),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("self.spec.replica == 1", "undefined field 'replica'; did you mean 'replicas'? at line 1, column 10"),
        ("self.spec.name + 1", "no matching overload for '+' applied to (string, int)"),
        ("self.spec.name.startWith('a')", "there is no method startWith(); did you mean startsWith()?"),
        ("slef.spec.name", "undeclared reference to 'slef'; did you mean 'self'?"),
        ("self.spec.name.charAt('a')", "it is string.charAt(int) -> string"),
        ("self.spec.name.charAt()", "method charAt() takes 1 arguments, not 0"),
        ("self.spec.name.matches('(a')", "is no regular expression: missing ) at 2"),
        ("self.spec.ports.all(p, p.name)", "no matching overload for 'all()' applied to string"),
        ("self.spec.on ? 1", "expected ':', found the end"),
        ("true &&\n  self.nope", "undefined field 'nope' at line 2, column 7"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_way_out(text: str, problem: str) -> None:
    with pytest.raises(CelSyntaxError, match=re.escape(problem)):
        compile_expression(text, TYPED)
