"""The commands that run: servers, the operator between them, the demo; how they start, fail and end.

Everything is a process of the installed command, reached over loopback as a user would: kubeconfig, files, curl.
No token may show in any output.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.support.commands import (
    COMMAND,
    Ended,
    Running,
    call,
    clean_environment,
    free_port,
    merge,
    one_line,
    run,
)
from tests.support.e2e_world import CLUSTER, FIRST, NAME, NS, instance
from tests.support.patience import PATIENCE
from vworkspace_app.demo.scene import NAMESPACE_NAME
from vworkspace_core.operations.engines import ENGINES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TOKEN, ADMIN_TOKEN, WRONG_TOKEN = "agent-s3cr3t-0123456789", "admin-s3cr3t-0123456789", "wrong-s3cr3t-0123456789"
GATE = {"managed-by": "vworkspace"}
OWN = "vworkspace-system"
INSTANCES = f"apis/apps.vworkspace.io/v1alpha1/namespaces/{NS}/applicationinstances/{NAME}"


def cluster(folder: Path, *words: str | Path, cold: bool = False) -> Running:
    """The embedded API server with our CRDs and a simulated Flux; its kubeconfig is `folder/kubeconfig`."""
    crds = ROOT / "manifests" / "crds"
    kubeconfig = folder / "kubeconfig"
    words = ("--kubeconfig-out", kubeconfig, "--crds", crds, "--simulate", "flux", *words)
    return Running(folder / "cluster", "cluster", *words, cold=cold)


def control_plane(folder: Path, *words: str, cold: bool = False) -> Running:
    """The embedded control plane."""
    tokens = ("--token", TOKEN, "--admin-token", ADMIN_TOKEN)
    return Running(folder / "control", "control-plane", "--cluster-id", CLUSTER, *tokens, *words, cold=cold)


def operator(folder: Path, *words: str | Path, cold: bool = False) -> Running:
    """The operator."""
    return Running(folder / "operator", "run", *words, cold=cold)


@attrs.frozen
class Servers:
    """Both servers, and their URLs."""

    folder: Path
    cluster_url: str
    control_url: str

    def ask(self, job_id: str, generation: int, **job: Any) -> None:
        """Odoo asks for the instance."""
        ask(self.control_url, job_id, generation, **job)

    def result_of(self, job_id: str) -> Any:
        """The result of a job so far."""
        return result_of(self.control_url, job_id)


def connection(folder: Path, servers: Servers, token: str = TOKEN) -> tuple[str | Path, ...]:
    """Options of `run` for both sides; the token's file lies in `folder`."""
    file = folder / "token"
    file.write_text(token + "\n", encoding="utf-8")
    kubeconfig = ("--kubeconfig", servers.folder / "kubeconfig")
    return (*kubeconfig, "--control-plane-url", servers.control_url, "--cluster-id", CLUSTER, "--token-file", file)


def make_namespace(url: str, name: str, labels: dict[str, str]) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    call("POST", f"{url}/api/v1/namespaces", body)


def make_namespaces(url: str) -> None:
    """One that is gated, and the operator's own."""
    make_namespace(url, NS, GATE)
    make_namespace(url, OWN, {})


def ask(url: str, job_id: str, generation: int, **job: Any) -> None:
    key = f"ApplicationInstance/{NS}/{NAME}@{generation}"
    body = {"clusterId": CLUSTER, "id": job_id, "kind": "apply", "payload": instance(FIRST), "idempotencyKey": key}
    call("POST", f"{url}/api/admin/jobs", {**body, **job}, token=ADMIN_TOKEN)


