"""The history of objects as they report it: conditions, runs, creation and deletion, with times (SEE-3)."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import nlargest
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import parse_time
from vworkspace_core.overview.tone import Tone

MOST: Final = 200
"""The most entries that are shown."""
_MOST_CONDITIONS: Final = 32
_GOOD_WHEN_TRUE: Final = frozenset(
    ("Ready", "Available", "Succeeded", "Accepted", "Released", "Connected", "Authenticated", "ControllersHealthy")
)
_BAD_WHEN_TRUE: Final = frozenset(("Stalled", "Degraded", "Failed", "Disconnected", "BufferOverflow", "ClockSkew"))
_WAITING_WHEN_TRUE: Final = frozenset(("Blocked",))


@attrs.frozen
class TimelineEntry:
    """One event. `ref` is None if it concerns no object that can be shown."""

    at: datetime
    what: str
    tone: Tone
    message: str = ""
    ref: ObjectRef | None = None


def entries_of(kind: Kind, manifest: Manifest) -> Iterator[TimelineEntry]:
    """Yield the events that an object reports, in no order; unreadable ones are left out."""
    ref = ref_of(manifest, kind)
    for path, what, tone in (
        (("metadata", "creationTimestamp"), "created", Tone.QUIET),
        (("metadata", "deletionTimestamp"), "deletion asked for", Tone.MOVING),
        (("status", "startedAt"), "run started", Tone.MOVING),
        (("status", "finishedAt"), "run ended", Tone.QUIET),
    ):
        if (at := _time(get_path(manifest, *path))) is not None:
            yield TimelineEntry(at, what, tone, ref=ref)
    for condition in _conditions(manifest):
        if (at := _time(get_path(condition, "lastTransitionTime"))) is not None:
            yield _of_condition(ref, condition, at)


def newest(entries: Iterable[TimelineEntry], most: int = MOST) -> tuple[TimelineEntry, ...]:
    """Return the last entries, the newest first."""
    return tuple(nlargest(most, entries, key=lambda one: (one.at, str(one.ref), one.what)))


def last_transition(manifest: Manifest) -> datetime | None:
    """Return when a condition last changed its status, or else when the object was created."""
    times = [_time(get_path(condition, "lastTransitionTime")) for condition in _conditions(manifest)]
    return max(
        (at for at in times if at is not None), default=_time(get_path(manifest, "metadata", "creationTimestamp"))
    )


def _conditions(manifest: Manifest) -> list[Any]:
    found = get_path(manifest, "status", "conditions")
    return found[:_MOST_CONDITIONS] if isinstance(found, list) else []


def _of_condition(ref: ObjectRef, condition: Any, at: datetime) -> TimelineEntry:
    type_, status, reason, message = (_text(condition, field) for field in ("type", "status", "reason", "message"))
    what = f"{type_} is {status}" + (f": {reason}" if reason else "")
    return TimelineEntry(at, safe(what), _tone(type_, status), safe(message), ref)


def _tone(type_: str, status: str) -> Tone:
    if status == "True":
        known = ((_GOOD_WHEN_TRUE, Tone.GOOD), (_BAD_WHEN_TRUE, Tone.BAD), (_WAITING_WHEN_TRUE, Tone.WAITING))
        return next((tone for types, tone in known if type_ in types), Tone.MOVING)
    return Tone.WAITING if type_ in _GOOD_WHEN_TRUE else Tone.QUIET


def _text(value: Any, field: str) -> str:
    found = get_path(value, field)
    return found if isinstance(found, str) else ""


def _time(text: Any) -> datetime | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        return None
