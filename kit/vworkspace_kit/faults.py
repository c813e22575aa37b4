"""Faults that a test asks for: what befalls calls and watches of controllers, until it is healed."""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Literal, TypeAlias

import attrs

from vworkspace_app.trials.faults import Call, Crash, Fault, Schedule, Streams, calm
from vworkspace_core.apimachinery.errors import Expired, Unavailable
from vworkspace_core.apimachinery.manifest import Kind, metadata
from vworkspace_core.ports import WatchEvent
from vworkspace_fake.downstream.behaviour import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending

Moment: TypeAlias = Literal["before", "after"]
"""Of a call: before or after it had its effect."""

_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "apply status": ("apply_status",),
    "patch status": ("patch_status", "apply_status"),
    "patch": ("patch", "apply"),
    "write": ("create", "update", "apply", "apply_status", "patch", "patch_status", "delete"),
}
"""Verbs as people say them, and the calls of the port that they mean; others are called as they are."""
VERBS: Final = ("get", "list", "create", "update", "apply", "delete", *_VERBS)


@attrs.frozen
class About:
    """What a fault is about: a kind, all kinds where it is None; an object of it where it has a name."""

    kind: Kind | None = None
    name: str = ""
    verb: str = ""

    def concerns(self, call: Call) -> bool:
        """Whether a call is about it."""
        verbs = _VERBS.get(self.verb, (self.verb,))
        return self.kind in (None, call.kind) and self.name in ("", call.name) and (not self.verb or call.verb in verbs)


@attrs.define(eq=False)
class ActiveFault:
    """A fault until `heal`, which leaving a `with` block does too. `left` is how often it strikes yet, None: always."""

    about: About
    told: str
    error: Callable[[], BaseException] | None = None
    moment: Moment = "before"
    pods: Ending | None = None
    stream: Literal["", "stale", "lost"] = ""
    left: int | None = None
    _heal: Callable[["ActiveFault"], None] = attrs.field(default=lambda fault: None, alias="heal_by")

    def heal(self) -> None:
        """Be over."""
        self._heal(self)

    def __enter__(self) -> "ActiveFault":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()


class FaultBoard(Streams):
    """The faults that are in force. `set_behaviour` tells the simulated workloads how pods fare."""

    def __init__(self, set_behaviour: Callable[[DownstreamBehaviour], None], usual: DownstreamBehaviour) -> None:
        self._set_behaviour = set_behaviour
        self._usual = usual
        self.active: list[ActiveFault] = []
        self.background: Schedule = calm
        """What befalls calls beside the faults that were asked for."""
        self._healed = asyncio.Event()

    def add(self, fault: ActiveFault) -> None:
        """Put one in force."""
        self.active.append(fault)
        self._changed()

    def remove(self, fault: ActiveFault) -> None:
        """Heal one; nothing where it is healed."""
        if fault in self.active:
            self.active.remove(fault)
            self._changed()

    def clear(self) -> None:
        """Heal all."""
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

    def befalls(self, call: Call) -> Fault | None:
        """What befalls a call: the first fault that is about it."""
        for fault in self.active:
            if fault.error is None or fault.left == 0 or not fault.about.concerns(call):
                continue
            if fault.left is not None:
                fault.left -= 1
            return Fault(fault.error(), after=fault.moment == "after")
        return self.background(call)

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        """Stale: wait until it is healed. Lost: let nothing through, and have the watcher list again afterwards."""
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
    """The error of a call that nobody answered."""
    return Unavailable("no answer")


def crash() -> BaseException:
    """The end of the process."""
    return Crash()
