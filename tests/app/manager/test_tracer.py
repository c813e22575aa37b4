"""SEE-7: one trace from a job to Ready, which a collector in this process takes as OTLP; work never waits for it."""

import base64
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import FrameType
from typing import Any

import anyio
import attrs
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kubelab.clock import VirtualClock, virtual_loop
from kubelab.flux import FluxBehaviour
from purekube.apimachinery.errors import Invalid, Unavailable
from tests.support.e2e_world import AGENT_TOKEN, CLUSTER, INSTANCE, LATER, NAME, OWN_NS, QUICK, World, instance
from tests.support.servers import START, simulate
from vworkspace_app.manager import tracer
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY, TRACEPARENT
from vworkspace_core.instances.context import Settings
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.overview import traces
from vworkspace_fake.controlplane import InProcessControlPlane

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@attrs.define
class Collector:
    """A collector that keeps the spans it takes, decoded by OpenTelemetry's own protocol buffers."""

    spans: list[Any] = attrs.field(factory=list)
    answer: Exception | None = None
    asked: int = 0

    async def send(self, document: Mapping[str, Any]) -> None:
        self.asked += 1
        if self.answer is not None:
            raise self.answer
        request = ParseDict(_ids_as_base64(document), ExportTraceServiceRequest())
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)

    def named(self, name: str) -> Any:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def below(self, above: Any) -> list[str]:
        children = [span for span in self.spans if span.parent_span_id == above.span_id]
        return [span.name for span in sorted(children, key=lambda span: span.start_time_unix_nano)]


