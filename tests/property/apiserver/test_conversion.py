"""Kinds of several versions in process: a function converts, and what it refuses is refused (RUN-9, PH-8)."""

from collections.abc import Callable
from typing import Any

import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import ADMIN, PLAIN_WRITE, RequestTarget, RequestVerb
from kubelab.model.failure import ApiFailure
from kubelab.server import ApiServer
from kubelab.writes.writer import WriteCall
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import PatchType
from tests.support.simulation import START
from tests.support.two_versions import TwoVersions, converted

KIND = TwoVersions("talks.example")
V1, OLD = (Kind(KIND.group, version, "Thing", "things") for version in ("v1", "v1alpha1"))
ASKED = {"clientConfig": {"url": "https://talks.example/"}, "conversionReviewVersions": ["v1beta1", "v1"]}


class World:
    """An API server that asks `convert`, which a test may break."""

    def __init__(self, *, asks: bool = True) -> None:
        self.convert: Callable[[dict[str, Any], str], Any] = converted
        self.asked = 0
        self.server = ApiServer(now=lambda: START, collects=True, ask=self._answer if asks else None)
        self.api = InProcessKube(self.server)
        crd = KIND.crd({"strategy": "Webhook", "webhook": ASKED})
        run_sync(self.api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test"))

    def _answer(self, webhook: Any, review: Manifest) -> Any:
        self.asked += 1
        request = review["request"]
        objects = [self.convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}

    def create(self, kind: Kind, name: str, **spec: Any) -> Manifest:
        manifest = KIND.thing(kind.version, name, **spec)
        return run_sync(self.api.create(manifest, kind=kind, field_manager="test"))

    def get(self, kind: Kind, name: str) -> Manifest:
        return run_sync(self.api.get(ObjectRef(kind, "default", name)))


def test_a_conversion_is_asked_only_where_an_object_is_in_another_version() -> None:
    world = World()
    world.create(V1, "a", host="x")
    assert world.get(V1, "a")["spec"] == {"host": "x", "tier": "one"}
    assert world.asked == 0
    assert world.get(OLD, "a")["spec"] == {"hostName": "x", "tier": "one"}
    assert world.asked == 1


def test_a_watch_in_another_version_shows_the_conversion_of_each_change_in_order() -> None:
    world = World()
    stream = world.api.open_watch(OLD, namespace="default")
    for host in ("x", "y"):
        world.create(V1, host, host=host)
    run_sync(world.api.delete(ObjectRef(V1, "default", "x")))
    seen = [(event.type, event.object["spec"]["hostName"]) for event in stream.drain() if "spec" in event.object]
    assert seen == [("ADDED", "x"), ("ADDED", "y"), ("DELETED", "x")]


def test_a_conversion_that_fails_loses_no_change_of_a_watch() -> None:
    world = World()
    stream = world.api.open_watch(OLD, namespace="default")
    world.create(V1, "a", host="x")
    world.convert = lambda manifest, version: {**manifest}
    with pytest.raises(ApiFailure, match="invalid groupVersion"):
        stream.drain()
    world.convert = converted
    assert [event.object["spec"]["hostName"] for event in stream.drain() if "spec" in event.object] == ["x"]


def test_without_anybody_to_ask_a_conversion_says_what_to_give() -> None:
    world = World(asks=False)
    world.create(V1, "a")
    with pytest.raises(OperatorError, match=r"give ApiServer\(ask=…\)"):
        world.get(OLD, "a")


def test_what_looks_at_metadata_only_needs_no_conversion() -> None:
    """Garbage, namespaces and definitions go also while a webhook is down."""
    world = World()
    owner = world.create(V1, "owner", host="x")
    reference = {"apiVersion": owner["apiVersion"], "kind": "Thing", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = KIND.thing("v1alpha1", "child", hostName="y")
    child["metadata"]["ownerReferences"] = [reference]
    run_sync(world.api.create(child, kind=OLD, field_manager="test"))
    world.convert = lambda manifest, version: None
    run_sync(world.api.delete(ObjectRef(V1, "default", "owner")))
    assert run_sync(world.api.list(V1, namespace="default")).items == []
    world.create(V1, "last", host="x")
    definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, KIND.name)
    run_sync(world.api.delete(definition))
    assert world.server.store.count((KIND.group, "things")) == 0


def test_an_object_of_a_version_that_is_gone_cannot_be_read() -> None:
    world = World()
    world.create(V1, "a")
    crd = run_sync(world.api.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, KIND.name)))
    versions = [{**version, "storage": version["name"] == "v1alpha1"} for version in crd["spec"]["versions"]]
    third = {**versions[1], "name": "v1beta1", "storage": False}
    changed = {**crd, "spec": {**crd["spec"], "versions": [*versions, third]}}
    crd = run_sync(world.api.update(changed, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test"))
    ref = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, KIND.name)
    patch = {"status": {"storedVersions": ["v1alpha1"]}}
    crd = run_sync(world.api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="test", subresource="status"))
    left = [version for version in crd["spec"]["versions"] if version["name"] != "v1"]
    run_sync(
        world.api.update(
            {**crd, "spec": {**crd["spec"], "versions": left}}, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test"
        )
    )
    with pytest.raises(OperatorError, match=r"convert CR from an invalid group/version: talks\.example/v1"):
        world.get(OLD, "a")


def test_a_webhook_for_one_version_is_asked_about_all_with_the_object_converted() -> None:
    """matchPolicy Equivalent, which is the default; by Exact it is asked about the versions that it names."""
    world = World()
    kind = Kind(
        "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False
    )
    rule = {"apiGroups": [KIND.group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}
    common = {"admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://h/"}, "sideEffects": "None"}
    hooks = [
        {"name": f"{policy.lower()}.talks.example", "matchPolicy": policy, "rules": [rule], **common}
        for policy in ("Equivalent", "Exact")
    ]
    run_sync(world.api.create({**kind.manifest("both"), "webhooks": hooks}, kind=kind, field_manager="test"))

    def asked(version: str, **spec: Any) -> list[tuple[str, Any, Any]]:
        target = RequestTarget(world.server.registry.at(KIND.group, version, "things"), "default")
        call = WriteCall(RequestVerb.CREATE, target, KIND.thing(version, "a", **spec), PLAIN_WRITE, ADMIN)
        request = world.server.prepare(call).request()
        found = [(webhook, request.in_version(webhook.asked_in)) for webhook in world.server.webhooks(request)]
        reviews = [(webhook.name, one.review("u", "v1")["request"]) for webhook, one in found]
        return [(name, one["resource"]["version"], one["object"]["spec"]["host"]) for name, one in reviews]

    both = [("equivalent.talks.example", "v1", "x"), ("exact.talks.example", "v1", "x")]
    assert asked("v1", host="x") == both
    assert asked("v1alpha1", hostName="x") == both[:1]
