"""The spans of jobs and passes with every field, and how they are written (SEE-7)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from tests.support.jobs import CLUSTER_ID, delete_payload
from tests.support.jobs import job as wire_job
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import IDEMPOTENCY_KEY, TRACEPARENT
from vworkspace_core.jobs.result import JobOutcome, JobResult
from vworkspace_core.jobs.scope import JobScope, TraceContext, job_context
from vworkspace_core.jobs.state import JobStage, JobState, accept
from vworkspace_core.overview.traces import Span, TraceRecorder, otlp

START = datetime(2026, 6, 1, tzinfo=UTC)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
REF = ObjectRef(APPLICATION_INSTANCE, "ns", "a")
KEY = wire_job()["idempotencyKey"]
ABOUT = {
    "k8s.object.kind": "ApplicationInstance",
    "k8s.namespace.name": "org-myteam",
    "k8s.object.name": "nextcloud-myteam",
}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def offered(**fields: Any) -> JobState:
    found = accept(wire_job(**fields), 0, JobScope(CLUSTER_ID))
    assert isinstance(found, JobState)
    return found


def lived(job: JobState, *stages: JobStage, result: JobResult | None = None) -> list[Span]:
    """The spans of a job that reaches a stage every second and is closed then."""
    recorder, spans = TraceRecorder(CLUSTER_ID), list[Span]()
    spans += recorder.job_changed(None, job, START)
    for number, stage in enumerate(stages, 1):
        after = attrs.evolve(job, stage=stage, result=result)
        spans += recorder.job_changed(job, after, at(number))
        job = after
    return [*spans, *recorder.job_changed(job, None, at(len(stages) + 1))]


def test_a_job_is_a_span_with_one_for_each_of_its_stages() -> None:
    context, above = job_context(CLUSTER_ID, KEY, PARENT)
    spans = lived(offered(traceparent=PARENT), JobStage.ACKING, JobStage.ACKING, JobStage.ACTING)

    assert [(span.name, span.began, span.ended, span.parent) for span in spans] == [
        ("store job", START, at(1), context.span),
        ("acknowledge", at(1), at(3), context.span),
        ("apply", at(3), at(4), context.span),
        ("job", START, at(4), above),
    ]
    assert above == PARENT.split("-")[2]
    ids = [context.child("store job", 0), context.child("acknowledge", 1), context.child("apply", 2), context]
    assert [span.context for span in spans] == ids
    assert spans[-1].attributes == {
        "vworkspace.job.id": "job-1",
        "vworkspace.job.key": KEY,
        **ABOUT,
        "vworkspace.outcome": "dropped",
    }
    assert all(not span.attributes and not span.error for span in spans[:-1])


def test_a_result_is_the_outcome_of_its_span_and_its_error() -> None:
    failed = JobResult(JobOutcome.FAILED, "Invalid: password=hunter2")
    job = offered(kind="delete", payload=delete_payload())

    *stages, whole = lived(job, JobStage.ACTING, result=failed)

    assert [span.name for span in stages] == ["store job", "delete"]
    assert (whole.attributes["vworkspace.outcome"], whole.error) == ("failed", "Invalid: password=***")


def test_the_names_of_the_stages_are_those_of_people() -> None:
    stages = [stage for stage in JobStage if stage is not JobStage.RECORDING]

    assert [span.name for span in lived(offered(), *stages)] == [
        "store job",
        "acknowledge",
        "queue",
        "inspect",
        "wait for deletion",
        "store intent",
        "apply",
        "store effect",
        "wait for status",
        "post result",
        "close",
        "job",
    ]


def test_a_job_that_was_not_seen_from_its_offer_on_and_one_too_many_have_no_span() -> None:
    job = offered()
    acked = attrs.evolve(job, stage=JobStage.ACKING)
    recorder = TraceRecorder(CLUSTER_ID, most_open=1)
    assert [*recorder.job_changed(job, acked, START), *recorder.job_changed(None, None, START)] == []
    assert [*recorder.job_changed(acked, None, START)] == []

    first, second = (attrs.evolve(job, id=name) for name in ("one", "two"))
    assert [*recorder.job_changed(None, first, START), *recorder.job_changed(None, second, START)] == []
    assert [*recorder.job_changed(second, None, START)] == []
    assert len([*recorder.job_changed(first, None, START)]) == 2


def instance(generation: int, ready: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": "Up", "message": ""}
    return {
        **APPLICATION_INSTANCE.manifest("a", "ns"),
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "generation": generation},
        "status": {"observedGeneration": generation, "conditions": [condition]},
    }


def test_a_pass_is_a_span_below_the_run_of_its_object() -> None:
    recorder = TraceRecorder(CLUSTER_ID)
    assert [*recorder.reconciled(REF, 1, "success", [], "", START)] == []
    assert [*recorder.object_changed(REF, instance(1, "Unknown"), START)] == []

    (passed,) = recorder.reconciled(REF, 0.5, "success", ["apply A", "status B"], "", at(2))
    (ended,) = recorder.object_changed(REF, instance(1, "True"), at(3))

    run = TraceContext.of("u", 1)
    writes = {"vworkspace.result": "success", "vworkspace.writes": "apply A, status B"}
    assert passed == Span(run.child("reconcile", 1), run.span, "reconcile", at(1.5), at(2), writes)
    about: dict[str, Any] = {**ABOUT, "k8s.namespace.name": "ns", "k8s.object.name": "a", "k8s.object.generation": 1}
    assert ended == Span(run, "", "ApplicationInstance", START, at(3), {**about, "vworkspace.outcome": "Up"})


@pytest.mark.parametrize(
    ("kind", "done", "faults", "ends"),
    [
        (APPLICATION_INSTANCE, ("Ready", "True", 1), ("Degraded",), True),
        (APPLICATION_INSTANCE, ("Ready", "True", 0), ("Degraded",), False),
        (APPLICATION_INSTANCE, ("Ready", "False", 1), ("Degraded",), False),
        (APPLICATION_INSTANCE, ("Ready", "True", 1), ("Degraded", "Blocked"), False),
        (OPERATION, ("Succeeded", "True", 1), ("Running",), True),
        (OPERATION, ("Succeeded", "False", 1), ("Running",), False),
    ],
)
def test_a_run_ends_though_a_fault_stays_or_another_follows_SEE_7(
    kind: Kind, done: tuple[str, str, int], faults: tuple[str, ...], ends: bool
) -> None:
    """With drift, which webhooks cause at every release, the span was never sent, and had one more for each pass."""
    recorder, ref = TraceRecorder(CLUSTER_ID), ObjectRef(kind, "ns", "a")
    begun = {**instance(1, "Unknown"), "kind": kind.kind, "apiVersion": kind.api_version}
    assert [*recorder.object_changed(ref, begun, START)] == []

    type_, status, generation = done
    said = [{"type": type_, "status": status, "reason": "Said", "observedGeneration": generation}]
    said += [{"type": fault, "status": "True", "reason": "Fault", "observedGeneration": 1} for fault in faults]
    now = {**begun, "status": {"observedGeneration": 1, "conditions": said}}
    spans = [*recorder.object_changed(ref, now, at(1)), *recorder.reconciled(ref, 0.5, "success", [], "", at(2))]

    names = [(span.name, span.attributes.get("vworkspace.outcome"), span.error) for span in spans]
    assert names == ([(kind.kind, "Fault", "")] if ends else [("reconcile", None, "")])


def child(owner: dict[str, Any] | None, ready: str = "Unknown", reason: str = "") -> dict[str, Any]:
    """A HelmRelease, which Flux gave up if it is not ready."""
    condition = {"type": "Ready", "status": ready, "reason": reason or f"Is{ready}", "message": "why"}
    stalled = {"type": "Stalled", "status": "True" if ready == "False" else "False", "reason": "Up", "message": "why"}
    meta = {"name": "a", "namespace": "ns", **({} if owner is None else {"ownerReferences": [owner]})}
    return {**HELM_RELEASE.manifest("a", "ns"), "metadata": meta, "status": {"conditions": [condition, stalled]}}


OWNER = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": "ApplicationInstance", "name": "a", "uid": "u"}
CHILD = ObjectRef(HELM_RELEASE, "ns", "a")


def test_a_child_has_a_span_below_the_run_of_the_object_that_controls_it() -> None:
    recorder = TraceRecorder(CLUSTER_ID)
    assert [*recorder.object_changed(REF, instance(1, "Unknown"), START)] == []
    others = (None, OWNER, {**OWNER, "controller": True, "uid": "x"}, {**OWNER, "controller": "yes"})
    for owner in others:
        assert [*recorder.object_changed(CHILD, child(owner), at(1))] == []
    controls = {**OWNER, "controller": True}
    assert [*recorder.object_changed(CHILD, child(controls), at(2))] == []
    assert [*recorder.object_changed(CHILD, child(controls), at(3))] == [], "it goes on"
    for owner in others:
        assert [*recorder.object_changed(CHILD, child(owner, "True"), at(4))] == []

    (ended,) = recorder.object_changed(CHILD, child(controls, "False"), at(5))

    run = TraceContext.of("u", 1)
    about = {"k8s.object.kind": "HelmRelease", "k8s.namespace.name": "ns", "k8s.object.name": "a"}
    name = "HelmRelease IsUnknown"
    assert ended == Span(run.child(name, 1), run.span, name, at(2), at(5), about, "why")
    assert [*recorder.object_changed(CHILD, child(controls, "False"), at(6))] == [], "it has ended"
    assert [*recorder.object_changed(CHILD, child(controls), at(7))] == []
    (next_one,) = recorder.object_changed(CHILD, child(controls, reason="Other"), at(8))
    assert next_one == Span(run.child(name, 2), run.span, name, at(7), at(8), about, "")
    (well,) = recorder.object_changed(CHILD, child(controls, "True"), at(9))
    assert (well.name, well.began, well.error) == ("HelmRelease Other", at(8), "")


@pytest.mark.parametrize("observed", [None, 1])
@pytest.mark.parametrize(
    ("conditions", "name"),
    [
        ([{"type": "Ready", "status": "Unknown", "reason": "Up"}, {"type": "Reconciling", "reason": "No"}], "Up"),
        ([{"type": "Reconciling", "status": "True", "reason": "Waits"}, {"type": "Ready", "reason": ""}], "Waits"),
        ([{"type": "Other", "status": "True", "reason": "No"}], "Pending"),
        ([], "Pending"),
    ],
)
def test_the_span_of_a_child_is_named_by_its_reason_or_else_by_its_state(
    conditions: list[Any], name: str, observed: int | None
) -> None:
    """Flux observes a generation only when it is done with it, and has its reason before."""
    recorder = TraceRecorder(CLUSTER_ID)
    assert [*recorder.object_changed(REF, instance(1, "Unknown"), START)] == []
    going = {**child({**OWNER, "controller": True}), "status": {"conditions": conditions}}
    if observed is not None:
        going["metadata"]["generation"], going["status"]["observedGeneration"] = 2, observed
        name = name.replace("Pending", "GenerationNotObserved")
    assert [*recorder.object_changed(CHILD, going, at(1))] == []

    (span,) = recorder.object_changed(CHILD, child({**OWNER, "controller": True}, "True"), at(2))
    assert span.name == f"HelmRelease {name}"


def test_a_span_is_written_as_otlp_reads_it() -> None:
    context = TraceContext.of("u", 1)
    spans = [
        Span(context, "", "a", START, at(0.5), {"text": "x", "number": 7}),
        Span(context, "parent", "b", START, START, {}, "why"),
    ]
    began = str(int(START.timestamp()) * 10**9)

    def text(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value}}

    first = {
        "traceId": context.trace,
        "spanId": context.span,
        "parentSpanId": "",
        "name": "a",
        "kind": 1,
        "startTimeUnixNano": began,
        "endTimeUnixNano": str(int(began) + 5 * 10**8),
        "attributes": [text("text", "x"), {"key": "number", "value": {"intValue": "7"}}],
    }
    second = {
        **first,
        "parentSpanId": "parent",
        "name": "b",
        "endTimeUnixNano": began,
        "attributes": [],
        "status": {"code": 2, "message": "why"},
    }
    resource = [
        text("service.name", "vworkspace-operator"),
        text("service.version", "1"),
        text("k8s.cluster.name", "prod-1"),
    ]
    assert otlp(spans, "prod-1", "1") == {
        "resourceSpans": [
            {
                "resource": {"attributes": resource},
                "scopeSpans": [{"scope": {"name": "vworkspace-operator"}, "spans": [first, second]}],
            }
        ]
    }


def test_a_child_is_known_by_its_parent_as_well_as_by_its_own_identity() -> None:
    one, other = TraceContext("a" * 32, "b" * 16), TraceContext("a" * 32, "c" * 16)

    assert one.child("x") == one.child("x")
    assert one.child("x").trace == one.trace
    assert len({one.span, one.child("x").span, one.child("y").span, other.child("x").span}) == 4
    elsewhere = TraceContext("d" * 32, "b" * 16)
    assert one.child("x").span != elsewhere.child("x").span
    assert not TraceContext("a" * 32, "b" * 16, is_sampled=False).child("x").is_sampled


def changed(generation: int, *, is_ready: bool, key: str = "k1", observed: int | None = None) -> dict[str, Any]:
    """An instance that a job made, at a generation that the operator has observed."""
    condition = {"type": "Ready", "status": "True" if is_ready else "False", "reason": "Said"}
    return {
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "uid": "u",
            "generation": generation,
            "annotations": {IDEMPOTENCY_KEY: key},
        },
        "status": {"observedGeneration": observed or generation, "conditions": [condition]},
    }


def test_what_people_change_after_a_job_is_a_trace_of_its_own_each_time_SEE_7() -> None:
    recorder, traces = TraceRecorder(CLUSTER_ID), list[str]()
    for generation in (1, 2, 3, 4):
        seconds = float(generation)
        for is_ready in (False, True):
            for span in recorder.object_changed(REF, changed(generation, is_ready=is_ready), at(seconds)):
                traces.append(span.context.trace)
    assert traces[0] == job_context(CLUSTER_ID, "k1")[0].trace
    assert len(traces) == len(set(traces)) == 4

    [*recorder.object_changed(REF, changed(5, is_ready=False, key="k2"), at(9))]
    (span,) = recorder.object_changed(REF, changed(5, is_ready=True, key="k2"), at(10))
    assert span.context.trace == job_context(CLUSTER_ID, "k2")[0].trace, "another job is one trace with its object"


def test_a_generation_that_is_settled_when_it_is_first_seen_is_not_traced_when_it_fails_later_SEE_7() -> None:
    recorder = TraceRecorder(CLUSTER_ID)
    spans = [
        span
        for number, (generation, is_ready) in enumerate([(1, True), (2, True), (2, False), (2, True)])
        for span in recorder.object_changed(REF, changed(generation, is_ready=is_ready), at(number))
    ]
    assert spans == []


def test_two_jobs_of_one_trace_of_the_control_plane_have_their_object_below_them_SEE_7() -> None:
    recorder, spans = TraceRecorder(CLUSTER_ID), list[Span]()
    for generation, parent in ((1, "b7ad6b7169203331"), (2, "c7ad6b7169203332"), (3, "c7ad6b7169203332")):
        for is_ready in (False, True):
            manifest = changed(generation, is_ready=is_ready)
            manifest["metadata"]["annotations"][TRACEPARENT] = f"00-0af7651916cd43dd8448eb211c80319c-{parent}-01"
            spans += recorder.object_changed(REF, manifest, at(generation))
    assert [span.parent for span in spans] == ["b7ad6b7169203331", "c7ad6b7169203332", ""]
