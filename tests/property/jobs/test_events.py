"""Events on their way out: keys, transitions, the bounded buffer (PULL-5, PULL-6)."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.conditions import DesiredCondition, merge_conditions
from purekube.apimachinery.meta import Condition, ConditionStatus, condition_json
from tests.support.builders import condition
from tests.support.jobs import instance, operation, with_status
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.control_plane.outbox import BATCH, Outbox
from vworkspace_core.jobs.events import (
    condition_events,
    credential_rotated,
    event_key,
    heartbeat,
    phase_events,
    reported_conditions,
    transitions,
)
from vworkspace_fake.controlplane.bodies import check_event

NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
READY = condition("Ready", "True", "HelmReleaseReady")
FAILED = condition("Ready", "False", "HelmReleaseFailed", message="password=hunter2")
LIVE = instance(uid="u1", generation=1)


def event(number: int, kind: str = "ConditionTransition") -> dict[str, Any]:
    return {"kind": kind, "eventKey": str(number), "timestamp": "2026-01-01T00:00:00Z"}


def test_the_key_of_PULL_6() -> None:
    assert event_key(with_status(LIVE, READY), READY) == (
        "condition/apps.vworkspace.io/v1alpha1/ApplicationInstance/org-myteam/nextcloud-myteam/u1"
        "/Ready/True/HelmReleaseReady@1/2026-01-01T00:00:00Z"
    )


def test_a_transition_is_told_whole_and_redacted() -> None:
    before = reported_conditions(with_status(LIVE, READY))

    (told,) = condition_events(before, with_status(LIVE, FAILED), NOW)

    assert told["kind"] == "ConditionTransition"
    assert told["resourceRef"] == {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "namespace": "org-myteam",
        "name": "nextcloud-myteam",
        "uid": "u1",
    }
    assert told["conditions"] == [{**FAILED, "message": "password=***"}]
    assert told["previous"] == {"status": "True", "reason": "HelmReleaseReady"}
    assert told["timestamp"] == "2026-01-01T00:05:00Z"


def test_a_change_of_status_or_reason_is_a_transition_and_nothing_else_is() -> None:
    later = {**READY, "message": "other", "lastTransitionTime": "2026-02-01T00:00:00Z", "observedGeneration": 9}
    renamed = {**READY, "reason": "Placeholder"}

    assert transitions({"conditions": [READY]}, {"conditions": [later]}) == ()
    assert transitions({"conditions": [READY]}, {"conditions": [renamed]}) == (renamed,)
    assert transitions({"conditions": [READY]}, {"conditions": [FAILED]}) == (FAILED,)
    assert transitions({"conditions": [READY]}, {"conditions": []}) == ()
    assert transitions(None, {"conditions": [READY]}) == (READY,)


def test_at_first_sight_only_what_is_recent_is_told() -> None:
    live = with_status(LIVE, READY)

    assert len(condition_events(None, live, NOW)) == 1
    assert condition_events(None, live, NOW + timedelta(hours=1)) == ()


def test_the_same_happening_has_the_same_key_whenever_it_is_told() -> None:
    live = with_status(LIVE, READY)

    first, again = (condition_events(None, live, NOW + timedelta(minutes=shift)) for shift in (0, 4))

    assert [told["eventKey"] for told in first] == [told["eventKey"] for told in again]


def test_a_flap_has_another_key() -> None:
    again = {**READY, "lastTransitionTime": "2026-01-01T00:04:00Z"}

    assert event_key(LIVE, READY) != event_key(LIVE, again)


def test_a_reason_that_comes_back_has_a_key_of_its_own_PULL_6() -> None:
    """What a control plane hears last is what stands, whatever flaps, and however often it is told again."""
    desired = [
        DesiredCondition("Ready", ConditionStatus.FALSE, reason) for reason in ("ChartUnreachable", "WaitingForSecret")
    ]
    condition_now: tuple[Condition, ...] = ()
    before, kept, last = reported_conditions(LIVE), {}, ""
    for number in range(8):
        at = NOW + timedelta(seconds=number // 3)  # some of them within a second
        said = merge_conditions(
            condition_now, [desired[number % 2]], generation=1, now=at.strftime("%Y-%m-%dT%H:%M:%SZ")
        )
        condition_now = said
        live = with_status(LIVE, *(condition_json(merge_condition) for merge_condition in said))
        (told,) = condition_events(before, live, at)
        (again,) = condition_events({}, live, at + timedelta(hours=1))
        assert told["eventKey"] == again["eventKey"], "a process that starts later tells it under the same key"
        assert told["eventKey"] not in kept
        kept[told["eventKey"]] = told["conditions"][0]["reason"]
        before, last = reported_conditions(live), told["conditions"][0]["reason"]

    assert list(kept.values())[-1] == last == said[0].reason
    assert {merge_condition.last_transition_time for merge_condition in said} == {"2026-01-01T00:05:00Z"}, (
        "it moves with the status alone"
    )


def test_also_where_the_writer_does_not_tell_when_the_reason_changed() -> None:
    states = [with_status(LIVE, {**FAILED, "reason": reason}) for reason in ("A", "B", "A", "B")]
    keys, before = [], reported_conditions(states[0])
    for number, live in enumerate(states[1:]):
        keys += [
            condition_event["eventKey"]
            for condition_event in condition_events(before, live, NOW + timedelta(seconds=number))
        ]
        before = reported_conditions(live)

    assert len(keys) == len(set(keys)) == 3


def test_a_heartbeat_replaces_the_one_before_it() -> None:
    beats = [heartbeat("c1", None, NOW + timedelta(minutes=minute)) for minute in range(3)]
    outbox = Outbox().put([event(1)])

    for beat in beats:
        outbox = outbox.put([beat])

    assert outbox.batch() == (event(1), beats[-1])
    assert len({beat["eventKey"] for beat in beats}) == 3


def test_a_heartbeat_is_about_the_Cluster_and_tells_its_conditions_PULL_6() -> None:
    connected = condition("Connected", "True", "RoundTripOK", message="token=abc")
    cluster = with_status({**CLUSTER.manifest("prod-1"), "metadata": {"name": "prod-1", "uid": "u7"}}, connected)

    known, unknown = heartbeat("Prod_1", cluster, NOW), heartbeat("Prod_1", None, NOW)

    about = {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Cluster", "namespace": "", "name": "prod-1"}
    assert known["resourceRef"] == {**about, "uid": "u7"}
    assert known["conditions"] == [{**connected, "message": "token=***"}]
    assert unknown["resourceRef"] == {**about, "uid": ""}, "under the name that the operator would give it"
    assert unknown["conditions"] == []


def test_every_event_is_one_that_existing_control_planes_can_read_PULL_6() -> None:
    operations = with_status(
        operation(), condition("Succeeded", "True", "Done"), phase="Succeeded", finishedAt="2026-01-01T00:05:00Z"
    )
    told = (
        *condition_events({}, with_status(LIVE, READY), NOW),
        *phase_events("Running", operations, NOW),
        heartbeat("c1", None, NOW),
        credential_rotated("c1", None, "expiry", NOW),
    )

    assert [check_event(found) for found in told] == [[]] * 4
    assert all(set(found["resourceRef"]) == {"apiVersion", "kind", "namespace", "name", "uid"} for found in told)


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 200))
def test_the_buffer_is_bounded_drops_the_oldest_first_and_counts(sizes: list[int], capacity: int) -> None:
    outbox, number = Outbox(capacity=capacity), 0
    for size in sizes:
        outbox = outbox.put([event(number + at) for at in range(size)])
        number += size

    kept = [int(found["eventKey"]) for found in outbox.events]
    assert kept == list(range(max(0, number - capacity), number))
    assert outbox.dropped == max(0, number - capacity)
    condition = outbox.condition()
    assert (condition.status == "True") == (number > capacity)
    assert str(number - capacity) in condition.message or number <= capacity


@given(st.integers(1, 350), st.sets(st.integers(0, 349), max_size=5))
@example(110, {16, 27})
def test_a_batch_with_bad_events_is_split_until_only_they_are_dropped(count: int, bad: set[int]) -> None:
    outbox = Outbox().put([event(at) for at in range(count)])
    accepted: list[int] = []
    dropped: list[int] = []
    requests = 0
    while batch := outbox.batch():
        assert len(batch) <= BATCH
        requests += 1
        numbers = [int(found["eventKey"]) for found in batch]
        if bad & set(numbers):
            outbox, found = outbox.refused(batch)
            dropped += [int(found["eventKey"])] if found else []
        else:
            accepted += numbers
            outbox = outbox.sent(batch)

    assert accepted == [at for at in range(count) if at not in bad]
    assert dropped == sorted(bad & set(range(count)))
    assert requests <= 4 + 9 * len(bad), "the search halves"


def test_what_overflows_while_a_batch_is_under_way_is_not_sent_twice() -> None:
    outbox = Outbox(capacity=3).put([event(at) for at in range(3)])
    batch = outbox.batch()

    outbox = outbox.put([event(3)]).sent(batch)

    assert [found["eventKey"] for found in outbox.events] == ["3"]
    assert outbox.dropped == 1
    drained = outbox.sent(outbox.batch())
    assert drained.owes_snapshot, "what was dropped is not forgotten before something makes up for it"
    assert drained.with_snapshot(()).dropped == 0


@given(st.lists(st.integers(0, 250), min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 8))
def test_a_snapshot_in_parts_is_one_snapshot_PULL_5(parts: list[int], waiting: int, lost: int) -> None:
    """All of it in order, then what waited; what was dropped is made up for when all is sent, and not before."""
    outbox = Outbox(capacity=max(1, waiting)).put([event(-1 - at) for at in range(waiting + lost)])
    numbers = iter(range(sum(parts)))
    each = [[event(next(numbers)) for _ in range(part)] for part in parts]
    outbox = outbox.with_snapshot((), goes_on=True)
    sent: list[int] = []
    while each or (outbox.ahead or outbox.events):
        assert not outbox.owes_snapshot
        if each and len(outbox.ahead) < BATCH:
            part = each.pop(0)
            outbox = outbox.continued(part, goes_on=bool(each))
            continue
        batch = outbox.batch()
        sent += [int(one["eventKey"]) for one in batch]
        outbox = outbox.sent(batch)

    assert sent[: sum(parts)] == list(range(sum(parts)))
    assert len(sent) == sum(parts) + len(Outbox(capacity=max(1, waiting)).put([event(0)] * (waiting + lost)))
    assert (outbox.dropped, outbox.made_up, outbox.goes_on) == (0, 0, False)


def test_a_snapshot_goes_before_the_events_and_pays_for_what_was_dropped_PULL_5() -> None:
    outbox = Outbox(capacity=3).put([event(at) for at in range(5)]).with_snapshot([event(at) for at in (8, 9)])

    assert not outbox.owes_snapshot
    assert [found["eventKey"] for found in outbox.batch()] == ["8", "9"]
    ahead = outbox.sent(outbox.batch())
    assert ahead.condition().status == "True", "events still wait"
    assert [found["eventKey"] for found in ahead.batch()] == ["2", "3", "4"]
    assert ahead.sent(ahead.batch()).condition().reason == "BufferDrained"
    again = ahead.put([event(at) for at in range(10, 13)])
    assert again.owes_snapshot, "what is dropped after the snapshot asks for another"
