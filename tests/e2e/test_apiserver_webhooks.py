"""Admission webhooks of the embedded API server, asked over real sockets (RUN-6)."""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kubelab.server import ApiServer
from tests.e2e.test_kube_config import certificate, tls
from tests.support.apiserver_world import GIZMO, crd
from tests.support.patience import PATIENCE
from tests.support.server_thread import Answer, Wire, served, wall_clock, wired

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
GIZMOS = "/apis/tests.example/v1/namespaces/default/gizmos"
Judge = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def webhook(judge: Judge, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A webhook server that answers what `judge` says of each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))["request"]
            response = {"uid": request["uid"], **judge(request)}
            version = response.pop("answered in", "admission.k8s.io/v1")
            raw = json.dumps({"apiVersion": version, "kind": "AdmissionReview", "response": response})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(raw.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        if context is not None:
            listener.socket = context.wrap_socket(listener.socket, server_side=True)
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        scheme = "http" if context is None else "https"
        yield f"{scheme}://127.0.0.1:{listener.server_port}"
        listener.shutdown()
        thread.join()


@contextmanager
def cluster(url: str) -> Iterator[Wire]:
    """A served cluster that knows `url` as the service hooks/check."""
    with served(ApiServer(now=wall_clock), services={("hooks", "check"): url}) as address, wired(address) as wire:
        assert wire.send("POST", CRDS, crd(GIZMO)).status == 201
        yield wire


def configure(wire: Wire, kind: str = "Validating", **fields: Any) -> None:
    hook = {
        "name": "check.tests.example",
        "clientConfig": {"service": {"namespace": "hooks", "name": "check", "path": "/judge"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [
            {"apiGroups": ["tests.example"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["gizmos"]}
        ],
        **fields,
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": kind.lower()},
        "webhooks": [hook],
    }
    assert wire.send("POST", f"{HOOKS}/{kind.lower()}webhookconfigurations", body).status == 201


def create(wire: Wire, size: int) -> Answer:
    body = {"apiVersion": "tests.example/v1", "kind": "Gizmo", "metadata": {"name": "a"}, "spec": {"size": size}}
    return wire.send("POST", GIZMOS, body)


def small_only(request: dict[str, Any]) -> dict[str, Any]:
    """Denies large gizmos, and the end of any."""
    if request["operation"] == "DELETE":
        return {"allowed": False, "status": {"message": "gizmos stay"}}
    size = request["object"]["spec"]["size"]
    return {"allowed": size < 5, "status": {"message": f"{size} is too large", "code": 422}, "warnings": ["checked"]}


def test_a_validating_webhook_has_a_say() -> None:
    with webhook(small_only) as url, cluster(url) as wire:
        configure(wire)
        refused, accepted = create(wire, 7), create(wire, 3)
        assert refused.status == 422
        assert refused.json["message"] == ('admission webhook "check.tests.example" denied the request: 7 is too large')
        assert (accepted.status, accepted.headers["warning"]) == (201, '299 - "checked"')
        grown = wire.send("PATCH", f"{GIZMOS}/a", {"spec": {"size": 9}}, content_type="application/merge-patch+json")
        assert grown.status == 422
        kept = [wire.send("DELETE", f"{GIZMOS}/a"), wire.send("DELETE", GIZMOS)]
        assert [answer.status for answer in kept] == [400, 400]
        assert wire.send("GET", f"{GIZMOS}/a").json["spec"]["size"] == 3


def test_a_mutating_webhook_changes_what_is_stored_and_owns_nothing() -> None:
    def fill_in(request: dict[str, Any]) -> dict[str, Any]:
        patch = [{"op": "add", "path": "/spec/replicas", "value": 2}]
        return {"allowed": True, "patchType": "JSONPatch", "patch": b64encode(json.dumps(patch).encode()).decode()}

    with webhook(fill_in) as url, cluster(url) as wire:
        configure(wire, "Mutating")
        made = create(wire, 1).json
        assert made["spec"] == {"size": 1, "mode": "normal", "replicas": 2}
        assert "f:replicas" not in json.dumps(made["metadata"]["managedFields"])


def test_a_mutating_policy_comes_before_a_webhook_and_owns_nothing() -> None:
    def large(request: dict[str, Any]) -> dict[str, Any]:
        patch = [{"op": "replace", "path": "/spec/replicas", "value": request["object"]["spec"]["replicas"] * 10}]
        return {"allowed": True, "patchType": "JSONPatch", "patch": b64encode(json.dumps(patch).encode()).decode()}

    with webhook(large) as url, cluster(url) as wire:
        configure(wire, "Mutating")
        rule = {"apiGroups": ["tests.example"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["gizmos"]}
        expression = '[JSONPatch{op: "add", path: "/spec/replicas", value: object.spec.size + 1}]'
        spec = {
            "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE"]}]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
            "reinvocationPolicy": "Never",
        }
        for plural, kind, of in (
            ("policies", "Policy", spec),
            ("policybindings", "PolicyBinding", {"policyName": "a"}),
        ):
            body = {"kind": f"MutatingAdmission{kind}", "metadata": {"name": "a"}, "spec": of}
            answer = wire.send("POST", f"{HOOKS}/mutatingadmission{plural}", {"apiVersion": HOOKS[6:], **body})
            assert answer.status == 201, answer
        made = create(wire, 1).json
        assert made["spec"] == {"size": 1, "mode": "normal", "replicas": 20}
        assert "f:replicas" not in json.dumps(made["metadata"]["managedFields"])


def test_a_review_is_answered_where_webhooks_are_configured() -> None:
    with cluster("http://127.0.0.1:1") as wire:
        configure(wire)
        asked = {"resourceAttributes": {"verb": "get", "group": "tests.example", "resource": "gizmos"}}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": asked}
        answer = wire.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert (answer.status, answer.json["status"]["allowed"]) == (201, True)


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
def test_a_webhook_that_is_not_there_stops_writes_or_not(policy: str, status: int) -> None:
    with cluster("http://127.0.0.1:1") as wire:
        configure(wire, failurePolicy=policy)
        answer = create(wire, 1)
    assert answer.status == status
    if status == 500:
        assert 'failed calling webhook "check.tests.example"' in answer.json["message"]


def test_an_unknown_service_is_named() -> None:
    with cluster("http://127.0.0.1:1") as wire:
        configure(wire, clientConfig={"service": {"namespace": "other", "name": "none"}})
        assert 'service "none" in namespace "other"' in create(wire, 1).json["message"]


def test_an_answer_to_another_question_is_no_answer() -> None:
    with webhook(lambda request: {"allowed": True, "uid": "another"}) as url, cluster(url) as wire:
        configure(wire)
        answer = create(wire, 1)
    assert (answer.status, "response.uid" in answer.json["message"]) == (500, True)


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (
            {"answered in": "v1"},
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got v1, Kind=",
        ),
        ({"patch": "W10=", "patchType": "JSONPatch"}, "validating webhook may not return response.patch"),
    ],
)
def test_an_answer_in_another_form_is_no_answer(response: dict[str, Any], said: str) -> None:
    with webhook(lambda request: {"allowed": True, **response}) as url, cluster(url) as wire:
        configure(wire)
        answer = create(wire, 1)
    assert (answer.status, said in answer.json["message"]) == (500, True)


