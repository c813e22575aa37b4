"""The simulated downstream controllers as a whole: observes objects through the `KubeApi` port and lets them act.

`DownstreamSimulator` is pollable: `tick(now)` does everything that is due and returns; nothing runs in between.
With the in-memory API server it needs no event loop. `vworkspace_fake.downstream.run` runs the same machine
against any API server.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs

from vworkspace_core.apimachinery.errors import NotFound, OperatorError
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.ports import KubeApi
from vworkspace_fake.downstream.behaviour import DownstreamBehaviour
from vworkspace_fake.downstream.catalogue import CONTROLLERS
from vworkspace_fake.downstream.performing import perform
from vworkspace_fake.downstream.turns import Capture, Controller, Erase, Look, Turn, earliest, uid_of
from vworkspace_fake.simulation.polled import Polled


class DownstreamSimulator(Polled):
    """Every simulated downstream controller in one; owns the work queue, the observed objects and the memories.

    `names` are those of `vworkspace_fake.downstream.CONTROLLERS` that take part; all of them unless told.
    `behaviour` may be replaced at any time. `crash()` restarts every controller in the middle of its work.
    """

    def __init__(
        self, api: KubeApi, behaviour: DownstreamBehaviour | None = None, *, names: Iterable[str] | None = None
    ) -> None:
        super().__init__(api)
        self._observed: dict[ObjectRef, Manifest] = {}
        self._behaviour = behaviour or DownstreamBehaviour()
        self.controllers: Sequence[Controller] = tuple(
            item for name in (CONTROLLERS if names is None else names) for item in CONTROLLERS[name]
        )
        self._by_kind = {kind: controller for controller in self.controllers for kind in controller.subjects}
        self._memories: dict[ObjectRef, dict[str, Any]] = {}
        self._due: dict[ObjectRef, datetime] = {}
        self._regular: set[ObjectRef] = set()
        self._first_looks: dict[ObjectRef, datetime] = {}
        self._last_errors: dict[ObjectRef, str] = {}
        self._now: datetime | None = None

    @property
    def watched(self) -> Sequence[tuple[Kind, str]]:
        """The kinds that are listed and watched, each with its label selector (none here)."""
        kinds = (kind for item in self.controllers for kind in (*item.subjects, *item.watches))
        return tuple((kind, "") for kind in dict.fromkeys(kinds))

    @property
    def behaviour(self) -> DownstreamBehaviour:
        """How the controllers behave from now on."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: DownstreamBehaviour) -> None:
        """What stalls by a rule that is gone goes on at the next tick."""
        self._behaviour = behaviour
        if self._now is not None:
            for ref in self._memories:
                self._schedule(ref, self._now)
        self._look_again()

    @property
    def world(self) -> Mapping[ObjectRef, Manifest]:
        """The objects as they were last observed."""
        return self._observed

    @property
    def errors(self) -> dict[ObjectRef, str]:
        """What a controller would log about each object, where its last look ended with an error."""
        return dict(self._last_errors)

    def crash(self) -> None:
        """Restart every controller: what lived in its process only is gone, pods and stored data stay."""
        for ref, kept in list(self._memories.items()):
            restarted = self._by_kind[ref.kind].restarted
            left = {uid: restarted(memory) for uid, memory in kept.items()}
            self._remember(ref, left)
        self._observed.clear()
        self._due = {ref: self._now for ref in self._memories if self._now is not None}
        self._regular.clear()

    def next_wake_up(self) -> datetime | None:
        """When something is due next, if nothing changes until then."""
        return min(self._due.values(), default=None)

    def next_work(self) -> datetime | None:
        """When something other than a regular interval is due next: an attempt's end, a retry, a removal by TTL."""
        return min((when for ref, when in self._due.items() if ref not in self._regular), default=None)

    def observe(self, kind: Kind, manifest: Manifest, now: datetime) -> None:
        """Take in one object as it is now."""
        ref = ref_of(manifest, kind)
        old = self._observed.get(ref)
        if old == manifest:
            return
        self._observed[ref] = manifest
        new = old is None or uid_of(old) != uid_of(manifest)
        self._now = now
        if new and self._behaviour.notice_seconds > 0:
            self._first_looks[ref] = now + timedelta(seconds=self._behaviour.notice_seconds)
        if kind in self._by_kind:
            self._schedule(ref, now)
        self._wake(ref, now)

    def forget(self, ref: ObjectRef, now: datetime) -> None:
        """Take in that an object is gone."""
        self._observed.pop(ref, None)
        self._first_looks.pop(ref, None)
        self._due.pop(ref, None)
        self._last_errors.pop(ref, None)
        if ref in self._memories:
            self._schedule(ref, now)
        self._wake(ref, now)

    def _wake(self, ref: ObjectRef, now: datetime) -> None:
        for controller in self.controllers:
            for other in controller.wakes(ref, self._observed):
                self._schedule(other, now)

    def _schedule(self, ref: ObjectRef, when: datetime, *, regular: bool = False) -> None:
        """Look at `ref` then, or before if that is wanted already; at a new object not before it is noticed."""
        when = max(when, self._first_looks.get(ref, when))
        self._due[ref] = min(when, self._due.get(ref, when))
        (self._regular.add if regular else self._regular.discard)(ref)

    async def work(self, now: datetime) -> bool:
        """Look at every object that is due at `now`; whether there were any."""
        self._now = now
        due = sorted(ref for ref, when in self._due.items() if when <= now)
        for ref in due:
            # Under an event loop the object can go while others are looked at.
            if self._due.pop(ref, None) is not None:
                self._first_looks.pop(ref, None)
                self._regular.discard(ref)
                await self._look(ref, now)
        return bool(due)

    async def _look(self, ref: ObjectRef, now: datetime) -> None:
        """One look at the live object, and one at each that bore its name before and is remembered."""
        try:
            live = await self._find(ref)
            uid = "" if live is None else uid_of(live)
            gone = [known for known in self._memories.get(ref, {}) if known != uid]
            turns = [await self._turn(ref, known, None, now) for known in gone]
            if live is not None:
                turns.append(await self._turn(ref, uid, live, now))
        except OperatorError as error:
            self._last_errors[ref] = error.message
            self._schedule(ref, now + timedelta(seconds=self._behaviour.retry_seconds))
            return
        self._settle(ref, turns)

    async def _find(self, ref: ObjectRef) -> Manifest | None:
        try:
            return await self._api.get(ref)
        except NotFound:
            return None

    async def _turn(self, ref: ObjectRef, uid: str, live: Manifest | None, now: datetime) -> Turn:
        """Ask the controller, perform what it says, remember what it wants to."""
        memory = self._memories.get(ref, {}).get(uid)
        seen: Mapping[ObjectRef, Manifest] = self._observed
        look = Look(ref, uid, live, memory, now, self._behaviour, seen, self._memories)
        controller = self._by_kind[ref.kind]
        turn = controller.look(look)
        kept = turn.memory
        for effect in turn.effects:
            match effect:
                case Capture(kinds, namespaces):
                    kept = attrs.evolve(kept, items=await self._capture(kinds, namespaces))
                case Erase(target):
                    self._remember(target, {})
                case _:
                    await perform(self._api, effect, controller.name)
        self._remember(ref, {**self._memories.get(ref, {}), uid: kept})
        return turn

    async def _capture(self, kinds: Iterable[Kind], namespaces: Iterable[str]) -> tuple[tuple[Kind, Manifest], ...]:
        spaces = tuple(namespaces) or (None,)
        found: list[tuple[Kind, Manifest]] = []
        for kind in kinds:
            for space in spaces:
                found += [(kind, item) for item in await self.list_all(kind, space)]
        return tuple(found)

    def _remember(self, ref: ObjectRef, memories: Mapping[str, Any]) -> None:
        kept = {uid: memory for uid, memory in memories.items() if memory is not None}
        if kept:
            self._memories[ref] = kept
        else:
            self._memories.pop(ref, None)

    def _settle(self, ref: ObjectRef, turns: Sequence[Turn]) -> None:
        self._last_errors.pop(ref, None)
        for turn in turns:
            if turn.error:
                self._last_errors[ref] = turn.error
        work = earliest(*(turn.due for turn in turns if not turn.regular))
        rest = earliest(*(turn.due for turn in turns if turn.regular))
        if work is not None:
            self._schedule(ref, work)
        elif rest is not None:
            self._schedule(ref, rest, regular=True)
