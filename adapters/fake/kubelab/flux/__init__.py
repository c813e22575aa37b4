"""A simulated Flux: source-controller and helm-controller that write what the real ones write (RUN-9)."""

from kubelab.flux.behaviour import (
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
from kubelab.flux.crds import flux_crds
from kubelab.flux.flux_simulator import FluxSimulator
from kubelab.flux.helm_storage import ReleasedWorkload

__all__ = [
    "Action",
    "ChartHook",
    "FluxBehaviour",
    "FluxOutcome",
    "FluxSimulator",
    "OutcomeKind",
    "PullStage",
    "ReleaseRule",
    "ReleasedWorkload",
    "SourceFault",
    "SourceOutcome",
    "SourceRule",
    "flux_crds",
]
