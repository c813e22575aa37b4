"""Getting and renewing the agent's credential, as a sans-I/O machine: `step(state, event, now)` (PULL-7, PULL-8).

    IDLE ── INTENDING ── ASKING ── KEEPING ── PROVING ── FORGETTING ── IDLE
                            └─ refused: FORGETTING ─┘
    REGISTERING ── KEEPING ── PROVING ── IDLE

Order of a rotation. The Secret says that one is under way, which proves that it can be written (INTENDING); the
control plane is asked (ASKING); the Secret holds the new token beside the old one (KEEPING); only then the new one
is used (PROVING); when it has worked the old one goes (FORGETTING). After a crash the Secret tells where to go on.

Guarantees. A token is used only when the Secret holds it. The old one is kept until the new one has worked. A
request is served by one rotation, whatever is repeated. A token put there by hand wins over everything under way.

Assumptions. Every Write and Ask is answered by one of its events, sooner or later. `now` is the control plane's
clock, since `expires_at` is (PULL-12). The control plane lets a rotation be repeated with the old token for a while,
and a registration until its credential was used; so both are repeated at once after a lost answer.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import assert_never

import attrs

from vworkspace_core.apimachinery.timestamps import format_time, shifted
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.secret import Kept
from vworkspace_core.credentials.state import (
    AT_REST,
    SLOW,
    CredentialState,
    Stage,
    Step,
    given_up,
    later,
    other_token,
    renewal_of,
    settled,
)


def start(kept: Kept, now: datetime, *, jitter: float = 0.0) -> Step:
    """A new process, with what the Secret says: a rotation that was under way goes on."""
    state = CredentialState(kept, kept.token, jitter=jitter)
    if kept.requested and kept.token:
        return ask(attrs.evolve(state, requests=(kept.requested,)))
    return _onwards(settled(state), now)


def step(state: CredentialState, event: r.Event, now: datetime) -> Step:
    """The state after `event`, and the effects to perform, in order."""
    changed, effects = _react(state, event, now)
    onwards, more = _onwards(changed, now)
    return onwards, (*effects, *more)


def next_deadline(state: CredentialState) -> datetime | None:
    """When a Tick is due; None while nothing waits for time."""
    if state.stage is not Stage.IDLE:
        return state.retry_at
    if not state.kept.token:
        return None
    if state.requests or _unserved(state.wished, state):
        return state.not_before
    due = renewal_of(state.kept, state.jitter)
    return due if due is None or state.not_before is None else max(due, state.not_before)


def _react(state: CredentialState, event: r.Event, now: datetime) -> Step:
    match event:
        case r.Seen(kept):
            return found(state, kept)
        case r.Asked(request):
            new = () if request in state.requests else (request,)
            return attrs.evolve(state, requests=(*state.requests, *new), not_before=None), ()
        case r.Wished(requests):
            return attrs.evolve(state, wished=requests), ()
        case r.Registrable():
            return registrable(state, event)
        case r.Answered(turn, answer):
            return answered(state, answer, now) if turn == state.turn else (state, ())
        case r.Worked(token):
            return worked(state, token, now)
        case r.Rejected(token):
            return rejected(state) if token == state.in_use and state.stage in AT_REST else (state, ())
        case r.Tick():
            return _redo(state) if state.retry_at is not None and now >= state.retry_at else (state, ())
        case _:
            assert_never(event)


def _onwards(state: CredentialState, now: datetime) -> Step:
    """What a machine at rest tells and begins, if anything."""
    if state.stage in AT_REST and (state.locked_out or not state.kept.token) and state.registration.token:
        return register(state)
    if state.stage is not Stage.IDLE or not state.kept.token:
        return state, ()
    served = tuple(one for one in state.requests if state.kept.has_served(one))
    done = (r.Done(served),) if served else ()
    state = attrs.evolve(state, requests=tuple(one for one in state.requests if one not in served))
    wanted = _wanted(state, now)
    if state.kept.requested and not wanted:  # an intent of before, which nobody stands behind any more
        forgetting, effects = forget(state)
        return forgetting, (*done, *effects)
    if not wanted or (state.not_before is not None and now < state.not_before):
        return state, done
    begun, effects = intend(state, wanted)
    return begun, (*done, *effects)


def _wanted(state: CredentialState, now: datetime) -> tuple[str, ...]:
    """Every request that a rotation now would serve."""
    due = renewal_of(state.kept, state.jitter)
    expiry = () if due is None or now < due else (f"expiry/{format_time(state.kept.expires_at or now)}",)
    return (*state.requests, *_unserved((*state.wished, *expiry), state))


def _unserved(requests: Iterable[str], state: CredentialState) -> tuple[str, ...]:
    return tuple(one for one in requests if not state.kept.has_served(one) and one not in state.requests)


def _redo(state: CredentialState) -> Step:
    match state.stage:
        case Stage.INTENDING | Stage.KEEPING | Stage.FORGETTING:
            return write(state)
        case Stage.ASKING:
            return ask(state)
        case Stage.REGISTERING:
            return register(state)
        case _:
            return attrs.evolve(state, retry_at=None), ()


def answered(state: CredentialState, answer: r.Answer, now: datetime) -> Step:
    """What came of the Write or Ask that is under way."""
    match answer:
        case r.Wrote():
            return _wrote(state)
        case r.Moved(kept):
            return found(state, kept)
        case r.WriteFailed(message, refused):
            return _not_written(state, message, refused, now)
        case r.Issued():
            return _issued(state, answer, now)
        case r.AskUnanswered():
            return _unanswered(state, answer, now)
        case r.AskRefused(message):
            return _refused(state, message, now)
        case _:
            assert_never(answer)


def found(state: CredentialState, kept: Kept) -> Step:
    """The Secret says `kept`. Another token than ours is somebody's decision, and ends what was under way."""
    writing = state.writing
    if state.stage is Stage.KEEPING and writing is not None and kept.token == writing.token:
        return _wrote(state)  # our own write, whose answer is late or lost
    same = kept.token == state.kept.token
    known = attrs.evolve(state, kept=kept)
    if same and state.stage is Stage.INTENDING and kept.requested:
        return _wrote(state)
    if same and state.stage not in AT_REST:
        return known, ()
    if same:
        return settled(known), ()
    theirs = settled(attrs.evolve(known, in_use=kept.token, not_before=None, locked_out=False))
    return theirs, ((r.Use(kept.token),) if kept.token else ())


