"""`completion`: what a shell offers after the words on its line (SEE-5)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import run
from vworkspace_app.missing_packages import COMMANDS

BASH = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vworkspace_operator; printf '%s\\n' "${COMPREPLY[@]}"
"""
OFFERED = {
    ("",): [*COMMANDS],
    ("sta",): ["status"],
    ("box", "ch"): ["check"],
    ("status", "--out"): ["--output"],
    ("status", "--output", ""): ["table", "yaml", "json"],
    ("status", "-o", "y"): ["yaml"],
    ("status", "shop", "-o", "j"): ["json"],
    ("conformance", "operator", "--verd"): [],
    ("run", "--no-ag"): ["--no-agent"],
    ("completion", ""): ["bash", "zsh", "fish"],
    ("simulate", "re"): ["replay", "record"],
    ("simulate", "--rep"): ["--replicas"],
    ("status", "--namespace", ""): [],
    ("status", "--namespace", "box", "--wa"): ["--watch"],
}
"""The words on the line, the last one to be completed, and what completes it; files are the shell's own matter."""


@pytest.mark.parametrize("words", OFFERED, ids=" ".join)
def test_bash_offers_commands_options_and_values_SEE_5(words: tuple[str, ...], tmp_path: Path) -> None:
    assert sorted(_in_bash(tmp_path, *words)) == sorted(OFFERED[words])


def test_bash_divides_an_option_from_its_value_SEE_5(tmp_path: Path) -> None:
    assert _in_bash(tmp_path, "status", "--output", "=", "ya") == ["yaml"]
    assert _in_bash(tmp_path, "status", "--output", "=") == ["table", "yaml", "json"]


def _in_bash(folder: Path, *words: str) -> list[str]:
    script = folder / "completion.bash"
    script.write_text(run("completion", "bash").out, encoding="utf-8")
    line = ["bash", "--norc", "-c", BASH, "bash", str(script), "vworkspace-operator", *words]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize("words", OFFERED, ids=" ".join)
def test_fish_offers_the_same_SEE_5(words: tuple[str, ...], tmp_path: Path) -> None:
    script = tmp_path / "completion.fish"
    script.write_text(run("completion", "fish").out, encoding="utf-8")
    line = " ".join(("vworkspace-operator", *words))
    ask = ["fish", "--no-config", "-c", f"cd {tmp_path}; source {script}; complete -C '{line}'"]
    offered = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.splitlines()

    assert sorted({entry.partition("\t")[0] for entry in offered} - {script.name}) == sorted(OFFERED[words])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_read_its_script_SEE_5(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=run("completion", shell).out, text=True, check=True)
