"""The run of a Velero backup or restore. Its phases are written into the object's status one after the other.

The phases are those of Velero's `pkg/apis/velero/v1`. A run continues even if its object is deleted: Velero cannot be
stopped, and completes what it has begun.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import NOTHING, Attempt, ObjectView, PassResult, begin, change, earliest, released
from kubelab.simulation.effects import PassStep
from purekube.apimachinery.manifest import Kind, Manifest

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
    """The differences between the run of a backup and that of a restore.

    `done` is the name of the status field that counts finished items. `operations` is the prefix of the fields that
    count asynchronous operations. The work takes `seconds`. `is_backup` is True for a backup, which reports its total
    before the first item, and its hooks with the last item. A restore reports its hooks at the end.
    """

    done: str
    operations: str
    seconds: float
    is_backup: bool


@attrs.frozen
class VeleroRun:
    """A backup or restore in progress. `manifest` is the object when the run began, `status` the present status.

    The present phase ends at `until`, or never if that is None. `half` is the time when the status
    reports half of the items as done. It is None if that report has been made, or is not planned.
    """

    attempt: Attempt
    manifest: Manifest
    status: Mapping[str, Any]
    until: datetime | None
    half: datetime | None
    items: tuple[tuple[Kind, Manifest], ...] = ()

    @property
    def phase(self) -> str:
        """The current phase of the run."""
        return str(self.status["phase"])

    @property
    def total(self) -> int:
        """The total number of items that the run's status reports."""
        return len(self.items) if self.attempt.outcome.items is None else self.attempt.outcome.items


def start(view: ObjectView, flow: Flow, manifest: Manifest, status: Mapping[str, Any]) -> VeleroRun:
    """Return a new run of the backup or restore in `view`, in the phase InProgress. `flow` says which of the two it is.

    `manifest` is the Backup or Restore with Velero's defaults, `status` its status so far.
    """
    attempt = begin(view, (), flow.seconds)
    begun = {**status, "phase": "InProgress", "startTimestamp": view.timestamp()}
    return VeleroRun(attempt, manifest, begun, attempt.until, _half(view, attempt))


def _half(view: ObjectView, attempt: Attempt) -> datetime | None:
    if attempt.until is None:
        return None
    return view.now + timedelta(seconds=(attempt.until - view.now).total_seconds() / 2)


def has_ended(run: VeleroRun) -> bool:
    """Report whether the run is in its last phase."""
    return run.phase in FINAL_PHASES


def restarted(memory: Any) -> Any:
    """Return what is left of `memory`, Velero's memory of a backup or restore, after a restart of Velero.

    A run in the phase InProgress is lost; a waiting or finalizing run continues.
    """
    return None if isinstance(memory, VeleroRun) and memory.phase == "InProgress" else memory


def interrupted(view: ObjectView) -> PassStep[PassResult]:
    """Fail the backup or restore in `view`, which was in progress when the Velero server stopped."""
    # pkg/cmd/server/server.go, markInProgressBackupsFailed: only InProgress is failed at a start.
    text = (
        f'found a {view.ref.kind.kind.lower()} with status "InProgress" during the server starting, mark it as "Failed"'
    )
    failed = {"phase": "Failed", "failureReason": text, "completionTimestamp": view.timestamp()}
    yield from change(view, {"status": {**view.status, **failed}})
    return NOTHING


def advance(view: ObjectView, flow: Flow, run: VeleroRun) -> VeleroRun:
    """Return `run`, a backup or restore, as it is now: in its next phase, or with half of its items done.

    `flow` says whether the run is a backup or a restore. If a rule stalled the run and was removed since, its work
    begins again. Return `run` unchanged if neither the next phase nor half of the items is due.
    """
    if released(view, run.attempt):
        attempt = begin(view, run.attempt.used, flow.seconds)
        run = attrs.evolve(run, attempt=attempt, until=attempt.until, half=_half(view, attempt))
    if run.until is not None and view.now >= run.until:
        return _next(view, flow, run)
    if run.half is not None and view.now >= run.half:
        half = run.total // 2
        counted = {"progress": _progress(flow, run, half)} if half or flow.is_backup else {}
        return attrs.evolve(run, half=None, status={**run.status, **counted})
    return run


def counted(view: ObjectView, flow: Flow, run: VeleroRun) -> VeleroRun:
    """Return `run` with the final progress and hook counts of its present phase added to the status.

    `flow` says whether the run is a backup or a restore. Return `run` unchanged if the phase is not over. The caller
    writes this status before that of the next phase.
    """
    if run.until is None or view.now < run.until or run.attempt.outcome.ending in (Ending.FAIL, Ending.ERROR):
        return run
    status = dict(run.status)
    if run.phase == "InProgress":
        status["progress"] = _progress(flow, run, run.total)
    if run.phase == "InProgress" if flow.is_backup else run.phase.startswith("Finalizing"):
        failed = run.attempt.outcome.failed_hooks
        status["hookStatus"] = {"hooksAttempted": failed, "hooksFailed": failed} if failed else {}
    return attrs.evolve(run, status=status)


def under_way(run: VeleroRun) -> PassResult:
    """Return a pass result that keeps `run` in the controller's memory.

    The next pass is when the run's next phase, or half of its progress, is due.
    """
    return PassResult(memory=run, requeue_at=earliest(run.until, run.half))


def write_status(view: ObjectView, run: VeleroRun) -> PassStep[None]:
    """Write the status of `run` into its Backup or Restore object, if that still exists.

    These kinds have no status subresource, so the write increments the generation.
    """
    if view.live is not None:
        yield from change(view, {"status": dict(run.status)})


def _progress(flow: Flow, run: VeleroRun, done: int) -> dict[str, int]:
    # Velero omits zeros (`omitempty` in pkg/apis/velero/v1), so a reader must take a missing count for zero.
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
