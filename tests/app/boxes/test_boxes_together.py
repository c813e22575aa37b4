"""Boxes that are given together know each other's kinds (PH-6)."""

import json
from pathlib import Path

import pytest

from purekube_run.boxes.load import load_boxes
from tests.support.boxes import config, crd, document
from vworkspace_app.__main__ import run_command

TEAM_CRD = {
    **crd(),
    "metadata": {"name": "teams.example.com"},
    "spec": {**crd()["spec"], "names": {"plural": "teams", "singular": "team", "kind": "Team", "listKind": "TeamList"}},
}
SHOP_OF_TEAM = {
    "id": "shop",
    "template": {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": "${self.metadata.name}"},
        "spec": {"image": "${self.spec.image}", "parts": []},
    },
}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A box of teams, which makes a shop for each, and the box of shops."""
    team = {**document(SHOP_OF_TEAM), "metadata": {"name": "team"}}
    team["spec"]["crd"] = "team-crd.yaml"
    written = {
        "shop.yaml": document(config("settings")),
        "shop-crd.yaml": crd(),
        "team.yaml": team,
        "team-crd.yaml": TEAM_CRD,
    }
    for name, content in written.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    return [str(tmp_path / "team.yaml"), str(tmp_path / "shop.yaml")]


def test_a_box_makes_objects_of_the_kind_of_another_that_is_given_with_it(files: list[str]) -> None:
    assert [loaded_box.problems for loaded_box in load_boxes(files)] == [(), ()]
    (alone,) = load_boxes(files[:1])
    assert "the kind Shop is not known" in alone.problems[0].message
    team = load_boxes(files)[0].box
    assert team is not None
    assert team.nodes[0].schema is not None


def test_what_is_wrong_with_the_definition_of_another_is_told_of_that_one_alone(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(files[1]).parent / "shop-crd.yaml").write_text("a: [", encoding="utf-8")
    assert run_command(["box", "check", *files]) == 1
    told = [line for line in capsys.readouterr().out.splitlines() if "not valid YAML" in line]
    assert len(told) == 1
    assert "shop-crd.yaml:" in told[0]
