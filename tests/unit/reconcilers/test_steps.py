"""PH-7: the next step of an object by what is remembered, what has changed and what exists, row by row."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.reconcilers.controllers import ALL, Feature
from purekube.reconcilers.progress import (
    NOTHING,
    CallController,
    Forget,
    NoOp,
    ObjectProgress,
    ObservedFacts,
    PendingEvent,
    ProgressRules,
    SetFinalizers,
    Step,
    WatcherEvent,
    after_failure,
    after_success,
    next_step,
    observed_facts_of,
    vanished,
)
from purekube.reconcilers.request import Cause

RECONCILER = ProgressRules(ALL, "g/shops", "g/shops")
WATCHER = ProgressRules(ALL - {Feature.CONDITIONS}, "g/begun", "g/kept", tells_changes=True)
BARE = ProgressRules(ALL - {Feature.FINALIZER, Feature.SYNC}, "g/shops", "g/shops")
OTHER, ANOTHER = (ObjectRef(CONFIG_MAP, "ns", name) for name in "ab")

NEW = ObjectProgress("u", is_new=True)
UNKNOWN = ObjectProgress("u")
BEGUN = ObjectProgress("u", begun=True)
KNOWN = ObjectProgress("u", begun=True, notified=True)
RETRYING = attrs.evolve(KNOWN, attempts=1)
STALLED = attrs.evolve(KNOWN, stalled=True)
CLEANED = attrs.evolve(KNOWN, cleaned=True)

CHANGED, WOKEN, RESYNCED = PendingEvent(changed=True), PendingEvent(by=(OTHER,)), PendingEvent(resynced=True)
MINE, THEIRS = ("g/shops",), ("x/y",)


def there(*finalizers: str, **more: Any) -> ObservedFacts:
    return ObservedFacts("u", finalizers, **more)


def going(*finalizers: str) -> ObservedFacts:
    return there(*finalizers, deleting=True)


def called(cause: Cause, event: WatcherEvent, *, settled: bool = False) -> CallController:
    return CallController(cause, event, settled)


ADD, SYNC, UPDATE, DELETE = WatcherEvent.ADD, WatcherEvent.SYNC, WatcherEvent.UPDATE, WatcherEvent.DELETE

OF_RECONCILERS: list[tuple[ObjectProgress, PendingEvent, ObservedFacts | None, Step]] = [
    (KNOWN, CHANGED, None, Forget()),
    # --- the finalizer precedes every call
    (UNKNOWN, CHANGED, there(*THEIRS), SetFinalizers(("x/y", "g/shops"))),
    (KNOWN, CHANGED, there(), SetFinalizers(("g/shops",))),
    (STALLED, NOTHING, there(), SetFinalizers(("g/shops",))),
    # --- the first call
    (NEW, NOTHING, there(*MINE), called(Cause.CREATED, ADD)),
    (NEW, CHANGED, there(*MINE), called(Cause.CREATED, ADD)),
    (UNKNOWN, NOTHING, there(*MINE), called(Cause.SYNCED, SYNC)),
    (UNKNOWN, RESYNCED, there(*MINE, is_ready=True), called(Cause.SYNCED, SYNC, settled=True)),
    (UNKNOWN, CHANGED, there(*MINE, is_ready=True), called(Cause.SYNCED, SYNC)),
    (UNKNOWN, WOKEN, there(*MINE, is_ready=True), called(Cause.SYNCED, SYNC)),
    (NEW, NOTHING, there(*MINE, is_ready=True), called(Cause.CREATED, ADD)),
    # --- later calls, the first cause that applies
    (KNOWN, CHANGED, there(*MINE), called(Cause.CHANGED, UPDATE)),
    (RETRYING, PendingEvent(changed=True, by=(OTHER,)), there(*MINE), called(Cause.CHANGED, UPDATE)),
    (RETRYING, WOKEN, there(*MINE), called(Cause.WOKEN, SYNC)),
    (RETRYING, NOTHING, there(*MINE), called(Cause.RETRIED, SYNC)),
    (KNOWN, NOTHING, there(*MINE, is_ready=True), called(Cause.RESYNCED, SYNC)),
    (KNOWN, RESYNCED, there(*MINE), called(Cause.RESYNCED, SYNC)),
    (BEGUN, NOTHING, there(*MINE), called(Cause.RESYNCED, SYNC)),
    (attrs.evolve(BEGUN, is_new=True), CHANGED, there(*MINE), called(Cause.CHANGED, ADD)),
    # --- stalled: only a change helps
    (STALLED, NOTHING, there(*MINE), NoOp()),
    (STALLED, RESYNCED, there(*MINE), NoOp()),
    (STALLED, CHANGED, there(*MINE), called(Cause.CHANGED, UPDATE)),
    (STALLED, WOKEN, there(*MINE), called(Cause.WOKEN, SYNC)),
    # --- deletion
    (KNOWN, CHANGED, going(*MINE), called(Cause.CHANGED, DELETE)),
    (RETRYING, NOTHING, going(*MINE), called(Cause.RETRIED, DELETE)),
    (UNKNOWN, NOTHING, going(*MINE), called(Cause.SYNCED, DELETE)),
    (NEW, NOTHING, going(*MINE), called(Cause.CREATED, DELETE)),
    (STALLED, RESYNCED, going(*MINE), NoOp()),
    (STALLED, CHANGED, going(*MINE), called(Cause.CHANGED, DELETE)),
    (CLEANED, CHANGED, going("x/y", *MINE), SetFinalizers(("x/y",), last=True)),
    (CLEANED, CHANGED, going(*THEIRS), NoOp()),
    (UNKNOWN, CHANGED, going(*THEIRS), NoOp()),
    (BEGUN, CHANGED, going(*THEIRS), called(Cause.CHANGED, DELETE)),
]


@pytest.mark.parametrize("row", range(len(OF_RECONCILERS)))
def test_each_step_of_a_reconciler_PH_7(row: int) -> None:
    progress, wake, seen, step = OF_RECONCILERS[row]

    assert next_step(RECONCILER, progress, wake, seen) == step


@pytest.mark.parametrize(
    ("progress", "wake", "seen", "step"),
    [
        (NEW, NOTHING, there("x/y"), SetFinalizers(("x/y", "g/begun"))),
        (KNOWN, NOTHING, there("x/y"), SetFinalizers(("x/y", "g/kept"))),
        (KNOWN, NOTHING, there("g/begun", "x/y"), SetFinalizers(("x/y", "g/kept"))),
        (KNOWN, CHANGED, there("g/begun", "g/kept"), called(Cause.CHANGED, UPDATE)),
        (UNKNOWN, NOTHING, there("g/begun"), called(Cause.SYNCED, ADD)),
        (NEW, NOTHING, there("g/begun"), called(Cause.CREATED, ADD)),
        (UNKNOWN, NOTHING, there("g/kept"), called(Cause.SYNCED, SYNC)),
        (KNOWN, NOTHING, there("g/kept"), NoOp()),
        (RETRYING, NOTHING, there("g/kept"), NoOp()),
        (KNOWN, RESYNCED, there("g/kept"), called(Cause.RESYNCED, SYNC)),
        (KNOWN, WOKEN, there("g/kept"), called(Cause.WOKEN, SYNC)),
        (KNOWN, CHANGED, there("g/kept"), called(Cause.CHANGED, UPDATE)),
        (CLEANED, NOTHING, going("g/begun", "x/y", "g/kept"), SetFinalizers(("x/y",), last=True)),
        (CLEANED, NOTHING, going("g/kept"), SetFinalizers((), last=True)),
        (UNKNOWN, NOTHING, going("g/begun"), called(Cause.SYNCED, DELETE)),
    ],
)
def test_each_step_of_a_watcher_PH_7(
    progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts, step: Step
) -> None:
    assert next_step(WATCHER, progress, wake, seen) == step


@pytest.mark.parametrize(
    ("progress", "wake", "seen", "step"),
    [
        (UNKNOWN, NOTHING, there(), called(Cause.CREATED, ADD)),
        (KNOWN, CHANGED, there(), called(Cause.CHANGED, UPDATE)),
        (UNKNOWN, NOTHING, going(), called(Cause.SYNCED, DELETE)),
        (KNOWN, CHANGED, going(), called(Cause.CHANGED, DELETE)),
        (CLEANED, CHANGED, going(), NoOp()),
        (CLEANED, CHANGED, going("g/shops"), SetFinalizers((), last=True)),
    ],
)
def test_each_step_of_a_controller_without_a_finalizer_PH_7(
    progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts, step: Step
) -> None:
    assert not BARE.has_finalizer
    assert next_step(BARE, progress, wake, seen) == step


def test_only_a_call_for_a_deletion_cleans_up() -> None:
    assert [called(Cause.CHANGED, event).deleting for event in WatcherEvent] == [False, False, False, True]


@pytest.mark.parametrize(
    ("progress", "is_told"),
    [
        (KNOWN, True),
        (BEGUN, True),
        (STALLED, True),
        (UNKNOWN, False),
        (CLEANED, False),
        (attrs.evolve(KNOWN, uid="v"), False),
    ],
)
def test_what_vanished_is_told_where_a_call_had_been_made_for_it_PH_7(progress: ObjectProgress, is_told: bool) -> None:
    assert vanished(progress, going()) == (called(Cause.CHANGED, DELETE) if is_told else None)


def test_what_is_remembered_after_a_call_PH_7() -> None:
    before = ObjectProgress("u", is_new=True, attempts=3, stalled=True, state="old")
    update, delete = called(Cause.CHANGED, UPDATE), called(Cause.CHANGED, DELETE)

    done = ObjectProgress("u", is_new=True, begun=True, notified=True, state="new")
    for complete in (False, True):
        assert after_success(before, update, complete=complete, state="new") == done
        assert after_success(before, delete, complete=complete) == attrs.evolve(done, cleaned=complete, state=None)
    failed = attrs.evolve(before, begun=True)
    assert after_failure(before, stalled=False) == attrs.evolve(failed, stalled=False, attempts=4)
    assert after_failure(before, stalled=True) == attrs.evolve(failed, attempts=0)


def test_the_facts_of_an_object_are_read_from_its_metadata() -> None:
    meta = {"uid": "u", "finalizers": ["x/y", "g/shops"], "deletionTimestamp": "now"}

    assert observed_facts_of({"metadata": meta}) == going("x/y", "g/shops")
    assert observed_facts_of({"metadata": {"uid": "u"}}, is_ready=True) == there(is_ready=True)
    assert observed_facts_of({"metadata": {"finalizers": "x/y"}}) == ObservedFacts("")


def test_changes_are_joined_with_the_oldest_state_and_each_waker_once() -> None:
    old, older = {"content": 1}, {"content": 0}
    first = NOTHING.with_change(older).with_waker(OTHER).with_waker(OTHER)

    assert first == PendingEvent(changed=True, by=(OTHER,), old=older)
    assert first.with_change(old).old == older
    assert first.with_waker(ANOTHER).by == (OTHER, ANOTHER)
    later = PendingEvent(changed=True, resynced=True, by=(ANOTHER, OTHER), old=old)
    assert first.before(later) == PendingEvent(True, True, (OTHER, ANOTHER), older)
    assert WOKEN.before(later) == PendingEvent(True, True, (OTHER, ANOTHER), old)
    assert RESYNCED.before(NOTHING) == RESYNCED
    assert RESYNCED.before(None) is RESYNCED
    assert CHANGED.before(WOKEN) == PendingEvent(changed=True, by=(OTHER,))
