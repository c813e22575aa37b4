"""`kubelab`: an API server for tests in any style, as a context manager, as a pytest fixture and as a command."""

import json
import os
import re
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubelab
from kubelab.cluster.definitions import KubelabError
from tests.support.patience import PATIENCE

pytest_plugins = ["pytester"]

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gizmos.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Gizmo", "plural": "gizmos"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
    },
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}},
}


def ask(server: kubelab.Server, path: str, body: Any = None, token: str = "") -> tuple[int, Any]:
    """Return status and body of one request."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    authority = server.access.tls and server.access.tls.authority.decode()
    trust = ssl.create_default_context(cadata=authority) if authority else None
    try:
        request = urllib.request.Request(server.url + path, data, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE, context=trust) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def until(look: Callable[[], Any]) -> Any:
    """Return the first result of `look` that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (result := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


def test_a_cluster_serves_while_the_block_runs() -> None:
    with kubelab.serve() as server:
        status, namespaces = ask(server, "/api/v1/namespaces")
        assert (status, namespaces["kind"]) == (200, "NamespaceList")
        assert yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8")) == server.kubeconfig_dict
        assert server.kubeconfig_dict["clusters"][0]["cluster"] == {"server": server.url}
        assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600

    assert not server.kubeconfig.exists()
    with pytest.raises(urllib.error.URLError):
        ask(server, "/api/v1/namespaces")


def test_what_the_block_raises_arrives_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), kubelab.serve():
        raise ZeroDivisionError


def test_each_server_is_empty_and_on_a_port_of_its_own() -> None:
    with kubelab.serve() as one, kubelab.serve() as other:
        ask(one, "/api/v1/namespaces", NAMESPACE)
        assert ask(one, "/api/v1/namespaces/a")[0] == 200
        assert ask(other, "/api/v1/namespaces/a")[0] == 404


def test_a_port_in_use_is_an_os_error() -> None:
    with kubelab.serve() as server:
        again = kubelab.serve(port=int(server.url.rpartition(":")[2]))
        with pytest.raises(OSError, match="in use"), again:
            raise AssertionError("it is bound twice")


def test_functions_run_in_the_servers_thread() -> None:
    with kubelab.serve() as server:
        ask(server, "/api/v1/namespaces", NAMESPACE)
        writes = server.call(lambda: list(server.api_server.audit.writes()))

    assert [entry.path for entry in writes] == ["/api/v1/namespaces"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["manifest", "manifests", "file", "folder", "list"])
