"""Retry policies, filters, causes and outcomes of reconcilers and watchers, as laws (PH-7)."""

import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT, JOB, SECRET
from purekube.controller.decision import Requeue, RequeuePace
from purekube.reconcilers import EXPONENTIAL, Backoff, Cause, Constant, Filters, Never, Result, Terminal, Watcher
from purekube.reconcilers.controllers import ALL, Feature, controller_access, declared_verbs, requests_api
from purekube.reconcilers.outcome import (
    CallOutcome,
    Ended,
    Late,
    Raised,
    Returned,
    Unread,
    consequences_of,
    failure_text,
    raised,
)
from purekube.reconcilers.progress import (
    NOTHING,
    CallController,
    ObjectProgress,
    PendingEvent,
    ProgressRules,
    WatcherEvent,
)
from purekube.reconcilers.request import RetryPolicy, delay_of

RULES = ProgressRules(ALL, "g/shops", "g/shops")
CALL = CallController(Cause.CHANGED, WatcherEvent.UPDATE)
ATTEMPTS = st.integers(1, 10_000)
JITTER = st.floats(0, 1, exclude_max=True)


# --- retry policies --------------------------------------------------------------------------------------------------


@given(ATTEMPTS, JITTER, st.floats(0.01, 10), st.floats(10, 3600))
def test_exponential_retries_stay_between_base_and_cap_and_grow(
    attempt: int, jitter: float, base: float, cap: float
) -> None:
    policy = Backoff(base, cap)
    seconds = delay_of(policy, attempt, jitter)
    assert seconds is not None
    assert base <= seconds <= cap
    after = delay_of(policy, attempt + 1, 0.0)
    assert after is not None
    assert after >= (delay_of(policy, attempt, 0.0) or 0.0)


@given(ATTEMPTS)
def test_jitter_spreads_what_failed_together(attempt: int) -> None:
    early, late = (delay_of(EXPONENTIAL, attempt, jitter) for jitter in (0.0, 0.999))
    assert early is not None
    assert late is not None
    assert late - early >= 0.4 * late


@given(ATTEMPTS, JITTER, st.floats(0, 1e6))
def test_constant_retries_are_constant_and_never_is_never(attempt: int, jitter: float, seconds: float) -> None:
    assert delay_of(Constant(seconds), attempt, jitter) == seconds
    assert delay_of(Never(), attempt, jitter) is None