def _ids_as_base64(value: Any) -> Any:
    """OTLP's JSON writes ids in hex, where the JSON of protocol buffers has base64."""
    if isinstance(value, list):
        return [_ids_as_base64(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    ids = {"traceId", "spanId", "parentSpanId"}
    return {name: _base64(each) if name in ids else _ids_as_base64(each) for name, each in value.items()}


def _base64(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()


Story = Callable[[World, Collector], Awaitable[None]]


def traced(
    story: Story, collector: Collector | None = None, behaviour: FluxBehaviour = QUICK, *, is_on: bool = True
) -> Collector:
    """Run a story with an operator that sends spans to the collector if tracing `is_on`."""
    into = collector or Collector()

    async def main() -> None:
        clock = VirtualClock()
        world = World.create(clock, behaviour)
        api: Any = world.operator_witness
        store = KubeJobStore(api, OWN_NS, lock=anyio.Lock())
        manager = Manager(
            api,
            clock,
            OperatorSettings(Settings(cluster_id=CLUSTER), identity="e2e", version="1.2.3"),
            agent=AgentOptions(InProcessControlPlane(world.control, AGENT_TOKEN), store),
            collector=into if is_on else None,
            random=lambda: 0.5,
        )
        async with anyio.create_task_group() as group:
            simulate(group, world)
            group.start_soon(manager.run)
            await manager.wait_ready()
            await story(world, into)
            group.cancel_scope.cancel()

    anyio.run(main, backend_options={"loop_factory": virtual_loop(START)})
    return into


async def from_job_to_ready(world: World, _: Collector) -> None:
    await world.ready()
    await world.clock.sleep(10)


@pytest.mark.slow
def test_a_job_is_one_trace_until_its_result_is_accepted() -> None:
    seen = traced(from_job_to_ready)
    job, run = seen.named("job"), seen.named("ApplicationInstance")

    assert {span.trace_id for span in seen.spans} == {job.trace_id}
    assert not job.parent_span_id
    assert run.parent_span_id == job.span_id
    assert [name for name in seen.below(job) if name != "ApplicationInstance"] == [
        "store job", "acknowledge", "inspect", "store intent", "apply", "store effect", "wait for status",
        "post result", "close",
    ]  # fmt: skip
    assert {"reconcile", "HelmRelease Progressing"} <= set(seen.below(run))
    about = {each.key: each.value.string_value for each in job.attributes}
    assert about["k8s.object.name"] == NAME
    assert about["vworkspace.outcome"] == "succeeded"


def calls_by_module(run: Callable[[], object]) -> Counter[str]:
    """Count the calls of Python functions by module, which no load changes."""
    counted = Counter[str]()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counted[frame.f_globals.get("__name__", "")] += 1

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.slow
def test_without_the_setting_no_function_of_the_tracer_is_called_SEE_7() -> None:
    off = calls_by_module(lambda: traced(from_job_to_ready, is_on=False))
    on = calls_by_module(lambda: traced(from_job_to_ready))
    of_traces = (tracer.__name__, traces.__name__)

    assert [off[module] for module in of_traces] == [0, 0]
    assert all(on[module] > 10 for module in of_traces)


@pytest.mark.slow
def test_a_span_lies_within_the_one_above_it_and_passes_name_their_writes() -> None:
    seen = traced(from_job_to_ready)
    by_id = {span.span_id: span for span in seen.spans}
    assert len(by_id) == len(seen.spans), "no id is given twice"
    for span in seen.spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if above := by_id.get(span.parent_span_id):
            assert above.start_time_unix_nano <= span.start_time_unix_nano
    writes = [each.value.string_value for span in seen.spans for each in span.attributes if each.key.endswith("writes")]
    assert any("HelmRelease" in text for text in writes)


@pytest.mark.slow
def test_the_control_plane_s_trace_is_continued_through_the_annotation() -> None:
    async def asked_within_a_trace(world: World, _: Collector) -> None:
        job = world.ask("6.6.0", 7, traceparent=PARENT)
        await world.result(job)
        assert world.get(INSTANCE)["metadata"]["annotations"][TRACEPARENT].startswith(PARENT[:35])
        await world.clock.sleep(10)

    seen = traced(asked_within_a_trace)
    job, run = seen.named("job"), seen.named("ApplicationInstance")
    assert job.trace_id.hex() == run.trace_id.hex() == PARENT.split("-")[1]
    assert job.parent_span_id.hex() == PARENT.split("-")[2]
    assert run.parent_span_id == job.span_id


def test_a_trace_that_is_not_sampled_sends_nothing() -> None:
    async def asked_within_a_trace(world: World, collector: Collector) -> None:
        await world.result(world.ask("6.6.0", 7, traceparent=PARENT[:-2] + "00"))
        await world.clock.sleep(10)
        assert collector.asked == 0

    traced(asked_within_a_trace)


@pytest.mark.slow
def test_what_a_person_changes_is_a_trace_of_its_own() -> None:
    async def edited_after_a_job(world: World, collector: Collector) -> None:
        await from_job_to_ready(world, collector)
        world.edit(INSTANCE, {"spec": {"chart": {"version": LATER}}})
        await world.until(lambda: world.get(INSTANCE)["status"]["observedGeneration"] == 2, "seen")
        await world.until(lambda: world.conditions()["Ready"].startswith("True"), "ready")
        await world.clock.sleep(10)

    seen = traced(edited_after_a_job)
    first, second = [span for span in seen.spans if span.name == "ApplicationInstance"]
    assert first.trace_id != second.trace_id
    assert not second.parent_span_id


@pytest.mark.slow
def test_two_processes_give_a_span_the_same_place() -> None:
    first, second = traced(from_job_to_ready), traced(from_job_to_ready)
    assert first.named("job").span_id == second.named("job").span_id
    assert first.named("job").trace_id == second.named("job").trace_id


@pytest.mark.slow
def test_work_never_waits_for_the_collector_and_spans_are_sent_once_it_is_back() -> None:
    collector = Collector(answer=Unavailable("away"))

    async def away_for_a_while(world: World, into: Collector) -> None:
        await world.ready()
        await world.clock.sleep(300)
        assert into.asked > 3
        assert not into.spans
        into.answer = None
        await world.clock.sleep(120)

    assert traced(away_for_a_while, collector).named("job").name == "job"


def test_a_collector_is_spared_for_as_long_as_it_asks_SEE_7() -> None:
    """The header Retry-After of OTLP over HTTP, by which a busy collector recovers."""
    collector = Collector(answer=Unavailable("busy", retry_after=200.0))

    async def busy_for_a_while(world: World, into: Collector) -> None:
        await world.ready()
        await world.clock.sleep(300)
        assert 1 <= into.asked <= 2
        into.answer = None
        await world.clock.sleep(250)

    assert traced(busy_for_a_while, collector).named("job").name == "job"


@pytest.mark.slow
def test_spans_that_a_collector_refuses_are_lost_and_later_ones_are_sent() -> None:
    collector = Collector(answer=Invalid("no such tenant"))

    async def refused_at_first(world: World, into: Collector) -> None:
        await world.ready()
        await world.clock.sleep(10)
        into.answer = None
        await world.ready(LATER, 8)
        await world.clock.sleep(10)

    assert traced(refused_at_first, collector).named("job").name == "job", "the second one's alone"


@pytest.mark.slow
def test_an_application_of_a_person_begins_a_trace_and_its_deletion_another() -> None:
    async def made_and_deleted(world: World, _: Collector) -> None:
        labels = {MANAGED_BY: "control-plane", CLUSTER_ID: CLUSTER}
        manifest = instance()
        manifest["metadata"]["labels"] = labels
        world.create_object(manifest, APPLICATION_INSTANCE)
        await world.until(lambda: world.conditions().get("Ready", "").startswith("True"), "Ready")
        world.delete_object(INSTANCE)
        await world.until(lambda: world.find(INSTANCE) is None, "gone")
        await world.clock.sleep(10)

    seen = traced(made_and_deleted)
    outcomes = [
        each.value.string_value
        for span in seen.spans
        if span.name == "ApplicationInstance"
        for each in span.attributes
        if each.key == "vworkspace.outcome"
    ]
    assert outcomes == ["HelmReleaseReady", "Deleted"]


def test_a_defect_of_the_collector_s_client_ends_neither_the_operator_nor_the_traces_SEE_7() -> None:
    collector = Collector(answer=RuntimeError("a defect"))

    async def defective_at_first(world: World, into: Collector) -> None:
        await world.ready()
        await world.clock.sleep(120)
        into.answer = None
        await world.ready(LATER, 8)
        await world.clock.sleep(120)

    assert "job" in [span.name for span in traced(defective_at_first, collector).spans]
