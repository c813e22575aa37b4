"""PH-7: what follows from each outcome of a call, exactly: conditions, requeue, error and what is remembered."""

import math
from typing import Any

import attrs
import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import NameTaken, OperatorError, Permanent, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.backoff import jitter_of
from purekube.controller.decision import Requeue, RequeuePace
from purekube.reconcilers.controllers import ALL, Feature
from purekube.reconcilers.outcome import (
    CallOutcome,
    Consequences,
    Ended,
    Late,
    Raised,
    Returned,
    Unread,
    consequences_of,
    raised,
)
from purekube.reconcilers.progress import CallController, ObjectProgress, ProgressRules, WatcherEvent
from purekube.reconcilers.request import (
    EXPONENTIAL,
    Cause,
    Constant,
    Event,
    Never,
    Request,
    Result,
    RetryPolicy,
    Terminal,
    delay_of,
)

RULES = ProgressRules(ALL, "g/shops", "g/shops")
UPDATE, DELETE = (CallController(Cause.CHANGED, event) for event in (WatcherEvent.UPDATE, WatcherEvent.DELETE))
BEFORE = ObjectProgress("u", attempts=2, state="old", stalled=True)
OWN = DesiredCondition("Warm", ConditionStatus.TRUE, "Enough")


def said(ready: str, reconciling: str, stalled: str) -> tuple[DesiredCondition, ...]:
    """Return the standard conditions; each is given as `True Reason: message`."""
    made = []
    for kind, text in (("Ready", ready), ("Reconciling", reconciling), ("Stalled", stalled)):
        head, _, message = text.partition(": ")
        status, reason = head.split()
        made.append(DesiredCondition(kind, ConditionStatus(status), reason, message))
    return tuple(made)


DONE = said("True Succeeded", "False Succeeded", "False Succeeded")


def came(outcome: CallOutcome, call: CallController = UPDATE, **more: Any) -> Consequences:
    given: dict[str, Any] = {"rules": RULES, "progress": BEFORE, "retry": Constant(7.0), "key": "shop", **more}
    return consequences_of(given.pop("rules"), given.pop("progress"), call, outcome, **given)


def same(found: Consequences, expected: Consequences) -> None:
    """Compare, with errors by type and message."""
    for one in (found, expected):
        assert one.error is None or isinstance(one.error, OperatorError)
    texts = [(type(one.error), one.error and one.error.message) for one in (found, expected)]
    assert texts[0] == texts[1]
    assert attrs.evolve(found, error=None) == attrs.evolve(expected, error=None)


WAITING = said("False Progressing: for a reply", "True Progressing: for a reply", "False Progressing")


@pytest.mark.parametrize(
    ("result", "conditions", "requeue"),
    [
        (Result(), DONE, Requeue.NO),
        (Result(state="new", conditions=(OWN,)), (*DONE, OWN), Requeue.NO),
        (Result(requeue_after=0), DONE, Requeue.at_latest(0)),
        (Result(requeue_after=5), DONE, Requeue.at_latest(5)),
        (Result(waiting="for a reply", conditions=(OWN,)), (*WAITING, OWN), Requeue.at_latest(60.0)),
        (Result(waiting="for a reply", requeue_after=5), WAITING, Requeue.at_latest(5)),
        (Result(waiting="for a reply", requeue_after=90), WAITING, Requeue.at_latest(90)),
        (Result(waiting="for a reply", requeue_after=0), WAITING, Requeue.at_latest(0)),
    ],
)
def test_a_call_that_returned_is_ready_unless_it_waits_PH_7(
    result: Result[Any], conditions: tuple[DesiredCondition, ...], requeue: Requeue
) -> None:
    after = ObjectProgress("u", begun=True, notified=True, state=result.state)

    same(came(Returned(result)), Consequences(after, requeue, None, conditions))
    stateless = came(Returned(result), rules=attrs.evolve(RULES, features=ALL - {Feature.STATE}))
    assert stateless.progress == attrs.evolve(after, state=None)


