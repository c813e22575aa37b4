"""One runner serves every kind (decision 200): statuses are written in one module, and queues are made in one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import purekube
import purekube_run
import vworkspace_app
import vworkspace_core

PACKAGES = (purekube, purekube_run, vworkspace_app, vworkspace_core)


def callers_of(name: str) -> Iterator[str]:
    """The modules that call a function, method or class of that name."""
    for package in PACKAGES:
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if name in text and any(_is_call(node, name) for node in ast.walk(ast.parse(text))):
                yield f"{folder.name}/{path.relative_to(folder)}"


def _is_call(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=called)) | ast.Call(func=ast.Name(id=called)):
            return called == name
        case _:
            return False


def test_statuses_are_written_in_one_module() -> None:
    examiner = "vworkspace_app/examination/checks/resources.py"
    assert [path for path in callers_of("apply_status") if path != examiner] == ["purekube/controller/execute.py"]
    assert examiner in callers_of("apply_status"), "it writes as another controller would, to examine an operator"


@pytest.mark.slow
def test_keys_of_every_kind_are_queued_and_served_by_one_runner() -> None:
    assert list(callers_of("WorkerPool")) == ["purekube_run/controller/runner.py"]
    assert list(callers_of("StatusReports")) == ["purekube_run/controller/runner.py"]
