"""VolSync (facts 7.5): syncs by manual trigger, by schedule or without end, as its state machine writes them.

Two of its habits mislead and are kept on purpose. The manual trigger is copied to `lastManualSync` when a sync
ends, not when it began. A mover that fails is begun again for ever, while Synchronizing stays True.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, dig
from vworkspace_core.apimachinery.resources import (
    PERSISTENT_VOLUME_CLAIM,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    SECRET,
    VOLUME_SNAPSHOT,
)
from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import Ending, Rule
from vworkspace_fake.downstream.cron import next_run
from vworkspace_fake.downstream.turns import NOTHING, Controller, Look, Turn, change, moment_of, with_condition
from vworkspace_fake.simulation.durations import go_duration

_MOVERS: Final = ("restic", "rclone", "rsync", "rsyncTLS", "syncthing", "external")
_SYNCHRONIZING: Final = "Synchronizing"
_PRUNE_DAYS: Final = 7
_SHORTEST_PAUSE: Final = 1.0
"""Between syncs that follow one another without end, so that time can pass."""


@attrs.frozen
class _Memory:
    """The mover of one object. `wait` is the end of cleaning up, or when an error is looked at again."""

    attempt: Attempt | None = None
    used: tuple[Rule, ...] = ()
    wait: datetime | None = None


def _look(look: Look) -> Turn:
    if look.live is None or look.deleting:
        return NOTHING
    memory = look.memory or _Memory()
    match _reason(look):
        case "WaitingForManual" | "WaitingForSchedule":
            return _wait(look, memory)
        case "CleaningUp":
            return _clean_up(look, memory)
        case _:
            return _synchronize(look, memory)


def _reason(look: Look) -> str:
    for item in look.status.get("conditions") or ():
        if item.get("type") == _SYNCHRONIZING:
            return str(item.get("reason"))
    return ""


def _is_due(look: Look) -> bool:
    """Whether the trigger asks for a sync now; a manual one wins over a schedule, without any it always does."""
    trigger = look.spec.get("trigger") or {}
    if trigger.get("manual"):
        return bool(trigger["manual"] != look.status.get("lastManualSync"))
    if trigger.get("schedule"):
        following = _following(look)
        return following is not None and look.now >= following
    return True


def _following(look: Look) -> datetime | None:
    """When the schedule asks for the next sync, counted from the last one."""
    last = moment_of(look.status.get("lastSyncTime"))
    return None if last is None else next_run(look.spec["trigger"]["schedule"], last)


def _wait(look: Look, memory: _Memory) -> Turn:
    if _is_due(look):
        return _synchronize(look, attrs.evolve(memory, attempt=None, wait=None))
    status = dict(look.status)
    scheduled = _is_scheduled(look)
    following = _following(look) if scheduled else None
    status.pop("nextSyncTime", None)
    if following is not None:
        status["nextSyncTime"] = format_time(following)
    reason = "WaitingForSchedule" if scheduled else "WaitingForManual"
    message = "Waiting for next scheduled synchronization" if scheduled else "Waiting for manual trigger"
    return _turn(look, status, "False", reason, message, memory, following, regular=True)


def _is_scheduled(look: Look) -> bool:
    trigger = look.spec.get("trigger") or {}
    return bool(trigger.get("schedule")) and not trigger.get("manual")


def _turn(
    look: Look,
    status: dict[str, Any],
    value: str,
    reason: str,
    message: str,
    memory: _Memory,
    due: datetime | None,
    *,
    regular: bool = False,
) -> Turn:
    new = {"type": _SYNCHRONIZING, "status": value, "reason": reason, "message": message}
    status["conditions"] = with_condition(status.get("conditions") or (), new, look.now)
    effects = change(look, {"status": status}, subresource="status")
    return Turn(effects, memory, due, regular, message if reason == "Error" else "")


def _synchronize(look: Look, memory: _Memory) -> Turn:
    """In a sync, or about to begin one."""
    status = dict(look.status)
    problem = _problem(look)
    if problem:
        retry = look.at(look.behaviour.volsync.retry_seconds)
        return _turn(look, status, "False", "Error", problem, attrs.evolve(memory, attempt=None), retry)
    if memory.wait is not None and look.now < memory.wait:
        return Turn(memory=memory, due=memory.wait)
    status.setdefault("lastSyncStartTime", look.timestamp())
    if look.spec.get("paused"):  # the mover's Job has no pods meanwhile
        return _in_progress(look, status, attrs.evolve(memory, attempt=None, wait=None))
    attempt = memory.attempt
    if attempt is None or released(look, attempt):
        memory = _begin(look, memory)
    elif attempt.until is not None and look.now >= attempt.until:
        return _ended(look, status, memory, attempt)
    return _in_progress(look, status, memory)


def _begin(look: Look, memory: _Memory) -> _Memory:
    attempt = begin(look, memory.used, look.behaviour.volsync.sync_seconds)
    return _Memory(attempt, attempt.used_up(memory.used))


def _in_progress(look: Look, status: dict[str, Any], memory: _Memory) -> Turn:
    due = memory.wait if memory.attempt is None else memory.attempt.until
    endless = not look.spec.get("trigger")
    return _turn(look, status, "True", "SyncInProgress", "Synchronization in-progress", memory, due, regular=endless)


def _problem(look: Look) -> str:
    """What keeps a sync from beginning."""
    mover = next((look.spec[name] for name in _MOVERS if name in look.spec), None)
    if mover is None:
        return "a replication method must be specified"
    if not look.behaviour.volsync.checks_references:
        return ""
    claim, secret = look.spec.get("sourcePVC") or dig(mover, "destinationPVC"), dig(mover, "repository")
    for kind, name in ((PERSISTENT_VOLUME_CLAIM, claim), (SECRET, secret)):
        if name and ObjectRef(kind, look.ref.namespace, name) not in look.world:
            return f'{kind.plural} "{name}" not found'
    return ""


def _ended(look: Look, status: dict[str, Any], memory: _Memory, attempt: Attempt) -> Turn:
    match attempt.outcome.ending:
        case Ending.SUCCEED:
            return _succeeded(look, status, memory)
        case Ending.ERROR:
            wait = look.at(look.behaviour.volsync.retry_seconds)
            message = attempt.outcome.message or "timed out waiting for the volume"
            return _turn(look, status, "False", "Error", message, attrs.evolve(memory, attempt=None, wait=wait), wait)
        case _:
            logs = attempt.outcome.message or "Fatal: unable to open the repository"
            status["latestMoverStatus"] = {"logs": logs, "result": "Failed"}
            wait = look.at(look.behaviour.volsync.retry_seconds)
            return _in_progress(look, status, attrs.evolve(memory, attempt=None, wait=wait))


def _succeeded(look: Look, status: dict[str, Any], memory: _Memory) -> Turn:
    """The sync is over. Whatever trigger the spec holds by now counts as done."""
    started = moment_of(status.pop("lastSyncStartTime", None)) or look.now
    status["lastSyncTime"] = look.timestamp()
    status["lastSyncDuration"] = go_duration((look.now - started).total_seconds())
    status["latestMoverStatus"] = {"logs": "processed 1 files in 0:01", "result": "Successful"}
    status.pop("lastManualSync", None)
    if manual := dig(look.spec, "trigger", "manual"):
        status["lastManualSync"] = manual
    status |= _restic(look) if look.ref.kind == REPLICATION_SOURCE else _image(look)
    shortest = 0.0 if look.spec.get("trigger") else _SHORTEST_PAUSE
    wait = look.at(max(look.behaviour.volsync.cleanup_seconds, shortest))
    return _turn(
        look, status, "False", "CleaningUp", "Cleaning up", attrs.evolve(memory, attempt=None, wait=wait), wait
    )


def _restic(look: Look) -> dict[str, Any]:
    if "restic" not in look.spec:
        return {}
    kept = dict(look.status.get("restic") or {})
    pruned = moment_of(kept.get("lastPruned"))
    days = dig(look.spec, "restic", "pruneIntervalDays") or _PRUNE_DAYS
    if pruned is None or look.now >= pruned + timedelta(days=days):
        kept["lastPruned"] = look.timestamp()
    if unlock := dig(look.spec, "restic", "unlock"):
        kept["lastUnlocked"] = unlock
    return {"restic": kept}


def _image(look: Look) -> dict[str, Any]:
    """The claim that was written to, or the name of the snapshot that was made of it."""
    mover = next(look.spec[name] for name in _MOVERS if name in look.spec)
    if dig(mover, "copyMethod") == "Snapshot":
        name = f"volsync-{look.ref.name}-dst-{look.now:%Y%m%d%H%M%S}"
        return {"latestImage": {"apiGroup": VOLUME_SNAPSHOT.group, "kind": VOLUME_SNAPSHOT.kind, "name": name}}
    name = dig(mover, "destinationPVC") or f"volsync-{look.ref.name}-dst"
    return {"latestImage": {"apiGroup": "", "kind": PERSISTENT_VOLUME_CLAIM.kind, "name": name}}


def _clean_up(look: Look, memory: _Memory) -> Turn:
    if memory.wait is not None and look.now < memory.wait:
        return Turn(memory=memory, due=memory.wait, regular=not look.spec.get("trigger"))
    return _wait(look, attrs.evolve(memory, wait=None))


def _wakes(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
    """Whoever waits for a claim or a Secret of the namespace."""
    if ref.kind not in (PERSISTENT_VOLUME_CLAIM, SECRET):
        return []
    kinds = (REPLICATION_SOURCE, REPLICATION_DESTINATION)
    return [
        other
        for other, manifest in world.items()
        if other.kind in kinds and other.namespace == ref.namespace and _names(manifest, ref.name)
    ]


def _names(manifest: Manifest, name: str) -> bool:
    spec = manifest.get("spec") or {}
    mover = next((spec[key] for key in _MOVERS if key in spec), None)
    return name in (spec.get("sourcePVC"), dig(mover, "destinationPVC"), dig(mover, "repository"))


VOLSYNC: Final = Controller(
    "volsync-manager",
    (REPLICATION_SOURCE, REPLICATION_DESTINATION),
    _look,
    watches=(PERSISTENT_VOLUME_CLAIM, SECRET),
    wakes=_wakes,
)
"""Its name is the field manager of what it writes."""