def test_definitions_are_manifests_files_or_folders(form: str, tmp_path: Path) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ignored"}}
    as_list = {"apiVersion": "v1", "kind": "List", "items": [CRD, other]}
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump_all([CRD, other]), encoding="utf-8")
    (tmp_path / "list.json").write_text(json.dumps(as_list), encoding="utf-8")
    forms: dict[str, Any] = {
        "manifest": CRD,
        "manifests": [CRD],
        "file": str(tmp_path / "crd.yaml"),
        "folder": tmp_path,
        "list": [tmp_path / "list.json"],
    }
    with kubelab.serve(crds=forms[form]) as server:
        gizmo = {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}}
        assert ask(server, "/apis/example.com/v1/namespaces/default/gizmos", gizmo)[0] == 201


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c", r"crds .*bad.yaml:1: not valid YAML: "),
        (json.dumps({**CRD, "metadata": {"name": "gizmo"}}), r"CRD gizmo is refused: .*metadata.name"),
        (None, r"crds .*bad.yaml: cannot be read: No such file"),
    ],
)
def test_a_definition_that_cannot_be_served_is_named(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")

    with pytest.raises(KubelabError, match=message), kubelab.serve(crds=path):
        pass


@pytest.mark.slow
def test_simulated_controllers_work() -> None:
    with kubelab.serve(simulate="job,workloads") as server:
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        assert ask(server, jobs, JOB)[0] == 201
        done = until(lambda: ask(server, f"{jobs}/j")[1].get("status", {}).get("completionTime"))

    assert done


@pytest.mark.slow
def test_simulated_controllers_fail_where_their_behaviour_says_so(tmp_path: Path) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    fails = {"downstream": {"job": {"podSeconds": 0}, "rules": [{"name": "b*", "outcome": {"ending": "fail"}}]}}
    file = tmp_path / "behaviour.yaml"
    file.write_text(yaml.safe_dump(fails), encoding="utf-8")
    with kubelab.serve(simulate="job", behaviour=file) as server:
        for name in ("good", "bad"):
            job = {**JOB, "metadata": {"name": name}, "spec": {**JOB["spec"], "backoffLimit": 0}}
            assert ask(server, path, job)[0] == 201

        def ended() -> set[tuple[str, str]]:
            jobs = ask(server, path)[1]["items"]
            found = ((job, each["type"]) for job in jobs for each in job.get("status", {}).get("conditions", ()))
            return {(job["metadata"]["name"], end) for job, end in found if end in ("Complete", "Failed")}

        assert until(lambda: len(found := ended()) == 2 and found) == {("good", "Complete"), ("bad", "Failed")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flux: {upgradSeconds: 2}", "flux.upgradSeconds: unknown field"),
        (
            "flux: {releaseRules: [{outcome: {kind: fails}}]}",
            "flux.releaseRules[0].outcome.kind: must be one of succeed, fail, hang, render-error, values-error, not "
            "'fails'",
        ),
        ("[]", "must be an object, not a list"),
        ("{}\n---\n{}", "must hold one document, not 2"),
        ("", "must hold one document, not 0"),
        ("downstream: {", ":2: not valid YAML"),
        (None, "cannot be read: No such file or directory"),
        ("downstream: {}", "sets downstream, which is not simulated; add it with --simulate"),
    ],
)
def test_a_behaviour_that_is_wrong_is_named(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "behaviour.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(KubelabError, match=re.escape(message)), kubelab.serve(simulate="flux", behaviour=file):
        pass


@pytest.mark.parametrize("kind", ["Deployment", "job"])
def test_a_rule_for_a_kind_that_nothing_simulates_is_named(kind: str) -> None:
    rules = [{"outcome": {"ending": "fail"}}, {"kind": kind, "outcome": {"ending": "fail"}}]
    message = f"behaviour downstream.rules[1].kind: no simulated controller has the kind {kind}; there are: Job"

    with pytest.raises(KubelabError, match=re.escape(message)):
        kubelab.serve(simulate="job", behaviour={"downstream": {"rules": rules}}).__enter__()


@pytest.mark.parametrize(
    "given", [{"kind": "ConfigMap", "metadata": {"name": "a"}}, {"kind": "CustomResourceDefinition"}, {}]
)
def test_a_manifest_that_is_no_definition_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(KubelabError, match="crds a manifest: is no CustomResourceDefinition with a name, but "):
        kubelab.serve(crds=[given]).__enter__()


def test_over_tls_the_kubeconfig_has_a_token_without_which_kubectl_asks_for_a_user_name() -> None:
    with kubelab.serve(tls=True) as server:
        (user,) = server.kubeconfig_dict["users"]
        assert user["user"]["token"]
        assert [ask(server, "/api/v1/namespaces", token=token)[0] for token in (user["user"]["token"], "")] == [
            200,
            200,
        ]
    with kubelab.serve() as server:
        assert server.kubeconfig_dict["users"] == [{"name": "kubelab", "user": {}}]


def test_tokens_and_roles_decide_over_tls() -> None:
    tokens = {"secret": kubelab.ADMIN, "guest": kubelab.Caller("guest", ("system:authenticated",))}
    with kubelab.serve(tls=True, tokens=tokens, rbac=True) as server:
        assert server.url.startswith("https://")
        assert [ask(server, "/api/v1/namespaces", token=token)[0] for token in ("secret", "guest", "")] == [
            200,
            403,
            401,
        ]
        assert [user["name"] for user in server.kubeconfig_dict["users"]] == ["kubelab", "guest"]
        assert "secret" not in repr(server)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"simulate": "fluxx"}, "simulate fluxx: there is no such simulator; there is: flux, "),
        ({"rbac": True}, "rbac needs tokens: "),
        ({"host": "0.0.0.0"}, "listen 0.0.0.0: every client that reaches it would be the administrator"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KubelabError) as raised, kubelab.serve(**options):
        pass

    assert str(raised.value).startswith(message)
    assert raised.value.is_misuse