def result_of(url: str, job_id: str) -> Any:
    return call("GET", f"{url}/api/admin/jobs/{job_id}", token=ADMIN_TOKEN)["result"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Both servers up, with a gated namespace; they end cleanly when all is done."""
    folder = tmp_path_factory.mktemp("servers")
    with cluster(folder, cold=True) as api, control_plane(folder, cold=True) as control:
        servers = Servers(folder, api.ready(), control.ready())
        make_namespaces(servers.cluster_url)
        yield servers
        for process in (api, control):
            ended = process.stop()
            assert (ended.status, ended.err) == (0, ""), ended
            assert_no_secret(ended)


def assert_no_secret(ended: Ended) -> None:
    """No token in any output."""
    for token in (TOKEN, ADMIN_TOKEN, WRONG_TOKEN):
        assert token not in ended.out + ended.err


def stopped(process: Running) -> Ended:
    """SIGTERM ends the operator within seconds, with status 0, and without a word that it should not say."""
    ended = process.stop()
    assert ended.status == 0, ended.err
    assert "Traceback" not in ended.err
    assert_no_secret(ended)
    return ended


# --- the servers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_cluster_serves_says_where_and_ends_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("old", encoding="utf-8")
    kubeconfig.chmod(0o644)
    with cluster(tmp_path) as process:
        url = process.ready()

        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        assert yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"] == {"server": url}
        kinds = {resource["kind"] for resource in call("GET", f"{url}/apis/apps.vworkspace.io/v1alpha1")["resources"]}
        assert "ApplicationInstance" in kinds
        assert call("GET", f"{url}/apis/helm.toolkit.fluxcd.io/v2/helmreleases")["items"] == []
        assert process.stop(number) == Ended(0, f"ready {url}\n", "")


def test_the_control_plane_serves_says_where_and_ends_cleanly(tmp_path: Path) -> None:
    with control_plane(tmp_path) as process:
        url = process.ready()

        assert call("GET", f"{url}/api/admin/jobs", token=ADMIN_TOKEN) == {"jobs": []}
        ended = process.stop()
        assert (ended.status, ended.err) == (0, "")
        assert ended.out.startswith(f"ready {url}\n")


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with control_plane(tmp_path) as process:
        listen = process.ready().removeprefix("http://")
        desired = f"{listen} is in use: stop what listens there, or choose another HOST:PORT"

        tokens = ("--cluster-id", "a", "--token", "b", "--admin-token", "c")
        assert one_line(run("cluster", "--listen", listen), 1) == desired
        assert one_line(run("control-plane", "--listen", listen, *tokens), 1) == desired


SERVER_ERRORS = {
    ("cluster", "--listen", "8001"): (2, "--listen 8001: give HOST:PORT, such as 127.0.0.1:8001"),
    ("cluster", "--listen", "localhost:99999"): (2, "--listen localhost:99999: give HOST:PORT, such as 127.0.0.1:8001"),
    ("cluster", "--listen", "192.0.2.1:0", "--token", "t"): (1, "192.0.2.1:0 is no address of this machine"),
    ("cluster", "--simulate", "fluxx"): (2, "--simulate fluxx: there is no such simulator; there is: flux,"),
    ("cluster", "--crds", "/nonexistent"): (1, "--crds /nonexistent: cannot be read: No such file or directory"),
    ("cluster", "--kubeconfig-out", "/nonexistent/kc"): (1, "--kubeconfig-out /nonexistent/kc: cannot be written"),
    ("cluster", "--listen", "0.0.0.0:0"): (
        2,
        "--listen 0.0.0.0: every client that reaches it would be the administrator",
    ),
    ("cluster", "--listen", "192.0.2.1:0", "--tls"): (2, "--listen 192.0.2.1: every client that reaches it would be"),
    ("control-plane", "--cluster-id", "a", "--token", "b", "--admin-token", "b"): (2, "--token and --admin-token are"),
    ("control-plane",): (2, ""),
    ("control-plane", "--cluster-id", "a", "--token", "b"): (2, ""),
}


@pytest.mark.parametrize("words", SERVER_ERRORS, ids=" ".join)
def test_a_server_that_cannot_start_says_why_in_one_line(words: tuple[str, ...]) -> None:
    status, desired = SERVER_ERRORS[words]

    assert one_line(run(*words), status).startswith(desired)


def test_a_kubeconfig_is_not_written_through_a_symbolic_link(tmp_path: Path) -> None:
    """In a folder that others may write to, a link would choose what is overwritten."""
    precious = tmp_path / "precious"
    precious.write_text("mine", encoding="utf-8")
    (tmp_path / "kc").symlink_to(precious)

    told = one_line(run("cluster", "--kubeconfig-out", tmp_path / "kc"), 1)

    assert told == f"--kubeconfig-out {tmp_path / 'kc'}: cannot be written: it is a symbolic link"
    assert precious.read_text(encoding="utf-8") == "mine"


def test_the_cluster_has_our_kinds_unless_it_is_to_be_bare(tmp_path: Path) -> None:
    found = {}
    for words in ((), ("--bare",)):
        with Running(tmp_path / "-".join(("c", *words)), "cluster", *words) as process:
            url = process.ready()
            found[words] = {group["name"] for group in call("GET", f"{url}/apis")["groups"]}

    assert found[()] >= {"apps.vworkspace.io", "ops.vworkspace.io"}
    assert not any("vworkspace.io" in name for name in found[("--bare",)])


def test_a_web_page_is_not_the_administrator_of_a_cluster_without_tokens(tmp_path: Path) -> None:
    with Running(tmp_path / "cluster", "cluster") as process:
        url = process.ready()
        namespaces = f"{url}/api/v1/namespaces"

        assert headers_answered(namespaces, {}) == 200
        assert headers_answered(namespaces, {"Host": "localhost:8001"}) == 200
        assert headers_answered(namespaces, {"Host": "[::1]:8001"}) == 200
        assert headers_answered(namespaces, {"Host": "rebound.evil.example:8001"}) == 403
        assert headers_answered(namespaces, {"Origin": "https://evil.example"}) == 403
        assert headers_answered(namespaces, {"Origin": url}) == 200
    with Running(tmp_path / "guarded", "cluster", "--token", TOKEN) as process:
        named = {"Host": "cluster.example", "Authorization": f"Bearer {TOKEN}"}
        assert headers_answered(f"{process.ready()}/api/v1/namespaces", named) == 200, (
            "who has the token is no stranger"
        )


def headers_answered(url: str, headers: dict[str, str]) -> int:
    """The status of a GET with these headers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_an_object_that_is_nested_too_deeply_is_refused_in_the_servers_words(tmp_path: Path) -> None:
    manifest = instance(FIRST)
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"a": deep}
    manifest["spec"]["values"] = {"source": "inline", "inline": deep}
    with cluster(tmp_path) as process:
        url = process.ready()
        make_namespace(url, NS, GATE)
        where = f"{url}/{INSTANCES.rpartition('/')[0]}"
        body = json.dumps(manifest).encode()
        request = urllib.request.Request(where, data=body, headers={"Content-Type": "application/json"})
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request)
        status = json.loads(raised.value.read())
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 400, "BadRequest")
        assert "nested too deeply" in status["message"]
        assert call("GET", where)["items"] == []
        ended = process.stop()
        assert (ended.status, ended.err) == (0, "")


