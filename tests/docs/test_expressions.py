"""The page about expressions (PH-6): every example has the value that it tells."""

import json

import pytest

from purekube.cel import Environment, compile_expression
from purekube.cel.types import DYN
from tools.expressions_page import EXAMPLE, EXAMPLES


@pytest.mark.parametrize(("text", "value"), EXAMPLES)
def test_an_example_has_the_value_that_the_page_tells(text: str, value: str) -> None:
    found = compile_expression(text, Environment({"self": DYN})).evaluate({"self": EXAMPLE})

    assert json.loads(json.dumps(found)) == json.loads(value)
