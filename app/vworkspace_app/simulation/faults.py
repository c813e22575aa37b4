"""The faults of the operator's world, by their names, each with its rate (SIM-2): those of every world, and its own."""

from collections.abc import Mapping
from typing import Final

import attrs

from kubelab.flux import FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule, SourceFault, SourceOutcome, SourceRule
from purekube_run.simulation.world_faults import WORLD_FAULTS, SimulatedFault, Strike
from vworkspace_app.simulation.world import SimulatedWorld
from vworkspace_fake.controlplane.faults import ScriptedFault, When

OperatorStrike = Strike[SimulatedWorld]


def _crash_flux(at: OperatorStrike) -> None:
    if at.world.flux is not None:
        at.world.flux.crash()
    at.world.controllers.forget()
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
    """Return a fault of the next request to the control plane."""

    def strike(at: OperatorStrike) -> None:
        at.world.control.faults.inject(fault)
        at.happened("the next request")

    return SimulatedFault(strike, per_hour)


def _control_away(at: OperatorStrike) -> None:
    at.world.control.faults.outage(ScriptedFault(status=503))
    at.later(lambda: at.world.control.faults.outage(None))
    at.happened(f"for {at.seconds:g} s")


def _control_forgets(at: OperatorStrike) -> None:
    """Offer an open job again, as a control plane that was restored from before its acknowledgement."""
    acked = [job for job in at.world.control.jobs if job.open and job.acked_at is not None]
    if acked:
        job = acked[int(at.choice * len(acked))]
        job.acked_at = job.offered_at = None
        at.world.control.wake()
        at.happened(job.id)


FAULTS: Final[Mapping[str, SimulatedFault[SimulatedWorld]]] = {
    **WORLD_FAULTS,
    "flux-crashed": SimulatedFault(_crash_flux, 1.0),
    "flux-fails": SimulatedFault(_flux_fails, 0.5, (5.0, 60.0)),
    "registry-away": SimulatedFault(_registry_away, 0.5, (5.0, 120.0)),
    "control-plane-error": _of_control(ScriptedFault(status=500), 3.0),
    "control-plane-lost-answer": _of_control(ScriptedFault(status=0, when=When.AFTER), 3.0),
    "control-plane-garbage": _of_control(ScriptedFault(status=200, body=b"<html>", content_type="text/html"), 1.0),
    "control-plane-away": SimulatedFault(_control_away, 1.0, (5.0, 300.0)),
    "control-plane-forgets": SimulatedFault(_control_forgets, 2.0),
}
"""Every fault by its name."""
