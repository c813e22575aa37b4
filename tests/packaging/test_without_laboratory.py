"""The operator runs where the embedded servers cannot be imported, and says so where they are asked for (RUN-7)."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_command_processes import (
    ADMIN_TOKEN,
    TOKEN,
    Servers,
    cluster,
    connection,
    control_plane,
    make_namespaces,
    stopped,
)
from tests.support.commands import Running, clean_environment, run
from tests.support.e2e_world import CLUSTER
from vworkspace_app.missing_packages import COMMANDS, INSTALL_EMBEDDED, LABORATORY, install_hint

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ABSENT = str(ROOT / "tests" / "support" / "without_laboratory")
CALLS = """
import contextlib, io, json, sys
from vworkspace_app.__main__ import run_command

for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = run_command(words)
        except SystemExit as ended:
            status = ended.code or 0
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""
TOKENS = ["--token", TOKEN, "--admin-token", ADMIN_TOKEN]
IN_NEED = (
    ["cluster"],
    ["cluster", "--simulate", "all", "--tls"],
    ["control-plane", "--cluster-id", CLUSTER, *TOKENS],
    ["demo"],
    ["demo", "--operations"],
    ["demo", "--box"],
    ["simulate", "--runs", "1"],
)
"""Every command that is nothing without the laboratory."""

NOBODY = "http://127.0.0.1:9"


def answers(*calls: list[str]) -> list[Any]:
    """Status, output and errors of each call, where the laboratory is absent."""
    environment = clean_environment(None, {"PYTHONPATH": ABSENT})
    ended = subprocess.run(
        [sys.executable, "-c", CALLS],
        input=json.dumps(calls),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_commands_that_need_it_say_in_one_line_what_is_missing_and_what_to_do() -> None:
    for words, (status, out, err) in zip(IN_NEED, answers(*IN_NEED), strict=True):
        assert (status, out) == (2 if words[0] == "simulate" else 1, "")  # 1 of simulate: a law was broken
        assert err.count("\n") == 1
        assert err.startswith("error: this command needs packages that the operator's image leaves out (")
        assert any(f"({name} is missing)" in err for name in LABORATORY)
        assert err.endswith(f": {INSTALL_EMBEDDED}\n")


def test_every_other_command_tells_its_options() -> None:
    needing = {words[0] for words in IN_NEED}
    names = [[name] for name in COMMANDS if name not in {*needing, "conformance"}] + [["conformance", "control-plane"]]

    for words, (status, out, err) in zip(names, answers(*([*words, "--help"] for words in names)), strict=True):
        assert (status, err) == (0, "")
        assert out.startswith(f"Usage: vworkspace-operator {' '.join(words)}")


VERBS = ("retry", "suspend", "resume", "cancel", "approve", "logs")


def test_every_other_command_does_what_it_does_elsewhere(tmp_path: Path) -> None:
    example = str(ROOT / "examples" / "application-oci.yaml")
    nobody = tmp_path / "kubeconfig"
    nobody.write_text(json.dumps(_kubeconfig(NOBODY)), encoding="utf-8")
    absent = str(tmp_path / "absent")  # with a token the command would try for seconds
    calls = (
        ["manifests"],
        ["manifests", "--crds-only"],
        ["manifests", "--namespace", "org-myteam"],
        ["plan", example, "--now", "2026-06-01T12:00:00Z"],
        ["run", "--print-config", "--cluster-id", CLUSTER],
        ["uninstall", "--kubeconfig", str(nobody)],
        ["status", "--kubeconfig", str(nobody)],
        ["check", "--kubeconfig", str(nobody)],
        ["version", "--client"],
        ["box", "check", str(ROOT / "examples" / "boxes" / "webapp.yaml")],
        ["completion", "bash"],
        ["diff", example, "--kubeconfig", str(nobody)],
        ["versions", "list", "--kubeconfig", str(nobody)],
        *([verb, "x", "--kubeconfig", str(nobody)] for verb in VERBS),
        ["controllers", "list"],
        ["init", "box", "--help"],
        ["trace", absent],
        ["register", "--control-plane-url", NOBODY, "--registration-token-file", absent, "--print"],
        ["conformance", "control-plane", "--url", NOBODY],
    )
    here = [run(*call, home=tmp_path) for call in calls]

    there = [tuple(answer) for answer in answers(*calls)]
    assert there == [(ended.status, ended.out, ended.err) for ended in here]
    assert [ended.status for ended in here[:5]] == [0] * 5
    assert set(COMMANDS) == {call[0] for call in (*calls, *IN_NEED)}


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "nobody",
        "clusters": [{"name": "nobody", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "nobody", "context": {"cluster": "nobody", "user": "nobody"}}],
    }


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Both embedded servers, with what the operator's namespaces are."""
    with cluster(tmp_path) as api, control_plane(tmp_path) as control:
        found = Servers(tmp_path, api.ready(), control.ready())
        make_namespaces(found.cluster_url)
        yield found


def test_the_operator_carries_out_a_job(tmp_path: Path, servers: Servers) -> None:
    words = ("run", *connection(tmp_path, servers), "--listen", "127.0.0.1:0")
    with Running(tmp_path / "operator", *words, PYTHONPATH=ABSENT) as operator:
        servers.ask("job-1", 1)

        result = operator.until(lambda: servers.result_of("job-1"), "the job's result")

        assert result["outcome"] == "succeeded"
        stopped(operator)


@pytest.mark.parametrize("name", [f"{name}.nonsense" for name in LABORATORY])
def test_a_module_that_is_missing_in_it_is_a_defect(name: str) -> None:
    assert install_hint(ModuleNotFoundError(f"No module named {name!r}", name=name)) is None
