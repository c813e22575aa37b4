"""OpenTelemetry traces: from a job, or a change of an object's spec, until the object is settled (SEE-7).

A job is a unit of work that the control plane (a server) offers. An object is settled once it is ready, or its work
has ended, is suspended or cannot continue. A `TraceRecorder` is called for each event, and returns the spans that
ended. It reads no clock and uses no random numbers: ids are derived from a job's idempotency key, or from an object's
uid and generation, so that every process puts its spans into the same trace.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.secret_material import shown
from purekube.controller.ownership import controller_of
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import IDEMPOTENCY_KEY, TRACEPARENT
from vworkspace_core.jobs.object_status import own_conditions_of
from vworkspace_core.jobs.scope import DeleteTask, TraceContext, job_context
from vworkspace_core.jobs.state import JobStage, JobState
from vworkspace_core.overview.summary import OverviewState, Summary, summary_of, summary_of_child

MOST_OPEN: Final = 5_000
"""The maximum number of jobs of the control plane, and of objects, that are traced at the same time.

Further ones are not traced.
"""
_SETTLED: Final = frozenset(
    {
        OverviewState.READY,
        OverviewState.STALLED,
        OverviewState.SUSPENDED,
        OverviewState.SUCCEEDED,
        OverviewState.FAILED,
        OverviewState.CANCELLED,
    }
)
_AFTERWARDS: Final = frozenset({OverviewState.DEGRADED, OverviewState.RUNNING})
"""The states that may follow on the end of the work: a fault that comes later, and the next run of an Operation."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAILED: Final = frozenset({OverviewState.STALLED, OverviewState.FAILED})
_STAGES: Final[Mapping[JobStage, str]] = MappingProxyType(
    {
        JobStage.RECORDING: "store job",
        JobStage.ACKING: "acknowledge",
        JobStage.READY: "queue",
        JobStage.INSPECTING: "inspect",
        JobStage.WAITING_DELETED: "wait for deletion",
        JobStage.RECORDING_INTENT: "store intent",
        JobStage.ACTING: "apply",
        JobStage.RECORDING_EFFECT: "store effect",
        JobStage.WAITING: "wait for status",
        JobStage.ANSWERING: "post result",
        JobStage.CLOSING: "close",
    }
)
"""The names of the spans below a job's span, by the stage of the job."""

Attribute: TypeAlias = str | int


@attrs.frozen
class Span:
    """A span of an OpenTelemetry trace that has ended, such as a reconcile pass or a stage of a job.

    `parent` is the id of its parent span, empty for a root; `error` says why it failed.
    """

    context: TraceContext
    parent: str
    name: str
    began: datetime
    ended: datetime
    attributes: Mapping[str, Attribute] = MappingProxyType({})
    error: str = ""


@attrs.define
class _OpenSpan:
    """A span of a trace that has begun and not ended.

    `number` is that of the next child span, which distinguishes it from other child spans of the same name.
    """

    context: TraceContext
    parent: str
    name: str
    began: datetime
    attributes: Mapping[str, Attribute] = MappingProxyType({})
    number: int = 0

    def end(self, now: datetime, error: str = "", **more: Attribute) -> Iterable[Span]:
        """Yield the ended span. Nothing is yielded if the span's trace is not sampled."""
        if self.context.is_sampled:
            known = {name: value for name, value in {**self.attributes, **more}.items() if value != ""}
            yield Span(self.context, self.parent, self.name, min(self.began, now), now, known, shown(error))

    def below(self, name: str, began: datetime, **attributes: Attribute) -> "_OpenSpan":
        """Return the next child span."""
        self.number += 1
        return _OpenSpan(self.context.child(name, self.number - 1), self.context.span, name, began, attributes)


@attrs.define
class _OpenJob:
    """A job that is not closed: the trace span of the whole job, and the span of its present stage."""

    whole: _OpenSpan
    stage: _OpenSpan


@attrs.define
class _OpenRun:
    """An object that is not settled yet at `generation`, with its span.

    `phases` has the span of the present phase of each child object.
    """

    whole: _OpenSpan
    generation: int
    phases: dict[ObjectRef, _OpenSpan] = attrs.field(factory=dict)


