"""The life of an object at the hands of one controller: what is known of it says what to do next (PH-7, L27).

A pass asks `next_step`, does what it says, and asks again until the step is a call or nothing. What came of a call goes
to `after_call`. Nothing here is stored: after a restart the finalizers of the object tell what is left.

Guarantees
    The finalizer is on before the first call, and comes off after a call for the deletion that is complete; then it is
    taken off without another call, however often that fails.
    A deletion is told while the object carries our finalizer; and, where it went without one, from its last state, if
    this process had begun with it.
    What has failed is not forgotten: only `Terminal`, or a policy that says so, ends the retries.
    A watcher has two finalizers, one after the other: the first until `on_add` came to its end, so that no restart
    loses it.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, metadata
from vworkspace_core.reconcilers.controllers import Promise
from vworkspace_core.reconcilers.request import Cause
from vworkspace_core.reconcilers.watching import finalizers_of


@attrs.frozen
class LifeRules:
    """What a controller keeps to. `begun` is the finalizer of before the first call, `kept` the one of after it."""

    promises: frozenset[Promise]
    begun: str
    kept: str
    tells_changes: bool = False
    """A watcher: it is told of each change once, and not called when there is none."""

    @property
    def has_finalizer(self) -> bool:
        """Whether it puts finalizers on."""
        return Promise.FINALIZER in self.promises


@attrs.frozen
class Seen:
    """What counts of an object as it stands."""

    uid: str
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    is_ready: bool = False
    """It says Ready at the generation that it has."""


def seen_of(manifest: Manifest, *, is_ready: bool = False) -> Seen:
    """What counts of a manifest."""
    meta = metadata(manifest)
    return Seen(str(meta.get("uid", "")), finalizers_of(manifest), meta.get("deletionTimestamp") is not None, is_ready)


@attrs.frozen
class Wake:
    """What has happened since the last call. `old` is the object before the first change that was not told."""

    changed: bool = False
    resynced: bool = False
    by: tuple[ObjectRef, ...] = ()
    old: Manifest | None = None

    def with_change(self, old: Manifest | None) -> "Wake":
        """After one more change."""
        return attrs.evolve(self, changed=True, old=self.old if self.changed else old)

    def with_waker(self, ref: ObjectRef) -> "Wake":
        """After a change of another object."""
        return self if ref in self.by else attrs.evolve(self, by=(*self.by, ref))

    def before(self, later: "Wake | None") -> "Wake":
        """Both as one, where this one came first."""
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
    """What this process knows of one incarnation of an object."""

    uid: str = ""
    is_new: bool = False
    """This process has seen it without our finalizer: nobody had begun with it."""
    begun: bool = False
    """A call was made for it."""
    told: bool = False
    """A call for it came to a good end."""
    cleaned: bool = False
    """The call for its deletion is complete."""
    stalled: bool = False
    """Only a change helps."""
    attempts: int = 0
    """Failures in a row."""
    state: Any = None


class Telling(StrEnum):
    """What a watcher is told."""

    ADD = "add"
    SYNC = "sync"
    UPDATE = "update"
    DELETE = "delete"


@attrs.frozen
class Forget:
    """The object has gone: nothing is known of it any more."""


@attrs.frozen
class Rest:
    """Nothing to do."""


@attrs.frozen
class SetFinalizers:
    """Write these finalizers on the object, then ask again. `last`: it may have gone by that."""

    finalizers: tuple[str, ...]
    last: bool = False


@attrs.frozen
class Call:
    """Call the controller."""

    cause: Cause
    telling: Telling
    settled: bool = False

    @property
    def deleting(self) -> bool:
        """Whether it is to clean up."""
        return self.telling is Telling.DELETE


Step: TypeAlias = Forget | Rest | SetFinalizers | Call


def life_of(life: Life, seen: Seen) -> Life:
    """What is known of this incarnation: of another one under the same name, nothing counts."""
    return life if life.uid == seen.uid else Life(seen.uid)


def next_step(rules: LifeRules, life: Life, wake: Wake, seen: Seen | None) -> Step:
    """What is to be done with an object, None for one that is not there. `life` is that of its incarnation."""
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
        return Rest()  # nothing was done for it
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
    """A stalled object waits for a change: a look at intervals is no news."""
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
    """What is owed to an object that went without our taking our finalizer off, from its last state."""
    if life.uid != last.uid or not life.begun or life.cleaned:
        return None
    return Call(Cause.CHANGED, Telling.DELETE)


# --- what a step or a call makes of it -------------------------------------------------------------------------------


def before_finalizers(rules: LifeRules, life: Life, step: SetFinalizers) -> Life:
    """Our first finalizer is to be put on: known before the write, whose answer may be lost."""
    is_first = not step.last and rules.begun in step.finalizers and not life.begun
    return attrs.evolve(life, is_new=life.is_new or is_first)


def after_success(life: Life, call: Call, *, complete: bool, state: Any = None) -> Life:
    """A call ended well; `complete` where nothing is left to do."""
    cleaned = call.deleting and complete
    return attrs.evolve(life, begun=True, told=True, cleaned=cleaned, stalled=False, attempts=0, state=state)


def after_failure(life: Life, *, stalled: bool) -> Life:
    """A call failed. What it had is kept: also the state that the last good one gave."""
    return attrs.evolve(life, begun=True, stalled=stalled, attempts=0 if stalled else life.attempts + 1)
