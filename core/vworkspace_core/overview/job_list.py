"""The control plane's jobs and events, as rows for people that contain no secrets (SEE-3).

A job is a unit of work that the control plane (a server) offers to the operator's job agent; an event is a report that
the agent sends back. Both are read from the JSON of the control plane's admin API. Of a job's payload, only kind,
namespace and name of its object are shown; an encrypted payload is shown as `encrypted`.

A timeline has the events that objects report, each with its time: the creation and deletion of an object, the start and
end of an Operation's run, and changes of conditions.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from heapq import nlargest
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of, text_or_empty
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import time_at, time_or_none
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
MOST_LINES: Final = 200
_SHORT: Final = 160
_OUTCOMES: Final[Mapping[str, Severity]] = {
    "succeeded": Severity.GOOD,
    "noop": Severity.QUIET,
    "failed": Severity.BAD,
    "conflict": Severity.BAD,
}
_TARGETS: Final = ((), ("operation",), ("applicationInstance",))
"""The paths in a job's payload at which the job's object may be."""


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
    for condition in _conditions(manifest):
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
    times = [time_at(condition, "lastTransitionTime") for condition in _conditions(manifest)]
    return max((at for at in times if at is not None), default=time_at(manifest, "metadata", "creationTimestamp"))


def _conditions(manifest: Manifest) -> list[Any]:
    conditions = get_path(manifest, "status", "conditions")
    return conditions[:_MOST_CONDITIONS] if isinstance(conditions, list) else []


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


@attrs.frozen
class JobLine:
    """One row of the list of the control plane's jobs (units of work). `state` is a word for the job's progress.

    `about` is the object that the job concerns, `offers` is how often the control plane offered the job.
    """

    id: str
    cluster: str
    kind: str
    about: str
    key: str
    state: str
    severity: Severity
    offers: int
    message: str = ""
    phase: str = ""
    offered: datetime | None = None
    acked: datetime | None = None
    closed: datetime | None = None


def job_line(entry: Mapping[str, Any]) -> JobLine:
    """Return the row for the job `entry`, an entry of the control plane's admin API.

    Missing or malformed fields of `entry` are shown as empty.
    """
    raw, result = entry.get("job"), entry.get("result")
    statuses = entry.get("statuses")
    last = statuses[-1] if isinstance(statuses, list) and statuses else None
    state, severity = _state(entry, result)
    offers = entry.get("offers")
    return JobLine(
        safe(text_field(entry, "id"), _SHORT),
        safe(text_field(entry, "clusterId"), _SHORT),
        safe(text_field(raw, "kind"), _SHORT),
        safe(_payload_target(get_path(raw, "payload")), _SHORT),
        safe(text_field(raw, "idempotencyKey"), _SHORT),
        state,
        severity,
        offers if isinstance(offers, int) else 0,
        safe(text_field(result, "error") or text_field(last, "message")),
        safe(text_field(last, "phase"), _SHORT),
        *(time_or_none(entry.get(name)) for name in ("offeredAt", "ackedAt", "closedAt")),
    )


def job_entries(line: JobLine) -> Iterable[TimelineEntry]:
    """Yield the timeline entries of the job in `line`: when it was offered, acknowledged and closed."""
    for at, what, severity in (
        (line.offered, "was offered last", Severity.QUIET),
        (line.acked, "was acknowledged", Severity.MOVING),
        (line.closed, f"ended: {line.state}", line.severity),
    ):
        if at is not None:
            yield TimelineEntry(at, f"job {line.id} {what}", severity, line.about)


def event_entry(event: Any) -> TimelineEntry | None:
    """Return the timeline entry for `event`, an event that a job agent sent, or None if the event has no time."""
    at = time_or_none(get_path(event, "timestamp"))
    if at is None:
        return None
    ref = get_path(event, "resourceRef")
    about = " ".join(
        filter(
            None,
            (text_field(ref, "kind"), "/".join(filter(None, (text_field(ref, "namespace"), text_field(ref, "name"))))),
        )
    )
    conditions = get_path(event, "conditions")
    said = [
        f"{text_field(condition, 'type')}={text_field(condition, 'status')} {text_field(condition, 'reason')}"
        for condition in (conditions[:8] if isinstance(conditions, list) else ())
    ]
    return TimelineEntry(
        at, safe(f"event {text_field(event, 'kind')}", _SHORT), Severity.QUIET, safe("; ".join([about, *said]))
    )


def _state(entry: Mapping[str, Any], result: Any) -> tuple[str, Severity]:
    if isinstance(result, Mapping):
        outcome = text_field(result, "outcome")
        return safe(outcome, _SHORT), _OUTCOMES.get(outcome, Severity.QUIET)
    if entry.get("closedAt"):
        return "withdrawn", Severity.QUIET
    if entry.get("ackedAt"):
        return "acknowledged", Severity.MOVING
    return ("offered", Severity.WAITING) if entry.get("offeredAt") else ("waits for its agent", Severity.WAITING)


def _payload_target(payload: Any) -> str:
    """Return kind, namespace and name of the object in a job's payload, as one text.

    The text is empty if there is no object in the payload.
    """
    if isinstance(payload, str):
        return "encrypted"
    for path in _TARGETS:
        found = get_path(payload, *path)
        name = text_field(found, "name") or text_field(get_path(found, "metadata"), "name")
        if name:
            namespace = text_field(found, "namespace") or text_field(get_path(found, "metadata"), "namespace")
            return f"{text_field(found, 'kind')} {'/'.join(filter(None, (namespace, name)))}".strip()
    return ""
