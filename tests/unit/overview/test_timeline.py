"""What an object's status tells of its past (SEE-3)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.graph.states import NodeState
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.overview.severity import Severity, needs_person, severity_of, severity_of_node, urgency
from vworkspace_core.overview.summary import OverviewState
from vworkspace_core.overview.timeline import TimelineEntry, entries_of, last_entries, last_transition

REF = ObjectRef(OPERATION, "ns", "a")


def text(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00Z"


def at(minute: int) -> datetime:
    return datetime(2026, 1, 1, 0, minute, tzinfo=UTC)


def condition(type_: str, status: str, minute: int = 5, **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "lastTransitionTime": text(minute), **more}


def live(*conditions: Any, **status: Any) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "ns", "creationTimestamp": text(0)}
    return {"metadata": meta, "status": {**status, "conditions": list(conditions)}}


def test_creation_run_and_deletion_are_told_with_their_times() -> None:
    found = live(startedAt=text(1), finishedAt=text(2))
    found["metadata"]["deletionTimestamp"] = text(3)

    assert list(entries_of(OPERATION, found)) == [
        TimelineEntry(at(0), "created", Severity.QUIET, ref=REF),
        TimelineEntry(at(3), "deletion asked for", Severity.MOVING, ref=REF),
        TimelineEntry(at(1), "run started", Severity.MOVING, ref=REF),
        TimelineEntry(at(2), "run ended", Severity.QUIET, ref=REF),
    ]


GOOD = "Ready Available Succeeded Accepted Released Connected Authenticated ControllersHealthy Remediated TestSuccess"
BAD = "Stalled Degraded Failed Disconnected BufferOverflow ClockSkew JobsBlocked"


@pytest.mark.parametrize(
    ("types", "when_true", "otherwise"),
    [
        (GOOD, Severity.GOOD, Severity.WAITING),
        (BAD, Severity.BAD, None),
        ("Blocked", Severity.WAITING, None),
        ("Reconciling Running", Severity.MOVING, None),
    ],
)
def test_a_condition_is_told_by_what_it_means_and_not_at_all_where_it_says_that_all_is_well(
    types: str, when_true: Severity, otherwise: Severity | None
) -> None:
    for type_ in types.split():
        for status, severity in (("True", when_true), ("False", otherwise), ("Unknown", otherwise)):
            told = list(entries_of(OPERATION, live(condition(type_, status, reason="R", message="m"))))[1:]
            expected = None if severity is None else TimelineEntry(at(5), f"{type_} is {status}: R", severity, "m", REF)
            assert told == ([] if expected is None else [expected])


def test_what_is_malformed_is_left_out_and_conditions_are_bounded() -> None:
    ready = condition("Ready", "True")
    odd = [{**ready, "lastTransitionTime": "soon"}, "x", {**ready, "reason": 5}]

    assert [entry.what for entry in entries_of(OPERATION, live(*odd))] == ["created", "Ready is True"]
    assert len(list(entries_of(OPERATION, live(*[ready] * 40)))) == 33
    assert len(list(entries_of(OPERATION, {**live(), "status": {"conditions": "x"}}))) == 1


def test_the_last_entries_come_newest_first_and_equal_times_by_object_and_word() -> None:
    entries = [
        TimelineEntry(at(1), "a", Severity.GOOD),
        TimelineEntry(at(2), "b", Severity.GOOD),
        TimelineEntry(at(2), "c", Severity.GOOD),
        TimelineEntry(at(2), "a", Severity.GOOD, ref=REF),
    ]

    assert [(entry.what, entry.at.minute) for entry in last_entries(entries)] == [
        ("a", 2),
        ("c", 2),
        ("b", 2),
        ("a", 1),
    ]
    assert [entry.what for entry in last_entries(entries, 1)] == ["a"]
    assert len(last_entries([entries[0]] * 201)) == 200


def test_the_last_transition_is_that_of_a_condition_or_the_creation() -> None:
    assert last_transition(live(condition("A", "True", 3), condition("B", "True", 7), {"type": "C"})) == at(7)
    assert last_transition(live()) == at(0)
    assert last_transition({}) is None


def test_severities_are_ordered_and_say_whether_a_person_has_to_help() -> None:
    assert [urgency(severity) for severity in Severity] == [0, 1, 2, 3, 4]
    helpable, alone = ({each for each in OverviewState if needs_person(each, is_helpable=by)} for by in (True, False))
    assert alone == {each for each in OverviewState if severity_of(each) is Severity.BAD}
    assert helpable - alone == {OverviewState.WAITING, OverviewState.NOT_READY, OverviewState.DELETING}


@pytest.mark.parametrize(
    ("severity", "states", "nodes"),
    [
        (Severity.GOOD, "Ready Succeeded", "READY"),
        (Severity.MOVING, "Progressing Running Deleting", "PENDING PROGRESSING LEAVING RETRYING"),
        (Severity.WAITING, "Waiting NotReady", "WAITING HELD"),
        (Severity.BAD, "Stalled Degraded Failed", "MISSING_KIND ERROR FOREIGN CONFLICT REFUSED DENIED FAILED"),
        (Severity.QUIET, "Suspended Cancelled Unseen Excluded", "EXCLUDED LEFT"),
    ],
)
def test_each_state_has_its_severity(severity: Severity, states: str, nodes: str) -> None:
    assert {state.value for state in OverviewState if severity_of(state) is severity} == set(states.split())
    assert {node.name for node in NodeState if severity_of_node(node) is severity} == set(nodes.split())