@pytest.mark.slow
def test_a_webhook_is_trusted_by_its_own_authority(tmp_path: Path) -> None:
    authority, server = certificate(tmp_path)
    bundle = b64encode(authority.read_bytes()).decode()
    with webhook(small_only, tls(server)) as url, cluster("") as wire:
        configure(wire, clientConfig={"url": f"{url}/judge"})
        assert "CERTIFICATE_VERIFY_FAILED" in create(wire, 1).json["message"]
        wire.send("DELETE", f"{HOOKS}/validatingwebhookconfigurations/validating")
        configure(wire, clientConfig={"url": f"{url}/judge", "caBundle": bundle})
        assert create(wire, 1).status == 201


def test_a_write_that_is_overtaken_while_a_webhook_thinks_is_decided_again() -> None:
    """Two patches of different fields: the slow one must not undo the quick one."""
    asked = threading.Event()
    go_on = threading.Event()

    def think(request: dict[str, Any]) -> dict[str, Any]:
        if request["object"]["spec"]["size"] == 8 and not asked.is_set():
            asked.set()
            go_on.wait(PATIENCE)
        return {"allowed": True}

    merge = "application/merge-patch+json"
    with webhook(think) as url, cluster(url) as wire:
        configure(wire)
        create(wire, 1)
        address = f"http://{wire.connection.host}:{wire.connection.port}"
        answers: list[Answer] = []

        def slow() -> None:
            with wired(address) as other:
                answers.append(other.send("PATCH", f"{GIZMOS}/a", {"spec": {"size": 8}}, content_type=merge))

        thread = threading.Thread(target=slow)
        thread.start()
        assert asked.wait(PATIENCE)
        wire.send("PATCH", f"{GIZMOS}/a", {"spec": {"mode": "quick"}}, content_type=merge)
        go_on.set()
        thread.join(PATIENCE)
        assert answers[0].json["spec"] == {"size": 8, "mode": "quick"}
