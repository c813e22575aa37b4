"""Our admission webhooks, configured as `manifests` configures them, asked by an API server over HTTPS (RUN-6)."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal

from kubelab.http.authority import certificates_for
from kubelab.http.certificates import Certificates
from kubelab.server import ApiServer
from purekube.boxes.webhooks.conversion_webhook import CONVERT_PATH
from purekube_run.process.command_line import CommandError
from purekube_run.process.machine import SystemClock
from tests.support.commands import Running, free_port, one_line, run
from tests.support.patience import PATIENCE
from tests.support.server_thread import Answer, Wire, served, wall_clock, wired
from tests.support.violations import ADMISSION, Violation
from tests.support.violations import instance as valid_instance
from tests.support.violations import operation as valid_operation
from vworkspace_app.install import InstallOptions, installation
from vworkspace_app.install.webhook_manifests import SERVICE
from vworkspace_app.webhooks import CertificateFiles, serve_webhooks
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.labels import CLUSTER_ID, FINALIZER, MANAGED_BY
from vworkspace_core.webhook.admission import GATED_PATH, WebhookSettings

CLUSTER = "cluster-prod-1"
BOXES = Path(__file__).resolve().parents[2] / "examples" / "boxes"
SYSTEM = "vworkspace-system"
HOST = f"{SERVICE}.{SYSTEM}.svc"
GATED, UNGATED = "org-myteam", "kitchen"
LABELS = {MANAGED_BY: "control-plane", CLUSTER_ID: CLUSTER}
MERGE = "application/merge-patch+json"
PATHS = {
    "ApplicationInstance": "/apis/apps.vworkspace.io/v1alpha1/namespaces/{}/applicationinstances",
    "Operation": "/apis/ops.vworkspace.io/v1alpha1/namespaces/{}/operations",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Namespace": "/api/v1/namespaces",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


def made(host: str = HOST) -> Certificates:
    return certificates_for((host, "127.0.0.1"), datetime.now(UTC))


def laid(folder: Path, certificates: Certificates) -> Path:
    """The files of a mounted TLS Secret."""
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(certificates.certificate)
    (folder / "tls.key").write_bytes(certificates.key)
    return folder


@contextmanager
def serving(files: CertificateFiles) -> Iterator[str]:
    """Our webhooks in a thread of their own; their address."""

    async def work(*, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED) -> None:
        clock = SystemClock()
        settings = WebhookSettings(CLUSTER)
        await serve_webhooks(settings, files, "127.0.0.1", 0, clock, ready=task_status.started)

    with start_blocking_portal() as portal:
        future, url = portal.start_task(work)
        try:
            yield url
        finally:
            future.cancel()


@contextmanager
def cluster(url: str, authority: bytes) -> Iterator[Wire]:
    """An API server with our CRDs, one gated namespace and one that is not, and our webhooks behind their Service."""
    server = ApiServer(now=wall_clock)
    with served(server, services={(SYSTEM, SERVICE): url}) as address, wired(address) as wire:
        for crd in crd_manifests():
            assert post(wire, crd).status == 201
        for name, labels in ((GATED, {"managed-by": "vworkspace"}), (UNGATED, {})):
            meta = {"name": name, "labels": labels}
            assert post(wire, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}).status == 201
        for manifest in installation(InstallOptions(webhook_ca=authority)):
            if manifest["kind"].endswith("WebhookConfiguration"):
                assert post(wire, manifest).status == 201
        yield wire


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    certificates = made()
    files = CertificateFiles(laid(tmp_path_factory.mktemp("tls"), certificates))
    with serving(files) as url, cluster(url, certificates.authority) as found:
        yield found


def post(wire: Wire, manifest: dict[str, Any]) -> Answer:
    return wire.send("POST", PATHS[manifest["kind"]].format(manifest["metadata"].get("namespace")), manifest)


def labelled(manifest: Any, name: str, namespace: str = GATED, labels: Any = None) -> dict[str, Any]:
    """Managed, in a namespace, under a name of its own."""
    meta = {"name": name, "namespace": namespace, "labels": LABELS if labels is None else labels}
    return {**json.loads(json.dumps(manifest)), "metadata": meta}


def at(manifest: dict[str, Any], *below: str) -> str:
    meta = manifest["metadata"]
    return "/".join((PATHS[manifest["kind"]].format(meta["namespace"]), meta["name"], *below))


@pytest.mark.parametrize("manifest", [valid_instance(), valid_operation()], ids=lambda one: str(one["kind"]))
def test_what_is_in_order_gets_in_and_the_same_without_the_gate_does_not_RES_5(wire: Wire, manifest: Any) -> None:
    assert post(wire, labelled(manifest, "in-order")).status == 201

    release = {"release": {"name": "nextcloud-myteam", "namespace": UNGATED}}
    elsewhere = {**manifest, "spec": {**manifest["spec"], **(release if "chart" in manifest["spec"] else {})}}
    refused = post(wire, labelled(elsewhere, "in-order", UNGATED))

    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    command = f"kubectl label namespace {UNGATED} managed-by=vworkspace"
    said = f"metadata.namespace: '{UNGATED}' is not labelled managed-by=vworkspace: {command}"
    assert refused.json["message"] == (
        f'admission webhook "ungated.vworkspace-operator.vworkspace.io" denied the request: {said}'
    )
    assert refused.json["details"]["causes"][0]["field"] == "metadata.namespace"


def test_what_nobody_gave_to_the_operator_is_none_of_its_business_RES_5(wire: Wire) -> None:
    for namespace, name in ((GATED, "theirs"), (UNGATED, "theirs")):
        manifest = labelled(valid_instance(values={"source": "inline", "inline": {"password": "x"}}), name, namespace)
        manifest["metadata"]["labels"] = {}
        assert post(wire, manifest).status == 201


def test_an_object_for_another_cluster_is_refused_RES_5(wire: Wire) -> None:
    refused = post(wire, labelled(valid_instance(), "foreign", labels={**LABELS, CLUSTER_ID: "another"}))
    assert (refused.status, "must be cluster-prod-1, not another" in refused.json["message"]) == (422, True)


UNSEEN = [
    violation
    for violation in ADMISSION
    # Unknown fields are pruned, and names are the server's own affair.
    if violation.old is None and "unknown" not in violation.name and violation.paths[0].startswith("spec")
]


@pytest.mark.parametrize("violation", UNSEEN, ids=lambda v: v.name)
def test_what_the_schema_cannot_see_is_refused_at_its_path(wire: Wire, violation: Violation) -> None:
    refused = post(wire, labelled(violation.manifest, "wrong"))
    assert refused.status == 422
    assert {cause["field"] for cause in refused.json["details"]["causes"]} >= set(violation.paths)


def test_no_secret_of_a_refused_object_is_repeated_RES_7(wire: Wire) -> None:
    values = {"source": "inline", "inline": {"db": {"password": "hunter2-hunter2"}}}
    refused = post(wire, labelled(valid_instance(values=values), "secret"))
    assert refused.status == 422
    assert "spec.values.inline.db.password" in refused.json["message"]
    assert b"hunter2" not in refused.raw


def test_what_can_only_be_one_thing_is_filled_in_before_the_schema_judges(wire: Wire) -> None:
    manifest = labelled(valid_instance(release=None), "defaulted")
    made = post(wire, manifest)
    assert made.status == 201, made.raw
    assert made.json["spec"]["release"] == {"name": "defaulted", "namespace": GATED}
    action = labelled(valid_operation(targetRef={"name": "nextcloud-myteam"}), "defaulted")
    made = post(wire, action)
    assert (made.status, made.json["spec"]["targetRef"]["kind"]) == (201, "ApplicationInstance")


def test_finalizers_and_statuses_pass_whatever_the_rules_have_become(wire: Wire) -> None:
    manifest = labelled(valid_instance(), "stuck")
    manifest["metadata"]["finalizers"] = [FINALIZER]
    assert post(wire, manifest).status == 201
    ungate = {"metadata": {"labels": {"managed-by": None}}}
    namespace = f"/api/v1/namespaces/{GATED}"
    assert wire.send("PATCH", namespace, ungate, content_type=MERGE).status == 200
    try:
        changed = wire.send("PATCH", at(manifest), {"spec": {"suspend": True}}, content_type=MERGE)
        assert (changed.status, "is not labelled" in changed.json["message"]) == (422, True)
        status = {"status": {"observedGeneration": 1}}
        assert wire.send("PATCH", at(manifest, "status"), status, content_type=MERGE).status == 200
        assert wire.send("DELETE", at(manifest)).status == 200
        assert wire.send("PATCH", at(manifest), {"metadata": {"finalizers": None}}, content_type=MERGE).status == 200
        assert wire.send("GET", at(manifest)).status == 404
    finally:
        gate = {"metadata": {"labels": {"managed-by": "vworkspace"}}}
        assert wire.send("PATCH", namespace, gate, content_type=MERGE).status == 200


def test_without_any_replica_writes_are_refused_but_finalizers_still_come_off() -> None:
    authority = made().authority
    with cluster("https://127.0.0.1:1", authority) as wire:
        manifest = labelled(valid_instance(), "stuck", labels={CLUSTER_ID: CLUSTER})
        manifest["metadata"]["finalizers"] = [FINALIZER]
        assert post(wire, manifest).status == 201, "nobody is asked about what is not managed"
        adopt = {"metadata": {"labels": LABELS}}
        assert wire.send("PATCH", at(manifest), adopt, content_type=MERGE).status == 500, "failurePolicy Fail"
        # As an object looks that was admitted while a replica was up.
        hooks = [f"{PATHS[kind]}/vworkspace-operator" for kind in PATHS if kind.endswith("WebhookConfiguration")]
        kept = [wire.send("GET", hook).json for hook in hooks]
        assert [wire.send("DELETE", hook).status for hook in hooks] == [200, 200]
        assert wire.send("PATCH", at(manifest), adopt, content_type=MERGE).status == 200
        for configuration in kept:
            configuration["metadata"] = {"name": configuration["metadata"]["name"]}
            assert post(wire, configuration).status == 201

        assert post(wire, labelled(valid_instance(), "new")).status == 500
        touched = {"metadata": {"annotations": {"a": "b"}}}
        assert wire.send("PATCH", at(manifest), touched, content_type=MERGE).status == 200
        assert wire.send("DELETE", at(manifest)).status == 200
        assert wire.send("PATCH", at(manifest), {"metadata": {"finalizers": None}}, content_type=MERGE).status == 200
        assert wire.send("GET", at(manifest)).status == 404


# --- TLS ----------------------------------------------------------------------------------------------------------


def asked(url: str, authority: bytes, body: bytes = b"{}", path: str = GATED_PATH) -> int:
    """The status of a POST by a client that trusts this authority only."""
    request = urllib.request.Request(url + path, body, {"content-type": "application/json"})
    try:
        trust = ssl.create_default_context(cadata=authority.decode())
        with urllib.request.urlopen(request, timeout=PATIENCE, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_new_certificates_are_shown_without_a_restart_and_broken_ones_never(tmp_path: Path) -> None:
    first, second = made(), made()
    files = CertificateFiles(laid(tmp_path / "tls", first))
    with serving(files) as url:
        assert asked(url, first.authority) == 400

        (tmp_path / "tls" / "tls.crt").write_bytes(second.certificate)
        with pytest.raises(ssl.SSLError):  # the key does not belong to it, as in the middle of a replacement
            files.reload()
        assert asked(url, first.authority) == 400, "the old one stays"

        laid(tmp_path / "tls", second)
        assert files.reload()
        assert not files.reload()
        assert asked(url, second.authority) == 400
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            asked(url, first.authority)


def test_files_that_are_missing_or_broken_are_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"tls\.crt: No such file"):
        CertificateFiles(tmp_path)
    (tmp_path / "tls.crt").write_text("no certificate")
    (tmp_path / "tls.key").write_text("no key, but s3cr3t")
    with pytest.raises(CommandError) as told:
        CertificateFiles(tmp_path)
    assert "holds no usable tls.crt and tls.key" in told.value.message
    assert "s3cr3t" not in told.value.message


def test_what_is_no_review_gets_an_answer_that_says_so(wire: Wire, tmp_path: Path) -> None:
    certificates = made()
    with serving(CertificateFiles(laid(tmp_path / "tls", certificates))) as url:
        for body in (b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"kind":"AdmissionReview"}'):
            assert asked(url, certificates.authority, body) == 400, body[:20]
        assert asked(url, certificates.authority, path="/elsewhere") == 404


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_run_serves_them_and_ends_with_them(tmp_path: Path) -> None:
    certificates, port = made(), free_port()
    folder = laid(tmp_path / "tls", certificates)
    (tmp_path / "token").write_text("agent-token")
    with Running(tmp_path / "cluster", "cluster", "--kubeconfig-out", tmp_path / "kc") as server:
        server.ready()
        where = f"127.0.0.1:{port}"
        words: list[str | Path] = ["run", "--kubeconfig", tmp_path / "kc", "--cluster-id", CLUSTER]
        words += ["--token-file", tmp_path / "token", "--control-plane-url", "http://127.0.0.1:1"]
        metrics = f"127.0.0.1:{free_port()}"
        words += ["--webhook-listen", where, "--listen", metrics, "--box", BOXES / "registry.yaml"]
        with Running(tmp_path / "run", *words, "--webhook-certificates", folder) as operator:
            operator.until(lambda: operator.log("webhooks are served"), "served")
            assert asked(f"https://{where}", certificates.authority) == 400
            assert asked(f"https://{where}", certificates.authority, path=CONVERT_PATH) == 400, "the box's versions"
            assert asked(f"https://{where}", certificates.authority, path="/boxes/registry/default") == 400
            assert asked(f"https://{where}", certificates.authority, path="/boxes/registry/validate") == 400, "PH-8"
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=PATIENCE) as answer:
                lines = answer.read().decode().splitlines()
            assert 'controller_runtime_webhook_requests_total{code="400",webhook="/validate"} 1.0' in lines, "U13"
            assert operator.stop(seconds=PATIENCE).status == 0


def test_settings_that_cannot_work_are_told_in_one_line(tmp_path: Path) -> None:
    assert "need each other" in one_line(run("run", "--webhook-listen", "0.0.0.0:9443"), 2)
    assert "HOST:PORT" in one_line(run("run", "--webhook-listen", "9443", "--webhook-certificates", tmp_path), 2)
