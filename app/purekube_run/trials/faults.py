"""Faults of the API server, as a controller meets them: before or after a call's effect, or the end of the process."""

from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.errors import OperatorError, Stale, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, metadata
from purekube.ports import WatchEvent

WRITES: Final = frozenset(("create", "update", "apply", "apply_status", "patch", "patch_status", "delete"))
"""The calls that may change something."""
_CALLS: Final = WRITES | {"get", "list"}


class Crash(BaseException):
    """The end of the process at this point: the product must not catch this."""


@attrs.frozen
class Call:
    """A call of the port: its verb as the port names it, and its object. A list has no name."""

    verb: str
    kind: Kind
    namespace: str | None = None
    name: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb.replace('_', ' ')} {self.kind.kind} {where}".rstrip()


@attrs.frozen
class Fault:
    """The fault of one call: an error or the end of the process, before or `after` its effect."""

    error: BaseException
    after: bool = False


Schedule: TypeAlias = Callable[[Call], Fault | None]
"""A function that returns the fault of the next call."""


def calm(call: Call) -> Fault | None:
    """Return no fault."""
    return None


@attrs.define
class Streams:
    """The faults of watches: `through` waits until an event may pass, and returns whether it does.

    It raises Expired if events were lost meanwhile, so that the watcher has to list again.
    """

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        """Let the event pass at once."""
        return True


Told: TypeAlias = Callable[[Call, Manifest | None, BaseException | None], None]
"""A callback for each write: with the object after it, or the error that came back."""


class FaultyKube:
    """The calls of `api`, each with its fault from the schedule.

    A callback gets every write that reached the server.
    """

    def __init__(
        self,
        api: Any,
        schedule: Schedule = calm,
        *,
        streams: Streams | None = None,
        told: Told = lambda call, answer, error: None,
    ) -> None:
        self._api = api
        self.schedule = schedule
        self._streams = Streams() if streams is None else streams
        self._told = told

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)
        if name not in _CALLS:
            return call

        async def faulty(*args: Any, **named: Any) -> Any:
            about = _about(name, args, named)
            fault = self.schedule(about)
            if fault is not None and not fault.after:
                raise fault.error
            answer = await self._reported(about, call, args, named)
            if fault is not None:
                raise fault.error
            return answer

        return faulty

    async def watch(self, kind: Kind, **named: Any) -> AsyncIterator[WatchEvent]:
        """Yield one watch stream, as far as its faults let events through."""
        async for event in self._api.watch(kind, **named):
            if await self._streams.through(kind, event):
                yield event

    async def _reported(self, about: Call, call: Any, args: Any, named: Any) -> Any:
        if about.verb not in WRITES or named.get("dry_run"):
            return await call(*args, **named)
        try:
            answer = await call(*args, **named)
        except OperatorError as error:
            self._told(about, None, error)
            raise
        self._told(about, answer, None)
        return answer


def _about(verb: str, args: tuple[Any, ...], named: dict[str, Any]) -> Call:
    match verb:
        case "get" | "patch" | "delete":
            ref = args[0]
            status = "_status" if named.get("subresource") == "status" else ""
            return Call(verb + status if verb == "patch" else verb, ref.kind, ref.namespace, ref.name)
        case "list":
            return Call(verb, args[0], named.get("namespace"))
        case _:
            meta = metadata(args[0])
            return Call(verb, named["kind"], meta.get("namespace"), str(meta.get("name", "")))


def at_random(random: Random, often: float) -> Schedule:
    """Return a schedule in which some calls fail: no answer before or after the effect, a stale copy, or a crash."""

    def schedule(call: Call) -> Fault | None:
        if random.random() >= often:
            return None
        kind = random.choice(("unavailable", "lost answer", "stale", "killed before", "killed after"))
        match kind:
            case "unavailable":
                return Fault(Unavailable("no answer"))
            case "lost answer":
                return Fault(Unavailable("no answer"), after=True)
            case "stale" if call.verb in ("apply", "apply_status", "patch"):
                return Fault(Stale("the object has been modified"))
            case "killed before":
                return Fault(Crash())
            case "killed after":
                return Fault(Crash(), after=True)
            case _:
                return None

    return schedule


def away(call: Call) -> Fault | None:
    """Return the fault of an API server that does not answer at all."""
    return Fault(Unavailable("the API server does not answer"))