def test_the_control_plane_says_how_to_begin_and_what_is_wrong_with_a_job(tmp_path: Path) -> None:
    with control_plane(tmp_path) as process:
        url = process.ready()
        process.until(lambda: f"{url}/api/admin/jobs\n" in process.out, "how to offer a job")
        with urllib.request.urlopen(url) as answer:
            assert b"/api/admin/jobs" in answer.read()

        def refused(**body: Any) -> tuple[int, str]:
            job = {"clusterId": CLUSTER, "kind": "apply", "payload": {}, "idempotencyKey": "k", **body}
            job = {key: value for key, value in job.items() if value is not None}
            headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}/api/admin/jobs", json.dumps(job).encode(), headers)
            with pytest.raises(urllib.error.HTTPError) as raised:
                urllib.request.urlopen(request)
            return raised.value.code, raised.value.read().decode()

        status, told = refused(clusterId="elsewhere")
        assert (status, f"known: {CLUSTER}" in told) == (404, True)
        status, told = refused(payload=None)
        assert (status, "payload: is required" in told) == (400, True)
        bodies = [{"clusterId": CLUSTER, "kind": "apply", "payload": {}, "idempotencyKey": key} for key in "abc"]
        made = [call("POST", f"{url}/api/admin/jobs", body, token=ADMIN_TOKEN)["id"] for body in bodies]
        assert made == ["job-1", "job-2", "job-3"]
        assert_no_secret(process.stop())


