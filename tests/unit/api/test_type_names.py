"""RES-7: a value of the wrong type is named by its type and never repeated."""

from typing import Any

import pytest

from purekube.apimachinery.problems import type_name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"), (True, "a boolean"), (7, "a number"), (1.5, "a number"), ("x", "a string"), ({}, "an object"),
        ([], "a list"), ((), "a list"), (b"x", "a bytes"),
    ],
)  # fmt: skip
def test_a_value_is_named_as_json_names_it(value: Any, name: str) -> None:
    assert type_name(value) == name
