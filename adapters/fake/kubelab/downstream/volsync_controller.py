"""VolSync: syncs by manual trigger, by schedule or continuously, with the statuses that its state machine writes.

Two misleading habits of VolSync are imitated on purpose. The manual trigger is copied to `lastManualSync` when a sync
ends, not when it begins (`statemachine/machine.go`, transitionToCleaningUp). A failing mover is started again for ever,
while Synchronizing stays True.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from kubelab.builtin.cron import DESCRIPTORS, selected_numbers
from kubelab.downstream.behaviour import DownstreamRule, Ending
from kubelab.downstream.controller import (
    NOTHING,
    Attempt,
    DownstreamController,
    ObjectView,
    PassResult,
    begin,
    change,
    released,
    waiting_for,
    with_condition,
)
from kubelab.simulation.effects import PassStep
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.durations import go_duration
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import (
    PERSISTENT_VOLUME_CLAIM,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    SECRET,
    VOLUME_SNAPSHOT,
)
from purekube.apimachinery.timestamps import format_time, time_or_none

# 29 February may be eight years away, as around 2100, which is no leap year.
_FARTHEST_DAYS: Final = 366 * 8


def next_run(schedule: str, after: datetime) -> datetime:
    """Return the first time after `after` at which the cron schedule `schedule` is due.

    Raises ValueError if there is none.
    """
    # VolSync parses schedules with robfig/cron, as the CronJob controller does.
    schedule = DESCRIPTORS.get(schedule, schedule)
    minutes, hours, days, months, weekdays = selected_numbers(schedule)
    _, _, of_months, _, of_weeks = schedule.split()
    # Cron's oddity: if days of month and of week are both restricted, a day that matches either one is enough. `*/1`
    # is no restriction, but `*/2` is (robfig/cron 3.0.1: parser.go, getRange; spec.go, dayMatches).
    either = not (_is_free(of_months) or _is_free(of_weeks))
    moment = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    day = moment.replace(hour=0, minute=0)
    for _ in range(_FARTHEST_DAYS):
        of_month, of_week = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month in months and ((of_month or of_week) if either else (of_month and of_week)):
            for hour in sorted(hours):
                for minute in sorted(minutes):
                    run = day.replace(hour=hour, minute=minute)
                    if run >= moment:
                        return run
        day += timedelta(days=1)
    raise ValueError(f"a schedule that is never due: {schedule!r}")


def _is_free(field: str) -> bool:
    return any(part in ("*", "*/1") for part in field.split(","))


_MOVERS: Final = ("restic", "rclone", "rsync", "rsyncTLS", "syncthing", "external")
_SYNCHRONIZING: Final = "Synchronizing"
# The default of `restic.pruneIntervalDays`; before the first prune the interval begins with the object's creation.
_PRUNE_DAYS: Final = 7
_SHORTEST_PAUSE: Final = 1.0
"""The least pause between continuous syncs in seconds; without a pause simulated time would not advance."""


@attrs.frozen
class _Memory:
    """The controller's memory of one object's mover (the pod that copies data).

    `wait` is the time of the next pass: when the cleanup after a sync ends, or when an error is checked again.
    """

    attempt: Attempt | None = None
    used: tuple[DownstreamRule, ...] = ()
    wait: datetime | None = None


def _reconcile(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or view.deleting:
        return NOTHING
    memory = view.memory or _Memory()
    # VolSync derives its state from lastSyncStartTime and lastSyncTime (machine.go, currentState); here the condition
    # says the same.
    match condition_of(view.live, _SYNCHRONIZING).get("reason"):
        case "WaitingForManual" | "WaitingForSchedule":
            return (yield from _wait(view, memory))
        case "CleaningUp":
            return (yield from _clean_up(view, memory))
        case _:
            return (yield from _synchronize(view, memory))


def _is_due(view: ObjectView) -> bool:
    """Report whether a sync is due. A manual trigger takes precedence over a schedule; without any trigger a sync is
    always due.
    """
    trigger = view.spec.get("trigger") or {}
    if trigger.get("manual"):
        # machine.go, shouldSync: only inequality counts, so an earlier text is a new trigger too.
        return bool(trigger["manual"] != view.status.get("lastManualSync"))
    if trigger.get("schedule"):
        following = _following(view)
        return following is not None and view.now >= following
    return True


def _following(view: ObjectView) -> datetime | None:
    """Return the first time after the last sync at which the schedule is due. Return None if no sync has ended yet."""
    last = time_or_none(view.status.get("lastSyncTime"))
    return None if last is None else next_run(view.spec["trigger"]["schedule"], last)


def _wait(view: ObjectView, memory: _Memory) -> PassStep[PassResult]:
    if _is_due(view):
        return (yield from _synchronize(view, attrs.evolve(memory, attempt=None, wait=None)))
    status = dict(view.status)
    scheduled = _is_scheduled(view)
    following = _following(view) if scheduled else None
    status.pop("nextSyncTime", None)
    if following is not None:
        status["nextSyncTime"] = format_time(following)
    reason = "WaitingForSchedule" if scheduled else "WaitingForManual"
    message = "Waiting for next scheduled synchronization" if scheduled else "Waiting for manual trigger"
    return (yield from _write_status(view, status, "False", reason, message, memory, following, interval=True))


def _is_scheduled(view: ObjectView) -> bool:
    trigger = view.spec.get("trigger") or {}
    return bool(trigger.get("schedule")) and not trigger.get("manual")


def _write_status(
    view: ObjectView,
    status: dict[str, Any],
    value: str,
    reason: str,
    message: str,
    memory: _Memory,
    requeue_at: datetime | None,
    *,
    interval: bool = False,
) -> PassStep[PassResult]:
    new = {"type": _SYNCHRONIZING, "status": value, "reason": reason, "message": message}
    status["conditions"] = with_condition(status.get("conditions") or (), new, view.now)
    yield from change(view, {"status": status}, subresource="status")
    return PassResult(
        memory=memory, requeue_at=requeue_at, interval=interval, error=message if reason == "Error" else ""
    )


def _synchronize(view: ObjectView, memory: _Memory) -> PassStep[PassResult]:
    """Continue the sync in progress, or begin a new sync."""
    status = dict(view.status)
    if "restic" in view.spec:
        status.setdefault("restic", {})
    problem = _problem(view)
    # The sync has begun before its mover is looked at (transitionToSynchronizing), so an error has a start time too.
    if problem and memory.attempt is None and "lastSyncStartTime" not in status:
        status["lastSyncStartTime"] = view.timestamp()
        return (yield from _in_progress(view, status, attrs.evolve(memory, wait=view.now)))
    if problem:
        memory = attrs.evolve(memory, attempt=None)
        retry = view.at(view.behaviour.volsync.retry_seconds)
        return (yield from _write_status(view, status, "False", "Error", problem, memory, retry))
    if memory.wait is not None and view.now < memory.wait:
        return PassResult(memory=memory, requeue_at=memory.wait)
    status.setdefault("lastSyncStartTime", view.timestamp())
    # A paused sync keeps Synchronizing=True and its start time: nothing in the status tells it from a slow one.
    if view.spec.get("paused"):  # the mover's Job is suspended and has no pods meanwhile
        return (yield from _in_progress(view, status, attrs.evolve(memory, attempt=None, wait=None)))
    attempt = memory.attempt
    if attempt is None or released(view, attempt):
        begun = begin(view, memory.used, view.behaviour.volsync.sync_seconds)
        memory = _Memory(begun, begun.used)
    elif attempt.until is not None and view.now >= attempt.until:
        return (yield from _ended(view, status, memory, attempt))
    return (yield from _in_progress(view, status, memory))


def _in_progress(view: ObjectView, status: dict[str, Any], memory: _Memory) -> PassStep[PassResult]:
    due = memory.wait if memory.attempt is None else memory.attempt.until
    endless, text = not view.spec.get("trigger"), "Synchronization in-progress"
    return (yield from _write_status(view, status, "True", "SyncInProgress", text, memory, due, interval=endless))


def _problem(view: ObjectView) -> str:
    """Return the problem that prevents a sync, or an empty string if there is none."""
    mover = next((view.spec[name] for name in _MOVERS if name in view.spec), None)
    if mover is None:
        return "a replication method must be specified"
    if not view.behaviour.volsync.checks_references:
        return ""
    claim, secret = view.spec.get("sourcePVC") or get_path(mover, "destinationPVC"), get_path(mover, "repository")
    for kind, name in ((PERSISTENT_VOLUME_CLAIM, claim), (SECRET, secret)):
        if name and ObjectRef(kind, view.ref.namespace, name) not in view.world:
            return f'{kind.kind} "{name}" not found'
    return ""


def _ended(view: ObjectView, status: dict[str, Any], memory: _Memory, attempt: Attempt) -> PassStep[PassResult]:
    match attempt.outcome.ending:
        case Ending.SUCCEED:
            return (yield from _succeeded(view, status, memory))
        case Ending.ERROR:
            wait = view.at(view.behaviour.volsync.retry_seconds)
            memory = attrs.evolve(memory, attempt=None, wait=wait)
            message = attempt.outcome.message or "timed out waiting for the volume"
            return (yield from _write_status(view, status, "False", "Error", message, memory, wait))
        case _:
            logs = attempt.outcome.message or "Fatal: unable to open the repository"
            # A failing mover is never terminal: VolSync starts its Job again (downstream-status, 7.5; VolSync 0.16).
            # The real one reports this after eight failed pods (docs/flux.md); here each attempt is a whole Job.
            status["latestMoverStatus"] = {"logs": logs, "result": "Failed"}
            wait = view.at(view.behaviour.volsync.retry_seconds)
            return (yield from _in_progress(view, status, attrs.evolve(memory, attempt=None, wait=wait)))


def _succeeded(view: ObjectView, status: dict[str, Any], memory: _Memory) -> PassStep[PassResult]:
    """End a successful sync. The trigger that the spec has now counts as done, as in VolSync."""
    started = time_or_none(status.pop("lastSyncStartTime", None)) or view.now
    status["lastSyncTime"] = view.timestamp()
    status["lastSyncDuration"] = go_duration((view.now - started).total_seconds())
    status["latestMoverStatus"] = {"logs": "processed 1 files in 0:01", "result": "Successful"}
    status.pop("lastManualSync", None)
    # Copied from the spec when the sync ends (statemachine/machine.go), so a changed trigger counts as done.
    if manual := get_path(view.spec, "trigger", "manual"):
        status["lastManualSync"] = manual
    if _is_scheduled(view):
        status["nextSyncTime"] = format_time(next_run(view.spec["trigger"]["schedule"], view.now))
    status |= _restic(view) if view.ref.kind == REPLICATION_SOURCE else _image(view)
    shortest = 0.0 if view.spec.get("trigger") else _SHORTEST_PAUSE
    wait = view.at(max(view.behaviour.volsync.cleanup_seconds, shortest))
    memory = attrs.evolve(memory, attempt=None, wait=wait)
    return (yield from _write_status(view, status, "False", "CleaningUp", "Cleaning up", memory, wait))


def _restic(view: ObjectView) -> dict[str, Any]:
    if "restic" not in view.spec:
        return {}
    restic = dict(view.status.get("restic") or {})
    created = metadata(view.live or {}).get("creationTimestamp")
    pruned = time_or_none(restic.get("lastPruned") or created) or view.now
    days = get_path(view.spec, "restic", "pruneIntervalDays") or _PRUNE_DAYS
    if view.now >= pruned + timedelta(days=days):
        restic["lastPruned"] = view.timestamp()
    if unlock := get_path(view.spec, "restic", "unlock"):
        restic["lastUnlocked"] = unlock
    return {"restic": restic}


def _image(view: ObjectView) -> dict[str, Any]:
    """Return a mapping with the status field `latestImage`, the reference to the restored data.

    It names the claim that was written or, with `copyMethod: Snapshot`, the snapshot of that claim.
    """
    mover = next(view.spec[name] for name in _MOVERS if name in view.spec)
    if get_path(mover, "copyMethod") == "Snapshot":
        name = f"volsync-{view.ref.name}-dst-{view.now:%Y%m%d%H%M%S}"
        return {"latestImage": {"apiGroup": VOLUME_SNAPSHOT.group, "kind": VOLUME_SNAPSHOT.kind, "name": name}}
    name = get_path(mover, "destinationPVC") or f"volsync-{view.ref.name}-dst"
    return {"latestImage": {"apiGroup": "", "kind": PERSISTENT_VOLUME_CLAIM.kind, "name": name}}


def _clean_up(view: ObjectView, memory: _Memory) -> PassStep[PassResult]:
    if memory.wait is not None and view.now < memory.wait:
        return PassResult(memory=memory, requeue_at=memory.wait, interval=not view.spec.get("trigger"))
    return (yield from _wait(view, attrs.evolve(memory, wait=None)))


def _names(replication: Manifest, used: ObjectRef) -> bool:
    """Report whether a ReplicationSource or ReplicationDestination refers to a claim or Secret of this name."""
    spec = replication.get("spec") or {}
    mover = next((spec[key] for key in _MOVERS if key in spec), None)
    return used.name in (spec.get("sourcePVC"), get_path(mover, "destinationPVC"), get_path(mover, "repository"))


_AWAITED: Final = (PERSISTENT_VOLUME_CLAIM, SECRET)
_SUBJECTS: Final = (REPLICATION_SOURCE, REPLICATION_DESTINATION)
VOLSYNC: Final = DownstreamController(
    "volsync-manager", _SUBJECTS, _reconcile, watches=_AWAITED, wakes=waiting_for(_AWAITED, _SUBJECTS, _names)
)
"""VolSync; its name is the field manager of its writes."""
