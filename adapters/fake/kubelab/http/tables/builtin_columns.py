"""The columns in which `kubectl get` shows built-in kinds whose cells cannot be read from one field of the object.

An example is the column READY of a Deployment, which is computed from two numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from kubelab.model.records import GroupResource
from kubelab.model.resources import PrinterColumn
from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.durations import age, human_duration
from purekube.apimachinery.manifest import Manifest, get_path

Cells = Callable[[Manifest, datetime], list[Any]]


@attrs.frozen
class TableOf:
    """The table in which `kubectl get` shows the objects of one built-in kind, one row for each object.

    `columns` are the table's columns, and `cells` returns an object's cells in these columns. If `named` is True, a
    column with the object's name comes before them.
    """

    columns: tuple[PrinterColumn, ...]
    cells: Cells
    named: bool = True

    @classmethod
    def aged(cls, *names: str, cells: Callable[[Manifest], list[Any]]) -> "TableOf":
        """Return a table of the columns `names`, whose cells `cells` returns, and of a last column with the age."""
        return cls(_columns(*names, "Age"), lambda manifest, now: [*cells(manifest), _created(manifest, now)])


def _columns(*names: str) -> tuple[PrinterColumn, ...]:
    """Return columns with the given names.

    A column whose name has the prefix `+` is shown only in the wide form (`kubectl get -o wide`).
    """
    return tuple(
        PrinterColumn(name.lstrip("+"), "string", "", description=name.lstrip("+"), priority=int(name.startswith("+")))
        for name in names
    )


def _created(manifest: Manifest, now: datetime) -> str:
    return age(get_path(manifest, "metadata", "creationTimestamp"), now)


def _size(manifest: Manifest, field: str) -> int:
    return len(manifest.get(field) or ())


def _deployment(manifest: Manifest) -> list[Any]:
    desired, status = get_path(manifest, "spec", "replicas"), manifest.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{desired or 0}"
    return [ready, status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]


def _stateful_set(manifest: Manifest) -> list[Any]:
    ready = get_path(manifest, "status", "readyReplicas") or 0
    return [f"{ready}/{get_path(manifest, 'spec', 'replicas') or 0}"]


def _job(manifest: Manifest, now: datetime) -> list[Any]:
    done = get_path(manifest, "status", "succeeded") or 0
    desired = get_path(manifest, "spec", "completions")
    parallel = get_path(manifest, "spec", "parallelism") or 1
    # kubernetes: printers/internalversion/printers.go, printJob: without completions one success is enough.
    enough = desired if desired is not None else f"1 of {parallel}" if parallel > 1 else 1
    completions = f"{done}/{enough}"
    return [_job_status(manifest), completions, _job_duration(manifest, now), _created(manifest, now)]


def _job_status(manifest: Manifest) -> str:
    # kubernetes: printers/internalversion/printers.go, printJob: the end of a Job is shown even while it is deleted.
    before, after = ("Complete", "Failed"), ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    true = {condition.get("type") for condition in conditions_of(manifest) if condition.get("status") == "True"}
    deleted = ("Terminating",) if get_path(manifest, "metadata", "deletionTimestamp") else ()
    shown = [word for word in before if word in true] + [*deleted, *(word for word in after if word in true)]
    return next(iter(shown), "Running")


def _job_duration(manifest: Manifest, now: datetime) -> str:
    start, end = get_path(manifest, "status", "startTime"), get_path(manifest, "status", "completionTime")
    if not start:
        return ""
    finished = datetime.fromisoformat(end) if end else now
    return human_duration(finished - datetime.fromisoformat(start))


def _pod(manifest: Manifest) -> list[Any]:
    statuses: Sequence[Mapping[str, Any]] = get_path(manifest, "status", "containerStatuses") or ()
    ready = sum(bool(status.get("ready")) for status in statuses)
    restarts = sum(int(status.get("restartCount", 0)) for status in statuses)
    phase = get_path(manifest, "status", "reason") or get_path(manifest, "status", "phase") or "Pending"
    shown = "Terminating" if get_path(manifest, "metadata", "deletionTimestamp") else phase
    total = len(get_path(manifest, "spec", "containers") or ())
    return [f"{ready}/{total}", shown, str(restarts)]


def _service(manifest: Manifest) -> list[Any]:
    spec = manifest.get("spec") or {}
    ports = ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or ())
    return [spec.get("type", "ClusterIP"), spec.get("clusterIP") or "<none>", "<none>", ports or "<none>"]


def _claim(manifest: Manifest) -> list[Any]:
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    modes = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    shown = ",".join(modes.get(mode, mode) for mode in status.get("accessModes") or ())
    capacity = get_path(status, "capacity", "storage") or ""
    cells = [status.get("phase", "Pending"), spec.get("volumeName", ""), capacity, shown]
    return [*cells, spec.get("storageClassName", "")]


def _event(manifest: Manifest, now: datetime) -> list[Any]:
    """Return the cells of an Event of either API.

    The core API has `message` and `involvedObject`, the newer API `note` and `regarding`.
    """
    about = manifest.get("involvedObject") or manifest.get("regarding") or {}
    last = (
        get_path(manifest, "series", "lastObservedTime")
        or manifest.get("lastTimestamp")
        or manifest.get("deprecatedLastTimestamp")
        or manifest.get("eventTime")
        or get_path(manifest, "metadata", "creationTimestamp")
    )
    what = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    message = manifest.get("message") or manifest.get("note") or ""
    count = get_path(manifest, "series", "count") or manifest.get("count") or manifest.get("deprecatedCount") or 1
    cells = [age(last, now), manifest.get("type", ""), manifest.get("reason", ""), what, message.strip()]
    return [*cells, count, manifest["metadata"]["name"]]


BUILTIN_TABLES: Final[Mapping[GroupResource, TableOf]] = {
    ("", "namespaces"): TableOf.aged("Status", cells=lambda one: [get_path(one, "status", "phase") or "Active"]),
    ("", "configmaps"): TableOf.aged("Data", cells=lambda one: [_size(one, "data") + _size(one, "binaryData")]),
    ("", "secrets"): TableOf.aged("Type", "Data", cells=lambda one: [one.get("type", "Opaque"), _size(one, "data")]),
    ("", "serviceaccounts"): TableOf.aged("Secrets", cells=lambda one: [_size(one, "secrets")]),
    ("", "pods"): TableOf.aged("Ready", "Status", "Restarts", cells=_pod),
    ("", "services"): TableOf.aged("Type", "Cluster-IP", "External-IP", "Port(s)", cells=_service),
    ("", "persistentvolumeclaims"): TableOf.aged(
        "Status", "Volume", "Capacity", "Access Modes", "StorageClass", cells=_claim
    ),
    ("events.k8s.io", "events"): TableOf(
        _columns("Last Seen", "Type", "Reason", "Object", "Message", "+Count", "+Name"), _event, named=False
    ),
    ("apps", "deployments"): TableOf.aged("Ready", "Up-to-date", "Available", cells=_deployment),
    ("apps", "statefulsets"): TableOf.aged("Ready", cells=_stateful_set),
    ("batch", "jobs"): TableOf(_columns("Status", "Completions", "Duration", "Age"), _job),
    ("coordination.k8s.io", "leases"): TableOf.aged(
        "Holder", cells=lambda one: [get_path(one, "spec", "holderIdentity")]
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): TableOf(
        _columns("Created At"), lambda one, _: [get_path(one, "metadata", "creationTimestamp")]
    ),
}
"""The table of each built-in resource that has columns of its own, by (group, plural).

All other built-in resources show their name and creation time.
"""
