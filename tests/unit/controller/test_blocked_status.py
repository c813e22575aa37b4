"""REC-13: what stopped a pass, in a status of the standard conditions: each condition, field and Event."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Forbidden, Permanent, Right
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import Condition, ConditionStatus, condition_json
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Decision
from purekube.controller.reconcile_error import (
    ReconcileError,
    ReconcileErrorCause,
    ReconcileErrorWords,
    blocked_status,
    reconcile_error_of,
    standard_words,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
EARLIER, AT = "2026-06-01T11:00:00Z", "2026-06-01T12:00:00Z"
WORDS = standard_words(CONFIG_MAP, ("Ready", "Reconciling", "Stalled", "Checked"))
META = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3}
BROKEN = ReconcileError(ReconcileErrorCause.INTERNAL_ERROR, "it broke", "cafe-1")
SHORT = ReconcileError(ReconcileErrorCause.TRANSIENT, "no answer")
MESSAGE = "it broke. The log line with reconcile_id cafe-1 has more."
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def condition(name: str, status: ConditionStatus, reason: str, message: str = "", at: int = 3) -> Condition:
    return Condition(name, status, reason, message, EARLIER, at)


def blocked(error: ReconcileError, *before: Condition, words: ReconcileErrorWords = WORDS, **status: Any) -> Decision:
    manifest = {**CONFIG_MAP.manifest("a", "ns"), "metadata": META}
    if before or status:
        manifest["status"] = {"conditions": [condition_json(one) for one in before], **status}
    return blocked_status(words, manifest, before, error, NOW)


def told(decision: Decision) -> list[tuple[str, str, str, str, int, str]]:
    assert decision.status is not None
    return [
        (
            one["type"],
            one["status"],
            one["reason"],
            one["message"],
            one["observedGeneration"],
            one["lastTransitionTime"],
        )
        for one in decision.status["status"]["conditions"]
    ]


def events(decision: Decision) -> list[tuple[str, str, str]]:
    return [(event.type, event.reason, event.note) for event in decision.events]


def test_the_first_status_says_that_it_is_not_ready_and_stalled() -> None:
    decision = blocked(BROKEN)

    assert decision.status is not None
    assert {name: value for name, value in decision.status.items() if name != "status"} == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "7"},
    }
    assert decision.status["status"].keys() == {"observedGeneration", "conditions"}
    assert decision.status["status"]["observedGeneration"] == 3
    assert told(decision) == [
        ("Ready", "False", "InternalError", MESSAGE, 3, AT),
        ("Reconciling", "False", "InternalError", "", 3, AT),
        ("Stalled", "True", "InternalError", MESSAGE, 3, AT),
    ]
    assert events(decision) == [
        ("Normal", "InternalError", f"Ready is False: {MESSAGE}"),
        ("Warning", "InternalError", f"Stalled is True: {MESSAGE}"),
    ]
    assert {(event.regarding, event.regarding_uid) for event in decision.events} == {
        (ObjectRef(CONFIG_MAP, "ns", "a"), "u")
    }


def test_a_workload_that_runs_stays_ready_and_its_other_conditions_stay_as_they_are() -> None:
    checked = condition("Checked", TRUE, "Fine", "all is well", 2)
    decision = blocked(
        BROKEN,
        condition("Ready", TRUE, "Running"),
        checked,
        attrs.evolve(condition("Stalled", FALSE, "Fine"), observed_generation=None),
        observedGeneration=2,
        url="https://a.example",
    )

    assert told(decision) == [
        ("Ready", "True", "Running", "", 3, EARLIER),
        ("Reconciling", "False", "InternalError", "", 3, AT),
        ("Stalled", "True", "InternalError", MESSAGE, 3, AT),
        ("Checked", "True", "Fine", "all is well", 2, EARLIER),
    ]
    assert decision.status is not None
    assert decision.status["status"]["url"] == "https://a.example"
    assert [event.reason for event in decision.events] == ["InternalError"]


def test_a_condition_without_a_generation_is_of_none_and_not_of_the_present_one() -> None:
    unknown = attrs.evolve(condition("Checked", TRUE, "Fine"), observed_generation=None)

    assert told(blocked(BROKEN, unknown))[-1] == ("Checked", "True", "Fine", "", 0, EARLIER)


def test_a_short_failure_is_told_until_the_status_covers_the_generation() -> None:
    assert told(blocked(SHORT)) == [
        ("Ready", "Unknown", "Retrying", "no answer", 3, AT),
        ("Reconciling", "True", "Retrying", "no answer", 3, AT),
    ]
    ready = condition("Ready", TRUE, "Running")
    assert told(blocked(SHORT, ready, observedGeneration=2)) == [
        ("Ready", "True", "Running", "", 3, EARLIER),
        ("Reconciling", "True", "Retrying", "no answer", 3, AT),
    ]
    assert blocked(SHORT, ready, observedGeneration=3) == Decision()
    assert blocked(SHORT, observedGeneration=3) != Decision(), "there is no condition yet"
    always = attrs.evolve(WORDS, tells_retries=lambda before: before == {"Ready": ready})
    assert blocked(SHORT, ready, words=always, observedGeneration=3) != Decision()
    assert blocked(BROKEN, ready, observedGeneration=3) != Decision()


def test_events_of_a_short_failure_report_progress() -> None:
    """RUN-5: Ready has an Event, Reconciling has none."""
    decision = blocked(SHORT)

    assert [(event.reason, event.is_progress) for event in decision.events] == [("Retrying", True)]


def test_the_same_cause_is_told_once_whatever_its_log_line() -> None:
    before = (
        condition("Ready", FALSE, "InternalError", MESSAGE),
        condition("Reconciling", FALSE, "InternalError"),
        condition("Stalled", TRUE, "InternalError", MESSAGE),
    )

    assert blocked(BROKEN, *before, observedGeneration=3) == Decision()
    assert blocked(attrs.evolve(BROKEN, log_id="beef-2"), *before, observedGeneration=3) == Decision()
    assert blocked(attrs.evolve(BROKEN, message="it broke again"), *before, observedGeneration=3) != Decision()


def test_a_kind_adds_its_fields_and_says_whose_an_object_is() -> None:
    words = attrs.evolve(
        WORDS,
        defaults={"phase": "New", "url": ""},
        fields=lambda wanted, at: {"at": at.isoformat(), "types": [one.type for one in wanted]},
    )
    decision = blocked(BROKEN, words=words, url="https://a.example")

    assert decision.status is not None
    status = {name: value for name, value in decision.status["status"].items() if name != "conditions"}
    assert status == {
        "observedGeneration": 3,
        "phase": "New",
        "url": "https://a.example",
        "at": NOW.isoformat(),
        "types": ["Ready", "Reconciling", "Stalled"],
    }
    assert (
        blocked(BROKEN, words=attrs.evolve(words, is_ours=lambda manifest: manifest["metadata"] != META)) == Decision()
    )


@pytest.mark.parametrize("status", [None, "odd", ["odd"], 3])
def test_a_status_that_is_no_object_is_written_anew(status: Any) -> None:
    manifest = {**CONFIG_MAP.manifest("a", "ns"), "status": status}
    decision = blocked_status(WORDS, manifest, (), BROKEN, NOW)

    assert decision.status is not None
    assert decision.status["status"].keys() == {"observedGeneration", "conditions"}
    assert decision.status["status"]["observedGeneration"] == 0
    assert decision.status["metadata"]["resourceVersion"] == ""
    assert {event.regarding_uid for event in decision.events} == {""}


RIGHT = 'User "sa" cannot get resource "pods" in API group "" in the namespace "ns"'


@pytest.mark.parametrize(
    ("error", "transient", "expected"),
    [
        (
            Forbidden(RIGHT),
            True,
            ReconcileError(ReconcileErrorCause.FORBIDDEN, "grant get", right=Right("get", "", "pods", "ns", "sa")),
        ),
        (
            Forbidden("quota"),
            False,
            ReconcileError(ReconcileErrorCause.INTERNAL_ERROR, "quota; tried again", "cafe-1"),
        ),
        (Permanent("odd"), True, ReconcileError(ReconcileErrorCause.TRANSIENT, "odd; tried again", "cafe-1")),
        (
            RecursionError(),
            False,
            ReconcileError(
                ReconcileErrorCause.TOO_DEEP, "the object is nested too deeply to be judged: at most 150 levels"
            ),
        ),
        (
            KeyError("secret"),
            True,
            ReconcileError(
                ReconcileErrorCause.INTERNAL_ERROR,
                "a defect of the operator stopped this pass (KeyError); it is tried again.",
                "cafe-1",
            ),
        ),
    ],
)
def test_an_error_is_told_in_its_words(error: Exception, transient: bool, expected: ReconcileError) -> None:
    found = reconcile_error_of(error, lambda right: f"grant {right.verb}", "cafe-1", transient=transient)

    assert found == expected
    assert found.right == expected.right
    assert found.is_transient is (expected.cause is ReconcileErrorCause.TRANSIENT)


def test_a_message_points_to_its_log_line_is_bounded_and_keeps_the_present_one() -> None:
    assert ReconcileError(ReconcileErrorCause.INTERNAL_ERROR, "it broke") == attrs.evolve(BROKEN, log_id="")
    assert (BROKEN.text, attrs.evolve(BROKEN, log_id="").text) == (MESSAGE, "it broke")
    assert BROKEN.message_over() == MESSAGE
    present = condition("Stalled", TRUE, "InternalError", "it broke. The log line with reconcile_id old has more.")
    assert BROKEN.message_over(present) == present.message
    assert BROKEN.message_over(attrs.evolve(present, message="it broke otherwise")) == MESSAGE
    assert len(attrs.evolve(BROKEN, message="m" * 5000).message_over().encode()) == 4096


def test_the_words_of_most_kinds_are_modest() -> None:
    modest = ReconcileErrorWords(CONFIG_MAP, (), lambda before, error: (), lambda wanted, at: {})

    assert (modest.defaults, modest.events, modest.write_condition) == ({}, {}, condition_json)
    assert (modest.is_ours({}), modest.tells_retries({})) == (True, False)
    standard = standard_words(CONFIG_MAP, ("Ready",))
    assert (standard.kind, standard.types, standard.events) == (
        CONFIG_MAP,
        ("Ready",),
        {"Ready": False, "Stalled": True},
    )
    assert (standard.defaults, standard.fields((), NOW), standard.write_condition) == ({}, {}, condition_json)
    assert [(one.type, one.status) for one in standard.conditions({}, BROKEN)] == [
        ("Ready", FALSE),
        ("Reconciling", FALSE),
        ("Stalled", TRUE),
    ]


def test_a_kind_writes_its_conditions_in_its_form_and_says_which_events_warn() -> None:
    words = standard_words(CONFIG_MAP, ("Ready", "Stalled"), lambda one: {**condition_json(one), "more": one.type})
    decision = blocked(BROKEN, words=attrs.evolve(words, events={"Ready": True, "Stalled": False}))

    assert decision.status is not None
    assert [one["more"] for one in decision.status["status"]["conditions"]] == ["Ready", "Stalled"]
    assert [event.type for event in decision.events] == ["Warning", "Normal"]
