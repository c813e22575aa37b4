"""What a running operator shows of itself (RUN-5): probes, metrics and lines, with marker secrets everywhere."""

import http.client
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from purekube.apimachinery.manifest import Kind
from tests.e2e.test_command_processes import (
    ADMIN_TOKEN,
    TOKEN,
    Servers,
    cluster,
    connection,
    control_plane,
    make_namespace,
    operator,
    stopped,
)
from tests.support.commands import Running, call, free_port
from tests.support.e2e_world import CLUSTER, FIRST, NAME, NS, instance
from tests.support.patience import PATIENCE
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION

pytestmark = pytest.mark.slow

MARK = "m4rk3r"
APPROVAL, PASSWORD, CLAIM, DATA = (f"{what}-{MARK}-0123456789" for what in ("approval", "password", "claim", "data"))
PEM = f"-----BEGIN EC PRIVATE KEY-----\nMHc{MARK}CAQ\n-----END EC PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Both servers up, a gated namespace, and Secrets with markers."""
    folder = tmp_path_factory.mktemp("servers")
    with cluster(folder) as api, control_plane(folder) as control:
        servers = Servers(folder, api.ready(), control.ready())
        make_namespace(servers.cluster_url, NS, {"managed-by": "vworkspace"})
        make_namespace(servers.cluster_url, "vworkspace-system", {})
        keys = {"approval-secret": APPROVAL, "token": TOKEN, "decryption-key": PEM}
        make_secret(servers, "vworkspace-system", "vworkspace-agent-credentials", keys)
        make_secret(servers, NS, "values", {"values.yaml": f"password: {DATA}"})
        yield servers


def make_secret(servers: Servers, namespace: str, name: str, data: dict[str, str]) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": data,
    }
    call("POST", f"{servers.cluster_url}/api/v1/namespaces/{namespace}/secrets", manifest)


