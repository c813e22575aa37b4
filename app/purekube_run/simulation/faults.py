"""Faults of the API server as a controller meets them: before or after a call's effect, or the end of the process."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import attrs

from purekube.apimachinery.errors import Stale, Unavailable
from purekube.apimachinery.manifest import Kind
from purekube.ports import KubeRequest, KubeVerb, WatchEvent


class Crash(BaseException):
    """The end of the process at this point: the product must not catch this."""


@attrs.frozen
class Fault:
    """The fault of one call: an error or the end of the process, before or `after` its effect."""

    error: BaseException
    after: bool = False


Schedule: TypeAlias = Callable[[KubeRequest], Fault | None]
"""A function that returns the fault of the next call."""


def calm(request: KubeRequest) -> Fault | None:
    """Return no fault."""
    return None


@attrs.define
class WatchFaults:
    """The faults of watches: `through` waits until an event may be delivered, and returns whether it is.

    It raises Expired if events were lost meanwhile, so that the watcher has to list again.
    """

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        """Return True at once: every event is delivered."""
        return True


def interruption(*, after: bool, crash: bool) -> Fault:
    """Return the fault of a call without an answer, or with `crash` ends the process, before or `after` its effect."""
    return Fault(Crash() if crash else Unavailable("no answer"), after)


def at_random(random: Random, often: float) -> Schedule:
    """Return a schedule in which some calls fail: no answer before or after the effect, a stale copy, or a crash."""

    def schedule(request: KubeRequest) -> Fault | None:
        if random.random() >= often:
            return None
        kind = random.choice(("unavailable", "lost answer", "stale", "killed before", "killed after"))
        match kind:
            case "unavailable" | "lost answer":
                return interruption(after=kind == "lost answer", crash=False)
            case "stale" if request.verb is KubeVerb.APPLY or request.action == KubeVerb.PATCH:
                return Fault(Stale("the object has been modified"))
            case "killed before" | "killed after":
                return interruption(after=kind == "killed after", crash=True)
            case _:
                return None

    return schedule


def away(request: KubeRequest) -> Fault | None:
    """Return the fault of an API server that answers no request."""
    return Fault(Unavailable("the API server does not answer"))
