"""The job agent, which connects the long poll, the delivery queues and the job state machine (PULL-1 to PULL-7).

The long poll requests jobs (units of work) from the control plane repeatedly, at a pace that spares an overloaded
server. The state machine decides what to do (its effects). `Agent` keeps the state of the machine, passes the effects
on (`effect_executor.py`, `delivery_queue.py`), and gives the machine their outcomes and the jobs of each poll. The loop
ends only when it is cancelled.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any, Final, TypeAlias

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import Instant, time_at
from purekube.controller.backoff import LogNote, Tick
from purekube.ports import Clock, KubeApi
from vworkspace_app.control_plane.connection import AgentSettings, Connection
from vworkspace_app.control_plane.deadlines import Deadlines
from vworkspace_app.control_plane.event_sender import EventSender
from vworkspace_app.jobs.delivery_queue import Delivery, DeliveryQueue, Reconnect, ack, result, status, status_key
from vworkspace_app.jobs.effect_executor import JobEffectExecutor, OnWritten
from vworkspace_app.jobs.job_decision import Effect, JobDecision
from vworkspace_core.clusters.inventory import AgentReport, PendingDeliveries
from vworkspace_core.control_plane.connection import SOONEST, ConnectionState, Connectivity, RetryPace
from vworkspace_core.control_plane.outbox import Outbox
from vworkspace_core.control_plane.port import ControlPlane, Fetched
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_store import JobStore
from vworkspace_core.jobs.machine import AgentState, clock_skew_message, has_open_job, next_deadline, step, unrecorded
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.performer import JobPerformer, RotateCredential
from vworkspace_core.jobs.scope import JobScope

log = structlog.get_logger("vworkspace.agent")
_TICK_REST = 0.05
_REMEMBERED: Final = 100
"""The maximum number of finished jobs that are kept for display on the operator's web page."""
OnStep: TypeAlias = Callable[[AgentState, AgentState], None]
"""A function that is called after each event of the job state machine, with the states before and after the event."""


@attrs.frozen
class SettledJob:
    """A finished job of the control plane, for the operator's web page: its outcome, and the time `at` of its result.

    `about` names the object of the job; secrets in `error` are redacted.
    """

    id: str
    about: str
    outcome: str
    error: str
    at: datetime
    created: datetime | None = None


