"""The Grafana dashboard, from one table of panels (RUN-5); the file under docs/observability is printed from it."""

import json
from collections.abc import Iterator
from typing import Any, Final

import attrs

__all__ = ["dashboard"]

_WIDTH: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_OURS: Final = 'namespace=~"$namespace"'
_JOB: Final = 'job=~".*vworkspace-operator.*"'


@attrs.frozen
class Panel:
    """One panel: queries with what their series are called, unit and meaning. `width` is in 24ths of the page."""

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    width: int = 8
    kind: str = "timeseries"


@attrs.frozen
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def _rate(metric: str, *by: str, where: str = "") -> str:
    labels = f"{_OURS}, {where}" if where else _OURS
    return f"sum by ({', '.join(by)}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def _quantile(share: str, metric: str, *by: str) -> str:
    return f"histogram_quantile({share}, {_rate(metric + '_bucket', *by, 'le')})"


def _of(metric: str, how: str, *by: str, where: str = "") -> str:
    labels = f"{_OURS}, {where}" if where else _OURS
    return f"{how} by ({', '.join(by)}) ({metric}{{{labels}}})"


_ROWS: Final = (
    Row(
        "At a glance",
        (
            Panel(
                "Caches synced",
                "1 when every kind is listed. 0 names a pod whose /readyz fails.",
                ((_of("vworkspace_operator_informer_synced", "min", "pod"), "{{pod}}"),),
                width=4,
                kind="stat",
            ),
            Panel(
                "Control plane",
                "What the last poll of the leader said.",
                ((_of("vworkspace_operator_connectivity_state", "max", "mode", where='mode!="unknown"'), "{{mode}}"),),
                width=5,
                kind="stat",
            ),
            Panel(
                "Leader",
                "1 on the pod that writes; without --leader-elect there is no series.",
                ((_of("leader_election_master_status", "max", "pod"), "{{pod}}"),),
                width=5,
                kind="stat",
            ),
            Panel(
                "Job lag",
                "Age of the oldest job that is not answered.",
                (("max(vworkspace_operator_pull_job_lag_seconds{" + _OURS + "})", "lag"),),
                "s",
                4,
                "stat",
            ),
            Panel(
                "Managed namespaces",
                "Namespaces behind the gate.",
                (("max(vworkspace_operator_managed_namespaces{" + _OURS + "})", "namespaces"),),
                width=3,
                kind="stat",
            ),
            Panel(
                "Version",
                "What runs, pod by pod.",
                ((_of("vworkspace_operator_build_info", "count", "version"), "{{version}}"),),
                width=3,
                kind="stat",
            ),
        ),
    ),
    Row(
        "Reconcile",
        (
            Panel(
                "Reconciles",
                "By result; requeue_after is a success that looks again by itself.",
                ((_rate("controller_runtime_reconcile_total", "controller", "result"), "{{controller}} {{result}}"),),
                "ops",
            ),
            Panel(
                "Errors",
                "Terminal ones are not tried again; panics are defects; timeouts were cancelled.",
                (
                    (_rate("controller_runtime_reconcile_errors_total", "controller"), "{{controller}} errors"),
                    (
                        _rate("controller_runtime_terminal_reconcile_errors_total", "controller"),
                        "{{controller}} terminal",
                    ),
                    (_rate("controller_runtime_reconcile_panics_total", "controller"), "{{controller}} panics"),
                    (_rate("controller_runtime_reconcile_timeouts_total", "controller"), "{{controller}} timeouts"),
                ),
                "ops",
            ),
            Panel(
                "Length of a reconcile",
                "Median and 99th percentile.",
                (
                    (_quantile("0.5", "controller_runtime_reconcile_time_seconds", "controller"), "{{controller}} p50"),
                    (
                        _quantile("0.99", "controller_runtime_reconcile_time_seconds", "controller"),
                        "{{controller}} p99",
                    ),
                ),
                "s",
            ),
            Panel(
                "Queue depth",
                "Keys that could be taken now. On a standby they wait for it to lead.",
                ((_of("workqueue_depth", "sum", "pod", "name", "priority"), "{{pod}} {{name}} {{priority}}"),),
            ),
            Panel(
                "Wait in the queue",
                "How long a key was ready before it was taken, 99th percentile.",
                ((_quantile("0.99", "workqueue_queue_duration_seconds", "name"), "{{name}} p99"),),
                "s",
            ),
            Panel(
                "Adds and retries",
                "Retries that grow with adds that do not: something fails again and again.",
                (
                    (_rate("workqueue_adds_total", "name"), "{{name}} adds"),
                    (_rate("workqueue_retries_total", "name"), "{{name}} retries"),
                ),
                "ops",
            ),
            Panel(
                "Workers",
                "Busy ones of how many; all of them for long means too few, or a slow API server.",
                (
                    (_of("controller_runtime_active_workers", "max", "controller"), "{{controller}} active"),
                    (_of("controller_runtime_max_concurrent_reconciles", "max", "controller"), "{{controller}} most"),
                ),
            ),
            Panel(
                "Oldest reconcile under way",
                "Cancelled at 60 s.",
                ((_of("workqueue_longest_running_processor_seconds", "max", "name"), "{{name}}"),),
                "s",
            ),
            Panel(
                "Hot loops and late caches",
                "Objects whose status keeps changing; writes that the cache did not show in time.",
                (
                    (_rate("vworkspace_operator_hot_loops_total", "controller"), "{{controller}} hot loops"),
                    (_rate("vworkspace_operator_live_reads_total", "controller"), "{{controller}} live reads"),
                ),
                "ops",
            ),
        ),
    ),
    Row(
        "API server and caches",
        (
            Panel(
                "Requests",
                "By code and method; <error> got no answer.",
                ((_rate("rest_client_requests_total", "code", "method"), "{{method}} {{code}}"),),
                "reqps",
            ),
            Panel(
                "Silence by kind",
                "Since when the API server said nothing about a kind. Bookmarks come every minute.",
                ((_of("vworkspace_operator_informer_last_event_age_seconds", "max", "kind"), "{{kind}}"),),
                "s",
            ),
            Panel(
                "Lists begun anew, troubles",
                "By cause; each costs the API server a whole list.",
                (
                    (_rate("vworkspace_operator_informer_relists_total", "kind", "cause"), "{{kind}} {{cause}}"),
                    (_rate("vworkspace_operator_informer_troubles_total", "kind"), "{{kind}} troubles"),
                ),
                "ops",
            ),
            Panel(
                "Objects in the caches",
                "By kind.",
                ((_of("vworkspace_operator_informer_objects", "max", "kind"), "{{kind}}"),),
            ),
            Panel(
                "Bytes in the caches",
                "By kind.",
                ((_of("vworkspace_operator_informer_bytes", "max", "kind"), "{{kind}}"),),
                "bytes",
            ),
            Panel(
                "Kinds that are missing",
                "1 while no CRD is installed; the operator waits for it.",
                ((_of("vworkspace_operator_informer_missing", "max", "group", "kind") + " > 0", "{{kind}}.{{group}}"),),
            ),
        ),
    ),
    Row(
        "Pull mode and operations",
        (
            Panel(
                "Jobs by outcome",
                "noop answers a repeated job.",
                ((_rate("vworkspace_operator_applied_jobs_total", "outcome"), "{{outcome}}"),),
                "ops",
            ),
            Panel(
                "Open jobs and lag",
                "Jobs that are not closed, and the age of the oldest without an answer in seconds.",
                (
                    ("max(vworkspace_operator_open_jobs{" + _OURS + "})", "open"),
                    ("max(vworkspace_operator_pull_job_lag_seconds{" + _OURS + "})", "lag in s"),
                ),
            ),
            Panel(
                "Event buffer",
                "Filled part; at 100 % the oldest events are dropped, and a snapshot makes up for them.",
                (("max(vworkspace_operator_event_buffer_occupancy{" + _OURS + "})", "filled"),),
                "percentunit",
            ),
            Panel(
                "Age of the credential",
                "Since the present token came.",
                (("max(vworkspace_operator_credential_age_seconds{" + _OURS + "})", "age"),),
                "s",
            ),
            Panel(
                "Operations",
                "That came to a phase, by type and engine.",
                (
                    (
                        _rate("vworkspace_operator_operation_total", "type", "engine", "phase"),
                        "{{type}} {{engine}} {{phase}}",
                    ),
                ),
                "ops",
            ),
            Panel(
                "Kubernetes Events",
                "Dropped ones were too many about one object, or refused.",
                ((_rate("vworkspace_operator_kubernetes_events_total", "outcome"), "{{outcome}}"),),
                "ops",
            ),
        ),
    ),
    Row(
        "Process",
        (
            Panel(
                "Memory",
                "Resident.",
                ((_of("process_resident_memory_bytes", "max", "pod", where=_JOB), "{{pod}}"),),
                "bytes",
            ),
            Panel("CPU", "Seconds per second.", ((_rate("process_cpu_seconds_total", "pod", where=_JOB), "{{pod}}"),)),
            Panel(
                "Silence of the event loop",
                "Above 10 s /healthz fails.",
                ((_of("vworkspace_operator_event_loop_silence_seconds", "max", "pod"), "{{pod}}"),),
                "s",
            ),
        ),
    ),
)


def dashboard() -> str:
    """The dashboard as JSON, for Grafana's import."""
    found = {
        "title": "vWorkspace operator",
        "uid": "vworkspace-operator",
        "tags": ["kubernetes", "operator", "vworkspace"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_variable_source(), _variable_namespace()]},
        "panels": list(_panels()),
    }
    return json.dumps(found, indent=2) + "\n"


def _variable_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable_namespace() -> dict[str, Any]:
    query = "label_values(vworkspace_operator_build_info, namespace)"
    return {
        "name": "namespace",
        "label": "Namespace of the operator",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "namespace"},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Rows and panels from top to bottom, each line filled from left to right."""
    serial, x, y = 0, 0, 0
    for row in _ROWS:
        serial += 1
        yield {
            "id": serial,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"h": 1, "w": _WIDTH, "x": 0, "y": y},
            "panels": [],
        }
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y = 0, y + _HEIGHT
            serial += 1
            yield _panel(panel, serial, x, y)
            x += panel.width
        y += _HEIGHT


def _panel(panel: Panel, serial: int, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for number, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "id": serial,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }
