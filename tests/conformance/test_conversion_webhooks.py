"""Kinds of several versions on the embedded API server and on a kube-apiserver: the same answers (RUN-9, PH-8).

What a real server answers from its cache while a webhook fails is not compared: the embedded one has no cache.
"""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import pytest

from tests.support.conversion_webhook import Webhook, conversion_webhook
from tests.support.effort import unused_name
from tests.support.plain_http import WIRES, until
from tests.support.server_thread import Answer, Wire
from tests.support.two_versions import TwoVersions, converted

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY = {"content_type": "application/apply-patch+yaml"}
MERGE = {"content_type": "application/merge-patch+json"}
Change = Callable[[dict[str, Any]], dict[str, Any]]


@attrs.frozen
class Versioned:
    """A kind in two versions on a server."""

    wire: Wire
    kind: TwoVersions
    webhook: Webhook

    def definition(self) -> dict[str, Any]:
        found: dict[str, Any] = self.wire.send("GET", f"{DEFINITIONS}/{self.kind.name}").json
        return found

    def store_in(self, version: str) -> None:
        """Make it the storage version."""
        crd = self.definition()
        for one in crd["spec"]["versions"]:
            one["storage"] = one["name"] == version
        assert self.wire.send("PUT", f"{DEFINITIONS}/{self.kind.name}", crd).status == 200
        until(lambda: version in self.definition()["status"]["storedVersions"])
        time.sleep(self.settling)

    @property
    def settling(self) -> float:
        """A real server serves a changed definition a moment after it is written, and tells nobody."""
        return 0.0 if type(self.wire.connection).__name__ == "HTTPConnection" else 2.0

    def create(self, version: str, name: str, **spec: Any) -> Answer:
        return self.wire.send("POST", self.kind.path(version), self.kind.thing(version, name, **spec))

    def get(self, version: str, name: str) -> Answer:
        return self.wire.send("GET", self.kind.path(version, name))

    def apply(self, version: str, manager: str, name: str, query: str = "", **spec: Any) -> Answer:
        path = f"{self.kind.path(version, name)}?fieldManager={manager}{query}"
        return self.wire.send("PATCH", path, self.kind.thing(version, name, **spec), **APPLY)


def is_served(wire: Wire, path: str) -> bool:
    return wire.send("GET", path).status == 200


@pytest.fixture(params=WIRES, scope="module")
def versioned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versioned]:
    kind = TwoVersions(f"{unused_name('x')}.vworkspace.test")
    with request.param() as wire, conversion_webhook(tmp_path_factory.mktemp("hook"), converted) as webhook:
        assert wire.send("POST", DEFINITIONS, kind.crd(webhook.conversion())).status == 201
        for version in ("v1", "v1alpha1"):
            until(partial(is_served, wire, kind.path(version)))
        yield Versioned(wire, kind, webhook)
        webhook.answer = None
        wire.send("DELETE", f"{DEFINITIONS}/{kind.name}")


def specs(answer: Answer) -> list[Any]:
    return [item["spec"] for item in answer.json["items"]]


@pytest.mark.slow
def test_an_object_is_read_listed_and_watched_in_each_version(versioned: Versioned) -> None:
    """Written in one, defaulted by the one that was written, without what the other does not know."""
    made = versioned.create("v1alpha1", "read", hostName="x", replicas=3)
    assert made.status == 201
    assert made.json["spec"] == {"hostName": "x", "replicas": 3, "tier": "zero"}
    new = versioned.get("v1", "read").json
    assert new["apiVersion"].endswith("/v1")
    assert new["spec"] == {"host": "x", "size": 3, "tier": "zero"}
    assert new["metadata"] == made.json["metadata"]
    for version, field in (("v1", "host"), ("v1alpha1", "hostName")):
        listed = versioned.wire.send("GET", versioned.kind.path(version))
        assert [spec[field] for spec in specs(listed) if field in spec] == ["x"]
        seen = versioned.wire.send("GET", f"{versioned.kind.path(version)}?watch=1&timeoutSeconds=1")
        events = [json.loads(line) for line in seen.raw.splitlines()]
        assert [event["object"]["spec"][field] for event in events if event["type"] == "ADDED"] == ["x"]
    versioned.wire.send("DELETE", versioned.kind.path("v1alpha1", "read"))
    assert versioned.get("v1", "read").status == 404


