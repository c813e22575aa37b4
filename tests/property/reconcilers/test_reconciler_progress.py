"""The life of an object, as a machine against a small model of an API server (L27, PH-7).

The machine decides, the model writes: calls fail before or after their effect, processes end between any two steps,
people edit, delete, and take finalizers off. What a process knows goes with it; what the server has stays.
"""

from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
    WatcherEvent,
    after_failure,
    after_success,
    before_finalizers,
    next_step,
    progress_of,
    vanished,
)
from purekube.reconcilers.request import Cause
from tests.support.attack import attack, in_chunks

RECONCILER = ProgressRules(ALL, "g/shops", "g/shops")
WATCHER = ProgressRules(ALL - {Feature.CONDITIONS}, "g/audit-begun", "g/audit", tells_changes=True)
OTHERS = "other.example/keep"


@attrs.frozen
class Stored:
    """An object at the server. `content` counts its edits."""

    uid: str
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    content: int = 0


@attrs.define
class Told:
    """What one incarnation's calls came to, over all processes."""

    begun: bool = False
    at: int | None = None
    added: bool = False
    deletions: int = 0


class Lives(RuleBasedStateMachine):
    """Safety at every step, and everything told once there is peace."""

    keeps = RECONCILER

    @initialize(is_watcher=st.booleans())
    def begin(self, is_watcher: bool) -> None:
        self.keeps = WATCHER if is_watcher else RECONCILER
        self.stored: Stored | None = None
        self.number = 0
        self.replacing = False
        self.notified: dict[str, Told] = {}
        self.deleted: set[str] = set()
        self.forced: set[str] = set()
        self._start()

    def _start(self) -> None:
        self.progress, self.wake, self.gone = ObjectProgress(), NOTHING, list[Stored]()
        self.queued = True

    # --- people ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.stored is None)
    @rule(held=st.booleans())
    def create(self, held: bool) -> None:
        self.number += 1
        self.stored = Stored(f"uid-{self.number}", (OTHERS,) if held else ())
        self.queued = True

    @precondition(lambda self: self.stored is not None and not self.stored.deleting)
    @rule()
    def edit(self) -> None:
        assert self.stored is not None
        old = self.stored
        self.stored = attrs.evolve(old, content=old.content + 1)
        self._woken(old)

    def _woken(self, old: Stored) -> None:
        self.wake = self.wake.with_change({"content": old.content})
        self.queued = True

    @precondition(lambda self: self.stored is not None)
    @rule()
    def delete(self) -> None:
        assert self.stored is not None
        self.deleted.add(self.stored.uid)
        if not self.stored.deleting:
            self._woken(self.stored)
        self._store(attrs.evolve(self.stored, deleting=True))

    @precondition(lambda self: self.stored is not None)
    @rule()
    def replace(self) -> None:
        """Another one of its name comes in the moment in which it goes."""
        self.replacing = True
        self.delete()

    @precondition(lambda self: self.stored is not None)
    @rule(ours=st.booleans())
    def take_finalizers_off(self, ours: bool) -> None:
        """Somebody does it by hand, theirs or ours."""
        assert self.stored is not None
        names = {self.keeps.begun, self.keeps.kept} if ours else {OTHERS}
        if ours and names & set(self.stored.finalizers):
            self.forced.add(self.stored.uid)
            self._woken(self.stored)
        left = tuple(name for name in self.stored.finalizers if name not in names)
        self._store(attrs.evolve(self.stored, finalizers=left))

    def _store(self, stored: Stored) -> None:
        self.stored = stored
        if stored.deleting and not stored.finalizers:
            self.stored = None
            self.queued = True
            if self.progress.uid == stored.uid and self.progress.begun and not self.progress.cleaned:
                self.gone.append(stored)
            if self.replacing:
                self.replacing = False
                self.create(held=False)

    # --- the process -------------------------------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self._start()

    @rule(outcome=st.sampled_from(("well", "incomplete", "failed", "stalled", "ended")))
    def work(self, outcome: str) -> None:
        self._step(outcome, lost=False)

    @rule()
    def settle(self) -> None:
        """Everything goes well until nothing is left to do."""
        for _ in range(20):
            if self.queued:
                self._step("well", lost=False)

    @rule(after=st.booleans())
    def work_with_a_lost_answer(self, after: bool) -> None:
        """A write fails, before or after it had its effect."""
        self._step("well", lost=True, effect=after)

    def _step(self, outcome: str, *, lost: bool, effect: bool = True) -> None:
        """One step of a pass, which is over when there is nothing to do but to call once more."""
        self.queued = False
        if self.gone:
            self._step_gone(outcome)
            return
        seen = None if self.stored is None else self._seen(self.stored)
        if seen is not None:
            self.progress = progress_of(self.progress, seen)
        match next_step(self.keeps, self.progress, self.wake, seen):
            case Forget():
                self.progress, self.wake = ObjectProgress(), NOTHING
            case NoOp():
                self.wake = NOTHING
            case SetFinalizers() as step:
                assert self.stored is not None
                assert OTHERS not in self.stored.finalizers or OTHERS in step.finalizers, "others' finalizers stay"
                self.progress = before_finalizers(self.keeps, self.progress, step)
                self.queued = True
                if not lost or effect:
                    self._store(attrs.evolve(self.stored, finalizers=step.finalizers))
            case CallController() as call:
                assert self.stored is not None
                self._call(call, self.stored, outcome)
                self._finish()

    def _finish(self) -> None:
        """After a call the pass goes on only to write finalizers."""
        if self.stored is not None and self.progress.uid == self.stored.uid:
            step = next_step(self.keeps, self.progress, self.wake, self._seen(self.stored))
            self.queued |= isinstance(step, SetFinalizers)

    def _step_gone(self, outcome: str) -> None:
        last = self.gone[0]
        call = vanished(self.progress, self._seen(last))
        assert call is not None, "it had been begun with, and nobody had cleaned up"
        self._call(call, last, outcome)
        if self.progress.cleaned or self.progress.stalled:
            self.gone.pop(0)
            self.progress = ObjectProgress()
        self.queued = True

    def _call(self, call: CallController, stored: Stored, outcome: str) -> None:
        told = self.notified.setdefault(stored.uid, Told())
        ours = {self.keeps.begun, self.keeps.kept} & set(stored.finalizers)
        assert ours or call.deleting, "the finalizer is on before a call"
        assert not call.settled or (call.cause is Cause.SYNCED and not call.deleting and not self.wake.changed)
        assert call.deleting == (stored.deleting or bool(self.gone))
        if call.cause is Cause.CREATED:
            assert not told.begun or self.forced, "created is told of what nobody had begun with"
        told.begun = True
        wake, self.wake = self.wake, NOTHING
        if outcome == "ended":
            self._start()
            return
        if outcome in ("failed", "stalled"):
            self.progress = after_failure(self.progress, stalled=outcome == "stalled")
            self.queued |= outcome == "failed"
            self.wake = wake if self.keeps.tells_changes else NOTHING
            return
        complete = outcome == "well"
        self.queued |= not complete
        self.progress = after_success(self.progress, call, complete=complete, state=self.number)
        if call.watcher_event is WatcherEvent.UPDATE:
            assert wake.changed
        told.at = stored.content
        told.added |= call.watcher_event is WatcherEvent.ADD
        told.deletions += call.deleting and complete

    def _seen(self, stored: Stored) -> ObservedFacts:
        return ObservedFacts(stored.uid, stored.finalizers, stored.deleting, is_ready=True)

    # --- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_goes_before_it_was_told(self) -> None:
        if not hasattr(self, "notified"):
            return
        there = self.stored.uid if self.stored is not None else ""
        waiting = {one.uid for one in self.gone}
        for uid, told in self.notified.items():
            if uid != there and uid not in waiting and uid not in self.forced:
                assert told.deletions, "it went while our finalizer stood on it, and nobody was told"

    def teardown(self) -> None:
        if not hasattr(self, "notified"):
            return
        if self.stored is not None and self.progress.stalled:
            self._woken(self.stored)
        for _ in range(20):
            if not self.queued:
                break
            self._step("well", lost=False)
        assert not self.queued, "it never comes to rest"
        if self.stored is not None:
            self._is_told(self.stored)

    def _is_told(self, stored: Stored) -> None:
        ours = [name for name in stored.finalizers if name in (self.keeps.begun, self.keeps.kept)]
        if stored.deleting:
            assert not ours, "what is left of it is others'"
            return
        told: Any = self.notified[stored.uid]
        assert told.at == stored.content, "it was told at its last state"
        assert ours == [self.keeps.kept]
        assert not self.keeps.tells_changes or told.added or self.forced, "an add is told, whatever happened"


