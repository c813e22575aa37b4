"""The lanes (rows) of a timeline: the states of each object over time, as bars on one time axis (SEE-3).

No history is recorded. All bars are derived from what objects report now: the times of conditions, the start and end of
an Operation, and the history of a release. A period about which an object reports nothing has a bar with the word
`earlier`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import time_at
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.reasons import InstanceReason
from vworkspace_core.overview.origin import applied_at, origin_of
from vworkspace_core.overview.severity import Severity, severity_of, urgency
from vworkspace_core.overview.summary import OverviewState, Summary

RANGES: Final[Mapping[str, timedelta]] = {
    "1m": timedelta(minutes=1),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
"""The lengths of the time axis that a viewer may choose, by name."""
MOST_LANES: Final = 100
_MOST_REVISIONS: Final = 20
_SOON: Final = timedelta(hours=1)
"""The maximum time before a Ready object's first known state that counts as its installation, not as `earlier`."""
_WORDS: Final[Mapping[str, str]] = {
    InstanceReason.HELM_RELEASE_INSTALLING: "installing",
    InstanceReason.HELM_RELEASE_UPGRADING: "upgrading",
    InstanceReason.ROLLED_BACK: "rolled back",
}


@attrs.frozen
class Bar:
    """A period in which an object was in one state, drawn as a bar on a timeline. `word` names the state."""

    begin: datetime
    end: datetime
    word: str
    severity: Severity
    reason: str = ""


@attrs.frozen
class Mark:
    """A marked moment on the timeline of an object or of a job of the control plane.

    At that time the object's spec was applied, or the job got its result. `word` says which.
    """

    at: datetime
    word: str
    reason: str = ""


@attrs.frozen
class Lane:
    """The row of one object, or of one job of the control plane, on a timeline: its bars, in order of time.

    `ref` is None for a job.
    """

    kind: str
    name: str
    severity: Severity
    bars: tuple[Bar, ...]
    ref: ObjectRef | None = None
    marks: tuple[Mark, ...] = ()

    def is_problem(self, begin: datetime) -> bool:
        """Report whether the object or job has a problem now, or had one after `begin`."""
        was_bad = any(bar.severity is Severity.BAD and bar.end > begin for bar in self.bars)
        return was_bad or self.severity in _TROUBLE

    @property
    def moved(self) -> datetime | None:
        """The time at which the present state of the object or job began, or None if nothing is known."""
        return self.bars[-1].begin if self.bars else None


@attrs.frozen
class LaneQuery:
    """The selection that a viewer made on the timeline page.

    `range` is the name of a time range, one of `RANGES`; if it is empty, a suitable range is chosen. `problems` says
    that only objects and jobs with problems are shown.
    """

    range: str = ""
    problems: bool = False


@attrs.frozen
class LaneView:
    """The lanes (rows of a timeline) to show between the times `begin` and `end`. `left_out` counts those not shown."""

    query: LaneQuery
    range: str
    begin: datetime
    end: datetime
    lanes: tuple[Lane, ...]
    left_out: int = 0


_TROUBLE: Final = frozenset({Severity.BAD, Severity.WAITING})


def lane_of(summary: Summary, manifest: Manifest, now: datetime, release: Manifest | None = None) -> Lane:
    """Return the lane (row of a timeline) of the object `manifest`, whose state is `summary`.

    The last bar of the lane ends at `now`. `release` is the HelmRelease of an instance, or None if it has none.
    """
    ref, severity = summary.ref, severity_of(summary.state)
    if ref.kind == OPERATION:
        bars = _run_bars(summary, manifest, now)
    else:
        bars = _joined(_points(summary, manifest, manifest if ref.kind == HELM_RELEASE else release), now)
    applied, origin = applied_at(manifest), origin_of(manifest)
    marks = (Mark(applied, "apply", safe(str(origin))),) if applied is not None and bars else ()
    return Lane(ref.kind.kind, safe(ref.name), severity, bars, ref, marks)


def job_lane(
    id_: str, began: datetime | None, ended: datetime | None, outcome: str, severity: Severity, now: datetime
) -> Lane:
    """Return the lane (row of a timeline) of the job `id_` of the control plane, from its arrival to its result.

    The job arrived at `began`, None if unknown, and ended at `ended`, None if it has no result yet; then its bar ends
    at `now`. `outcome` is a word for the state or the result of the job, `severity` the severity with which it is
    shown.
    """
    end = ended or now
    bar = Bar(min(began or end, end), end, safe(outcome), severity)
    return Lane("Job", safe(id_), severity, (bar,), marks=() if ended is None else (Mark(end, "result", bar.word),))


def _in_words(summary: Summary) -> str:
    """Return the state of the object in lower-case words, such as `not ready`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", summary.state_text).lower()


@attrs.frozen
class _Point:
    """A change on an object's timeline: a time, and the state that began then."""

    at: datetime
    word: str
    severity: Severity
    reason: str = ""


def _points(summary: Summary, manifest: Manifest, release: Manifest | None) -> Iterator[_Point]:
    """Yield the states that an object has had since its creation, each with the time when it began, in
    order of time.
    """
    created = time_at(manifest, "metadata", "creationTimestamp")
    since = summary.since or created
    if since is None:
        return
    past = [point for point in _of_history(release) if point.at < since]
    is_ready = summary.state is OverviewState.READY
    if past and is_ready and past[-1].severity is not Severity.BAD:
        word = "upgrading" if len(past) > 1 else "installing"
        past[-1] = attrs.evolve(past[-1], word=f"{word} {past[-1].word}", severity=Severity.MOVING)
    first = past[0].at if past else since
    if created is not None:
        yield from _beginning(manifest, created, first, is_ready=is_ready or bool(past))
    yield from past
    word = _WORDS.get(summary.reason, _in_words(summary))
    text = safe(" ".join(filter(None, (summary.reason, summary.message))), 300)
    yield _Point(since, f"{word} {summary.deployed}".strip() if is_ready else word, severity_of(summary.state), text)


