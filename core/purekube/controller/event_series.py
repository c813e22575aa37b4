"""The choice of the Kubernetes Events to write: repeats are merged into series, and the writes about each object are
limited (RUN-5).
"""

from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import ObjectRef, content_hash
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import EVENT
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import microtime
from purekube.ports import KubernetesEvent

# kubernetes: pkg/apis/core/validation/events.go, NoteLengthLimit, compared with Go's len.
LONGEST_NOTE: Final = 1024
"""The longest note of an Event, in bytes of UTF-8; the API server counts bytes, although its error says characters."""

# The limits of reason, action and reportingInstance in the same file.
_LONGEST_WORD: Final = 128
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROLLER: Final = "vworkspace.io/operator"
# `series.count` is an int32.
_MOST: Final = 2**31 - 1


def event_ref(event: KubernetesEvent, instance: str, first: datetime) -> ObjectRef:
    """Return a unique reference for an Event that first occurred at `first` in the process `instance`.

    The Event is in the namespace of its object, or in `default` for a cluster-scoped object. Names of Events about one
    object sort by time, as in client-go, because `kubectl describe` sorts `events.k8s.io/v1` by name.
    """
    ref = event.regarding
    moment = (first - _EPOCH) // timedelta(microseconds=1)
    unique = content_hash(
        [instance, microtime(first), event.regarding_uid, event.type, event.reason, event.action, event.note]
    )
    # Validation refuses an Event about a cluster-scoped object in a namespace other than default and kube-system
    # (kubernetes: pkg/apis/core/validation/events.go).
    return ObjectRef(EVENT, ref.namespace or "default", f"{bounded_name(ref.name, 220)}.{moment:014x}{unique}")


def event_manifest(event: KubernetesEvent, ref: ObjectRef, *, instance: str, first: datetime) -> dict[str, Any]:
    """Return the manifest of an Event that occurred once at `first`. `instance` names the reporting process.

    `ref` is the Event's reference (`event_ref`). The note must already be short enough (`note_of`).
    """
    about = event.regarding
    regarding = {"apiVersion": about.kind.api_version, "kind": about.kind.kind, "name": about.name}
    if about.namespace:
        regarding["namespace"] = about.namespace
    if event.regarding_uid:
        regarding["uid"] = event.regarding_uid
    return {
        **EVENT.manifest(ref.name, ref.namespace),
        "eventTime": microtime(first),
        "reportingController": _CONTROLLER,
        "reportingInstance": bounded_name(instance, _LONGEST_WORD),
        "action": event.action,
        "reason": event.reason,
        "regarding": regarding,
        "note": event.note,
        "type": event.type,
    }


def series_of(count: int, last: datetime) -> dict[str, Any]:
    """Return the field `series` of an Event that occurred `count` times (at least twice), the last time at `last`."""
    return {"count": min(count, _MOST), "lastObservedTime": microtime(last)}


def note_with_link(text: str, link: str) -> str:
    """Return `text` followed by the whole `link`, with the text shortened so that both fit into `LONGEST_NOTE` bytes.

    Return only `text`, unchanged, if the link takes more than half of these bytes.
    """
    end = f" Page: {link}"
    room = LONGEST_NOTE - len(end.encode())
    return text if room < LONGEST_NOTE // 2 else note_of(text, room) + end


def note_of(text: str, longest: int = LONGEST_NOTE) -> str:
    """Return `text` without secrets, cut to at most `longest` bytes of UTF-8 between two characters."""
    raw = shown(text, 4 * longest).encode("utf-8", "replace")
    if len(raw) <= longest:
        return raw.decode()
    return raw[: longest - len("…".encode())].decode("utf-8", "ignore") + "…"


