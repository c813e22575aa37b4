"""Observers of a worker pool's reconciles, for logs and metrics, and the pool's own counters (RUN-3, RUN-5)."""

from collections import Counter
from contextvars import ContextVar
from traceback import walk_tb
from typing import Any, Final, Protocol

import attrs
import structlog

from purekube.apimachinery.errors import OperatorError, Unavailable
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.controller.decision import Decision
from purekube.controller.event_series import Once
from purekube.controller.queue.own_writes import HotLoopDetector, HotLoopEvidence, fingerprint
from purekube.controller.queue.workqueue import QueueStats
from purekube.controller.reconcile import ReconcileResult, ResultLabel

_log = structlog.get_logger("driver")

DECISION: Final[ContextVar[object]] = ContextVar("decision", default=None)
"""The decision, or the step of a controller in Python, that a worker's task carries out now; None if it has none yet.

An observer of a write learns from it why the write is made.
"""


@attrs.frozen
class Reconciled:
    """The report about one finished reconcile of the object `ref`, for observers that log or count.

    `label` is the kind of result, such as `success` or `error`, as in metrics. The reconcile took `seconds`, after its
    key had waited `waited` seconds in the queue. `error` is the error that it returned or raised. `crashed` means that
    the error is a defect, not an OperatorError. `timed_out` means that it was cancelled at its time limit. `decision`
    is its last decision (the writes that it wanted), and `executed` has the verb and the object of each write.
    """

    ref: ObjectRef
    label: ResultLabel
    seconds: float
    waited: float
    error: Exception | None = None
    crashed: bool = False
    timed_out: bool = False
    decision: Decision = attrs.field(factory=Decision, repr=False)
    executed: tuple[tuple[str, ObjectRef], ...] = ()


class ReconcileObserver(Protocol):
    """The interface for receivers of reports about reconciles.

    The methods are called synchronously, and must not raise exceptions.
    """

    def reconciled(self, done: Reconciled) -> None:
        """Receive `done`, the report on a reconcile that ended."""
        ...

    def hot_loop_found(self, ref: ObjectRef, finding: HotLoopEvidence) -> None:
        """Receive the evidence of a hot loop: passes change the status of the object `ref` again and again without
        progress.
        """
        ...


@attrs.frozen
class Observers:
    """A group of observers that acts as one: each report is passed to every observer in `each`."""

    each: tuple[ReconcileObserver, ...]

    def reconciled(self, done: Reconciled) -> None:
        """Pass `done`, the report on a reconcile that ended, to each observer."""
        for observer in self.each:
            observer.reconciled(done)

    def hot_loop_found(self, ref: ObjectRef, finding: HotLoopEvidence) -> None:
        """Pass `finding`, the evidence of a hot loop of the object `ref`, to each observer."""
        for observer in self.each:
            observer.hot_loop_found(ref, finding)


class LoggingObserver:
    """An observer that logs each failure and each hot loop once until it changes, and every reconcile at level `debug`.

    In a hot loop, reconciles change the status of an object again and again without progress.
    """

    def __init__(self) -> None:
        self._failing: Once = Once()
        self._crashes: Once = Once()

    def reconciled(self, done: Reconciled) -> None:
        """Log a failed reconcile, or the first success after a failure, from the report `done`.

        A crash, which is a defect, is logged with its traceback.
        """
        fields = {"object": str(done.ref), "verdict": done.label.value, "seconds": round(done.seconds, 3)}
        if done.error is None:
            if self._failing.forget(str(done.ref)):
                _log.info("reconcile succeeds again", **fields)
            else:
                _log.debug("reconciled", **fields)
        elif done.crashed:
            self._crashed(done, fields)
        else:
            is_overtaken = done.label is ResultLabel.REQUEUE
            is_new = not is_overtaken and self._failing.first(str(done.ref), str(done.error))
            (_log.warning if is_new else _log.debug)("reconcile failed", error=str(done.error), **fields)

    def _crashed(self, done: Reconciled, fields: dict[str, Any]) -> None:
        """Log a crash of the reconcile `done`. The traceback is logged once for each object and line of code."""
        what = f"{type(done.error).__name__} {raised_at(done.error)}"
        is_new = self._crashes.first(str(done.ref), what)
        self._failing.first(str(done.ref), what)
        _log.error("reconcile crashed", exc_info=done.error if is_new else None, error=what, **fields)

    def hot_loop_found(self, ref: ObjectRef, finding: HotLoopEvidence) -> None:
        """Log the object and the evidence of its hot loop."""
        _log.warning("hot loop: the status keeps changing", object=str(ref), **attrs.asdict(finding))


def raised_at(error: BaseException | None) -> str:
    """Return the function and the line of code that raised the exception, as text for the log."""
    calls = [] if error is None else list(walk_tb(error.__traceback__))
    return f"{calls[-1][0].f_code.co_qualname}:{calls[-1][1]}" if calls else ""


@attrs.frozen
class WorkerPoolStats:
    """The numbers of a worker pool: its reconciles since its start, and the keys that are in its queue now.

    A key is the reference of an object to reconcile. `results` has the number of reconciles by their kind of result,
    such as `success` or `error`.
    """

    results: dict[str, int]
    crashes: int
    timeouts: int
    postponed: int
    live_reads: int
    hot_loops: int
    queue: QueueStats


@attrs.frozen
class ReconcileAttempt:
    """One attempt to reconcile the object of a key: the result of the reconcile, or the failure that ended it."""

    result: ReconcileResult
    crash: Exception | None = None
    timed_out: bool = False

    @classmethod
    def failed(cls, error: OperatorError) -> "ReconcileAttempt":
        """Return an attempt that raised an OperatorError."""
        return cls(ReconcileResult(error=error))

    @classmethod
    def crashed(cls, error: Exception) -> "ReconcileAttempt":
        """Return an attempt that raised an exception other than OperatorError, which is a defect."""
        return cls(ReconcileResult(error=Unavailable("the reconcile crashed")), crash=error)

    @classmethod
    def late(cls, limit: float) -> "ReconcileAttempt":
        """Return an attempt that was cancelled after `limit` seconds."""
        error = Unavailable(f"the reconcile was cancelled after {limit:g} s")
        return cls(ReconcileResult(error=error), timed_out=True)


class WorkerPoolCounters:
    """The counters of one worker pool's reconciles, for metrics and logs.

    Each finished reconcile is also reported to an observer, and so are hot loops: passes that change an object's status
    again and again.
    """

    def __init__(self, observer: ReconcileObserver, detector: HotLoopDetector[ObjectRef]) -> None:
        self._observer = observer
        self._detector = detector
        self._counts: Counter[str] = Counter()

    def postponed(self) -> None:
        """Count a reconcile that is postponed because the cache does not show yet what an earlier reconcile wrote."""
        self._counts["postponed"] += 1

    def read_live(self) -> None:
        """Count a reconcile before which written objects are read live, since the cache did not show the writes in
        time.
        """
        self._counts["live_reads"] += 1

    def record(self, key: ObjectRef, attempt: ReconcileAttempt, *, began: float, now: float, waited: float) -> None:
        """Count a finished attempt to reconcile `key`, which began at `began` and ended at `now` (monotonic seconds).

        The key had waited in the queue for `waited` seconds.
        """
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
        """Return the counts of reconciles so far, together with `queue`, the present counts of the queue's keys."""
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
