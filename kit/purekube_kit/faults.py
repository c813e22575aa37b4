"""Faults that a test injects into requests, watches and workloads of controllers, until they are healed."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from kubelab.downstream.behaviour import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from purekube.apimachinery.errors import Expired, Unavailable
from purekube.apimachinery.manifest import Kind, metadata
from purekube.ports import KubeRequest, WatchEvent
from purekube.ports.kube import WRITES
from purekube_run.simulation.faults import Crash, Fault, Schedule, WatchFaults, calm

Moment: TypeAlias = Literal["before", "after"]
"""The time of a fault: before or after the request has its effect."""

_ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "patch status": ("patch status", "apply status"),
    "patch": ("patch", "apply"),
    "write": (*WRITES, "apply status", "patch status"),
}
"""The verbs for tests that mean several actions of requests, each with these actions."""
VERBS: Final = ("get", "list", "create", "update", "apply", "delete", "apply status", *_ACTIONS)


@attrs.frozen
class FaultScope:
    """The requests that a fault affects: by kind, object name and verb. None or an empty string means all."""

    kind: Kind | None = None
    name: str = ""
    verb: str = ""

    def concerns(self, request: KubeRequest) -> bool:
        """Report whether the fault affects a request."""
        if self.kind not in (None, request.kind) or self.name not in ("", request.name):
            return False
        return not self.verb or request.action in _ACTIONS.get(self.verb, (self.verb,))


@attrs.define(eq=False)
class ActiveFault:
    """A fault in effect, which ends by `heal` or at the end of its `with` block.

    `about` has the requests that it affects. `left` is how often it will still occur; None means without limit.
    """

    about: FaultScope
    told: str
    error: Callable[[], BaseException] | None = None
    moment: Moment = "before"
    pods: Ending | None = None
    stream: Literal["", "stale", "lost"] = ""
    left: int | None = None
    _heal: Callable[["ActiveFault"], None] = attrs.field(default=lambda fault: None, alias="heal_by")

    def heal(self) -> None:
        """End the fault."""
        self._heal(self)

    def __enter__(self) -> "ActiveFault":
        return self

    def __exit__(self, *error: object) -> None:
        self.heal()


class FaultBoard(WatchFaults):
    """The faults that a test has injected and that have not ended; `background` decides about random faults.

    `set_behaviour` passes faults of pods on to the simulated workloads. `usual` is the behaviour of these workloads
    without faults.
    """

    def __init__(self, set_behaviour: Callable[[DownstreamBehaviour], None], usual: DownstreamBehaviour) -> None:
        self._set_behaviour = set_behaviour
        self._usual = usual
        self.active: list[ActiveFault] = []
        self.background: Schedule = calm
        """The schedule of faults of the requests that no injected fault affects."""
        self._healed = asyncio.Event()

    def add(self, fault: ActiveFault) -> None:
        """Put a fault into effect."""
        self.active.append(fault)
        self._changed()

    def remove(self, fault: ActiveFault) -> None:
        """End a fault, unless it has ended already."""
        if fault in self.active:
            self.active.remove(fault)
            self._changed()

    def clear(self) -> None:
        """End all injected faults. Random faults, which `background` decides, continue."""
        self.active.clear()
        self._changed()

    def _changed(self) -> None:
        rules = [
            DownstreamRule(
                DownstreamOutcome(fault.pods),
                kind=None if fault.about.kind is None else fault.about.kind.kind,
                name=fault.about.name or None,
            )
            for fault in self.active
            if fault.pods is not None
        ]
        self._set_behaviour(attrs.evolve(self._usual, rules=(*rules, *self._usual.rules)))
        self._healed.set()
        self._healed = asyncio.Event()

    def fault_of(self, request: KubeRequest) -> Fault | None:
        """Return the fault for a request, or None if the request is to succeed.

        The first active fault that affects the request is used. If there is none, the schedule of random faults,
        `background`, decides.
        """
        for fault in self.active:
            if fault.error is None or fault.left == 0 or not fault.about.concerns(request):
                continue
            if fault.left is not None:
                fault.left -= 1
            return Fault(fault.error(), after=fault.moment == "after")
        return self.background(request)

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        """Wait while a fault holds back a watch event, then return True: the event is delivered.

        If the fault loses events instead, wait until it has ended and raise Expired: the watcher has to list again.
        """
        name = str(metadata(event.object).get("name", ""))
        while (fault := self._on_stream(kind, name)) is not None:
            if fault.stream == "lost":
                await self._until_healed(fault)
                raise Expired("events were lost: list again")
            await self._until_healed(fault)
        return True

    async def _until_healed(self, fault: ActiveFault) -> None:
        while fault in self.active:
            await self._healed.wait()

    def _on_stream(self, kind: Kind, name: str) -> ActiveFault | None:
        return next(
            (
                fault
                for fault in self.active
                if fault.stream and fault.about.kind in (None, kind) and fault.about.name in ("", name)
            ),
            None,
        )


def no_answer() -> BaseException:
    """Return the error that simulates a request without a response."""
    return Unavailable("no answer")


def crash() -> BaseException:
    """Return the error that simulates the end of the process."""
    return Crash()
