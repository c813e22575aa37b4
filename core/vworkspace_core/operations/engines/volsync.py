"""The engine `volsync`: a ReplicationSource (Backup) or ReplicationDestination (Restore) with restic (OPS-10).

The manual trigger is set only at creation: VolSync lets a sync that is running count for a new trigger. It retries a
failed sync until the deadline ends the run.
"""

from calendar import isleap
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import REPLICATION_DESTINATION, REPLICATION_SOURCE
from purekube.apimachinery.timestamps import time_or_none
from vworkspace_core.api import labels
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.operation import (
    BETWEEN_SYNCS,
    SYNC_POSTPONED,
    EngineName,
    LogsRef,
    Operation,
    OperationType,
    Phase,
)
from vworkspace_core.api.reasons import OperationReason
from vworkspace_core.operations.contract import (
    OPERATION_UID,
    DemoOperation,
    Engine,
    EngineContext,
    EngineController,
    EngineObject,
    EngineRefusal,
    EngineStatus,
    EngineTemplate,
    Objects,
    Progress,
    Row,
    by_type,
    is_backup,
)
from vworkspace_core.operations.identity import engine_manifest, own_object, parameters_of
from vworkspace_core.operations.parameter_schemas import (
    COUNT,
    CRON,
    NAME,
    PERIOD,
    ParameterSchema,
    record,
    with_description,
)

_RUNNING, _SUCCEEDED = Progress.RUNNING, Progress.SUCCEEDED


def _sync(status: str, reason: str, result: str = "", logs: str = "", **more: Any) -> dict[str, Any]:
    mover = {"latestMoverStatus": {"result": result, **({"logs": logs} if logs else {})}} if result else {}
    condition = {"type": "Synchronizing", "status": status, "reason": reason, "message": ""}
    return {"status": {"conditions": [condition], **mover, **more}}


def _while(status: str, shown: str, reason: str, meaning: str = "", result: str = "", **more: Any) -> Row:
    """Return the row for the condition Synchronizing with `status` and the reason `shown`.

    `result` and `more` are further fields of the row's sample, an example of such a status.
    """
    return Row(f"Synchronizing={status} {shown}", _RUNNING, reason, meaning, _sync(status, shown, result, **more))


_NO_SNAPSHOT, _NO_FILE = "No eligible snapshots found", "Directory is empty skipping backup"
"""The lines in which VolSync's mover reports that it moved nothing, after which it reports success (VolSync 0.14:
mover-restic/entry.sh, do_restore and check_contents).
"""


def _nothing_moved(meaning: str, logs: str) -> Row:
    sample = _sync("False", "WaitingForManual", "Successful", logs, lastManualSync=OPERATION_UID)
    return Row(f"lastManualSync = trigger, log: {logs}", _SUCCEEDED, "VolSyncCompleted", meaning, sample)


_NOTHING_RESTORED: Final = _nothing_moved(
    "the repository has no snapshot, so that nothing was restored: Degraded=True/PartialFailure", _NO_SNAPSHOT
)
_NOTHING_BACKED_UP: Final = _nothing_moved(
    "the volume is empty, so that no snapshot was made: Degraded=True/PartialFailure", _NO_FILE
)

_DONE: Final = Row(
    "lastManualSync = trigger, result Successful",
    _SUCCEEDED,
    "VolSyncCompleted",
    "",
    _sync("False", "WaitingForManual", "Successful", lastManualSync=OPERATION_UID, lastSyncDuration="1m30s"),
)
_MOVER_FAILED: Final = Row(
    "latestMoverStatus.result = Failed",
    _RUNNING,
    "VolSyncMoverFailed",
    "VolSync tries again until the deadline",
    _sync("True", "SyncInProgress", "Failed"),
)
_IN_PROGRESS: Final = _while("True", "SyncInProgress", "VolSyncSyncInProgress")
_UNSEEN: Final = Row("", _RUNNING, "VolSyncPending", "not yet seen by VolSync")
TABLE: Final = (
    _DONE,
    _NOTHING_RESTORED,
    _NOTHING_BACKED_UP,
    _MOVER_FAILED,
    _IN_PROGRESS,
    _while("False", "CleaningUp", "VolSyncCleaningUp"),
    _while("False", "Error", "VolSyncError", "VolSync tries again until the deadline"),
    _while(
        "False",
        "WaitingForSchedule",
        BETWEEN_SYNCS,
        "recurring: waits for its next sync",
        "Successful",
        lastSyncTime="2026-06-01T03:00:00Z",
    ),
    _while("False", "WaitingForManual", "VolSyncPending", "not our trigger yet"),
    _UNSEEN,
)
"""The engine's table: what VolSync's status means for the run. The first row that matches counts."""

