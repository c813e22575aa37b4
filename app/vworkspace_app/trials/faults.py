"""Faults of the API server, as a box's controller meets them: before or after a call had its effect, or as its end."""

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from vworkspace_core.apimachinery.errors import Stale, Unavailable

_CALLS: Final = frozenset(("get", "list", "create", "update", "apply", "apply_status", "patch", "delete"))


class Crash(BaseException):
    """The process ended here: nothing of the product may catch this."""


@attrs.frozen
class Fault:
    """What befalls one call: an error or the end of the process, before or `after` its effect."""

    error: BaseException
    after: bool = False


Schedule: TypeAlias = Callable[[str], Fault | None]
"""What befalls the next call of a verb."""


def calm(verb: str) -> Fault | None:
    """Nothing."""
    return None


class FaultyKube:
    """The calls of `api`, each asked for its fault first."""

    def __init__(self, api: Any, schedule: Schedule = calm) -> None:
        self._api = api
        self.schedule = schedule

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)
        if name not in _CALLS:
            return call

        async def faulty(*args: Any, **named: Any) -> Any:
            fault = self.schedule(name)
            if fault is not None and not fault.after:
                raise fault.error
            answer = await call(*args, **named)
            if fault is not None:
                raise fault.error
            return answer

        return faulty


def at_random(random: Random, often: float) -> Schedule:
    """Some calls fail: no answer before or after the effect, an older copy, or the end of the process."""

    def schedule(verb: str) -> Fault | None:
        if random.random() >= often:
            return None
        kind = random.choice(("unavailable", "lost answer", "stale", "killed before", "killed after"))
        match kind:
            case "unavailable":
                return Fault(Unavailable("no answer"))
            case "lost answer":
                return Fault(Unavailable("no answer"), after=True)
            case "stale" if verb in ("apply", "apply_status", "patch"):
                return Fault(Stale("the object has been modified"))
            case "killed before":
                return Fault(Crash())
            case "killed after":
                return Fault(Crash(), after=True)
            case _:
                return None

    return schedule


def away(verb: str) -> Fault | None:
    """The API server does not answer at all."""
    return Fault(Unavailable("the API server does not answer"))