def test_a_crd_that_is_refused_is_named(tmp_path: Path) -> None:
    text = (ROOT / "manifests" / "crds" / "operations.ops.vworkspace.io.yaml").read_text(encoding="utf-8")
    (tmp_path / "bad.yaml").write_text(text.replace("name: operations.ops", "name: operation.ops"), encoding="utf-8")

    told = one_line(run("cluster", "--crds", tmp_path), 1)

    assert told.startswith("CRD operation.ops.vworkspace.io is refused: ")
    assert "metadata.name" in told


def test_what_a_credential_plugin_complains_of_shows_no_secret(tmp_path: Path) -> None:
    plugin, file = tmp_path / "plugin", tmp_path / "kc"
    plugin.write_text("#!/bin/sh\necho 'login failed, token=t0ken-of-the-plugin' >&2; exit 1\n", encoding="utf-8")
    plugin.chmod(0o700)
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    kubeconfig = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "main", "user": "me"}}],
        "clusters": [{"name": "main", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": {"exec": command}}],
    }
    file.write_text(json.dumps(kubeconfig), encoding="utf-8")

    told = one_line(run("run", "--kubeconfig", file), 1)

    assert "login failed" in told
    assert "t0ken-of-the-plugin" not in told


# --- run, between them ------------------------------------------------------------------------------------------------


def test_a_job_travels_through_three_processes_and_back_PULL_2(world: Servers, tmp_path: Path) -> None:
    with operator(tmp_path, *connection(tmp_path, world), cold=True) as process:
        world.ask("job-1", 7)
        result = process.until(lambda: world.result_of("job-1"), "the result")

        stored = call("GET", f"{world.cluster_url}/{INSTANCES}")
        applied = {"apiVersion": stored["apiVersion"], "kind": stored["kind"], "namespace": NS, "name": NAME}
        reference = {**applied, "uid": stored["metadata"]["uid"], "generation": 1}
        assert (result["outcome"], result["appliedRef"]) == ("succeeded", reference)
        ready = {condition["type"]: condition["reason"] for condition in stored["status"]["conditions"]}
        assert ready == {"Ready": "HelmReleaseReady", "Reconciling": "Stable"}
        world.ask("job-2", 8, kind="reboot")
        world.ask("job-3", 7)
        bad = process.until(lambda: world.result_of("job-2"), "the second result")
        assert (bad["outcome"], bad["error"][:18]) == ("failed", "InvalidJob: kind: ")
        replayed = process.until(lambda: world.result_of("job-3"), "the third result")
        assert replayed["outcome"] == "noop"
        ended = stopped(process)
    assert ended.out == "", "what it has to say goes to standard error"


def test_the_credentials_can_come_from_the_secret_PULL_8(world: Servers, tmp_path: Path) -> None:
    data = {"control-plane-base-url": world.control_url, "cluster-id": CLUSTER, "token": TOKEN}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "vworkspace-agent-credentials", "namespace": "vworkspace-system"},
        "stringData": data,
    }
    call("POST", f"{world.cluster_url}/api/v1/namespaces/vworkspace-system/secrets", secret)
    with operator(tmp_path, "--kubeconfig", world.folder / "kubeconfig") as process:
        world.ask("job-4", 9, kind="reboot")
        assert process.until(lambda: world.result_of("job-4"), "the result")["outcome"] == "failed"
        stopped(process)


def test_a_token_that_is_refused_is_told_once_and_never_shown_PULL_7(world: Servers, tmp_path: Path) -> None:
    with operator(tmp_path, *connection(tmp_path, world, WRONG_TOKEN), "--log-level", "debug") as process:
        rejected = "the control plane rejects the credential; trying again slowly"
        process.until(lambda: process.log(rejected), "the line that says so")
        ended = stopped(process)
    assert len(process.log(rejected)) == 1
    assert "connected to the control plane" not in ended.err


