"""The measurements on a real API server, proved with stand-ins: an etcd that answers, and a kube-apiserver that is the
embedded one behind the same flags (TLS, a token file, an audit log in the format of Kubernetes)."""

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bench import apiserver, writes
from bench.reaching import Access
from bench.turns import LongestTurn
from purekube_kit.kube_apiserver import OPERATOR_USER
from tests.conformance.test_real_server import alive, stand_ins
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

APISERVER = """#!{python}
import csv, json, os, sys
from datetime import UTC, datetime
from pathlib import Path
import anyio
from kubelab.model.calls import Caller
from kubelab.http.certificates import Certificates
from purekube.apimachinery.manifest import Kind
from kubelab.http.serving import serve_forever
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
flags = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
assert "kind: Policy" in Path(flags["audit-policy-file"]).read_text()
rows = csv.reader(Path(flags["token-auth-file"]).read_text().splitlines())
tokens = {row[0]: Caller(row[1], tuple(row[3].split(","))) for row in rows}
certificate, key = (Path(flags[name]).read_bytes() for name in ("tls-cert-file", "tls-private-key-file"))
server = ApiServer(now=lambda: datetime.now(UTC), rbac=True)
role = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
admin = {**role.manifest("cluster-admin"), "rules": everything}  # every kube-apiserver has it
run_sync(InProcessKube(server).create(admin, kind=role, field_manager="bootstrap"))
Path(sys.argv[0] + ".pid").write_text(str(os.getpid()))
log = open(flags["audit-log-path"], "a", buffering=1)
def write(entry):
    if entry.verb.writes:
        user = {"username": entry.user}
        row = {"kind": "Event", "auditID": "a", "user": user, "requestURI": entry.path + "?x=y"}
        log.write(json.dumps(row) + "\\n")
server.audit.on_entry = write
tls = Certificates(b"", certificate, key)
anyio.run(lambda: serve_forever(server, "127.0.0.1", int(flags["secure-port"]), tokens=tokens, tls=tls))
"""


@pytest.mark.benchmark
def test_the_comparison_runs_on_a_kube_apiserver_and_tells_what_it_measures(tmp_path: Path) -> None:
    stand_ins(tmp_path, apiserver=APISERVER)
    command = [sys.executable, "-m", "bench.side_by_side", "--only=ours", "--alone=7", "--instances=3", "--settled=12"]
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)}

    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=PATIENCE)

    assert (done.returncode, done.stderr) == (0, "")
    assert alive(tmp_path) == [], "what was started is stopped"
    told = dict(re.findall(r"^ours: (.*?): median ([\d.]+) ", done.stdout, re.MULTILINE))
    assert float(told["instances per second, creation to Ready"]) > 0
    assert float(told["processor seconds per 1,000 instances"]) > 0
    assert float(told["restart with 12 settled, to acting"]) > 0
    assert told["writes by that restart"] == "0.00"


@pytest.mark.benchmark
def test_a_burst_is_measured_from_outside() -> None:
    """Flux is played by the measurement itself, which has to say what a strict operator looks at."""
    words = ["--only=ours", "--rounds=1", "--instances=3", "--alone=1"]
    environment = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}

    done = subprocess.run(
        [sys.executable, "-m", "bench.burst", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=PATIENCE,
    )

    assert (done.returncode, done.stderr) == (0, "")
    told = {what: float(value) for what, value in re.findall(r"^\| (.*?) \| ([\d.,]+) \|", done.stdout, re.MULTILINE)}
    assert told["instances per second, creation to Ready"] > 0
    assert told["API server's processor time an instance, ms"] > 0
    assert 3 <= told["operator's writes an instance, Events apart"] <= 5  # two statuses at once are one write


def test_without_the_executables_it_says_what_is_missing(tmp_path: Path) -> None:
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "bench.stage", str(tmp_path / "audit")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=PATIENCE,
    )

    assert done.returncode == 1
    assert "holds no etcd and no kube-apiserver" in done.stderr


def test_writes_are_counted_alike_in_either_audit_log() -> None:
    base = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/a/helmreleases"
    paths = [f"{base}/x", f"{base}/x/status", f"{base}/touched/status", "/apis/events.k8s.io/v1/namespaces/a/events"]
    kube, ours = list[str](), list[str]()
    for path in paths:
        for user, agent in ((OPERATOR_USER, "vworkspace-operator/1"), ("admin", "flux/v2"), ("admin", "bench/1")):
            kube.append(json.dumps({"auditID": "a", "user": {"username": user}, "requestURI": f"{path}?force=true"}))
            ours += [json.dumps({"method": method, "path": path, "agent": agent}) for method in ("PATCH", "GET")]

    counted = {writes.count("\n".join(log).encode(), user=OPERATOR_USER, but="touched") for log in (kube, ours)}

    assert counted == {2}


def test_no_token_shows_in_what_is_passed_on() -> None:
    assert "hunter2" not in repr(Access("https://127.0.0.1:1", "hunter2", "hunter2"))


def test_a_server_that_knows_nobody_is_told_no_token() -> None:
    """kopf sends an empty one as a header that cannot be sent."""
    access = Access("http://127.0.0.1:1")

    assert access.kubeconfig(access.operator)["users"][0]["user"] == {}


@pytest.mark.benchmark
def test_the_measurement_of_the_embedded_server_reaches_it_over_http() -> None:
    with apiserver.process() as served, closing(apiserver.prepared(served.url)) as client:
        apiserver.apply(client, "a", "1.0.0")

        made = json.loads(client.send("GET", f"{apiserver.COLLECTION}/a"))

    assert made["spec"]["chart"]["version"] == "1.0.0"


@pytest.mark.benchmark
def test_the_longest_turn_of_a_loop_is_told_in_processor_time(tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "turn"
    script.write_text(
        "import asyncio, time\n"
        "async def main():\n"
        "    for seconds in (0.03, 0.01):\n"
        "        began = time.thread_time()\n"
        "        while time.thread_time() < began + seconds: pass\n"
        "        await asyncio.sleep(0)\n"
        "asyncio.run(main())\n",
        encoding="utf-8",
    )
    longest = LongestTurn.new(file)

    subprocess.run([sys.executable, "-m", "bench.turns", file, script], check=True, cwd=ROOT, timeout=PATIENCE)

    assert longest.seconds >= 0.03
    longest.reset()
    assert longest.seconds == 0
