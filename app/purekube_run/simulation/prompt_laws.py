"""The law (required property) that a controller looks at a changed object at once while no fault happens (REC-1).

A wake that was lost shows only here: the next resync corrects it, and the state at the end is as it should be.
"""

from functools import partial
from typing import Final

from purekube.apimachinery.manifest import ObjectRef
from purekube_run.controller.observer import Reconciled
from purekube_run.simulation.laws import Laws
from purekube_run.simulation.replica import Replica

_PROMPT: Final = 30.0
"""The seconds within which a controller must have looked at a change; far less than the interval of resyncs."""
AFTERMATH: Final = 90.0
"""The seconds after a fault in which changes do not count: a lost answer is awaited for as long as a minute."""


class PromptLaws:
    """The check that each change in a calm cluster is followed by a reconcile that began after the change."""

    def __init__(self, laws: Laws) -> None:
        self._laws = laws
        self._world = laws.world
        self._unseen: dict[ObjectRef, float] = {}
        """The time of the first change of each object since its last reconcile began."""
        self._calm_from = 0.0
        self._world.on_note.append(self._noted)
        self._world.on_end.append(self._ended)
        self._world.on_reconciled.append(self._reconciled)

    def changed(self, ref: ObjectRef) -> None:
        """Record that something changed for which the object `ref` must be reconciled at once."""
        at = self._world.seconds
        is_calm = at >= self._calm_from and self._world.is_calm and not self._laws.is_recovering
        if is_calm and ref not in self._unseen:
            self._unseen[ref] = at
            self._world.loop.call_later(_PROMPT, partial(self._check, ref, at))

    def is_calm_since(self, at: float) -> bool:
        """Report whether no fault has disturbed the cluster since the time `at`, or shortly before."""
        return at >= self._calm_from and self._world.is_calm

    def gone(self, ref: ObjectRef) -> None:
        """Record that the object `ref` no longer exists."""
        self._unseen.pop(ref, None)

    def _check(self, ref: ObjectRef, at: float) -> None:
        holds = self._unseen.get(ref) != at
        told = f"it has changed {_PROMPT:g} s ago, and no reconcile has begun since"
        self._laws.check("REC-1", "a change is looked at at once", ref, holds, told)

    def _reconciled(self, replica: str, controller: str, done: Reconciled) -> None:
        changed = self._unseen.get(done.ref)
        if changed is not None and self._world.seconds - done.seconds >= changed:
            del self._unseen[done.ref]

    def _noted(self, actor: str, what: str) -> None:
        if actor == "fault":
            self._disturbed()

    def _ended(self, replica: Replica, error: BaseException | None) -> None:
        self._disturbed()

    def _disturbed(self) -> None:
        self._unseen.clear()
        self._calm_from = self._world.seconds + AFTERMATH
