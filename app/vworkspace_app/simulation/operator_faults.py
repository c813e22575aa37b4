"""The faults of the simulated operator by name, each with its rate, and the writes at which processes crash (SIM-2)."""

from collections.abc import Mapping
from typing import Final

import attrs

from kubelab.flux import FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule, SourceFault, SourceOutcome, SourceRule
from kubelab.model.records import ObjectKey
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.simulation.connection import Disturbance, ObservedWrite, Trouble, WatchTrouble
from purekube_run.simulation.laws import place_of
from purekube_run.simulation.world_faults import WORLD_FAULTS, SimulatedFault, Strike, shorten_pages
from vworkspace_app.simulation.downstream_faults import DOWNSTREAM_FAULTS
from vworkspace_app.simulation.operator_world import SimulatedWorld
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.install import access
from vworkspace_fake.controlplane.faults import ScriptedFault, When
from vworkspace_fake.controlplane.jobs import JobEntry

_WRITES: Final = ("create", "update", "patch", "delete")
_RIGHTS: Final = (*access.EVERYWHERE, *access.TENANT, *access.JOBS, *access.VELERO, *access.OWN)
SIDES: Final = ("before", "after")
POINTS: Final = tuple(
    sorted({f"{verb} {right.resource}" for right in _RIGHTS for verb in right.verbs if verb in _WRITES})
)
"""The kinds of writes that the operator has a right to, as verb and resource, such as `patch helmreleases`."""
CRASH_POINTS: Final = tuple(f"{side} {point}" for point in POINTS for side in SIDES)
"""The points at which a simulated process can crash: before and after each kind of write."""


def point_of(world: SimulatedWorld, request: KubeRequest) -> str:
    """Return the verb and resource of a write request as text, such as `patch pods`.

    Such a string names the point at which a simulated crash happens. An apply of an object that does not exist counts
    as a create (S-18).
    """
    key: ObjectKey = (request.namespace or "", request.name)
    match request.verb:
        case KubeVerb.APPLY if world.server.store.get(place_of(request.kind), key) is None:
            verb = "create"
        case KubeVerb.APPLY:
            verb = "patch"
        case _:
            verb = request.verb.value
    subresource = f"/{request.subresource}" if request.subresource else ""
    return f"{verb} {request.kind.plural}{subresource}"


OperatorStrike = Strike[SimulatedWorld]


def _crash_flux(at: OperatorStrike) -> None:
    at.world.restart_flux()
    at.happened("the simulated Flux starts again")


def _flux_behaves(at: OperatorStrike, behaviour: FluxBehaviour, what: str = "") -> None:
    at.world.set_behaviour(flux=behaviour)
    at.later(at.world.calm_down)
    at.happened(f"{what}for {at.seconds:g} s")


def _flux_fails(at: OperatorStrike) -> None:
    rule = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "injected failure"))
    _flux_behaves(at, attrs.evolve(at.world.settings.flux, release_rules=(rule,)), "every action fails ")


def _registry_away(at: OperatorStrike) -> None:
    rule = SourceRule(SourceOutcome(SourceFault.UNAVAILABLE, "connection refused"))
    _flux_behaves(at, attrs.evolve(at.world.settings.flux, source_rules=(rule,)))


def _of_control(fault: ScriptedFault, per_hour: float) -> SimulatedFault[SimulatedWorld]:
    """Return the fault by which the next request to the control plane fails as `fault` describes.

    It occurs `per_hour` times per hour on average.
    """

    def strike(at: OperatorStrike) -> None:
        at.world.control.faults.inject(fault)
        at.happened("the next request")

    return SimulatedFault(strike, per_hour)


def _control_away(at: OperatorStrike) -> None:
    at.world.control.faults.outage(ScriptedFault(status=503))
    at.later(lambda: at.world.control.faults.outage(None))
    at.happened(f"for {at.seconds:g} s")


def _control_forgets(at: OperatorStrike) -> None:
    """Make the control plane offer an acknowledged job again, as after a restore from an older backup."""
    acked = [job for job in at.world.control.jobs if job.open and job.acked_at is not None]
    if acked:
        job = acked[int(at.choice * len(acked))]
        job.acked_at = job.offered_at = None
        at.world.control.wake()
        at.happened(job.id)


def _control_repeats(at: OperatorStrike) -> None:
    """Make the control plane offer an answered job again, under a new id."""
    jobs = [job for job in at.world.control.jobs if job.result is not None]
    if jobs:
        job = jobs[int(at.choice * len(jobs))]
        number = sum(1 for _ in at.world.control.jobs)
        at.world.control.enqueue_raw(job.cluster_id, {**job.raw, "id": f"repeated-{number}"})
        at.happened(job.id)


