"""The exit status of a command whose 1 is a verdict: an error is never taken for a difference (SEE-2)."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.shared.session import SITE, CommandContext

EXAMPLE = "examples/application-oci.yaml"
PLAN = ["plan", EXAMPLE, "-o", "diff"]
ROLLOUT = ["box", "rollout", "status", "webapp"]
COLLECT = ["simulate", "collect"]


class Defective(CommandContext):
    """An environment in which every command meets a defect of its own."""

    def run(self, kubeconfig: Path | None, work: Any) -> Any:
        raise RuntimeError("a defect")


@pytest.mark.parametrize(("words", "status"), [(["diff", EXAMPLE], 2), (ROLLOUT, 2), (COLLECT, 2), (["status"], 1)])
def test_an_unexpected_error_is_no_verdict(
    words: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python ended with 1. It said that something would change, and a pipeline went on to apply it; or that a law was
    broken, and an Indexed Job did not retry its pod (SIM-3).
    """
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    token = SITE.set(Defective())
    try:
        assert run_command(words, guarded=True) == status
    finally:
        SITE.reset(token)
    assert capsys.readouterr().err.endswith("RuntimeError: a defect\n")


@pytest.mark.parametrize(
    ("words", "status"),
    [(["diff", EXAMPLE, "--offline", "EMPTY"], 2), ([*PLAN, "--exit-code"], 2), (PLAN, 1)],
)
def test_what_cannot_be_printed_is_no_difference(
    words: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """On a full disk the exit status was 1."""
    words = [str(tmp_path) if word == "EMPTY" else word for word in words]
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run_command(words) == status
        assert capsys.readouterr().err.endswith("error: cannot write: No space left on device\n")
        full.flush()


def test_a_reader_that_has_gone_is_no_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert run_command(["diff", EXAMPLE, "--offline", str(tmp_path)]) == 2
        gone.flush()
