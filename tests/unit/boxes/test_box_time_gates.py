"""`after`: gates that open by themselves so long after a time (PH-4), at the moment and not by polling."""

from datetime import timedelta
from typing import Any

import jsonschema
import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.apimachinery.timestamps import parse_time
from purekube.boxes.when_conditions import read_when_condition
from tests.support.box_world import PureWorld
from tests.support.boxes import box_of, config, deployment, document, examined, told
from tests.support.composite_world import NS
from tests.support.simulation import START
from tools.box_schemas import json_schema

SPEC = {"image": "i", "parts": []}
WEB = ObjectRef(Kind("apps", "v1", "Deployment", "deployments"), NS, "web")
LATER = ObjectRef(CONFIG_MAP, NS, "later")


def passed(world: PureWorld, seconds: float) -> float | None:
    """Let so much time pass; in how many seconds the box then wants to look again."""
    world.now = START + timedelta(seconds=seconds)
    for _ in range(4):
        result = world.reconcile()
    assert result is not None
    assert result.writes == 0 or seconds == 0
    return result.requeue.after


def test_after_counts_from_the_creation_of_the_object_and_opens_at_the_moment() -> None:
    """PH-4: no sleeping and no polling; closed, it is a wait, and its message says when."""
    world = PureWorld(
        box_of(config("now"), phases=[{"name": "two", "when": [{"after": "5m"}], "resources": [config("later")]}]), SPEC
    )
    assert passed(world, 0) == 300
    assert passed(world, 299.5) == 0.5
    assert world.get(LATER) is None
    ready = world.condition()
    assert (ready["status"], ready["reason"]) == ("False", "WaitingForGate")
    assert "gate of phase two: waits until 5m have passed since metadata.creationTimestamp, at 2026" in ready["message"]
    assert world.settle() > 0
    assert world.now == START + timedelta(minutes=5)
    assert world.get(LATER) is not None
    assert world.condition()["status"] == "True"
    assert passed(world, 900) is None


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({"field": "spec.host", "exists": True}, "waits until spec.host exists ("),
        ({"field": "spec.image", "exists": False}, "waits until spec.image does not exist ("),
        ({"field": "spec.image", "exists": True, "not": True}, "waits until spec.image does not exist ("),
        ({"field": "children.configmap.now", "isReady": True, "not": True}, "configmap.now is not ready ("),
        ({"field": "spec.image", "equals": "other"}, "waits until spec.image equals other ("),
    ],
)
def test_the_message_of_a_closed_gate_says_in_plain_words_what_it_waits_for(gate: dict[str, Any], words: str) -> None:
    world = PureWorld(box_of(config("now"), config("later", when=[gate], optional=False)), SPEC)
    passed(world, 0)
    assert world.get(LATER) is None
    assert words in world.condition()["message"]


def test_after_counts_from_a_time_of_a_child() -> None:
    """A time that is not there yet does not hold, and asks for no look."""
    available = "${web.status.conditions.filter(c, c.type == 'Available')[0].lastTransitionTime}"
    box = box_of(deployment("web"), config("later", when=[{"field": available, "after": "30s"}]))
    world = PureWorld(box, SPEC)
    for _ in range(3):
        result = world.reconcile()
    assert result is not None
    assert (world.get(LATER), result.requeue.after) == (None, None)
    world.settle()
    web, later = world.get(WEB), world.get(LATER)
    assert web is not None
    assert later is not None
    since = next(condition for condition in web["status"]["conditions"] if condition["type"] == "Available")[
        "lastTransitionTime"
    ]
    made = parse_time(later["metadata"]["creationTimestamp"])
    assert made == parse_time(since) + timedelta(seconds=30)


def test_after_among_any_opens_where_something_else_holds_or_the_time_has_come() -> None:
    any_of = [{"field": "spec.host", "exists": True}, {"after": "1h"}, {"after": "10m"}]
    world = PureWorld(box_of(config("later", any=any_of)), SPEC)
    assert passed(world, 0) == 600
    world.edit({"spec": {"host": "h"}})
    world.settle()
    assert (world.get(LATER) is not None, world.now) == (True, START)


def test_after_of_a_text_that_is_no_time_is_told_with_its_place() -> None:
    world = PureWorld(box_of(config("later", when=[{"field": "spec.host", "after": "1m"}])), {**SPEC, "host": "soon"})
    world.settle()
    ready = world.condition()
    assert ready["reason"] == "ExpressionFailed"
    assert "must be an RFC 3339 time" in ready["message"]


def test_a_gate_of_time_is_a_wait_unless_it_is_said_to_be_optional() -> None:
    """D13: time passes by itself, so that Ready can wait for it."""
    gate = {"after": "1m"}
    box = box_of(config("a", when=[gate]), config("b", when=[gate], optional=True))
    assert [node.when_conditions[0].is_choice for node in box.nodes] == [False, True]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"after": "soon"}, "when.after: must be a length of time"),
        ({"after": 5}, "when.after: must be a length of time"),
        ({"after": "5m", "not": True}, "when.not: cannot be asked of `after`"),
        ({"after": "5m", "exists": True}, "when: must ask exactly one of"),
    ],
)
def test_what_a_gate_of_time_cannot_say(raw: Any, problem: str) -> None:
    with pytest.raises(ValidationProblems) as caught:
        read_when_condition(raw, "when")
    assert any(str(one).startswith(problem) for one in caught.value.problems)


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("spec.replicas", "must be a time such as metadata.creationTimestamp, not"),
        ("spec.hots", "undefined field 'hots'; did you mean 'host'?"),
        ("${self.spec.parts}", "must be a time"),
    ],
)
def test_the_time_that_after_counts_from_is_typed(field: str, problem: str) -> None:
    (found,) = told(examined(config("a", when=[{"field": field, "after": "5m"}])))
    assert problem in found


def test_the_schema_for_editors_knows_after() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.validate(
        document(config("a", when=[{"after": "5m"}, {"field": "metadata.creationTimestamp", "after": "1s"}]))
    )
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(document(config("a", when=[{"after": "soon"}])))
