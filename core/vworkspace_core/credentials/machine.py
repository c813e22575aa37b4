"""Issue and renewal of the agent's credential, as a sans-I/O machine: `step(state, event, now)` (PULL-7, PULL-8).

    IDLE ── RECORDING_INTENT ── REQUESTING ── STORING ── VERIFYING ── REMOVING_OLD ── IDLE
                                     └─ refused: REMOVING_OLD ─┘
    REGISTERING ── STORING ── VERIFYING ── IDLE

An event is the machine's input. An effect is an action that its caller has to perform, such as a write of the Secret.

Order of a rotation. The Secret records that one is under way, which proves that it is writable (RECORDING_INTENT); a
token is requested from the control plane (REQUESTING); the Secret holds the new token next to the old one (STORING);
only then the new one is used (VERIFYING); when it has worked the old one is removed (REMOVING_OLD). After a crash the
Secret shows where to continue.

Guarantees. A token is used only when the Secret holds it. The old one is kept until the new one has worked. A request
is served by exactly one rotation, even if events are repeated. A token that a person puts into the Secret ends
everything under way.

Assumptions. Every effect with a number is answered by one of its events, sooner or later. `now` is the control plane's
clock, since `expires_at` is (PULL-12). The control plane lets a rotation be repeated with the old token for a while,
and a registration until its credential was used; so both are repeated at once after a lost answer.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

import attrs

from purekube.apimachinery.timestamps import format_time, has_come, shifted
from purekube.controller.backoff import LONGEST_RETRY, Backoff, LogLevel, LogNote, Retry, Tick
from vworkspace_core.control_plane.connection import LONGEST_RETRY_AFTER
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.secret import StoredCredential

UNKNOWN_AGE_MARGIN: Final = timedelta(days=1)
"""The time before its expiry at which a credential is renewed if its time of issue is unknown."""
_BACKOFF: Final = Backoff(0.5, LONGEST_RETRY)
"""The delay of retries: a second at first, doubling up to a minute."""
SLOW: Final = timedelta(minutes=5)
"""The delay before a refused request for a credential is tried again."""


class RotationStage(StrEnum):
    """The stage of a rotation (replacement of the agent's credential), named after the step that is under way.

    In each stage the credential machine waits for the answer of the API server or the control plane to that step: in
    STORING, that the Secret with the new token was written; in IDLE it waits for none. The values appear in the log and
    must not change.
    """

    IDLE = "idle"
    RECORDING_INTENT = "intending"  # the API server: the Secret records that a rotation is under way
    REQUESTING = "asking"  # the control plane: a new token
    REGISTERING = "registering"  # the control plane: a first token
    STORING = "keeping"  # the API server: the Secret holds the new token
    VERIFYING = "proving"  # the control plane: any request with the new token
    REMOVING_OLD = "forgetting"  # the API server: the old token, or the intent, is gone


AT_REST: Final = frozenset({RotationStage.IDLE, RotationStage.VERIFYING})


@attrs.frozen
class CredentialState:
    """The state of the credential machine. `stored` is the Secret's present content, `writing` its next content.

    `in_use` is the token that calls use. `requests` are the requests for a new credential, such as `job/<key>`, that
    wait for a rotation (replacement of the credential). `cluster_requests` are further requests, valid only while the
    Cluster object has them. `locked_out` says that the control plane accepts no token of the operator. `effect_number`
    is the number of the last effect, whose answer is expected. `not_before` is when a failed rotation is retried.
    `jitter` in [0, 1) spreads renewals.
    """

    stored: StoredCredential = attrs.field(factory=StoredCredential)
    in_use: str = attrs.field(default="", repr=False)
    stage: RotationStage = RotationStage.IDLE
    requests: tuple[str, ...] = ()
    cluster_requests: tuple[str, ...] = ()
    writing: StoredCredential | None = None
    bootstrap: r.BootstrapToken = attrs.field(factory=r.BootstrapToken)
    locked_out: bool = False
    effect_number: int = 0
    retry: Retry = attrs.field(factory=Retry)
    not_before: datetime | None = None
    jitter: float = 0.0


CredentialStep: TypeAlias = tuple[CredentialState, tuple[r.CredentialEffect, ...]]


def renewal_of(stored: StoredCredential, jitter: float = 0.0) -> datetime | None:
    """Return when to renew a credential, or None if it must never be renewed.

    The time is a quarter to a third of the credential's lifetime before it expires; `jitter` in [0, 1) selects it. A
    credential that expires before it is issued is renewed five minutes after its issue.
    """
    if stored.expires_at is None or not stored.token:
        return None
    if stored.issued_at is None:
        return shifted(stored.expires_at, -UNKNOWN_AGE_MARGIN)
    if stored.issued_at >= stored.expires_at:
        # As from a control plane that takes its local time for UTC: the next one will be no better.
        return shifted(stored.issued_at, SLOW)
    return stored.expires_at - (stored.expires_at - stored.issued_at) * (0.25 + 0.08 * jitter)


def settled(state: CredentialState) -> CredentialState:
    """Return the state of the credential machine with no effect under way.

    Its stage is VERIFYING if an old token still has to be removed from the Secret, and IDLE otherwise.
    """
    stage = RotationStage.VERIFYING if state.stored.previous else RotationStage.IDLE
    return attrs.evolve(state, stage=stage, writing=None, retry=Retry(), effect_number=state.effect_number + 1)


def unused_token(state: CredentialState) -> str:
    """Return the token in the Secret that is not in use, or an empty string if there is none."""
    stored = state.stored
    return next((token for token in (stored.token, stored.previous) if token and token != state.in_use), "")


def retry(
    state: CredentialState,
    message: str,
    now: datetime,
    *,
    wait: float | None = None,
    level: LogLevel = LogLevel.WARNING,
) -> CredentialStep:
    """Return the step (state and effects) that schedules another try of the last effect after `wait` seconds.

    If `wait` is None, the delay is a backoff. Only the first of several retries is logged, with `message` at `level`.
    """
    seconds = _BACKOFF.delay(state.retry.failures + 1, 1.0) if wait is None else max(1.0, wait)
    note = (LogNote(level, f"{message}; tried again"),) if state.retry.failures == 0 else ()
    return attrs.evolve(state, retry=state.retry.failed(seconds, now)), note


def with_requests_failed(state: CredentialState, message: str, now: datetime) -> CredentialStep:
    """Return the step (state and effects) that reports the pending rotation requests of jobs as failed.

    `message` is the reason that is reported. A request of the Cluster object, or a renewal, is retried later.
    """
    failed = (r.RequestsFailed(state.requests, message),) if state.requests else ()
    return attrs.evolve(state, requests=(), not_before=shifted(now, SLOW)), failed


def start(stored: StoredCredential, now: datetime, *, jitter: float = 0.0) -> CredentialStep:
    """Return the state of the credential machine at the start of a process, with the first effects to perform.

    `stored` is the Secret's content. An unfinished rotation continues. `jitter` in [0, 1) spreads renewals.
    """
    state = CredentialState(stored, stored.token, jitter=jitter)
    if stored.requested and stored.token:
        return ask(attrs.evolve(state, requests=(stored.requested,)))
    return _onwards(settled(state), now)


def step(state: CredentialState, event: r.CredentialEvent, now: datetime) -> CredentialStep:
    """Return the credential machine's state after `event`, and the effects to perform, in order."""
    changed, effects = _react(state, event, now)
    onwards, more = _onwards(changed, now)
    return onwards, (*effects, *more)


def next_deadline(state: CredentialState) -> datetime | None:
    """Return the time at which the machine needs a Tick event, or None while no step waits for a time."""
    if state.stage is not RotationStage.IDLE:
        return state.retry.at
    if not state.stored.token:
        return None
    if state.requests or _unserved(state.cluster_requests, state):
        return state.not_before
    due = renewal_of(state.stored, state.jitter)
    if due is None or state.stored.has_served(_renewal(state.stored)):
        return None  # the last renewal did not move the expiry, so another one would not either
    return due if state.not_before is None else max(due, state.not_before)


def _react(state: CredentialState, event: r.CredentialEvent, now: datetime) -> CredentialStep:
    match event:
        case r.SecretRead(stored):
            return on_secret_read(state, stored)
        case r.RotationRequested(request):
            new = () if request in state.requests else (request,)
            return attrs.evolve(state, requests=(*state.requests, *new), not_before=None), ()
        case r.ClusterRequests(requests):
            return attrs.evolve(state, cluster_requests=requests), ()
        case r.BootstrapToken():
            return registrable(state, event)
        case r.EffectAnswered(turn, answer):
            return answered(state, answer, now) if turn == state.effect_number else (state, ())
        case r.TokenAccepted(token):
            return on_token_accepted(state, token, now)
        case r.TokenRejected(token):
            return rejected(state) if token == state.in_use and state.stage in AT_REST else (state, ())
        case Tick():
            return _redo(state) if state.retry.is_due(now) else (state, ())
        case _:
            assert_never(event)


def _onwards(state: CredentialState, now: datetime) -> CredentialStep:
    """Return the next state and effects of the credential machine if it is idle or can register; otherwise change
    nothing.

    One of the effects reports the rotation requests that are done.
    """
    if state.stage in AT_REST and (state.locked_out or not state.stored.token) and state.bootstrap.token:
        return register(state)
    if state.stage is not RotationStage.IDLE or not state.stored.token:
        return state, ()
    served = tuple(request for request in state.requests if state.stored.has_served(request))
    done = (r.RequestsServed(served),) if served else ()
    state = attrs.evolve(state, requests=tuple(request for request in state.requests if request not in served))
    desired = _requests_served_by_rotation(state, now)
    if state.stored.requested and not desired:  # an earlier intent without a request any more
        forgetting, effects = forget(state)
        return forgetting, (*done, *effects)
    if not desired or not _may_rotate(state, now):
        return state, done
    begun, effects = intend(state, desired)
    return begun, (*done, *effects)


def _requests_served_by_rotation(state: CredentialState, now: datetime) -> tuple[str, ...]:
    """Return every rotation request that is due at `now`: by a job, the Cluster object, or the token's expiry."""
    due = renewal_of(state.stored, state.jitter)
    expiry = () if due is None or now < due else (_renewal(state.stored),)
    return (*state.requests, *_unserved((*state.cluster_requests, *expiry), state))


def _renewal(stored: StoredCredential) -> str:
    """Return the rotation request that the expiry of the token in the Secret makes; its id has that time."""
    return "" if stored.expires_at is None else f"expiry/{format_time(stored.expires_at)}"


def _unserved(requests: Iterable[str], state: CredentialState) -> tuple[str, ...]:
    return tuple(
        request for request in requests if not state.stored.has_served(request) and request not in state.requests
    )


def _may_rotate(state: CredentialState, now: datetime) -> bool:
    return state.not_before is None or has_come(state.not_before, now, SLOW)


def _redo(state: CredentialState) -> CredentialStep:
    match state.stage:
        case RotationStage.RECORDING_INTENT | RotationStage.STORING | RotationStage.REMOVING_OLD:
            return write(state)
        case RotationStage.REQUESTING:
            return ask(state)
        case RotationStage.REGISTERING:
            return register(state)
        case _:
            return attrs.evolve(state, retry=state.retry.started()), ()


def answered(state: CredentialState, answer: r.CredentialAnswer, now: datetime) -> CredentialStep:
    """Return the new state and the effects to perform after `answer` to the effect that the machine waits for."""
    match answer:
        case r.SecretWritten():
            return _wrote(state)
        case r.SecretChanged(stored):
            return on_secret_read(state, stored)
        case r.WriteFailed(message, refused):
            return _not_written(state, message, refused, now)
        case r.Issued():
            return _issued(state, answer, now)
        case r.RequestUnanswered():
            return _unanswered(state, answer, now)
        case r.RequestRefused(message):
            return _refused(state, message, now)
        case _:
            assert_never(answer)


def on_secret_read(state: CredentialState, stored: StoredCredential) -> CredentialStep:
    """Return the state and effects after the Secret was read with the content `stored`.

    A token that the operator did not write was put there by a person, and ends the rotation under way.
    """
    writing = state.writing
    if state.stage is RotationStage.STORING and writing is not None and stored.token == writing.token:
        return _wrote(state)  # our own write, whose answer is late or lost
    same = stored.token == state.stored.token
    known = attrs.evolve(state, stored=stored)
    if same and state.stage is RotationStage.RECORDING_INTENT and stored.requested:
        return _wrote(state)
    if same and state.stage not in AT_REST:
        return known, ()
    if same:
        return settled(known), ()
    theirs = settled(attrs.evolve(known, in_use=stored.token, not_before=None, locked_out=False))
    return theirs, ((r.UseToken(stored.token),) if stored.token else ())


def registrable(state: CredentialState, event: r.BootstrapToken) -> CredentialStep:
    """Return the new state and effects after the one-time token for registration was found, replaced or removed.

    If a registration is under way, it begins again with the token in `event`, or ends if there is no longer a token.
    Otherwise the token is only kept in the state.
    """
    news = event != state.bootstrap
    changed = attrs.evolve(state, bootstrap=event)
    if not news or state.stage is not RotationStage.REGISTERING:
        return changed, ()
    # A refusal of another token does not delay this one.
    return register(changed) if event.token else (settled(changed), ())


def on_token_accepted(state: CredentialState, token: str, now: datetime) -> CredentialStep:
    """Return the state and effects after the control plane accepted a request with `token`."""
    if token != state.in_use:
        return state, ()  # a request that was under way when the token was changed
    state = attrs.evolve(state, locked_out=False)
    if state.stage is RotationStage.REGISTERING and state.stored.token:
        return settled(state), ()  # the registration was not needed
    if state.stage is not RotationStage.VERIFYING:
        return state, ()
    if token == state.stored.token:
        return forget(state) if state.stored.previous else (settled(state), ())
    if _may_rotate(state, now):
        # The new one was rejected and the old one works: the control plane has lost the new one.
        requests = state.requests or (f"repair/{format_time(now)}",)
        return intend(attrs.evolve(state, not_before=shifted(now, SLOW)), requests)
    return state, ()


def rejected(state: CredentialState) -> CredentialStep:
    """Return the step (state and effects) after the control plane rejected the token in use.

    The operator switches to the Secret's other token, if there is one. `locked_out` is set in the state once no other
    token is left. The operator then registers again if it has a one-time token.
    """
    other = unused_token(state)
    locked_out = state.locked_out or not other or other == state.stored.token
    changed = attrs.evolve(state, in_use=other or state.in_use, locked_out=locked_out)
    return changed, ((r.UseToken(other),) if other else ())


def _wrote(state: CredentialState) -> CredentialStep:
    if state.writing is None:
        return state, ()
    written = attrs.evolve(state, stored=state.writing, writing=None, retry=Retry())
    match state.stage:
        case RotationStage.RECORDING_INTENT:
            return ask(written)
        case RotationStage.STORING:
            token = written.stored.token
            return attrs.evolve(written, stage=RotationStage.VERIFYING, in_use=token, locked_out=False), (
                r.UseToken(token),
            )
        case _:
            return settled(written), ()


def _not_written(state: CredentialState, message: str, refused: bool, now: datetime) -> CredentialStep:
    if state.writing is None:
        return state, ()
    if refused and state.stage is RotationStage.RECORDING_INTENT:
        # Better now than with a new token that cannot be stored.
        return with_requests_failed(settled(state), f"the new credential could not be kept: {message}", now)
    level = LogLevel.ERROR if state.stage is RotationStage.STORING else LogLevel.WARNING
    return retry(state, f"the credentials Secret is not written ({state.stage}): {message}", now, level=level)


def _issued(state: CredentialState, new: r.Issued, now: datetime) -> CredentialStep:
    if state.stage not in (RotationStage.REQUESTING, RotationStage.REGISTERING):
        return state, ()  # another token was put there meanwhile
    previous = state.in_use if state.stage is RotationStage.REQUESTING else ""
    served = state.stored.with_served(state.requests)
    writing = StoredCredential(new.token, previous, new.expires_at, now, "", served)
    return write(attrs.evolve(state, stage=RotationStage.STORING, writing=writing, retry=Retry()))


def _unanswered(state: CredentialState, event: r.RequestUnanswered, now: datetime) -> CredentialStep:
    if state.stage not in (RotationStage.REQUESTING, RotationStage.REGISTERING):
        return state, ()
    demanded = None if event.wait is None else min(event.wait, LONGEST_RETRY_AFTER)
    wait = SLOW.total_seconds() if event.rejected else demanded
    waiting, notes = retry(state, f"no new credential yet: {event.message}", now, wait=wait)
    if not event.rejected or state.stage is RotationStage.REGISTERING:
        return waiting, notes
    changed, effects = rejected(waiting)
    if changed.locked_out and changed.bootstrap.token:
        registering, asked = register(changed)
        return registering, (*notes, *effects, *asked)
    return changed, (*notes, *effects)


def _refused(state: CredentialState, message: str, now: datetime) -> CredentialStep:
    match state.stage:
        case RotationStage.REQUESTING:
            failed, failures = with_requests_failed(state, message, now)
            forgetting, effects = forget(failed)
            return forgetting, (*failures, *effects)
        case RotationStage.REGISTERING:
            return retry(state, f"the registration is refused: {message}", now, wait=SLOW.total_seconds())
        case _:
            return state, ()


def intend(state: CredentialState, requests: tuple[str, ...]) -> CredentialStep:
    """Return the step (state and effects) that records in the Secret that a rotation of the credential begins.

    The rotation serves `requests`, the due requests for a new credential, such as `job/<key>`; the Secret names the
    first. This write also proves that the Secret is writable.
    """
    writing = attrs.evolve(state.stored, requested=requests[0])
    return write(attrs.evolve(state, stage=RotationStage.RECORDING_INTENT, requests=requests, writing=writing))


def forget(state: CredentialState) -> CredentialStep:
    """Return the step (state and effects) that removes the old token and the record of the rotation from the Secret."""
    writing = attrs.evolve(state.stored, previous="", requested="")
    return write(attrs.evolve(state, stage=RotationStage.REMOVING_OLD, writing=writing, retry=Retry()))


def write(state: CredentialState) -> CredentialStep:
    """Return the step (state and effects) that writes `state.writing`, the Secret's next content, into the Secret."""
    assert state.writing is not None
    number, begun = _next_effect(state)
    return begun, (r.WriteSecret(number, state.stored.token, state.writing),)


def ask(state: CredentialState) -> CredentialStep:
    """Return the step (state and effects) that requests a new token from the control plane."""
    number, begun = _next_effect(state)
    return attrs.evolve(begun, stage=RotationStage.REQUESTING), (r.RequestRotation(number),)


def register(state: CredentialState) -> CredentialStep:
    """Return the step (state and effects) that requests a first token from the control plane with the
    one-time token.
    """
    bootstrap = state.bootstrap
    number, begun = _next_effect(state)
    asking = attrs.evolve(begun, stage=RotationStage.REGISTERING, writing=None)
    return asking, (r.RequestRegistration(number, bootstrap.token, bootstrap.cluster_id),)


def _next_effect(state: CredentialState) -> tuple[int, CredentialState]:
    """Return a pair: the number of the next effect, and the state that waits for the answer with this number."""
    number = state.effect_number + 1
    return number, attrs.evolve(state, effect_number=number, retry=state.retry.started())
