"""State of the agent's credential, and the functions that the credential machine's transitions share (PULL-8)."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from purekube.apimachinery.timestamps import shifted
from purekube.controller.backoff import LONGEST_RETRY, Backoff, LogLevel, LogNote, Retry
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

    The time is a quarter to a third of the credential's lifetime before it expires; `jitter` in [0, 1) selects it.
    """
    if stored.expires_at is None or not stored.token:
        return None
    if stored.issued_at is None or stored.issued_at >= stored.expires_at:
        return shifted(stored.expires_at, -UNKNOWN_AGE_MARGIN)
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