def test_a_control_plane_that_is_away_is_told_once_and_waited_for(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        api = stack.enter_context(cluster(tmp_path))
        make_namespaces(api.ready())
        process = stack.enter_context(operator(tmp_path, *connection(tmp_path, Servers(tmp_path, "", url))))
        away = "the control plane is unreachable; trying again with backoff"
        (line,) = process.until(lambda: process.log(away), "the line that says so")
        assert f"GET {url}/api/agent/jobs: cannot connect" in line["error"]

        control = stack.enter_context(control_plane(tmp_path, "--listen", f"127.0.0.1:{port}"))
        control.ready()
        ask(url, "job-1", 7)
        assert process.until(lambda: result_of(url, "job-1"), "the result")["outcome"] == "succeeded"

        assert len(process.log("connected to the control plane")) == 1
        stopped(process)
        assert len(process.log(away)) == 1


def test_an_api_server_that_is_away_is_told_once_and_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with control_plane(tmp_path) as control:
        url = control.ready()
        _write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{port}")
        with operator(tmp_path, *connection(tmp_path, Servers(tmp_path, "", url))) as process:
            (line,) = process.until(lambda: process.log("the API server is away; trying again"), "the line")
            assert line["server"] == f"http://127.0.0.1:{port}"

            with cluster(tmp_path, "--listen", f"127.0.0.1:{port}") as api:
                make_namespaces(api.ready())
                ask(url, "job-1", 7)
                assert process.until(lambda: result_of(url, "job-1"), "the result")["outcome"] == "succeeded"

                assert len(process.log("the API server answers")) == 1
                assert len(process.log("the API server is away; trying again")) == 1
                stopped(process)


def _write_kubeconfig(path: Path, server: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": WRONG_TOKEN}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


# --- run, used wrongly ------------------------------------------------------------------------------------------------


def test_all_usage_errors_of_run_are_told_at_once() -> None:
    bad = {
        "--interval": "soon",
        "--timeout": "5",
        "--drift-detection": "maybe",
        "--wait": "301",
        "--workers": "0",
        "--log-level": "loud",
        "--control-plane-url": "odoo.example.com",
        "--token-file": "token",
    }

    told = one_line(run("run", *[word for pair in bad.items() for word in pair]), 2)

    assert [option for option in bad if f"{option} " not in told] == []
    assert told.count(";") == len(bad) - 1


def test_without_a_usable_kubeconfig_one_line_says_what_to_do(tmp_path: Path) -> None:
    advice = "give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster with a service account"
    missing, broken = tmp_path / "none", tmp_path / "broken"
    broken.write_text("{", encoding="utf-8")
    for ended in (
        run("run", home=tmp_path),
        run("run", "--kubeconfig", missing),
        run("run", KUBECONFIG=str(missing)),
        run("run", "--kubeconfig", broken),
    ):
        assert one_line(ended, 1).endswith(advice)


def test_a_token_file_that_is_of_no_use_is_one_line(tmp_path: Path) -> None:
    _write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    options = connection(tmp_path, Servers(tmp_path, "", "http://127.0.0.1:9"))
    file = tmp_path / "token"

    file.write_text(" \n", encoding="utf-8")
    assert one_line(run("run", *options), 1) == f"--token-file {file}: is empty"
    file.write_bytes(b"\xff\xfe" + TOKEN.encode())
    assert one_line(run("run", *options), 1) == f"--token-file {file}: cannot be read: it is not UTF-8 text"
    file.unlink()
    assert one_line(run("run", *options), 1) == f"--token-file {file}: cannot be read: No such file or directory"


def test_without_the_credentials_secret_it_waits_and_says_what_to_do(tmp_path: Path) -> None:
    """In the order of the README the Deployment comes before its Secret: no CrashLoopBackOff, one line for each look
    that finds something else, and work begins when the Secret is whole."""
    with cluster(tmp_path) as api, control_plane(tmp_path) as control:
        url, control_url = api.ready(), control.ready()
        make_namespaces(url)
        ref = f"Secret {OWN}/vworkspace-agent-credentials"
        secrets = f"{url}/api/v1/namespaces/{OWN}/secrets"
        with operator(tmp_path, "--kubeconfig", tmp_path / "kubeconfig") as process:
            waiting = "waiting for the credential"
            process.until(lambda: process.log(waiting), "the first look")
            (told,) = process.log(waiting)
            assert told["missing"] == f"{ref} does not exist"
            assert told["create"].startswith(f"kubectl -n {OWN} create secret generic vworkspace-agent-credentials")
            assert "--no-agent" in told["create"]

            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "vworkspace-agent-credentials"},
                "stringData": {"token": TOKEN},
            }
            call("POST", secrets, secret)
            process.until(lambda: len(process.log(waiting)) == 2, "what it lacks")
            assert process.log(waiting)[1]["missing"] == f"{ref} lacks control-plane-base-url, cluster-id"
            fields = {"control-plane-base-url": control_url, "cluster-id": CLUSTER}
            merge(f"{secrets}/vworkspace-agent-credentials", {"stringData": fields})

            ask(control_url, "job-1", 1)
            process.until(lambda: result_of(control_url, "job-1"), "the job's result")
            assert result_of(control_url, "job-1")["outcome"] == "succeeded"
            stopped(process)


