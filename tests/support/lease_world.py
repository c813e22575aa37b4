"""Candidates for a lease, or for those of shards, each with clocks of its own, on a network that delays and loses.

True time is the simulation's; no candidate sees it. What a candidate believes is mapped back to true time, so that
two beliefs can be compared.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import attrs

from kubelab.clock import START
from purekube.apimachinery.errors import AlreadyExists, NotFound, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.controller.backoff import jitter_of
from purekube.controller.lease.machine import step
from purekube.controller.lease.messages import (
    CloseFence,
    CreateLease,
    End,
    LeaderObserved,
    LeadershipLost,
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
from purekube.controller.lease.record import LeasePolicy, holder_of, identity_of
from purekube.controller.shard import WHOLE, Shard


@attrs.frozen
class Fate:
    """What becomes of one request: seconds there and back, and whether it or its answer is lost."""

    there: float = 0.01
    back: float = 0.01
    lost_there: bool = False
    lost_back: bool = False


@attrs.frozen
class Clocks:
    """A machine's clocks: the monotonic one starts somewhere and runs at `rate`; the wall clock shows anything."""

    offset: float = 0.0
    rate: float = 1.0
    wall: tuple[float, ...] = (0.0,)
    """Seconds that the wall clock is off, one for each look at it, in turn: steps, and standing still."""


@attrs.define(eq=False)
class Candidate:
    """One process: the machine, its clocks, and whether it is alive and running."""

    world: "LeaseWorld"
    state: LeaseState
    clocks: Clocks
    alive: bool = True
    paused_until: float = 0.0
    turn: int = 0
    """Which wait or request is under way; an answer to another one comes too late."""
    looks: Iterator[float] = attrs.field(init=False)
    until: float = float("-inf")
    """The fence, in true time."""
    lost: str = ""
    waits_for: int = 0
    """By how many shards others work, for whose end it was last told to wait."""

    def __attrs_post_init__(self) -> None:
        self.looks = itertools.cycle(self.clocks.wall)

    def local(self, true: float) -> float:
        """The monotonic clock."""
        return self.clocks.offset + true * self.clocks.rate

    def true(self, local: float) -> float:
        """When the monotonic clock shows `local`."""
        return (local - self.clocks.offset) / self.clocks.rate

    def believes(self, now: float) -> bool:
        """What the fence would say, were the process to look."""
        return self.alive and now < self.until

    def feed(self, event: LeaseEvent) -> None:
        """Let the machine take one step now."""
        now = self.world.now
        moment = LeaseContext(
            now=self.local(now),
            wall=START + timedelta(seconds=next(self.looks)),
            jitter=jitter_of(self.state.identity, next(self.world.serial)),
            policy=self.world.policy,
        )
        self.state, effects = step(self.state, event, moment)
        assert len([effect for effect in effects if isinstance(effect, COMMANDS)]) == 1
        assert isinstance(effects[-1], COMMANDS)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: LeaseEffect) -> None:
        world = self.world
        match effect:
            case OpenFence(until):
                self.until, self.waits_for = self.true(until), 0
                world.note("holds", self)
            case CloseFence():
                self.until = float("-inf")
            case LeadershipLost(reason):
                self.lost = reason
            case ShardsDisagree(found):
                self.waits_for = found.shards
            case LeaderObserved() | ReportLeaseError():
                pass
            case End():
                self.turn += 1
            case SetTimer(seconds):
                assert 0 <= seconds <= 3 * world.policy.duration
                self._later(world.now + seconds / self.clocks.rate, TimerFired())
            case ReadLease(timeout) | ReadPeers(timeout) | CreateLease(_, timeout) | UpdateLease(_, timeout):
                world.send(self, effect, timeout / self.clocks.rate)

    def _later(self, when: float, event: LeaseEvent) -> None:
        self.turn += 1
        turn = self.turn
        self.world.at(when, lambda: self.deliver(turn, event))

    def deliver(self, turn: int, event: LeaseEvent) -> None:
        """An answer or a wake-up comes; a paused process sees it when it runs again."""
        if not self.alive or turn != self.turn:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self.deliver(turn, event))
            return
        self.feed(event)


COMMANDS = (ReadLease, ReadPeers, CreateLease, UpdateLease, SetTimer, End)


