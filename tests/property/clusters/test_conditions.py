"""Exactly which conditions a Cluster should have, case by case (RES-3, PULL-5, PULL-7, SEE-4)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.timestamps import Instant, format_time
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason
from vworkspace_core.clusters.decision import wanted_conditions
from vworkspace_core.clusters.inventory import (
    AgentReport,
    ClusterInventory,
    PendingDeliveries,
    WeakSettings,
    hardened_condition,
)
from vworkspace_core.control_plane.connection import ConnectionState, Connectivity
from vworkspace_core.control_plane.outbox import Outbox

YES, NO = ConditionStatus.TRUE, ConditionStatus.FALSE
START = datetime(2026, 1, 1, tzinfo=UTC)
OK = Connectivity.CONNECTED
AWAY = Connectivity.UNREACHABLE
REJECTED = Connectivity.REJECTED
UNKNOWN = Connectivity.UNKNOWN
WAITING = PendingDeliveries(results=2)
WAITS = "waiting: acks and results 2"
CURE = "tried again every 5 to 10 minutes, and at once when {} has a new token"


def at(seconds: float) -> Instant:
    return Instant(START + timedelta(seconds=seconds), seconds)


def wanted(
    link: ConnectionState | None,
    now: float = 400.0,
    previous: tuple[Condition, ...] = (),
    pending: PendingDeliveries | None = None,
    apart: str = "",
    unrecorded: str = "",
    **fields: Any,
) -> dict[Type, DesiredCondition]:
    """The conditions by type; the agent started at second 50."""
    waits = pending if pending is not None else PendingDeliveries()
    agent = None if link is None else AgentReport(link, at(50), Outbox().condition(), waits, apart, unrecorded)
    found = wanted_conditions(ClusterInventory(cluster_id="c", now=at(now), agent=agent, **fields), previous)
    assert len({one.type for one in found}) == len(found)
    return {Type(one.type): one for one in found}


def told(kind: Type, status: ConditionStatus) -> Condition:
    return Condition(kind, status, "Any", "", format_time(START))


def link(
    connectivity: Connectivity, since: float | None = None, last_ok: float | None = None, error: str = ""
) -> ConnectionState:
    first, last = (None if moment is None else at(moment) for moment in (since, last_ok))
    return ConnectionState(connectivity, first, last, error)


@pytest.mark.parametrize(
    ("connection", "now", "pending", "expected"),
    [
        (link(UNKNOWN), 400, WAITING, None),
        (link(OK, 0, 0), 400, WAITING, (YES, Reason.ROUND_TRIP_OK, "")),
        (link(REJECTED, 0, None, "no"), 400, None, (YES, Reason.ROUND_TRIP_OK, "the credential is rejected")),
        (
            link(REJECTED, 0),
            0,
            WAITING,
            (YES, Reason.ROUND_TRIP_OK, f"the credential is rejected; {WAITS}"),
        ),
        (link(AWAY, 100, None, "refused"), 109.9, None, None),
        (
            link(AWAY, 100, None, "refused"),
            110,
            None,
            (NO, Reason.CONTROL_PLANE_UNREACHABLE, "since 2026-01-01T00:01:40Z: refused"),
        ),
        (
            link(AWAY, 100, 90, "refused"),
            500,
            WAITING,
            (NO, Reason.CONTROL_PLANE_UNREACHABLE, f"since 2026-01-01T00:01:40Z: refused; {WAITS}"),
        ),
        (link(AWAY), 500, None, None),
    ],
)
def test_connected_says_what_the_last_polls_came_to(
    connection: ConnectionState, now: float, pending: PendingDeliveries | None, expected: Any
) -> None:
    found = wanted(connection, now, pending=pending).get(Type.CONNECTED)

    assert found == (None if expected is None else DesiredCondition(Type.CONNECTED, *expected))


LOST = (YES, Reason.NO_RECENT_ROUND_TRIP)
HERE = (NO, Reason.ROUND_TRIP_OK, "")
WAS_LOST = (told(Type.DISCONNECTED, YES),)
WAS_HERE = (told(Type.DISCONNECTED, NO),)
OTHER = (told(Type.CLOCK_SKEW, YES),)


@pytest.mark.parametrize(
    ("connection", "now", "previous", "expected"),
    [
        (link(AWAY, 100, 90), 389.9, (), HERE),
        (link(AWAY, 100, 90), 390, (), (*LOST, "no round trip since 2026-01-01T00:01:30Z")),
        (link(UNKNOWN, None, 90), 390, (), (*LOST, "no round trip since 2026-01-01T00:01:30Z")),
        (link(AWAY, 100), 349.9, (), HERE),
        (link(AWAY, 100), 350, (), (*LOST, "no round trip since the operator started")),
        (link(UNKNOWN), 349.9, (), HERE),
        (link(UNKNOWN), 350, (), (*LOST, "no round trip since the operator started")),
        # a poll that is held open, and a refusal, are signs of life
        (link(OK, 0, 0), 4000, WAS_LOST, HERE),
        (link(OK), 4000, WAS_LOST, HERE),
        (link(REJECTED, 0, 0), 4000, (), HERE),
        # nothing is known yet: what the former process said stays
        (link(UNKNOWN), 100, WAS_LOST, None),
        (link(AWAY, 90), 100, WAS_LOST, None),
        (link(REJECTED, 90), 100, WAS_LOST, None),
        (link(UNKNOWN), 100, WAS_HERE, HERE),
        (link(UNKNOWN), 100, OTHER, HERE),
        (link(AWAY, 90, 80), 100, WAS_LOST, HERE),
    ],
)
def test_disconnected_says_whether_there_was_a_round_trip_within_the_window(
    connection: ConnectionState, now: float, previous: tuple[Condition, ...], expected: Any
) -> None:
    found = wanted(connection, now, previous).get(Type.DISCONNECTED)

    assert found == (None if expected is None else DesiredCondition(Type.DISCONNECTED, *expected))


BAD = link(REJECTED, 100, None, "401")
SINCE = "since 2026-01-01T00:01:40Z: 401; "


@pytest.mark.parametrize(
    ("connection", "fields", "expected"),
    [
        (link(UNKNOWN), {}, None),
        (link(AWAY, 0), {}, None),
        (link(REJECTED), {}, None),
        (link(OK, 0, 0), {}, (YES, Reason.CREDENTIAL_ACCEPTED, "")),
        (
            link(OK, 0, 0),
            {"credential_expires": at(60).wall},
            (YES, Reason.CREDENTIAL_ACCEPTED, "the credential expires at 2026-01-01T00:01:00Z"),
        ),
        (BAD, {}, (NO, Reason.CREDENTIAL_REJECTED, SINCE + CURE.format("the token file"))),
        (BAD, {"credentials_secret": "s"}, (NO, Reason.CREDENTIAL_REJECTED, SINCE + CURE.format("the Secret s"))),
        (
            BAD,
            {"credential_expires": at(401).wall},
            (NO, Reason.CREDENTIAL_REJECTED, SINCE + CURE.format("the token file")),
        ),
        (
            BAD,
            {"credential_expires": at(400).wall},
            (NO, Reason.CREDENTIAL_EXPIRED, SINCE + CURE.format("the token file")),
        ),
    ],
)
def test_authenticated_says_since_when_and_what_helps_PULL_7(
    connection: ConnectionState, fields: dict[str, Any], expected: Any
) -> None:
    found = wanted(connection, **fields).get(Type.AUTHENTICATED)

    assert found == (None if expected is None else DesiredCondition(Type.AUTHENTICATED, *expected))


@pytest.mark.parametrize(
    ("apart", "connection", "previous", "expected"),
    [
        ("an hour", link(UNKNOWN), (), (YES, Reason.CLOCKS_DIFFER, "an hour")),
        ("an hour", link(OK, 0, 0), OTHER, (YES, Reason.CLOCKS_DIFFER, "an hour")),
        ("", link(OK, 0, 0), OTHER, (NO, Reason.CLOCKS_AGREE, "")),
        ("", link(OK, 0, 0), (told(Type.CLOCK_SKEW, NO),), (NO, Reason.CLOCKS_AGREE, "")),
        ("", link(OK, 0, 0), WAS_LOST, None),
        ("", link(UNKNOWN), OTHER, None),
    ],
)
def test_clocks_are_a_condition_once_they_differed_PULL_12(
    apart: str, connection: ConnectionState, previous: tuple[Condition, ...], expected: Any
) -> None:
    found = wanted(connection, previous=previous, apart=apart).get(Type.CLOCK_SKEW)

    assert found == (None if expected is None else DesiredCondition(Type.CLOCK_SKEW, *expected))


@pytest.mark.parametrize(
    ("unrecorded", "previous", "expected"),
    [
        ("exceeded quota", (), (YES, Reason.RECORDS_NOT_STORED, "exceeded quota")),
        ("", (told(Type.JOBS_BLOCKED, YES),), (NO, Reason.RECORDS_STORED, "")),
        ("", OTHER, None),
    ],
)
def test_jobs_that_cannot_be_recorded_are_a_condition_PULL_4(
    unrecorded: str, previous: tuple[Condition, ...], expected: Any
) -> None:
    found = wanted(link(OK, 0, 0), previous=previous, unrecorded=unrecorded).get(Type.JOBS_BLOCKED)

    assert found == (None if expected is None else DesiredCondition(Type.JOBS_BLOCKED, *expected))


def test_the_order_of_the_conditions_and_those_of_an_operator_without_agent_SEE_4() -> None:
    everything = wanted(link(OK, 0, 0), apart="an hour", unrecorded="a quota", weak_settings=WeakSettings(("x",)))
    alone = wanted(None, weak_settings=WeakSettings(("x",)))

    assert list(everything) == [
        Type.CONNECTED,
        Type.DISCONNECTED,
        Type.AUTHENTICATED,
        Type.CONTROLLERS_HEALTHY,
        Type.BUFFER_OVERFLOW,
        Type.CLOCK_SKEW,
        Type.JOBS_BLOCKED,
        Type.HARDENED,
    ]
    assert list(alone) == [Type.CONNECTED, Type.DISCONNECTED, Type.CONTROLLERS_HEALTHY, Type.HARDENED]
    assert alone[Type.HARDENED] == everything[Type.HARDENED] == hardened_condition(WeakSettings(("x",)))
    why = "the operator runs with --no-agent: it reconciles what is applied here, and takes no jobs"
    assert alone[Type.CONNECTED] == DesiredCondition(Type.CONNECTED, NO, Reason.NO_AGENT, why)
    assert alone[Type.DISCONNECTED] == DesiredCondition(Type.DISCONNECTED, NO, Reason.NO_AGENT)


@pytest.mark.parametrize(
    ("pending", "text"),
    [
        (PendingDeliveries(), ""),
        (PendingDeliveries(1, 2, 3, 4), "waiting: acks and results 1, statuses 2, events 3; dropped: events 4"),
        (PendingDeliveries(statuses=1), "waiting: statuses 1"),
        (PendingDeliveries(dropped=1), "dropped: events 1"),
    ],
)
def test_what_waits_is_told_by_kind_and_only_if_it_waits(pending: PendingDeliveries, text: str) -> None:
    assert str(pending) == text
