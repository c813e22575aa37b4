"""Who is told what the driver does: logs here, metrics elsewhere (RUN-3, RUN-5)."""

from typing import Protocol

import attrs
import structlog

from vworkspace_core.manifest import ObjectRef
from vworkspace_core.runtime.hotloop import HotLoop
from vworkspace_core.runtime.result import Verdict

__all__ = ["DriverObserver", "LoggingObserver", "Observers", "Reconciled"]

_log = structlog.get_logger("driver")


@attrs.frozen
class Reconciled:
    """One reconcile. `seconds` is how long it took, `waited` how long the key had been ready before.

    `error` is what it returned or raised; `crashed` tells a raised foreign exception, `timed_out` a
    reconcile that was cancelled at its time limit.
    """

    ref: ObjectRef
    verdict: Verdict
    seconds: float
    waited: float
    error: Exception | None = None
    crashed: bool = False
    timed_out: bool = False


class DriverObserver(Protocol):
    """Told of what happens, synchronously. Must not raise."""

    def reconciled(self, done: Reconciled) -> None:
        """A reconcile ended."""
        ...

    def hot(self, ref: ObjectRef, finding: HotLoop) -> None:
        """An object's status keeps changing without getting anywhere."""
        ...


@attrs.frozen
class Observers:
    """Tells several observers."""

    each: tuple[DriverObserver, ...]

    def reconciled(self, done: Reconciled) -> None:
        """Tell each."""
        for one in self.each:
            one.reconciled(done)

    def hot(self, ref: ObjectRef, finding: HotLoop) -> None:
        """Tell each."""
        for one in self.each:
            one.hot(ref, finding)


class LoggingObserver:
    """Writes failures and hot loops to the log."""

    def reconciled(self, done: Reconciled) -> None:
        """Log what did not succeed; a crash with its traceback, since it is a defect."""
        if done.error is None:
            return
        fields = {"object": str(done.ref), "verdict": done.verdict.value, "seconds": round(done.seconds, 3)}
        if done.crashed:
            _log.error("reconcile crashed", exc_info=done.error, **fields)
        else:
            _log.warning("reconcile failed", error=str(done.error), **fields)

    def hot(self, ref: ObjectRef, finding: HotLoop) -> None:
        """Name the object."""
        _log.warning("hot loop: the status keeps changing", object=str(ref), **attrs.asdict(finding))