@pytest.mark.slow
@in_chunks(25)
def test_the_life_of_an_object_of_a_reconciler_or_watcher(chunk: int, runs: int) -> None:
    attack(Lives, chunk, runs)


@given(
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from(["g/audit-begun", "g/audit", OTHERS]), max_size=3, unique=True),
)
def test_an_object_is_new_from_the_first_step_that_adds_our_first_finalizer(
    begun: bool, is_new: bool, last: bool, finalizers: list[str]
) -> None:
    progress = ObjectProgress(begun=begun, is_new=is_new)
    found = before_finalizers(WATCHER, progress, SetFinalizers(tuple(finalizers), last=last))
    assert found.is_new is (is_new or (not last and not begun and WATCHER.begun in finalizers))
    assert attrs.evolve(found, is_new=is_new) == progress


@given(st.builds(ObjectProgress, st.sampled_from("ab"), begun=st.booleans(), attempts=st.integers(0, 3)))
def test_what_is_remembered_is_of_one_object_and_not_of_the_next_of_its_name(progress: ObjectProgress) -> None:
    assert progress_of(progress, ObservedFacts(progress.uid, (), False)) is progress
    assert progress_of(progress, ObservedFacts("another", (), False)) == ObjectProgress("another")


FLAGS = st.booleans()
PROGRESS = st.builds(
    ObjectProgress, st.just("a"), FLAGS, FLAGS, FLAGS, FLAGS, FLAGS, st.integers(0, 2), state=st.none()
)
FINALIZERS = st.sampled_from([(), (OTHERS,), ("g/audit", OTHERS), ("g/audit-begun",), ("g/shops",)])
SEEN = st.none() | st.builds(ObservedFacts, st.just("a"), FINALIZERS, FLAGS, FLAGS)
WAKES = st.builds(PendingEvent, FLAGS, FLAGS, st.sampled_from([(), (ObjectRef(CONFIG_MAP, "ns", "other"),)]))


