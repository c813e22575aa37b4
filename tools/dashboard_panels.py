"""The content of the Grafana dashboard, as one table of panels (RUN-5); `dashboard.py` lays it out."""

from typing import Final

import attrs

from tools.promql import gauge, highest, quantile, rate, total

_JOB: Final = 'job=~".*vworkspace-operator.*"'

_NOT_READY: Final = 'condition="Ready", status="False", reason!~"Uninstalling|WaitingForChildResources"'
_LATE: Final = 'condition="Ready", status="False", reason!~"Uninstalling|WaitingForChildResources|NotDeployed"'

Series = tuple[str, str]
"""A query and the legend of its series."""


@attrs.frozen
class Panel:
    """One panel. `width` is in 24ths of the page."""

    title: str
    about: str
    queries: tuple[Series, ...]
    unit: str = "short"
    width: int = 8
    kind: str = "timeseries"


@attrs.frozen
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def _chart(title: str, about: str, *queries: Series, unit: str = "short") -> Panel:
    return Panel(title, about, queries, unit)


def _stat(title: str, about: str, query: Series, *, width: int, unit: str = "short") -> Panel:
    return Panel(title, about, (query,), unit, width, "stat")


_APPLICATIONS: Final = "vworkspace_operator_instances"
_OPERATIONS: Final = "vworkspace_operator_operations"
_PARENTS: Final = "vworkspace_operator_parents"
_UNREADY: Final = 'condition="Ready", status=~"False|Unknown"'
_IN_THE_WAY: Final = 'status="True", condition=~"Blocked|Stalled|Degraded"'

