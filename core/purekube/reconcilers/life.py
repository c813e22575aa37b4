"""The progress of an object under one controller, which decides the next step (PH-7).

A pass calls `next_step`, carries it out, and repeats until the step is a call or nothing. The outcome of a call goes to
`after_success` or `after_failure`. Nothing here is stored: after a restart the object's finalizers say what is left.

Guarantees
    The finalizer is on before the first call. It is removed after a complete call for the deletion, without another
    call, however often the removal fails.
    A deletion is reported while the object carries our finalizer; and if it vanished without one, from its last state,
    provided that this process had begun with it.
    A failure is not forgotten: only `Terminal`, or a policy that says so, ends the retries.
    A watcher has two finalizers, one after the other: the first until `on_add` has succeeded, so that no restart loses
    the notification.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.reconcilers.controllers import Promise
from purekube.reconcilers.request import Cause
from purekube.reconcilers.watching import finalizers_of


@attrs.frozen
class LifeRules:
    """The rules of a controller. `begun` is its finalizer before the first successful call, `kept` the one after it."""

    promises: frozenset[Promise]
    begun: str
    kept: str
    tells_changes: bool = False
    """True for a watcher: it is notified of each change once, and not called without one."""

    @property
    def has_finalizer(self) -> bool:
        """Report whether the controller puts finalizers on objects."""
        return Promise.FINALIZER in self.promises


@attrs.frozen
class Seen:
    """The relevant facts of an object's current state."""

    uid: str
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    is_ready: bool = False
    """True if it is Ready at its current generation."""


def seen_of(manifest: Manifest, *, is_ready: bool = False) -> Seen:
    """Return the relevant facts of a manifest."""
    meta = metadata(manifest)
    return Seen(str(meta.get("uid", "")), finalizers_of(manifest), meta.get("deletionTimestamp") is not None, is_ready)


@attrs.frozen
class Wake:
    """The changes since the last call. `old` is the object before the first change that was not reported."""

    changed: bool = False
    resynced: bool = False
    by: tuple[ObjectRef, ...] = ()
    old: Manifest | None = None

    def with_change(self, old: Manifest | None) -> "Wake":
        """Return the changes plus one more change of the object."""
        return attrs.evolve(self, changed=True, old=self.old if self.changed else old)

    def with_waker(self, ref: ObjectRef) -> "Wake":
        """Return the changes plus a change of another object."""
        return self if ref in self.by else attrs.evolve(self, by=(*self.by, ref))

    def before(self, later: "Wake | None") -> "Wake":
        """Combine two sets of changes, this one being the earlier."""
        if later is None:
            return self
        return Wake(
            self.changed or later.changed,
            self.resynced or later.resynced,
            tuple(dict.fromkeys((*self.by, *later.by))),
            self.old if self.changed else later.old,
        )


NOTHING = Wake()


@attrs.frozen
class Life:
    """This process's knowledge of one incarnation of an object."""

    uid: str = ""
    is_new: bool = False
    """True if this process has seen it without our finalizer: no process had begun with it."""
    begun: bool = False
    """True if a call was made for it."""
    told: bool = False
    """True if a call for it succeeded."""
    cleaned: bool = False
    """True if the call for its deletion is complete."""
    stalled: bool = False
    """True if only a change helps."""
    attempts: int = 0
    """The number of failures in a row."""
    state: Any = None


class Telling(StrEnum):
    """The notifications of a watcher."""

    ADD = "add"
    SYNC = "sync"
    UPDATE = "update"
    DELETE = "delete"


@attrs.frozen
class Forget:
    """The step after the object is gone: forget all that is known of it."""


@attrs.frozen
class Rest:
    """The step when there is nothing to do."""


@attrs.frozen
class SetFinalizers:
    """The step that writes these finalizers on the object; then ask again.

    `last`: the object may be gone afterwards.
    """

    finalizers: tuple[str, ...]
    last: bool = False


@attrs.frozen
class Call:
    """The step that calls the controller."""

    cause: Cause
    telling: Telling
    settled: bool = False

    @property
    def deleting(self) -> bool:
        """Report whether the call is for a deletion, and has to clean up."""
        return self.telling is Telling.DELETE


Step: TypeAlias = Forget | Rest | SetFinalizers | Call