def registrable(state: CredentialState, event: r.Registrable) -> Step:
    """Another registration token, or none any more."""
    news = event != state.registration
    changed = attrs.evolve(state, registration=event)
    if not news or state.stage is not Stage.REGISTERING:
        return changed, ()
    # What was refused with another token need not be waited out.
    return register(changed) if event.token else (settled(changed), ())


def worked(state: CredentialState, token: str, now: datetime) -> Step:
    """A request with `token` was accepted."""
    if token != state.in_use:
        return state, ()  # a request that was under way when the token was changed
    state = attrs.evolve(state, locked_out=False)
    if state.stage is Stage.REGISTERING and state.kept.token:
        return settled(state), ()  # there was no need to
    if state.stage is not Stage.PROVING:
        return state, ()
    if token == state.kept.token:
        return forget(state) if state.kept.previous else (settled(state), ())
    if state.not_before is None or now >= state.not_before:
        # The new one was rejected and the old one works: the control plane has forgotten the new one.
        requests = state.requests or (f"repair/{format_time(now)}",)
        return intend(attrs.evolve(state, not_before=shifted(now, SLOW)), requests)
    return state, ()


def rejected(state: CredentialState) -> Step:
    """The token in use is not accepted: try the other one, and when both were tried, a registration."""
    other = other_token(state)
    locked_out = state.locked_out or not other or other == state.kept.token
    changed = attrs.evolve(state, in_use=other or state.in_use, locked_out=locked_out)
    return changed, ((r.Use(other),) if other else ())


