"""The events of a timeline, as objects report them, each with its time (SEE-3).

These are the creation and deletion of an object, the start and end of an Operation's run, and changes of conditions.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import nlargest
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of, text_or_empty
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import time_at
from purekube.controller.status import BAD_WHEN_TRUE
from vworkspace_core.api.reasons import CLUSTER_TROUBLES
from vworkspace_core.overview.severity import Severity

MOST: Final = 200
"""The maximum number of entries that a timeline shows."""

_MOST_CONDITIONS: Final = 32

_GOOD_WHEN_TRUE: Final = frozenset(
    (
        "Ready",
        "Available",
        "Succeeded",
        "Accepted",
        "Released",
        "Connected",
        "Authenticated",
        "ControllersHealthy",
        "Remediated",
        "TestSuccess",
    )
)

_BAD_WHEN_TRUE: Final = frozenset((*BAD_WHEN_TRUE, *CLUSTER_TROUBLES))

_WAITING_WHEN_TRUE: Final = frozenset(("Blocked",))


@attrs.frozen
class TimelineEntry:
    """One event of a timeline, at the time `at`, such as a change of a condition. `what` says what happened.

    `ref` is the object that the event concerns. It is None if no reference is known, as for a job of the control plane.
    """

    at: datetime
    what: str
    severity: Severity
    message: str = ""
    ref: ObjectRef | None = None


def entries_of(kind: Kind, manifest: Manifest) -> Iterator[TimelineEntry]:
    """Yield the events that the metadata and status of the object `manifest` show, unordered. Its kind is `kind`.

    Events without a valid time are left out, and so are conditions such as Stalled=False, which report no problem.
    """
    ref = ref_of(manifest, kind)
    for path, what, severity in (
        (("metadata", "creationTimestamp"), "created", Severity.QUIET),
        (("metadata", "deletionTimestamp"), "deletion asked for", Severity.MOVING),
        (("status", "startedAt"), "run started", Severity.MOVING),
        (("status", "finishedAt"), "run ended", Severity.QUIET),
    ):
        if (at := time_at(manifest, *path)) is not None:
            yield TimelineEntry(at, what, severity, ref=ref)
    for condition in conditions_of(manifest)[:_MOST_CONDITIONS]:
        if (at := time_at(condition, "lastTransitionTime")) is not None:
            entry = _of_condition(ref, condition, at)
            if entry.severity is not Severity.QUIET:  # "Stalled is False" would bury what matters
                yield entry


def last_entries(entries: Iterable[TimelineEntry], most: int = MOST) -> tuple[TimelineEntry, ...]:
    """Return the latest `most` entries, newest first."""
    return tuple(nlargest(most, entries, key=lambda entry: (entry.at, str(entry.ref), entry.what)))


def last_transition(manifest: Manifest) -> datetime | None:
    """Return when a condition of the object `manifest` last changed its status.

    If none has changed, return when the object was created.
    """
    times = [time_at(condition, "lastTransitionTime") for condition in conditions_of(manifest)[:_MOST_CONDITIONS]]
    return max((at for at in times if at is not None), default=time_at(manifest, "metadata", "creationTimestamp"))


def _of_condition(ref: ObjectRef, condition: Any, at: datetime) -> TimelineEntry:
    type_, status, reason, message = (text_field(condition, field) for field in ("type", "status", "reason", "message"))
    what = f"{type_} is {status}" + (f": {reason}" if reason else "")
    return TimelineEntry(at, safe(what), _severity(type_, status), safe(message), ref)


def _severity(type_: str, status: str) -> Severity:
    if status == "True":
        known = (
            (_GOOD_WHEN_TRUE, Severity.GOOD),
            (_WAITING_WHEN_TRUE, Severity.WAITING),
            (_BAD_WHEN_TRUE, Severity.BAD),
        )
        return next((severity for types, severity in known if type_ in types), Severity.MOVING)
    return Severity.WAITING if type_ in _GOOD_WHEN_TRUE else Severity.QUIET


def text_field(value: Any, field: str) -> str:
    """Return the text in the field `field` of a JSON value, or "" if there is no such field or it has no text."""
    return text_or_empty(get_path(value, field))