_POSTPONED: Final = Row(
    "", _RUNNING, SYNC_POSTPONED, "recurring: its next sync waits for another Operation on the same target"
)
_EVERYTHING: Final = {"within": "100y"}
"""The retain policy by which a single backup removes no earlier one. Without a policy, or with an empty one, VolSync
removes all snapshots of the repository except the newest (VolSync 0.14: internal/controller/mover/restic/mover.go,
generateForgetOptions), also those that a schedule is to keep.
"""
_KINDS: Final = by_type(backup=REPLICATION_SOURCE, restore=REPLICATION_DESTINATION)


def _is_recurring(operation: Operation) -> bool:
    return "schedule" in parameters_of(operation)


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    """Return the VolSync object to create.

    A ReplicationDestination has no owner reference, since its restored data must outlive the Operation.
    """
    parameters = parameters_of(operation)
    (kind,) = _KINDS(operation)
    manifest = engine_manifest(kind, operation, target, context)
    # The uid is a tag that no earlier Operation of this name has used: an equal lastManualSync would be a sync that is
    # done.
    trigger = {"schedule": parameters["schedule"]} if "schedule" in parameters else {"manual": operation.metadata.uid}
    restic: dict[str, Any] = {"repository": parameters["repository"]}
    if is_backup(operation):
        # Direct would read the claim while pods write to it.
        restic["copyMethod"] = parameters.get("copyMethod", "Snapshot")
        if "retain" in parameters or not _is_recurring(operation):
            restic["retain"] = dict(parameters.get("retain") or _EVERYTHING)
        manifest["spec"] = {"sourcePVC": parameters["source"], "trigger": trigger, "restic": restic}
    else:
        # After Direct the claim itself has the data; Snapshot also leaves a VolumeSnapshot, named in
        # status.latestImage.
        restic |= {"copyMethod": parameters.get("copyMethod", "Direct"), "destinationPVC": parameters["destination"]}
        manifest["spec"] = {"trigger": trigger, "restic": restic}
    return (EngineObject(kind, manifest),)


def schedule_again(live: Manifest) -> dict[str, Any] | None:
    """Return the patch by which a VolSync object has its own schedule again, or None if that was not postponed.

    An object that outlives its Operation needs it: afterwards nothing would know that its schedule was replaced.
    """
    schedule = get_path(live, "metadata", "annotations", labels.POSTPONED)
    return _scheduled(schedule) if isinstance(schedule, str) else None


def _scheduled(schedule: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {labels.POSTPONED: None}}, "spec": {"trigger": {"schedule": schedule}}}


def _is_postponed(live: Manifest) -> bool:
    return schedule_again(live) is not None


def _postpone(operation: Operation, live: Manifest, now: datetime, wanted: bool) -> Manifest | None:
    """Return the patch that keeps any sync from beginning for months, or that restores the requested schedule.

    Return None if nothing is to be changed, or if the next sync cannot be postponed. VolSync computes the time of the
    next sync from the present schedule and the end of the last sync, whenever it reconciles (statemachine/machine.go,
    doCleanupState). `paused` does not serve: it lets a sync begin, which then takes its snapshot at once. A missed sync
    is made up afterwards.
    """
    if wanted == _is_postponed(live):
        return None
    status = live.get("status") or {}
    schedule = str(parameters_of(operation)["schedule"])
    if not wanted:
        return _scheduled(schedule)
    if _row(operation, status).reason != BETWEEN_SYNCS:
        return None
    patch: dict[str, Any] = {"metadata": {"annotations": {labels.POSTPONED: schedule}}}
    last, due = (time_or_none(status.get(field)) for field in ("lastSyncTime", "nextSyncTime"))
    if last is None:
        return patch
    first, distant = _distant_schedule(last, now)
    if first - now >= _LEAST:
        return {**patch, "spec": {"trigger": {"schedule": distant}}}
    # A sync that would begin before the other Operation could end comes first, and can be postponed afterwards.
    return patch if due is not None and due - now >= _LEAST else None


_PAUSE: Final = timedelta(days=60)
"""The time for which a sync is postponed if possible: no Restore lasts longer."""
_LEAST: Final = timedelta(days=1)
"""The shortest time for which a sync is postponed. If a schedule cannot wait for so long, its sync comes first."""


