"""PH-10: computed values of applied boxes: what is refused, and how an expression is written for the API server."""

from typing import Any

import pytest

from purekube.boxes.webhooks.admission_policy import MUTATING_POLICY, policy_of
from purekube.boxes.webhooks.kind_webhooks import refused_where_applied
from tests.support.boxes import box_of, config

HINT = "; write it otherwise, compute it where it is used, or run the box from its file, with its webhook"


def refusals(*mutation: tuple[str, Any]) -> list[tuple[str, str]]:
    box = box_of(config("a"), mutation=[{"field": field, "value": value} for field, value in mutation])
    return [(problem.place.path, problem.message) for problem in refused_where_applied(box)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("${hash(self.metadata.name)}", "there is no function hash()"),
        ("${base64.encode(bytes(self.metadata.name))}", "there is no function base64.encode()"),
        ("${string(math.abs(self.spec.replicas))}", "there is no function math.abs()"),
        ("a-${self.metadata.name.reverse()}", "no matching overload for 'reverse'"),
        ("${cel.bind(a, self.metadata.name, a + a)}", "there is no cel.bind()"),
        ("${self.metadata.?labels.?`a/b`.orValue('c')}", 'the field a/b is read in brackets, as ["a/b"]'),
        ("${has(self.spec.free) && has(self.spec.free.a__dash__b) ? 'a' : 'b'}", "the field a-b is read in brackets"),
    ],
)
def test_what_the_api_server_cannot_compute_is_refused_and_named_PH_10(value: str, reason: str) -> None:
    ((path, message),) = refusals(("spec.image", "literal"), ("spec.host", value))
    assert path == "spec.mutation[1].value"
    assert message.startswith(f"the API server, which computes the value, cannot: {reason}")
    assert HINT in message


def test_a_value_that_is_a_part_of_another_one_is_refused_PH_10() -> None:
    name = "${self.metadata.name}"
    free = ("spec.free", {"name": name})
    assert refusals(free, ("spec.host", name), ("spec.image", name)) == []
    ((path, message),) = refusals(free, ("spec.free.name", name))
    assert (path, message[:41]) == ("spec.mutation[1].field", "is in the value of spec.free: write one v")
    assert len(refusals(free, free)) == 2
    assert refusals(("spec.free", {"name": "literal"}), ("spec.free.name", name)) == [], "a default is there before"


def test_a_value_at_an_optional_index_is_of_any_type_for_the_api_server_PH_10() -> None:
    """Otherwise the API server lets `int()` take only values of its first signature."""
    value = "${self.metadata.?labels[?'a'].optMap(n, [?optional.of(n)][0] in [n] ? int(n) : 0)}"
    box = box_of(config("a"), mutation=[{"field": "spec.port", "value": value}])
    (mutation,) = policy_of(box)[MUTATING_POLICY]["spec"]["mutations"]
    typed = "self.metadata.?labels[?'a'].optMap(value, dyn(value)).optMap(n, [?optional.of(n)][0] in [n] ? int(n) : 0)"
    assert typed in mutation["jsonPatch"]["expression"]
