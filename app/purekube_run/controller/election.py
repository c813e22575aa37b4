"""The execution of leader election: reads and writes of the Lease, timers, and the fence that guards writes (RUN-4).

A pure state machine decides on each of these steps. The fence permits writes only while this process holds the Lease.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import NotFound, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import LEASE
from purekube.controller.lease.machine import step
from purekube.controller.lease.messages import (
    CloseFence,
    CreateLease,
    End,
    LeaderObserved,
    LeadershipLost,
    LeaseCommand,
    LeaseContext,
    LeaseEffect,
    LeaseEvent,
    LeaseRead,
    LeaseRequestFailed,
    LeaseState,
    LeaseWritten,
    OpenFence,
    PeersRead,
    PeersUnread,
    ReadLease,
    ReadPeers,
    ReleaseRequested,
    ReportLeaseError,
    Role,
    SetTimer,
    ShardsDisagree,
    TimerFired,
    UpdateLease,
)
from purekube.controller.lease.record import DEFAULT_LEASE_POLICY, Disagreement, LeasePolicy, holder_of, identity_of
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import KubeApi
from purekube_run.process.command_line import CommandError
from purekube_run.process.machine import machine_seconds

_log = structlog.get_logger("election")


class LeaseLost(CommandError):
    """The error raised when this process was the leader and has lost the Lease.

    The process then exits with status 1, so that it does not act on outdated information.
    """


@attrs.define
class Fence:
    """A guard that permits writes only while this process holds the Lease: until the time `until` of `monotonic`.

    `monotonic` is a clock in seconds that also advances while the machine is suspended.
    """

    monotonic: Callable[[], float] = machine_seconds
    until: float = attrs.field(default=float("-inf"), init=False)

    @property
    def is_open(self) -> bool:
        """Report whether a write may be sent now."""
        return self.monotonic() < self.until

    def check(self) -> None:
        """Raise Unavailable unless a write may be sent now."""
        if not self.is_open:
            raise Unavailable("the lease is not held: nothing is written", may_have_happened=False)


class Elector:
    """A participant in leader election for the Lease `namespace`/`name`, or for the Lease of its `shard` (RUN-13).

    A shard is one of several parts into which namespaces are divided. While the participant leads, it keeps `fence`
    open, which permits the writes of the process. `api`, which reads and writes the Lease, must therefore not be
    guarded by `fence`. `identity` must be unique to this process. `random` returns numbers in [0, 1), which vary the
    time between two reads of the Lease. `wall` returns the times that are written into the Lease; no decision depends
    on them.
    """

    def __init__(
        self,
        api: KubeApi,
        fence: Fence,
        *,
        namespace: str,
        name: str,
        identity: str,
        field_manager: str,
        wall: Callable[[], datetime],
        random: Callable[[], float],
        policy: LeasePolicy = DEFAULT_LEASE_POLICY,
        shard: Shard = WHOLE,
    ) -> None:
        self.identity = identity_of(identity, shard)
        self._api = api
        self._field_manager = field_manager
        self._fence = fence
        self._wall = wall
        self._random = random
        self._policy = policy
        self._state = LeaseState(namespace, name, self.identity, shard=shard)
        self._ref = ObjectRef(LEASE, namespace, self._state.name)
        self._leading = anyio.Event()
        self._stopping = anyio.Event()
        self._ended = anyio.Event()
        self._reported_reason = ""
        self._reported_disagreement: Disagreement | None = None

    @property
    def name(self) -> str:
        """The name of the Lease."""
        return self._state.name

    @property
    def is_leader(self) -> bool:
        """Report whether this process holds the Lease, so that it may write now."""
        return self._state.role is Role.LEADER and self._fence.is_open

    @property
    def holder(self) -> str:
        """The identity in the Lease when it was last read, or "" if the Lease had no holder."""
        return holder_of(self._state.lease)

    async def wait_leading(self) -> None:
        """Wait until this process leads."""
        await self._leading.wait()

    async def run(self) -> None:
        """Acquire the Lease, and renew it until `release` is called. Raises LeaseLost if the Lease is lost."""
        command = self._step(TimerFired())
        while not isinstance(command, End):
            command = self._step(await self._execute(command))
        self._ended.set()

    async def release(self) -> None:
        """Close the fence, so that no write is sent any longer, and wait until the Lease is released.

        Call this only after all reconciles have ended.
        """
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
            case ReadPeers(timeout):
                return await self._request(self._read_peers, timeout, failed=PeersUnread)
            case CreateLease(lease, timeout):
                return await self._request(lambda: self._create(lease), timeout)
            case UpdateLease(lease, timeout):
                return await self._request(lambda: self._update(lease), timeout)
            case End():
                raise AssertionError("the machine has ended")

    async def _request(
        self,
        ask: Callable[[], Awaitable[LeaseEvent]],
        timeout: float,
        *,
        failed: Callable[[OperatorError], LeaseEvent] = LeaseRequestFailed,
    ) -> LeaseEvent:
        try:
            with anyio.fail_after(timeout):
                return await ask()
        except TimeoutError:
            return failed(Unavailable(f"{self._ref}: no answer within {timeout:.1f} s"))
        except OperatorError as error:
            return failed(error)

    async def _read(self) -> LeaseEvent:
        try:
            return LeaseRead(await self._api.get(self._ref))
        except NotFound:
            return LeaseRead(None)

    async def _read_peers(self) -> LeaseEvent:
        page = await self._api.list(LEASE, namespace=self._ref.namespace)
        return PeersRead(tuple(page.items))

    async def _create(self, lease: Manifest) -> LeaseEvent:
        return LeaseWritten(await self._api.create(lease, kind=LEASE, field_manager=self._field_manager))

    async def _update(self, lease: Manifest) -> LeaseEvent:
        return LeaseWritten(await self._api.update(lease, kind=LEASE, field_manager=self._field_manager))

    def _step(self, event: LeaseEvent) -> LeaseCommand:
        moment = LeaseContext(self._fence.monotonic(), self._wall(), self._random(), self._policy)
        self._state, effects = step(self._state, event, moment)
        command: LeaseCommand = End()
        for effect in effects:
            if isinstance(effect, LeaseCommand):
                command = effect
            else:
                self._apply(effect)
        goes_on = isinstance(command, ReadLease | ReadPeers | CreateLease | UpdateLease)
        if not goes_on and not any(isinstance(effect, ReportLeaseError) for effect in effects):
            self._reported_reason = ""
        return command

    def _apply(self, effect: LeaseEffect) -> None:
        match effect:
            case OpenFence(until):
                self._fence.until, self._reported_disagreement = until, None
                if not self._leading.is_set():
                    _log.info("leading", lease=str(self._ref), identity=self.identity)
                    self._leading.set()
            case CloseFence():
                self._fence.until = float("-inf")
            case LeadershipLost(reason):
                message = f"the {self._ref} is lost: {reason}; the process ends and is to be started again"
                # Ending the process is the only stop that needs no cooperation of running tasks; controller-runtime's
                # manager ends, too (pkg/manager/internal.go, "leader election lost").
                raise LeaseLost(message)
            case LeaderObserved(holder):
                _log.info("standing by", lease=str(self._ref), leader=holder or "nobody", identity=self.identity)
            case ReportLeaseError(reason):
                if reason != self._reported_reason:
                    _log.warning("the lease cannot be read or written", lease=str(self._ref), error=reason)
                self._reported_reason = reason
            case ShardsDisagree(found):
                self._report(found)
            case _:
                raise AssertionError(f"{effect} is a command")

    def _report(self, disagreement: Disagreement) -> None:
        if disagreement != self._reported_disagreement:
            _log.warning(
                "waiting: another process works with another number of shards",
                lease=disagreement.lease,
                leader=disagreement.holder,
                their_shards=disagreement.shards,
                our_shard=str(self._state.shard),
                remedy="stop the replicas of one of the two; a Lease whose holder has ended runs out by itself",
            )
        self._reported_disagreement = disagreement
