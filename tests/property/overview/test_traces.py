"""SEE-7: whatever happens to objects, in any order, spans are whole, unique, and stay within bounds."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import IDEMPOTENCY_KEY, TRACEPARENT
from vworkspace_core.jobs.scope import TraceContext, job_context
from vworkspace_core.overview.traces import MOST_OPEN, Span, TraceRecorder, otlp

START = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = st.sampled_from(["a", "b"])
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANNOTATIONS = st.sampled_from([{}, {IDEMPOTENCY_KEY: "k@1"}, {TRACEPARENT: PARENT}, {TRACEPARENT: "00-nothing"}])
CHANGES = st.tuples(
    st.sampled_from(["instance", "gone", "release", "pass"]),
    NAMES,
    st.integers(1, 3),
    st.sampled_from(["True", "False", "Unknown", None]),
    ANNOTATIONS,
)


def instance(name: str, generation: int, ready: str | None, annotations: dict[str, str]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": generation, "annotations": annotations}
    body: dict[str, Any] = {**APPLICATION_INSTANCE.manifest(name, "ns"), "metadata": meta}
    if ready is None:
        return body
    conditions = [{"type": "Ready", "status": ready, "reason": "R", "message": "password=hunter2"}]
    return {**body, "status": {"observedGeneration": generation, "conditions": conditions}}


def release(name: str, ready: str | None) -> dict[str, Any]:
    owner = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": "ApplicationInstance", "controller": True}
    meta = {"name": name, "namespace": "ns", "ownerReferences": [{**owner, "name": name, "uid": f"uid-{name}"}]}
    said = [] if ready is None else [{"type": "Ready", "status": ready, "reason": f"Ready{ready}", "message": ""}]
    return {**HELM_RELEASE.manifest(name, "ns"), "metadata": meta, "status": {"conditions": said}}


def played(
    changes: Iterable[tuple[str, str, int, str | None, dict[str, str]]], most_open: int = MOST_OPEN
) -> list[Span]:
    recorder, now, spans = TraceRecorder("prod-1", most_open), START, list[Span]()
    for what, name, generation, ready, annotations in changes:
        now += timedelta(seconds=1)
        ref = ObjectRef(APPLICATION_INSTANCE, "ns", name)
        match what:
            case "instance":
                spans += recorder.object_changed(ref, instance(name, generation, ready, annotations), now)
            case "gone":
                spans += recorder.object_changed(ref, None, now)
            case "release":
                spans += recorder.object_changed(ObjectRef(HELM_RELEASE, "ns", name), release(name, ready), now)
            case _:
                spans += recorder.reconciled(ref, 0.5, "success", ["status X"], "password=hunter2", now)
    for name in ("a", "b"):
        spans += recorder.object_changed(ObjectRef(APPLICATION_INSTANCE, "ns", name), None, now)
    return spans


@given(st.lists(CHANGES, max_size=20))
def test_spans_end_after_they_began_and_lie_below_a_span_of_their_trace(changes: Any) -> None:
    spans = played(changes)
    jobs = {str(TraceContext.parsed(PARENT)), str(job_context("prod-1", "k@1")[0])}
    known = {(span.context.trace, span.context.span) for span in spans} | {
        (context.trace, context.span) for context in filter(None, map(TraceContext.parsed, jobs))
    }
    for span in spans:
        assert span.began <= span.ended
        assert not span.parent or (span.context.trace, span.parent) in known
        assert "hunter2" not in str(span)


@given(st.lists(CHANGES, max_size=20))
def test_two_recorders_that_see_the_same_send_the_same(changes: Any) -> None:
    assert otlp(played(changes), "prod-1", "1") == otlp(played(changes), "prod-1", "1")


RELEASE: Final = ObjectRef(HELM_RELEASE, "ns", "a")


def phases(*states: tuple[float, str | None]) -> list[tuple[str, float, float, str]]:
    """The ended spans of a release that says this at these seconds: name, beginning, end and error."""
    recorder, spans = TraceRecorder("prod-1"), list[Span]()
    ref = ObjectRef(APPLICATION_INSTANCE, "ns", "a")
    spans += recorder.object_changed(ref, instance("a", 1, "Unknown", {}), START)
    for at, ready in states:
        spans += recorder.object_changed(RELEASE, release("a", ready), START + timedelta(seconds=at))
    ends = START + timedelta(seconds=100)
    spans += recorder.object_changed(ref, instance("a", 1, "True", {}), ends)
    return [
        (span.name, (span.began - START).total_seconds(), (span.ended - START).total_seconds(), span.error)
        for span in spans
    ]


def test_each_reason_of_a_child_is_a_span_that_ends_with_the_next_or_when_it_is_settled() -> None:
    said = phases((1, None), (2, "Unknown"), (3, "Unknown"), (5, "True"), (6, "True"), (7, "Unknown"))
    assert said[:2] == [(said[0][0], 1, 2, ""), ("HelmRelease ReadyUnknown", 2, 5, "")]
    assert said[2] == ("HelmRelease ReadyUnknown", 7, 100, "")
    assert [each[0] for each in said[3:]] == ["ApplicationInstance"]


def test_a_child_that_fails_ends_its_span_with_an_error_and_one_of_nobody_has_none() -> None:
    said = phases((2, "Unknown"), (4, "False"))
    assert [each[:3] for each in said[:1]] == [("HelmRelease ReadyUnknown", 2, 4)]

    recorder = TraceRecorder("prod-1")
    assert [*recorder.object_changed(RELEASE, release("a", "Unknown"), START)] == []
    assert [*recorder.object_changed(RELEASE, None, START)] == []


@given(st.text(max_size=60) | st.just(PARENT))
def test_a_context_is_read_as_it_is_written_and_nothing_else_is(text: str) -> None:
    context = TraceContext.parsed(text)
    assert context is None or str(context) == text.lower()[:-2] + ("01" if context.is_sampled else "00")
    child = TraceContext.of("prod-1", text).child(text)
    assert TraceContext.parsed(str(child)) == child


def test_more_objects_than_the_bound_are_not_traced() -> None:
    changes = [("instance", name, 1, None, dict[str, str]()) for name in ("a", "b")]
    assert [span.name for span in played(changes, most_open=1)] == ["ApplicationInstance"]


def test_a_failure_is_the_error_of_its_span_and_ids_of_traces_differ_by_generation() -> None:
    recorder = TraceRecorder("prod-1")
    ref = ObjectRef(APPLICATION_INSTANCE, "ns", "a")
    spans: list[Span] = []
    for generation in (1, 2):
        for stalled in (False, True):
            manifest = instance("a", generation, "False", {})
            if stalled:
                condition = {"type": "Stalled", "status": "True", "reason": "Bad", "message": "no such chart"}
                manifest["status"]["conditions"].append(condition)
            spans += recorder.object_changed(ref, manifest, START)
    assert [span.error for span in spans] == ["no such chart", "no such chart"]
    assert len({span.context.trace for span in spans}) == 2


def test_attributes_are_texts_or_numbers_as_otlp_writes_them_SEE_7() -> None:
    ended = played([("instance", "a", 1, ready, {}) for ready in ("Unknown", "True")])
    spans = [attrs.evolve(span, attributes={"a": "x", "b": 3}) for span in ended]
    (sent,) = otlp(spans[:1], "prod-1", "1.2.3")["resourceSpans"]

    (scope,) = sent["scopeSpans"]
    assert [span["attributes"] for span in scope["spans"]] == [
        [{"key": "a", "value": {"stringValue": "x"}}, {"key": "b", "value": {"intValue": "3"}}]
    ]
    assert {each["key"]: each["value"] for each in sent["resource"]["attributes"]} == {
        "service.name": {"stringValue": "vworkspace-operator"},
        "service.version": {"stringValue": "1.2.3"},
        "k8s.cluster.name": {"stringValue": "prod-1"},
    }
