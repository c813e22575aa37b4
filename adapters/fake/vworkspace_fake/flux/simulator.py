"""The simulated Flux as a whole: observes objects through the `KubeApi` port, runs passes, performs their effects.

`FluxSimulator` is pollable: `tick(now)` does everything that is due and returns; nothing runs in between.
With the in-memory API server it needs no event loop. `vworkspace_fake.flux.run` runs the same machine
against any API server.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, assert_never

import attrs

from vworkspace_core.apimachinery.errors import NotFound, OperatorError
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.ports import KubeApi
from vworkspace_fake.flux.behaviour import FluxBehaviour
from vworkspace_fake.flux.effects import Done, Failed, Requeue, Sleep, Step, Terminal, Verdict, Waiting
from vworkspace_fake.flux.helm_storage import Workload
from vworkspace_fake.flux.interpreter import Interpreter
from vworkspace_fake.flux.machines import begin_pass
from vworkspace_fake.flux.triggers import CONFIG_KINDS, RECONCILED_KINDS, WATCH_LABEL, World, triggered
from vworkspace_fake.simulation.following import Together, in_turn
from vworkspace_fake.simulation.polled import Polled

_RETRYING: Final = (Requeue, Failed, Waiting)


@attrs.define
class _Pass:
    """A pass under way: busy until `until`."""

    step: Step[Verdict]
    until: datetime
    again: bool = False


class FluxSimulator(Polled):
    """source-controller and helm-controller in one; owns the work queue, the observed objects and the passes.

    `behaviour` may be replaced at any time. `crash()` forgets passes under way, as a restart does. `together` says
    whether objects are worked on one by one or, as by Flux's workers, several at once.
    """

    title = "the simulated Flux"

    def __init__(self, api: KubeApi, behaviour: FluxBehaviour | None = None, *, together: Together = in_turn) -> None:
        super().__init__(api)
        self._observed = World()
        self._together = together
        self._interpreter = Interpreter(api, behaviour or FluxBehaviour())
        self._due: dict[ObjectRef, datetime] = {}
        self._passes: dict[ObjectRef, _Pass] = {}
        self._failures: Counter[ObjectRef] = Counter()
        self._urgent: set[ObjectRef] = set()
        self._last_errors: dict[ObjectRef, str] = {}

    @property
    def watched(self) -> Sequence[tuple[Kind, str]]:
        """The kinds that are listed and watched, each with its label selector."""
        return (*((kind, "") for kind in RECONCILED_KINDS), *((kind, WATCH_LABEL) for kind in CONFIG_KINDS))

    @property
    def world(self) -> World:
        """The objects as they were last observed, and who uses which."""
        return self._observed

    @property
    def behaviour(self) -> FluxBehaviour:
        """How the controllers behave from now on."""
        return self._interpreter.script.behaviour

    @behaviour.setter
    def behaviour(self, behaviour: FluxBehaviour) -> None:
        self._interpreter.script.behaviour = behaviour

    @property
    def workloads(self) -> Sequence[Workload]:
        """Everything Helm has installed and not taken away again."""
        return self._interpreter.storage.workloads()

    @property
    def left_behind(self) -> Sequence[Workload]:
        """Workloads whose HelmRelease is gone: deleted while suspended, or finalized by force."""
        return tuple(item for item in self.workloads if item.owner not in self._observed)

    @property
    def errors(self) -> dict[ObjectRef, str]:
        """The error of the last pass over each object, where it ended with one."""
        return dict(self._last_errors)

    def crash(self) -> None:
        """Forget everything that only lives in the controllers' memory, in the middle of whatever they do."""
        self._passes.clear()
        self._observed.clear()
        self._due.clear()
        self._failures.clear()
        self._urgent.clear()

    def next_wake_up(self) -> datetime | None:
        """When something is due next, if nothing changes until then."""
        return min((*(item.until for item in self._passes.values()), *self._due.values()), default=None)

    def next_work(self) -> datetime | None:
        """When something other than a regular interval is due next: an action's end, a retry, a wait."""
        waits = (self._due[ref] for ref in self._urgent if ref in self._due)
        return min((*(item.until for item in self._passes.values()), *waits), default=None)

    def observe(self, kind: Kind, manifest: Manifest, now: datetime) -> None:
        """Take in one object as it is now."""
        ref = ref_of(manifest, kind)
        old = self._observed.get(ref)
        if old == manifest:
            return
        self._observed.put(ref, manifest)
        self._trigger(triggered(kind, old, manifest, self._observed), now)

    def forget(self, ref: ObjectRef, now: datetime) -> None:
        """Take in that an object is gone."""
        old = self._observed.drop(ref)
        self._due.pop(ref, None)
        self._urgent.discard(ref)
        self._failures.pop(ref, None)
        self._last_errors.pop(ref, None)
        if old is not None:
            self._trigger(triggered(ref.kind, old, None, self._observed), now)

    def _trigger(self, refs: Iterator[ObjectRef], now: datetime) -> None:
        for ref in refs:
            busy = self._passes.get(ref)
            if busy is not None:
                busy.again = True
            else:
                self._due[ref] = now
                self._urgent.add(ref)

    async def work(self, now: datetime) -> bool:
        """Begin and continue the passes that are due at `now`; whether there were any."""
        due = sorted(ref for ref, when in self._due.items() if when <= now)
        await self._together([partial(self._take, ref, now) for ref in due])
        busy = sorted(ref for ref, item in self._passes.items() if item.until <= now)
        await self._together([partial(self._resume, ref) for ref in busy])
        return bool(due or busy)

    async def _take(self, ref: ObjectRef, now: datetime) -> None:
        """Begin a pass. Under an event loop the object can go while others are worked on, and change while it is."""
        if self._due.pop(ref, None) is None:
            return
        self._urgent.discard(ref)
        busy = self._passes.get(ref)
        if busy is None:
            await self._begin(ref, now)
        else:
            busy.again = True

    async def _resume(self, ref: ObjectRef) -> None:
        item = self._passes.get(ref)
        if item is not None:
            await self._continue(ref, item, item.until, item.until)

    async def _begin(self, ref: ObjectRef, now: datetime) -> None:
        try:
            manifest = await self._api.get(ref)
        except NotFound:
            return
        except OperatorError as error:
            self._settle(ref, Failed(error.message), now)
            return
        item = _Pass(begin_pass(ref.kind, manifest, now, self.behaviour), now)
        self._passes[ref] = item
        await self._continue(ref, item, None, now)

    async def _continue(self, ref: ObjectRef, item: _Pass, answer: Any, now: datetime) -> None:
        """Perform effects until the pass is busy for a while or over."""
        try:
            while True:
                effect = item.step.send(answer)
                if isinstance(effect, Sleep):
                    item.until = now + timedelta(seconds=effect.seconds)
                    return
                answer = await self._interpreter.perform(effect)
        except StopIteration as end:
            verdict: Verdict = end.value
        except OperatorError as error:
            item.step.close()
            verdict = Failed(error.message)
        if self._passes.pop(ref, None) is not item:
            return
        self._settle(ref, verdict, now)
        if item.again:
            self._due[ref] = now
            self._urgent.add(ref)

    def _settle(self, ref: ObjectRef, verdict: Verdict, now: datetime) -> None:
        seconds = self._pause(ref, verdict)
        self._last_errors.pop(ref, None)
        if isinstance(verdict, Failed | Terminal):
            self._last_errors[ref] = verdict.error
        if seconds is not None:
            self._due[ref] = now + timedelta(seconds=seconds)
            if isinstance(verdict, _RETRYING):
                self._urgent.add(ref)

    def _pause(self, ref: ObjectRef, verdict: Verdict) -> float | None:
        match verdict:
            case Requeue() | Failed():
                delay: float = self.behaviour.min_retry_seconds * 2 ** min(self._failures[ref], 30)
                self._failures[ref] += 1
                return min(delay, self.behaviour.max_retry_seconds)
            case Waiting() | Done():
                self._failures.pop(ref, None)
                return verdict.after
            case Terminal():
                self._failures.pop(ref, None)
                return None
            case _:
                assert_never(verdict)