class Agent:
    """The job agent of one cluster, which pulls jobs and reports on them. Only the leader may run it (PULL-4).

    Jobs come from the control plane, a server. `random` returns numbers in [0, 1) for jitter. `reread` reads the
    credential again and returns whether it changed. `rotate` obtains and stores a new credential. `objects` lists the
    owned objects from the informers, and `find` returns one of them, or None. `cluster` returns the Cluster object that
    reports on this operator.

    The other functions are called at events, and must not raise. `noticed` gets each write to the cluster, `on_result`
    the outcome of each job that has a result, and `on_step` the states before and after each event. `on_change` is
    called when the connection's state changes, and when events begin or cease to be dropped.
    """

    def __init__(
        self,
        *,
        control: ControlPlane,
        kube: KubeApi,
        store: JobStore,
        clock: Clock,
        scope: JobScope,
        random: Callable[[], float],
        find: Callable[[ObjectRef], Manifest | None],
        settings: AgentSettings | None = None,
        reread: Callable[[], Awaitable[bool]] | None = None,
        rotate: RotateCredential | None = None,
        objects: Callable[[], Iterable[Manifest]] = tuple,
        cluster: Callable[[], Manifest | None] = lambda: None,
        noticed: OnWritten | None = None,
        on_change: Callable[[], None] = lambda: None,
        on_result: Callable[[str], None] = lambda outcome: None,
        on_step: OnStep | None = None,
    ) -> None:
        self._control = control
        self._store = store
        self._clock = clock
        self._random = random
        self._settings = settings or AgentSettings()
        self._state = AgentState(scope, self._settings.grace)
        self._on_change = on_change
        self._on_result = on_result
        self._on_step = on_step
        self._connection = Connection(
            clock,
            reread,
            on_change=on_change,
            on_lost=lambda: self._reconnect.hold(),
            on_sign_of_life=lambda: self._polling.wake(),
        )
        self._executor = JobEffectExecutor(
            JobPerformer(kube, store, rotate), self._settings.parallel, self._feed, noticed
        )
        self._urgent = DeliveryQueue("acks and results", self._connection, clock, random, width=4)
        self._statuses = DeliveryQueue("statuses", self._connection, clock, random, width=1)
        self._events = EventSender(
            control, self._connection, clock, random, self._settings, objects, find, cluster, on_change
        )
        self._queues = (self._statuses, self._urgent, self._events)
        self._reconnect = Reconnect(self._statuses, self._urgent, self._events, self._settings.head_start_seconds)
        self._polling = LongPoll(
            control,
            scope.cluster_id,
            self._connection,
            self._reconnect,
            clock=clock,
            random=random,
            settings=self._settings,
            feed=self._feed,
            offered=self._offered,
        )
        # Deadlines are seconds away, and every open job has some: a burst of events causes only one search.
        self._deadlines = Deadlines(clock, self._seconds_left, lambda: self._feed(Tick()), gather=_TICK_REST)
        self._started: Instant | None = None
        self._unrecorded = ""
        self.settled: deque[SettledJob] = deque(maxlen=_REMEMBERED)
        """The jobs that this process settled last, the newest first."""

    @property
    def state(self) -> AgentState:
        """The present state of the job state machine, such as the open jobs and the clock skew."""
        return self._state

    @property
    def connection_state(self) -> ConnectionState:
        """The state of the connection to the control plane."""
        return self._connection.state

    def report(self) -> AgentReport:
        """Return the state of the agent for the Cluster object's status, such as that of the connection."""
        pending = PendingDeliveries(len(self._urgent), len(self._statuses), len(self.outbox), self.outbox.dropped)
        apart = clock_skew_message(self._state.apart) if self._state.apart else ""
        return AgentReport(
            self.connection_state,
            self._started or self._instant(),
            self.outbox.condition(),
            pending,
            apart,
            self._unrecorded,
        )

    def _instant(self) -> Instant:
        return Instant(self._clock.now(), self._clock.monotonic())

    @property
    def outbox(self) -> Outbox:
        """The buffer of events for the control plane that wait to be sent, with the number of events that were dropped.

        Each event reports a change of an ApplicationInstance or Operation.
        """
        return self._events.outbox

    def on_object_changed(self, live: Manifest | None, ref: ObjectRef) -> None:
        """Queue an event about a changed object for the control plane, and continue a job that waits for the object.

        The object is an ApplicationInstance or Operation; `live` is None if it was deleted. No event is queued if an
        open job reports on the object. The method is called synchronously by informers, and never waits.
        """
        self._events.object_changed(ref, live, belongs_to_job=has_open_job(self._state, ref))
        self._feed(m.ObjectChanged(ref, live))

    def on_object_known(self, live: Manifest, ref: ObjectRef) -> None:
        """Record an object that existed before this process started, and continue a job that waits for it.

        The object is an ApplicationInstance or Operation. No event about it is sent, since the first snapshot for the
        control plane reports it. The method is called synchronously, and never waits.
        """
        self._events.known(ref, live)
        self._feed(m.ObjectChanged(ref, live))

    def set_security(self, security: Security) -> None:
        """Set the requirements that payloads of jobs must meet from now on, such as a signature (PULL-9)."""
        self._feed(m.SecurityChanged(security))

    def retry_now(self) -> None:
        """Send all messages to the control plane that wait for a retry, and poll again.

        It is called when the credential or the server has changed.
        """
        self._polling.retry_now()
        for queue in self._queues:
            queue.retry_now()

    async def finish(self) -> None:
        """Accept no new jobs, finish the running writes of jobs, and send the reports that wait (RUN-4).

        If the control plane does not answer, or rejects the credential, return without sending the reports. Jobs that
        wait for their objects stay in the job store (in Secrets), from which the next leader continues them.
        """
        self._polling.stop()
        if self._executor.tasks is None:
            return
        while True:
            await self._executor.drain()
            if not self._connection.is_up:
                rejected = self._connection.state.connectivity is Connectivity.REJECTED
                why = "rejects the credential" if rejected else "is away"
                log.warning(f"the control plane {why}: what waits for it stays with the job store")
                return
            for queue in self._queues:
                queue.release()  # even if catching up was cut short
            for queue in self._queues:
                await queue.drain()
            if self._executor.is_idle:
                return

    async def run(self) -> None:
        """Pull and perform jobs until cancelled. First continue the open jobs that an earlier process left."""
        self._started = self._instant()
        try:
            async with anyio.create_task_group() as tasks:
                self._executor.tasks = tasks
                await self._resume()
                for queue in self._queues:
                    tasks.start_soon(queue.run)
                tasks.start_soon(self._events.send_heartbeats, self._state.scope.cluster_id)
                tasks.start_soon(self._deadlines.run)
                tasks.start_soon(self._polling.run)
        finally:
            self._executor.tasks = None

    async def _resume(self) -> None:
        pace = RetryPace()
        while True:
            try:
                records = await self._store.load()
            except OperatorError as error:
                log.warning("the open jobs cannot be read yet", error=error.message)
                self._hindered(f"jobs wait, as the records of open jobs cannot be read: {shown(error.message)}")
                pace, delay = pace.failed(error, self._random())
                await self._clock.sleep(delay)
            else:
                break
        self._hindered("")
        for record in records:
            log.info("going on with a job", job_id=record.job_id)
            self._feed(m.Resumed(record))

    def _offered(self, jobs: Iterable[Any]) -> bool:
        before = self._state
        for raw in jobs:
            self._feed(m.Offered(raw))
        for job in self._state.jobs.values():
            if job.arrival >= before.arrivals:
                log.info("a job is taken in", job_id=job.id, object=self._object_of(job.id), key=job.key)
        return self._state.arrivals > before.arrivals

    def _seconds_left(self) -> float | None:
        due = next_deadline(self._state)
        return None if due is None else (due - self._clock.now()).total_seconds()

    def _feed(self, event: m.JobEvent) -> None:
        before = self._state
        try:
            self._state, effects = step(before, event, self._clock.now())
        except Exception:
            # A defect of the machine costs one event, not the loop: the state stays as it was.
            log.exception("the job machine failed on an event", kind=type(event).__name__)
            return
        if self._on_step is not None:
            self._on_step(before, self._state)
        for effect in effects:
            self._dispatch(effect)
        if self._state is not before:
            self._deadlines.changed()
        if bool(self._state.apart) != bool(before.apart):
            self._on_change()
        if self._unrecorded or isinstance(event, m.StepFailed):
            self._hindered(unrecorded(self._state))

    def _hindered(self, why: str) -> None:
        """Note why jobs wait to be recorded. `why` is empty if none does."""
        was, self._unrecorded = self._unrecorded, why
        if bool(was) != bool(why):
            self._on_change()

    def _dispatch(self, effect: m.JobEffect) -> None:
        match effect:
            case LogNote(level, message, job_id):
                log.log(level.number, message, job_id=job_id, object=self._object_of(job_id))
            case m.SendAck(job_id):
                self._deliver(self._urgent, ack(self._control, job_id, self._feed), effect)
            case m.PostResult():
                self._deliver(self._urgent, self._result(effect), effect)
            case m.PostStatus():
                self._deliver(self._statuses, self._status(effect), effect)
            case _:
                self._executor.start(effect, self._decision(effect))

    def _deliver(self, queue: DeliveryQueue, delivery: Delivery, effect: Effect) -> None:
        queue.put(attrs.evolve(delivery, decision=self._decision(effect)))

    def _decision(self, effect: Effect) -> JobDecision:
        return JobDecision(self._state.jobs.get(effect.job_id), effect)

    def _object_of(self, job_id: str) -> str:
        """Return the object that a job is about as text, or "" for an unknown job.

        The object of a refused job is taken from the job's idempotency key.
        """
        job = self._state.jobs.get(job_id)
        if job is None:
            return ""
        return str(job.ref) if job.ref is not None else job.key.partition("@")[0].replace("/", " ", 1)

    def report_rotated(self, request: str) -> None:
        """Report to the control plane that the operator's credential was replaced because of a request (PULL-6).

        `request` is the id of the rotation request.
        """
        self._events.credential_rotated(self._state.scope.cluster_id, request)

    def _status(self, effect: m.PostStatus) -> Delivery:
        job = self._state.jobs.get(effect.job_id)
        ref = None if job is None else job.ref

        def untold() -> None:
            # A later change would be reported by events, but an Operation that has ended does not change.
            if ref is not None and not has_open_job(self._state, ref):
                self._events.tell(ref)

        return status(self._control, effect, untold)

    def _result(self, effect: m.PostResult) -> Delivery:
        job_id, body = effect.job_id, effect.body
        good = body["outcome"] in ("succeeded", "noop")
        fields = {"outcome": body["outcome"], "object": self._object_of(job_id), "error": body.get("error", "")}
        (log.info if good else log.warning)("a job is settled", job_id=job_id, **fields)
        error = shown(str(body.get("error") or ""))
        job = self._state.jobs.get(job_id)
        created = None if job is None else time_at(dict(job.raw), "createdAt")
        outcome = str(body["outcome"])
        self.settled.appendleft(SettledJob(job_id, fields["object"], outcome, error, self._clock.now(), created))
        self._on_result(str(body["outcome"]))

        def accepted() -> None:
            self._statuses.drop(status_key(job_id))
            self._feed(m.ResultAccepted(job_id))

        return result(self._control, effect, accepted)


