"""A simulated Flux: source-controller and helm-controller that write what the real ones write (RUN-9)."""

from vworkspace_fake.flux.behaviour import (
    Action,
    ChartHook,
    FluxBehaviour,
    FluxOutcome,
    OutcomeKind,
    PullStage,
    ReleaseRule,
    SourceFault,
    SourceOutcome,
    SourceRule,
)
from vworkspace_fake.flux.crds import flux_crds
from vworkspace_fake.flux.helm_storage import Workload
from vworkspace_fake.flux.run import run
from vworkspace_fake.flux.simulator import FluxSimulator

__all__ = [
    "Action",
    "ChartHook",
    "FluxBehaviour",
    "FluxOutcome",
    "FluxSimulator",
    "OutcomeKind",
    "PullStage",
    "ReleaseRule",
    "SourceFault",
    "SourceOutcome",
    "SourceRule",
    "Workload",
    "flux_crds",
    "run",
]