@attrs.define
class TraceRecorder:
    """A recorder of OpenTelemetry spans for the jobs of the control plane and the objects of one cluster.

    It keeps the open spans, and each of its methods returns the spans that ended. Call them in the order of events,
    with times in UTC.
    """

    cluster: str
    most_open: int = MOST_OPEN
    _jobs: dict[str, _OpenJob] = attrs.field(factory=dict)
    _runs: dict[str, _OpenRun] = attrs.field(factory=dict)
    _uids: dict[ObjectRef, str] = attrs.field(factory=dict)
    _traced: dict[str, tuple[int, str]] = attrs.field(factory=dict)
    """The newest traced generation of each object, and the id of the span of the last job that changed the object.

    The key is the object's uid. The id is empty without a job.
    """

    def job_changed(self, before: JobState | None, after: JobState | None, now: datetime) -> Iterable[Span]:
        """Record a step of a job of the control plane, and return the OpenTelemetry spans that ended with it.

        `before` and `after` are the states of the job before and after the step, which was at the time `now`. `before`
        is None for a job that was just offered; `after` is None for a job that has ended.
        """
        job = after or before
        opened = None if job is None else self._jobs.get(job.id)
        if job is None or (before is not None and opened is None):
            return
        if opened is None:
            if len(self._jobs) < self.most_open:
                self._jobs[job.id] = self._begun(job, now)
        elif after is None:
            del self._jobs[job.id]
            result = job.result
            outcome, error = ("dropped", "") if result is None else (result.outcome.value, result.error)
            yield from opened.stage.end(now)
            yield from opened.whole.end(now, error, **{"vworkspace.outcome": outcome})
        elif before is not None and before.stage is not after.stage:
            yield from opened.stage.end(now)
            opened.stage = opened.whole.below(_name_of(after), now)

    def _begun(self, job: JobState, now: datetime) -> _OpenJob:
        context, above = job_context(self.cluster, job.key or job.id, job.raw.get("traceparent"))
        about = {"vworkspace.job.id": job.id, "vworkspace.job.key": job.key, **_about(job.ref)}
        whole = _OpenSpan(context, above, "job", now, about)
        return _OpenJob(whole, whole.below(_name_of(job), now))

    def object_changed(self, ref: ObjectRef, manifest: Manifest | None, now: datetime) -> Iterable[Span]:
        """Record the state `manifest` of the object `ref`, and return the OpenTelemetry spans that ended with it.

        `manifest` is None if the object was deleted. `now` is the time of the change.
        """
        if ref.kind in (APPLICATION_INSTANCE, OPERATION):
            return self._own_changed(ref, manifest, now)
        return () if manifest is None else self._child_changed(ref, manifest, now)

    def _own_changed(self, ref: ObjectRef, manifest: Manifest | None, now: datetime) -> Iterable[Span]:
        uid = self._uids.get(ref, "")
        if manifest is None or metadata(manifest).get("uid") != uid:
            yield from self._end(uid, now, "Deleted")
            self._traced.pop(uid, None)
            self._uids.pop(ref, None)
        if manifest is None:
            return
        uid, generation = str(metadata(manifest).get("uid")), metadata(manifest).get("generation") or 0
        self._uids[ref] = uid
        run = self._runs.get(uid)
        if run is None and self._traced.get(uid, (0, ""))[0] >= generation:
            return  # most changes are of settled objects
        summary = summary_of(ref.kind, manifest)
        is_settled = _is_settled(ref.kind, manifest, summary.state)
        if run is not None and run.generation != generation:
            yield from self._end(uid, now, "Superseded")
        if is_settled:
            yield from self._end(uid, now, summary.reason or summary.state.value, summary)
            self._traced[uid] = (generation, self._job_span(manifest))
        elif self._traced.get(uid, (0, ""))[0] < generation and len(self._runs) < self.most_open:
            self._begin(ref, uid, generation, manifest, now)

    def _begin(self, ref: ObjectRef, uid: str, generation: int, manifest: Manifest, now: datetime) -> None:
        context, above = self._context(uid, generation, manifest)
        about = {**_about(ref), "k8s.object.generation": generation}
        self._runs[uid] = _OpenRun(_OpenSpan(context, above, ref.kind.kind, now, about, number=1), generation)
        self._traced[uid] = (generation, self._job_span(manifest))

    def _context(self, uid: str, generation: int, manifest: Manifest) -> tuple[TraceContext, str]:
        """Return a pair: the context of an object's span at `generation`, and the id of its parent span.

        The parent is the span of the object's job for the first generation that is traced below that job; otherwise the
        id is empty.
        """
        above = self._job_of(manifest)
        former, job = self._traced.get(uid, (generation, ""))
        if above is None or (former != generation and job == above.span):
            return TraceContext.of(uid, generation), ""  # a person changed it, and the job's annotations stayed
        return above.child(uid, generation), above.span

    def _job_of(self, manifest: Manifest) -> TraceContext | None:
        """Return the context of the job that changed the object last, or None if no job did."""
        annotations = metadata(manifest).get("annotations") or {}
        above = TraceContext.parsed(annotations.get(TRACEPARENT))
        if above is None and (key := annotations.get(IDEMPOTENCY_KEY)):
            return job_context(self.cluster, key)[0]
        return above

    def _job_span(self, manifest: Manifest) -> str:
        above = self._job_of(manifest)
        return "" if above is None else above.span

    def _end(self, uid: str, now: datetime, outcome: str, summary: Summary | None = None) -> Iterable[Span]:
        run = self._runs.pop(uid, None)
        if run is None:
            return
        for phase in run.phases.values():
            yield from phase.end(now)
        error = summary.message if summary is not None and summary.state in _FAILED else ""
        yield from run.whole.end(now, error, **{"vworkspace.outcome": outcome})

    def _child_changed(self, ref: ObjectRef, manifest: Manifest, now: datetime) -> Iterable[Span]:
        run = self._runs.get(str(get_path(controller_of(manifest), "uid")))
        if run is None:
            return
        summary, phase = summary_of_child(ref.kind, manifest), run.phases.get(ref)
        name = f"{ref.kind.kind} {_phase(manifest) or summary.reason or summary.state.value}"
        if phase is not None and phase.name == name and summary.state not in _SETTLED:
            return
        if phase is not None:
            del run.phases[ref]
            yield from phase.end(now, summary.message if summary.state in _FAILED else "")
        if summary.state not in _SETTLED:
            run.phases[ref] = run.whole.below(name, now, **_about(ref))

    def reconciled(
        self, ref: ObjectRef, seconds: float, result: str, writes: Iterable[str], error: str, now: datetime
    ) -> Iterable[Span]:
        """Record a pass over the object `ref` that ended at `now`, and yield its OpenTelemetry span if that is traced.

        An object is traced from a change of its spec until it is settled, for example ready. The pass took `seconds`.
        `result` is its outcome and `writes` are its writes, as strings; `error` says why it failed, or is empty.
        """
        run = self._runs.get(self._uids.get(ref, ""))
        if run is not None:
            span = run.whole.below("reconcile", now - timedelta(seconds=seconds))
            yield from span.end(now, error, **{"vworkspace.result": result, "vworkspace.writes": ", ".join(writes)})


