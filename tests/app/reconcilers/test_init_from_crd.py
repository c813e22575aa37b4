"""`init reconciler --from-crd`: the project for a kind that exists; it passes its tests, mypy and ruff (PH-7)."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.flux.crds import flux_crds
from purekube.boxes.schemas import CrdVersions
from purekube.schema import Schema
from purekube_run.process.yaml_documents import Format, dump
from tests.app.reconcilers.test_init import in_project
from tests.support.crd_schemas import crd_of, meaning
from vworkspace_app.__main__ import run_command
from vworkspace_core.api.crd import crd_manifests

SPEC = {
    "type": "object",
    "required": ["foo-bar"],
    "properties": {"foo-bar": {"type": "string"}, "size": {"type": "integer"}},
}
WIDGETS = crd_of(SPEC)
GADGETS = {**WIDGETS, "metadata": {"name": "gadgets.example.com"}}
GADGETS["spec"] = {**GADGETS["spec"], "names": {"kind": "Gadget", "plural": "gadgets"}}


def written(path: Path, *documents: Any) -> str:
    path.write_text(dump(documents, Format.YAML), encoding="utf-8")
    return str(path)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_project_is_written_for_the_kind_of_a_crd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = written(tmp_path / "crd.yaml", WIDGETS), tmp_path / "widgets"

    assert run_command(["init", "reconciler", "widgets", "--from-crd", file, "--directory", str(folder)]) == 0
    told = capsys.readouterr()
    assert told.err == "spec.foo-bar: no attribute can have this name: read it from the object's `manifest`\n"
    assert files(folder) == {line.removeprefix(f"wrote {folder}/") for line in told.out.splitlines()}
    assert files(folder) >= {"pyproject.toml", "widgets/api.py", "widgets/reconciler.py", "tests/test_widgets.py"}
    assert "size: int | None = None" in (folder / "widgets" / "api.py").read_text()


def test_one_of_several_crds_is_chosen_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = dump([{"apiVersion": "v1", "kind": "List", "items": [WIDGETS, GADGETS]}], Format.YAML)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    words = ["--from-crd", "-", "--kind", "Gadget", "--directory", str(tmp_path)]
    assert run_command(["init", "reconciler", "gadgets", *words]) == 0
    assert "GadgetSpec" in (tmp_path / "gadgets" / "api.py").read_text()


def test_of_several_versions_the_stored_one_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crd = crd_of(SPEC)
    (stored,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [{**stored, "name": "v2", "storage": False}, stored]
    file = written(tmp_path / "crd.yaml", crd)

    assert run_command(["init", "reconciler", "widgets", "--from-crd", file, "--directory", str(tmp_path)]) == 0
    assert "spec.versions: only the stored one, v1, becomes classes, not v2" in capsys.readouterr().err
    assert 'resource("example.com", "v1", "Widget"' in (tmp_path / "widgets" / "api.py").read_text()


_OTHER_GROUP = {**WIDGETS, "spec": {**WIDGETS["spec"], "group": "apps.k8s.io"}}
_NO_SCHEMA = {**WIDGETS, "spec": {**WIDGETS["spec"], "versions": [{"name": "v1", "served": True, "storage": True}]}}


@pytest.mark.parametrize(
    ("documents", "words", "told"),
    [
        ([{"apiVersion": "v1", "kind": "Secret"}], [], "it has no CustomResourceDefinition"),
        ([], [], "it has no CustomResourceDefinition"),
        ([WIDGETS, GADGETS], [], "it has gadgets.example.com, widgets.example.com: choose one with --kind and --group"),
        ([WIDGETS], ["--kind", "Gadget"], "it has widgets.example.com: none is of that kind"),
        ([WIDGETS], ["--group", "example.org"], "it has widgets.example.com: none is of that kind"),
        ([_NO_SCHEMA], [], "spec.versions[0].schema.openAPIV3Schema: is missing"),
        (
            [crd_of({"$ref": "#/x"})],
            [],
            "version v1: properties[spec].$ref: is not supported; properties[spec].type: must",
        ),
        (
            [crd_of({"type": "string"})],
            [],
            "spec.versions[0].schema.openAPIV3Schema.properties.spec: a kind in Python has",
        ),
        ([_OTHER_GROUP], [], "spec: the group apps.k8s.io is kept for Kubernetes itself"),
    ],
)
def test_what_makes_no_project_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], documents: list[Any], words: list[str], told: str
) -> None:
    file, folder = written(tmp_path / "crd.yaml", *documents), tmp_path / "widgets"

    assert run_command(["init", "reconciler", "widgets", "--from-crd", file, "--directory", str(folder), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file}: {told}")
    assert not folder.exists()


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", "reconciler", "widgets", "--from-crd", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: cannot be read" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("crd", [flux_crds()[0], crd_manifests()[0]], ids=["helmreleases", "applicationinstances"])
def test_a_project_passes_its_tests_mypy_and_ruff_at_once(tmp_path: Path, crd: dict[str, Any]) -> None:
    name, file = crd["spec"]["names"]["plural"], written(tmp_path / "crd.yaml", crd)
    project = tmp_path / name
    assert run_command(["init", "reconciler", name, "--from-crd", file, "--directory", str(project)]) == 0

    assert "2 passed" in in_project(project, "pytest", "-q", "-p", "no:cacheprovider")
    assert "Success" in in_project(project, "mypy", ".")
    in_project(project, "ruff", "check", "--isolated", "--select", "E,F,I,UP,B", "--line-length", "120", ".")
    in_project(project, "ruff", "format", "--isolated", "--check", "--line-length", "120", ".")
    printed = yaml.safe_load(in_project(project, "vworkspace_app", "controllers", "crds", f"{name}.reconciler:{name}"))
    assert meaning(spec_of(printed)) == meaning(spec_of(crd))


def spec_of(crd: dict[str, Any]) -> Schema:
    schema = CrdVersions.of(crd).stored.schema
    assert schema is not None
    return schema.properties["spec"]