def test_a_signal_ends_the_waiting_for_a_credential(tmp_path: Path) -> None:
    with cluster(tmp_path) as api:
        api.ready()
        with operator(tmp_path, "--kubeconfig", tmp_path / "kubeconfig") as process:
            process.until(lambda: process.log("waiting for the credential"), "the first look")
            stopped(process)


def test_without_an_agent_what_is_applied_is_reconciled_and_nothing_is_asked_for_SEE_4(tmp_path: Path) -> None:
    with cluster(tmp_path) as api:
        url = api.ready()
        make_namespace(url, NS, GATE)
        words = ("--kubeconfig", tmp_path / "kubeconfig", "--no-agent", "--cluster-id", CLUSTER)
        with operator(tmp_path, *words) as process:
            process.until(lambda: process.log("caches are settled"), "settled")
            labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
            desired = instance(FIRST)
            body = {**desired, "metadata": {**desired["metadata"], "labels": labels}}
            call("POST", f"{url}/{INSTANCES.rpartition('/')[0]}", body)

            def ready() -> Any:
                conditions = call("GET", f"{url}/{INSTANCES}").get("status", {}).get("conditions", ())
                return [
                    condition
                    for condition in conditions
                    if (condition["type"], condition["status"]) == ("Ready", "True")
                ]

            process.until(ready, "Ready")
            clusters = call("GET", f"{url}/apis/ops.vworkspace.io/v1alpha1/clusters")["items"]
            (found,) = clusters
            told = {condition["type"]: condition["reason"] for condition in found["status"]["conditions"]}
            assert told["Connected"] == told["Disconnected"] == "NoAgent"
            ended = stopped(process)
        lines = [line for line in ended.err.splitlines() if "Disconnected=False/NoAgent" not in line]
        for word in ("token", "control plane is", "isconnected"):
            assert [line for line in lines if word in line] == []


# --- demo -------------------------------------------------------------------------------------------------------------


def test_the_demo_checks_what_it_shows_and_all_of_it_holds(tmp_path: Path) -> None:
    ended = run("demo", cold=True, TMPDIR=str(tmp_path))

    assert (ended.status, ended.err) == (0, ""), ended.out
    last = ended.out.splitlines()[-1]
    assert last.startswith("all ")
    assert last.endswith(" checks hold")
    assert ended.out.count("   ok  ") == int(last.split()[1]) >= 20
    assert [f" ms  {number}  " in ended.out for number in range(1, 9)] == [True] * 8
    assert list(tmp_path.iterdir()) == [], "it tidies up"


