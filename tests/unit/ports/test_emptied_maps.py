"""S-42: maps that an apply empties: found in the answer, left out where refused, and applied a second time."""

from types import MappingProxyType
from typing import Any

import pytest

from purekube.apimachinery.errors import Invalid, StatusCause
from purekube.ports.emptied import became_null, second_apply, without_refused_maps


@pytest.mark.parametrize(
    ("config", "answer", "expected"),
    [
        ({}, None, True),
        ({}, {}, False),
        ({}, {"a": 1}, False),
        ({"a": {}}, {"a": None}, True),
        ({"a": {}}, {"a": {}}, False),
        ({"a": {}}, {}, False),
        ({"a": {}}, None, False),
        ({"a": {}}, "odd", False),
        ({"a": {"b": {}}}, {"a": {"b": None}}, True),
        ({"a": {"b": {}}}, {"a": None}, False),
        ({"a": MappingProxyType({})}, {"a": None}, True),
        ({"a": None}, {"a": None}, False),
        ({"a": ""}, {"a": None}, False),
        ({"a": [{}]}, {"a": [None]}, False),
        ({"a": {"b": 1}, "c": {}}, {"a": {"b": 1}, "c": None}, True),
        ([], None, False),
        ("", None, False),
        (None, None, False),
    ],
)
def test_an_empty_map_that_was_answered_with_null_is_found_at_any_depth(
    config: Any, answer: Any, expected: bool
) -> None:
    assert became_null(config, answer) is expected


CONFIG = {"spec": {"keep": {}, "limits": {}, "text": "", "deep": {"limits": {}, "list": [{}]}}, "limits": {}}


def refused(*fields: str) -> dict[str, Any] | None:
    refusal = Invalid("no", tuple(StatusCause(field, "no") for field in fields))
    kept = without_refused_maps(CONFIG, refusal)
    return None if kept is None else dict(kept)


def spec(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {**CONFIG["spec"], **changes}
    return {name: value for name, value in whole.items() if value != "gone"}


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ((), None),
        (("spec.text",), None),
        (("spec",), None),
        (("spec.deep",), None),
        (("spec.deep.list",), None),
        (("other",), None),
        (("spec.limits",), {**CONFIG, "spec": spec(limits="gone")}),
        (("limits",), {"spec": CONFIG["spec"]}),
        (("spec.deep.limits",), {**CONFIG, "spec": spec(deep={"list": [{}]})}),
        (("spec.limits", "spec.keep", "limits"), {"spec": spec(limits="gone", keep="gone")}),
    ],
)
def test_exactly_the_empty_maps_that_a_refusal_names_are_left_out(fields: tuple[str, ...], kept: Any) -> None:
    assert refused(*fields) == kept


def test_the_second_apply_is_of_the_version_that_the_first_one_made() -> None:
    answer = {"metadata": {"name": "a", "resourceVersion": "8"}, "more": 1}
    free = {"metadata": {"name": "a"}, "data": {}}
    exact = {"metadata": {"name": "a", "resourceVersion": "7"}, "data": {}}

    assert second_apply(free, answer) is free
    assert second_apply(exact, answer) == {"metadata": {"name": "a", "resourceVersion": "8"}, "data": {}}
    assert exact["metadata"] == {"name": "a", "resourceVersion": "7"}