class Odd:
    """A policy of somebody's own that gives anything."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def delay(self, attempt: int, jitter: float) -> float | None:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given  # type: ignore[no-any-return]


@given(st.sampled_from([math.nan, math.inf, -1.0, "soon", ValueError("no")]), ATTEMPTS, JITTER)
def test_a_policy_that_gives_nonsense_loses_no_retry(given_: Any, attempt: int, jitter: float) -> None:
    assert delay_of(Odd(given_), attempt, jitter) == EXPONENTIAL.delay(attempt, jitter)


# --- filters ---------------------------------------------------------------------------------------------------------

TEXTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=2)
OBJECTS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "generation": st.integers(1, 3),
                "labels": TEXTS,
                "annotations": TEXTS,
                "finalizers": st.lists(st.sampled_from("fg"), unique=True),
                "deletionTimestamp": st.just("2026-01-01T00:00:00Z"),
                "resourceVersion": st.sampled_from("12"),
            },
        ),
        "spec": TEXTS,
        "status": TEXTS,
    }
)
FILTERS = st.builds(
    Filters,
    generation=st.booleans(),
    labels=st.booleans() | st.sets(st.sampled_from("abc")),
    annotations=st.booleans() | st.sets(st.sampled_from("abc")),
    finalizers=st.sets(st.sampled_from("fg")),
    predicate=st.sampled_from([None, lambda old, new: False, lambda old, new: 1 / 0]),
)


@given(FILTERS, OBJECTS, OBJECTS)
def test_a_deletion_is_never_filtered(filters: Filters, old: Any, new: Any) -> None:
    old["metadata"].pop("deletionTimestamp", None)
    new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert filters.passes(old, new)


@given(OBJECTS, OBJECTS)
def test_only_what_counts_passes_the_filters(old: Any, new: Any) -> None:
    for one in (old, new):
        one["metadata"].setdefault("generation", 1)
    quiet = {**new, "metadata": {**old["metadata"], "resourceVersion": "9", "finalizers": ["h"]}}
    assert not Filters().passes(old, quiet), "the same generation, labels and annotations"
    changed = any(
        (old["metadata"].get(name) or None) != (new["metadata"].get(name) or None)
        for name in ("generation", "labels", "annotations", "deletionTimestamp")
    )
    assert Filters().passes(old, new) is changed


@given(OBJECTS, OBJECTS)
def test_a_kind_without_generation_is_compared_by_its_content(old: Any, new: Any) -> None:
    for one in (old, new):
        one["metadata"] = {"resourceVersion": one["metadata"].get("resourceVersion", "1")}
    assert Filters().passes(old, new) is (old["spec"] != new["spec"])


@given(FILTERS, OBJECTS, OBJECTS)
def test_a_predicate_only_ever_lets_more_through(filters: Filters, old: Any, new: Any) -> None:
    plain = Filters(filters.generation, filters.labels, filters.annotations, filters.finalizers)
    if plain.passes(old, new):
        assert filters.passes(old, new)


# --- wakes -----------------------------------------------------------------------------------------------------------

WAKES = st.builds(PendingEvent, changed=st.booleans(), resynced=st.booleans(), old=st.none())


@given(WAKES, WAKES, WAKES)
def test_wakes_join_in_any_grouping_and_nothing_is_lost(
    first: PendingEvent, second: PendingEvent, third: PendingEvent
) -> None:
    assert first.before(second).before(third) == first.before(second.before(third))
    assert NOTHING.before(first) == first.before(None) == first
    assert first.before(second).changed is (first.changed or second.changed)


@given(st.lists(st.integers(), min_size=1))
def test_several_changes_are_told_as_one_from_the_first_old_state(olds: list[int]) -> None:
    wake = NOTHING
    for old in olds:
        wake = wake.with_change({"content": old})
    assert wake.old == {"content": olds[0]}


# --- outcomes --------------------------------------------------------------------------------------------------------

RESULTS = st.builds(Result, requeue_after=st.none() | st.floats(0, 1e6), waiting=st.sampled_from(["", "x"]))
OUTCOMES: st.SearchStrategy[CallOutcome] = st.one_of(
    st.builds(
        Returned, st.builds(Result, requeue_after=st.none() | st.floats(0, 1e6), waiting=st.sampled_from(["", "x"]))
    ),
    st.builds(Raised, st.text(), st.floats(0, 1000)),
    st.just(Ended("TooLarge", "at most 50")),
    st.just(Late(60.0)),
    st.just(Unread("spec: is required")),
)
LIVES = st.builds(
    ObjectProgress,
    uid=st.just("u"),
    begun=st.booleans(),
    notified=st.booleans(),
    attempts=st.integers(0, 50),
    state=st.text(),
)
POLICIES: st.SearchStrategy[RetryPolicy] = st.sampled_from([EXPONENTIAL, Constant(3.0), Never()])


@given(OUTCOMES, LIVES, POLICIES, st.booleans())
def test_conditions_agree_with_what_follows(
    outcome: CallOutcome, progress: ObjectProgress, retry: RetryPolicy, deleting: bool
) -> None:
    call = CallController(Cause.CHANGED, WatcherEvent.DELETE) if deleting else CALL
    came = consequences_of(RULES, progress, call, outcome, retry=retry, key="shop")
    if came.conditions is None:
        assert deleting
        assert came.progress.cleaned
        return
    said = {condition.type: condition.status for condition in came.conditions}
    assert set(said) == {"Ready", "Reconciling", "Stalled"}
    assert [*said.values()].count(ConditionStatus.TRUE) == 1, "one of the three says how it stands"
    is_failure = not isinstance(outcome, Returned)
    assert (came.error is not None) is is_failure
    if said["Ready"] is ConditionStatus.TRUE:
        assert came.requeue.pace is RequeuePace.NONE
    if said["Stalled"] is ConditionStatus.TRUE:
        assert came.requeue == Requeue.NO
    if is_failure:
        assert came.progress.state == progress.state, "what the last good call gave is kept"
        assert (came.requeue.pace is RequeuePace.TOLD) is (said["Reconciling"] is ConditionStatus.TRUE)
    assert not came.progress.cleaned


@given(LIVES, POLICIES, st.floats(0, 1000))
def test_a_server_that_asks_to_be_left_alone_is(progress: ObjectProgress, retry: RetryPolicy, seconds: float) -> None:
    outcome = raised(Unavailable("busy", retry_after=seconds))
    came = consequences_of(RULES, progress, CALL, outcome, retry=retry, key="shop")
    assert came.requeue.after is None or came.requeue.after >= seconds


@given(LIVES, st.floats(0, 100))
def test_without_the_promise_nothing_is_retried(progress: ObjectProgress, seconds: float) -> None:
    rules = ProgressRules(ALL - {Feature.RETRY}, "g/s", "g/s")
    came = consequences_of(rules, progress, CALL, Raised("no"), retry=Constant(seconds), key="shop")
    assert came.requeue == Requeue.NO


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, "5", True])
def test_a_result_refuses_what_is_no_delay(seconds: Any) -> None:
    with pytest.raises(ValueError, match="requeue_after must be seconds"):
        Result(requeue_after=seconds)


@pytest.mark.parametrize("reason", ["", "too large", "1st", "with\nline"])
def test_a_terminal_refuses_what_is_no_reason(reason: str) -> None:
    with pytest.raises(ValueError, match="in CamelCase"):
        Terminal(reason)


class Nameless(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("password=hunter22"), "RuntimeError: password=***"),
        (KeyError(), "KeyError"),
        (Nameless(), "Nameless"),
        (ExceptionGroup("g", [ValueError("a"), KeyError("b")]), "ExceptionGroup: ValueError: a; KeyError: 'b'"),
        (Unavailable("no answer"), "no answer"),
    ],
)
def test_the_text_of_an_error_is_short_and_shows_no_secret(error: Exception, text: str) -> None:
    assert raised(error) == Raised(text)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Returned(Result()), ""),
        (Raised("KeyError: 'a'", 3.0), "KeyError: 'a'"),
        (Ended("Bad", "no such image"), "no such image"),
        (Ended("Bad", ""), "Bad"),
        (Late(0.5), "the call was cancelled after 0.5 s"),
        (Unread("spec.a: is required"), "spec.a: is required"),
    ],
)
def test_each_call_that_failed_says_why(outcome: CallOutcome, told: str) -> None:
    assert failure_text(outcome) == told


# --- rights ----------------------------------------------------------------------------------------------------------

READ = frozenset(("get", "list", "watch"))
WRITE = frozenset(("create", "update", "patch", "delete"))


class Quiet(Watcher[Any]):
    """Looks after Secrets, makes Jobs, and asks the API nothing."""

    kind = SECRET
    owns = (JOB,)
    reads = (CONFIG_MAP, JOB)


@attrs.frozen
class Asking(Quiet):
    """The same with an API of its own."""

    api: Any = None


def test_a_controller_may_read_what_it_looks_at_and_write_what_it_owns() -> None:
    assert declared_verbs(Asking()) == {SECRET: READ, CONFIG_MAP: READ, JOB: READ | WRITE}


def test_only_a_controller_that_asks_for_an_api_needs_more_than_its_passes_and_caches() -> None:
    assert (requests_api(Asking()), requests_api(Asking), requests_api(Quiet())) == (True, True, False)
    quiet, asking = (
        {(access.kind, access.resource, verb) for access in controller_access([one]) for verb in access.verbs}
        for one in (Quiet(), Asking())
    )

    assert quiet == {
        *((CUSTOM_RESOURCE_DEFINITION, "customresourcedefinitions", verb) for verb in ("list", "watch")),
        *((EVENT, "events", verb) for verb in ("create", "patch")),
        *((kind, kind.plural, verb) for kind in (SECRET, CONFIG_MAP, JOB) for verb in ("list", "watch")),
        (SECRET, "secrets/finalizers", "update"),
    }
    assert asking - quiet == {
        *((kind, kind.plural, "get") for kind in (SECRET, CONFIG_MAP, JOB)),
        *((JOB, "jobs", verb) for verb in WRITE),
    }