TESTS = """
import json, os, urllib.request

import pytest

pytestmark = pytest.mark.kubelab(crds="crds")


def names(server, path="/api/v1/namespaces"):
    with urllib.request.urlopen(server.url + path) as answer:
        return [item["metadata"]["name"] for item in json.load(answer)["items"]]


@pytest.mark.parametrize("time", [1, 2])
def test_each_test_has_a_server_of_its_own(kubelab, time):
    assert "mine" not in names(kubelab)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
    body = json.dumps(namespace).encode()
    request = urllib.request.Request(kubelab.url + "/api/v1/namespaces", body, {"content-type": "application/json"})
    urllib.request.urlopen(request).close()
    assert "mine" in names(kubelab)


@pytest.mark.kubelab(simulate="snapshot")
def test_the_marks_of_module_and_test_count(kubelab):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert {"gizmos.example.com", "volumesnapshots.snapshot.storage.k8s.io"} <= set(names(kubelab, path))


def test_clients_that_read_the_environment_find_it(kubelab):
    assert os.environ["KUBECONFIG"] == str(kubelab.kubeconfig)
"""


@pytest.mark.slow
def test_the_fixture_serves_each_test_with_the_options_of_its_marks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    pytester.mkdir("crds").joinpath("gizmos.yaml").write_text(yaml.safe_dump(CRD), encoding="utf-8")

    pytester.runpytest_inprocess("-q", "--strict-markers").assert_outcomes(passed=4)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["kubernetes", "kubernetes.aio"])
def test_clients_that_read_kubeconfig_at_their_import_find_the_server_of_each_test(
    package: str, pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, a test would talk to the cluster of the one who runs it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    pytester.makepyfile(
        f"""
        import asyncio
        from inspect import isawaitable

        import pytest
        from {package} import client, config

        DEFAULT = config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION

        @pytest.fixture(autouse=True)
        def restored():
            yield
            client.Configuration.set_default(None)
            assert config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION == DEFAULT

        @pytest.mark.parametrize("turn", range(2))
        @pytest.mark.parametrize("load", [config.load_kube_config, config.load_config])
        def test_it(turn, load, restored, kubelab):
            async def loaded():
                if isawaitable(found := load()):
                    await found
            asyncio.run(loaded())
            assert client.Configuration.get_default_copy().host == kubelab.url
        """
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=4)


@pytest.mark.slow
def test_an_option_without_a_name_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.kubelab('job')\ndef test_it(kubelab): pass")

    result = pytester.runpytest_inprocess("-q")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.kubelab takes options by name only*"])


@pytest.mark.slow
def test_an_option_that_the_mark_does_not_have_is_named_with_those_that_it_has(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kubelab(simulates="job")
        def test_it(kubelab):
            pass
        """
    )
    result = pytester.runpytest_inprocess()

    result.assert_outcomes(errors=1)
    assert "TypeError" not in result.stdout.str()
    result.stdout.fnmatch_lines(["*@pytest.mark.kubelab has no option simulates; it has: crds, simulate, behaviour, *"])


@pytest.mark.slow
def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    code = "import sys, kubelab.plugin; print([m for m in ('anyio', 'uvicorn', 'yaml', 'attrs') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout.strip() in ("[]", "['attrs']")


@pytest.mark.slow
def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    words = ["--kubeconfig-out", str(tmp_path / "kc"), "--tls", "--token", "secret", "--simulate", "job"]
    command = [sys.executable, "-m", "kubelab", "serve", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        config = yaml.safe_load((tmp_path / "kc").read_text(encoding="utf-8"))
        assert ready == f"ready {config['clusters'][0]['cluster']['server']}\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--simulate", "fluxx"), 2, "error: --simulate fluxx: there is no such simulator"),
        (("--crds", "/nonexistent"), 1, "error: --crds /nonexistent: cannot be read"),
        (("--kubeconfig-out", "/nonexistent/kc"), 1, "error: --kubeconfig-out /nonexistent/kc: cannot be written"),
        (("--port", "1", "--host", "192.0.2.1", "--token", "t"), 1, "error: cannot listen on 192.0.2.1:1: "),
    ],
)
def test_a_command_that_cannot_serve_says_why_in_one_line(words: tuple[str, ...], status: int, message: str) -> None:
    command = [sys.executable, "-m", "kubelab", "serve", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert done.returncode == status
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