@pytest.mark.parametrize(
    ("result", "text", "requeue"),
    [
        (Result(), None, Requeue.NO),
        (Result(waiting="for a reply"), ": for a reply", Requeue.at_latest(60.0)),
        (Result(requeue_after=5), "", Requeue.at_latest(5)),
    ],
)
def test_a_call_for_a_deletion_is_over_once_it_is_complete_PH_7(
    result: Result[Any], text: str | None, requeue: Requeue
) -> None:
    after = ObjectProgress("u", begun=True, notified=True, cleaned=text is None)
    under_way = None if text is None else said(f"False Deleting{text}", f"True Deleting{text}", "False Deleting")

    same(came(Returned(result), DELETE), Consequences(after, requeue, None, under_way))


def test_a_call_that_ended_is_stalled_and_not_tried_again_PH_7() -> None:
    after = ObjectProgress("u", begun=True, stalled=True, state="old")
    for message, text in (("at most 5", "TooLarge: at most 5"), ("", "TooLarge")):
        tail = f": {message}" if message else ""
        stalled = said(f"False TooLarge{tail}", "False TooLarge", f"True TooLarge{tail}")
        same(came(Ended("TooLarge", message)), Consequences(after, Requeue.NO, Permanent(text), stalled))

    text = "the object does not fit its classes: spec: is required"
    unread = said(f"False ObjectUnreadable: {text}", "False ObjectUnreadable", f"True ObjectUnreadable: {text}")
    same(came(Unread("spec: is required")), Consequences(after, Requeue.NO, Permanent(text), unread))


@pytest.mark.parametrize(
    ("outcome", "reason", "text", "seconds"),
    [
        (Raised("KeyError: 'a'"), "ReconcileFailed", "KeyError: 'a'", 7.0),
        (Raised("busy", 30.0), "ReconcileFailed", "busy", 30.0),
        (Raised("busy", 3.0), "ReconcileFailed", "busy", 7.0),
        (Raised("taken", reason="NameTaken"), "NameTaken", "taken", 7.0),
        (Late(0.5), "TimedOut", "the call was cancelled after 0.5 s", 7.0),
    ],
)
def test_a_call_that_failed_is_tried_again_as_the_policy_says_PH_7(
    outcome: CallOutcome, reason: str, text: str, seconds: float
) -> None:
    after = ObjectProgress("u", begun=True, attempts=3, state="old")
    retried = said(f"False {reason}: {text}", f"True Retrying: {text}", f"False {reason}")
    requeue = Requeue(RequeuePace.TOLD, after=seconds)

    same(came(outcome), Consequences(after, requeue, Unavailable(text), retried))
    stalled = said(f"False {reason}: {text}", f"False {reason}", f"True {reason}: {text}")
    given_up = Consequences(after, Requeue.NO, Unavailable(text), stalled)
    same(came(outcome, retry=Never()), given_up)
    same(came(outcome, rules=attrs.evolve(RULES, features=ALL - {Feature.RETRY})), given_up)


class Noted:
    """A policy that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []

    def delay(self, attempt: int, jitter: float) -> float | None:
        self.asked.append((attempt, jitter))
        return 1


def test_the_policy_is_asked_with_the_number_of_the_failure_and_a_jitter_of_the_object() -> None:
    policy = Noted()
    requeue = came(Raised("no"), retry=policy, key=("ns", "shop")).requeue

    assert policy.asked == [(3, jitter_of(("ns", "shop"), 3))]
    assert (requeue.after, type(requeue.after)) == (1.0, float)


class Given:
    """A policy that gives this."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def delay(self, attempt: int, jitter: float) -> float | None:
        if self.given is ValueError:
            raise ValueError
        return self.given  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (Constant(), 10.0),
        (Constant(0), 0.0),
        (Never(), None),
        (Given(None), None),
        (Given(0.25), 0.25),
        (Given(-0.5), 12.0),
        (Given(math.inf), 12.0),
        (Given("5"), 12.0),
        (Given(ValueError), 12.0),
        (EXPONENTIAL, 12.0),
    ],
)
def test_the_delay_is_that_of_the_policy_or_else_the_usual_one(policy: RetryPolicy, seconds: float | None) -> None:
    assert delay_of(policy, 4, 0.5) == seconds


