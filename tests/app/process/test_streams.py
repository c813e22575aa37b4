"""What a command does with its standard streams: none of them may be there, and colours only where they are wanted."""

import io
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from purekube_run.process.terminal import shows_colours
from vworkspace_app.__main__ import open_missing_streams, run_command
from vworkspace_app.commands.diff import diff
from vworkspace_app.commands.plan import print_plan

EXAMPLE = "examples/application-oci.yaml"


def test_a_stream_that_the_caller_closed_is_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """`command >&-` ended with a traceback, and so did a question to a standard input that was closed."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    open_missing_streams()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    print("text")
    print("text", file=sys.stderr)
    assert (sys.stdin.isatty(), sys.stdin.read()) == (False, "")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


@pytest.mark.parametrize("words", [["--help"], ["version", "--client"], ["manifests", "--crds-only"]])
def test_a_full_disk_is_told_in_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`manifests > file` on a full disk ended with a traceback."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run_command(words) == 1
        assert capsys.readouterr().err == "error: cannot write: No space left on device\n"
        full.flush()  # what is left goes nowhere, not even at the end of the process


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "shown"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_no_colours_where_the_environment_wants_none(
    variables: dict[str, str], shown: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """diff, plan and the log of a terminal printed them all the same."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert shows_colours(Terminal(), os.environ) is shown
    assert not shows_colours(io.StringIO(), os.environ)
    commands: list[Callable[[], int]] = [
        partial(diff, EXAMPLE, offline=tmp_path),
        partial(print_plan, EXAMPLE, output="diff"),
    ]
    for command in commands:
        out = Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        command()
        assert ("\x1b[32m+" in out.getvalue()) is shown