def _is_settled(kind: Kind, manifest: Manifest, state: OverviewState) -> bool:
    """Report whether the work on the present generation of the object, whose state is `state`, is done.

    A release that is ready in spite of a fault, such as drift, and an Operation that recurs are done too.
    """
    generation = metadata(manifest).get("generation") or 0
    if get_path(manifest, "status", "observedGeneration") != generation:
        return False
    done = condition_of(manifest, "Succeeded" if kind == OPERATION else "Ready")
    is_of_now = done.get("observedGeneration", generation) == generation
    return state in _SETTLED or (state in _AFTERWARDS and done.get("status") == "True" and is_of_now)


def _name_of(job: JobState) -> str:
    return "delete" if job.stage is JobStage.ACTING and isinstance(job.task, DeleteTask) else _STAGES[job.stage]


def _phase(manifest: Manifest) -> str:
    """Return the reason of the object's condition Ready or, without it, of Reconciling; empty if there is neither.

    The reason may be about an older generation.
    """
    reasons = {condition.get("type"): str(condition.get("reason") or "") for condition in own_conditions_of(manifest)}
    return reasons.get("Ready") or reasons.get("Reconciling") or ""


def _about(ref: ObjectRef | None) -> dict[str, Attribute]:
    if ref is None:
        return {}
    return {"k8s.object.kind": ref.kind.kind, "k8s.namespace.name": ref.namespace or "", "k8s.object.name": ref.name}


def otlp(spans: Iterable[Span], cluster: str, version: str) -> dict[str, Any]:
    """Return spans as an ExportTraceServiceRequest in OTLP's JSON encoding.

    `cluster` is the cluster's id and `version` the operator's version; both become attributes of the request's
    resource.
    """
    resource = {"service.name": "vworkspace-operator", "service.version": version, "k8s.cluster.name": cluster}
    scope = {"scope": {"name": "vworkspace-operator"}, "spans": [_span(span) for span in spans]}
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}


def _span(span: Span) -> dict[str, Any]:
    body: dict[str, Any] = {
        "traceId": span.context.trace,
        "spanId": span.context.span,
        "parentSpanId": span.parent,
        "name": span.name,
        "kind": 1,  # internal
        "startTimeUnixNano": _nanoseconds(span.began),
        "endTimeUnixNano": _nanoseconds(span.ended),
        "attributes": _attributes(span.attributes),
    }
    return {**body, "status": {"code": 2, "message": span.error}} if span.error else body


def _attributes(values: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]


def _nanoseconds(moment: datetime) -> str:
    """Return the nanoseconds since 1970 as text, as OTLP writes 64-bit integers in JSON."""
    return str((moment - _EPOCH) // timedelta(microseconds=1) * 1000)
