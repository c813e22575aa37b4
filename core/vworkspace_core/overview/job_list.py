"""The control plane's jobs and events, as rows for people that contain no secrets (SEE-3).

A job is a unit of work that the control plane (a server) offers to the operator's job agent; an event is a report that
the agent sends back. Both are read from the JSON of the control plane's admin API. Of a job's payload, only kind,
namespace and name of its object are shown; an encrypted payload is shown as `encrypted`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import time_or_none
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.timeline import TimelineEntry, text_field

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
