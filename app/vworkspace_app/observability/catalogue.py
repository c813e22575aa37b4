"""The catalogue of the operator's metrics: name, labels and meaning; docs/metrics.md is generated from it (RUN-5).

Names that controller-runtime and client-go use are the same here, so that dashboards made for them work. Labels have
few values: kinds, controllers, codes. Names of objects are labels only if a setting allows some.
"""

from enum import StrEnum
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
_C, _G, _H = Type.COUNTER, Type.GAUGE, Type.HISTOGRAM
_BY_CONTROLLER: Final = ("controller",)
_BY_WEBHOOK: Final = ("webhook",)
_BY_QUEUE: Final = ("name", "controller")
_BY_KIND: Final = ("group", "kind")
_BY_CONDITION: Final = ("condition", "status", "reason")

RECONCILES = Metric(
    "controller_runtime_reconcile_total",
    _C,
    ("controller", "result"),
    "Reconciles by result: success, requeue_after, requeue, error.",
)
RECONCILE_ERRORS = Metric(
    "controller_runtime_reconcile_errors_total", _C, _BY_CONTROLLER, "Reconciles that ended in an error."
)
TERMINAL_ERRORS = Metric(
    "controller_runtime_terminal_reconcile_errors_total",
    _C,
    _BY_CONTROLLER,
    "Of those, the ones that are not tried again: another spec or a person must help.",
)
PANICS = Metric(
    "controller_runtime_reconcile_panics_total", _C, _BY_CONTROLLER, "Reconciles that raised what they should not."
)
TIMEOUTS = Metric(
    "controller_runtime_reconcile_timeouts_total", _C, _BY_CONTROLLER, "Reconciles cancelled at their time limit."
)
WRITES = Metric(
    "vworkspace_operator_writes_total",
    _C,
    _BY_CONTROLLER,
    "Writes to the API server by the reconciles of a controller, statuses included.",
)
RECONCILE_TIME = Metric(
    "controller_runtime_reconcile_time_seconds", _H, _BY_CONTROLLER, "Length of a reconcile.", _RECONCILE_BUCKETS
)
MAX_WORKERS = Metric(
    "controller_runtime_max_concurrent_reconciles", _G, _BY_CONTROLLER, "Reconciles that may run at the same time."
)
ACTIVE_WORKERS = Metric("controller_runtime_active_workers", _G, _BY_CONTROLLER, "Reconciles that run at the moment.")
DEPTH = Metric("workqueue_depth", _G, (*_BY_QUEUE, "priority"), "Keys that could be taken now, by priority.")
ADDS = Metric("workqueue_adds_total", _C, _BY_QUEUE, "Adds to the queue, repeated ones included.")
RETRIES = Metric("workqueue_retries_total", _C, _BY_QUEUE, "Keys given back for another try.")
QUEUE_TIME = Metric(
    "workqueue_queue_duration_seconds", _H, _BY_QUEUE, "How long a key was ready before it was taken.", _QUEUE_BUCKETS
)
WORK_TIME = Metric(
    "workqueue_work_duration_seconds",
    _H,
    _BY_QUEUE,
    "How long a key was in hand once it was taken.",
    _RECONCILE_BUCKETS,
)
UNFINISHED = Metric(
    "workqueue_unfinished_work_seconds", _G, _BY_QUEUE, "For how long everything in hand has been so, together."
)
LONGEST = Metric("workqueue_longest_running_processor_seconds", _G, _BY_QUEUE, "Age of the oldest reconcile under way.")
REQUESTS = Metric(
    "rest_client_requests_total",
    _C,
    ("code", "method"),
    "Requests to the API server; code <error> without an answer.",
)
REQUEST_TIME = Metric(
    "rest_client_request_duration_seconds",
    _H,
    ("verb", "host"),
    "Until the API server's answer to a request began, by its method.",
    _RECONCILE_BUCKETS,
)
WEBHOOK_REQUESTS = Metric(
    "controller_runtime_webhook_requests_total",
    _C,
    ("webhook", "code"),
    "Admission reviews by the path of the webhook and the HTTP code; one that refuses an object is answered with 200.",
)
WEBHOOK_LATENCY = Metric(
    "controller_runtime_webhook_latency_seconds",
    _H,
    _BY_WEBHOOK,
    "From the head of an admission review to its answer.",
    _REVIEW_BUCKETS,
)
WEBHOOKS_IN_FLIGHT = Metric(
    "controller_runtime_webhook_requests_in_flight", _G, _BY_WEBHOOK, "Admission reviews in hand at the moment."
)
INSTANCES = Metric(
    "vworkspace_operator_instances",
    _G,
    _BY_CONDITION,
    "ApplicationInstances by what a condition of theirs says; a reason that is not ours is `other`.",
)
OPERATION_STATES = Metric(
    "vworkspace_operator_operations", _G, _BY_CONDITION, "Operations by what a condition of theirs says, likewise."
)
INSTANCES_OLDEST = Metric(
    "vworkspace_operator_instances_oldest_seconds",
    _G,
    _BY_CONDITION,
    "For how long the ApplicationInstance that has had this status longest has had it; only of conditions that people "
    "wait for the end of. 0 without any.",
)
OPERATIONS_OLDEST = Metric(
    "vworkspace_operator_operations_oldest_seconds", _G, _BY_CONDITION, "For how long the Operation has, likewise."
)
PARENTS = Metric(
    "vworkspace_operator_parents",
    _G,
    (*_BY_KIND, *_BY_CONDITION),
    "Objects of the kinds of boxes and pure reconcilers, by what a standard condition of theirs says.",
)
PARENTS_OLDEST = Metric(
    "vworkspace_operator_parents_oldest_seconds",
    _G,
    (*_BY_KIND, *_BY_CONDITION),
    "For how long the one that has had this status longest has had it.",
)
BOXES = Metric(
    "vworkspace_operator_boxes", _G, _BY_CONDITION, "Applied boxes by what a condition of theirs says, likewise."
)
BOXES_OLDEST = Metric(
    "vworkspace_operator_boxes_oldest_seconds", _G, _BY_CONDITION, "For how long the applied box has, likewise."
)
BOX_OBJECTS = Metric(
    "vworkspace_operator_box_objects",
    _G,
    ("box", "state"),
    "Objects of an applied box: total; moved to the revision of its rollout, waiting to be, pinned to another; and of "
    "those moved, ready and failed.",
)
UNREADY = Metric(
    "vworkspace_operator_unready_seconds",
    _G,
    (*_BY_KIND, "object_namespace", "object_name", "reason"),
    "For how long objects have not been Ready, by name: of each kind those that have not been for the longest, as many "
    "as --metrics-names says; none without it.",
)
JOB_LAG = Metric(
    "vworkspace_operator_pull_job_lag_seconds",
    _G,
    (),
    "Age of the oldest job that was offered and is not answered yet, by the control plane's clock; 0 without any.",
)
OPEN_JOBS = Metric("vworkspace_operator_open_jobs", _G, (), "Jobs between offer and closed record.")
CONNECTIVITY = Metric(
    "vworkspace_operator_connectivity_state",
    _G,
    ("mode",),
    "1 for what the last poll said of the control plane: unknown, connected, unreachable or rejected.",
)
JOBS = Metric("vworkspace_operator_applied_jobs_total", _C, ("outcome",), "Jobs that came to a result, by outcome.")
OCCUPANCY = Metric(
    "vworkspace_operator_event_buffer_occupancy",
    _G,
    (),
    "Part of the buffer of events for the control plane that is filled, 0 to 1; at 1 the oldest are dropped.",
)
CREDENTIAL_AGE = Metric(
    "vworkspace_operator_credential_age_seconds",
    _G,
    (),
    "Since when the present token is in its Secret or file; absent where nothing tells.",
)
OPERATIONS = Metric(
    "vworkspace_operator_operation_total",
    _C,
    ("type", "engine", "phase"),
    "Operations that came to a phase while this process led.",
)
NAMESPACES = Metric("vworkspace_operator_managed_namespaces", _G, (), "Namespaces behind the gate.")
SYNCED = Metric("vworkspace_operator_informer_synced", _G, _BY_KIND, "1 once the cache of a kind is whole.")
MISSING = Metric("vworkspace_operator_informer_missing", _G, _BY_KIND, "1 while the API server does not serve a kind.")
LAST_EVENT = Metric(
    "vworkspace_operator_informer_last_event_age_seconds",
    _G,
    _BY_KIND,
    "Since when the API server said nothing about a kind, bookmarks included.",
)
RELISTS = Metric("vworkspace_operator_informer_relists_total", _C, (*_BY_KIND, "cause"), "Lists begun anew, by cause.")
TROUBLES = Metric(
    "vworkspace_operator_informer_troubles_total", _C, _BY_KIND, "Lists and watches that failed and were tried again."
)
OBJECTS = Metric("vworkspace_operator_informer_objects", _G, _BY_KIND, "Objects in the cache.")
BYTES = Metric("vworkspace_operator_informer_bytes", _G, _BY_KIND, "Bytes that they take, packed.")
HOT_LOOPS = Metric(
    "vworkspace_operator_hot_loops_total", _C, _BY_CONTROLLER, "Objects found whose status keeps changing."
)
LIVE_READS = Metric(
    "vworkspace_operator_live_reads_total", _C, _BY_CONTROLLER, "Reconciles whose cache did not show a write in time."
)
EVENTS = Metric(
    "vworkspace_operator_kubernetes_events_total",
    _C,
    ("outcome",),
    "Kubernetes Events: created, repeated (the series of an earlier one grew), dropped, or superseded by a later one.",
)
LOOP_SILENCE = Metric(
    "vworkspace_operator_event_loop_silence_seconds",
    _G,
    (),
    "Since the event loop's last sign of life, given each second.",
)
LEADER = Metric(
    "leader_election_master_status", _G, ("name",), "1 while this process leads; absent without --leader-elect."
)
SHARD = Metric(
    "vworkspace_operator_shard_info",
    _G,
    ("shard", "shards"),
    "1; the share of the namespaces that this process works on, as --shard says it.",
)
BUILD = Metric("vworkspace_operator_build_info", _G, ("version", "python"), "1; what runs.")

CATALOGUE: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