# --- the texts of errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Terminal("TooLarge", "token=abcdef12"), Ended("TooLarge", "token=***")),
        (Terminal("TooLarge"), Ended("TooLarge", "")),
        (Unavailable("busy", retry_after=2.5), Raised("busy", 2.5)),
        (Unavailable("busy"), Raised("busy")),
        (Unavailable(""), Raised("Unavailable")),
        (Permanent("no"), Raised("no")),
        (NameTaken("taken"), Raised("taken", reason="NameTaken")),
        (ValueError("no"), Raised("ValueError: no")),
        (ValueError(), Raised("ValueError")),
        (ExceptionGroup("two", [Unavailable("busy"), ExceptionGroup("in", [ValueError()])]),
         Raised("ExceptionGroup: busy; ExceptionGroup: ValueError")),
    ],
)  # fmt: skip
def test_an_error_becomes_an_outcome_with_its_own_words(error: BaseException, outcome: CallOutcome) -> None:
    assert raised(error) == outcome
    assert str(Terminal("TooLarge", "at most 5")) == "TooLarge: at most 5"
    assert str(Terminal("TooLarge")) == "TooLarge"


@pytest.mark.parametrize("length", [4096, 4097])
def test_a_text_is_cut_at_the_length_that_a_condition_may_have(length: int) -> None:
    text = "x" * (length - len("ValueError: "))
    given = (raised(ValueError(text)), raised(Terminal("Bad", "x" * length)))
    assert isinstance(given[0], Raised)
    assert isinstance(given[1], Ended)
    waiting = came(Returned(Result(waiting="x" * length))).conditions
    assert waiting is not None

    for told in (given[0].text, given[1].message, waiting[0].message, waiting[1].message):
        assert len(told) == 4096


# --- what goes in and out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["U", "Upgraded", "a_b", "a" * 128])
def test_an_event_has_a_reason_that_a_server_takes(reason: str) -> None:
    assert Event(reason, "note") == Event(reason, "note", warning=False)


@pytest.mark.parametrize("reason", ["", "1a", "a b", "a:", "a" * 129, "a\n"])
def test_an_event_with_another_reason_is_refused(reason: str) -> None:
    with pytest.raises(ValueError, match="the reason of an Event must be in CamelCase, such as Upgraded, not "):
        Event(reason, "note")


@pytest.mark.parametrize("length", [1, 1024])
def test_a_reason_of_a_condition_may_be_long(length: int) -> None:
    assert Terminal("a" * length).reason == "a" * length
    with pytest.raises(ValueError, match="the reason must be in CamelCase, such as SpecTooLarge, not "):
        Terminal("a" * 1025)


def test_a_result_takes_any_collection_and_refuses_what_is_no_event() -> None:
    event = Event("Upgraded", "to 2")
    result: Result[Any] = Result(conditions=[OWN], events=iter([event]))

    assert (result.conditions, result.events) == ((OWN,), (event,))
    with pytest.raises(TypeError, match="events must be Events, not 'Upgraded'"):
        Result(events=[event, "Upgraded"])  # type: ignore[list-item]


def test_what_cannot_be_written_is_refused_where_it_is_made() -> None:
    """In the user's call, whose object then says so; later it would stop a pass that has already written."""
    with pytest.raises(TypeError, match="note must be text, not 5"):
        Event("Upgraded", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="waiting must be text, not True"):
        Result(waiting=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="conditions must be DesiredConditions, not 'Ready'"):
        Result(conditions=[OWN, "Ready"])  # type: ignore[list-item]
    assert Terminal("TooLarge", 5).message == "5"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "complete"),
    [(Result(), True), (Result(requeue_after=0), False), (Result(waiting="x"), False), (Result(state=1), True)],
)
def test_a_result_is_complete_where_nothing_is_left_to_do(result: Result[Any], complete: bool) -> None:
    assert result.is_complete is complete


@pytest.mark.parametrize("seconds", [None, 0, 0.5, 1e9])
def test_a_result_takes_each_delay(seconds: float | None) -> None:
    assert Result(requeue_after=seconds).requeue_after == seconds


def test_a_request_is_by_default_the_first_of_its_object() -> None:
    request: Request[str, Any] = Request("shop", Cause.CREATED)

    assert request == Request("shop", Cause.CREATED, False, False, None, 0, ())
    assert request != attrs.evolve(request, woken_by=(ObjectRef(CONFIG_MAP, "ns", "a"),))
