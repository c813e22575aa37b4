"""The text of generated modules: it is the value that it was made of, at any width."""

import ast
import inspect
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.reconcilers.source_text import WIDTH, call, docstring, imported, laid_out, literal

WORDS = st.text(st.sampled_from("ab \\\"'\n\t{}$é界\u2028\u200b\x1b\ud800"), max_size=60) | st.text(max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.integers(0, 3))
@example({"pattern": "a" * 300}, 1)
@example(["word " * 60], 0)
def test_a_literal_is_the_value_and_no_line_is_too_long(value: Any, depth: int) -> None:
    lines = [*laid_out("schema=", call("f", literal(value)), ",", 4 * depth)]
    (argument,) = ast.parse("f(" + "\n".join(lines) + ")", mode="eval").body.keywords[0].value.args  # type: ignore[attr-defined]

    assert ast.literal_eval(argument) == value
    assert all(len(line) <= WIDTH for line in lines)


@given(WORDS, st.integers(0, 2))
@example('"quoted"', 1)
@example('ends with """', 1)
@example("ends with \\", 0)
@example("a well-known " * 20, 1)
def test_a_docstring_says_the_words(text: str, depth: int) -> None:
    lines = [*docstring(text or "a", 4 * depth)]
    (said,) = ast.parse(inspect.cleandoc("\n".join(lines))).body

    assert isinstance(said, ast.Expr)
    assert isinstance(said.value, ast.Constant)
    assert str(said.value.value).split() == (text or "a").split()


def test_a_long_line_of_a_docstring_goes_on_where_it_began() -> None:
    first, empty, *wrapped, last = docstring("First.\n\n    " + "word " * 40, 4)

    assert (first, empty, last) == ('    """First.', "", '    """')
    assert len(wrapped) > 1
    assert {len(line) - len(line.lstrip()) for line in wrapped} == {8}


def test_imports_are_in_the_order_of_ruff() -> None:
    assert [*imported("a", ["f", "B", "CON"])] == ["from a import CON, B, f"]
    long = [f"{letter}{'x' * 60}" for letter in "ba"]
    assert [*imported("a", long)] == ["from a import (", f"    {long[1]},", f"    {long[0]},", ")"]
