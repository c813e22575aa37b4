"""SEE-3: lanes of a timeline: what each object did and when, from what it reports now."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.timestamps import format_time
from tests.support.builders import instance_manifest, operation_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.overview.lanes import Bar, Lane, LaneQuery, Mark, job_lane, lane_of, lane_view
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.summary import OverviewState, Summary, summary_of

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def before(minutes: float) -> str:
    return format_time(NOW - timedelta(minutes=minutes))


def condition(type_: str, status: str, reason: str, minutes: float) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": before(minutes)}


def revision(version: str, minutes: float, status: str = "superseded") -> dict[str, Any]:
    return {"chartVersion": f"{version}+abc", "status": status, "lastDeployed": before(minutes)}


def instance(created: float, *conditions: dict[str, Any]) -> dict[str, Any]:
    manifest: dict[str, Any] = instance_manifest("shop")
    manifest["metadata"]["creationTimestamp"] = before(created)
    manifest["status"] = {"conditions": list(conditions)}
    return manifest


def told(manifest: dict[str, Any], *history: dict[str, Any]) -> list[tuple[str, str, float, float]]:
    """Word, severity, and the minutes before now at which each bar begins and ends."""
    release = {**HELM_RELEASE.manifest("shop", "ns"), "status": {"history": list(history)}}
    kind = OPERATION if manifest["kind"] == "Operation" else APPLICATION_INSTANCE
    lane = lane_of(summary_of(kind, manifest), manifest, NOW, release)
    return [
        (bar.word, bar.severity.value, (NOW - bar.begin).total_seconds() / 60, (NOW - bar.end).total_seconds() / 60)
        for bar in lane.bars
    ]


def test_an_instance_waits_is_installed_and_is_ready_SEE_3() -> None:
    freed, ready = (
        condition("Blocked", "False", "NamespaceGated", 20),
        condition("Ready", "True", "HelmReleaseReady", 15),
    )
    assert told(instance(30, freed, ready), revision("6.6.0", 19, "deployed")) == [
        ("waiting", "waiting", 30, 20),
        ("progressing", "moving", 20, 19),
        ("installing 6.6.0", "moving", 19, 15),
        ("ready", "good", 15, 0),
    ]


def test_an_upgrade_that_failed_and_was_rolled_back_is_seen_SEE_3() -> None:
    back = condition("Degraded", "True", "RolledBack", 5)
    history = revision("6.6.0", 6, "deployed"), revision("6.7.0", 10, "failed"), revision("6.6.0", 300)
    assert told(instance(302, back), *history) == [
        ("progressing", "moving", 302, 300),
        ("6.6.0", "good", 300, 10),
        ("failed 6.7.0", "bad", 10, 6),
        ("rolled back to 6.6.0", "waiting", 6, 5),
        ("rolled back", "bad", 5, 0),
    ]


@pytest.mark.parametrize(
    ("status", "word", "severity"),
    [
        ("failed", "failed 6.6.0", "bad"),
        ("pending-install", "installing 6.6.0", "moving"),
        ("pending-upgrade", "installing 6.6.0", "moving"),
        ("pending-rollback", "installing 6.6.0", "moving"),
        ("uninstalling", "uninstalled", "quiet"),
        ("uninstalled", "uninstalled", "quiet"),
        ("deployed", "6.6.0", "good"),
        ("superseded", "6.6.0", "good"),
        ("unknown", "6.6.0", "good"),
        (None, "6.6.0", "good"),
    ],
)
def test_each_status_of_a_revision_has_its_word_SEE_3(status: Any, word: str, severity: str) -> None:
    stopped = instance(30, condition("Degraded", "True", "HelmReleaseFailed", 5))
    assert told(stopped, revision("6.6.0", 10, status))[1] == (word, severity, 10, 5)


def test_an_upgrade_lasts_from_its_beginning_until_the_instance_is_ready_again_SEE_3() -> None:
    ready = condition("Ready", "True", "HelmReleaseReady", 2)
    assert told(instance(600, ready), revision("6.7.0", 4, "deployed"), revision("6.6.0", 590))[1:] == [
        ("6.6.0", "good", 590, 4),
        ("upgrading 6.7.0", "moving", 4, 2),
        ("ready", "good", 2, 0),
    ]


def test_a_lane_marks_when_its_spec_was_applied_and_a_job_when_it_had_its_result_SEE_3() -> None:
    manifest = instance(30, condition("Ready", "True", "HelmReleaseReady", 15))
    manifest["metadata"]["managedFields"] = [
        {"manager": "argocd", "operation": "Apply", "time": before(minutes), "fieldsV1": {field: {}}, **more}
        for minutes, field, more in ((20, "f:spec", {}), (5, "f:metadata", {}), (1, "f:spec", {"subresource": "scale"}))
    ]
    lane = lane_of(summary_of(APPLICATION_INSTANCE, manifest), manifest, NOW)
    assert lane.marks == (Mark(NOW - timedelta(minutes=20), "apply", "applied directly (argocd)"),)
    job = job_lane("job-1", NOW - timedelta(minutes=3), NOW - timedelta(minutes=2), "succeeded", Severity.GOOD, NOW)
    assert job.marks == (Mark(NOW - timedelta(minutes=2), "result", "succeeded"),)
    assert job_lane("job-2", NOW, None, "Waiting", Severity.MOVING, NOW).marks == (), "an open job has no result"


def test_nothing_is_claimed_of_a_time_that_no_report_is_about_SEE_3() -> None:
    assert told(instance(90, condition("Degraded", "True", "HelmReleaseFailed", 5))) == [
        ("earlier", "quiet", 90, 5),
        ("degraded", "bad", 5, 0),
    ]
    assert told(instance(90, condition("Ready", "True", "HelmReleaseReady", 5)))[0] == ("earlier", "quiet", 90, 5)
    assert told(instance(65, condition("Ready", "True", "HelmReleaseReady", 5)))[0] == ("progressing", "moving", 65, 5)
    assert told(instance(20, condition("Degraded", "True", "HelmReleaseFailed", 5)))[0] == ("earlier", "quiet", 20, 5)
    assert told(instance(5, condition("Degraded", "True", "HelmReleaseFailed", 5))) == [("degraded", "bad", 5, 0)]


def test_an_operation_waits_runs_and_ends_with_its_result_SEE_3() -> None:
    run: dict[str, Any] = operation_manifest("nightly", "ns", target="shop")
    run["metadata"]["creationTimestamp"] = before(30)
    run["status"] = {
        "startedAt": before(25),
        "finishedAt": before(20),
        "conditions": [condition("Failed", "True", "EngineFailed", 20)],
    }
    assert told(run) == [("waiting", "waiting", 30, 25), ("failed", "bad", 25, 20)]
    job = job_lane("j-7", NOW - timedelta(minutes=3), NOW - timedelta(minutes=1), "succeeded", Severity.GOOD, NOW)
    assert [(bar.begin, bar.end, bar.word) for bar in job.bars] == [
        (NOW - timedelta(minutes=3), NOW - timedelta(minutes=1), "succeeded")
    ]


def lane(name: str, severity: Severity, *bars: tuple[float, float, Severity]) -> Lane:
    made = (Bar(NOW - timedelta(minutes=begin), NOW - timedelta(minutes=end), "x" * 9, how) for begin, end, how in bars)
    return Lane("Kind", name, severity, tuple(made), ObjectRef(HELM_RELEASE, "ns", name))


LANES = [
    lane("well", Severity.GOOD, (90, 0, Severity.GOOD)),
    lane("once-bad", Severity.GOOD, (50, 40, Severity.BAD), (40, 0, Severity.GOOD)),
    lane("bad", Severity.BAD, (30, 0, Severity.BAD)),
    lane("stuck", Severity.WAITING, (10, 0, Severity.WAITING)),
]


def test_problems_come_first_and_can_be_shown_alone_SEE_3() -> None:
    view = lane_view(LANES, LaneQuery(), NOW)
    assert [lane.name for lane in view.lanes] == ["bad", "stuck", "once-bad", "well"]
    assert [lane.name for lane in lane_view(LANES, LaneQuery("1h", problems=True), NOW).lanes] == [
        "bad",
        "stuck",
        "once-bad",
    ]
    assert [lane.name for lane in lane_view(LANES, LaneQuery("15m", problems=True), NOW).lanes] == ["bad", "stuck"]
    kept = lane_view(LANES, LaneQuery(), NOW, keep_order=True)
    assert [lane.name for lane in kept.lanes] == ["well", "once-bad", "bad", "stuck"], "job, object, source, release"


@pytest.mark.parametrize(("minutes", "range_"), [(0.1, "1m"), (5, "15m"), (30, "1h"), (2000, "7d"), (90_000, "30d")])
def test_the_axis_suits_the_latest_trouble_unless_a_range_is_chosen_SEE_3(minutes: float, range_: str) -> None:
    lanes = [lane("a", Severity.BAD, (minutes, 0, Severity.BAD)), lane("b", Severity.GOOD, (9, 0, Severity.GOOD))]
    assert lane_view(lanes, LaneQuery(), NOW).range == range_
    assert lane_view(lanes, LaneQuery("6h"), NOW).range == "6h"
    assert lane_view(lanes, LaneQuery("odd"), NOW).range == range_
    assert lane_view([], LaneQuery(), NOW).lanes == ()


def test_an_object_without_any_time_has_no_bar_SEE_3() -> None:
    summary = Summary(ObjectRef(APPLICATION_INSTANCE, "ns", "odd"), OverviewState.UNSEEN)
    assert lane_of(summary, instance_manifest("odd"), NOW).bars == ()