def _distant_schedule(last: datetime, now: datetime) -> tuple[datetime, str]:
    """Return a schedule whose first time after the sync at `last` is long after `now`, with the earliest such time.

    That is at least two months after `now`, or the latest that can be had. A time before `now` would be made up for at
    once.
    """
    # Two days before, as a schedule is read in the time zone of VolSync.
    day = last - timedelta(days=2)
    yearly = last + timedelta(days=363), f"0 0 {day.day} {day.month} *"
    if yearly[0] - now > _PAUSE:
        return yearly
    # After a sync that is a year old only a leap day is far enough. VolSync looks five years ahead.
    leap_days = (datetime(year, 2, 29, tzinfo=UTC) for year in range(last.year, last.year + 5) if isleap(year))
    leap_day = next((one for one in leap_days if one > last), None)
    return yearly if leap_day is None else max(yearly, (leap_day - timedelta(days=1), "0 0 29 2 *"))


def _observe(operation: Operation, objects: Objects) -> EngineStatus:
    engine_object = own_object(operation, objects)
    if engine_object is None:
        return EngineStatus(_RUNNING, "VolSyncObjectMissing")
    ref, live = engine_object
    status = live.get("status") or {}
    row = _row(operation, status)
    if row.reason == BETWEEN_SYNCS and _is_postponed(live):
        row = _POSTPONED
    return EngineStatus(
        row.progress,
        row.reason,
        _message(row, status),
        _outputs(ref, status, row.progress is _SUCCEEDED or _is_recurring(operation)),
        LogsRef(ref.kind.kind, ref.name, ref.namespace or ""),
        degraded=row.meaning if row in (_NOTHING_RESTORED, _NOTHING_BACKED_UP) else "",
        last_run=_last_run(status) if _is_recurring(operation) else "",
    )


def _row(operation: Operation, status: Mapping[str, Any]) -> Row:
    result = get_path(status, "latestMoverStatus", "result")
    # VolSync copies the trigger when a sync ends, not when it began (statemachine/machine.go, transitionToCleaningUp).
    ours = status.get("lastManualSync") == operation.metadata.uid
    if ours and result == "Successful" and not _is_recurring(operation):
        return _nothing_in(status) or _DONE
    condition = _synchronizing(status)
    known = f"Synchronizing={condition.get('status')} {condition.get('reason')}"
    row = next((row for row in TABLE if row.phase == known), None)
    # A failing mover is recreated while Synchronizing stays True: only the mover's own result shows the failure
    # (tests/conformance/engines/sync_mover_fails.json).
    if result == "Failed" and (row is None or row.reason == "VolSyncSyncInProgress" or not _is_recurring(operation)):
        return _MOVER_FAILED
    if row is not None:
        return row
    # lastSyncStartTime is null while VolSync is idle (api/v1alpha1/replicationsource_types.go).
    return _IN_PROGRESS if status.get("lastSyncStartTime") else _UNSEEN


def _nothing_in(status: Mapping[str, Any]) -> Row | None:
    """Return the row for a sync that VolSync reports as successful although it moved no data, or None for others."""
    logs = str(get_path(status, "latestMoverStatus", "logs") or "")
    return _NOTHING_RESTORED if _NO_SNAPSHOT in logs else _NOTHING_BACKED_UP if _NO_FILE in logs else None


def _synchronizing(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return condition_of({"status": status}, "Synchronizing")


def _message(row: Row, status: Mapping[str, Any]) -> str:
    if row.reason == "VolSyncMoverFailed":
        return str(get_path(status, "latestMoverStatus", "logs") or row.meaning)
    if row.reason == "VolSyncError":
        return str(_synchronizing(status).get("message") or row.meaning)
    return row.meaning


def _last_run(status: Mapping[str, Any]) -> str:
    last = status.get("lastSyncTime")
    empty = "; the volume was empty, so that it made no snapshot" if _nothing_in(status) is _NOTHING_BACKED_UP else ""
    return f"the last sync ended at {last}{empty}" if last else ""


def _outputs(ref: ObjectRef, status: Mapping[str, Any], has_results: bool) -> dict[str, Any]:
    outputs: dict[str, Any] = {"replicationName": ref.name}
    if has_results:
        more = {
            "lastSyncTime": status.get("lastSyncTime"),
            "lastSyncDuration": status.get("lastSyncDuration"),
            "latestImage": get_path(status, "latestImage", "name"),
        }
        outputs |= {name: value for name, value in more.items() if value is not None}
    return outputs


# The most days that each month can have.
_DAYS: Final = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}


def _check(operation: Operation, _target: ApplicationInstance, context: EngineContext) -> EngineRefusal | None:
    message = _never_due(operation) or (_mixed_repository(operation, context) if is_backup(operation) else "")
    return EngineRefusal(OperationReason.VALIDATION_FAILED, message) if message else None


def _never_due(operation: Operation) -> str:
    """Return why the schedule matches no day, or an empty text. For VolSync its next sync is always due
    (statemachine/machine.go, shouldSync), so syncs would follow each other without end, and each would push a good
    backup out of `retain`.
    """
    schedule = str(parameters_of(operation).get("schedule", "@daily"))
    if schedule.startswith("@") or _has_a_day(schedule):
        return ""
    return f"spec.parameters.schedule: {schedule!r} is never due: no such day exists, or a range is reversed"


