"""The record of a test: writes of controllers, Events, and the diagnostics that a failed test shows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata

_LAST_WRITES: Final = 10
_LAST_LINES: Final = 25
_LAST_EVENTS: Final = 10


@attrs.frozen
class Write:
    """A write of a controller that reached the API server. `at` is in seconds since the cluster was started.

    `verb` is create, update, apply, patch or delete, with ` status` added for a write of the status. `refused` is the
    API server's error; empty if it accepted the write. `changed` is False if the object was the same before: an apply
    that changes nothing is still a request.
    """

    at: float
    verb: str
    ref: ObjectRef
    refused: str = ""
    changed: bool = True

    def __str__(self) -> str:
        return f"{self.at:8.1f} s  {self.told}"

    @property
    def told(self) -> str:
        """The write described in one line, for failure messages."""
        if self.refused:
            return f"{self.verb} {self.ref}: refused: {self.refused}"
        return f"{self.verb} {self.ref}{'' if self.changed else ' (nothing changed)'}"


@attrs.frozen
class EventSeen:
    """One Kubernetes Event, as `kubectl get events` shows it."""

    type: str
    reason: str
    note: str
    regarding: str
    count: int = 1

    def __str__(self) -> str:
        times = f" (x{self.count})" if self.count > 1 else ""
        return f"{self.type} {self.reason} {self.regarding}: {self.note}{times}"


def event_seen(manifest: Manifest) -> EventSeen:
    """Return the Event in a manifest of `events.k8s.io/v1`."""
    about = manifest.get("regarding") or {}
    where = "/".join(part for part in (about.get("namespace"), about.get("name")) if part)
    return EventSeen(
        str(manifest.get("type", "")),
        str(manifest.get("reason", "")),
        str(manifest.get("note", "")),
        f"{about.get('kind', '')} {where}",
        get_path(manifest, "series", "count") or 1,
    )


@attrs.frozen
class Diagnostics:
    """The information that explains why a test did not find an object in the expected state.

    `live` is the object as it is now, or None if it does not exist. `not_ready` names the workloads in its namespace
    that are not ready. The other fields are Events, writes, and the lines of logs. `str` gives everything as text.
    """

    what: str
    live: Manifest | None
    not_ready: Sequence[str]
    events: Sequence[EventSeen]
    writes: Sequence[Write]
    timeline: Sequence[str]
    log: Sequence[str]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.what
        yield from _block("conditions", [*_conditions(self.live)] if self.live is not None else ["it does not exist"])
        yield from _block("not ready", self.not_ready)
        yield from _block("events", [str(event) for event in self.events[-_LAST_EVENTS:]])
        yield from _block("last writes", [str(write) for write in self.writes[-_LAST_WRITES:]])
        yield from _block("log", self.log[-_LAST_LINES:])
        yield from _block("timeline", self.timeline[-_LAST_LINES:])


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {part}" for line in lines for part in line.splitlines())


def _conditions(live: Manifest) -> Iterator[str]:
    meta = metadata(live)
    if meta.get("deletionTimestamp"):
        yield f"to be deleted since {meta['deletionTimestamp']}, held by {', '.join(meta.get('finalizers') or ())}"
    conditions = get_path(live, "status", "conditions") or ()
    yield from (_condition(condition, meta.get("generation")) for condition in conditions)
    if not conditions:
        yield "none"


def _condition(one: Mapping[str, Any], generation: Any) -> str:
    observed = one.get("observedGeneration")
    late = f" (of generation {observed}, now {generation})" if observed not in (None, generation) else ""
    return f"{one.get('type')}={one.get('status')} {one.get('reason', '')}: {one.get('message', '')}{late}".rstrip(": ")
