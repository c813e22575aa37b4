"""Counts of a worker pool's work; its observer and the detection of hot loops (RUN-3, RUN-5)."""

from collections import Counter

import attrs

from purekube.apimachinery.errors import OperatorError, Unavailable
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.controller.queue.own_writes import HotLoopDetector, fingerprint
from purekube.controller.queue.workqueue import QueueStats
from purekube.controller.reconcile import ReconcileResult, ResultLabel
from purekube_run.controller.observer import Reconciled, ReconcileObserver


@attrs.frozen
class WorkerPoolStats:
    """Counts since the start, and the queue's numbers at this moment."""

    results: dict[str, int]
    crashes: int
    timeouts: int
    postponed: int
    live_reads: int
    hot_loops: int
    queue: QueueStats


@attrs.frozen
class ReconcileAttempt:
    """One run of a reconcile: its result, or the failure that replaced it."""

    result: ReconcileResult
    crash: Exception | None = None
    timed_out: bool = False

    @classmethod
    def failed(cls, error: OperatorError) -> "ReconcileAttempt":
        """Return an attempt that raised an error of the core."""
        return cls(ReconcileResult(error=error))

    @classmethod
    def crashed(cls, error: Exception) -> "ReconcileAttempt":
        """Return an attempt that raised another exception: a defect."""
        return cls(ReconcileResult(error=Unavailable("the reconcile crashed")), crash=error)

    @classmethod
    def late(cls, limit: float) -> "ReconcileAttempt":
        """Return an attempt that was cancelled after `limit` seconds."""
        error = Unavailable(f"the reconcile was cancelled after {limit:g} s")
        return cls(ReconcileResult(error=error), timed_out=True)


class WorkerPoolCounters:
    """The counts of one worker pool, for metrics and logs."""

    def __init__(self, observer: ReconcileObserver, detector: HotLoopDetector[ObjectRef]) -> None:
        self._observer = observer
        self._detector = detector
        self._counts: Counter[str] = Counter()

    def postponed(self) -> None:
        """Count a key that waits because the cache has not seen its writes."""
        self._counts["postponed"] += 1

    def read_live(self) -> None:
        """Count a key that gave up waiting for the cache, and reads live."""
        self._counts["live_reads"] += 1

    def record(self, key: ObjectRef, attempt: ReconcileAttempt, *, began: float, now: float, waited: float) -> None:
        """Count an attempt that ended; times are monotonic seconds, `waited` the seconds in the queue before it."""
        result = attempt.result
        self._counts.update({result.label.value: 1, "crashes": bool(attempt.crash), "timeouts": attempt.timed_out})
        self._observer.reconciled(
            Reconciled(
                ref=key,
                label=result.label,
                seconds=now - began,
                waited=waited,
                error=attempt.crash or result.error,
                crashed=attempt.crash is not None,
                timed_out=attempt.timed_out,
                decision=result.decision,
                executed=result.executed,
            )
        )
        self._detect(key, now, result)

    def stats(self, queue: QueueStats) -> WorkerPoolStats:
        """Return the counts at this moment."""
        counts = self._counts
        return WorkerPoolStats(
            results={label.value: counts[label.value] for label in ResultLabel},
            crashes=counts["crashes"],
            timeouts=counts["timeouts"],
            postponed=counts["postponed"],
            live_reads=counts["live_reads"],
            hot_loops=counts["hot_loops"],
            queue=queue,
        )

    def _detect(self, key: ObjectRef, now: float, result: ReconcileResult) -> None:
        if result.status is None or result.error is not None:
            return
        generation = get_path(result.status, "status", "observedGeneration") or 0
        hot_loop = self._detector.record(key, now, fingerprint(result.status), generation)
        if hot_loop is not None:
            self._counts["hot_loops"] += 1
            self._observer.hot_loop_found(key, hot_loop)
