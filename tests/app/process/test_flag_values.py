"""Values of flags that cannot be meant: an error that names the flag, before anything is printed or written (SEE-5)."""

from pathlib import Path

import pytest

from purekube_run.process.command_line import CommandError
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.shared.plan_documents import time_of

BOX = "examples/boxes/webapp.yaml"
NAME = "not the name of a"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        # Each but the last three printed manifests that an API server refuses in part.
        (["box", "manifests", BOX, "--namespace", "Bad_NS"], f"--namespace Bad_NS: {NAME} namespace"),
        (["box", "manifests", BOX, "--system-namespace", "a/b"], f"--system-namespace a/b: {NAME} namespace"),
        (["box", "manifests", BOX, "--image", "a b"], "--image a b: name the image that the cluster is to pull"),
        (["box", "manifests", "--applied", "--image", ""], "--image : name the image that the cluster is to pull"),
        (["box", "rbac", BOX, "--service-account", "a b"], f"--service-account a b: {NAME} service account"),
        # The roll-out was paused.
        (
            ["box", "rollout", "pause", "webapp", "--to-revision", "webapp-1"],
            "--to-revision is for undo and policies, not for pause",
        ),
        # Ended with a traceback.
        (["approve", "op/a", "--minutes", "9" * 15], f"--minutes {'9' * 15}: between 1 and 527040, which is a year"),
        # Served everybody who sent an empty token.
        (
            ["control-plane", "--cluster-id", "a", "--token", "", "--admin-token", "b"],
            "--token and --admin-token may not be empty: callers need none then",
        ),
    ],
)
def test_a_value_that_cannot_be_meant_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words) == 2
    ended = capsys.readouterr()
    assert (ended.out, ended.err) == ("", f"error: {told}\n")


def test_a_time_before_the_first_year_is_told() -> None:
    with pytest.raises(CommandError, match="--now 0001-01-01T00:00:00"):
        time_of("0001-01-01T00:00:00+14:00")


UNREADABLE = """
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1", certificate-authority: /nonexistent/ca.pem}}]
users: [{name: a, user: {token: t}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
"""


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--no-agent", "--cluster-id", "c", "--leader-elect"),
        ("box", "run", BOX),
        ("status",),
        ("register", "--control-plane-url", "https://127.0.0.1:1", "--registration-token-file", BOX),
    ],
)
def test_a_kubeconfig_with_a_broken_authority_is_told(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run` and `register` ended with a traceback of eighty lines."""
    (tmp_path / "kc").write_text(UNREADABLE, encoding="utf-8")
    assert run_command([*words, "--kubeconfig", str(tmp_path / "kc")]) == 1
    told = "certificates of context a cannot be loaded: No such file or directory"
    assert f"error: {told}\n" in capsys.readouterr().err


def test_a_roll_out_that_cannot_be_read_is_not_an_incomplete_one(tmp_path: Path) -> None:
    """A script that waits for the exit status 0 of `box rollout status` waited for ever."""
    (tmp_path / "kc").write_text(UNREADABLE, encoding="utf-8")
    assert run_command(["box", "rollout", "status", "webapp", "--kubeconfig", str(tmp_path / "kc")]) == 2
