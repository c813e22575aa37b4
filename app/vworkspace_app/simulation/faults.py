"""The faults of a simulation, by their names, each with its rate (SIM-2, RUN-10).

A fault strikes at a moment: at once, or at the next request of a replica that it concerns. `SimulatedWorld.happened`
counts the ones that did happen.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import attrs

from kubelab.access.authorization import Attributes
from kubelab.downstream.behaviour import DownstreamOutcome, DownstreamRule, Ending
from kubelab.flux import FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule, SourceFault, SourceOutcome, SourceRule
from kubelab.model.calls import Caller
from purekube_run.simulation.connection import Disturbance, Trouble, WatchTrouble
from vworkspace_app.simulation.replica import USER_PREFIX
from vworkspace_app.simulation.world import SimulatedWorld
from vworkspace_fake.controlplane.faults import ScriptedFault, When


@attrs.frozen
class Strike:
    """One fault as it strikes: the world, its replica, how long it lasts, and a number in [0, 1)."""

    world: SimulatedWorld
    name: str
    replica: int
    seconds: float
    choice: float

    def happened(self, what: str) -> None:
        """Count the fault, and add it to the trace."""
        self.world.happened[self.name] += 1
        self.world.note("fault", f"{self.name}: {what}")

    def later(self, act: Callable[[], None]) -> None:
        """Do something when the fault is over."""
        self.world.loop.call_later(self.seconds, act)


@attrs.frozen
class SimulatedFault:
    """A kind of fault: how it strikes, how often in an hour, and how long it lasts in seconds."""

    strike: Callable[[Strike], None]
    per_hour: float
    lasts: tuple[float, float] = (0.0, 0.0)


def _of_request(trouble: Trouble, per_hour: float) -> SimulatedFault:
    """Return a fault of the next request that it concerns, after up to twenty others."""

    def strike(at: Strike) -> None:
        ordered = Disturbance(trouble, at.happened, int(at.choice * 20))
        at.world.replicas[at.replica].disturbances.append(ordered)

    return SimulatedFault(strike, per_hour)


def _of_watch(trouble: WatchTrouble, per_hour: float) -> SimulatedFault:
    def strike(at: Strike) -> None:
        if kind := at.world.replicas[at.replica].link.disturb_watch(trouble, at.choice, at.seconds):
            at.happened(kind)

    return SimulatedFault(strike, per_hour, (5.0, 120.0))


def _kill(at: Strike) -> None:
    replica = at.world.replicas[at.replica]
    if replica.is_running:
        replica.kill("SIGKILL")
        at.happened(replica.name)


def _partition(at: Strike) -> None:
    replica = at.world.replicas[at.replica]
    replica.link.partition(at.seconds)
    at.happened(f"{replica.name} for {at.seconds:g} s")


def _clock_jump(at: Strike) -> None:
    clock = at.world.replicas[at.replica].clock
    clock.offset += timedelta(seconds=round((at.choice - 0.5) * 1200))
    at.happened(f"the clock is wrong by {clock.offset.total_seconds():g} s")


def _suspend(at: Strike) -> None:
    at.world.replicas[at.replica].clock.slept += at.seconds
    at.happened(f"{at.seconds:g} s")


def _restart_server(at: Strike) -> None:
    at.world.server.streams.end()
    at.world.server.store.compact()
    at.happened("watches end, the history is gone")


def _restore_etcd(at: Strike) -> None:
    """Take a snapshot now, and go back to it at the end."""
    snapshot = at.world.server.store.snapshot()

    def restore() -> None:
        at.world.restore(snapshot)
        at.happened(f"to resourceVersion {snapshot.version}")

    at.later(restore)


def _crash_flux(at: Strike) -> None:
    at.world.flux.crash()
    at.world.controllers.forget()
    at.happened("the simulated Flux starts again")


def _flux_behaves(at: Strike, behaviour: FluxBehaviour, what: str = "") -> None:
    at.world.set_behaviour(flux=behaviour)
    at.later(lambda: at.world.set_behaviour(flux=at.world.settings.flux))
    at.happened(f"{what}for {at.seconds:g} s")


def _flux_fails(at: Strike) -> None:
    rule = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "injected failure"))
    _flux_behaves(at, attrs.evolve(at.world.settings.flux, release_rules=(rule,)), "every action fails ")


def _registry_away(at: Strike) -> None:
    rule = SourceRule(SourceOutcome(SourceFault.UNAVAILABLE, "connection refused"))
    _flux_behaves(at, attrs.evolve(at.world.settings.flux, source_rules=(rule,)))


def _engines_stall(at: Strike) -> None:
    rule = DownstreamRule(DownstreamOutcome(Ending.STALL))
    at.world.set_behaviour(engines=attrs.evolve(at.world.settings.engines, rules=(rule,)))
    at.later(lambda: at.world.set_behaviour(engines=at.world.settings.engines))
    at.happened(f"for {at.seconds:g} s")


def _of_control(fault: ScriptedFault, per_hour: float) -> SimulatedFault:
    """Return a fault of the next request to the control plane."""

    def strike(at: Strike) -> None:
        at.world.control.faults.inject(fault)
        at.happened("the next request")

    return SimulatedFault(strike, per_hour)


def _control_away(at: Strike) -> None:
    at.world.control.faults.outage(ScriptedFault(status=503))
    at.later(lambda: at.world.control.faults.outage(None))
    at.happened(f"for {at.seconds:g} s")


def _control_forgets(at: Strike) -> None:
    """Offer an open job again, as a control plane that was restored from before its acknowledgement."""
    acked = [job for job in at.world.control.jobs if job.open and job.acked_at is not None]
    if acked:
        job = acked[int(at.choice * len(acked))]
        job.acked_at = job.offered_at = None
        at.world.control.wake()
        at.happened(job.id)


_RIGHTS: Final = ("applicationinstances", "helmreleases", "ocirepositories", "events", "secrets")


def _remove_right(at: Strike) -> None:
    """Take away the right to write a resource from all replicas."""
    resource = _RIGHTS[int(at.choice * len(_RIGHTS))]

    def allows(caller: Caller, asked: Attributes) -> bool:
        writes = asked.verb not in ("get", "list", "watch")
        return not (caller.user.startswith(USER_PREFIX) and writes and asked.resource == resource)

    at.world.server.authorize = allows

    def give_back() -> None:
        at.world.server.authorize = None

    at.later(give_back)
    at.happened(f"to write {resource} for {at.seconds:g} s")


FAULTS: Final[Mapping[str, SimulatedFault]] = {
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
    "lease-lost": SimulatedFault(_partition, 0.5, (60.0, 150.0)),
    "clock-jump": SimulatedFault(_clock_jump, 1.0),
    "machine-suspended": SimulatedFault(_suspend, 0.5, (5.0, 90.0)),
    "server-restarted": SimulatedFault(_restart_server, 1.0),
    "etcd-restored": SimulatedFault(_restore_etcd, 0.5, (5.0, 300.0)),
    "flux-crashed": SimulatedFault(_crash_flux, 1.0),
    "flux-fails": SimulatedFault(_flux_fails, 0.5, (5.0, 60.0)),
    "registry-away": SimulatedFault(_registry_away, 0.5, (5.0, 120.0)),
    "engines-stall": SimulatedFault(_engines_stall, 0.5, (5.0, 120.0)),
    "control-plane-error": _of_control(ScriptedFault(status=500), 3.0),
    "control-plane-lost-answer": _of_control(ScriptedFault(status=0, when=When.AFTER), 3.0),
    "control-plane-garbage": _of_control(ScriptedFault(status=200, body=b"<html>", content_type="text/html"), 1.0),
    "control-plane-away": SimulatedFault(_control_away, 1.0, (5.0, 300.0)),
    "control-plane-forgets": SimulatedFault(_control_forgets, 2.0),
    "right-removed": SimulatedFault(_remove_right, 0.5, (5.0, 120.0)),
}
"""Every fault by its name."""
