"""The agent: long poll, lanes and machine, put together (PULL-1 to PULL-7).

The machine decides; this class owns its state, hands effects to whoever performs them and brings back what
came of them. Nothing here ends the loop but cancellation.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from vworkspace_app.agent.connection import Connection
from vworkspace_app.agent.lane import Delivery, Lane
from vworkspace_app.agent.reconnect import Reconnect
from vworkspace_app.agent.settings import AgentSettings
from vworkspace_app.agent.telling import Telling
from vworkspace_core.agent import messages as m
from vworkspace_core.agent.link import Connectivity, Link
from vworkspace_core.agent.machine import AgentState, has_open_job, next_deadline, step
from vworkspace_core.agent.outbox import Outbox
from vworkspace_core.agent.pace import SOONEST, Pace
from vworkspace_core.agent.performer import Performer, Rotate
from vworkspace_core.agent.scope import Scope
from vworkspace_core.agent.security import Security
from vworkspace_core.agent.times import Instant, format_time
from vworkspace_core.cluster import AgentReport, Mail
from vworkspace_core.errors import NotFound, OperatorError, Unavailable
from vworkspace_core.manifest import Manifest, ObjectRef
from vworkspace_core.ports import Clock, ControlPlane, Fetched, JobStore, KubeApi

__all__ = ["Agent"]

log = structlog.get_logger("vworkspace.agent")


class Agent:
    """One agent of one cluster. Run it on the leader only (PULL-4).

    `random` gives numbers in [0, 1) for jitter. `reread` reads the credential again and tells whether it
    changed; `rotate` gets and keeps a new one; `expires_at` tells when the present one ends; `objects` lists the
    owned objects as the informers have them.
    """

    def __init__(
        self,
        *,
        control: ControlPlane,
        kube: KubeApi,
        store: JobStore,
        clock: Clock,
        scope: Scope,
        random: Callable[[], float],
        settings: AgentSettings | None = None,
        reread: Callable[[], Awaitable[bool]] | None = None,
        rotate: Rotate | None = None,
        objects: Callable[[], Iterable[Manifest]] = tuple,
    ) -> None:
        self._control = control
        self._store = store
        self._clock = clock
        self._random = random
        self._settings = settings or AgentSettings()
        self._state = AgentState(scope, self._settings.grace)
        self._connection = Connection(clock, reread)
        self._connection.on_sign_of_life = self._hurry_poll
        self._performer = Performer(kube, store, rotate)
        self._urgent = Lane("acks and results", self._connection, clock, random, width=4)
        self._statuses = Lane("statuses", self._connection, clock, random, width=1)
        self._telling = Telling(control, self._connection, clock, random, self._settings, objects)
        self._reconnect = Reconnect(self._statuses, self._urgent, self._telling, self._settings.head_start_seconds)
        self._connection.on_lost = self._reconnect.hold
        self._limit = anyio.CapacityLimiter(self._settings.parallel)
        self._tasks: TaskGroup | None = None
        self._intake = anyio.CancelScope()
        self._performing = 0
        self._performed = anyio.Event()
        self._news = anyio.Event()
        self._hurried = anyio.Event()
        self._polling = anyio.CancelScope()
        self._started: Instant | None = None
        self.on_settled: Callable[[str], None] = lambda outcome: None
        """Told the outcome of each job that comes to a result; must not raise."""

    @property
    def state(self) -> AgentState:
        """The machine's state: open jobs and the clock skew."""
        return self._state

    @property
    def link(self) -> Link:
        """Whether the control plane is there and takes the credential."""
        return self._connection.link

    def on_news(self, handler: Callable[[], None]) -> None:
        """Have `handler` called whenever the link changes its state, and when events begin or cease to be dropped."""
        self._connection.on_change = handler
        self._telling.on_overflow = handler

    def report(self) -> AgentReport:
        """What the Cluster's status tells of the agent."""
        mail = Mail(len(self._urgent), len(self._statuses), len(self.outbox), self.outbox.dropped)
        return AgentReport(self.link, self._started or self._instant(), self.outbox.condition(), mail)

    def _instant(self) -> Instant:
        return Instant(self._clock.now(), self._clock.monotonic())

    @property
    def outbox(self) -> Outbox:
        """Events that wait, and how many were dropped."""
        return self._telling.outbox

    def on_object_changed(self, live: Manifest | None, ref: ObjectRef) -> None:
        """An informer saw an ApplicationInstance or Operation change; None when it is gone. Does not suspend."""
        self._telling.saw(ref, live, belongs_to_job=has_open_job(self._state, ref))
        self._feed(m.ObjectChanged(ref, live))

    def secure(self, security: Security) -> None:
        """Judge jobs by this from now on (PULL-9)."""
        self._feed(m.SecurityChanged(security))

    def hurry(self) -> None:
        """Stop waiting, for failures or for jobs: the credentials changed, and with them perhaps the server."""
        self._polling.cancel()
        self._hurry_poll()
        for lane in (self._urgent, self._statuses, self._telling):
            lane.hurry()

    def _hurry_poll(self) -> None:
        self._hurried.set()

    async def finish(self) -> None:
        """Take no more jobs in, finish what is being done, and send what waits while the control plane answers (RUN-4).

        Jobs that wait for their objects stay open in the job store: whoever leads next goes on with them.
        """
        self._intake.cancel()
        if self._tasks is None:
            return
        while True:
            while self._performing:
                await self._performed.wait()
            if not self._connection.is_up:
                log.warning("the control plane is away: what waits for it stays with the job store")
                return
            lanes = (self._statuses, self._urgent, self._telling)
            for lane in lanes:
                lane.release()  # also where catching up was cut short
            for lane in lanes:
                await lane.quiet()
            if not self._performing:
                return

    async def run(self) -> None:
        """Work until cancelled. A process that starts after a crash goes on with the jobs that were open."""
        self._started = self._instant()
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await self._resume()
                tasks.start_soon(self._urgent.run)
                tasks.start_soon(self._statuses.run)
                tasks.start_soon(self._telling.run)
                tasks.start_soon(self._telling.beat, self._state.scope.cluster_id)
                tasks.start_soon(self._tick)
                tasks.start_soon(self._take_in)
        finally:
            self._tasks = None

    # --- what comes in --------------------------------------------------------------------------------------

    async def _resume(self) -> None:
        pace = Pace()
        while True:
            try:
                records = await self._store.load()
            except OperatorError as error:
                log.warning("the open jobs cannot be read yet", error=error.message)
                pace, delay = pace.failed(error, self._random())
                await self._clock.sleep(delay)
            else:
                break
        for record in records:
            log.info("going on with a job", job_id=record.job_id)
            self._feed(m.Resumed(record))

    async def _take_in(self) -> None:
        with self._intake:
            await self._poll()

    async def _poll(self) -> None:
        pace = Pace()
        cluster_id, wait = self._state.scope.cluster_id, self._settings.wait_seconds
        while True:
            began, was_up = self._clock.monotonic(), self._connection.is_up
            # Until the first answer the poll does not wait for jobs: an answer tells at once that all is well.
            asked = wait if was_up and not pace.failures else 0
            try:
                fetched = await self._fetch(cluster_id, asked)
            except OperatorError as error:
                pace, delay = pace.failed(error, self._random())
                await self._after_failure(was_up)
                await self._wait_out(delay)
                continue
            if fetched is None:
                continue
            pace = pace.succeeded()
            if fetched.server_time is not None:
                self._feed(m.ServerTime(fetched.server_time))
            if not was_up:
                await self._reconnect.catch_up()
            if not self._offered(fetched.jobs):
                # Nothing new at once: a server that does not hold the poll, or jobs whose acks are under way.
                await self._clock.sleep(max(0.0, self._settings.idle_seconds - (self._clock.monotonic() - began)))

    async def _fetch(self, cluster_id: str, wait: int) -> Fetched | None:
        """One poll; None when `hurry` ended it. Jobs lost with it are offered again."""
        with anyio.CancelScope() as self._polling:
            return await self._connection.poll(lambda: self._control.fetch(cluster_id, wait))
        return None

    async def _after_failure(self, was_up: bool) -> None:
        """What the lanes may do now: a 429 is a round trip too, a rejection is one for all of them."""
        match self.link.state:
            case Connectivity.CONNECTED if not was_up:
                await self._reconnect.catch_up()
            case Connectivity.UNREACHABLE:
                self._reconnect.try_one()
            case _:
                pass

    def _offered(self, jobs: Iterable[Any]) -> bool:
        before = self._state
        for raw in jobs:
            self._feed(m.Offered(raw))
        for job in self._state.jobs.values():
            if job.arrival >= before.arrivals:
                log.info("a job is taken in", job_id=job.id, object=str(job.ref or ""), key=job.key)
        return self._state.arrivals > before.arrivals

    async def _wait_out(self, seconds: float) -> None:
        """Sleep, at least the second that lies between any two failures (PULL-7)."""
        self._hurried = anyio.Event()
        await self._clock.sleep(min(seconds, SOONEST))
        with anyio.move_on_after(seconds - SOONEST):
            await self._hurried.wait()

    async def _tick(self) -> None:
        while True:
            self._news = anyio.Event()
            due = next_deadline(self._state)
            left = None if due is None else (due - self._clock.now()).total_seconds()
            if left is not None and left <= 0:
                self._feed(m.Tick())
                await self._clock.sleep(0.01)
                continue
            with anyio.move_on_after(left):
                await self._news.wait()

    # --- what goes out --------------------------------------------------------------------------------------

    def _feed(self, event: m.Event) -> None:
        before = self._state
        try:
            self._state, effects = step(before, event, self._clock.now())
        except Exception:
            # A defect of the machine costs one event, not the loop: the state is as it was before it.
            log.exception("the job machine failed on an event", kind=type(event).__name__)
            return
        for effect in effects:
            self._dispatch(effect)
        if self._state is not before:
            self._news.set()

    def _dispatch(self, effect: m.Effect) -> None:
        match effect:
            case m.Note(level, message, job_id):
                log.log(_LEVELS[level], message, job_id=job_id)
            case m.SendAck(job_id):
                self._urgent.put(self._ack(job_id))
            case m.PostResult(job_id):
                self._urgent.put(self._result(effect))
            case m.PostStatus(job_id, body):
                self._statuses.put(self._status(job_id, body))
            case _:
                self._start(effect)

    def _start(self, effect: Any) -> None:
        # After the end of `run` nothing is begun any more: the next process goes on from the records.
        if self._tasks is None:
            return
        if isinstance(effect, m.RotateCredential):
            # It waits for the control plane; neither the end of the process nor other effects wait with it.
            self._tasks.start_soon(self._performed_and_fed, effect, contextlib.nullcontext())
            return
        self._performing += 1
        self._tasks.start_soon(self._perform, effect)

    async def _perform(self, effect: Any) -> None:
        try:
            await self._performed_and_fed(effect, self._limit)
        finally:
            self._performing -= 1
            self._performed.set()
            self._performed = anyio.Event()

    async def _performed_and_fed(self, effect: Any, limit: contextlib.AbstractAsyncContextManager[Any]) -> None:
        try:
            async with limit:
                answer = await self._performer.perform(effect)
        except Exception as error:
            # A defect must not take the other jobs with it; with its traceback it can be mended.
            log.exception("an effect failed unexpectedly", effect=type(effect).__name__, job_id=effect.job_id)
            answer = m.StepFailed(effect.job_id, f"unexpected {type(error).__name__}")
        self._feed(answer)
        self._tell(effect, answer)

    def _tell(self, effect: Any, answer: m.Event) -> None:
        """Say what was done on the cluster."""
        if isinstance(answer, m.Applied):
            log.info("an object is applied", job_id=answer.job_id, object=str(effect.ref))
        if isinstance(answer, m.DeleteSent):
            log.info("an object is being deleted", job_id=answer.job_id, object=str(effect.ref))

    def tell_rotated(self, request: str) -> None:
        """A new credential has served `request` (PULL-6)."""
        key = f"credential-rotated/{self._state.scope.cluster_id}/{request}"
        at = format_time(self._clock.now())
        self._telling.put([{"kind": "CredentialRotated", "eventKey": key, "timestamp": at}])

    def _ack(self, job_id: str) -> Delivery:
        def answered(error: OperatorError | None) -> None:
            self._feed(m.JobGone(job_id) if isinstance(error, NotFound) else m.Acked(job_id))

        def lost(error: OperatorError) -> None:
            if isinstance(error, Unavailable) and error.may_have_happened:
                self._feed(m.AckLost(job_id))

        return Delivery(f"ack/{job_id}", lambda: self._control.ack(job_id), answered, lost, final=(NotFound,))

    def _result(self, effect: m.PostResult) -> Delivery:
        job_id, body = effect.job_id, effect.body
        log.info("a job is settled", job_id=job_id, outcome=body["outcome"], error=body.get("error", ""))
        self.on_settled(str(body["outcome"]))

        def answered(error: OperatorError | None) -> None:
            if error is not None:
                log.warning("the control plane has no use for a result any more", job_id=job_id, error=error.message)
            self._statuses.drop(f"status/{job_id}")
            self._feed(m.ResultAccepted(job_id))

        # A result that is refused as malformed or too large is tried on, slowly: nobody else has it (PULL-4).
        return Delivery(f"result/{job_id}", lambda: self._control.result(job_id, body), answered, final=(NotFound,))

    def _status(self, job_id: str, body: Any) -> Delivery:
        def answered(error: OperatorError | None) -> None:
            if error is not None:
                log.debug("a status came too late or was refused", job_id=job_id, error=error.message)

        return Delivery(f"status/{job_id}", lambda: self._control.status(job_id, body), answered)


_LEVELS = {"info": 20, "warning": 30, "error": 40}
