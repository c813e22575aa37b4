"""What is read of the API server for a decision about an Operation: which requests, in which order (REC-2, OPS-3)."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import attrs
import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Forbidden, KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CORE_EVENT, JOB, NAMESPACE, POD
from purekube.ports import KubeApi, KubeRequest, KubeVerb, WatchEvent
from tests.support.operation_worlds import (
    CONTEXT,
    NS,
    OP_UID,
    TARGET,
    operation,
    operation_manifest,
    started,
    target_manifest,
)
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.operations.context import OperationContext, OperationObserved, observe_operation_live
from vworkspace_core.operations.identity import name_of

MADE = ObjectRef(JOB, NS, name_of(operation()))
HERE = {"metadata": {"name": NS}}


@attrs.define
class Server:
    """The objects and lists that a server answers with, and the requests that it got."""

    objects: Mapping[ObjectRef, Manifest]
    lists: Mapping[Kind, list[Any]] = attrs.field(factory=dict)
    errors: Mapping[Kind, Exception] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)

    async def send(self, request: KubeRequest) -> Manifest:
        selected = {key: value for key, value in request.params.items() if value}
        self.asked.append(f"{request}{f' {selected}' if selected else ''}")
        if error := self.errors.get(request.kind):
            raise error
        if request.verb is KubeVerb.LIST:
            return {"items": self.lists.get(request.kind, []), "metadata": {"resourceVersion": "1"}}
        if request.ref not in self.objects:
            raise NotFound(str(request))
        return self.objects[request.ref]

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        raise AssertionError("an observation opens no watch")


def observed(
    server: Server, one: Any = None, context: OperationContext = CONTEXT, not_served: Iterable[Kind] = ()
) -> OperationObserved:
    return run_sync(observe_operation_live(KubeApi(server), one or operation(), context, not_served))


def world(**fields: Any) -> Server:
    return Server({ObjectRef(NAMESPACE, None, NS): HERE, TARGET: target_manifest()}, **fields)


BEGIN = [f"get Namespace {NS}", f"get ApplicationInstance {NS}/{TARGET.name}"]
END = f"list Operation {NS}"


def test_an_operation_that_has_not_begun_reads_its_target_and_what_it_would_create() -> None:
    server = world()
    seen = observed(server)

    assert server.asked == [*BEGIN, f"get Job {NS}/{MADE.name}", END]
    assert seen == OperationObserved(HERE, {TARGET: target_manifest()})


def test_siblings_are_the_other_operations_of_the_namespace_on_the_target_OPS_5() -> None:
    listed = [operation_manifest(name="a", uid="a"), operation_manifest(), operation_manifest(name="c", uid="c")]
    seen = observed(world(lists={OPERATION: listed}))

    assert [one.metadata.uid for one in seen.siblings] == ["a", "c"]
    assert OP_UID not in {one.metadata.uid for one in seen.siblings}


def test_kinds_that_are_not_served_are_not_asked_for_and_those_found_missing_are_told() -> None:
    server = world()
    assert observed(server, not_served=(JOB,)).missing_kinds == {JOB}
    assert server.asked == [*BEGIN, END]

    server = world(errors={JOB: KindMissing("no such kind")})
    assert observed(server).missing_kinds == {JOB}
    assert server.asked == [*BEGIN, f"get Job {NS}/{MADE.name}", END]


def test_what_is_looked_up_twice_is_read_once_and_in_the_order_of_its_first_place() -> None:
    more = ObjectRef(JOB, NS, "more")
    engine = attrs.evolve(CONTEXT.engines["job"], looks_up=lambda one, target, settings: (more, MADE, more))
    server = world()
    observed(server, context=attrs.evolve(CONTEXT, engines={"job": engine}))

    assert server.asked == [*BEGIN, f"get Job {NS}/{MADE.name}", f"get Job {NS}/more", END]


def test_a_namespace_that_is_missing_is_told_and_nothing_in_it_is_read() -> None:
    engine = attrs.evolve(CONTEXT.engines["job"], namespace=lambda settings: "velero")
    context = attrs.evolve(CONTEXT, engines={"job": engine})
    server = world()
    seen = observed(server, context=context)

    assert server.asked == [*BEGIN, "get Namespace velero", END]
    assert seen.missing_places == {"velero"}

    there = Server({**server.objects, ObjectRef(NAMESPACE, None, "velero"): {"metadata": {"name": "velero"}}})
    assert observed(there, context=context).missing_places == frozenset()
    assert there.asked == [*BEGIN, "get Namespace velero", f"get Job velero/{MADE.name}", END]


def test_in_a_namespace_that_goes_a_missing_right_is_an_absent_object() -> None:
    going = {"metadata": {"name": NS, "deletionTimestamp": "2026-06-01T12:00:00Z"}, "status": {"phase": "Terminating"}}
    errors = {JOB: Forbidden("may not")}
    server = Server({ObjectRef(NAMESPACE, None, NS): going}, errors=errors)
    assert observed(server).objects == {}

    with pytest.raises(Forbidden, match=r"^may not$"):
        observed(world(errors=errors))


def test_a_run_reads_its_object_and_why_its_pods_do_not_start() -> None:
    one, made = started("runCommand.job")
    assert made is not None
    live = {**made.manifest, "metadata": {**made.manifest["metadata"], "uid": "uid-1"}}
    pod = {"metadata": {"name": "p", "namespace": NS}}
    server = world(lists={POD: [pod]})
    server.objects = {**server.objects, made.ref: live}
    seen = observed(server, one)

    first, *listings = server.asked[2:]
    assert (server.asked[:2], first) == (BEGIN, f"get Job {NS}/{made.ref.name}")
    assert END not in listings, "a run looks again every few seconds, and ended Operations stay for years"
    assert listings == [
        f"list Event {NS} {{'fieldSelector': 'involvedObject.uid=uid-1', 'limit': 50}}",
        f"list Pod {NS} {{'labelSelector': 'batch.kubernetes.io/controller-uid=uid-1', 'limit': 50}}",
    ]
    assert seen.objects == {TARGET: target_manifest(), made.ref: live, ObjectRef(POD, NS, "p"): pod}
    assert CORE_EVENT not in seen.missing_kinds


def test_an_unknown_engine_reads_its_target_only() -> None:
    server = world()
    assert observed(server, context=attrs.evolve(CONTEXT, engines={})).objects == {TARGET: target_manifest()}
    assert server.asked == [*BEGIN, END]


def test_an_engine_reads_what_the_objects_that_were_found_name() -> None:
    extra = ObjectRef(JOB, NS, "extra")
    engine = attrs.evolve(
        CONTEXT.engines["job"], extra_reads=lambda one, objects: (extra,) if TARGET in objects else ()
    )
    context = attrs.evolve(CONTEXT, engines={"job": engine})
    server = world()
    observed(server, context=context)
    assert server.asked == [*BEGIN, f"get Job {NS}/{MADE.name}", f"get Job {NS}/extra", END]

    bare = Server({})
    assert observed(bare, context=context) == OperationObserved(None, {})
    assert bare.asked == [*BEGIN, f"get Job {NS}/{MADE.name}", END]
