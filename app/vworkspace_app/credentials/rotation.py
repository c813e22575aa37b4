"""The renewal of the agent's credential: it runs the credential's state machine (PULL-7, PULL-8).

The control plane is the server that offers jobs to the operator. The state machine only decides, for example when a new
credential is requested and which token is used. This module writes the Secret and sends the requests to the control
plane.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import assert_never

import anyio
import attrs
import structlog
from anyio.abc import TaskGroup

from purekube.apimachinery.errors import Permanent
from purekube.apimachinery.timestamps import shifted
from purekube.controller.backoff import LogNote, Tick
from purekube.ports import Clock
from purekube_run.controller.observer import DECISION
from vworkspace_app.control_plane.deadlines import Deadlines
from vworkspace_app.credentials.live_credential import Live
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.machine import CredentialState, RotationStage, next_deadline, start, step
from vworkspace_core.credentials.performer import CredentialPerformer
from vworkspace_core.credentials.secret import Credentials

_log = structlog.get_logger("vworkspace.agent")


@attrs.frozen
class RotationHooks:
    """The functions that a running RotationManager, which renews the agent's credential, calls.

    `skew` returns how far the control plane's clock is ahead of this machine's. `on_rotated` is called with the id of
    each request for a new credential, once the new credential is in use.
    """

    skew: Callable[[], timedelta] = timedelta
    on_rotated: Callable[[str], None] = lambda _: None


class RotationManager:
    """The manager of the job agent's credential: it renews the credential before it expires, or on request.

    `performer` writes the credentials Secret and sends the requests for new credentials. `secret` has the content of
    that Secret. The attribute `live` has the same content, but with the token that is in use. `on_locked_out` is called
    after each rejection while the control plane accepts no token. `jitter` in [0, 1) spreads renewals over time.
    """

    def __init__(
        self,
        performer: CredentialPerformer,
        secret: Live[Credentials],
        clock: Clock,
        *,
        jitter: float = 0.0,
        on_locked_out: Callable[[], None] = lambda: None,
    ) -> None:
        self._performer = performer
        self._clock = clock
        self._jitter = jitter
        self._hooks = RotationHooks()
        self._on_locked_out = on_locked_out
        self.live = Live(secret.current)
        self._secret = secret
        self._state = CredentialState(secret.current.stored, secret.current.token)
        self._tasks: TaskGroup | None = None
        self._waiting: dict[str, list[_Waiter]] = {}
        self._deadlines = Deadlines(clock, self._seconds_left, lambda: self._feed(Tick()))
        self._rejected = ""
        self.is_falling_back = False
        """True while the token changes only because the control plane rejected the previous one.

        Such a change is not a reason to try sooner (PULL-7).
        """
        self._before_start: list[r.CredentialEvent] = []
        secret.subscribe(self._secret_changed)

    @property
    def state(self) -> CredentialState:
        """The present state: the stored credential, the token in use and the waiting requests for a new credential."""
        return self._state

    @property
    def is_storing(self) -> bool:
        """Report whether an issued credential is not yet in the Secret."""
        return self._state.stage is RotationStage.STORING

    @property
    def age(self) -> timedelta | None:
        """The time since the credential was issued; None if the time of issue was not recorded."""
        issued = self._state.stored.issued_at
        return None if issued is None else self._now() - issued

    @property
    def expires_at(self) -> datetime | None:
        """The time at which the credential expires, by the control plane's clock.

        It is None if the credential never expires, or if the time is unknown.
        """
        return self._state.stored.expires_at

    def token_used(self, token: str, accepted: bool) -> None:
        """Record whether the control plane accepted a request with `token`, or rejected it with status 401 or 403."""
        if accepted:
            self._feed(r.TokenAccepted(token))
            return
        self._rejected, self.is_falling_back = token, True
        try:
            self._feed(r.TokenRejected(token))
        finally:
            self.is_falling_back = False

    def token_changed(self) -> bool:
        """Report whether the token in use differs from the token that was rejected last."""
        return self.live.current.token != self._rejected

    def set_cluster_requests(self, requests: tuple[str, ...]) -> None:
        """Set the ids of all open requests for a new credential, which users write into Cluster objects.

        A request that is no longer among them is dropped.
        """
        if requests != self._state.cluster_requests:
            self._feed(r.ClusterRequests(requests))

    def set_bootstrap_token(self, token: r.BootstrapToken) -> None:
        """Set the one-time token for registration, which is used if the credential is missing or rejected."""
        if token != self._state.bootstrap:
            self._feed(token)

    async def rotate(self, request: str) -> None:
        """Replace the credential by a new one, and return once the new one is stored and accepted.

        `request` is the id of the request for a new credential. Raises Permanent if the rotation fails for good.
        """
        waiter = _Waiter()
        self._waiting.setdefault(request, []).append(waiter)
        self._feed(r.RotationRequested(request))
        await waiter.ended.wait()
        if waiter.failure:
            raise Permanent(waiter.failure)

    async def run(self, hooks: RotationHooks | None = None) -> None:
        """Keep the credential valid until cancelled. First complete a rotation that an earlier process began.

        `hooks` are functions that are called meanwhile, for example after a rotation.
        """
        self._hooks = hooks or self._hooks
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self._advance(*start(self._secret.current.stored, self._now(), jitter=self._jitter))
                before_start, self._before_start = self._before_start, []
                for event in before_start:
                    self._feed(event)
                await self._deadlines.run()
        finally:
            self._tasks = None

    def _seconds_left(self) -> float | None:
        due = next_deadline(self._state)
        return None if due is None else (due - self._now()).total_seconds()

    def _secret_changed(self, credentials: Credentials) -> None:
        if self._tasks is None:
            self._state = CredentialState(credentials.stored, credentials.token)
        self._feed(r.SecretRead(credentials.stored))
        self._publish()

    def _feed(self, event: r.CredentialEvent) -> None:
        if self._tasks is None:
            self._before_start += (
                [event] if isinstance(event, r.RotationRequested | r.ClusterRequests | r.BootstrapToken) else []
            )
            return  # `run` begins with the Secret's content at that time
        self._advance(*step(self._state, event, self._now()))
        if isinstance(event, r.TokenRejected) and self._state.locked_out:
            self._on_locked_out()

    def _advance(self, state: CredentialState, effects: tuple[r.CredentialEffect, ...]) -> None:
        if state == self._state and not effects:
            return  # as after most accepted requests: no deadline has changed
        self._state = state
        for effect in effects:
            self._perform(effect)
        self._deadlines.changed()

    def _perform(self, effect: r.CredentialEffect) -> None:
        match effect:
            case r.UseToken():
                self._publish()
                _log.info("speaking with another token", stage=self._state.stage.value)
            case r.RequestsServed(requests):
                for request in requests:
                    _log.info("the credential is rotated", request=request)
                    self._hooks.on_rotated(request)
                self._answer_waiters(requests, "")
            case r.RequestsFailed(requests, message):
                _log.error("the credential is not rotated", requests=list(requests), error=message)
                self._answer_waiters(requests, message)
            case LogNote(level, message):
                _log.log(level.number, message)
            case r.WriteSecret() | r.RequestRotation() | r.RequestRegistration():
                if self._tasks is not None:
                    self._tasks.start_soon(self._perform_and_feed, effect)
            case _:
                assert_never(effect)

    async def _perform_and_feed(self, effect: r.WriteSecret | r.TokenRequest) -> None:
        DECISION.set(f"credential {self._state.stage.value}")
        try:
            answer = await self._performer.perform(effect)
        except Exception as error:
            # A defect must not end the operator. Only its type is logged: its message may hold a token.
            _log.error("an effect on the credential failed unexpectedly", error=type(error).__name__)
            message = f"unexpected {type(error).__name__}"
            lost = r.WriteFailed(message) if isinstance(effect, r.WriteSecret) else r.RequestUnanswered(message)
            answer = r.EffectAnswered(effect.number, lost)
        self._feed(answer)

    def _publish(self) -> None:
        """Set `live` to the content of the credentials Secret, but with the token that is in use."""
        credentials = self._secret.current
        token = self._state.in_use if credentials.stored.token or self._state.in_use else credentials.token
        self.live.set(attrs.evolve(credentials, token=token))

    def _answer_waiters(self, requests: tuple[str, ...], failure: str) -> None:
        for request in requests:
            for waiter in self._waiting.pop(request, []):
                waiter.failure = failure
                waiter.ended.set()

    def _now(self) -> datetime:
        return shifted(self._clock.now(), self._hooks.skew())


@attrs.define
class _Waiter:
    ended: anyio.Event = attrs.field(factory=anyio.Event)
    failure: str = ""