@given(st.sampled_from([RECONCILER, WATCHER]), PROGRESS, WAKES, SEEN)
@example(WATCHER, ObjectProgress("a", begun=True, notified=True), NOTHING, ObservedFacts("a", ("g/audit",)))
@example(RECONCILER, ObjectProgress("a", begun=True, stalled=True), NOTHING, ObservedFacts("a", ("g/shops",)))
def test_there_is_a_step_for_whatever_is_seen(
    rules: ProgressRules, progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts | None
) -> None:
    step = next_step(rules, progress, wake, seen)

    assert isinstance(step, Forget | NoOp | SetFinalizers | CallController)
    assert isinstance(step, Forget) == (seen is None)


@pytest.mark.parametrize("features", [ALL, ALL - {Feature.SYNC}])
@pytest.mark.parametrize("was_there", [True, False])
def test_an_object_is_synced_where_another_process_had_it_and_added_otherwise(
    features: frozenset[Feature], was_there: bool
) -> None:
    expected = WatcherEvent.SYNC if was_there and Feature.SYNC in features else WatcherEvent.ADD
    for rules in (attrs.evolve(RECONCILER, features=features), attrs.evolve(WATCHER, features=features)):
        held = ("g/audit-begun", "g/audit") if was_there else ("g/audit-begun",)
        seen = ObservedFacts("a", ("g/shops",) if rules.kept == "g/shops" else held)
        step = next_step(rules, ObjectProgress("a", is_new=not was_there), NOTHING, seen)

        assert isinstance(step, CallController)
        assert step.watcher_event is expected


@given(FLAGS, FLAGS, st.sampled_from([(), (ObjectRef(CONFIG_MAP, "ns", "other"),)]), FLAGS)
def test_a_first_call_is_settled_where_the_object_was_ready_and_nothing_has_changed(
    is_ready: bool, changed: bool, by: tuple[ObjectRef, ...], was_there: bool
) -> None:
    seen = ObservedFacts("a", ("g/shops",), is_ready=is_ready)
    step = next_step(RECONCILER, ObjectProgress("a", is_new=not was_there), PendingEvent(changed, by=by), seen)

    assert isinstance(step, CallController)
    assert step.settled is (was_there and is_ready and not changed and not by)