def life_of(life: Life, seen: Seen) -> Life:
    """Return what is known of this incarnation; knowledge of another one under the same name does not count."""
    return life if life.uid == seen.uid else Life(seen.uid)


def next_step(rules: LifeRules, life: Life, wake: Wake, seen: Seen | None) -> Step:
    """Decide the next step for an object, None if it is gone. `life` belongs to its incarnation."""
    if seen is None:
        return Forget()
    ours = [name for name in dict.fromkeys((rules.begun, rules.kept)) if name in seen.finalizers]
    if seen.deleting:
        return _going(rules, life, wake, seen, bool(ours))
    if rules.has_finalizer and not ours:
        return SetFinalizers((*seen.finalizers, rules.kept if life.told else rules.begun))
    if rules.has_finalizer and life.told and rules.kept not in ours:
        left = (name for name in seen.finalizers if name != rules.begun)
        return SetFinalizers((*left, rules.kept))
    return _there(rules, life, wake, seen)


def _going(rules: LifeRules, life: Life, wake: Wake, seen: Seen, is_held: bool) -> Step:
    if life.cleaned:
        left = tuple(name for name in seen.finalizers if name not in (rules.begun, rules.kept))
        return SetFinalizers(left, last=True) if is_held else Rest()
    if rules.has_finalizer and not is_held and not life.begun:
        return Rest()  # no call was made for it
    if _rests(life, wake):
        return Rest()
    return Call(_cause(rules, life, wake, seen), Telling.DELETE)


def _there(rules: LifeRules, life: Life, wake: Wake, seen: Seen) -> Step:
    if _rests(life, wake):
        return Rest()
    cause = _cause(rules, life, wake, seen)
    telling = _telling(rules, life, wake, seen)
    if telling is None:
        return Rest()
    settled = cause is Cause.SYNCED and seen.is_ready and not wake.changed and not wake.by
    return Call(cause, telling, settled)


def _rests(life: Life, wake: Wake) -> bool:
    """Report whether an object is stalled and unchanged: a resync is no reason for another call."""
    return life.stalled and not wake.changed and not wake.by


def _cause(rules: LifeRules, life: Life, wake: Wake, seen: Seen) -> Cause:
    if not life.begun:
        is_old = Promise.SYNC in rules.promises and not life.is_new
        return Cause.SYNCED if is_old or (seen.deleting and not life.is_new) else Cause.CREATED
    if wake.changed:
        return Cause.CHANGED
    if wake.by:
        return Cause.WOKEN
    return Cause.RETRIED if life.attempts else Cause.RESYNCED


def _telling(rules: LifeRules, life: Life, wake: Wake, seen: Seen) -> Telling | None:
    if not life.told:
        added = rules.kept in seen.finalizers if rules.begun != rules.kept else not life.is_new
        return Telling.SYNC if added and Promise.SYNC in rules.promises else Telling.ADD
    if wake.changed:
        return Telling.UPDATE
    return Telling.SYNC if wake.resynced or wake.by or not rules.tells_changes else None


def vanished(life: Life, last: Seen) -> Call | None:
    """Return the call owed to an object that vanished before our finalizer was removed, from its last state."""
    if life.uid != last.uid or not life.begun or life.cleaned:
        return None
    return Call(Cause.CHANGED, Telling.DELETE)


# --- the effect of a step or a call ----------------------------------------------------------------------------------


def before_finalizers(rules: LifeRules, life: Life, step: SetFinalizers) -> Life:
    """Record that our first finalizer is being added, before the write, whose answer may be lost."""
    is_first = not step.last and rules.begun in step.finalizers and not life.begun
    return attrs.evolve(life, is_new=life.is_new or is_first)


def after_success(life: Life, call: Call, *, complete: bool, state: Any = None) -> Life:
    """Record a successful call; `complete` if nothing is left to do."""
    cleaned = call.deleting and complete
    return attrs.evolve(life, begun=True, told=True, cleaned=cleaned, stalled=False, attempts=0, state=state)


def after_failure(life: Life, *, stalled: bool) -> Life:
    """Record a failed call. The state that the last good call returned is kept."""
    return attrs.evolve(life, begun=True, stalled=stalled, attempts=0 if stalled else life.attempts + 1)