ROWS: Final = (
    Row(
        "Applications",
        (
            _stat(
                "Applications not Ready",
                "Ready=False for another reason than an uninstall. `kubectl get appinst -A` names them.",
                (total(_APPLICATIONS, "reason", where=_NOT_READY), "{{reason}}"),
                width=8,
            ),
            _chart(
                "Applications by Ready",
                "Each application has one of these.",
                (total(_APPLICATIONS, "status", "reason", where='condition="Ready"'), "{{status}} {{reason}}"),
            ),
            _chart(
                "What is in the way",
                "Blocked, Stalled and Degraded applications, and Blocked Operations, by reason.",
                (
                    total(_APPLICATIONS, "condition", "reason", where=_IN_THE_WAY),
                    "{{condition}} {{reason}}",
                ),
                (
                    total(_OPERATIONS, "reason", where='status="True", condition="Blocked"'),
                    "Operations {{reason}}",
                ),
            ),
            _chart(
                "Longest not Ready",
                "The age of the oldest, by reason: what the alerts fire on.",
                (gauge(f"{_APPLICATIONS}_oldest_seconds", "max", "reason", where=_LATE), "{{reason}}"),
                unit="s",
            ),
            _chart(
                "Longest in the way",
                "The age of the oldest condition Blocked, Stalled or Degraded, and of Operations that wait.",
                (
                    gauge(f"{_APPLICATIONS}_oldest_seconds", "max", "condition", "reason", where=_IN_THE_WAY),
                    "{{condition}} {{reason}}",
                ),
                (
                    gauge(f"{_OPERATIONS}_oldest_seconds", "max", "reason", where='condition="Blocked"'),
                    "Operations {{reason}}",
                ),
                unit="s",
            ),
            _chart(
                "Not Ready by name",
                "With --metrics-names: the objects that have not been Ready for the longest.",
                (
                    gauge(
                        "vworkspace_operator_unready_seconds",
                        "max",
                        "kind",
                        "object_namespace",
                        "object_name",
                        "reason",
                    ),
                    "{{kind}} {{object_namespace}}/{{object_name}} {{reason}}",
                ),
                unit="s",
            ),
            _chart(
                "Objects of boxes by Ready",
                "Each object of a kind that a box is for has one of these.",
                (
                    total(_PARENTS, "kind", "status", "reason", where='condition="Ready"'),
                    "{{kind}} {{status}} {{reason}}",
                ),
            ),
            _chart(
                "Objects of boxes, longest not Ready",
                "The age of the oldest, by kind and reason.",
                (gauge(f"{_PARENTS}_oldest_seconds", "max", "kind", "reason", where=_UNREADY), "{{kind}} {{reason}}"),
                unit="s",
            ),
            _chart(
                "Applied boxes by condition",
                "What is in the way of a box, or of its roll-out.",
                (
                    gauge("vworkspace_operator_boxes", "max", "condition", "reason", where='status="False"'),
                    "{{condition}} {{reason}}",
                ),
            ),
            _chart(
                "Roll-outs of applied boxes",
                "Objects that have yet to move to the newest revision, and those that failed there.",
                (
                    gauge("vworkspace_operator_box_objects", "max", "box", "state", where='state=~"waiting|failed"'),
                    "{{box}} {{state}}",
                ),
            ),
        ),
    ),
    Row(
        "At a glance",
        (
            _stat(
                "Caches synced",
                "1 when every kind is listed. 0 names a pod whose /readyz fails.",
                (gauge("vworkspace_operator_informer_synced", "min", "pod"), "{{pod}}"),
                width=4,
            ),
            _stat(
                "Control plane",
                "What the last poll of the leader said.",
                (gauge("vworkspace_operator_connectivity_state", "max", "mode", where='mode!="unknown"'), "{{mode}}"),
                width=4,
            ),
            _stat(
                "Leader",
                "1 on the pod that writes, and with --shard on one of each shard; no series without --leader-elect.",
                (gauge("leader_election_master_status", "max", "pod"), "{{pod}}"),
                width=4,
            ),
            _stat(
                "Shards",
                "Replicas of each shard; one shard, 0, without --shard.",
                (gauge("vworkspace_operator_shard_info", "count", "shard"), "{{shard}}"),
                width=2,
            ),
            _stat(
                "Job lag",
                "Age of the oldest job that is not answered.",
                (highest("vworkspace_operator_pull_job_lag_seconds"), "lag"),
                unit="s",
                width=4,
            ),
            _stat(
                "Managed namespaces",
                "The managed namespaces.",
                (total("vworkspace_operator_managed_namespaces"), "namespaces"),
                width=3,
            ),
            _stat(
                "Version",
                "What runs, pod by pod.",
                (gauge("vworkspace_operator_build_info", "count", "version"), "{{version}}"),
                width=3,
            ),
        ),
    ),
    Row(
        "Reconcile",
        (
            _chart(
                "Reconciles",
                "By result; requeue_after is a success that looks again by itself.",
                (rate("controller_runtime_reconcile_total", "controller", "result"), "{{controller}} {{result}}"),
                unit="ops",
            ),
            _chart(
                "Writes by controller",
                "To the API server, statuses included. A box may make 50 writes a second.",
                (rate("vworkspace_operator_writes_total", "controller"), "{{controller}}"),
                unit="ops",
            ),
            _chart(
                "Errors",
                "Terminal ones are not tried again; panics are defects; timeouts were cancelled.",
                (rate("controller_runtime_reconcile_errors_total", "controller"), "{{controller}} errors"),
                (rate("controller_runtime_terminal_reconcile_errors_total", "controller"), "{{controller}} terminal"),
                (rate("controller_runtime_reconcile_panics_total", "controller"), "{{controller}} panics"),
                (rate("controller_runtime_reconcile_timeouts_total", "controller"), "{{controller}} timeouts"),
                unit="ops",
            ),
            _chart(
                "Length of a reconcile",
                "Median and 99th percentile.",
                (quantile("0.5", "controller_runtime_reconcile_time_seconds", "controller"), "{{controller}} p50"),
                (quantile("0.99", "controller_runtime_reconcile_time_seconds", "controller"), "{{controller}} p99"),
                unit="s",
            ),
            _chart(
                "Queue depth",
                "Keys that could be taken now. On a standby they wait for it to lead.",
                (gauge("workqueue_depth", "sum", "pod", "name", "priority"), "{{pod}} {{name}} {{priority}}"),
            ),
            _chart(
                "Wait in the queue",
                "How long a key was ready before it was taken, and then in hand, 99th percentiles.",
                (quantile("0.99", "workqueue_queue_duration_seconds", "name"), "{{name}} p99"),
                (quantile("0.99", "workqueue_work_duration_seconds", "name"), "{{name}} in hand p99"),
                unit="s",
            ),
            _chart(
                "Adds and retries",
                "Retries that grow with adds that do not: something fails again and again.",
                (rate("workqueue_adds_total", "name"), "{{name}} adds"),
                (rate("workqueue_retries_total", "name"), "{{name}} retries"),
                unit="ops",
            ),
            _chart(
                "Workers",
                "Busy ones of how many; all of them for long means too few, or a slow API server.",
                (gauge("controller_runtime_active_workers", "max", "controller"), "{{controller}} active"),
                (gauge("controller_runtime_max_concurrent_reconciles", "max", "controller"), "{{controller}} most"),
            ),
            _chart(
                "Oldest reconcile under way",
                "Cancelled at 60 s; beside it the age of all that are under way, together.",
                (gauge("workqueue_longest_running_processor_seconds", "max", "name"), "{{name}}"),
                (gauge("workqueue_unfinished_work_seconds", "max", "name"), "{{name}} all"),
                unit="s",
            ),
            _chart(
                "Hot loops and late caches",
                "Objects whose status keeps changing; writes that the cache did not show in time.",
                (rate("vworkspace_operator_hot_loops_total", "controller"), "{{controller}} hot loops"),
                (rate("vworkspace_operator_live_reads_total", "controller"), "{{controller}} live reads"),
                unit="ops",
            ),
        ),
    ),
    Row(
        "API server and caches",
        (
            _chart(
                "Requests",
                "By code and method; <error> got no answer.",
                (rate("rest_client_requests_total", "code", "method"), "{{method}} {{code}}"),
                unit="reqps",
            ),
            _chart(
                "Length of a request",
                "99th percentile until its answer began, by method; a watch counts when it opens.",
                (quantile("0.99", "rest_client_request_duration_seconds", "verb"), "{{verb}} p99"),
                unit="s",
            ),
            _chart(
                "Admission reviews",
                "By the path of the webhook and HTTP code, with those in hand; a refusal is answered with 200.",
                (rate("controller_runtime_webhook_requests_total", "webhook", "code"), "{{webhook}} {{code}}"),
                (gauge("controller_runtime_webhook_requests_in_flight", "sum", "webhook"), "{{webhook}} in hand"),
            ),
            _chart(
                "Length of an admission review",
                "99th percentile by webhook; the API server gives up after 5 s.",
                (quantile("0.99", "controller_runtime_webhook_latency_seconds", "webhook"), "{{webhook}} p99"),
                unit="s",
            ),
            _chart(
                "Silence by kind",
                "Since when the API server said nothing about a kind. Bookmarks come every minute.",
                (gauge("vworkspace_operator_informer_last_event_age_seconds", "max", "kind"), "{{kind}}"),
                unit="s",
            ),
            _chart(
                "Lists begun again, troubles",
                "By cause; each costs the API server a whole list.",
                (rate("vworkspace_operator_informer_relists_total", "kind", "cause"), "{{kind}} {{cause}}"),
                (rate("vworkspace_operator_informer_troubles_total", "kind"), "{{kind}} troubles"),
                unit="ops",
            ),
            _chart(
                "Objects in the caches",
                "By kind.",
                (gauge("vworkspace_operator_informer_objects", "max", "kind"), "{{kind}}"),
            ),
            _chart(
                "Bytes in the caches",
                "By kind.",
                (gauge("vworkspace_operator_informer_bytes", "max", "kind"), "{{kind}}"),
                unit="bytes",
            ),
            _chart(
                "Kinds that are missing",
                "1 while no CRD is installed; the operator waits for it.",
                (gauge("vworkspace_operator_informer_missing", "max", "group", "kind") + " > 0", "{{kind}}.{{group}}"),
            ),
        ),
    ),
    Row(
        "Pull mode and operations",
        (
            _chart(
                "Jobs by outcome",
                "noop answers a repeated job.",
                (rate("vworkspace_operator_applied_jobs_total", "outcome"), "{{outcome}}"),
                unit="ops",
            ),
            _chart(
                "Open jobs and lag",
                "Jobs that are not closed, and the age of the oldest without an answer in seconds.",
                (highest("vworkspace_operator_open_jobs"), "open"),
                (highest("vworkspace_operator_pull_job_lag_seconds"), "lag in s"),
            ),
            _chart(
                "Event buffer",
                "Filled part; at 100 % the oldest events are dropped, and a snapshot makes up for them.",
                (highest("vworkspace_operator_event_buffer_occupancy"), "filled"),
                unit="percentunit",
            ),
            _chart(
                "Age of the credential",
                "Since the present token came.",
                (highest("vworkspace_operator_credential_age_seconds"), "age"),
                unit="s",
            ),
            _chart(
                "Operations",
                "That came to a phase, by type and engine.",
                (
                    rate("vworkspace_operator_operation_total", "type", "engine", "phase"),
                    "{{type}} {{engine}} {{phase}}",
                ),
                unit="ops",
            ),
            _chart(
                "Kubernetes Events",
                "Dropped ones were too many about one object, or refused.",
                (rate("vworkspace_operator_kubernetes_events_total", "outcome"), "{{outcome}}"),
                unit="ops",
            ),
        ),
    ),
    Row(
        "Process",
        (
            _chart(
                "Memory",
                "Resident.",
                (gauge("process_resident_memory_bytes", "max", "pod", where=_JOB), "{{pod}}"),
                unit="bytes",
            ),
            _chart("CPU", "Seconds per second.", (rate("process_cpu_seconds_total", "pod", where=_JOB), "{{pod}}")),
            _chart(
                "Silence of the event loop",
                "Above 10 s /healthz fails.",
                (gauge("vworkspace_operator_event_loop_silence_seconds", "max", "pod"), "{{pod}}"),
                unit="s",
            ),
        ),
    ),
)
