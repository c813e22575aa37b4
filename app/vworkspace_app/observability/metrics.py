"""The metrics of one process, in its own registry: counted at each event, or read from the statistics at a scrape.

Only this module imports the Prometheus client. Counting is safe from any thread.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from purekube.apimachinery.certificates import Validity
from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.queue.own_writes import HotLoopEvidence
from purekube.controller.reconcile import ResultLabel
from purekube_run.controller.observer import Reconciled
from vworkspace_app.observability import catalogue as c
from vworkspace_app.observability.stats import LatestStats, stats_metrics
from vworkspace_core.api.operation import EngineName, OperationType, Phase
from vworkspace_core.jobs.result import JobOutcome

_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_OTHER: Final = "other"
_OF_EVERY_WEBHOOK: Final = ("200", "500")
"""The status codes whose series exist before a webhook's first review, as in controller-runtime."""
_RESULTS: Final = {label: label.value for label in ResultLabel} | {ResultLabel.TERMINAL: ResultLabel.ERROR.value}


class Metrics:
    """The metrics of the process, in a registry of their own.

    The values in `latest` have times of a monotonic clock, and `now` returns the present time of that clock. `server`
    is the URL of the API server. Its host is the value of a label, as in client-go's metrics.
    """

    def __init__(self, latest: LatestStats, now: Callable[[], float], server: str = "") -> None:
        self._host = urlsplit(server).netloc.rpartition("@")[2]
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        self._requests = self._counter(c.REQUESTS)
        self._request_series: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._jobs = self._counter(c.JOBS)
        self._operations = self._counter(c.OPERATIONS)
        self._reconciles = self._counter(c.RECONCILES)
        self._errors = self._counter(c.RECONCILE_ERRORS)
        self._terminal = self._counter(c.TERMINAL_ERRORS)
        self._panics = self._counter(c.PANICS)
        self._timeouts = self._counter(c.TIMEOUTS)
        self._hot_loops = self._counter(c.HOT_LOOPS)
        self._writes = self._counter(c.WRITES)
        self._reconcile_time = self._histogram(c.RECONCILE_TIME)
        self._queue_time = self._histogram(c.QUEUE_TIME)
        self._work_time = self._histogram(c.WORK_TIME)
        self._request_time = self._histogram(c.REQUEST_TIME)
        self._reviews = self._counter(c.WEBHOOK_REQUESTS)
        self._review_time = self._histogram(c.WEBHOOK_LATENCY)
        self._reviews_in_hand = self._gauge(c.WEBHOOKS_IN_FLIGHT)
        self._certificate: tuple[Gauge, Gauge] | None = None
        self.registry.register(_StatsCollector(latest, now))
        for outcome in JobOutcome:
            self._jobs.labels(outcome.value)

    def _counter(self, metric: c.Metric) -> Counter:
        return Counter(metric.name, metric.about, metric.labels, registry=self.registry)

    def _gauge(self, metric: c.Metric) -> Gauge:
        return Gauge(metric.name, metric.about, metric.labels, registry=self.registry)

    def _histogram(self, metric: c.Metric) -> Histogram:
        return Histogram(metric.name, metric.about, metric.labels, buckets=metric.buckets, registry=self.registry)

    def controller(self, name: str) -> "ControllerMetrics":
        """Return the metrics of a controller. All their series exist from now on, with the value zero."""
        counters = (self._errors, self._terminal, self._panics, self._timeouts, self._hot_loops, self._writes)
        for counter in counters:
            counter.labels(name)
        for result in _RESULTS.values():
            self._reconciles.labels(name, result)
        return ControllerMetrics(self, name)

    def request(self, method: str, code: str, seconds: float = 0.0) -> None:
        """Count a request to the API server that took `seconds`. `code` is `<error>` if there was no answer."""
        series = self._request_series.get((method, code))
        if series is None:
            known = code if code == "<error>" or (code.isdecimal() and len(code) == 3) else _OTHER
            verb = method if method in _METHODS else _OTHER
            series = self._requests.labels(known, verb), self._request_time.labels(verb, self._host)
            if _OTHER not in (known, verb):  # only known values: any other answer must not fill the memory
                self._request_series[method, code] = series
        answered, time = series
        answered.inc()
        time.observe(seconds)

    def certificate(self, validity: Validity) -> None:
        """Set when the certificate of the webhooks expires, and when its renewal is overdue.

        The metrics exist from the first call on.
        """
        expiry, overdue = self._certificate = self._certificate or (
            self._gauge(c.WEBHOOK_CERTIFICATE),
            self._gauge(c.WEBHOOK_RENEWAL),
        )
        expiry.set(validity.expires.timestamp())
        overdue.set(validity.overdue.timestamp())

    def webhook(self, path: str) -> None:
        """Create the metric series of the webhook at `path`, with the value zero."""
        for code in _OF_EVERY_WEBHOOK:
            self._reviews.labels(path, code)
        self._review_time.labels(path)
        self._reviews_in_hand.labels(path)

    def review_began(self, path: str) -> None:
        """Count a review that a webhook received."""
        self._reviews_in_hand.labels(path).inc()

    def review_ended(self, path: str, code: int, seconds: float) -> None:
        """Count a review that was answered with the HTTP code `code` after `seconds`, or abandoned by the client."""
        self._reviews_in_hand.labels(path).dec()
        self._reviews.labels(path, str(code)).inc()
        self._review_time.labels(path).observe(seconds)

    def job(self, outcome: str) -> None:
        """Count a job of the control plane that has a result."""
        self._jobs.labels(_one_of(JobOutcome, outcome)).inc()

    def operation(self, type_: str, engine: str, phase: str) -> None:
        """Count an Operation that entered `phase`. Its engine is the tool that carries it out, such as velero."""
        self.expect_operations(type_, engine)
        self._operations.labels(_one_of(OperationType, type_), _one_of(EngineName, engine), _one_of(Phase, phase)).inc()

    def expect_operations(self, type_: str, engine: str) -> None:
        """Create the series of Operations of a type with an engine, with the value zero, one for each phase.

        Prometheus sees no increase in a series that begins with one: the first failure would raise no alert.
        """
        for known in Phase:
            self._operations.labels(_one_of(OperationType, type_), _one_of(EngineName, engine), known.value)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their media type, in the format that the scraper's `Accept` header requests."""
        encode, media_type = choose_encoder(accept)
        return encode(_WithoutCreated(self.registry)), media_type


