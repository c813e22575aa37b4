"""docs/extending.md does what it says: its code, its changes and its commands are carried out on a copy of the core."""

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

# Walks every line of the new engine's table, as a test of its author would, and looks at what follows by itself.
PROBE = """
from datetime import UTC, datetime
import attrs
from purekube_run.process.yaml_documents import read_documents
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.operation import EngineRef
from vworkspace_core.api.vocabulary import is_admitted
from vworkspace_core.operations.context import OperationContext
from vworkspace_core.operations.context import OperationObserved
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.contract import EngineContext
from vworkspace_core.operations.engines import ENGINES, engine_kinds
from vworkspace_core.operations.status_samples import shown_by

engine = ENGINES["cnpg"]
given = {"uid": "00000000-0000-0000-0000-000000000000", "generation": 1, "resourceVersion": "1"}
found = [{**one, "metadata": {**given, **one["metadata"]}} for one in read_documents(["cluster.yaml"])]
operation, target = read_operation(found[0]), read_application_instance(found[1])
context = OperationContext(OperationSettings("prod-1"), datetime(2026, 6, 1, 12, 1, tzinfo=UTC))
(made,) = engine.desired(operation, target, EngineContext(context.settings, context.templates.items[0]))
live = {**made.manifest, "metadata": {**made.manifest["metadata"], "uid": "u", "resourceVersion": "1"}}
known = attrs.evolve(operation.status.engine_ref, uid="u")
operation = attrs.evolve(operation, status=attrs.evolve(operation.status, engine_ref=known))
for row in engine.tables["Backup"]:
    seen = OperationObserved(None, shown_by(row, operation, made.kind, live))
    status = engine.observe(operation, seen.objects)
    assert (status.phase, status.reason) == (row.progress, row.reason), row
    for one in reconcile_operation(operation, seen, context).status["status"]["conditions"]:
        assert is_admitted("Operation", one["type"], one["status"], one["reason"]), one
assert made.kind in engine_kinds(), "it is watched"
(crd,) = (one for one in crd_manifests() if one["spec"]["names"]["kind"] == "Operation")
schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["engine"]
assert "cnpg" in schema["enum"]
print("walked", len(engine.tables["Backup"]))
"""


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
    """A folder with the page's files, and the core as the page changes it."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "core", folder / "core", ignore=shutil.ignore_patterns("__pycache__"))
    for block in blocks():
        path = folder / block.name
        if block.language == "diff":
            path.write_text(changed(path.read_text(encoding="utf-8"), block.text), encoding="utf-8")
        elif "." in block.name:
            path.write_text(block.text, encoding="utf-8")
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in that folder, with its core before any other."""
    environ = {**os.environ, "PYTHONPATH": str(folder / "core"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_the_new_engine_is_planned_with_as_the_page_shows(extended: Path) -> None:
    (command,) = (block.text for block in blocks() if block.language == "sh")
    (output,) = (block.text for block in blocks() if block.name == "output")

    ended = run(extended, "-m", "vworkspace_app", *command.split()[1:])

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == output


def test_every_line_of_its_table_is_what_happens_and_the_rest_comes_by_itself(extended: Path) -> None:
    ended = run(extended, "-c", PROBE)

    assert (ended.returncode, ended.stdout) == (0, "walked 7\n"), ended.stderr


def test_its_module_keeps_the_house_rules(extended: Path) -> None:
    """Longer lines than the page can show are refused as everywhere."""
    shutil.copy(ROOT / "pyproject.toml", extended)
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
