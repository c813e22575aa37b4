"""PH-5: what is asked of any object, in its order; a value of another type counts as absent."""

from types import MappingProxyType
from typing import Any

import pytest

from purekube.readiness import State, readiness
from purekube.readiness.generic import by_conventions
from purekube.readiness.result import Conditions, Readiness, count, mapping, number, progressing, ready, text, unknown
from purekube.schema import compile_schema

READY, PROGRESSING, FAILED, UNKNOWN = State.READY, State.PROGRESSING, State.FAILED, State.UNKNOWN
WITH_STATUS = compile_schema({"type": "object", "properties": {"status": {"type": "object"}}})
WITHOUT = compile_schema({"type": "object", "properties": {"spec": {"type": "object"}}})


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


def judged(*conditions: Any, observed: Any = None, schema: Any = None, **more: Any) -> tuple[State, str, str]:
    status = {"conditions": list(conditions), **({} if observed is None else {"observedGeneration": observed})}
    manifest = {"apiVersion": "x.example/v1", "kind": "X", "metadata": {"generation": 2}, "status": status, **more}
    found = readiness(manifest, schema)
    return found.state, found.reason, found.message


def test_before_its_status_an_object_is_asked_whether_it_is_there() -> None:
    assert readiness(None) == progressing("NotFound", "it does not exist yet")
    going = {"generation": 2, "deletionTimestamp": "now"}
    assert judged(condition("Ready"), metadata=going) == (PROGRESSING, "Terminating", "it is being deleted")
    for status in ("x", [1], 3):
        assert judged(status=status) == (UNKNOWN, "StatusUnreadable", "its status is no object")
    assert judged(status=None) == (READY, "Exists", "")


SEEN_1 = (PROGRESSING, "GenerationNotObserved", "its controller has observed generation 1, it is at 2")


@pytest.mark.parametrize(
    ("conditions", "observed", "told"),
    [
        ([condition("Ready")], 2, (READY, "Ready", "")),
        ([condition("Ready")], 3, (READY, "Ready", "")),
        ([condition("Ready")], 1, SEEN_1),
        ([condition("Ready")], "1", (READY, "Ready", "")),
        ([condition("Ready")], True, (READY, "Ready", "")),
        ([], 0, (PROGRESSING, "GenerationNotObserved", "its controller has observed generation 0, it is at 2")),
        ([], -1, (PROGRESSING, "GenerationNotObserved", "its controller has not observed it yet")),
        ([condition("Stalled", "True", "R", "m", observedGeneration=2)], 1, (FAILED, "R", "m")),
        ([condition("Stalled", observedGeneration=2)], 1, (FAILED, "Stalled", "it is stalled")),
        ([condition("Stalled", "True", "R", "m", observedGeneration=1)], 1, SEEN_1),
        ([condition("Stalled", "False", "R", "m", observedGeneration=2)], 1, SEEN_1),
        ([condition("Ready", "False", "R", "m", observedGeneration=2)], 1, (PROGRESSING, "R", "m")),
        ([condition("Ready", "False", observedGeneration=2)], 1, (PROGRESSING, "NotReady", "Ready is False")),
        ([condition("Ready", "False", "R", "m", observedGeneration=1)], 1, SEEN_1),
        ([condition("Ready", "True", "R", "m", observedGeneration=2)], 1, SEEN_1),
    ],
)
def test_an_outdated_status_is_not_believed_except_in_its_failures(
    conditions: list[Any], observed: Any, told: Any
) -> None:
    assert judged(*conditions, observed=observed) == told


def test_an_object_without_a_generation_is_never_outdated() -> None:
    assert judged(condition("Ready"), observed=1, metadata={}) == (READY, "Ready", "")
    assert judged(condition("Ready", observedGeneration=1), metadata={}) == (READY, "Ready", "")


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ([condition("Stalled", "True", "R", "m"), condition("Failed"), condition("Ready")], (FAILED, "R", "m")),
        ([condition("Stalled")], (FAILED, "Stalled", "it is stalled")),
        ([condition("Failed", "True", "R", "m"), condition("Reconciling")], (FAILED, "R", "m")),
        ([condition("Failed")], (FAILED, "Failed", "it has failed")),
        ([condition("Failed", "False"), condition("Ready")], (READY, "Ready", "")),
        ([condition("Reconciling", "True", "R", "m"), condition("Ready")], (PROGRESSING, "Reconciling", "m")),
        ([condition("Reconciling", "True", "R")], (PROGRESSING, "Reconciling", "R")),
        ([condition("Reconciling")], (PROGRESSING, "Reconciling", "it is being reconciled")),
        ([condition("Ready", "True", "R"), condition("Available", "False")], (READY, "R", "")),
        ([condition("Ready", "False", "R", "m"), condition("Available")], (PROGRESSING, "R", "m")),
        ([condition("Ready", "Unknown")], (PROGRESSING, "NotReady", "Ready is Unknown")),
        ([condition("Available", "False")], (PROGRESSING, "NotAvailable", "Available is False")),
        ([condition("Available", "True", "R")], (READY, "R", "")),
        ([condition("Available")], (READY, "Available", "")),
        ([condition("Ready", observedGeneration=2)], (READY, "Ready", "")),
        ([condition("Ready", observedGeneration=1)],
         (PROGRESSING, "GenerationNotObserved", "Ready speaks of generation 1, it is at 2")),
        ([condition("Available", observedGeneration=1)],
         (PROGRESSING, "GenerationNotObserved", "Available speaks of generation 1, it is at 2")),
        ([condition("Other", "False")], (READY, "Exists", "")),
        (["odd", 3, None, condition("Ready", "False", "R", "m")], (PROGRESSING, "R", "m")),
    ],
)  # fmt: skip
def test_conditions_are_asked_in_the_order_of_kstatus(conditions: list[Any], told: Any) -> None:
    assert judged(*conditions) == told