def _wrote(state: CredentialState) -> Step:
    if state.writing is None:
        return state, ()
    written = attrs.evolve(state, kept=state.writing, writing=None, failures=0, retry_at=None)
    match state.stage:
        case Stage.INTENDING:
            return ask(written)
        case Stage.KEEPING:
            token = written.kept.token
            return attrs.evolve(written, stage=Stage.PROVING, in_use=token, locked_out=False), (r.Use(token),)
        case _:
            return settled(written), ()


def _not_written(state: CredentialState, message: str, refused: bool, now: datetime) -> Step:
    if state.writing is None:
        return state, ()
    if refused and state.stage is Stage.INTENDING:
        # Better now than with a new token that cannot be kept.
        return given_up(settled(state), f"the new credential could not be kept: {message}", now)
    level = "error" if state.stage is Stage.KEEPING else "warning"
    return later(state, f"the credentials Secret is not written ({state.stage}): {message}", now, level=level)


def _issued(state: CredentialState, new: r.Issued, now: datetime) -> Step:
    if state.stage not in (Stage.ASKING, Stage.REGISTERING):
        return state, ()  # somebody has put another token there meanwhile
    previous = state.in_use if state.stage is Stage.ASKING else ""
    served = state.kept.with_served(state.requests)
    writing = Kept(new.token, previous, new.expires_at, now, "", served)
    return write(attrs.evolve(state, stage=Stage.KEEPING, writing=writing, failures=0))


def _unanswered(state: CredentialState, event: r.AskUnanswered, now: datetime) -> Step:
    if state.stage not in (Stage.ASKING, Stage.REGISTERING):
        return state, ()
    wait = SLOW.total_seconds() if event.rejected else event.wait
    waiting, notes = later(state, f"no new credential yet: {event.message}", now, wait=wait)
    if not event.rejected or state.stage is Stage.REGISTERING:
        return waiting, notes
    changed, effects = rejected(waiting)
    if changed.locked_out and changed.registration.token:
        registering, asked = register(changed)
        return registering, (*notes, *effects, *asked)
    return changed, (*notes, *effects)


def _refused(state: CredentialState, message: str, now: datetime) -> Step:
    match state.stage:
        case Stage.ASKING:
            failed, told = given_up(state, message, now)
            forgetting, effects = forget(failed)
            return forgetting, (*told, *effects)
        case Stage.REGISTERING:
            return later(state, f"the registration is refused: {message}", now, wait=SLOW.total_seconds())
        case _:
            return state, ()


def intend(state: CredentialState, requests: tuple[str, ...]) -> Step:
    """The Secret is to say that a rotation for `requests` is under way, which proves that it can be written."""
    writing = attrs.evolve(state.kept, requested=requests[0])
    return write(attrs.evolve(state, stage=Stage.INTENDING, requests=requests, writing=writing))


def forget(state: CredentialState) -> Step:
    """The Secret is to let go of the old token, or of the intent."""
    writing = attrs.evolve(state.kept, previous="", requested="")
    return write(attrs.evolve(state, stage=Stage.FORGETTING, writing=writing, failures=0))


def write(state: CredentialState) -> Step:
    """Write what the Secret is to say."""
    assert state.writing is not None
    turn = state.turn + 1
    return attrs.evolve(state, turn=turn, retry_at=None), (r.Write(turn, state.kept.token, state.writing),)


def ask(state: CredentialState) -> Step:
    """Ask the control plane for a new token."""
    turn = state.turn + 1
    return attrs.evolve(state, stage=Stage.ASKING, turn=turn, retry_at=None), (r.Rotate(turn),)


def register(state: CredentialState) -> Step:
    """Ask the control plane for a first token, with the one-time token."""
    found, turn = state.registration, state.turn + 1
    asking = attrs.evolve(state, stage=Stage.REGISTERING, writing=None, turn=turn, retry_at=None)
    return asking, (r.Register(turn, found.token, found.cluster_id),)