@attrs.define(eq=False)
class LeaseWorld:
    """The server with its leases, the network, and the candidates. `fates` are used in turn."""

    policy: LeasePolicy
    fates: Sequence[Fate]
    now: float = 0.0
    leases: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    version: int = 0
    outages: list[tuple[float, float]] = attrs.field(factory=list)
    candidates: list[Candidate] = attrs.field(factory=list)
    takes: list[tuple[float, str, str]] = attrs.field(factory=list)
    """True time, new holder, holder before: each change of hands, as the server saw it."""
    history: list[tuple[float, str, str]] = attrs.field(factory=list)
    serial: Iterator[int] = attrs.field(factory=itertools.count)
    healed: bool = False
    _queue: list[tuple[float, int, Callable[[], None]]] = attrs.field(factory=list)
    _requests: int = 0

    @property
    def lease(self) -> dict[str, Any] | None:
        """The one of an operator without shards."""
        return self.leases.get("lease")

    @lease.setter
    def lease(self, lease: dict[str, Any] | None) -> None:
        self.leases.pop("lease", None)
        if lease is not None:
            self.leases["lease"] = lease

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Let something happen."""
        heapq.heappush(self._queue, (when, next(self.serial), act))

    def run(self, until: float, check: Callable[[], None] = lambda: None) -> None:
        """Let everything happen that is due before `until`; `check` after each."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, act = heapq.heappop(self._queue)
            act()
            check()
            assert self._requests < 50 + 20 * self.now, "requests without rest"
        self.now = until

    def join(self, clocks: Clocks, *, at: float = 0.0, shard: Shard = WHOLE) -> Candidate:
        """A process starts."""
        identity = identity_of(f"pod-{len(self.candidates)}", shard)
        candidate = Candidate(self, LeaseState("ns", "lease", identity, shard=shard), clocks)
        self.candidates.append(candidate)
        self.at(at, lambda: candidate.feed(TimerFired()) if candidate.alive else None)
        return candidate

    def stop(self, candidate: Candidate) -> None:
        """SIGTERM, with nothing left in hand; what was asked between standing by and leading is answered first."""
        if candidate.alive and candidate.state.role in (Role.CONFIRMING, Role.YIELDING):
            self.at(self.now + 0.1, lambda: self.stop(candidate))
            return
        if candidate.alive and candidate.state.role in (Role.STANDBY, Role.LEADER):
            if self.now < candidate.paused_until:
                self.at(candidate.paused_until, lambda: self.stop(candidate))
                return
            candidate.turn += 1
            candidate.feed(ReleaseRequested())

    def note(self, what: str, candidate: Candidate) -> None:
        """Remember something for a failing example."""
        self.history.append((self.now, candidate.state.identity, what))

    def send(self, candidate: Candidate, command: Any, timeout: float) -> None:
        """A request leaves; it may arrive after its sender has given it up."""
        fate = Fate() if self.healed else self.fates[self._requests % len(self.fates)]
        self._requests += 1
        candidate.turn += 1
        turn, gives_up = candidate.turn, self.now + timeout
        failed = PeersUnread if isinstance(command, ReadPeers) else LeaseRequestFailed
        self.at(gives_up, lambda: candidate.deliver(turn, failed(Unavailable("timeout"))))
        if not fate.lost_there:
            self.at(self.now + fate.there, lambda: self._arrive(candidate, command, turn, fate))

    def _arrive(self, candidate: Candidate, command: Any, turn: int, fate: Fate) -> None:
        failed = PeersUnread if isinstance(command, ReadPeers) else LeaseRequestFailed
        if any(begin <= self.now < end for begin, end in self.outages):
            answer: LeaseEvent = failed(Unavailable("the server is away", status=503))
        else:
            answer = self._serve(command, candidate.state.name)
        if not fate.lost_back:
            self.at(self.now + fate.back, lambda: candidate.deliver(turn, answer))

    def _serve(self, command: Any, name: str) -> LeaseEvent:
        live = self.leases.get(name)
        match command:
            case ReadLease():
                return LeaseRead(live)
            case ReadPeers():
                return PeersRead(tuple(self.leases.values()))
            case CreateLease(wanted):
                return LeaseRequestFailed(AlreadyExists("it is there")) if live is not None else self._store(wanted)
            case UpdateLease(wanted):
                if live is None:
                    return LeaseRequestFailed(NotFound("it is not there"))
                if get_path(wanted, "metadata", "resourceVersion") != live["metadata"]["resourceVersion"]:
                    return LeaseRequestFailed(Stale("it has moved on"))
                return self._store(wanted)
            case _:
                raise AssertionError(command)

    def _store(self, wanted: Manifest) -> LeaseEvent:
        name = wanted["metadata"]["name"]
        live = self.leases.get(name)
        before = holder_of(live)
        version = live["metadata"]["resourceVersion"] if live is not None else ""
        if live is None or get_path(live, "spec") != get_path(wanted, "spec"):
            # A write that changes nothing keeps its resourceVersion, as the real server has it.
            self.version += 1
            version = str(self.version)
        stored = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
        self.leases[name] = stored
        if holder_of(wanted) != before and holder_of(wanted):
            self.takes.append((self.now, holder_of(wanted), before))
        return LeaseWritten(stored)

    def leaders(self) -> list[Candidate]:
        """Who may write now, by its own belief."""
        return [candidate for candidate in self.candidates if candidate.believes(self.now)]
