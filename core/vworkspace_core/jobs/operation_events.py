"""Life-cycle events of Operations: that a run started, and how it ended (PULL-6).

They come beside the ConditionTransition events, so that whoever counts runs need not know the conditions. The key
names the incarnation and what happened to it, which happens once: a replay has the same key.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from vworkspace_core.api.operation import Phase
from vworkspace_core.apimachinery.manifest import Manifest, dig, metadata
from vworkspace_core.apimachinery.resources import OPERATION
from vworkspace_core.apimachinery.secret_material import shown
from vworkspace_core.apimachinery.timestamps import parse_time
from vworkspace_core.jobs.condition_events import RECENT
from vworkspace_core.jobs.managed_fields import held_fields
from vworkspace_core.jobs.object_status import conditions_of
from vworkspace_core.jobs.reports import event_body

_STARTED: Final = "OperationStarted"
_ENDED: Final = {
    Phase.SUCCEEDED.value: "OperationSucceeded",
    Phase.FAILED.value: "OperationFailed",
    Phase.CANCELLED.value: "OperationCancelled",
}


def phase_in(live: Manifest) -> str:
    """Where an Operation stands, as far as it says; empty for every other kind."""
    is_ours = live.get("kind") == OPERATION.kind and "phase" not in held_fields(live)
    phase = dig(live, "status", "phase") if is_ours else None
    return phase if isinstance(phase, str) else ""


def life_events(
    before: str | None, live: Manifest, now: datetime, since: datetime | None = None
) -> tuple[dict[str, Any], ...]:
    """What happened to the Operation since it was in phase `before`; None for one that is seen first.

    One that is seen first tells what happened lately, or from `since` on: the last process may have died before it
    told.
    """
    phase = phase_in(live)
    if phase == before or live.get("kind") != OPERATION.kind:
        return ()
    return tuple(
        _event(live, kind, at, now)
        for kind, at in _happened(phase)
        if dig(live, "status", at)
        and (_is_recent(live, at, since or now - RECENT) if before is None else _is_news(kind, before))
    )


def _happened(phase: str) -> Iterator[tuple[str, str]]:
    """Kinds of events, each with the field of the status that says when."""
    if phase == Phase.RUNNING or phase in _ENDED:
        yield _STARTED, "startedAt"
    if phase in _ENDED:
        yield _ENDED[phase], "finishedAt"


def _is_news(kind: str, before: str) -> bool:
    return kind != _STARTED or before in ("", Phase.PENDING)


def _is_recent(live: Manifest, at: str, since: datetime) -> bool:
    try:
        return parse_time(str(dig(live, "status", at))) >= since
    except ValueError:
        return False


def _event(live: Manifest, kind: str, at: str, now: datetime) -> dict[str, Any]:
    meta, phase = metadata(live), phase_in(live)
    where = "/".join(str(meta.get(name)) for name in ("namespace", "name", "uid"))
    ended = next((one for one in conditions_of(live) if one["type"] == phase), {}) if at == "finishedAt" else {}
    told = {
        "type": dig(live, "spec", "type"),
        "engine": dig(live, "spec", "engine"),
        "target": dig(live, "spec", "targetRef", "name"),
        at: dig(live, "status", at),
        "reason": ended.get("reason"),
        "message": shown(str(ended.get("message") or "")) or None,
    }
    beside = {name: value for name, value in told.items() if value is not None}
    return event_body(kind, f"operation/{where}/{kind}", now, live, conditions_of(live), operation=beside)