def _mixed_repository(operation: Operation, context: EngineContext) -> str:
    """Return why another claim must not be backed up into the repository, or an empty text.

    VolSync stores the snapshots of all claims under one host and path (VolSync 0.14: mover-restic/entry.sh). `retain`
    would count them together, and a restore would take the newest of them, whatever its claim.
    """
    own = parameters_of(operation)
    for other in context.siblings:
        theirs = parameters_of(other)
        known = other.spec.engine is EngineName.VOLSYNC and other.status.phase is Phase.RUNNING
        if (
            known
            and _is_recurring(other)
            and theirs.get("repository") == own["repository"]
            and theirs.get("source") != own["source"]
        ):
            return (
                f"spec.parameters.repository: Operation {other.metadata.name} backs up claim {theirs.get('source')}"
                f" into {own['repository']}, and a restore would mix up the claims: each needs a repository of its own"
            )
    return ""


def _has_a_day(schedule: str) -> bool:
    """Report whether a schedule of five fields is due on any day."""
    minutes, hours, days, months, weekdays = schedule.split()
    if not all(_numbers(field, 59) for field in (minutes, hours, weekdays)):
        return False
    # Of two restricted fields of days, one that matches is enough (robfig/cron 3.0.1: spec.go, dayMatches). `*/2`
    # restricts, `*/1` does not.
    if weekdays not in ("*", "*/1") and days not in ("*", "*/1"):
        return bool(_numbers(days, 31) and _numbers(months, 12))
    return any(day <= _DAYS[month] for month in _numbers(months, 12) for day in _numbers(days, 31))


def _numbers(field: str, largest: int) -> set[int]:
    """Return the numbers that one field of cron selects, none for a reversed range. `*` counts from 1."""
    numbers: set[int] = set()
    for part in field.split(","):
        numeral, _, step = part.partition("/")
        first, _, last = numeral.partition("-")
        start = 1 if first == "*" else int(first)
        end = int(last) if last else largest if step or first == "*" else start
        numbers |= set(range(start, end + 1, int(step or 1)))
    return numbers


_RETAIN_COUNT: Final[ParameterSchema] = {"type": "integer", "minimum": 0, "maximum": 100_000}
_RETAIN: Final = record(
    (),
    hourly=_RETAIN_COUNT,
    daily=_RETAIN_COUNT,
    weekly=_RETAIN_COUNT,
    monthly=_RETAIN_COUNT,
    yearly=_RETAIN_COUNT,
    within=PERIOD,
    last=COUNT,
)

ENGINE: Final = Engine(
    name="volsync",
    kinds=_KINDS,
    holds_data=(REPLICATION_DESTINATION,),
    desired=_desired,
    observe=_observe,
    check=_check,
    tables={"ReplicationSource, ReplicationDestination": TABLE},
    timeout_seconds=4 * 3600,
    recurring=_is_recurring,
    postpone=_postpone,
    templates=(
        EngineTemplate(
            OperationType.BACKUP,
            record(
                ("source", "repository"),
                source=with_description("PersistentVolumeClaim to back up.", NAME),
                repository=with_description("Secret with restic's repository and password.", NAME),
                copyMethod=with_description(
                    "How the claim is read; `Snapshot` unless given.", {"enum": ["Direct", "Clone", "Snapshot"]}
                ),
                schedule=with_description("Cron expression: the Operation goes on until cancelled.", CRON),
                retain=with_description("Snapshots kept; by default all, with a schedule the newest.", _RETAIN),
            ),
            example={"source": "nextcloud-data", "repository": "restic", "retain": {"daily": 7, "weekly": 4}},
            refused=({"schedule": "sometimes"},),
        ),
        EngineTemplate(
            OperationType.RESTORE,
            record(
                ("destination", "repository"),
                destination=with_description("PersistentVolumeClaim to restore into.", NAME),
                repository=with_description("Secret with restic's repository and password.", NAME),
                copyMethod=with_description(
                    "How it is written; `Direct` unless given.", {"enum": ["Direct", "Snapshot"]}
                ),
            ),
            example={"destination": "nextcloud-data", "repository": "restic"},
            refused=({"copyMethod": "Clone"},),
        ),
    ),
    controller=EngineController(
        "volsync", (REPLICATION_SOURCE, REPLICATION_DESTINATION), "VolSync (https://volsync.readthedocs.io)"
    ),
    demo=DemoOperation(
        "offsite", OperationType.BACKUP, {"source": "nextcloud-data", "repository": "restic-repository"}
    ),
)
