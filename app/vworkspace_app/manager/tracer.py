"""The tracing of jobs and objects: their changes go to a `TraceRecorder`, and the spans that end are sent (SEE-7).

The spans go to a collector of traces. No other part is delayed: recording a change does not block, and a task of its
own sends the spans.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import structlog

from purekube.apimachinery.errors import Invalid, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, ref_of
from purekube.controller.backoff import Backoff
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.queue.own_writes import HotLoopEvidence
from purekube.controller.shard import Shard
from purekube.ports import Clock
from purekube_run.controller.informers import Informers
from purekube_run.controller.observer import Reconciled
from vworkspace_app.manager.notifier import DocumentReceiver
from vworkspace_core.jobs.machine import AgentState
from vworkspace_core.overview.traces import Span, TraceRecorder, otlp

_log = structlog.get_logger("traces")
MOST_WAITING: Final = 4_096
"""The maximum number of spans that wait for an unavailable collector; beyond it the oldest are dropped and counted."""
_AT_ONCE: Final = 512
_GATHER_SECONDS: Final = 1.0
_BACKOFF: Final = Backoff(base=1.0, cap=60.0)
_LONGEST_RETRY_SECONDS: Final = 300.0
"""The longest time for which a collector may ask to be spared."""


class Tracer:
    """The tracer of the jobs and objects of this process's shard: it records spans and sends them to `receiver`.

    The receiver is a collector of traces. The tracer gets changes of objects from `informers`, steps of the job agent
    by `agent_stepped`, and reconcile passes as a `ReconcileObserver`. It records nothing before `run`, and must be
    created before the informers run.
    """

    def __init__(
        self,
        receiver: DocumentReceiver,
        informers: Informers,
        clock: Clock,
        random: Callable[[], float],
        *,
        cluster: str,
        shard: Shard,
        version: str = "",
    ) -> None:
        self._receiver, self._informers = receiver, informers
        self._clock, self._random = clock, random
        self._cluster, self._shard, self._version = cluster, shard, version
        self._recorder: TraceRecorder | None = None
        self._waiting = deque[Span](maxlen=MOST_WAITING)
        self._lost = 0
        self._retry_after = 0.0
        self._news = anyio.Event()
        for runner in informers:
            runner.subscribe(self._changed)

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Wait for `ready`, then record and send spans until cancelled.

        `ready` returns once the caches have synced and this process is the leader.
        """
        await ready()
        self._recorder = TraceRecorder(self._cluster)
        for runner in self._informers:
            for manifest in runner.store.objects():
                self._observed(ref_of(manifest, runner.kind), manifest)
        failures = 0
        while True:
            await self._news.wait()
            backoff = _BACKOFF.delay(failures, self._random()) if failures else _GATHER_SECONDS
            await self._clock.sleep(max(backoff, self._retry_after))
            failures = await self._deliver(failures)
            self._news = anyio.Event()
            if self._waiting:
                self._news.set()

    def agent_stepped(self, before: AgentState, after: AgentState) -> None:
        """Record the changes of jobs between the states `before` and `after` one step of the job state machine."""
        if self._recorder is not None and before.jobs is not after.jobs:
            for job_id in {**before.jobs, **after.jobs}:
                was, is_now = before.jobs.get(job_id), after.jobs.get(job_id)
                if was is not is_now:
                    self._add(self._recorder.job_changed(was, is_now, self._clock.now()))

    def reconciled(self, done: Reconciled) -> None:
        """Record a reconcile pass that has ended, as a span in the trace of its object."""
        if self._recorder is not None:
            writes = [f"{verb} {ref}" for verb, ref in done.executed]
            error = "" if done.error is None else str(done.error)
            now = self._clock.now()
            self._add(self._recorder.reconciled(done.ref, done.seconds, done.label.value, writes, error, now))

    def hot_loop_found(self, ref: ObjectRef, finding: HotLoopEvidence) -> None:
        """Do nothing, since log and metrics report a hot loop (a status that is written again and again)."""

    def _changed(self, change: CacheChange) -> None:
        self._observed(change.ref, None if change.type is ChangeType.DELETED else change.object)

    def _observed(self, ref: ObjectRef, manifest: Manifest | None) -> None:
        if self._recorder is not None and self._shard.owns(ref.namespace):
            self._add(self._recorder.object_changed(ref, manifest, self._clock.now()))

    def _add(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self._lost += len(self._waiting) == MOST_WAITING
            self._waiting.append(span)
            self._news.set()

    async def _deliver(self, failures: int) -> int:
        """Send a batch of spans, and return the number of consecutive failures.

        `failures` is the number before this attempt.
        """
        batch = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
        self._retry_after = 0.0
        try:
            await self._receiver.send(otlp(batch, self._cluster, self._version))
        except Invalid as error:
            _log.warning("the collector refuses spans; they are lost", spans=len(batch), error=error.message)
            return 0
        except OperatorError as error:
            if not failures:
                _log.warning("spans are not delivered; trying again", error=error.message, waiting=len(batch))
            if isinstance(error, Unavailable) and error.retry_after:
                self._retry_after = min(error.retry_after, _LONGEST_RETRY_SECONDS)
            room = MOST_WAITING - len(self._waiting)
            self._lost += max(len(batch) - room, 0)
            self._waiting.extendleft(reversed(batch[len(batch) - min(room, len(batch)) :]))
            return failures + 1
        except Exception as error:
            # A defect: its traceback is logged, but the process goes on. The same spans might cause it again.
            self._lost += len(batch)
            _log.error("delivering spans failed unexpectedly; they are lost", spans=len(batch), exc_info=error)
            return failures + 1
        if failures or self._lost:
            _log.info("spans are delivered again", waiting=len(self._waiting), lost=self._lost)
            self._lost = 0
        return 0