def _control_reorders(at: OperatorStrike) -> None:
    """Make the control plane unavailable for a while, then let it offer its jobs in reverse order."""
    control = at.world.control
    control.faults.outage(ScriptedFault(status=503))

    def reverse(due: list[JobEntry]) -> list[JobEntry]:
        if len(due) > 1:
            control.jobs.order = list
            at.happened(f"{len(due)} jobs")
        return due[::-1]

    def release() -> None:
        control.faults.outage(None)
        control.jobs.order = reverse
        control.wake()

    at.later(release)


def _control_late(at: OperatorStrike) -> None:
    at.world.control.faults.inject(ScriptedFault(status=None, latency=at.seconds))
    at.happened(f"the next answer takes {at.seconds:g} s longer")


def _crash_at_point(at: OperatorStrike) -> None:
    """Choose one of the writes in CRASH_POINTS, and crash the first process that makes it.

    The process crashes before the write or after it.
    """
    side, _, point = CRASH_POINTS[int(at.choice * len(CRASH_POINTS))].partition(" ")
    trouble = Trouble.CRASH_BEFORE if side == "before" else Trouble.CRASH_AFTER
    ordered: list[tuple[list[Disturbance], Disturbance]] = []

    def happened(request: KubeRequest) -> None:
        for others, disturbance in ordered:
            if disturbance in others:
                others.remove(disturbance)
        at.world.crashed_at.add(f"{side} {point}")
        at.happened(f"{side} {request}")

    for replica in at.world.replicas:
        disturbance = Disturbance(trouble, happened, only=lambda request: point_of(at.world, request) == point)
        ordered.append((replica.disturbances, disturbance))
        replica.disturbances.append(disturbance)


def _stale_cache(at: OperatorStrike) -> None:
    """Delay the events of watches, except those of instances and Operations, so that the operator's caches are stale.

    The fault is counted only if an object is deleted meanwhile.
    """
    world, until = at.world, at.world.seconds + at.seconds
    for replica in world.replicas:
        for watch in replica.link.watches:
            if watch.request.kind not in (APPLICATION_INSTANCE, OPERATION):
                watch.late_until = until

    def observe(write: ObservedWrite) -> None:
        if write.request.verb is KubeVerb.DELETE and world.seconds < until:
            at.happened(write.request)

    world.on_write.append(observe)
    at.later(lambda: world.on_write.remove(observe))


def _reorder_watches(at: OperatorStrike) -> None:
    """Deliver in each watch of a replica older events after newer ones of the same objects, for a while."""
    link = at.world.replicas[at.replica].link
    for number in range(len(link.watches)):
        link.disturb_watch(WatchTrouble.REORDERED, (number + 0.5) / len(link.watches), at.seconds)
    if link.watches:
        at.happened(f"{len(link.watches)} watches of {at.world.replicas[at.replica].name}")


FAULTS: Final[Mapping[str, SimulatedFault[SimulatedWorld]]] = {
    **WORLD_FAULTS,
    **DOWNSTREAM_FAULTS,
    "crash-at-write-point": SimulatedFault(_crash_at_point, 12.0, forms=len(CRASH_POINTS)),
    "stale-cache": SimulatedFault(_stale_cache, 4.0, (10.0, 180.0)),
    "flux-crashed": SimulatedFault(_crash_flux, 1.0),
    "flux-fails": SimulatedFault(_flux_fails, 0.5, (5.0, 60.0)),
    "registry-away": SimulatedFault(_registry_away, 0.5, (5.0, 120.0)),
    "control-plane-error": _of_control(ScriptedFault(status=500), 3.0),
    "control-plane-lost-answer": _of_control(ScriptedFault(status=0, when=When.AFTER), 3.0),
    "control-plane-garbage": _of_control(ScriptedFault(status=200, body=b"<html>", content_type="text/html"), 1.0),
    "control-plane-away": SimulatedFault(_control_away, 1.0, (5.0, 300.0)),
    "control-plane-forgets": SimulatedFault(_control_forgets, 2.0),
    "control-plane-repeats": SimulatedFault(_control_repeats, 2.0),
    "control-plane-reorders": SimulatedFault(_control_reorders, 1.0, (5.0, 120.0)),
    "control-plane-late": SimulatedFault(_control_late, 1.0, (5.0, 40.0)),
    "watch-reordered": SimulatedFault(_reorder_watches, 1.0, (5.0, 120.0)),
    "short-pages": SimulatedFault(shorten_pages, 2.0, (60.0, 600.0)),
}
"""All faults of a simulation of the operator, by name."""