class ControllerMetrics:
    """A `ReconcileObserver` that counts the reconciles of one controller."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics = metrics
        self._name = name
        self._results = {label: metrics._reconciles.labels(name, result) for label, result in _RESULTS.items()}
        self._reconcile_time = metrics._reconcile_time.labels(name)
        self._queue_time = metrics._queue_time.labels(name, name)
        self._work_time = metrics._work_time.labels(name, name)

    def reconciled(self, done: Reconciled) -> None:
        """Count a reconcile pass that has ended."""
        metrics, name = self._metrics, self._name
        self._results[done.label].inc()
        self._reconcile_time.observe(done.seconds)
        self._queue_time.observe(done.waited)
        self._work_time.observe(done.seconds)
        failed = done.label in (ResultLabel.ERROR, ResultLabel.TERMINAL)
        for counter, happened in (
            (metrics._errors, failed),
            (metrics._terminal, done.label is ResultLabel.TERMINAL),
            (metrics._panics, done.crashed),
            (metrics._timeouts, done.timed_out),
        ):
            if happened:
                counter.labels(name).inc()
        if done.executed:
            metrics._writes.labels(name).inc(len(done.executed))

    def hot_loop_found(self, ref: ObjectRef, finding: HotLoopEvidence) -> None:
        """Count a hot loop: the status of an object is written again and again. Only the log names the object."""
        self._metrics._hot_loops.labels(self._name).inc()


class _StatsCollector(Collector):
    """A collector for the Prometheus client, which makes metrics from the newest statistics at each scrape."""

    def __init__(self, latest: LatestStats, now: Callable[[], float]) -> None:
        self._latest = latest
        self._now = now

    def collect(self) -> Iterator[Family]:
        """Yield every metric that is read from the statistics."""
        for metric, samples in stats_metrics(self._latest.current, self._now()):
            yield _family(metric, samples)


class _WithoutCreated(Collector):
    """A view of a registry without the `_created` series, which double every counter and which no dashboard reads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        """Yield every metric family without its `_created` series."""
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def _family(metric: c.Metric, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    counter = metric.type is c.Type.COUNTER
    # The Prometheus client appends `_total` to a counter, as OpenMetrics requires.
    family = Family(metric.name.removesuffix("_total") if counter else metric.name, metric.about, metric.type.value)
    for values, value in samples:
        family.add_sample(metric.name, dict(zip(metric.labels, values, strict=True)), value)
    return family


def _one_of(known: Any, text: str) -> str:
    return text if text in set(known) else _OTHER
