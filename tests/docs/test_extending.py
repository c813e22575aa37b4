"""docs/extending.md does what it says: its code, its changes and its commands are carried out on a copy.

The copy has the core, the tests and the generators; everything else is that of this repository.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import attrs
import pytest
import yaml

from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")

WIDE = (
    "tests/app/operations/test_engine_contract.py",
    "tests/property/operations/test_engines.py::test_every_row_is_what_the_engine_makes_of_its_sample",
    "tests/property/operations/test_engines.py::test_no_status_whatever_breaks_an_engine_or_the_vocabulary_RES_4",
    "tests/property/operations/test_any_parameters.py",
    "tests/property/operations/test_schema_words.py",
    "tests/property/operations/test_templates.py",
    "tests/property/clusters/test_status.py",
    "tests/property/expressions/test_readiness.py",
    "tests/crds/test_operation_manifests.py::test_the_table_above_leaves_no_template_out",
    "tests/app/operations/test_awaited.py",
    "tests/unit/operations",
    "tests/unit/overview",
)
"""What the suite says of every engine or template, and of what derives from them."""


@attrs.frozen
class Block:
    """A fenced block: its language, the file or word after it, and its text."""

    language: str
    name: str
    text: str


@cache
def blocks() -> tuple[Block, ...]:
    found = re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return tuple(Block(*one) for one in found)


def changed(text: str, diff: str) -> str:
    """`text` with the hunks of a diff; AssertionError where a hunk does not fit exactly one place."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(before) == 1, f"docs/extending.md: this fits {text.count(before)} places:\n{before}"
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files, and core, tests and tools as the page changes them."""
    folder = tmp_path_factory.mktemp("extended")
    for name in ("core", "tests", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "corpus", "e2e"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for block in blocks():
        path = folder / block.name
        if block.language == "diff":
            path.write_text(changed(path.read_text(encoding="utf-8"), block.text), encoding="utf-8")
        elif "." in block.name:
            path.write_text(block.text, encoding="utf-8")
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in that folder, with its core and tests before any other."""
    path = os.pathsep.join([str(folder / "core"), str(folder)])
    environ = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.slow
def test_the_new_engine_is_planned_with_as_the_page_shows(extended: Path) -> None:
    (command,) = (block.text for block in blocks() if block.language == "sh")
    (output,) = (block.text for block in blocks() if block.name == "output")

    ended = run(extended, "-m", "vworkspace_app", *command.split()[1:])

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == output


def files() -> set[str]:
    """The files of the repository that a person writes or changes for an engine."""
    return {block.name for block in blocks() if block.language == "diff" or block.name.endswith(".py")}


def test_an_engine_is_three_files_and_a_line_in_one_of_them_OPS_6() -> None:
    """Its module, its entry and its test; nothing else has to be written by hand."""
    module, entry, test = sorted(files())
    (diff,) = (block.text for block in blocks() if block.language == "diff")

    assert module.startswith("core/") is entry.startswith("core/") is test.startswith("tests/") is True
    assert [line for line in diff.splitlines() if line.startswith(("+", "-"))] == ['+    CNPG = "cnpg"']
    assert "One module, one entry, one test".lower() in PAGE.lower()


@pytest.mark.slow
def test_everything_that_the_suite_says_of_engines_holds_for_the_new_one(extended: Path) -> None:
    """Registration, roles, remedies, the contract of an engine, and what `status` shows; and the page's own test."""
    (own,) = (name for name in files() if name.startswith("tests/"))
    ended = run(extended, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", own, *WIDE)

    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr
    passed = [line for line in ended.stdout.splitlines() if line.startswith("PASSED")]
    assert any(own in line for line in passed)
    assert sum("cnpg" in line for line in passed) >= 20, "tests of each engine and template run for the new one"


@pytest.mark.slow
def test_the_pages_and_manifests_are_generated_with_it(extended: Path) -> None:
    pages = "from tools.operations_page import engines_page, operations_page; print(operations_page(), engines_page())"
    page = run(extended, "-c", pages)
    command = ("manifests", "--rbac-only", "--namespace", "org-myteam")
    roles = run(extended, "-m", "vworkspace_app", *command)

    assert "## cnpg" in page.stdout, page.stderr
    assert "`failed` | Failed=True/PostgresBackupFailed" in page.stdout
    assert "postgresql.cnpg.io" in roles.stdout, roles.stderr


@pytest.mark.slow
def test_its_module_keeps_the_house_rules(extended: Path) -> None:
    """Longer lines than the page can show are refused as everywhere."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    module = "core/vworkspace_core/operations/engines/cnpg.py"

    for words in (("check", module), ("format", "--check", module)):
        ended = subprocess.run(
            [ruff, *words], cwd=extended, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_the_template_without_code_is_taken_by_plan_OPS_2(extended: Path) -> None:
    found = list(yaml.safe_load_all((extended / "cluster.yaml").read_text(encoding="utf-8")))
    operation, target = found
    del operation["status"]
    operation["spec"] |= {"type": "Runbook", "engine": "job", "parameters": {"image": "elsewhere.example.com/x"}}
    target["metadata"]["annotations"] = {"ops.vworkspace.io/runbook": "job"}
    (extended / "runbook.yaml").write_text(yaml.safe_dump_all(found), encoding="utf-8")

    refused = run(extended, "-m", "vworkspace_app", "plan", "runbook.yaml", "--templates", "templates.yaml")
    operation["spec"]["parameters"] = {"image": "registry.example.com/runbooks/a:1", "args": ["now"]}
    (extended / "runbook.yaml").write_text(yaml.safe_dump_all(found), encoding="utf-8")
    waiting = run(extended, "-m", "vworkspace_app", "plan", "runbook.yaml", "--templates", "templates.yaml")

    assert "spec.parameters.image: does not have the form that the template asks for, such as" in refused.stdout, (
        refused.stderr
    )
    assert "reason: AwaitingApproval" in waiting.stdout, waiting.stderr