def _beginning(manifest: Manifest, created: datetime, first: datetime, *, is_ready: bool) -> Iterator[_Point]:
    """Yield the states of an object between its creation (`created`) and `first`, when its first known state began.

    No status records these states, so they are inferred. If Blocked became False in this period, the object was waiting
    until then. It counts as progressing for the rest of the period if `is_ready` (the object is Ready or has a release
    history) and the rest took at most an hour. Otherwise the state is unknown.
    """
    blocked = condition_of(manifest, "Blocked")
    freed = time_at(dict(blocked), "lastTransitionTime") if blocked.get("status") == "False" else None
    at = created
    if freed is not None and created < freed <= first:
        yield _Point(created, "waiting", Severity.WAITING, safe(str(blocked.get("reason") or "")))
        at = freed
    if at < first:
        is_known = is_ready and first - at <= _SOON
        yield _Point(at, "progressing", Severity.MOVING) if is_known else _Point(at, "earlier", Severity.QUIET)


def _of_history(release: Manifest | None) -> list[_Point]:
    """Return a point of the timeline (a time, and the state that began then) for each revision in a HelmRelease's
    history.

    The oldest revision comes first.
    """
    history = get_path(release, "status", "history")
    revisions = history[:_MOST_REVISIONS] if isinstance(history, list) else []
    timed = [(at, revision) for revision in revisions if (at := time_at(revision, "lastDeployed")) is not None]
    timed.sort(key=lambda each: each[0])
    versions = [str(get_path(revision, "chartVersion") or "").partition("+")[0] for _, revision in timed]
    return [
        _of_revision(at, get_path(revision, "status"), version, is_back=_is_back(versions[: number + 1]))
        for number, ((at, revision), version) in enumerate(zip(timed, versions, strict=True))
    ]


def _is_back(versions: Sequence[str]) -> bool:
    """Report whether the last of `versions`, the deployed versions in order of time, is a rollback.

    It is if that version ran before, with another version in between.
    """
    return versions[-1] in versions[:-1] and versions[-2] != versions[-1]


def _of_revision(at: datetime, status: Any, version: str, *, is_back: bool) -> _Point:
    version = safe(version, 60)
    match status:
        case "failed":
            return _Point(at, f"failed {version}", Severity.BAD)
        case "pending-install" | "pending-upgrade" | "pending-rollback":
            return _Point(at, f"installing {version}", Severity.MOVING)
        case "uninstalling" | "uninstalled":
            return _Point(at, "uninstalled", Severity.QUIET)
        case _:
            back = _Point(at, f"rolled back to {version}", Severity.WAITING)
            return back if is_back else _Point(at, version, Severity.GOOD)


def _run_bars(summary: Summary, manifest: Manifest, now: datetime) -> tuple[Bar, ...]:
    """Return the bars of an Operation on the timeline. The last bar ends when the Operation ended, or now."""
    created, started, finished = (
        time_at(manifest, *path)
        for path in (("metadata", "creationTimestamp"), ("status", "startedAt"), ("status", "finishedAt"))
    )
    severity, word = severity_of(summary.state), _in_words(summary)
    text = safe(" ".join(filter(None, (summary.reason, summary.message))), 300)
    begin = created or started or finished or summary.since
    if begin is None:
        return ()
    bars = [Bar(begin, started, "waiting", Severity.WAITING)] if started is not None and begin < started else []
    begin = started or begin
    return (*bars, Bar(begin, max(begin, finished or now), word, severity, text))


def _joined(points: Iterable[_Point], now: datetime) -> tuple[Bar, ...]:
    """Return a bar of the timeline for each of `points`, until the next point begins. The last bar ends now."""
    ordered = list(points)
    ends = [*(after.at for _, after in pairwise(ordered)), now][: len(ordered)]
    bars = (
        Bar(point.at, max(point.at, end), point.word, point.severity, point.reason)
        for point, end in zip(ordered, ends, strict=True)
    )
    return tuple(bar for bar in bars if bar.begin < bar.end)


def lane_view(lanes: Iterable[Lane], query: LaneQuery, now: datetime, *, keep_order: bool = False) -> LaneView:
    """Return which of `lanes`, the rows of the timeline, are shown for the viewer's selection `query`.

    The time axis ends at `now`. Objects with problems come first, then those that changed last. With `keep_order` the
    given order is kept.
    """
    lanes = list(lanes)
    length = query.range if query.range in RANGES else _suitable(lanes, now)
    begin = now - RANGES[length]
    shown = [lane for lane in lanes if lane.bars and (not query.problems or lane.is_problem(begin))]
    if not keep_order:
        shown.sort(
            key=lambda lane: (urgency(lane.severity) if lane.severity in _TROUBLE else len(Severity), _age(lane, now))
        )
    return LaneView(query, length, begin, now, tuple(shown[:MOST_LANES]), max(0, len(shown) - MOST_LANES))


def _suitable(lanes: Iterable[Lane], now: datetime) -> str:
    """Return the name of the shortest time range in which half of the lanes with problems last changed.

    If no lane has problems, all lanes count.
    """
    lanes = list(lanes)
    ages = sorted(_age(lane, now) for lane in [lane for lane in lanes if lane.severity in _TROUBLE] or lanes)
    median = ages[(len(ages) - 1) // 2] if ages else timedelta(0)
    return next((name for name, length in RANGES.items() if median <= length * 0.8), [*RANGES][-1])


def _age(lane: Lane, now: datetime) -> timedelta:
    return now - lane.moved if lane.moved is not None else timedelta.max
