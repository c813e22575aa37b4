"""Leader election: executes what the lease machine asks for, and holds the fence that every write passes (RUN-4)."""

from collections.abc import Awaitable, Callable
from datetime import datetime

import anyio
import attrs
import structlog

from vworkspace_app.process.clock import machine_seconds
from vworkspace_app.process.errors import CommandError
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.apimachinery.errors import NotFound, OperatorError, Unavailable
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef
from vworkspace_core.apimachinery.resources import LEASE
from vworkspace_core.controller.lease.machine import step
from vworkspace_core.controller.lease.messages import (
    CloseFence,
    CreateLease,
    End,
    LeaderObserved,
    LeadershipLost,
    LeaseCommand,
    LeaseEffect,
    LeaseEvent,
    LeaseRead,
    LeaseRequestFailed,
    LeaseWritten,
    OpenFence,
    ReadLease,
    ReleaseRequested,
    ReportLeaseError,
    SetTimer,
    TimerFired,
    UpdateLease,
)
from vworkspace_core.controller.lease.record import DEFAULT_LEASE_POLICY, LeasePolicy, holder_of
from vworkspace_core.controller.lease.state import LeaseContext, LeaseState, Role
from vworkspace_core.ports import KubeApi

_log = structlog.get_logger("election")


class LeaseLost(CommandError):
    """The process led and does not any more: it ends, so that nothing of it acts on what it knew (exit status 1)."""


@attrs.define
class Fence:
    """Lets writes pass while the lease is held. `monotonic` also counts while the machine sleeps."""

    monotonic: Callable[[], float] = machine_seconds
    until: float = attrs.field(default=float("-inf"), init=False)

    @property
    def is_open(self) -> bool:
        """Whether a write may leave now."""
        return self.monotonic() < self.until

    def check(self) -> None:
        """Raises Unavailable when a write may not leave."""
        if not self.is_open:
            raise Unavailable("the lease is not held: nothing is written", may_have_happened=False)


class Elector:
    """A candidate for the lease `namespace`/`name`.

    `api` must not pass the fence itself: it takes and renews the lease. `identity` must be this process's alone.
    `random` gives numbers in [0, 1); `wall` is shown to people only.
    """

    def __init__(
        self,
        api: KubeApi,
        fence: Fence,
        *,
        namespace: str,
        name: str,
        identity: str,
        wall: Callable[[], datetime],
        random: Callable[[], float],
        policy: LeasePolicy = DEFAULT_LEASE_POLICY,
    ) -> None:
        self.identity = identity
        self._api = api
        self._fence = fence
        self._wall = wall
        self._random = random
        self._policy = policy
        self._ref = ObjectRef(LEASE, namespace, name)
        self._state = LeaseState(namespace, name, identity)
        self._leading = anyio.Event()
        self._stopping = anyio.Event()
        self._ended = anyio.Event()
        self._reported_reason = ""

    @property
    def is_leader(self) -> bool:
        """Whether this process may write now."""
        return self._state.role is Role.LEADER and self._fence.is_open

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; empty for nobody."""
        return holder_of(self._state.lease)

    async def wait_leading(self) -> None:
        """Wait until this process leads."""
        await self._leading.wait()

    async def run(self) -> None:
        """Stand by, then lead, until `release`. Raises LeaseLost."""
        command = self._step(TimerFired())
        while not isinstance(command, End):
            command = self._step(await self._execute(command))
        self._ended.set()

    async def release(self) -> None:
        """Close the fence, give the lease up, and return when that is done. Nothing may be processed any more."""
        self._stopping.set()
        await self._ended.wait()

    async def _execute(self, command: LeaseCommand) -> LeaseEvent:
        match command:
            case SetTimer(seconds):
                with anyio.move_on_after(seconds):
                    await self._stopping.wait()
                    return ReleaseRequested()
                return TimerFired()
            case ReadLease(timeout):
                return await self._request(self._read, timeout)
            case CreateLease(lease, timeout):
                return await self._request(lambda: self._create(lease), timeout)
            case UpdateLease(lease, timeout):
                return await self._request(lambda: self._update(lease), timeout)
            case End():
                raise AssertionError("the machine has ended")

    async def _request(self, ask: Callable[[], Awaitable[LeaseEvent]], timeout: float) -> LeaseEvent:
        try:
            with anyio.fail_after(timeout):
                return await ask()
        except TimeoutError:
            return LeaseRequestFailed(Unavailable(f"{self._ref}: no answer within {timeout:.1f} s"))
        except OperatorError as error:
            return LeaseRequestFailed(error)

    async def _read(self) -> LeaseEvent:
        try:
            return LeaseRead(await self._api.get(self._ref))
        except NotFound:
            return LeaseRead(None)

    async def _create(self, lease: Manifest) -> LeaseEvent:
        return LeaseWritten(await self._api.create(lease, kind=LEASE, field_manager=FIELD_MANAGER))

    async def _update(self, lease: Manifest) -> LeaseEvent:
        return LeaseWritten(await self._api.update(lease, kind=LEASE, field_manager=FIELD_MANAGER))

    def _step(self, event: LeaseEvent) -> LeaseCommand:
        moment = LeaseContext(self._fence.monotonic(), self._wall(), self._random(), self._policy)
        self._state, effects = step(self._state, event, moment)
        command: LeaseCommand = End()
        for effect in effects:
            if isinstance(effect, ReadLease | CreateLease | UpdateLease | SetTimer | End):
                command = effect
            else:
                self._apply(effect)
        if not any(isinstance(effect, ReportLeaseError) for effect in effects) and not isinstance(command, ReadLease):
            self._reported_reason = ""
        return command

    def _apply(self, effect: LeaseEffect) -> None:
        match effect:
            case OpenFence(until):
                self._fence.until = until
                if not self._leading.is_set():
                    _log.info("leading", lease=str(self._ref), identity=self.identity)
                    self._leading.set()
            case CloseFence():
                self._fence.until = float("-inf")
            case LeadershipLost(reason):
                message = f"the {self._ref} is lost: {reason}; the process ends and is to be started again"
                raise LeaseLost(message)
            case LeaderObserved(holder):
                _log.info("standing by", lease=str(self._ref), leader=holder or "nobody", identity=self.identity)
            case ReportLeaseError(reason):
                if reason != self._reported_reason:
                    _log.warning("the lease cannot be read or written", lease=str(self._ref), error=reason)
                self._reported_reason = reason
            case _:
                raise AssertionError(f"{effect} is a command")
