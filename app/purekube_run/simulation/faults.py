"""Faults of requests to the API server: errors, or the end of the process, before or after a request's effect."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import attrs

from purekube.apimachinery.errors import Stale, Unavailable
from purekube.apimachinery.manifest import Kind
from purekube.ports import KubeRequest, KubeVerb, WatchEvent


class Crash(BaseException):
    """The exception that simulates a crash of the process. The code under test must not catch it."""


@attrs.frozen
class Fault:
    """A fault of one request: an error, or a crash of the process.

    By default the request has no effect. With `after`, the fault happens after the request has taken effect.
    """

    error: BaseException
    after: bool = False


Schedule: TypeAlias = Callable[[KubeRequest], Fault | None]
"""A function that returns the fault of a request; None if it is to succeed."""


def calm(request: KubeRequest) -> Fault | None:
    """Return None, so no fault.

    It is the `Schedule` (the function that returns the fault of a request) under which every request succeeds.
    """
    return None


@attrs.define
class WatchFaults:
    """A source of faults for the events of watches; this base class has no faults.

    A subclass overrides `through`, which waits until an event may be delivered, and returns False to drop the event.
    `through` raises Expired if events were lost meanwhile, so that the watcher has to list again.
    """

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        """Return True without waiting, so that every event is delivered."""
        return True


def interruption(*, after: bool, crash: bool) -> Fault:
    """Return the fault that a request gets no response, or with `crash` the fault that the process crashes.

    If `after` is True, the request takes effect before the fault.
    """
    return Fault(Crash() if crash else Unavailable("no answer"), after)


def at_random(random: Random, often: float) -> Schedule:
    """Return a schedule, a function that returns the fault of a request: about the fraction `often` of requests have
    one.

    The faults are a missing response, a conflict because of a stale resourceVersion, and a crash of the process.
    """

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
    """Return a fault for every request: no response.

    It is the `Schedule` (the function that returns the fault of a request) of an API server that does not answer.
    """
    return Fault(Unavailable("the API server does not answer"))
