"""A box that cannot be run is refused with what is wrong, counted as a person counts."""

import re
from pathlib import Path

import pytest

from purekube_run.boxes.load import further_crds, load_boxes, named_in, runnable
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format, dump
from tests.support.boxes import crd

HEAD = "apiVersion: box.vworkspace.io/v1alpha1\nkind: OperatorBox\nmetadata: {name: cache}\n"


@pytest.mark.parametrize("spec", ["spec: 5\n", "spec: {nope: 1, other: 2}\n"])
def test_problems_are_counted_in_words(tmp_path: Path, spec: str) -> None:
    file = tmp_path / "cache.yaml"
    file.write_text(HEAD + spec, encoding="utf-8")
    (loaded,) = load_boxes([str(file)])
    number = len(loaded.problems)
    words = "1 problem" if number == 1 else f"{number} problems"

    with pytest.raises(CommandError, match=re.escape(f"{file}: {words}; see `box check`")):
        runnable([loaded])


def test_crds_in_a_list_as_kubectl_prints_it_are_read(tmp_path: Path) -> None:
    """They were passed over, and the box had kinds whose fields are unknown."""
    parts = crd(names={"plural": "parts", "singular": "part", "kind": "Part", "listKind": "PartList"})
    parts = {**parts, "metadata": {"name": "parts.example.com", "resourceVersion": "7", "uid": "u"}}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    file = tmp_path / "crds.yaml"
    listed = {"apiVersion": "v1", "kind": "List", "items": [other, crd(), parts]}
    file.write_text(dump([listed], Format.YAML), encoding="utf-8")

    found = list(further_crds([file]))
    assert [each.stored.kind.kind for each in found] == ["Shop", "Part"]
    assert [each.stored.kind.kind for each in further_crds([file], {"Part"})] == ["Part"]
    line = file.read_text(encoding="utf-8").splitlines()[int(found[1].where("spec").rpartition(":")[2]) - 1]
    assert line.strip() == "spec:"

    broken = {**parts, "spec": {**parts["spec"], "versions": "none"}}
    file.write_text(dump([{**listed, "items": [crd(), broken]}], Format.YAML), encoding="utf-8")
    with pytest.raises(CommandError, match=r"crds\.yaml:\d{2,}:\d+: items\[1\]: spec\.versions must be a list"):
        list(further_crds([file]))


def test_a_box_as_kubectl_prints_it_is_read(tmp_path: Path) -> None:
    """Of a box whose file was lost nothing could be shown, tried or forgotten: its metadata had unknown fields."""
    file = tmp_path / "cache.yaml"
    status = "status: {objects: 1}\n"
    meta = "{name: cache, uid: u, resourceVersion: '7', finalizers: [a/b], generateName: c}"
    served = HEAD.replace("{name: cache}", meta)
    file.write_text(f"{served}spec: 5\n{status}", encoding="utf-8")
    (loaded,) = load_boxes([str(file)])
    assert [problem.place.path for problem in loaded.problems] == ["spec"]

    file.write_text(f"{HEAD}spec: 5\n{status}", encoding="utf-8")
    (loaded,) = load_boxes([str(file)])
    assert [problem.place.path for problem in loaded.problems] == ["spec", "status"]


def test_the_crd_that_a_box_names_is_found_although_its_kind_is_nowhere_in_the_box(tmp_path: Path) -> None:
    """`box check --crds` said that no such CRD was given, and to give it with --crds."""
    (tmp_path / "crds.yaml").write_text(dump([crd()], Format.YAML), encoding="utf-8")
    (tmp_path / "box.yaml").write_text(f"{HEAD}spec:\n  crd: {{name: shops.example.com}}\n", encoding="utf-8")
    (loaded,) = load_boxes([str(tmp_path / "box.yaml")], [tmp_path / "crds.yaml"])
    assert "no CRD shops.example.com was given" not in str(loaded.problems)
    named, *others = named_in(["crd: {name: shops.example.com}"], list(further_crds([tmp_path / "crds.yaml"])))
    assert (named.stored.kind.kind, others) == ("Shop", [])