@pytest.mark.parametrize(
    ("schema", "status", "is_ready"),
    [
        (None, None, True),
        (WITHOUT, None, True),
        (WITH_STATUS, None, False),
        (WITH_STATUS, {}, False),
        (WITH_STATUS, {"a": 1}, True),
    ],
)
def test_an_object_without_a_status_is_ready_unless_its_schema_has_one(
    schema: Any, status: Any, is_ready: bool
) -> None:
    told = (
        (READY, "Exists", "") if is_ready else (PROGRESSING, "NoStatus", "its controller has not written a status yet")
    )

    assert judged(schema=schema, status=status) == told
    found = by_conventions({"status": status}, schema)
    assert (found.state, found.reason, found.message) == told


def test_the_rule_of_a_kind_is_found_by_group_and_kind() -> None:
    rules = {("x.example", "X"): lambda manifest: ready("Own"), ("", "Y"): lambda manifest: unknown("Odd", "odd")}

    assert readiness({"apiVersion": "x.example/v9", "kind": "X"}, rules=rules) == ready("Own")
    assert readiness({"apiVersion": "v1", "kind": "Y"}, rules=rules) == Readiness(UNKNOWN, "Odd", "odd")
    assert readiness({"apiVersion": "y.example/v1", "kind": "X"}, rules=rules) == ready("Exists")
    old = {
        "apiVersion": "x.example/v1",
        "kind": "X",
        "metadata": {"generation": 2},
        "status": {"observedGeneration": 1},
    }
    assert readiness(old, rules=rules).reason == "GenerationNotObserved"


# --- readers ----------------------------------------------------------------------------------------------------------


def test_a_value_of_another_type_counts_as_absent() -> None:
    fields: dict[str, Any] = {"a": 3, "b": True, "c": "4", "d": None, "e": 0, "f": 1.5}

    assert [number(fields, key) for key in "abcdefg"] == [3, None, None, None, 0, None, None]
    assert [count(fields, key, 7) for key in "abcdefg"] == [3, 7, 7, 7, 0, 7, 7]
    assert count({}, "a") == 0
    assert [text(fields, key) for key in "acg"] == ["", "4", ""]
    assert (len(text({"a": "x" * 1024}, "a")), len(text({"a": "x" * 1025}, "a"))) == (1024, 1024)


def test_an_object_is_found_at_its_path_in_any_mapping() -> None:
    inner = MappingProxyType({"c": 1})
    outer = MappingProxyType({"b": inner, "x": [1]})

    assert mapping({"a": outer}, "a", "b") == mapping(inner) == {"c": 1}
    assert mapping({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1}
    for path in (("a", "x"), ("a", "x", "y"), ("n",), ("n", "m"), ("a", "b", "c"), ("a", "b", "c", "d")):
        assert mapping({"a": outer}, *path) == {}
    assert mapping("text") == mapping(None, "a") == {}


def test_a_condition_has_its_message_or_its_reason_or_another_text() -> None:
    found = Conditions.of({"status": {"conditions": [condition("A", "True", "R", "m"), condition("B", "False", "R")]}})

    assert [found.message_or_reason(kind, "x") for kind in "ABC"] == ["m", "R", "x"]
    assert [found.status(kind) for kind in "ABC"] == ["True", "False", ""]
    assert [found.holds(kind) for kind in "ABC"] == [True, False, False]
    assert [found.reason(kind) for kind in "ABC"] == ["R", "R", ""]
    assert found.observed("A") is None
    assert Conditions.of({"status": {"conditions": "odd"}}).by_type == {}
    assert Readiness(READY, "R").is_ready
    assert not Readiness(UNKNOWN, "R").is_ready


# --- workloads without a number of replicas ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_workload_wants_one_pod_unless_it_says_otherwise(kind: str) -> None:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    status = {"observedGeneration": 2, **counts, "updateRevision": "r2", "currentRevision": "r1"}

    def of(status: Any) -> State:
        manifest = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"generation": 2}, "spec": {}, "status": status}
        return readiness(manifest).state

    assert of(status) is READY
    assert of({**status, "readyReplicas": 0}) is PROGRESSING


def test_a_deployment_that_makes_no_progress_has_failed_with_its_words() -> None:
    stuck = condition("Progressing", "False", "ProgressDeadlineExceeded", "no progress")
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "status": {"conditions": [stuck]}}

    found = readiness(manifest)
    assert (found.state, found.reason, found.message) == (FAILED, "ProgressDeadlineExceeded", "no progress")