class Once:
    """A memory of the last message about each subject, so that a message is logged only when it changes.

    A subject is any text that says what a message is about, such as the name of a controller. The memory holds at most
    `most` subjects, and drops the least recently used.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._said: OrderedDict[str, str] = OrderedDict()

    def first(self, subject: str, said: str) -> bool:
        """Report whether the message `said` differs from the last one about `subject`, and remember `said`.

        The first message about a subject counts as different.
        """
        before = self._said.get(subject)
        self._said[subject] = said
        self._said.move_to_end(subject)
        if len(self._said) > self._most:
            self._said.popitem(last=False)
        return before != said

    def forget(self, subject: str) -> bool:
        """Forget the last message about `subject`, and report whether there was one."""
        return self._said.pop(subject, None) is not None


# client-go's spam filter has the same limits per source and object: 25 at once, then one every 5 minutes
# (tools/record/events_cache.go, defaultSpamBurst and defaultSpamQPS).
_BURST: Final = 25.0
_FOR_NEWS: Final = 5.0
_REFILL: Final = timedelta(seconds=300)
# As in client-go, a series ends after 6 minutes without a repeat, and the next repeat is a new Event
# (tools/events/event_broadcaster.go, finishTime).
_ENDS: Final = timedelta(seconds=360)
_AGAIN: Final = timedelta(seconds=30)
_PROGRESS_HOLD: Final = timedelta(seconds=2)
"""The time for which an Event about progress waits for an Event about the end, which then is the only one written."""


class Observed(StrEnum):
    """The result of observing an Event.

    NEW: it starts a series. REPEATED: it was counted in an existing series. DROPPED: it is not written, because of a
    limit. SUPERSEDED: it is not written, because an Event about the end of the reported work came first.
    """

    NEW = "created"
    REPEATED = "repeated"
    DROPPED = "dropped"
    SUPERSEDED = "superseded"


@attrs.frozen
class CreateEvent:
    """A request to create (POST) an Event."""

    event: KubernetesEvent
    manifest: dict[str, Any]


@attrs.frozen
class UpdateSeries:
    """A request to merge-patch the `series` of an existing Event."""

    event: KubernetesEvent
    ref: ObjectRef
    patch: dict[str, Any]


Write: TypeAlias = CreateEvent | UpdateSeries


@attrs.define
class _Series:
    """One Event and its repeats. `written` is the count that the server knows, 0 before the Event is created."""

    ref: ObjectRef
    first: datetime
    last: datetime
    count: int = 1
    written: int = 0
    asked: int = 0
    """The `count` that the write under way sends; 0 if no write is under way."""
    not_before: datetime | None = None
    """The earliest time of the next write after a failed one."""

    @property
    def wants(self) -> bool:
        return self.count > self.written and not self.asked

    @property
    def price(self) -> float:
        """The number of tokens that must be left for the next write, which takes one of them.

        A repeat needs more tokens than a new Event, so that some remain for new Events.
        """
        return 1.0 + _FOR_NEWS if self.written else 1.0


@attrs.define
class _Bucket:
    """The token bucket that limits the rate at which Events about one object are written."""

    since: datetime
    tokens: float = _BURST

    def fill(self, now: datetime) -> None:
        """Add the tokens that accrued since the last call. No token is added if the clock went back."""
        self.tokens = min(_BURST, self.tokens + max(0.0, (now - self.since) / _REFILL))
        self.since = now


_Object: TypeAlias = tuple[ObjectRef, str]


class EventSeries:
    """A buffer of Kubernetes Events that merges repeats into series and chooses the next write.

    `instance` names the process in each Event. At most `most` series are kept, and at most `waiting` Events may wait to
    be written; new Events beyond these limits are dropped.
    """

    def __init__(self, instance: str, *, most: int = 4096, waiting: int = 1000) -> None:
        self._instance = instance
        self._most = most
        self._waiting = waiting
        self._series: OrderedDict[KubernetesEvent, _Series] = OrderedDict()  # by the time of the last repeat
        self._buckets: OrderedDict[_Object, _Bucket] = OrderedDict()  # by the time of the last look
        # Events to write, and since when. No OrderedDict: to iterate one hashes every key.
        self._due: dict[KubernetesEvent, datetime] = {}
        self._news: dict[_Object, int] = {}  # Events about an object that wait to be created
        self.superseded = 0
        """The number of Events about progress that are not written, because an Event about its end came first."""

    def __len__(self) -> int:
        return len(self._series)

    @property
    def objects(self) -> int:
        """The number of objects about which Events were written so recently that their rate limit is tracked."""
        return len(self._buckets)

    def observe(self, event: KubernetesEvent, now: datetime) -> Observed:
        """Count `event` in the series of equal events (REPEATED), or start a new series with it (NEW). Return DROPPED
        if the event will not be written, because its object has used up its rate limit or the buffer is full.

        An event is about progress if it reports only unfinished work (`is_progress`). Any other event first removes the
        Events about the same object's progress that still wait to be created; they are counted in `superseded`.
        """
        self._forget(now)
        event = attrs.evolve(event, note=note_of(event.note))
        about = _event_object(event)
        if not event.is_progress:
            self._supersede(about)
        series = self._series.get(event)
        if series is not None:
            series.count, series.last = series.count + 1, now
            self._series.move_to_end(event)
            self._due.setdefault(event, now)
            return Observed.REPEATED
        waiting = self._news.get(about, 0)
        full = len(self._due) >= self._waiting or len(self._series) >= self._most
        if full or self._bucket(about, now).tokens - waiting < 1.0:
            return Observed.DROPPED
        self._series[event] = _Series(event_ref(event, self._instance, now), now, now)
        self._due[event] = now
        self._news[about] = waiting + 1
        return Observed.NEW

    def _supersede(self, about: _Object) -> None:
        """Drop the Events about the object's progress that still wait to be created."""
        for event in [event for event in self._due if event.is_progress and _event_object(event) == about]:
            series = self._series[event]
            if not series.written and not series.asked:
                self._end_creation(event)
                del self._due[event], self._series[event]
                self.superseded += series.count

    @property
    def waiting(self) -> int:
        """The number of Events that wait for their first write or an update."""
        return len(self._due)

    def take(self, now: datetime, *, waited: timedelta | None = timedelta(0)) -> Write | None:
        """Return the next write among Events that have waited for at least `waited`; None if no write is possible now.

        A new Event that reports only unfinished work waits for at least two seconds, since an Event about the end of
        that work would replace it. A new warning does not wait, since it may be the last message of a process that is
        about to be killed. If `waited` is None, no Event has to wait, whatever it is about; this is for a process that
        is about to end. The caller must report the result with `wrote` or `failed`.
        """
        for event, since in self._due.items():
            series = self._series[event]
            if waited is not None and _held(event, series, now - since, waited) > timedelta(0):
                continue
            bucket = self._bucket(_event_object(event), now)
            held = series.not_before is not None and now < series.not_before
            if series.wants and not held and bucket.tokens >= series.price:
                bucket.tokens -= 1.0
                series.asked = series.count
                return self._write(event, series)
        return None

    def wrote(self, write: Write) -> None:
        """Record that the server accepted the write."""
        series = self._ended(write)
        series.written, series.asked, series.not_before = series.asked, 0, None
        if series.wants:
            self._due[write.event] = series.last

    def failed(self, write: Write, now: datetime, *, gone: bool = False) -> Observed:
        """Record that the server refused the write, and return what happens to the Event.

        A refused create is dropped (DROPPED), so that the next repeat becomes a new Event. A refused update is retried
        later (REPEATED). With `gone` the refused update's Event no longer exists; it is observed again as a new Event
        (NEW, or DROPPED at a limit).
        """
        series = self._ended(write)
        series.asked = 0
        if isinstance(write, CreateEvent):
            del self._series[write.event]
            return Observed.DROPPED
        if gone:
            del self._series[write.event]
            return self.observe(write.event, now)
        self._due[write.event] = now
        series.not_before = now + _AGAIN
        return Observed.REPEATED

    def next_look(self, now: datetime) -> timedelta | None:
        """Return the time until `take` may return a write again; None if no Event waits to be written."""
        waits = [self._wait(event, since, now) for event, since in self._due.items() if self._series[event].wants]
        return min(waits, default=None)

    def _wait(self, event: KubernetesEvent, since: datetime, now: datetime) -> timedelta:
        series, bucket = self._series[event], self._bucket(_event_object(event), now)
        held = _held(event, series, now - since, timedelta(0))
        if series.not_before is not None:
            held = max(held, series.not_before - now)
        # A little longer than necessary: timedelta rounds, and so does the bucket.
        return max(held, max(0.0, series.price - bucket.tokens) * _REFILL) + timedelta(milliseconds=1)

    def _write(self, event: KubernetesEvent, series: _Series) -> Write:
        repeated = series_of(series.count, series.last)
        if series.written:
            return UpdateSeries(event, series.ref, {"series": repeated})
        manifest = event_manifest(event, series.ref, instance=self._instance, first=series.first)
        return CreateEvent(event, {**manifest, "series": repeated} if series.count > 1 else manifest)

    def _ended(self, write: Write) -> _Series:
        self._due.pop(write.event, None)
        if isinstance(write, CreateEvent):
            self._end_creation(write.event)
        return self._series[write.event]

    def _end_creation(self, event: KubernetesEvent) -> None:
        about = _event_object(event)
        self._news[about] -= 1
        if not self._news[about]:
            del self._news[about]

    def _bucket(self, about: _Object, now: datetime) -> _Bucket:
        bucket = self._buckets.setdefault(about, _Bucket(now))
        self._buckets.move_to_end(about)
        bucket.fill(now)
        return bucket

    def _forget(self, now: datetime) -> None:
        """Drop series that have ended and are written, and objects whose bucket is full again."""
        for event in list(self._ended_series(now)):
            del self._series[event]
        while self._buckets and (len(self._buckets) > self._most or self._oldest_is_full(now)):
            self._buckets.popitem(last=False)

    def _oldest_is_full(self, now: datetime) -> bool:
        bucket = next(iter(self._buckets.values()))
        return bucket.tokens + (now - bucket.since) / _REFILL >= _BURST

    def _ended_series(self, now: datetime) -> Iterator[KubernetesEvent]:
        for event, series in self._series.items():
            if now - series.last < _ENDS:
                return
            if not series.asked and not series.wants:
                yield event


def _held(event: KubernetesEvent, series: _Series, age: timedelta, waited: timedelta) -> timedelta:
    """Return for how long an Event of this age is still held back, if Events in general wait for `waited`.

    A negative age means that the clock was set back; an Event about progress is then not held back any longer than
    others.
    """
    if event.type == "Warning" and not series.written:
        return timedelta(0)
    is_new_progress = event.is_progress and not series.written and age >= timedelta(0)
    hold = max(waited, _PROGRESS_HOLD) if is_new_progress else waited
    return max(timedelta(0), hold - age) if hold else timedelta(0)


def _event_object(event: KubernetesEvent) -> _Object:
    return event.regarding, event.regarding_uid