def test_an_invalid_object_is_refused_in_each_version_without_an_admission_webhook(versioned: Versioned) -> None:
    for version, field in (("v1", "size"), ("v1alpha1", "replicas")):
        refused = versioned.create(version, "invalid", **{field: "many"})
        assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (422, f"spec.{field}")


@pytest.mark.slow
def test_fields_are_owned_in_the_version_they_were_written_in(versioned: Versioned) -> None:
    """S-63: an applier of one version conflicts with an applier of another about what they call by two names."""
    assert versioned.apply("v1", "A", "owned", host="h", size=1).status == 201
    same = versioned.apply("v1alpha1", "B", "owned", hostName="h").json
    assert (same["metadata"]["generation"], same["spec"]) == (1, {"hostName": "h", "replicas": 1, "tier": "one"})
    refused = versioned.apply("v1alpha1", "B", "owned", hostName="other")
    assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (409, ".spec.host")
    forced = versioned.apply("v1alpha1", "B", "owned", "&force=true", hostName="other").json
    owners = {
        managed_field["manager"]: managed_field["fieldsV1"] for managed_field in forced["metadata"]["managedFields"]
    }
    assert owners == {"A": {"f:spec": {"f:size": {}}}, "B": {"f:spec": {"f:hostName": {}}}}
    assert versioned.apply("v1", "A", "owned").json["spec"] == {"host": "other", "tier": "one"}
    moved = versioned.apply("v1", "B", "owned", size=4).json
    assert moved["spec"] == {"size": 4, "tier": "one"}, "B no longer says host, in whichever version it said so"
    patch = {"spec": {"replicas": 9}}
    assert versioned.wire.send("PATCH", versioned.kind.path("v1alpha1", "owned"), patch, **MERGE).status == 200
    assert versioned.get("v1", "owned").json["spec"]["size"] == 9


