"""A backup or a restore under way: the phases it goes through, one written after the other (facts 7.1).

It goes on without its object: Velero cannot be told to stop, and what it has begun it ends.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Kind, Manifest
from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import DownstreamRule, Ending
from vworkspace_fake.downstream.controller import ObjectView, PassResult, change, earliest
from vworkspace_fake.simulation.effects import PassStep

FINAL_PHASES: Final = ("FailedValidation", "Completed", "PartiallyFailed", "Failed")
UNDER_WAY: Final = (
    "InProgress",
    "WaitingForPluginOperations",
    "WaitingForPluginOperationsPartiallyFailed",
    "Finalizing",
    "FinalizingPartiallyFailed",
)


@attrs.frozen
class Flow:
    """What tells backups from restores: names of counts, and how long the work takes."""

    done: str
    operations: str
    seconds: float


@attrs.frozen
class VeleroRun:
    """A run under way. `manifest` is the object as it was when the run began, `status` what it has come to."""

    attempt: Attempt
    manifest: Manifest
    status: Mapping[str, Any]
    until: datetime | None
    half: datetime | None
    items: tuple[tuple[Kind, Manifest], ...] = ()
    used: tuple[DownstreamRule, ...] = ()

    @property
    def phase(self) -> str:
        """The phase the run is in."""
        return str(self.status["phase"])

    @property
    def total(self) -> int:
        """How many items it is about."""
        return len(self.items) if self.attempt.outcome.items is None else self.attempt.outcome.items


def start(view: ObjectView, flow: Flow, manifest: Manifest, status: Mapping[str, Any]) -> VeleroRun:
    """A run that begins now; `status` is what it writes first, `manifest` the object with Velero's defaults."""
    attempt = begin(view, (), flow.seconds)
    used = attempt.used_up(())
    begun = {**status, "phase": "InProgress", "startTimestamp": view.timestamp()}
    return VeleroRun(attempt, manifest, begun, attempt.until, _half(view, attempt), used=used)


def _half(view: ObjectView, attempt: Attempt) -> datetime | None:
    if attempt.until is None:
        return None
    return view.now + timedelta(seconds=(attempt.until - view.now).total_seconds() / 2)


def has_ended(run: VeleroRun) -> bool:
    """Whether the run is in its last phase."""
    return run.phase in FINAL_PHASES


def restarted(memory: Any) -> Any:
    """A run that is in progress dies with the process; one that only waits or finalizes is taken up again."""
    return None if isinstance(memory, VeleroRun) and memory.phase == "InProgress" else memory


def advance(view: ObjectView, flow: Flow, run: VeleroRun) -> VeleroRun:
    """The run, a phase further where it is time for that."""
    if released(view, run.attempt):
        attempt = begin(view, run.used, flow.seconds)
        used = attempt.used_up(run.used)
        run = attrs.evolve(run, attempt=attempt, until=attempt.until, half=_half(view, attempt), used=used)
    if run.until is not None and view.now >= run.until:
        return _next(view, flow, run)
    if run.half is not None and view.now >= run.half:
        return attrs.evolve(run, half=None, status={**run.status, "progress": _progress(flow, run, run.total // 2)})
    return run


def under_way(run: VeleroRun) -> PassResult:
    """The run is remembered, and looked at again when its next phase is due."""
    return PassResult(memory=run, requeue_at=earliest(run.until, run.half))


def write_status(view: ObjectView, run: VeleroRun) -> PassStep[None]:
    """There is no status subresource: the status is written with the object, and moves its generation."""
    if view.live is not None:
        yield from change(view, {"status": dict(run.status)})


def _progress(flow: Flow, run: VeleroRun, done: int) -> dict[str, int]:
    # Velero leaves out what is zero.
    return {name: number for name, number in ((flow.done, done), ("totalItems", run.total)) if number}


def _next(view: ObjectView, flow: Flow, run: VeleroRun) -> VeleroRun:
    velero, outcome = view.behaviour.velero, run.attempt.outcome
    partly = "PartiallyFailed" if outcome.ending is Ending.PARTIAL else ""
    status = dict(run.status)
    match run.phase:
        case "InProgress" if outcome.ending in (Ending.FAIL, Ending.ERROR):
            status["failureReason"] = outcome.message or "error uploading to the object storage"
            return _end(view, run, status, "Failed")
        case "InProgress":
            status["progress"] = _progress(flow, run, run.total)
            _count_problems(run, status)
            if velero.plugin_operations:
                status[f"{flow.operations}Attempted"] = velero.plugin_operations
                return _enter(view, run, status, f"WaitingForPluginOperations{partly}", velero.plugin_seconds)
            return _enter(view, run, status, f"Finalizing{partly}", velero.finalize_seconds)
        case "WaitingForPluginOperations" | "WaitingForPluginOperationsPartiallyFailed":
            status[f"{flow.operations}Completed"] = velero.plugin_operations
            return _enter(view, run, status, f"Finalizing{partly}", velero.finalize_seconds)
        case _:
            return _end(view, run, status, partly or "Completed")


def _count_problems(run: VeleroRun, status: dict[str, Any]) -> None:
    outcome = run.attempt.outcome
    if outcome.ending is Ending.PARTIAL:
        status["errors"] = outcome.errors
    if outcome.warnings:
        status["warnings"] = outcome.warnings


def _enter(view: ObjectView, run: VeleroRun, status: dict[str, Any], phase: str, seconds: float) -> VeleroRun:
    return attrs.evolve(run, status={**status, "phase": phase}, until=view.at(seconds), half=None)


def _end(view: ObjectView, run: VeleroRun, status: dict[str, Any], phase: str) -> VeleroRun:
    ended = {**status, "phase": phase, "completionTimestamp": view.timestamp()}
    return attrs.evolve(run, status=ended, until=None, half=None)
