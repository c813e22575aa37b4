"""Which admission webhooks are asked about which write, and what their answers mean (RUN-6)."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.admission.webhooks import Webhook, denial, patch_of, unreachable
from kubelab.model.calls import ADMIN, PLAIN_WRITE, RequestVerb, WriteOptions
from kubelab.model.conversion import WebhookClient
from kubelab.model.failure import ApiFailure
from kubelab.server import ApiServer
from kubelab.writes.writer import WriteCall
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import NAMESPACE
from purekube.ports import PatchType
from tests.support.apiserver_world import GIZMO, RIG, apply, at, gizmo, new_server

GROUP = "admissionregistration.k8s.io"
VALIDATING = Kind(GROUP, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False)
MUTATING = Kind(GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False)
RULE = {"apiGroups": ["tests.example"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["gizmos"]}
HOOK = Webhook("check.tests.example", False, WebhookClient("https://h/", None, "", 1.0), False, "v1")


def configure(server: ApiServer, name: str, kind: Kind = VALIDATING, **fields: Any) -> None:
    webhook = {
        "name": f"{name}.tests.example",
        "clientConfig": {"url": "https://hooks.example/check"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [RULE],
        **fields,
    }
    server.create(at(server, kind), {**kind.manifest(name), "webhooks": [webhook]})


def asked(server: ApiServer, operation: str = "CREATE", kind: Kind = GIZMO, **more: Any) -> list[str]:
    """Names of the webhooks that a write concerns."""
    target = at(server, kind, "a", more.pop("namespace", "default"), more.pop("subresource", ""))
    request = AdmissionAttributes(operation, target, "a", ADMIN, gizmo("a", **more), None)
    return [webhook.name.partition(".")[0] for webhook in server.webhooks(request)]


def test_a_namespace_selector_exempts_no_cluster_scoped_object() -> None:
    server = new_server()
    configure(
        server, "all", namespaceSelector={"matchLabels": {"managed": "yes"}}, rules=[{**RULE, "resources": ["*"]}]
    )
    request = AdmissionAttributes("CREATE", at(server, RIG, "a"), "a", ADMIN, {**gizmo("a"), "kind": "Rig"}, None)
    assert [webhook.name for webhook in server.webhooks(request)] == ["all.tests.example"]


def test_mutating_webhooks_are_asked_first_then_by_name() -> None:
    server = new_server()
    for name, kind in (("a", VALIDATING), ("c", MUTATING), ("b", MUTATING)):
        configure(server, name, kind)
    assert asked(server) == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("rule", "concerned"),
    [
        ({}, True),
        ({"operations": ["UPDATE"]}, False),
        ({"operations": ["CREATE", "DELETE"]}, True),
        ({"apiGroups": ["*"]}, True),
        ({"apiGroups": ["other.example"]}, False),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["rigs"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["gizmos/status"]}, False),
        ({"resources": ["gizmos/*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "Namespaced"}, True),
    ],
)
def test_a_rule_says_what_it_is_about(rule: dict[str, Any], concerned: bool) -> None:
    server = new_server()
    configure(server, "a", rules=[{**RULE, **rule}])
    assert (asked(server) == ["a"]) is concerned


def test_a_subresource_has_to_be_named() -> None:
    server = new_server()
    configure(server, "main")
    configure(server, "status", rules=[{**RULE, "resources": ["gizmos/status"]}])
    assert asked(server, "UPDATE", subresource="status") == ["status"]


def test_selectors_narrow_by_labels_of_namespace_and_object() -> None:
    server = new_server()
    server.patch(at(server, NAMESPACE, "default"), {"metadata": {"labels": {"managed": "yes"}}}, PatchType.MERGE)
    configure(server, "space", namespaceSelector={"matchLabels": {"managed": "yes"}})
    expression = {"key": "tier", "operator": "In", "values": ["gold"]}
    configure(server, "thing", objectSelector={"matchExpressions": [expression]})
    assert asked(server) == ["space"]
    assert asked(server, labels={"tier": "gold"}) == ["space", "thing"]
    assert asked(server, namespace="kube-public", labels={"tier": "gold"}) == ["thing"]


def test_nobody_is_asked_about_the_configuration_of_webhooks() -> None:
    server = new_server()
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    configure(server, "all", rules=[everything])
    assert asked(server) == ["all"]
    assert asked(server, kind=VALIDATING) == []


@given(st.sampled_from([None, 400, 403, 409, 422, 200, "x"]), st.sampled_from([None, "because"]))
def test_a_denial_is_an_error_that_names_the_webhook(code: Any, message: Any) -> None:
    failure = denial(HOOK.name, {"allowed": False, "status": {"code": code, "message": message}})
    assert failure is not None
    assert failure.status == (code if code in (403, 409, 422) else 400)
    assert failure.message.startswith('admission webhook "check.tests.example" denied the request')


def test_only_a_clear_yes_is_a_yes() -> None:
    assert denial(HOOK.name, {"allowed": True}) is None
    assert denial(HOOK.name, {}) is not None
    assert denial(HOOK.name, {"allowed": "true"}) is not None


def test_a_webhook_that_cannot_be_asked_stops_the_write_unless_it_says_ignore() -> None:
    failure = unreachable(HOOK, "connection refused")
    assert failure is not None
    assert (failure.status, failure.reason) == (500, "InternalError")
    assert unreachable(Webhook("h", False, WebhookClient("u", None, "", 1.0), True, "v1"), "connection refused") is None


def test_patches_are_base64_json() -> None:
    patch = [{"op": "add", "path": "/spec/size", "value": 1}]
    encoded = b64encode(str(patch).replace("'", '"').encode()).decode()
    assert patch_of({"patch": encoded, "patchType": "JSONPatch"}) == patch
    assert patch_of({}) is None
    for bad in (
        {"patch": encoded},
        {"patch": "!", "patchType": "JSONPatch"},
        {"patch": "aa", "patchType": "JSONPatch"},
    ):
        with pytest.raises(ValueError, match="the patch of an answer"):
            patch_of(bad)


# --- deciding and storing apart ----------------------------------------------------------------------------------


def call(server: ApiServer, size: int) -> WriteCall:
    return WriteCall(RequestVerb.PATCH, at(server, GIZMO, "a"), gizmo("a", size), WriteOptions("m"), ADMIN)


def test_a_prepared_write_is_stored_only_on_what_it_was_decided_against() -> None:
    server = new_server()
    first, second = server.prepare(call(server, 1)), server.prepare(call(server, 2))
    assert server.store.count(("tests.example", "gizmos")) == 0
    assert server.commit(first) is not None
    assert server.commit(second) is None
    again = server.commit(server.prepare(call(server, 2)))
    assert again is not None
    assert again.object()["spec"]["size"] == 2


def test_a_webhooks_patch_is_completed_and_validated() -> None:
    server = new_server()
    prepared = server.prepare(call(server, 1))
    patched = server.mutated(prepared, [{"op": "replace", "path": "/spec/size", "value": 5}])
    assert patched.outcome.object["spec"] == {"size": 5, "mode": "normal"}
    with pytest.raises(ApiFailure) as caught:
        server.mutated(prepared, [{"op": "replace", "path": "/spec/size", "value": "five"}])
    assert caught.value.status == 422


def test_the_review_shows_the_object_before_and_after() -> None:
    server = new_server()
    apply(server, gizmo("a", 1))
    request = server.prepare(call(server, 2)).request()
    review = request.review("some-uid", "v1")["request"]
    assert (review["operation"], review["uid"]) == ("UPDATE", "some-uid")
    assert (review["oldObject"]["spec"]["size"], review["object"]["spec"]["size"]) == (1, 2)
    assert review["resource"] == {"group": "tests.example", "version": "v1", "resource": "gizmos"}
    assert review["userInfo"]["username"] == ADMIN.user


def test_a_refused_preparation_is_in_the_audit_log() -> None:
    server = new_server()
    server.audit.clear()
    with pytest.raises(ApiFailure):
        server.prepare(WriteCall(RequestVerb.UPDATE, at(server, RIG, "none"), {}, PLAIN_WRITE, ADMIN))
    assert [(entry.method, entry.status) for entry in server.audit] == [("PUT", 404)]
