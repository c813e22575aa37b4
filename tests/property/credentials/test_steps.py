"""PULL-7, PULL-8: single steps of the credential machine, in every order in which two news may come."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.controller.backoff import Retry, Tick
from vworkspace_core.credentials import machine
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.machine import CredentialState, RotationStage, next_deadline
from vworkspace_core.credentials.secret import StoredCredential

NOW = datetime(2026, 6, 1, tzinfo=UTC)
OLD = StoredCredential("old")


Step = tuple[CredentialState, tuple[Any, ...]]


def start(stored: StoredCredential, now: datetime) -> Step:
    return machine.start(stored, now)


def step(state: CredentialState, event: r.CredentialEvent, now: datetime) -> Step:
    return machine.step(state, event, now)


def asked() -> tuple[CredentialState, r.WriteSecret]:
    """A rotation was requested, and the write of its intent is under way."""
    state, _ = start(OLD, NOW)
    state, effects = step(state, r.RotationRequested("job/1"), NOW)
    (write,) = effects
    assert isinstance(write, r.WriteSecret)
    return state, write


def answered(state: CredentialState, number: int, answer: r.CredentialAnswer) -> Step:
    return step(state, r.EffectAnswered(number, answer), NOW)


def storing() -> tuple[CredentialState, r.WriteSecret]:
    """The control plane has issued a token, and the write of it is under way."""
    state, write = asked()
    state, (request,) = answered(state, write.number, r.SecretWritten())
    state, (write,) = answered(state, request.number, r.Issued("new"))
    return state, write


def removing() -> tuple[CredentialState, r.WriteSecret]:
    """The new token has worked, and the old one is being removed."""
    state, write = storing()
    state, _ = answered(state, write.number, r.SecretWritten())
    state, (write,) = step(state, r.TokenAccepted("new"), NOW)
    return state, write


@pytest.mark.parametrize("begin", [asked, storing, removing])
def test_an_own_write_leads_to_the_same_state_seen_before_or_after_its_answer_PULL_8(begin: Any) -> None:
    """The informer and the answer of the request are two ways, and either may be the faster one."""
    state, write = begin()
    seen, written = r.SecretRead(write.stored), r.EffectAnswered(write.number, r.SecretWritten())
    ends = []
    for events in ((seen, written), (written, seen)):
        end, told = state, []
        for event in events:
            end, effects = step(end, event, NOW)
            told += [attrs.evolve(effect, number=0) if hasattr(effect, "number") else effect for effect in effects]
        ends.append((attrs.evolve(end, effect_number=0), told))

    assert ends[0] == ends[1]
    assert ends[0][0].stage is not state.stage
    assert ends[0][0].writing is None or ends[0][0].writing != write.stored


@given(st.booleans(), st.lists(st.sampled_from(["rejected", "accepted", "other accepted"]), max_size=8))
@example(True, ["rejected", "rejected"])
@example(False, ["rejected"])
def test_it_is_locked_out_exactly_when_every_token_of_the_secret_was_rejected_PULL_7(
    has_previous: bool, verdicts: list[str]
) -> None:
    stored = StoredCredential("new", "previous" if has_previous else "")
    state, effects = start(stored, NOW)
    tokens = {"new", "previous"} if has_previous else {"new"}
    rejected: set[str] = set()
    for verdict in verdicts:
        if state.stage not in (RotationStage.IDLE, RotationStage.VERIFYING):
            break  # a rotation is under way: it decides
        used = state.in_use
        if verdict == "rejected":
            rejected.add(used)
            state, effects = step(state, r.TokenRejected(used), NOW)
            assert [effect.token for effect in effects] == sorted(tokens - {used})
            assert state.in_use == next(iter(tokens - {used}), used), "the other one is tried"
        elif verdict == "accepted":
            rejected.clear()
            state, effects = step(state, r.TokenAccepted(used), NOW)
            if state.stored.previous == "" or state.stage is RotationStage.REMOVING_OLD:
                tokens = {state.stored.token}
        else:
            before = state
            state, effects = step(state, r.TokenAccepted("of another life"), NOW)
            assert (state, effects) == (before, ())
        assert state.locked_out == (rejected >= tokens)


def test_a_new_registration_token_is_tried_at_once_whatever_the_wait_for_the_one_before_PULL_7() -> None:
    state, _ = start(StoredCredential(), NOW)
    state, (first,) = step(state, r.BootstrapToken("one", "c"), NOW)
    assert (first.token, first.cluster_id) == ("one", "c")
    state, _ = answered(state, first.number, r.RequestRefused("used already"))
    assert next_deadline(state) == NOW + timedelta(minutes=5)
    assert step(state, r.BootstrapToken("one", "c"), NOW)[1] == (), "no other one"

    state, (second,) = step(state, r.BootstrapToken("two", "c"), NOW)

    assert (second.token, second.number > first.number) == ("two", True)
    assert next_deadline(state) is None
    state, effects = step(state, r.BootstrapToken("", "c"), NOW)
    assert (state.stage, effects) == (RotationStage.IDLE, ())


def test_a_request_is_served_once_also_over_a_restart_PULL_8() -> None:
    state, write = removing()
    state, effects = answered(state, write.number, r.SecretWritten())
    assert effects == (r.RequestsServed(("job/1",)),)
    assert state.stored.has_served("job/1")

    again, effects = step(state, r.RotationRequested("job/1"), NOW)
    assert effects == (r.RequestsServed(("job/1",)),)
    assert again.stage is RotationStage.IDLE
    restarted, effects = start(state.stored, NOW)
    assert effects == ()
    restarted, effects = step(restarted, r.RotationRequested("job/1"), NOW)
    assert effects == (r.RequestsServed(("job/1",)),)
    assert restarted.requests == ()


@pytest.mark.parametrize("begin", [asked, storing])
def test_a_request_is_served_once_where_the_process_ends_at_any_write_PULL_8(begin: Any) -> None:
    _, write = begin()
    state, effects = start(write.stored, NOW)
    if begin is asked:
        assert [type(effect) for effect in effects] == [r.RequestRotation], "the intent shows where to go on"
    else:
        assert (state.stage, state.in_use) == (RotationStage.VERIFYING, "new")
        state, (forgetting,) = step(state, r.TokenAccepted("new"), NOW)
        state, _ = answered(state, forgetting.number, r.SecretWritten())
    assert state.requests == (() if begin is storing else ("job/1",))
    _, effects = step(state, r.RotationRequested("job/1"), NOW)
    assert effects == ((r.RequestsServed(("job/1",)),) if begin is storing else ())


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("begin", [asked, storing, removing])
def test_a_write_that_failed_is_given_up_only_before_there_is_anything_to_lose_PULL_8(
    begin: Any, refused: bool
) -> None:
    state, write = begin()
    after, effects = answered(state, write.number, r.WriteFailed("no", refused))

    if begin is asked and refused:
        assert after.stage is RotationStage.IDLE
        (failed,) = effects
        assert failed.requests == ("job/1",)
        return
    assert after.stage is state.stage
    assert after.writing == write.stored
    again = next_deadline(after)
    assert again is not None
    (note,) = effects
    assert (note.level.name == "ERROR") == (begin is storing), "an issued token that is not kept may be lost"


@pytest.mark.parametrize("stage", [RotationStage.IDLE, RotationStage.VERIFYING])
def test_a_retry_that_is_due_where_nothing_was_asked_for_asks_for_nothing(stage: RotationStage) -> None:
    state, _ = start(OLD, NOW)
    due = attrs.evolve(state, stage=stage, retry=Retry(2, NOW))

    assert step(due, Tick(), NOW) == (attrs.evolve(due, retry=Retry(2)), ())


@pytest.mark.parametrize("begin", [asked, storing, removing])
@pytest.mark.parametrize("locked_out", [False, True])
def test_a_token_that_a_person_puts_there_is_used_at_once_whatever_was_under_way(begin: Any, locked_out: bool) -> None:
    state = attrs.evolve(begin()[0], locked_out=locked_out, not_before=NOW + timedelta(hours=1))
    after, effects = step(state, r.SecretRead(StoredCredential("theirs")), NOW)

    assert (after.in_use, after.not_before, after.locked_out) == ("theirs", None, False)
    assert r.UseToken("theirs") in effects
