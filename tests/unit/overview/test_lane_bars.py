"""The bars and the order of lanes, boundary by boundary (SEE-3)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.overview.lanes import (
    MOST_LANES,
    RANGES,
    Bar,
    Lane,
    LaneQuery,
    Mark,
    job_lane,
    lane_of,
    lane_view,
)
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.summary import OverviewState, Summary

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
S, V = OverviewState, Severity


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def text(minutes: float) -> str:
    return ago(minutes).strftime("%Y-%m-%dT%H:%M:%SZ")


def bars(
    state: OverviewState,
    since: float | None,
    created: float | None,
    *conditions: Any,
    history: Any = (),
    kind: Kind = APPLICATION_INSTANCE,
    **summary: Any,
) -> list[tuple[str, float, float, Severity]]:
    """Word, begin and end of each bar, in minutes before now."""
    manifest: dict[str, Any] = {"metadata": {"name": "a"}, "status": {"conditions": list(conditions)}}
    if created is not None:
        manifest["metadata"]["creationTimestamp"] = text(created)
    release = {"status": {"history": list(history)}}
    told = Summary(ObjectRef(kind, "ns", "a"), state, since=None if since is None else ago(since), **summary)
    minute = timedelta(minutes=1)
    found = lane_of(told, manifest, NOW, release).bars
    return [(bar.word, (NOW - bar.begin) / minute, (NOW - bar.end) / minute, bar.severity) for bar in found]


def revision(version: str, minutes: float, status: str = "superseded") -> dict[str, Any]:
    return {"chartVersion": version, "lastDeployed": text(minutes), "status": status}


def freed(minutes: float, status: str = "False") -> dict[str, Any]:
    return {"type": "Blocked", "status": status, "reason": "Unblocked", "lastTransitionTime": text(minutes)}


@pytest.mark.parametrize(
    ("created", "since", "conditions", "expected"),
    [
        (60, 0.5, [], [("progressing", 60, 0.5, V.MOVING), ("ready", 0.5, 0, V.GOOD)]),
        (61, 1, [], [("progressing", 61, 1, V.MOVING), ("ready", 1, 0, V.GOOD)]),
        (62, 1, [], [("earlier", 62, 1, V.QUIET), ("ready", 1, 0, V.GOOD)]),
        (5, 5, [], [("ready", 5, 0, V.GOOD)]),
        (4, 5, [], [("ready", 5, 0, V.GOOD)]),
        (None, 5, [], [("ready", 5, 0, V.GOOD)]),
        (5, None, [], [("ready", 5, 0, V.GOOD)]),
        (None, None, [], []),
        (9, 0, [], [("progressing", 9, 0, V.MOVING)]),
        (
            9,
            2,
            [freed(5)],
            [("waiting", 9, 5, V.WAITING), ("progressing", 5, 2, V.MOVING), ("ready", 2, 0, V.GOOD)],
        ),
        (9, 2, [freed(2)], [("waiting", 9, 2, V.WAITING), ("ready", 2, 0, V.GOOD)]),
        (9, 2, [freed(9)], [("progressing", 9, 2, V.MOVING), ("ready", 2, 0, V.GOOD)]),
        (9, 2, [freed(1)], [("progressing", 9, 2, V.MOVING), ("ready", 2, 0, V.GOOD)]),
        (9, 2, [freed(5, "True")], [("progressing", 9, 2, V.MOVING), ("ready", 2, 0, V.GOOD)]),
    ],
)
def test_what_was_before_the_present_state_is_inferred_and_not_claimed(
    created: float | None, since: float | None, conditions: list[Any], expected: Any
) -> None:
    assert bars(S.READY, since, created, *conditions) == expected


def test_a_waiting_bar_has_its_reason_and_an_object_without_bars_has_no_mark() -> None:
    applied = {"manager": "kubectl", "operation": "Apply", "time": text(3), "fieldsV1": {"f:spec": {}}}
    meta = {"name": "a", "managedFields": [applied]}
    told = Summary(ObjectRef(APPLICATION_INSTANCE, "ns", "a"), S.READY)
    manifest = {"metadata": meta, "status": {"conditions": [freed(5)]}}

    assert lane_of(told, manifest, NOW).marks == ()
    lane = lane_of(told, {**manifest, "metadata": {**meta, "creationTimestamp": text(9)}}, NOW)
    assert [mark.word for mark in lane.marks] == ["apply"]
    since = Summary(told.ref, S.READY, since=ago(2))
    waiting = lane_of(since, {**manifest, "metadata": {**meta, "creationTimestamp": text(9)}}, NOW).bars[0]
    assert (waiting.word, waiting.reason) == ("waiting", "Unblocked")


def test_a_revision_that_begins_with_the_present_state_is_no_past() -> None:
    assert bars(S.NOT_READY, 1, 20, history=[revision("1", 1)])[0] == ("earlier", 20, 1, V.QUIET)


def test_an_object_that_is_not_ready_claims_nothing_of_before() -> None:
    assert bars(S.NOT_READY, 1, 9) == [("earlier", 9, 1, V.QUIET), ("not ready", 1, 0, V.WAITING)]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("HelmReleaseInstalling", "installing"),
        ("HelmReleaseUpgrading", "upgrading"),
        ("RolledBack", "rolled back"),
        ("Other", "progressing"),
    ],
)
def test_a_state_has_the_word_of_its_reason(reason: str, word: str) -> None:
    assert bars(S.PROGRESSING, 1, None, reason=reason, deployed="1.0") == [(word, 1, 0, V.MOVING)]


def test_a_ready_object_names_what_is_deployed() -> None:
    assert bars(S.READY, 1, None, deployed="1.0") == [("ready 1.0", 1, 0, V.GOOD)]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([revision("1", 5)], [("installing 1", 5, 1, V.MOVING)]),
        ([revision("2", 5), revision("1", 7)], [("1", 7, 5, V.GOOD), ("upgrading 2", 5, 1, V.MOVING)]),
        ([revision("1+build", 5, "failed")], [("failed 1", 5, 1, V.BAD)]),
        (
            [revision("1", 3), revision("2", 5), revision("1", 7)],
            [("1", 7, 5, V.GOOD), ("2", 5, 3, V.GOOD), ("upgrading rolled back to 1", 3, 1, V.MOVING)],
        ),
        ([revision("1", 3), revision("1", 5)], [("1", 5, 3, V.GOOD), ("upgrading 1", 3, 1, V.MOVING)]),
        ([revision("1", 1)], []),
        ([{"chartVersion": "1"}, "x"], []),
    ],
)
def test_the_revisions_of_a_release_are_bars_until_the_present_state(history: Any, expected: Any) -> None:
    assert bars(S.READY, 1, None, history=history) == [*expected, ("ready", 1, 0, V.GOOD)]


def test_while_it_is_not_ready_the_revisions_keep_their_words() -> None:
    history = [revision("1", 3), revision("2", 5), revision("1", 7)]

    assert bars(S.NOT_READY, 1, None, history=history)[2] == ("rolled back to 1", 3, 1, V.WAITING)
    assert bars(S.NOT_READY, 1, 20, history=[revision("1", 5)])[0] == ("progressing", 20, 5, V.MOVING)
    assert len(bars(S.NOT_READY, 1, None, history=[revision(str(number), 2 + number) for number in range(30)])) == 21


@pytest.mark.parametrize(
    ("created", "status", "expected"),
    [
        (9, {}, [(9, 0, "running")]),
        (9, {"startedAt": text(5)}, [(9, 5, "waiting"), (5, 0, "running")]),
        (9, {"startedAt": text(9)}, [(9, 0, "running")]),
        (9, {"startedAt": text(5), "finishedAt": text(2)}, [(9, 5, "waiting"), (5, 2, "running")]),
        (9, {"finishedAt": text(2)}, [(9, 2, "running")]),
        (None, {"startedAt": text(5)}, [(5, 0, "running")]),
        (None, {"finishedAt": text(2)}, [(2, 2, "running")]),
        (None, {}, [(3, 0, "running")]),
        (9, {"startedAt": text(5), "finishedAt": text(7)}, [(9, 5, "waiting"), (5, 5, "running")]),
    ],
)
def test_an_operation_waits_from_its_creation_and_runs_from_its_start(
    created: float | None, status: dict[str, Any], expected: list[Any]
) -> None:
    meta = {"name": "a"} if created is None else {"name": "a", "creationTimestamp": text(created)}
    told = Summary(ObjectRef(OPERATION, "ns", "a"), S.RUNNING, "R", "m", ago(3))

    found = lane_of(told, {"metadata": meta, "status": status}, NOW)

    assert [(bar.begin, bar.end, bar.word) for bar in found.bars] == [
        (ago(begin), ago(end), word) for begin, end, word in expected
    ]
    assert found.bars[-1].reason == "R m"
    assert lane_of(Summary(told.ref, S.RUNNING), {"metadata": {"name": "a"}, "status": {}}, NOW).bars == ()


def test_a_job_lasts_from_its_arrival_to_its_result() -> None:
    def lane(began: float | None, ended: float | None) -> Lane:
        first, last = (None if at is None else ago(at) for at in (began, ended))
        return job_lane("j", first, last, "noop", V.QUIET, NOW)

    ended = Lane("Job", "j", V.QUIET, (Bar(ago(5), ago(2), "noop", V.QUIET),), None, (Mark(ago(2), "result", "noop"),))
    assert lane(5, 2) == ended
    assert lane(5, None) == Lane("Job", "j", V.QUIET, (Bar(ago(5), NOW, "noop", V.QUIET),))
    assert lane(None, 2).bars == (Bar(ago(2), ago(2), "noop", V.QUIET),)
    assert lane(1, 2).bars == (Bar(ago(2), ago(2), "noop", V.QUIET),)


def drawn(name: str, severity: Severity, *spans: tuple[float, float, Severity]) -> Lane:
    return Lane("K", name, severity, tuple(Bar(ago(begin), ago(end), "w", of) for begin, end, of in spans))


@pytest.mark.parametrize(
    ("lane", "is_problem"),
    [
        (drawn("a", V.BAD, (9, 0, V.GOOD)), True),
        (drawn("a", V.WAITING), True),
        (drawn("a", V.GOOD, (9, 4, V.BAD), (4, 0, V.GOOD)), True),
        (drawn("a", V.GOOD, (9, 5, V.BAD), (5, 0, V.GOOD)), False),
        (drawn("a", V.GOOD, (9, 0, V.WAITING)), False),
        (drawn("a", V.MOVING, (9, 0, V.MOVING)), False),
    ],
)
def test_a_lane_has_a_problem_now_or_had_one_within_the_range(lane: Lane, is_problem: bool) -> None:
    assert lane.is_problem(ago(5)) is is_problem


def test_lanes_come_by_urgency_then_by_their_last_change() -> None:
    lanes = [
        drawn("quiet", V.QUIET, (1, 0, V.QUIET)),
        drawn("old", V.BAD, (9, 0, V.BAD)),
        drawn("waiting", V.WAITING, (1, 0, V.WAITING)),
        drawn("new", V.BAD, (2, 0, V.BAD)),
        drawn("good", V.GOOD, (0.5, 0, V.GOOD)),
        drawn("empty", V.BAD),
    ]

    def shown(query: LaneQuery, **options: bool) -> list[str]:
        return [lane.name for lane in lane_view(lanes, query, NOW, **options).lanes]

    assert shown(LaneQuery()) == ["new", "old", "waiting", "good", "quiet"]
    assert shown(LaneQuery(problems=True)) == ["new", "old", "waiting"]
    assert shown(LaneQuery(), keep_order=True) == ["quiet", "old", "waiting", "new", "good"]


def test_no_more_lanes_are_shown_than_fit() -> None:
    lanes = [drawn(str(number), V.GOOD, (1, 0, V.GOOD)) for number in range(MOST_LANES + 2)]

    assert [lane_view(lanes[:count], LaneQuery(), NOW).left_out for count in (MOST_LANES, MOST_LANES + 2)] == [0, 2]
    assert len(lane_view(lanes, LaneQuery(), NOW).lanes) == MOST_LANES


@pytest.mark.parametrize(
    ("lanes", "asked", "chosen"),
    [
        ([], "", "1m"),
        ([drawn("a", V.GOOD)], "", "30d"),
        ([drawn("a", V.GOOD, (0.8, 0, V.GOOD))], "", "1m"),
        ([drawn("a", V.GOOD, (0.9, 0, V.GOOD))], "", "15m"),
        ([drawn("a", V.GOOD, (12, 0, V.GOOD))], "", "15m"),
        ([drawn("a", V.GOOD, (12.1, 0, V.GOOD))], "", "1h"),
        ([drawn("a", V.GOOD, (0.5, 0, V.GOOD)), drawn("b", V.BAD, (20, 0, V.BAD))], "", "1h"),
        ([drawn("a", V.BAD, (0.5, 0, V.BAD)), drawn("b", V.BAD, (20, 0, V.BAD))], "", "1m"),
        ([drawn(str(at), V.BAD, (at, 0, V.BAD)) for at in (0.5, 20, 9000)], "", "1h"),
        ([drawn("a", V.GOOD, (0.5, 0, V.GOOD))], "7d", "7d"),
        ([drawn("a", V.GOOD, (0.5, 0, V.GOOD))], "2y", "1m"),
    ],
)
def test_the_axis_is_as_long_as_asked_or_as_half_of_the_troubles_need(
    lanes: list[Lane], asked: str, chosen: str
) -> None:
    view = lane_view(lanes, LaneQuery(asked), NOW)

    assert (view.range, view.begin, view.end) == (chosen, NOW - RANGES[chosen], NOW)
