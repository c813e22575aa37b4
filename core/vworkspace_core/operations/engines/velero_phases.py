"""What the phases of Velero's Backups and Restores mean (OPS-7)."""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.kinds.reasons import OperationReason as Reason
from vworkspace_core.operations.contract import Progress, Row, phase_row

__all__ = ["BACKUP", "NOTHING_RESTORED", "RESTORE"]

_RUNNING, _SUCCEEDED, _FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED
_STORAGE_AWAY: Final = {"failureReason": "the object storage is away"}
_REFUSED: Final = {"validationErrors": ["the storage location default is unavailable"]}


def _counts(done: str, number: int, **more: int) -> Mapping[str, Any]:
    return {"progress": {done: number, "totalItems": 7}, **more}


def _rows(kind: str, done: str, partly: Row, *more: Row) -> tuple[Row, ...]:
    """The phases that backups and restores share, with `kind` in their reasons; `done` counts what is done."""
    pending, busy, last = (f"Velero{kind}{word}" for word in ("Pending", "InProgress", "Finalizing"))
    return (
        phase_row("", _RUNNING, pending, "not yet seen by Velero"),
        phase_row("New", _RUNNING, pending, "seen, not yet begun"),
        *more,
        phase_row("InProgress", _RUNNING, busy),
        phase_row("WaitingForPluginOperations", _RUNNING, busy, "asynchronous uploads go on"),
        phase_row("WaitingForPluginOperationsPartiallyFailed", _RUNNING, busy, "will be partial"),
        phase_row("Finalizing", _RUNNING, last),
        phase_row("FinalizingPartiallyFailed", _RUNNING, last, "will be partial"),
        phase_row("Completed", _SUCCEEDED, f"Velero{kind}Completed", "", _counts(done, 7)),
        partly,
        phase_row("Failed", _FAILED, f"Velero{kind}Failed", "", _STORAGE_AWAY),
        phase_row("FailedValidation", _FAILED, f"Velero{kind}FailedValidation", "Velero refused the request", _REFUSED),
    )


BACKUP: Final = _rows(
    "Backup",
    "itemsBackedUp",
    phase_row(
        "PartiallyFailed",
        _SUCCEEDED,
        "VeleroBackupPartiallyFailed",
        "usable in part: Degraded=True/PartialFailure",
        _counts("itemsBackedUp", 5, errors=2, warnings=1),
    ),
    phase_row("Queued", _RUNNING, "VeleroBackupQueued"),
    phase_row("ReadyToStart", _RUNNING, "VeleroBackupQueued"),
    phase_row("Deleting", _RUNNING, "VeleroBackupDeleting", "somebody is deleting it"),
)
NOTHING_RESTORED: Final = Row(
    "Completed, without an item",
    _SUCCEEDED,
    "VeleroRestoreCompleted",
    "nothing in the backup was restored: Degraded=True/PartialFailure",
    {"status": {"phase": "Completed", "progress": {}}},
)
"""Velero itself calls it a success."""

RESTORE: Final = _rows(
    "Restore",
    "itemsRestored",
    phase_row(
        "PartiallyFailed",
        _FAILED,
        str(Reason.PARTIAL_FAILURE),
        "a restore in part is a failure",
        _counts("itemsRestored", 5, errors=2, warnings=1),
    ),
    NOTHING_RESTORED,
)
