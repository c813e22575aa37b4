"""The page for users of kro does what it says: its definition converts, checks, and makes these objects."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.docs.markdown import ROOT
from vworkspace_app.__main__ import run_command

PAGE = (ROOT / "docs" / "from-kro.md").read_text(encoding="utf-8")
BLOCKS = {
    (language, name): text
    for language, name, text in re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}


def said(name: str) -> list[int]:
    """Exit statuses of a block's commands."""
    return [run_command(shlex.split(line)[1:]) for line in BLOCKS["sh", name].splitlines()]


def test_the_page_for_users_of_kro_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for (language, name), text in BLOCKS.items():
        if language == "yaml":
            (tmp_path / name).write_text(text, encoding="utf-8")

    assert said("convert") == [0, 0]
    shown = BLOCKS["console", "convert"].splitlines()
    assert capsys.readouterr().out.splitlines()[: len(shown)] == shown

    assert said("plan") == [0, 0]
    out = capsys.readouterr().out
    assert "ConfigMap default/shop-eu-gold" in out
    assert "ConfigMap default/shop-us-gold" in out
    assert yaml.safe_load(out[out.index("apiVersion: box.vworkspace.io") :].split("\n---")[0])["kind"] == "OperatorBox"