def get(url: str) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def jobs(run: str) -> dict[str, dict[str, Any]]:
    """Jobs that bring secrets where they do not belong, and one that is fine."""
    inline: dict[str, Any] = instance(FIRST)
    inline["spec"]["values"]["inline"] = {"auth": {"password": PASSWORD}, "note": f"token: {PASSWORD}", "key": PEM}
    named = instance(FIRST)
    named["spec"]["values"] = {"source": "secret", "secretRef": {"name": "values", "key": "values.yaml"}}
    claim = f"vws1.{CLAIM}.{CLAIM}"
    operation = {
        "apiVersion": OPERATION.api_version,
        "kind": OPERATION.kind,
        "metadata": {"name": f"op-{run}", "namespace": NS},
        "spec": {
            "targetRef": {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": NAME},
            "type": "Backup",
            "engine": "velero",
            "approvals": {"required": True, "claim": claim},
            "parameters": {"password": PASSWORD, "header": f"Authorization: Bearer {PASSWORD}"},
        },
    }
    refused = {**operation, "metadata": {"name": f"refused-{run}", "namespace": NS}}
    sound = {**operation, "spec": {**operation["spec"], "parameters": {}}}  # type: ignore[dict-item]
    return {
        "secret-values": {"payload": inline},
        "values-secret": {"payload": named},
        "operation": {"payload": sound, "idempotencyKey": f"Operation/{NS}/op-{run}@1"},
        "secret-parameters": {"payload": refused, "idempotencyKey": f"Operation/{NS}/refused-{run}@1"},
        "wrong": {"payload": {**instance(FIRST), "token": PASSWORD}, "kind": "apply"},
        "nonsense": {"payload": None, "kind": f"password={PASSWORD}"},
    }


def scraped(process: Running) -> str:
    """Where metrics and probes are served."""
    lines = process.until(lambda: lines_of(process, "serving metrics and probes"), "the address")
    return str(lines[0])


def lines_of(process: Running, event: str) -> list[str]:
    """URLs in the lines of that event, in whichever format."""
    found = []
    for line in process.err.splitlines():
        if event in line and "127.0.0.1" in line:
            found.append(json.loads(line)["url"] if line.startswith("{") else line.split("url=")[1].split()[0])
    return found


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_shows_in_any_output_and_probes_and_metrics_tell_the_truth(
    world: Servers, tmp_path: Path, form: str
) -> None:
    options = ("--listen", "127.0.0.1:0", "--log-level", "debug", "--log-format", form, "--leader-elect")
    asked = [f"{form}-{name}" for name in jobs(form)]
    with operator(tmp_path, *connection(tmp_path, world), *options) as process:
        url = scraped(process)
        process.until(lambda: get(f"{url}/readyz")[0] == 200, "ready")
        for number, (name, job) in enumerate(jobs(form).items()):
            world.ask(f"{form}-{name}", 20 + number, **job)
        waiting = {f"{form}-operation", f"{form}-values-secret"}
        for name in asked:
            if name not in waiting:
                process.until(lambda name=name: world.result_of(name), f"the result of {name}")  # type: ignore[misc]
        process.until(lambda: "op-" in json.dumps(objects(world, OPERATION)), "the Operation")
        came = r'vworkspace_operator_operation_total{engine="velero",phase="Pending",type="Backup"} [1-9]'
        process.until(lambda: re.search(came, get(f"{url}/metrics")[1]), "the Operation in the metrics")
        told = [text for page in ("healthz", "readyz", "metrics") for text in (get(f"{url}/{page}")[1],)]
        told += [json.dumps(world.result_of(name)) for name in asked]
        told += [
            json.dumps([obj.get("status") for obj in objects(world, kind)])
            for kind in (APPLICATION_INSTANCE, OPERATION)
        ]
        told += [json.dumps(call("GET", f"{world.cluster_url}/apis/events.k8s.io/v1/events")["items"])]
        ended = stopped(process)

    told += [ended.out, ended.err]
    for text in told:
        assert MARK not in text
        assert TOKEN not in text
        assert ADMIN_TOKEN not in text
    metrics = told[2]
    failed = re.search(r'vworkspace_operator_applied_jobs_total{outcome="failed"} (.*)', metrics)
    assert failed is not None
    assert float(failed[1]) >= 3
    assert 'vworkspace_operator_connectivity_state{mode="connected"} 1.0' in metrics
    assert "vworkspace_operator_managed_namespaces 1.0\n" in metrics
    aged = re.search(r"^vworkspace_operator_credential_age_seconds (.*)$", metrics, re.MULTILINE)
    assert aged is not None
    assert 0 <= float(aged[1]) < 600
    assert 'rest_client_requests_total{code="200",method="GET"}' in metrics
    assert 'controller_runtime_reconcile_total{controller="applicationinstance",result="success"}' in metrics
    assert 'vworkspace_operator_informer_synced{group="helm.toolkit.fluxcd.io",kind="HelmRelease"} 1.0' in metrics
    assert 'leader_election_master_status{name="vworkspace-operator"} 1.0' in metrics
    assert "[+]cache HelmRelease ok\n" in told[1]
    if form == "json":
        lines = [json.loads(line) for line in ended.err.splitlines()]
        starting = next(number for number, line in enumerate(lines) if line["msg"] == "starting")
        assert {line.get("cluster_id") for line in lines[starting:]} == {CLUSTER}
        assert all(line["operator_version"] for line in lines)


def objects(world: Servers, kind: Kind) -> list[Any]:
    found: list[Any] = call("GET", f"{world.cluster_url}/apis/{kind.api_version}/{kind.plural}")["items"]
    return found


class Rude(BaseHTTPRequestHandler):
    """A control plane that quotes in its refusals whatever it was sent."""

    def do_GET(self) -> None:
        self._quote()

    def do_POST(self) -> None:
        self._quote()

    def _quote(self) -> None:
        body = json.dumps({"error": f"who is {self.headers['Authorization'].removeprefix('Bearer ')}?"}).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


def test_a_token_that_the_other_side_quotes_is_masked_in_lines(world: Servers, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Rude) as rude:
        threading.Thread(target=rude.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{rude.server_port}"
        options = connection(tmp_path, Servers(world.folder, world.cluster_url, url))
        with operator(tmp_path, *options) as process:
            rejected = "the control plane rejects the credential; trying again slowly"
            (line,) = process.until(lambda: process.log(rejected), "the line that says so")
            ended = stopped(process)
        rude.shutdown()

    assert "who is ***?" in line["error"]
    assert TOKEN not in ended.err


def test_a_process_that_waits_for_the_api_server_is_healthy_and_not_ready(world: Servers, tmp_path: Path) -> None:
    away = Servers(tmp_path, "", world.control_url)
    text = (world.folder / "kubeconfig").read_text(encoding="utf-8")
    (tmp_path / "kubeconfig").write_text(text.replace(world.cluster_url, f"http://127.0.0.1:{free_port()}"))
    with operator(tmp_path, *connection(tmp_path, away), "--listen", "127.0.0.1:0") as process:
        url = scraped(process)
        process.until(lambda: process.log("the API server is away; trying again"), "the line that says so")
        healthy, ready = get(f"{url}/healthz"), get(f"{url}/readyz")
        stopped(process)

    assert healthy == (200, "[+]event loop ok\ncheck passed\n")
    assert ready[0] == 503
    assert "[-]started failed: waiting for the API server and the credential\n" in ready[1]


def test_an_address_in_use_ends_the_operator_with_one_line(world: Servers, tmp_path: Path) -> None:
    listen = world.cluster_url.removeprefix("http://")
    with operator(tmp_path, *connection(tmp_path, world), "--listen", listen) as process:
        ended = process.end()

    (problem,) = ended.problems
    assert ended.status == 1
    assert problem.startswith(f"error: {listen} is in use: stop what listens there")
