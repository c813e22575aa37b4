"""Health and readiness of the process, judged from a snapshot of its activity (RUN-5).

`healthy` fails for faults that a restart can fix: a blocked event loop, an informer or worker pool that makes no
progress, a connection to the API server that only this process may have lost. `ready` fails while the caches are not
complete and recent. Times are in seconds.
"""

from collections.abc import Iterator
from typing import Final

import attrs


@attrs.frozen
class InformerVitals:
    """The state of one informer for health checks. Ages are in seconds, and infinite for events that never happened.

    `answered_ago` is the age of the server's last answer, refusals included. `heard_ago` is the age of the last answer
    that brought the store up to date. `moved_ago` is the age of the informer's own last action. `patience` is how many
    seconds the informer may now be idle. `trouble` is the last failure without secrets, empty if there is none.
    """

    name: str
    has_synced: bool
    answered_ago: float
    heard_ago: float
    moved_ago: float
    patience: float
    trouble: str = ""


@attrs.frozen
class WorkerPoolVitals:
    """The state of one worker pool for health checks. A key identifies an object to reconcile.

    `active` is False on a standby, whose keys wait until the process is the leader. `ready` is the number of keys that
    could be taken now, `running` the number of keys being reconciled. `oldest` is for how many seconds the longest of
    these reconciles has run; `unfinished` is the sum over all of them. A reconcile is cancelled after `time_limit`
    seconds. `moved_ago` is the number of seconds since a key was last taken or finished.
    """

    name: str
    active: bool
    ready: int
    running: int
    workers: int
    oldest: float
    time_limit: float
    moved_ago: float
    unfinished: float = 0.0


@attrs.frozen
class Vitals:
    """The state of the process at one moment, from which the health checks judge it.

    `started` is True once informers and worker pools exist; they are created only after the API server has answered.
    `stopping` is True during shutdown.
    """

    started: bool = False
    stopping: bool = False
    informers: tuple[InformerVitals, ...] = ()
    worker_pools: tuple[WorkerPoolVitals, ...] = ()
    shard: str = ""
    """The name of this process's shard; empty if there is only one shard. The readiness report has a line with this
    name, which never reports a failure.
    """


@attrs.frozen
class HealthBounds:
    """The limits of the health checks, in seconds: the longest silence or delay for which the event loop, an informer,
    a worker pool or the API server still counts as healthy.
    """

    loop: float = 10.0
    """The longest time without a sign of life from the event loop. A garbage collection takes less, and a kubelet
    probes every ten seconds.
    """
    slack: float = 30.0
    """The tolerance beyond the time limit of an informer or a reconcile: cancelling and cleaning up take a moment."""
    idle: float = 60.0
    """The longest time for which ready keys may wait while a worker is free."""
    stale: float = 900.0
    """The longest silence of the API server; longer than the longest watch without an event (620 s)."""


DEFAULT_BOUNDS: Final = HealthBounds()


@attrs.frozen
class HealthResult:
    """The result of one health check. `problem` is a message for people; empty for a healthy result."""

    name: str
    problem: str = ""


@attrs.frozen
class HealthReport:
    """The results of all checks of one health endpoint, `/healthz` or `/readyz`."""

    checks: tuple[HealthResult, ...]

    @property
    def ok(self) -> bool:
        """True if no check found a problem."""
        return not any(check.problem for check in self.checks)

    def text(self) -> str:
        """Return one line per check, as the health endpoints of Kubernetes do, and a last line with the
        overall result.
        """
        lines = [
            f"[-]{check.name} failed: {check.problem}" if check.problem else f"[+]{check.name} ok"
            for check in self.checks
        ]
        return "\n".join((*lines, "check passed" if self.ok else "check failed", ""))


def healthy(vitals: Vitals, age: float, bounds: HealthBounds = DEFAULT_BOUNDS) -> HealthReport:
    """Check whether the process may continue to run (`/healthz`).

    The report has one result for the event loop, and one for each informer and each worker pool. `age` is how many
    seconds ago the event loop published these vitals. `bounds` are the longest delays and silences that still count as
    healthy. A missing CRD, a refused request and a short outage of the API server are no reasons to restart.
    """
    informers = (
        HealthResult(f"informer {informer.name}", _stuck(informer, bounds) or _lost(informer, bounds))
        for informer in vitals.informers
    )
    worker_pools = (HealthResult(f"driver {driver.name}", _idle(driver, bounds)) for driver in vitals.worker_pools)
    return HealthReport((_loop(age, bounds), *informers, *worker_pools))


def ready(vitals: Vitals, age: float, bounds: HealthBounds = DEFAULT_BOUNDS) -> HealthReport:
    """Check whether the caches are complete and recent (`/readyz`). The report also fails during startup and shutdown.

    `age` is how many seconds ago the event loop published these vitals. `bounds` are the longest delays and silences
    that still count as healthy.
    """
    return HealthReport((_loop(age, bounds), *_beginning_and_end(vitals), *_caches(vitals, bounds)))


def _beginning_and_end(vitals: Vitals) -> Iterator[HealthResult]:
    if vitals.shard:
        yield HealthResult(f"shard {vitals.shard}")
    yield HealthResult("started", "" if vitals.started else "waiting for the API server and the credential")
    yield HealthResult("shutdown", "the process is shutting down" if vitals.stopping else "")


def _caches(vitals: Vitals, bounds: HealthBounds) -> Iterator[HealthResult]:
    for informer in vitals.informers:
        trouble = f"; last trouble: {informer.trouble}" if informer.trouble else ""
        if not informer.has_synced:
            yield HealthResult(f"cache {informer.name}", f"not listed yet{trouble}")
        elif informer.heard_ago > bounds.stale:
            yield HealthResult(f"cache {informer.name}", f"nothing was heard for {informer.heard_ago:.0f} s{trouble}")
        else:
            yield HealthResult(f"cache {informer.name}")


def _loop(age: float, bounds: HealthBounds) -> HealthResult:
    late = age > bounds.loop
    return HealthResult("event loop", f"blocked: it gave no sign of life for {age:.0f} s" if late else "")


def _stuck(informer: InformerVitals, bounds: HealthBounds) -> str:
    limit = informer.patience + bounds.slack
    return f"stuck: it did nothing for {informer.moved_ago:.0f} s" if informer.moved_ago > limit else ""


def _lost(informer: InformerVitals, bounds: HealthBounds) -> str:
    if informer.answered_ago <= bounds.stale:
        return ""
    trouble = f"; last trouble: {informer.trouble}" if informer.trouble else ""
    return f"stale: the API server said nothing for {informer.answered_ago:.0f} s{trouble}"


def _idle(driver: WorkerPoolVitals, bounds: HealthBounds) -> str:
    if driver.oldest > driver.time_limit + bounds.slack:
        return f"stuck: a reconcile runs for {driver.oldest:.0f} s, and its limit is {driver.time_limit:.0f} s"
    if driver.active and driver.ready and driver.running < driver.workers and driver.moved_ago > bounds.idle:
        return f"stuck: {driver.ready} keys wait and no worker took one for {driver.moved_ago:.0f} s"
    return ""
