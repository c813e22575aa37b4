"""Our evaluator and Google's C++ library say the same of random expressions on random data (PH-6)."""

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given

from purekube.cel import CelError, Environment, compile_expression
from purekube.cel.types import DYN
from tests.support.expression_world import EXPRESSIONS, OBJECTS

cel = pytest.importorskip("cel_expr_python.cel", reason="Google's library is not installed: cel-expr-python")

FAILED = "no value"
_GO = {"nan": "NaN", "-nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
_UNLIKE = re.compile("-?(?:nan|inf)")
"""How C++ writes what is no number; Kubernetes writes it as Go does."""


@cache
def theirs() -> Any:
    """Google's environment, with the extensions that the expressions use."""
    names = {"ext_strings": "ExtStrings", "ext_math": "ExtMath", "ext_optional": "ExtOptional"}
    modules = {name: pytest.importorskip(f"cel_expr_python.ext.{name}") for name in names}
    extensions = [getattr(modules[name], kind)() for name, kind in names.items()]
    return cel.NewEnv(variables={"self": cel.Type.DYN}, extensions=extensions)


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-12)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(alike(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, str) and isinstance(other, str):
        return one == _UNLIKE.sub(lambda match: _GO[match.group()], other)
    return type(one) is type(other) and bool(one == other)


def ours(text: str, value: Mapping[str, Any]) -> Any:
    try:
        return compile_expression(text, Environment({"self": DYN})).evaluate({"self": value})
    except CelError:
        return FAILED


def googles(text: str, value: Mapping[str, Any]) -> Any:
    try:
        program = theirs().compile(text)
    except Exception as error:  # theirs has no class of its own; it lacks some of our functions
        assume("undeclared reference" not in str(error))
        raise
    found = program.eval(data={"self": value})
    return FAILED if found.type() == cel.Type.ERROR else found.plain_value()


@given(EXPRESSIONS, OBJECTS)
def test_both_say_the_same(text: str, value: Mapping[str, Any]) -> None:
    expected = googles(text, value)
    found = ours(text, value)

    assert alike(found, expected), (text, value, found, expected)
