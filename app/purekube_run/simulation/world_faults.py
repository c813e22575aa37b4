"""The faults that a simulation can inject: into requests, watches, machines and API servers (SIM-2, RUN-10).

Each fault has a mean rate per hour. It happens at a scheduled time, or with the next matching request of a replica, a
simulated process. `World.happened` counts the faults that actually happened.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final, Generic, TypeVar

import attrs

from kubelab.access.authorization import Attributes
from kubelab.downstream.behaviour import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from kubelab.model.calls import Caller
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import LEASE
from purekube_run.simulation.connection import Disturbance, Trouble, WatchTrouble
from purekube_run.simulation.replica import Replica
from purekube_run.simulation.world import World

W_co = TypeVar("W_co", bound=World, covariant=True)
W_contra = TypeVar("W_contra", bound=World, contravariant=True)


@attrs.frozen
class Strike(Generic[W_co]):
    """One occurrence of the fault `name` in the simulated cluster `world`, as the argument of the function that injects
    the fault.

    It affects the replica (simulated process) with the index `replica` for `seconds`. `choice`, a number in [0, 1),
    selects further details, such as the affected watch.
    """

    world: W_co
    name: str
    replica: int
    seconds: float
    choice: float

    def happened(self, what: object) -> None:
        """Record that the fault really occurred, and what it affected: count it, and add a line to the trace, the
        record of what happens in the run.
        """
        self.world.happened[self.name] += 1
        self.world.troubled_until = max(self.world.troubled_until, self.world.seconds + self.seconds)
        self.world.note("fault", f"{self.name}: {what}")

    def later(self, act: Callable[[], None]) -> None:
        """Schedule `act` to be called when the duration of the fault, `seconds`, is over."""
        self.world.loop.call_later(self.seconds, act)


@attrs.frozen
class SimulatedFault(Generic[W_contra]):
    """A kind of fault: the function `strike` that injects it, its mean number of occurrences per hour, and its shortest
    and longest duration in seconds.

    A fault may have several `forms`, such as the places in the code at which a process crashes. Its occurrences use
    them in turn; `Strike.choice` selects the form.
    """

    strike: Callable[[Strike[W_contra]], None]
    per_hour: float
    lasts: tuple[float, float] = (0.0, 0.0)
    forms: int = 0


def _of_request(trouble: Trouble, per_hour: float) -> SimulatedFault[World]:
    """Return a fault that disturbs one request, after up to twenty requests that it lets pass."""

    def strike(at: Strike[World]) -> None:
        ordered = Disturbance(trouble, at.happened, int(at.choice * 20))
        at.world.replicas[at.replica].disturbances.append(ordered)

    return SimulatedFault(strike, per_hour)


def _of_watch(trouble: WatchTrouble, per_hour: float) -> SimulatedFault[World]:
    def strike(at: Strike[World]) -> None:
        if kind := at.world.replicas[at.replica].link.disturb_watch(trouble, at.choice, at.seconds):
            at.happened(kind)

    return SimulatedFault(strike, per_hour, (5.0, 120.0))


def _kill(at: Strike[World]) -> None:
    replica = at.world.replicas[at.replica]
    if replica.is_running:
        replica.kill("SIGKILL")
        at.happened(replica.name)


def _pause(at: Strike[World]) -> None:
    """Stop a process as SIGSTOP does, and let the process continue after the duration of the fault."""
    replica = at.world.replicas[at.replica]
    replica.link.paused_until = at.world.seconds + at.seconds
    at.happened(f"{replica.name} for {at.seconds:g} s")


def _slow_network(at: Strike[World]) -> None:
    replica = at.world.replicas[at.replica]
    replica.link.slow_until = at.world.seconds + at.seconds
    at.happened(f"{replica.name} for {at.seconds:g} s")


_FEW: Final = 2
"""The objects in a page of a list while pages are short."""


def shorten_pages(at: Strike[World]) -> None:
    """Let every list in pages have few objects in a page for a while, as where objects are too large for more."""

    def set_most(items: int) -> None:
        for replica in at.world.replicas:
            replica.most_items = items

    set_most(_FEW)
    at.later(lambda: set_most(0))
    at.happened(f"{_FEW} objects in a page for {at.seconds:g} s")


def _partition(at: Strike[World]) -> None:
    replica = at.world.replicas[at.replica]
    replica.link.partition(at.seconds)
    at.happened(f"{replica.name} for {at.seconds:g} s")


_RENEWALS: Final = 15
"""More requests for a renewal than a leader sends before its right to write ends."""


def _lose_lease(at: Strike[World]) -> None:
    """Cut a process off, or answer the next renewal of a leader late, and its further renewals with an error."""
    if at.choice < 0.5:
        _partition(at)
        return
    leader = _leader(at.world, at.replica)
    troubles = (Trouble.SLOW, *[Trouble.UNAVAILABLE] * _RENEWALS)
    ordered = [
        Disturbance(trouble, at.happened, only=lambda request: request.kind == LEASE and request.writes)
        for trouble in troubles
    ]
    leader.disturbances += ordered

    def end() -> None:
        leader.disturbances[:] = [each for each in leader.disturbances if each not in ordered]

    at.later(end)


def _leader(world: World, first: int) -> Replica:
    """Return a replica that a Lease names, beginning with the index `first`; without one, the replica `first`."""
    leases = world.server.store.scan((LEASE.group, LEASE.plural))
    holders = " ".join(str(get_path(lease.shared(), "spec", "holderIdentity")) for lease in leases)
    replicas = (*world.replicas[first:], *world.replicas[:first])
    return next((each for each in replicas if each.unique and each.unique in holders), world.replicas[first])


def _clock_jump(at: Strike[World]) -> None:
    clock = at.world.replicas[at.replica].clock
    clock.offset += timedelta(seconds=round((at.choice - 0.5) * 1200))
    at.happened(f"the clock is wrong by {clock.offset.total_seconds():g} s")


def _suspend(at: Strike[World]) -> None:
    at.world.replicas[at.replica].clock.suspend(at.seconds)
    at.happened(f"{at.seconds:g} s")


def _restart_server(at: Strike[World]) -> None:
    at.world.server.streams.end()
    at.world.server.store.compact()
    at.happened("watches end, the history is gone")


_RESTORE: Final = 3.0
"""The seconds for which an API server is stopped for a restore of etcd, as informers may assume."""


def _restore_etcd(at: Strike[World]) -> None:
    """Restore etcd at the end of the fault from a snapshot that is taken at its start.

    The API server is stopped for that, and refuses connections for a few seconds. Simulated controllers list everything
    again, as real ones do when their watches end.
    """
    snapshot = at.world.server.store.snapshot()

    def restore() -> None:
        at.world.restore(snapshot)
        for replica in at.world.replicas:
            replica.link.refused_until = at.world.seconds + _RESTORE
        if at.world.flux is not None:
            at.world.flux.crash()
        at.world.controllers.forget()
        at.happened(f"to resourceVersion {snapshot.version}")

    at.later(restore)


def _engines_stall(at: Strike[World]) -> None:
    rule = DownstreamRule(DownstreamOutcome(Ending.STALL))
    at.world.set_behaviour(engines=DownstreamBehaviour(rules=(rule,)))
    at.later(at.world.calm_down)
    at.happened(f"for {at.seconds:g} s")


def _remove_right(at: Strike[World], *, reads: bool = False) -> None:
    """Take from all replicas the right to write one resource, or with `reads` the right to read it, for a while.

    The API server goes on with a watch for which the right is missing, so watches end: otherwise nothing would be read.
    """
    world = at.world
    if not world.rights:
        return
    resource, users = world.rights[int(at.choice * len(world.rights))], {replica.user for replica in world.replicas}

    def allows(caller: Caller, asked: Attributes) -> bool:
        is_read = asked.verb in ("get", "list", "watch")
        return not (caller.user in users and is_read is reads and asked.resource == resource)

    world.server.authorize = allows
    for replica in world.replicas if reads else ():
        replica.link.expire_watches(resource)

    def give_back() -> None:
        world.server.authorize = None

    at.later(give_back)
    at.happened(f"to {'read' if reads else 'write'} {resource} for {at.seconds:g} s")


WORLD_FAULTS: Final[Mapping[str, SimulatedFault[World]]] = {
    "crash-before-write": _of_request(Trouble.CRASH_BEFORE, 1.5),
    "crash-after-write": _of_request(Trouble.CRASH_AFTER, 1.5),
    "api-error": _of_request(Trouble.UNAVAILABLE, 3.0),
    "lost-answer": _of_request(Trouble.LOST_ANSWER, 3.0),
    "too-many-requests": _of_request(Trouble.TOO_MANY, 2.0),
    "write-conflict": _of_request(Trouble.STALE, 2.0),
    "slow-answer": _of_request(Trouble.SLOW, 2.0),
    "proxy-garbage": _of_request(Trouble.GARBAGE, 1.0),
    "watch-cut": _of_watch(WatchTrouble.CUT, 2.0),
    "watch-expired": _of_watch(WatchTrouble.EXPIRED, 1.0),
    "watch-half-open": _of_watch(WatchTrouble.HALF_OPEN, 1.0),
    "watch-late": _of_watch(WatchTrouble.LATE, 2.0),
    "watch-repeated": _of_watch(WatchTrouble.REPEATED, 1.0),
    "replica-killed": SimulatedFault(_kill, 1.0),
    "partition": SimulatedFault(_partition, 1.0, (2.0, 30.0)),
    "lease-lost": SimulatedFault(_lose_lease, 1.0, (60.0, 150.0)),
    "clock-jump": SimulatedFault(_clock_jump, 1.0),
    "machine-suspended": SimulatedFault(_suspend, 1.0, (5.0, 90.0)),
    "server-restarted": SimulatedFault(_restart_server, 1.0),
    "etcd-restored": SimulatedFault(_restore_etcd, 0.5, (5.0, 300.0)),
    "engines-stall": SimulatedFault(_engines_stall, 1.0, (5.0, 120.0)),
    "right-removed": SimulatedFault(_remove_right, 0.5, (5.0, 120.0)),
    "right-to-read-removed": SimulatedFault(partial(_remove_right, reads=True), 1.0, (5.0, 60.0)),
    "replica-paused": SimulatedFault(_pause, 1.0, (5.0, 120.0)),
    "slow-network": SimulatedFault(_slow_network, 1.0, (10.0, 120.0)),
}
"""Every fault that any simulated cluster may have, by name."""