class LongPoll:
    """The loop that polls the control plane for jobs until it is stopped. A failed poll does not end the loop.

    `random` returns numbers in [0, 1) for jitter. `feed` gets the control plane's clock time in each answer, as a
    ServerTime event. `offered` gets the jobs of each answer, and returns True if one of them is new: then the next poll
    follows without a pause.
    """

    def __init__(
        self,
        control: ControlPlane,
        cluster_id: str,
        connection: Connection,
        reconnect: Reconnect,
        *,
        clock: Clock,
        random: Callable[[], float],
        settings: AgentSettings,
        feed: Callable[[m.JobEvent], None],
        offered: Callable[[Iterable[Any]], bool],
    ) -> None:
        self._control = control
        self._cluster_id = cluster_id
        self._connection = connection
        self._reconnect = reconnect
        self._clock = clock
        self._random = random
        self._settings = settings
        self._feed = feed
        self._offered = offered
        self._run_scope = anyio.CancelScope()
        self._poll_scope = anyio.CancelScope()
        self._wake_up = anyio.Event()

    def stop(self) -> None:
        """End the loop, and cancel the poll that is waiting."""
        self._run_scope.cancel()

    def retry_now(self) -> None:
        """Cancel the waiting poll and send another, because the credential or the server has changed."""
        self._poll_scope.cancel()
        self.wake()

    def wake(self) -> None:
        """End the pause after a failed poll, so that the next poll is sent immediately."""
        self._wake_up.set()

    async def run(self) -> None:
        """Poll repeatedly until `stop` is called."""
        with self._run_scope:
            pace = RetryPace()
            while True:
                pace = await self._round(pace)

    async def _round(self, pace: RetryPace) -> RetryPace:
        """Poll once, handle the answer, and wait until the next poll is due.

        Return the retry state for the next poll.
        """
        began, was_up = self._clock.monotonic(), self._connection.is_up
        # Until the first answer the poll does not wait for jobs: an answer proves at once that all is well.
        wait = self._settings.wait_seconds if was_up and not pace.failures else 0
        try:
            fetched = await self._fetch(wait)
        except OperatorError as error:
            pace, delay = pace.failed(error, self._random())
            await self._after_failure(was_up)
            await self._wait_out(delay)
            return pace
        if fetched is None:
            return pace
        if fetched.server_time is not None:
            self._feed(m.ServerTime(fetched.server_time))
        if not was_up:
            await self._reconnect.catch_up()
        if not self._offered(fetched.jobs):
            # Nothing new at once: a server that does not hold the poll, or jobs whose acks are in flight.
            await self._clock.sleep(max(0.0, self._settings.idle_seconds - (self._clock.monotonic() - began)))
        return pace.succeeded()

    async def _fetch(self, wait: int) -> Fetched | None:
        """Send one poll, which the server may hold for `wait` seconds, and return the answer.

        Return None if `retry_now` cancelled the poll. The jobs in an answer that is lost are offered again.
        """
        with anyio.CancelScope() as self._poll_scope:
            return await self._connection.poll(lambda: self._control.fetch(self._cluster_id, wait))
        return None

    async def _after_failure(self, was_up: bool) -> None:
        """Let the delivery queues send after a failed poll, as far as the error of the poll permits.

        A 429 proves that the server is reachable: all queues are released unless the connection was up before
        (`was_up`). If the server is unreachable, one attempt is permitted. A rejected credential affects all requests,
        so nothing is permitted.
        """
        match self._connection.state.connectivity:
            case Connectivity.CONNECTED if not was_up:
                await self._reconnect.catch_up()
            case Connectivity.UNREACHABLE:
                self._reconnect.try_one()
            case _:
                pass

    async def _wait_out(self, seconds: float) -> None:
        """Sleep for `seconds` after a failed poll. `wake` ends the sleep early, but not within the first second
        (PULL-7).
        """
        self._wake_up = anyio.Event()
        await self._clock.sleep(min(seconds, SOONEST))
        with anyio.move_on_after(seconds - SOONEST):
            await self._wake_up.wait()
