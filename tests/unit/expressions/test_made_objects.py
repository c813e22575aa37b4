"""Objects that an expression makes of a type, which admission policies have and boxes do not."""

import pytest

from purekube.cel import FUNCTIONS, CelSyntaxError, Environment, compile_expression
from purekube.cel.signatures import function, table

MADE = table([function("a.Type{}(dyn) -> dyn", lambda fields: fields)])


def test_an_object_is_made_of_its_fields() -> None:
    program = compile_expression("[a.Type{one: 1, two: a.Type{}}]", Environment(functions={**FUNCTIONS, **MADE}))
    assert program.evaluate({}) == [{"one": 1, "two": {}}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Other{one: 1}", "there is no type Other"),
        ("a.Type{'one': 1}", "a field of a.Type is a name, as in a.Type{field: 1}"),
        ("a.Type{one: }", "expected an expression, found '}'"),
        ("1{}", "expected the end, found '{'"),
    ],
)
def test_what_makes_no_object_is_refused(text: str, told: str) -> None:
    with pytest.raises(CelSyntaxError) as caught:
        compile_expression(text, Environment(functions={**FUNCTIONS, **MADE}))
    assert told in str(caught.value)
