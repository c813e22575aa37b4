"""The catalogue of the operator's metrics: name, labels and meaning; docs/metrics.md is generated from it (RUN-5).

Names that controller-runtime and client-go use are the same here, so that dashboards made for them work. Labels have
few values: kinds, controllers, codes. Names of objects are labels only if a setting allows some.
"""

from enum import StrEnum
from functools import partial
from typing import Final

import attrs


class Type(StrEnum):
    """The type of a metric in Prometheus: counter, gauge or histogram."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@attrs.frozen
class Metric:
    """One metric. `name` includes the suffix `_total` of a counter, `about` is the help text.

    `labels` are the names of its labels, `buckets` the upper bounds of a histogram.
    """

    name: str
    type: Type
    labels: tuple[str, ...]
    about: str
    buckets: tuple[float, ...] = ()


_RECONCILE_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_QUEUE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)
_REVIEW_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def _metric(metric_type: Type, words: str, about: str, buckets: tuple[float, ...] = ()) -> Metric:
    """Return the metric with the name and the labels in `words`, separated by spaces."""
    name, *labels = words.split(" ")
    return Metric(name, metric_type, tuple(labels), about, buckets)


_counter, _gauge = partial(_metric, Type.COUNTER), partial(_metric, Type.GAUGE)
_histogram = partial(_metric, Type.HISTOGRAM)

RECONCILES = _counter(
    "controller_runtime_reconcile_total controller result",
    "Reconciles by result: success, requeue_after, requeue, error.",
)
RECONCILE_ERRORS = _counter(
    "controller_runtime_reconcile_errors_total controller", "Reconciles that ended in an error."
)
TERMINAL_ERRORS = _counter(
    "controller_runtime_terminal_reconcile_errors_total controller",
    "Of those, the ones that are not tried again: another spec or a person must help.",
)
PANICS = _counter(
    "controller_runtime_reconcile_panics_total controller", "Reconciles that raised what they should not."
)
TIMEOUTS = _counter(
    "controller_runtime_reconcile_timeouts_total controller", "Reconciles cancelled at their time limit."
)
WRITES = _counter(
    "vworkspace_operator_writes_total controller",
    "Writes to the API server by the reconciles of a controller, statuses included.",
)
RECONCILE_TIME = _histogram(
    "controller_runtime_reconcile_time_seconds controller", "Length of a reconcile.", _RECONCILE_BUCKETS
)
MAX_WORKERS = _gauge(
    "controller_runtime_max_concurrent_reconciles controller", "Reconciles that may run at the same time."
)
ACTIVE_WORKERS = _gauge("controller_runtime_active_workers controller", "Reconciles that run at the moment.")
DEPTH = _gauge("workqueue_depth name controller priority", "Keys that could be taken now, by priority.")
ADDS = _counter("workqueue_adds_total name controller", "Adds to the queue, repeated ones included.")
RETRIES = _counter("workqueue_retries_total name controller", "Keys given back for another try.")
QUEUE_TIME = _histogram(
    "workqueue_queue_duration_seconds name controller", "How long a key was ready before it was taken.", _QUEUE_BUCKETS
)
WORK_TIME = _histogram(
    "workqueue_work_duration_seconds name controller",
    "How long a key was in hand once it was taken.",
    _RECONCILE_BUCKETS,
)
UNFINISHED = _gauge(
    "workqueue_unfinished_work_seconds name controller", "For how long everything in hand has been so, together."
)
LONGEST = _gauge(
    "workqueue_longest_running_processor_seconds name controller", "Age of the oldest reconcile under way."
)
REQUESTS = _counter(
    "rest_client_requests_total code method", "Requests to the API server; code <error> without an answer."
)
REQUEST_TIME = _histogram(
    "rest_client_request_duration_seconds verb host",
    "Until the API server's answer to a request began, by its method.",
    _RECONCILE_BUCKETS,
)
WEBHOOK_REQUESTS = _counter(
    "controller_runtime_webhook_requests_total webhook code",
    "Admission reviews by the path of the webhook and the HTTP code; one that refuses an object is answered with 200.",
)
WEBHOOK_LATENCY = _histogram(
    "controller_runtime_webhook_latency_seconds webhook",
    "From the head of an admission review to its answer.",
    _REVIEW_BUCKETS,
)
WEBHOOKS_IN_FLIGHT = _gauge(
    "controller_runtime_webhook_requests_in_flight webhook", "Admission reviews in hand at the moment."
)
WEBHOOK_CERTIFICATE = _gauge(
    "vworkspace_operator_webhook_certificate_expiration_timestamp_seconds",
    "When the certificate of the webhooks expires, as Unix time; absent where none are served.",
)
WEBHOOK_RENEWAL = _gauge(
    "vworkspace_operator_webhook_certificate_overdue_timestamp_seconds",
    "When its renewal is overdue, as Unix time: 14 days or a quarter of its life before it expires.",
)
INSTANCES = _gauge(
    "vworkspace_operator_instances condition status reason",
    "ApplicationInstances by what a condition of theirs says; a reason that is not ours is `other`.",
)
OPERATION_STATES = _gauge(
    "vworkspace_operator_operations condition status reason", "Operations by what a condition of theirs says, likewise."
)
INSTANCES_OLDEST = _gauge(
    "vworkspace_operator_instances_oldest_seconds condition status reason",
    "For how long the ApplicationInstance that has had this status longest has had it; only of conditions that "
    "people wait for the end of. 0 without any.",
)
OPERATIONS_OLDEST = _gauge(
    "vworkspace_operator_operations_oldest_seconds condition status reason", "For how long the Operation has, likewise."
)
PARENTS = _gauge(
    "vworkspace_operator_parents group kind condition status reason",
    "Objects of the kinds of boxes and pure reconcilers, by what a standard condition of theirs says.",
)
PARENTS_OLDEST = _gauge(
    "vworkspace_operator_parents_oldest_seconds group kind condition status reason",
    "For how long the one that has had this status longest has had it.",
)
BOXES = _gauge(
    "vworkspace_operator_boxes condition status reason", "Applied boxes by what a condition of theirs says, likewise."
)
BOXES_OLDEST = _gauge(
    "vworkspace_operator_boxes_oldest_seconds condition status reason", "For how long the applied box has, likewise."
)
BOX_OBJECTS = _gauge(
    "vworkspace_operator_box_objects box state",
    "Objects of an applied box: total; moved to the revision of its rollout, waiting to be, pinned to another; "
    "and of those moved, ready and failed.",
)
UNREADY = _gauge(
    "vworkspace_operator_unready_seconds group kind object_namespace object_name reason",
    "For how long objects have not been Ready, by name: of each kind those that have not been for the longest, as "
    "many as --metrics-names says; none without it.",
)
JOB_LAG = _gauge(
    "vworkspace_operator_pull_job_lag_seconds",
    "Age of the oldest job that was offered and is not answered yet, by the control plane's clock; 0 without any.",
)
OPEN_JOBS = _gauge("vworkspace_operator_open_jobs", "Jobs between offer and closed record.")
CONNECTIVITY = _gauge(
    "vworkspace_operator_connectivity_state mode",
    "1 for what the last poll said of the control plane: unknown, connected, unreachable or rejected.",
)
JOBS = _counter("vworkspace_operator_applied_jobs_total outcome", "Jobs that came to a result, by outcome.")
OCCUPANCY = _gauge(
    "vworkspace_operator_event_buffer_occupancy",
    "Part of the buffer of events for the control plane that is filled, 0 to 1; at 1 the oldest are dropped.",
)
CREDENTIAL_AGE = _gauge(
    "vworkspace_operator_credential_age_seconds",
    "Since when the present token is in its Secret or file; absent where nothing tells.",
)
OPERATIONS = _counter(
    "vworkspace_operator_operation_total type engine phase", "Operations that came to a phase while this process led."
)
NAMESPACES = _gauge("vworkspace_operator_managed_namespaces", "The managed namespaces.")
SYNCED = _gauge("vworkspace_operator_informer_synced group kind", "1 once the cache of a kind is whole.")
MISSING = _gauge("vworkspace_operator_informer_missing group kind", "1 while the API server does not serve a kind.")
LAST_EVENT = _gauge(
    "vworkspace_operator_informer_last_event_age_seconds group kind",
    "Since when the API server said nothing about a kind, bookmarks included.",
)
RELISTS = _counter("vworkspace_operator_informer_relists_total group kind cause", "Lists begun again, by cause.")
TROUBLES = _counter(
    "vworkspace_operator_informer_troubles_total group kind", "Lists and watches that failed and were tried again."
)
OBJECTS = _gauge("vworkspace_operator_informer_objects group kind", "Objects in the cache.")
BYTES = _gauge("vworkspace_operator_informer_bytes group kind", "Bytes that they take, packed.")
HOT_LOOPS = _counter("vworkspace_operator_hot_loops_total controller", "Objects found whose status keeps changing.")
LIVE_READS = _counter(
    "vworkspace_operator_live_reads_total controller", "Reconciles whose cache did not show a write in time."
)
EVENTS = _counter(
    "vworkspace_operator_kubernetes_events_total outcome",
    "Kubernetes Events: created, repeated (the series of an earlier one grew), dropped, or superseded by a later one.",
)
LOOP_SILENCE = _gauge(
    "vworkspace_operator_event_loop_silence_seconds", "Since the event loop's last sign of life, given each second."
)
LEADER = _gauge("leader_election_master_status name", "1 while this process leads; absent without --leader-elect.")
SHARD = _gauge(
    "vworkspace_operator_shard_info shard shards",
    "1; the share of the namespaces that this process works on, as --shard says it.",
)
BUILD = _gauge("vworkspace_operator_build_info version python", "1; what runs.")

CATALOGUE: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