def answering(**response: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def answer(review: dict[str, Any]) -> dict[str, Any]:
        kept = {"uid": review["request"]["uid"], **response}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": kept}

    return answer


def changing(change: Change) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def answer(review: dict[str, Any]) -> dict[str, Any]:
        request = review["request"]
        objects = [change(converted(obj, request["desiredAPIVersion"])) for obj in request["objects"]]
        return answering(result={"status": "Success"}, convertedObjects=objects)(review)

    return answer


def with_meta(**meta: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return changing(lambda one: {**one, "metadata": {**one["metadata"], **meta}})


FAILURES = [
    (answering(result={"status": "Failure", "message": "no way"}), " failed: no way"),
    (answering(result={"status": "Failure"}), " failed: response.result.status was 'Failure', not 'Success'"),
    (answering(), " failed: response.result.status was '', not 'Success'"),
    (answering(result={"status": "Success"}, convertedObjects=[]), " returned 0 objects, expected 1"),
    (lambda review: {"apiVersion": review["apiVersion"], "kind": review["kind"]}, " failed: no response provided"),
    (answering(uid="x"), " failed: expected response.uid="),
    (
        changing(lambda one: {**one, "kind": "Other"}),
        "object at index 0: invalid kind (expected Thing, received Other)",
    ),
    (changing(lambda one: {**one, "apiVersion": "v1"}), "object at index 0: invalid groupVersion (expected "),
    (with_meta(name="other"), " returned invalid object: must have the same name: broken != other"),
    (with_meta(namespace="other"), " returned invalid object: must have the same namespace: default != other"),
    (with_meta(uid="other"), " returned invalid object: must have the same UID: "),
    (changing(lambda one: {"apiVersion": one["apiVersion"], "kind": "Thing"}), " must have the same name: broken != "),
    (with_meta(labels={"a": 3}), " returned invalid metadata: metadata.labels[a] must be a string, but is int64"),
    (with_meta(labels=[]), " returned invalid metadata: invalid metadata.labels of type []interface {}"),
    (
        with_meta(labels={"a b": "c"}),
        ' returned invalid metadata: metadata.labels: Invalid value: "a b": name part must',
    ),
]


@pytest.mark.slow
def test_what_a_webhook_may_not_answer(versioned: Versioned) -> None:
    """The request fails with 500 and names what was wrong; nothing is stored."""
    assert versioned.create("v1", "broken", host="x").status == 201
    try:
        for answer, told in FAILURES:
            versioned.webhook.answer = answer
            refused = versioned.get("v1alpha1", "broken")
            assert (refused.status, refused.json.get("reason")) == (500, None)
            message = refused.json["message"]
            assert message.startswith(f"conversion webhook for {versioned.kind.group}/v1, Kind=Thing")
            assert told in message
        assert versioned.create("v1alpha1", "none").status == 500
        assert versioned.get("v1", "none").status == 404
        patch = {"spec": {"hostName": "y"}}
        path = versioned.kind.path("v1alpha1", "broken")
        assert versioned.wire.send("PATCH", path, patch, **MERGE).status == 500
        assert versioned.get("v1", "broken").json["spec"]["host"] == "x"
    finally:
        versioned.webhook.answer = None


def test_only_labels_and_annotations_come_from_the_webhook(versioned: Versioned) -> None:
    assert versioned.create("v1", "meta", host="x").status == 201
    versioned.webhook.answer = with_meta(finalizers=["a/b"], generation=77, annotations={"kept": "x"}, labels=None)
    try:
        metadata = versioned.get("v1alpha1", "meta").json["metadata"]
    finally:
        versioned.webhook.answer = None
    assert (metadata["generation"], metadata["annotations"], metadata.get("finalizers")) == (1, {"kept": "x"}, None)


def test_a_write_that_changes_nothing_moves_an_object_to_the_storage_version(versioned: Versioned) -> None:
    """What a migration rests on; and a version that objects were stored in stays until the status is trimmed."""
    assert versioned.create("v1", "moving", host="x").status == 201
    assert versioned.definition()["status"]["storedVersions"] == ["v1"]
    versioned.store_in("v1alpha1")
    assert versioned.definition()["status"]["storedVersions"] == ["v1", "v1alpha1"]
    rewritten = []
    for _ in range(2):
        before = versioned.get("v1", "moving").json
        after = versioned.wire.send("PUT", versioned.kind.path("v1", "moving"), before).json
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert after["spec"] == before["spec"]
        rewritten.append(after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"])
    assert rewritten == [True, False]
    crd = versioned.definition()
    crd["spec"]["versions"] = [version for version in crd["spec"]["versions"] if version["name"] != "v1"]
    refused = versioned.wire.send("PUT", f"{DEFINITIONS}/{versioned.kind.name}", crd)
    assert refused.status == 422
    assert "v1 was previously a storage version, and must remain in spec.versions until" in refused.json["message"]
    for given, kept in (([], ["v1alpha1"]), (["v1alpha1"], ["v1alpha1"])):
        crd = versioned.definition()
        crd["status"]["storedVersions"] = given
        answer = versioned.wire.send("PUT", f"{DEFINITIONS}/{versioned.kind.name}/status", crd)
        assert (answer.status, answer.json["status"]["storedVersions"]) == (200, kept)
    versioned.store_in("v1")


CLIENT = {"url": "https://a/b"}
REVIEWS = "conversionReviewVersions"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"strategy": "Webhook"}, "webhookClientConfig: Required value: required when strategy is set to Webhook"),
    ({"strategy": "Webhook", "webhook": {"clientConfig": CLIENT}}, "conversionReviewVersions: Required value"),
    (
        {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT, REVIEWS: ["v3"]}},
        'conversionReviewVersions: Invalid value: ["v3"]: must include at least one of v1, v1beta1',
    ),
    (
        {"strategy": "Webhook", "webhook": {"clientConfig": {}, REVIEWS: ["v1"]}},
        "webhookClientConfig: Required value: exactly one of url or service is required",
    ),
    (
        {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://a/b"}, REVIEWS: ["v1"]}},
        "webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
    ),
    (
        {"strategy": "None", "webhook": {"clientConfig": CLIENT, REVIEWS: ["v1"]}},
        "webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
    ),
]


def test_a_conversion_that_cannot_be_served_is_refused_with_the_definition(versioned: Versioned) -> None:
    kind = TwoVersions(f"refused.{versioned.kind.group}")
    for conversion, told in REFUSED:
        answer = versioned.wire.send("POST", f"{DEFINITIONS}?dryRun=All", kind.crd(conversion))
        assert (answer.status, f"spec.conversion.{told}" in answer.json["message"]) == (422, True), answer.json
    service = {"service": {"name": "a", "namespace": "b"}}
    given = {"strategy": "Webhook", "webhook": {"clientConfig": service, REVIEWS: ["v1"]}}
    made = versioned.wire.send("POST", f"{DEFINITIONS}?dryRun=All", kind.crd(given)).json
    assert made["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443
