"""The progress of an object (what a process remembers about its handling by one controller), which decides the next
step (PH-7).

A call is an invocation of the user's controller for the object; it is complete if it left nothing to do
(`Result.is_complete`). A pass calls `next_step`, carries it out, and repeats until the step is a call or nothing. The
outcome of a call goes to `after_success` or `after_failure`. Nothing here is stored: after a restart the object's
finalizers say what is left.

Guarantees
    The finalizer is set before the first call. It is removed after a complete call for the deletion, without another
    call, however often the removal fails.
    A deletion is reported while the object carries our finalizer. If the object vanished before that, the deletion is
    reported with its last state, provided that this process had made a call for it.
    A failure is not forgotten: only `Terminal`, or a retry policy that returns None, ends the retries.
    A watcher has two finalizers, one after the other: the first until `on_add` has succeeded, so that no restart loses
    the notification.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.reconcilers.controllers import Feature
from purekube.reconcilers.request import Cause
from purekube.reconcilers.watching import finalizers_of


@attrs.frozen
class ProgressRules:
    """The settings of a controller that decide the next step for each of its objects, such as a call of the user's
    code.

    `begun` is the finalizer that an object carries before the first successful call, `kept` the finalizer after that
    call.
    """

    features: frozenset[Feature]
    begun: str
    kept: str
    tells_changes: bool = False
    """True for a watcher: it is called once for each change, and never without a change or resync."""

    @property
    def has_finalizer(self) -> bool:
        """Report whether the controller uses a finalizer."""
        return Feature.FINALIZER in self.features


@attrs.frozen
class ObservedFacts:
    """The facts about an object's current state that decide the next step for it: its uid and finalizers, whether it is
    being deleted, and whether it is ready.
    """

    uid: str
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    is_ready: bool = False
    """True if the object is Ready at its current generation."""


def observed_facts_of(manifest: Manifest, *, is_ready: bool = False) -> ObservedFacts:
    """Return the facts about an object's current state that decide the next step, from its manifest.

    `is_ready` says that the object is Ready at its current generation.
    """
    meta = metadata(manifest)
    return ObservedFacts(
        str(meta.get("uid", "")), finalizers_of(manifest), meta.get("deletionTimestamp") is not None, is_ready
    )


@attrs.frozen
class PendingEvent:
    """The changes since the user's controller was last called for an object.

    `changed` says that the object itself has changed, and `old` is the object before the first of these changes. `by`
    are the changed objects that the object owns or reads. `resynced` says that a resync is due.
    """

    changed: bool = False
    resynced: bool = False
    by: tuple[ObjectRef, ...] = ()
    old: Manifest | None = None

    def with_change(self, old: Manifest | None) -> "PendingEvent":
        """Return the pending changes with one more change of the object itself. `old` is the object before
        that change.
        """
        return attrs.evolve(self, changed=True, old=self.old if self.changed else old)

    def with_waker(self, ref: ObjectRef) -> "PendingEvent":
        """Return the pending changes with a change of `ref`, another object that this object owns or reads."""
        return self if ref in self.by else attrs.evolve(self, by=(*self.by, ref))

    def before(self, later: "PendingEvent | None") -> "PendingEvent":
        """Return these pending changes combined with the changes in `later`, if any."""
        if later is None:
            return self
        return PendingEvent(
            self.changed or later.changed,
            self.resynced or later.resynced,
            tuple(dict.fromkeys((*self.by, *later.by))),
            self.old if self.changed else later.old,
        )


NOTHING = PendingEvent()


@attrs.frozen
class ObjectProgress:
    """The state that this process remembers about one object between calls of the user's controller.

    `uid` identifies the object. `state` is the `Result.state` that the last successful call returned.
    """

    uid: str = ""
    is_new: bool = False
    """True if this process added the first finalizer, so that no process has made a call for the object before."""
    begun: bool = False
    """True if this process has made a call for the object."""
    notified: bool = False
    """True if a call for the object has succeeded."""
    cleaned: bool = False
    """True if a call for the object's deletion has left nothing to do."""
    stalled: bool = False
    """True if only a change can help, since the last call raised `Terminal` or the object cannot be read."""
    attempts: int = 0
    """The number of failed calls in a row."""
    state: Any = None


class WatcherEvent(StrEnum):
    """The notifications that a watcher can get: each is one method of `Watcher`."""

    ADD = "add"
    SYNC = "sync"
    UPDATE = "update"
    DELETE = "delete"


@attrs.frozen
class Forget:
    """The step for an object that no longer exists: drop all state that this process remembers about the object."""


@attrs.frozen
class NoOp:
    """The step that does nothing."""


@attrs.frozen
class SetFinalizers:
    """The step that sets the object's finalizers to `finalizers`. The next step is decided after this write.

    `last` says that the object may be gone after the write.
    """

    finalizers: tuple[str, ...]
    last: bool = False


@attrs.frozen
class CallController:
    """The step that calls the user's controller for the object: `reconcile`, or the watcher's method for
    `watcher_event`.

    `cause` says why. `settled` says that the object was Ready at this generation before this process began, and that
    nothing that is watched has changed.
    """

    cause: Cause
    watcher_event: WatcherEvent
    settled: bool = False

    @property
    def deleting(self) -> bool:
        """Report whether the object is being deleted or is gone, so that the call must clean up."""
        return self.watcher_event is WatcherEvent.DELETE


Step: TypeAlias = Forget | NoOp | SetFinalizers | CallController


