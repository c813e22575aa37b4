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

from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.answers import (
    answered,
    ask,
    forget,
    found,
    intend,
    register,
    registrable,
    rejected,
    worked,
    write,
)
from vworkspace_core.credentials.secret import Kept
from vworkspace_core.credentials.state import AT_REST, CredentialState, Stage, Step, renewal_of, settled


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
