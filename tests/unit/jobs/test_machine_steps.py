"""What the machine of all jobs does with one event, exactly (PULL-4, PULL-7, PULL-12)."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.backoff import LogLevel, LogNote, Retry, Tick
from tests.support.builders import NAMESPACE
from tests.support.jobs import instance
from tests.support.jobs import job as wire_job
from tests.unit.jobs.test_exact_steps import (
    APPLIED,
    GATED,
    KEY,
    NOW,
    REF,
    SCOPE,
    apply_job,
    delete_job,
    live,
    rotate_job,
    run_job,
)
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.machine import AgentState, clock_skew_message, has_open_job, job_lag, next_deadline, step
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.plan import EffectIntent, Inspection
from vworkspace_core.jobs.result import SUCCEEDED, JobOutcome, JobResult
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import JobStage, JobState, accept

S = JobStage
OTHER = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, "other")
NOOP = JobResult(JobOutcome.NOOP)


def named(job: JobState, job_id: str, arrival: int = 0, **fields: Any) -> JobState:
    return attrs.evolve(job, id=job_id, arrival=arrival, **fields)


def elsewhere(stage: JobStage, **fields: Any) -> JobState:
    """A job on another object."""
    raw = wire_job(payload=instance("other"), key=f"ApplicationInstance/{NAMESPACE}/other@1")
    job = accept(raw, 0, SCOPE)
    assert isinstance(job, JobState)
    return attrs.evolve(job, stage=stage, **fields)


def state(*jobs: JobState, **fields: Any) -> AgentState:
    return AgentState(SCOPE, jobs={job.id: job for job in jobs}, arrivals=9, **fields)


@pytest.mark.parametrize(
    ("ahead", "apart", "after", "notes"),
    [
        (timedelta(minutes=10), 0, (timedelta(minutes=10), 0), []),
        (-timedelta(minutes=10), 0, (-timedelta(minutes=10), 0), []),
        (timedelta(minutes=1), 11, (timedelta(minutes=1), 0), [LogLevel.INFO]),
        (timedelta(minutes=11), 0, (timedelta(0), 11), [LogLevel.ERROR]),
        (-timedelta(minutes=11), 0, (timedelta(0), -11), [LogLevel.ERROR]),
        (timedelta(minutes=12), 11, (timedelta(0), 12), []),
    ],
)
def test_a_clock_is_believed_up_to_ten_minutes_and_a_change_is_told_once_PULL_12(
    ahead: timedelta, apart: int, after: tuple[timedelta, int], notes: list[LogLevel]
) -> None:
    before = state(apart=timedelta(minutes=apart), skew=timedelta(seconds=5))

    found, effects = step(before, m.ServerTime(NOW + ahead), NOW)

    assert (found.skew, found.apart) == (after[0], timedelta(minutes=after[1]))
    told = {
        LogLevel.INFO: "this machine's clock and the control plane's agree again",
        LogLevel.ERROR: clock_skew_message(ahead),
    }
    assert effects == tuple(LogNote(level, told[level]) for level in notes)


def test_the_message_about_clocks_says_which_is_ahead_in_whole_minutes() -> None:
    long = timedelta(minutes=11, seconds=59)

    assert clock_skew_message(long).startswith("the control plane's clock is 11 minutes ahead of this machine's, by")
    assert clock_skew_message(-long).startswith("the control plane's clock is 11 minutes behind this machine's, by")


def test_new_rules_of_security_are_for_jobs_to_come_PULL_9() -> None:
    job = apply_job(S.WAITING)
    rules = Security(require_signed=True)

    found, effects = step(state(job), m.SecurityChanged(rules), NOW)

    assert (found.scope, effects) == (attrs.evolve(SCOPE, security=rules), ())
    assert dict(found.jobs) == {"job-1": job}


def test_an_offered_job_is_recorded_under_its_number_of_arrival() -> None:
    raw = wire_job()

    found, effects = step(state(), m.Offered(raw), NOW)

    assert effects == (m.PutRecord("job-1", JobRecord("job-1", raw, {})),)
    assert (found.arrivals, found.jobs["job-1"].arrival) == (10, 9)


@pytest.mark.parametrize("stage", list(S))
def test_a_job_that_is_offered_again_is_acked_again_unless_its_ack_is_on_the_way_PULL_4(stage: JobStage) -> None:
    before = state(apply_job(stage))

    found, effects = step(before, m.Offered(wire_job()), NOW)

    assert (m.SendAck("job-1") in effects) is (stage not in (S.RECORDING, S.ACKING, S.CLOSING))
    assert found.arrivals == before.arrivals


def test_a_resumed_job_is_acked_once() -> None:
    record = JobRecord("job-1", wire_job(), {})

    found, effects = step(state(), m.Resumed(record), NOW)

    assert (effects, found.arrivals) == ((m.SendAck("job-1"),), 10)
    assert [(job.id, job.stage, job.arrival) for job in found.jobs.values()] == [("job-1", S.ACKING, 9)]
    assert step(found, m.Resumed(record), NOW) == (found, ())


def bad(*raws: Any) -> tuple[AgentState, list[str]]:
    """The state and the notes after these jobs were offered."""
    found, notes = state(), []
    for raw in raws:
        found, effects = step(found, m.Offered(raw), NOW)
        notes += [effect.message for effect in effects if isinstance(effect, LogNote)]
    return found, notes


def test_each_job_without_an_id_is_told_once_though_others_come_between() -> None:
    found, notes = bad({"a": 1}, {"a": 2}, {"a": 1}, {"a": 2})

    assert (len(notes), len(found.dropped), dict(found.jobs)) == (2, 2, {})


def test_jobs_that_cannot_be_encoded_are_told_apart_by_what_is_wrong_with_them() -> None:
    _, notes = bad({"id": "\ud800"}, "\ud800", {"id": "\ud800"}, "\ud800")

    assert len(notes) == 2


def test_the_memory_of_jobs_without_an_id_starts_anew_when_it_is_full() -> None:
    found, _ = bad(*({"number": number} for number in range(1000)))
    assert len(found.dropped) == 1000

    found, effects = step(found, m.Offered({"number": "next"}), NOW)
    assert (len(found.dropped), len(effects)) == (1, 1)


def test_an_answer_for_a_job_that_is_not_open_changes_nothing() -> None:
    before = state(apply_job(S.ANSWERING))

    for event in (
        m.RecordClosed("gone"),
        m.Recorded("gone"),
        m.Inspected("gone", Inspection()),
        m.RecordClosed("job-1"),
    ):
        assert step(before, event, NOW) == (before, ())


def test_a_change_of_an_object_is_for_the_jobs_on_it() -> None:
    job, other = apply_job(S.ACTING), named(elsewhere(S.ACTING), "job-2")

    found, effects = step(state(job, other), m.ObjectChanged(REF, live()), NOW)

    assert (found.jobs["job-1"].latest, found.jobs["job-2"], effects) == (live(), other, ())


STONE = Tombstone(KEY, "succeeded", "u1", 1)


def test_a_closed_job_is_remembered_by_those_that_may_have_looked_too_early_PULL_4() -> None:
    closing = apply_job(S.CLOSING, result=SUCCEEDED, had_effect=True, applied=APPLIED)
    earlier = Tombstone("before", "noop", "", 0)
    looking = named(apply_job(S.INSPECTING, missed_tombstones=(earlier,)), "job-2")
    acting = named(elsewhere(S.ACTING), "job-3")

    found, effects = step(state(closing, looking, acting), m.RecordClosed("job-1"), NOW)

    assert sorted(found.jobs) == ["job-2", "job-3"]
    assert found.jobs["job-2"] == attrs.evolve(looking, missed_tombstones=(earlier, STONE))
    assert (found.jobs["job-3"], effects) == (acting, ())
    nothing = attrs.evolve(closing, result=None, had_effect=False)
    assert step(state(nothing, looking), m.RecordClosed("job-1"), NOW)[0].jobs["job-2"] == looking


@pytest.mark.parametrize("had", ["stored", "missed", "open", "other key"])
def test_a_job_whose_key_had_its_effect_is_a_noop_wherever_that_is_known_PULL_4(had: str) -> None:
    missed = (attrs.evolve(STONE, idempotency_key="other") if had == "other key" else STONE,)
    job = apply_job(S.INSPECTING, missed_tombstones=missed if had in ("missed", "other key") else ())
    twin = named(apply_job(S.WAITING, had_effect=True, applied=APPLIED), "job-2")
    seen = Inspection(live("older"), GATED, STONE if had == "stored" else None)

    found, _ = step(state(job, *([twin] if had == "open" else [])), m.Inspected("job-1", seen), NOW)

    assert found.jobs["job-1"].result == (None if had == "other key" else NOOP)


def key(generation: int) -> str:
    return f"ApplicationInstance/{NAMESPACE}/nextcloud-myteam@{generation}"


@pytest.mark.parametrize(
    ("stored", "missed", "opened", "newest"),
    [(0, 0, 0, 0), (4, 3, 2, 4), (3, 4, 2, 4), (2, 3, 4, 4), (0, 0, 4, 4), (1, 0, 0, 0)],
)
def test_the_highest_generation_of_the_object_counts_wherever_it_is_known_REC_6(
    stored: int, missed: int, opened: int, newest: int
) -> None:
    """Tombstones of other objects say nothing about this one."""
    foreign = Tombstone(f"ApplicationInstance/{NAMESPACE}/other@9", "succeeded", "", 9)
    left = (foreign, *([Tombstone(key(missed), "succeeded", "", missed)] if missed else []))
    job = apply_job(S.INSPECTING, missed_tombstones=left)
    former = named(delete_job(S.CLOSING, result=SUCCEEDED, key=key(opened)), "job-2")
    seen = Inspection(None, GATED, None, Tombstone(key(stored), "succeeded", "", stored) if stored else None)

    found, _ = step(state(job, *([former] if opened else [])), m.Inspected("job-1", seen), NOW)

    result = found.jobs["job-1"].result
    if newest <= 1:
        assert result is None
    else:
        assert result is not None
        assert result.error.startswith(f"Superseded: generation {newest} is newer than 1;")


@pytest.mark.parametrize(
    ("generations", "arrivals", "is_replaced"),
    [((1, 2), (5, 4), True), ((2, 1), (4, 5), False), ((None, None), (4, 5), True), ((None, 2), (5, 4), False)],
)
def test_of_two_jobs_the_generation_tells_the_newer_one_or_else_the_arrival(
    generations: tuple[int | None, int | None], arrivals: tuple[int, int], is_replaced: bool
) -> None:
    keys = ["hash-1" if number is None else key(number) for number in generations]
    keys[1] = "hash-2" if keys[1] == "hash-1" else keys[1]
    waiting = named(apply_job(S.WAITING, had_effect=True, applied=APPLIED, key=keys[0]), "job-1", arrivals[0])
    acting = named(apply_job(S.ACTING, key=keys[1]), "job-2", arrivals[1])

    found, effects = step(state(waiting, acting), m.Applied("job-2", live()), NOW)

    assert (found.jobs["job-1"].stage is S.ANSWERING) is is_replaced
    assert [effect.job_id for effect in effects if isinstance(effect, m.PostResult)] == ["job-1"] * is_replaced


@pytest.mark.parametrize("stage", list(S))
def test_a_newer_effect_ends_older_jobs_that_only_wait(stage: JobStage) -> None:
    older = named(apply_job(stage, key=key(1), retry=Retry(1, NOW)), "job-1")
    acting = named(apply_job(S.ACTING, key=key(2)), "job-2", 1)

    found, _ = step(state(older, acting), m.Applied("job-2", live()), NOW)

    result = found.jobs["job-1"].result
    ends = stage in (S.READY, S.WAITING_DELETED, S.WAITING)
    assert (result is not None and result.error.startswith("Superseded: generation 2 for")) is ends


def test_a_delete_under_way_is_not_superseded_and_one_that_only_waits_is() -> None:
    acting = named(apply_job(S.ACTING, key=key(2)), "job-2", 1)
    waiting = delete_job(S.READY)
    under_way = attrs.evolve(waiting, intent=EffectIntent("u1"))

    for job, ends in ((waiting, True), (under_way, False)):
        found, _ = step(state(job, acting), m.Applied("job-2", live()), NOW)
        assert (found.jobs["job-1"].result is not None) is ends


def test_a_job_on_another_object_and_one_with_the_same_key_are_left_alone() -> None:
    acting = named(apply_job(S.ACTING, key=key(2)), "job-2", 1)
    twin, other = named(apply_job(S.WAITING, key=key(2)), "twin"), named(elsewhere(S.WAITING), "other")

    found, _ = step(state(twin, other, acting), m.Applied("job-2", live()), NOW)

    assert (found.jobs["twin"], found.jobs["other"]) == (twin, other)


def slots(*jobs: JobState) -> list[str]:
    """The jobs that get the work slot of their object."""
    _, effects = step(state(*jobs), Tick(), NOW)
    return [effect.job_id for effect in effects if isinstance(effect, m.Inspect)]


B = [S.RECORDING_INTENT, S.ACTING, S.RECORDING_EFFECT]


@pytest.mark.parametrize("stage", [stage for stage in S if stage not in (S.READY, S.INSPECTING)])
def test_only_a_job_at_work_keeps_another_from_the_slot_of_its_object_REC_6(stage: JobStage) -> None:
    first = apply_job(stage, key=key(1))
    second = named(apply_job(S.READY, key=key(2)), "job-2", 1)

    assert slots(first, second) == ([] if stage in B else ["job-2"])


def test_one_job_of_an_object_and_one_of_a_key_get_a_slot() -> None:
    one, two = (named(apply_job(S.READY, key=key(number)), f"job-{number}", number) for number in (1, 2))
    same_key = named(elsewhere(S.READY, key=key(1)), "job-3", 3)
    free = named(elsewhere(S.READY), "job-4", 4)

    assert slots(one, two) == ["job-1"]
    assert slots(one, same_key) == ["job-1"]
    assert slots(one, free) == ["job-1", "job-4"]


def test_a_job_that_had_the_slot_before_a_crash_goes_first_PULL_4() -> None:
    begun = named(apply_job(S.ACKING, key=key(1), intent=EffectIntent("u1")), "begun")
    other = named(apply_job(S.READY, key=key(2)), "other", 1)

    assert slots(begun, other) == [], "its ack is still on the way"
    assert slots(attrs.evolve(begun, stage=S.READY), other) == ["begun"]
    assert slots(attrs.evolve(begun, had_effect=True), other) == ["other"]
    assert slots(attrs.evolve(begun, intent=None), other) == ["other"]
    both = named(apply_job(S.READY, key=key(3), intent=EffectIntent("u1")), "both", 2)
    assert slots(attrs.evolve(begun, stage=S.READY), both) == ["begun"]


@pytest.mark.parametrize("stage", list(S))
def test_an_operation_waits_for_an_edit_of_its_application_that_was_asked_for_earlier(stage: JobStage) -> None:
    edit = named(apply_job(stage, retry=Retry(1)), "edit", 1)
    later, earlier = (named(run_job(S.READY), "run", arrival) for arrival in (2, 0))
    waits = stage in (S.RECORDING, S.ACKING, S.READY, S.WAITING_DELETED, S.INSPECTING, *B)

    assert ("run" in slots(edit, later)) is not waits
    assert "run" in slots(edit, earlier)
    assert "run" in slots(attrs.evolve(edit, had_effect=True), later)


def test_an_edit_waits_for_an_operation_on_its_application_that_was_asked_for_earlier() -> None:
    edit, run = named(apply_job(S.READY), "edit", 2), named(run_job(S.RECORDING), "run", 1)

    assert slots(run, edit) == []
    assert slots(attrs.evolve(run, arrival=3), edit) == ["edit"]
    assert slots(run, attrs.evolve(edit, intent=EffectIntent("u1"))) == ["edit"], "it had begun"


def test_a_rotation_waits_for_nobody_but_another_rotation() -> None:
    rotation, edit = named(rotate_job(S.READY), "rotation", 5), named(apply_job(S.ACTING), "edit", 1)

    assert slots(edit, rotation) == ["rotation"]
    assert slots(named(rotate_job(S.ACTING, key="other"), "first"), rotation) == []


def test_the_next_tick_is_at_the_earliest_time_of_a_job() -> None:
    early, late = (NOW + timedelta(minutes=number) for number in (1, 2))
    jobs = [named(apply_job(S.WAITING, recheck_at=when), str(when)) for when in (late, early)]

    assert next_deadline(state(apply_job(S.READY), *jobs)) == early
    assert next_deadline(state(apply_job(S.READY))) is None
    assert next_deadline(state()) is None


@pytest.mark.parametrize(("signed", "minutes"), [(False, 32), (True, 30)])
def test_where_signatures_are_required_a_clock_that_is_behind_delays_no_expiry_PULL_12(
    signed: bool, minutes: int
) -> None:
    scope = JobScope("c", security=Security(require_signed=signed))
    waiting = AgentState(scope, jobs={"job-1": apply_job(S.WAITING_DELETED)}, skew=-timedelta(minutes=2))

    assert next_deadline(waiting) == NOW + timedelta(minutes=minutes)


@pytest.mark.parametrize("stage", list(S))
def test_an_object_has_an_open_job_until_its_result_is_final_PULL_6(stage: JobStage) -> None:
    found = state(apply_job(stage))

    assert has_open_job(found, REF) is (stage not in (S.ANSWERING, S.CLOSING))
    assert not has_open_job(found, OTHER)


def test_the_lag_is_the_age_of_the_oldest_job_without_a_result() -> None:
    jobs = [
        named(apply_job(S.WAITING, raw={"createdAt": made}), made)
        for made in ("2026-01-01T00:20:00Z", "2026-01-01T00:10:00Z", "soon")
    ]
    ended = named(apply_job(S.ANSWERING, raw={"createdAt": "2026-01-01T00:00:00Z"}), "ended")

    assert job_lag(state(*jobs, ended), NOW) == 20 * 60.0
    assert job_lag(state(*jobs, skew=timedelta(seconds=30)), NOW) == 20 * 60 + 30.0
    assert job_lag(state(*jobs), NOW - timedelta(hours=1)) == 0.0
    assert job_lag(state(jobs[2], ended), NOW) == 0.0