def progress_of(progress: ObjectProgress, seen: ObservedFacts) -> ObjectProgress:
    """Return `progress`, what this process remembers about an object, if it is about the object `seen`, as the uids
    show. If it is about an earlier object of that name, return new, empty progress.
    """
    return progress if progress.uid == seen.uid else ObjectProgress(seen.uid)


def next_step(rules: ProgressRules, progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts | None) -> Step:
    """Return the next step (action) for an object, such as a call of the user's controller.

    `rules` are the controller's settings, and `progress` is what this process remembers about the object. `wake` has
    the object's pending changes; `seen` is None if the object does not exist.
    """
    if seen is None:
        return Forget()
    ours = [name for name in dict.fromkeys((rules.begun, rules.kept)) if name in seen.finalizers]
    if seen.deleting:
        return _terminating(rules, progress, wake, seen, bool(ours))
    if rules.has_finalizer and not ours:
        return SetFinalizers((*seen.finalizers, rules.kept if progress.notified else rules.begun))
    if rules.has_finalizer and progress.notified and rules.kept not in ours:
        left = (name for name in seen.finalizers if name != rules.begun)
        return SetFinalizers((*left, rules.kept))
    return _existing(rules, progress, wake, seen)


def _terminating(
    rules: ProgressRules, progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts, is_held: bool
) -> Step:
    if progress.cleaned:
        left = tuple(name for name in seen.finalizers if name not in (rules.begun, rules.kept))
        return SetFinalizers(left, last=True) if is_held else NoOp()
    if rules.has_finalizer and not is_held and not progress.begun:
        return NoOp()  # no call was made for it
    if _is_settled(progress, wake):
        return NoOp()
    return CallController(_cause(rules, progress, wake, seen), WatcherEvent.DELETE)


def _existing(rules: ProgressRules, progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts) -> Step:
    if _is_settled(progress, wake):
        return NoOp()
    cause = _cause(rules, progress, wake, seen)
    watcher_event = _watcher_event(rules, progress, wake, seen)
    if watcher_event is None:
        return NoOp()
    settled = cause is Cause.SYNCED and seen.is_ready and not wake.changed and not wake.by
    return CallController(cause, watcher_event, settled)


def _is_settled(progress: ObjectProgress, wake: PendingEvent) -> bool:
    """Report whether an object is stalled and unchanged, so that a resync does not lead to another call."""
    return progress.stalled and not wake.changed and not wake.by


def _cause(rules: ProgressRules, progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts) -> Cause:
    if not progress.begun:
        is_old = Feature.SYNC in rules.features and not progress.is_new
        return Cause.SYNCED if is_old or (seen.deleting and not progress.is_new) else Cause.CREATED
    if wake.changed:
        return Cause.CHANGED
    if wake.by:
        return Cause.WOKEN
    return Cause.RETRIED if progress.attempts else Cause.RESYNCED


def _watcher_event(
    rules: ProgressRules, progress: ObjectProgress, wake: PendingEvent, seen: ObservedFacts
) -> WatcherEvent | None:
    if not progress.notified:
        added = rules.kept in seen.finalizers if rules.begun != rules.kept else not progress.is_new
        return WatcherEvent.SYNC if added and Feature.SYNC in rules.features else WatcherEvent.ADD
    if wake.changed:
        return WatcherEvent.UPDATE
    return WatcherEvent.SYNC if wake.resynced or wake.by or not rules.tells_changes else None


def vanished(progress: ObjectProgress, last: ObservedFacts) -> CallController | None:
    """Return the step that reports a deletion to the user's controller, for an object that vanished from the cluster
    before its deletion was handled. `last` is the object's last state, and `progress` is what this process remembers
    about the object.

    Return None if the controller has handled the deletion already, if this process never called it for the object, or
    if `progress` is about another object.
    """
    if progress.uid != last.uid or not progress.begun or progress.cleaned:
        return None
    return CallController(Cause.CHANGED, WatcherEvent.DELETE)


# --- the effect of a step or a call ----------------------------------------------------------------------------------


def before_finalizers(rules: ProgressRules, progress: ObjectProgress, step: SetFinalizers) -> ObjectProgress:
    """Return `progress`, what this process remembers about an object, as it must be before `step` is carried out.

    `step` is a write of finalizers. If it adds the controller's first finalizer, the result has `is_new` set: no
    process has called the controller for the object. This is set before the write, since the server's response may be
    lost.
    """
    is_first = not step.last and rules.begun in step.finalizers and not progress.begun
    return attrs.evolve(progress, is_new=progress.is_new or is_first)


def after_success(
    progress: ObjectProgress, call: CallController, *, complete: bool, state: Any = None
) -> ObjectProgress:
    """Return what this process remembers about an object after the successful call `call` of the user's controller.

    `progress` is what it remembered before. `complete` says that the call left nothing to do; a deletion is then
    handled, and the finalizer may be removed. `state` is what the call returned for the next call.
    """
    cleaned = call.deleting and complete
    return attrs.evolve(progress, begun=True, notified=True, cleaned=cleaned, stalled=False, attempts=0, state=state)


def after_failure(progress: ObjectProgress, *, stalled: bool) -> ObjectProgress:
    """Return what this process remembers about an object after a failed call of the user's controller.

    `progress` is what it remembered before. The state that the last successful call returned is kept. `stalled` says
    that no retry follows, because only a change can help.
    """
    return attrs.evolve(progress, begun=True, stalled=stalled, attempts=0 if stalled else progress.attempts + 1)