def test_the_demo_of_operations_checks_what_it_shows_and_all_of_it_holds(tmp_path: Path) -> None:
    ended = run("demo", "--operations", TMPDIR=str(tmp_path))

    assert (ended.status, ended.err) == (0, ""), ended.out
    last = ended.out.splitlines()[-1]
    assert last.endswith(" checks hold")
    assert ended.out.count("   ok  ") == int(last.split()[1]) >= 20
    for engine in (name for name, engine in ENGINES.items() if engine.demo is not None):
        assert f" ms  {engine}  " in ended.out, f"nothing is shown of engine {engine}"
    assert "demo-approval-secret" not in ended.out
    assert list(tmp_path.iterdir()) == [], "it tidies up"


def printed_commands(out: str) -> list[str]:
    """The commands of the playground as a person copies them, continued lines in one."""
    whole = out.partition("A playground\n")[2].replace("\\\n", "")
    return [line.strip() for line in whole.splitlines() if line.startswith("  ") and not line.startswith("  #")]


def test_the_demo_leaves_a_playground_where_every_printed_command_works(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    with Running(tmp_path / "demo", "demo", "--keep", TMPDIR=str(tmp_path)) as process:
        process.until(lambda: "Ctrl-C ends everything." in process.out, "the playground")
        assert " checks hold\n\nA playground\n" in process.out
        export, *commands, asked = printed_commands(process.out)
        kubeconfig = Path(export.removeprefix("export KUBECONFIG="))
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        server = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        api = f"{server}/apis/apps.vworkspace.io/v1alpha1/namespaces/{NAMESPACE_NAME}/applicationinstances"
        backup = api.replace("apps.", "ops.").replace("applicationinstances", "operations/my-backup")
        assert says_ready(call("GET", api)["items"][0], "6.6.0"), "an application is running"
        assert all(command.startswith("kubectl ") for command in commands)
        assert len(commands) == 5
        assert asked.startswith("curl ")

        for command in commands if kubectl else ():
            ended = in_shell(command, kubeconfig)
            assert ended.returncode == 0, (command, ended.stderr)
            if " patch " in command:
                process.until(lambda: says_ready(call("GET", api)["items"][0], "6.8.0"), "Flux upgrades")
            if " apply " in command:
                process.until(lambda: call("GET", backup).get("status", {}).get("phase") == "Succeeded", "a backup")
        if kubectl:
            process.until(lambda: not call("GET", api)["items"], "the application goes")

        stopped_demo = process.stop(signal.SIGINT)

    assert (stopped_demo.status, stopped_demo.err) == (0, "")
    assert not kubeconfig.exists()
    assert [line for line in stopped_demo.out.splitlines() if len(line) > 80 and str(tmp_path) not in line] == []


def says_ready(manifest: dict[str, Any], version: str) -> bool:
    """Whether it is Ready at that version."""
    conditions = manifest.get("status", {}).get("conditions", ())
    ready = any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)
    observed = manifest.get("status", {}).get("observedGeneration") == manifest["metadata"]["generation"]
    desired: bool = ready and observed and manifest["spec"]["chart"]["version"] == version
    return desired


def in_shell(command: str, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    """Run it as a person does."""
    environment = clean_environment(kubeconfig.parent, {"KUBECONFIG": str(kubeconfig)})  # kubectl keeps a cache at home
    return subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)


def test_the_demo_shows_payloads_when_asked_and_fits_80_columns(tmp_path: Path) -> None:
    short, long = (run("demo", *words, TMPDIR=str(tmp_path)) for words in ((), ("-v",)))

    assert (short.status, long.status) == (0, 0)
    assert "idempotencyKey" not in short.out
    assert "idempotencyKey" in long.out
    assert max(map(len, short.out.splitlines())) <= 80
    assert "result posted: conflict" in short.out, "the outcome is told without its payload too"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_does_not_claim_success(number: signal.Signals, tmp_path: Path) -> None:
    with Running(tmp_path / "demo", "demo", TMPDIR=str(tmp_path)) as process:
        process.until(lambda: " ms  1  " in process.out, "the first step")

        ended = process.stop(number)

    assert (ended.status, ended.err) == (130, "error: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["demo"], "it tidies up"


def test_a_reader_that_goes_away_ends_the_demo_quietly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [COMMAND, "demo"],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=clean_environment(tmp_path, {}),
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(writer)

    assert (ended.returncode, ended.stderr) == (1, b"")
