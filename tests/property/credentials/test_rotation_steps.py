"""Each step of an issue or a rotation with its exact state and effects (PULL-7, PULL-8)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.controller.backoff import LogLevel, LogNote, Retry, Tick
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.machine import (
    CredentialState,
    RotationStage,
    next_deadline,
    renewal_of,
    start,
    step,
    unused_token,
)
from vworkspace_core.credentials.secret import StoredCredential

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SLOW = NOW + timedelta(minutes=5)
S = RotationStage
OLD = StoredCredential("old")
JOB = "job/1"
INTENT = attrs.evolve(OLD, requested=JOB)
BOOTSTRAP = r.BootstrapToken("once", "c")


def state(stage: RotationStage, stored: StoredCredential = OLD, **fields: Any) -> CredentialState:
    return CredentialState(stored, **{"in_use": stored.token, "stage": stage, "effect_number": 5, **fields})


def answered(before: CredentialState, answer: r.CredentialAnswer) -> tuple[CredentialState, Any]:
    return step(before, r.EffectAnswered(5, answer), NOW)


INTENDING = state(S.RECORDING_INTENT, writing=INTENT, requests=(JOB,))
REQUESTING = state(S.REQUESTING, INTENT, requests=(JOB,))
ISSUED_AT = StoredCredential("new", "old", NOW + timedelta(days=9), NOW, "", INTENT.with_served((JOB,)))
STORING = state(S.STORING, INTENT, writing=ISSUED_AT, requests=(JOB,))
PROVEN = attrs.evolve(ISSUED_AT, previous="")


def test_a_start_goes_on_where_the_secret_stands() -> None:
    assert start(OLD, NOW) == (CredentialState(OLD, "old", effect_number=1), ())
    asking = CredentialState(INTENT, "old", S.REQUESTING, (JOB,), effect_number=1)
    assert start(INTENT, NOW) == (asking, (r.RequestRotation(1),))
    verifying, effects = start(ISSUED_AT, NOW, jitter=0.5)
    assert (verifying.stage, verifying.in_use, verifying.jitter, effects) == (S.VERIFYING, "new", 0.5, ())
    assert start(StoredCredential(), NOW)[0].stage is S.IDLE
    assert start(StoredCredential(requested=JOB), NOW)[1] == ()


def test_a_request_is_recorded_in_the_secret_first() -> None:
    found, effects = step(state(S.IDLE), r.RotationRequested(JOB), NOW)

    assert found == attrs.evolve(INTENDING, effect_number=6)
    assert effects == (r.WriteSecret(6, "old", INTENT),)
    assert step(found, r.RotationRequested(JOB), NOW)[0].requests == (JOB,)
    assert step(found, r.RotationRequested("job/2"), NOW)[0].requests == (JOB, "job/2")


def test_then_a_token_is_asked_for_stored_used_and_the_old_one_removed() -> None:
    asking, effects = answered(INTENDING, r.SecretWritten())
    assert asking == attrs.evolve(REQUESTING, effect_number=6)
    assert effects == (r.RequestRotation(6),)

    storing, effects = answered(REQUESTING, r.Issued("new", NOW + timedelta(days=9)))
    assert storing == attrs.evolve(STORING, effect_number=6)
    assert effects == (r.WriteSecret(6, "old", ISSUED_AT),)

    verifying, effects = answered(STORING, r.SecretWritten())
    assert (verifying.stage, verifying.in_use, verifying.stored, verifying.writing) == (
        S.VERIFYING,
        "new",
        ISSUED_AT,
        None,
    )
    assert effects == (r.UseToken("new"),)

    removing, effects = step(attrs.evolve(verifying, effect_number=5), r.TokenAccepted("new"), NOW)
    assert (removing.stage, effects) == (S.REMOVING_OLD, (r.WriteSecret(6, "new", PROVEN),))

    done, effects = answered(attrs.evolve(removing, effect_number=5), r.SecretWritten())
    assert (done.stage, done.stored, done.requests) == (S.IDLE, PROVEN, ())
    assert effects == (r.RequestsServed((JOB,)),)


def test_the_requests_of_two_cluster_objects_are_each_served_once() -> None:
    """Each stands in its object until somebody edits that; a rotation for one is none for the other."""
    at, effects = step(start(OLD, NOW)[0], r.ClusterRequests(("cluster/a/1",)), NOW)
    at, first = rotated(at, effects)
    at, effects = step(at, r.ClusterRequests(("cluster/a/1", "cluster/b/1")), NOW)
    at, second = rotated(at, effects)

    assert (first, second) == (1, 1)
    assert (at.stage, at.in_use) == (S.IDLE, "old++")


def rotated(at: CredentialState, effects: tuple[Any, ...]) -> tuple[CredentialState, int]:
    """Answer every effect until there is none; return the state, and the number of rotations (at most 5)."""
    issued, left = 0, list(effects)
    while left and issued < 5:
        match left.pop(0):
            case r.WriteSecret(number):
                at, more = step(at, r.EffectAnswered(number, r.SecretWritten()), NOW)
            case r.RequestRotation(number):
                issued += 1
                at, more = step(at, r.EffectAnswered(number, r.Issued(f"{at.in_use}+")), NOW)
            case r.UseToken(token):
                at, more = step(at, r.TokenAccepted(token), NOW)
            case _:
                more = ()
        left += more
    return at, issued


@pytest.mark.parametrize(
    "answer",
    [r.SecretWritten(), r.WriteFailed("x"), r.Issued("x"), r.RequestUnanswered("x"), r.RequestRefused("x")],
)
def test_an_answer_that_nobody_waits_for_changes_nothing(answer: r.CredentialAnswer) -> None:
    for other in (4, 6):
        assert step(INTENDING, r.EffectAnswered(other, answer), NOW) == (INTENDING, ())
    idle = state(S.IDLE)
    assert answered(idle, answer) == (idle, ())


def test_a_secret_that_cannot_be_written_fails_the_requests_before_a_token_is_issued() -> None:
    failed, effects = answered(INTENDING, r.WriteFailed("read-only", refused=True))

    assert (failed.stage, failed.requests, failed.not_before) == (S.IDLE, (), SLOW)
    assert effects == (r.RequestsFailed((JOB,), "the new credential could not be kept: read-only"),)
    alone, effects = answered(attrs.evolve(INTENDING, requests=()), r.WriteFailed("read-only", refused=True))
    assert (alone.not_before, effects) == (SLOW, ())


@pytest.mark.parametrize(
    ("before", "refused", "level"),
    [
        (INTENDING, False, LogLevel.WARNING),
        (STORING, False, LogLevel.ERROR),
        (STORING, True, LogLevel.ERROR),
        (state(S.REMOVING_OLD, ISSUED_AT, writing=PROVEN), True, LogLevel.WARNING),
    ],
)
def test_a_failed_write_is_told_once_and_repeated(before: CredentialState, refused: bool, level: LogLevel) -> None:
    failed, effects = answered(before, r.WriteFailed("why", refused))

    told = f"the credentials Secret is not written ({before.stage}): why; tried again"
    assert failed == attrs.evolve(before, retry=Retry(1, NOW + timedelta(seconds=1)))
    assert effects == (LogNote(level, told),)
    twice, effects = answered(failed, r.WriteFailed("why", refused))
    assert (twice.retry, effects) == (Retry(2, NOW + timedelta(seconds=2)), ())
    again, effects = step(twice, Tick(), NOW + timedelta(seconds=2))
    assert (again.retry, effects) == (Retry(2), (r.WriteSecret(6, before.stored.token, before.writing or OLD),))
    assert step(twice, Tick(), NOW + timedelta(seconds=1)) == (twice, ())


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (r.RequestUnanswered("why"), 1.0),
        (r.RequestUnanswered("why", wait=90.0), 90.0),
        (r.RequestUnanswered("why", wait=0.1), 1.0),
        (r.RequestUnanswered("why", wait=1e9), 3600.0),
        (r.RequestUnanswered("why", rejected=True), 300.0),
    ],
)
def test_an_unanswered_request_is_repeated_when_the_server_says(answer: r.RequestUnanswered, seconds: float) -> None:
    for before in (REQUESTING, state(S.REGISTERING, StoredCredential(), bootstrap=BOOTSTRAP)):
        waiting, effects = answered(before, answer)
        assert waiting.retry == Retry(1, NOW + timedelta(seconds=seconds))
        assert effects[0] == LogNote(LogLevel.WARNING, "no new credential yet: why; tried again")
        again = step(waiting, Tick(), NOW + timedelta(seconds=seconds))[1]
        rotation = r.RequestRotation(waiting.effect_number + 1)
        registration = r.RequestRegistration(waiting.effect_number + 1, "once", "c")
        assert again == (rotation if before is REQUESTING else registration,)


def test_a_token_that_may_not_rotate_gives_way_to_the_other_one_or_to_a_registration_PULL_7() -> None:
    rejected = r.RequestUnanswered("why", rejected=True)
    note = LogNote(LogLevel.WARNING, "no new credential yet: why; tried again")
    both = attrs.evolve(INTENT, previous="older")
    before = state(S.REQUESTING, both, requests=(JOB,), bootstrap=BOOTSTRAP)

    using, effects = answered(before, rejected)
    assert (using.in_use, using.locked_out, using.stage) == ("older", False, S.REQUESTING)
    assert effects == (note, r.UseToken("older"))
    last, effects = answered(attrs.evolve(before, in_use="older"), rejected)
    assert (last.in_use, last.locked_out, last.stage) == ("old", True, S.REGISTERING)
    assert effects == (note, r.UseToken("old"), r.RequestRegistration(6, "once", "c"))
    alone, effects = answered(REQUESTING, rejected)
    assert (alone.in_use, alone.locked_out, alone.stage, effects) == ("old", True, S.REQUESTING, (note,))
    retried = attrs.evolve(before, retry=Retry(1))
    assert answered(retried, rejected)[1] == (r.UseToken("older"),), "it is logged once"


VERIFYING = state(S.VERIFYING, ISSUED_AT, in_use="old")


@pytest.mark.parametrize("not_before", [None, NOW])
@pytest.mark.parametrize(("requests", "intent"), [((), "repair/2026-06-01T00:00:00Z"), ((JOB,), JOB)])
def test_a_new_token_that_is_lost_is_asked_for_once_more_PULL_8(
    not_before: datetime | None, requests: tuple[str, ...], intent: str
) -> None:
    before = attrs.evolve(VERIFYING, not_before=not_before, requests=requests, locked_out=True)
    again, effects = step(before, r.TokenAccepted("old"), NOW)

    assert (again.stage, again.not_before, again.locked_out) == (S.RECORDING_INTENT, SLOW, False)
    assert again.requests == (intent,)
    assert effects == (r.WriteSecret(6, "new", attrs.evolve(ISSUED_AT, requested=intent)),)


def test_a_lost_token_is_not_asked_for_again_at_once_PULL_8() -> None:
    before = attrs.evolve(VERIFYING, not_before=NOW + timedelta(microseconds=1))

    assert step(before, r.TokenAccepted("old"), NOW) == (before, ())


@pytest.mark.parametrize("token", ["new", "older", ""])
def test_what_is_said_of_a_token_that_is_not_in_use_changes_nothing(token: str) -> None:
    before = attrs.evolve(VERIFYING, locked_out=True)

    assert step(before, r.TokenAccepted(token), NOW) == (before, ())
    assert step(before, r.TokenRejected(token), NOW) == (before, ())


def test_a_registration_forgets_the_write_that_it_takes_the_place_of() -> None:
    before = state(S.IDLE, attrs.evolve(OLD, previous="older"), in_use="older", writing=INTENT, locked_out=False)
    locked, effects = step(attrs.evolve(before, bootstrap=BOOTSTRAP, locked_out=True), Tick(), NOW)

    assert (locked.stage, locked.writing) == (S.REGISTERING, None)
    assert effects == (r.RequestRegistration(6, "once", "c"),)


@pytest.mark.parametrize("wish", [{"requests": ("job/2",)}, {"cluster_requests": ("job/2",)}])
def test_an_intent_of_before_gives_way_to_the_request_that_there_is(wish: dict[str, Any]) -> None:
    begun, effects = step(state(S.IDLE, INTENT, **wish), Tick(), NOW)

    assert (begun.stage, begun.requests) == (S.RECORDING_INTENT, ("job/2",))
    assert effects == (r.WriteSecret(6, "old", attrs.evolve(INTENT, requested="job/2")),)


def test_the_old_token_is_removed_without_the_waits_of_before() -> None:
    before = attrs.evolve(VERIFYING, in_use="new", retry=Retry(3, NOW + timedelta(hours=1)))
    removing, _ = step(before, r.TokenAccepted("new"), NOW)

    assert (removing.stage, removing.retry) == (S.REMOVING_OLD, Retry())


def test_a_refused_rotation_fails_its_requests_and_forgets_the_intent() -> None:
    failed, effects = answered(REQUESTING, r.RequestRefused("why"))

    assert (failed.stage, failed.requests, failed.not_before) == (S.REMOVING_OLD, (), SLOW)
    assert effects == (r.RequestsFailed((JOB,), "why"), r.WriteSecret(6, "old", OLD))


def test_a_refused_registration_is_repeated_slowly() -> None:
    before = state(S.REGISTERING, StoredCredential(), bootstrap=BOOTSTRAP)

    waiting, effects = answered(before, r.RequestRefused("why"))

    assert waiting == attrs.evolve(before, retry=Retry(1, SLOW))
    assert effects == (LogNote(LogLevel.WARNING, "the registration is refused: why; tried again"),)


def test_a_first_token_is_registered_and_nothing_is_kept_of_before() -> None:
    empty = state(S.IDLE, StoredCredential())
    asking, effects = step(empty, BOOTSTRAP, NOW)
    assert (asking.stage, effects) == (S.REGISTERING, (r.RequestRegistration(6, "once", "c"),))
    assert step(empty, r.BootstrapToken(), NOW)[1] == ()

    storing, effects = answered(attrs.evolve(asking, effect_number=5), r.Issued("new"))
    first = StoredCredential("new", "", None, NOW)
    assert (storing.stage, effects) == (S.STORING, (r.WriteSecret(6, "", first),))


def test_another_one_time_token_is_tried_at_once_and_none_ends_the_registration() -> None:
    asking = state(S.REGISTERING, StoredCredential(), bootstrap=BOOTSTRAP, retry=Retry(3, SLOW))

    assert step(asking, BOOTSTRAP, NOW) == (asking, ())
    other, effects = step(asking, r.BootstrapToken("other", "c"), NOW)
    assert (other.retry, effects) == (Retry(3), (r.RequestRegistration(6, "other", "c"),))
    ended, effects = step(asking, r.BootstrapToken(), NOW)
    assert (ended.stage, ended.retry, effects) == (S.IDLE, Retry(), ())


def test_a_token_that_a_person_put_there_ends_everything_under_way() -> None:
    theirs = StoredCredential("theirs")

    for before in (INTENDING, REQUESTING, STORING, state(S.IDLE)):
        found, effects = step(before, r.SecretRead(theirs), NOW)
        assert (found.in_use, found.stored, effects[0]) == ("theirs", theirs, r.UseToken("theirs"))
        begins = found.writing == attrs.evolve(theirs, requested=JOB)
        assert begins is bool(before.requests), "what was asked for is served by a rotation of that token"
    gone, effects = step(state(S.IDLE), r.SecretRead(StoredCredential()), NOW)
    assert (gone.in_use, gone.stage, effects) == ("", S.IDLE, ())


DAYS = timedelta(days=1)


@pytest.mark.parametrize(
    ("stored", "jitter", "due"),
    [
        (OLD, 0.0, None),
        (StoredCredential("", "", NOW), 0.0, None),
        (StoredCredential("a", "", NOW), 0.0, NOW - DAYS),
        (StoredCredential("a", "", NOW, NOW), 0.0, NOW + timedelta(minutes=5)),
        (StoredCredential("a", "", NOW + 100 * DAYS, NOW), 0.0, NOW + 75 * DAYS),
        (StoredCredential("a", "", NOW + 100 * DAYS, NOW), 0.5, NOW + 71 * DAYS),
    ],
)
def test_a_credential_is_renewed_in_the_last_third_of_its_life(
    stored: StoredCredential, jitter: float, due: datetime | None
) -> None:
    assert renewal_of(stored, jitter) == due
    if due is None:
        return
    idle = state(S.IDLE, stored, jitter=jitter)
    assert next_deadline(idle) == due
    assert step(idle, Tick(), due - timedelta(seconds=1)) == (idle, ())
    begun, _ = step(idle, Tick(), due)
    assert stored.expires_at is not None
    assert begun.requests == (f"expiry/{stored.expires_at.strftime('%Y-%m-%dT%H:%M:%SZ')}",)


def test_a_renewal_that_did_not_move_the_expiry_is_not_repeated_and_asks_for_no_tick() -> None:
    """A deadline that has passed, and that no Tick changes, would keep the process busy for ever."""
    short = StoredCredential("a", "", NOW + DAYS, NOW)
    fixed = attrs.evolve(short, token="b", served=short.with_served(["expiry/2026-06-02T00:00:00Z"]))
    idle = state(S.IDLE, fixed)

    assert step(idle, Tick(), NOW + DAYS) == (idle, ())
    assert next_deadline(idle) is None
    assert next_deadline(state(S.IDLE, attrs.evolve(fixed, expires_at=NOW + 2 * DAYS))) is not None


@pytest.mark.parametrize(
    ("found", "deadline"),
    [
        (state(S.IDLE), None),
        (state(S.IDLE, StoredCredential(), not_before=SLOW), None),
        (state(S.IDLE, not_before=SLOW), None),
        (state(S.IDLE, requests=(JOB,), not_before=SLOW), SLOW),
        (state(S.IDLE, cluster_requests=("cluster/1",), not_before=SLOW), SLOW),
        (state(S.IDLE, StoredCredential("a", "", NOW), not_before=SLOW), SLOW),
        (state(S.IDLE, StoredCredential("a", "", SLOW + 2 * DAYS), not_before=SLOW), SLOW + DAYS),
        (state(S.REQUESTING, retry=Retry(1, SLOW)), SLOW),
        (state(S.REQUESTING), None),
        (state(S.IDLE, retry=Retry(1, SLOW)), None),
    ],
)
def test_the_next_tick_is_at_the_retry_or_the_renewal(found: CredentialState, deadline: datetime | None) -> None:
    assert next_deadline(found) == deadline


def test_a_clock_that_was_set_back_delays_neither_a_retry_nor_a_rotation() -> None:
    hours_ago = NOW - timedelta(hours=2)
    waiting, _ = answered(REQUESTING, r.RequestUnanswered("why"))
    refused = state(S.IDLE, cluster_requests=("cluster/1",), not_before=SLOW)

    assert step(waiting, Tick(), hours_ago)[1] == (r.RequestRotation(waiting.effect_number + 1),)
    assert step(refused, Tick(), hours_ago)[0].stage is S.RECORDING_INTENT


def test_a_failed_rotation_waits_its_time_and_a_new_request_does_not() -> None:
    waiting = state(S.IDLE, cluster_requests=("cluster/1",), not_before=SLOW)

    assert step(waiting, Tick(), SLOW - timedelta(seconds=1)) == (waiting, ())
    assert step(waiting, Tick(), SLOW)[0].requests == ("cluster/1",)
    begun, _ = step(waiting, r.RotationRequested(JOB), NOW)
    assert (begun.requests, begun.not_before) == ((JOB, "cluster/1"), None)


def test_a_served_request_is_reported_and_an_intent_without_request_forgotten() -> None:
    served = attrs.evolve(OLD, served=OLD.with_served((JOB,)))
    idle = state(S.IDLE, served)

    assert step(idle, r.RotationRequested(JOB), NOW) == (idle, (r.RequestsServed((JOB,)),))
    assert step(idle, r.ClusterRequests((JOB,)), NOW)[1] == ()
    left = state(S.IDLE, INTENT)
    forgetting, effects = step(left, Tick(), NOW)
    assert (forgetting.stage, effects) == (S.REMOVING_OLD, (r.WriteSecret(6, "old", OLD),))


@pytest.mark.parametrize(
    ("stored", "in_use", "unused"),
    [
        (ISSUED_AT, "new", "old"),
        (ISSUED_AT, "old", "new"),
        (OLD, "old", ""),
        (OLD, "other", "old"),
        (StoredCredential(), "", ""),
    ],
)
def test_the_unused_token_is_the_other_one_of_the_secret(stored: StoredCredential, in_use: str, unused: str) -> None:
    assert unused_token(CredentialState(stored, in_use)) == unused
