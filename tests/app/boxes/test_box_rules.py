"""Rules and defaults that a box adds to its kind hold wherever the box is tried, or a warning names them (PH-6)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from structlog.testing import capture_logs

from kubelab.clock import START
from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.boxes.box import Box
from purekube.boxes.definition import crd_of, not_enforced
from purekube_run.boxes.enforcement import Enforcement
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.cluster import MemoryCluster
from purekube_run.simulation.extensions.box_laws import Rested, try_example
from purekube_run.simulation.extensions.box_world import BoxWorld
from purekube_run.simulation.extensions.extension_world import simulation_of
from purekube_run.simulation.extensions.plan import plan_box
from purekube_run.simulation.extensions.runnables import definition_of
from vworkspace_app.__main__ import run_command

RULE = "self.spec.replicas <= 5"
MESSAGE = "at most five replicas"
ADDED = f"""\
  validation:
    - rule: {RULE}
      message: {MESSAGE}
  mutation:
    - field: spec.tier
      value: gold
  status:
"""


def site(replicas: int) -> dict[str, Any]:
    spec = {"image": "nginx:1.29", "replicas": replicas}
    meta = {"name": "s", "namespace": "team"}
    return {"apiVersion": "example.com/v1", "kind": "Site", "metadata": meta, "spec": spec}


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    """The box of `box init`, with a rule and a default that its CRD file lacks."""
    monkeypatch.chdir(tmp_path)
    assert run_command(["box", "init", "Site"]) == 0
    file, crd = Path("site.yaml"), Path("site-crd.yaml")
    file.write_text(file.read_text(encoding="utf-8").replace("  status:\n", ADDED), encoding="utf-8")
    text = crd.read_text(encoding="utf-8").replace("replicas:", "tier: {type: string}\n                replicas:", 1)
    crd.write_text(text, encoding="utf-8")
    (loaded,) = runnable(load_boxes(["site.yaml"]))
    return loaded


def test_a_scenario_and_a_plan_refuse_what_a_rule_of_the_box_forbids(box: Box) -> None:
    with BoxWorld(box) as world, pytest.raises(Invalid, match=MESSAGE):
        world.create(site(6), box.kind)
    with pytest.raises(CommandError, match=MESSAGE):
        plan_box(box, site(6), (), (), datetime(2026, 6, 1, tzinfo=UTC))
    with BoxWorld(box) as world:
        assert world.create(site(5), box.kind)["spec"]["tier"] == "gold"


@pytest.mark.slow
def test_every_world_of_a_box_serves_the_definition_that_box_manifests_prints(box: Box) -> None:
    assert definition_of(box) == crd_of(box)
    assert isinstance(try_example(box, (), 0, 1), Rested)
    assert simulation_of(box) is not None


def test_a_definition_that_has_the_rules_already_gets_none_twice(box: Box) -> None:
    assert crd_of(attrs.evolve(box, crd=crd_of(box))) == crd_of(box)


def test_what_a_definition_lacks_of_a_box_is_named(box: Box) -> None:
    assert not_enforced(box, crd_of(box)) == ()
    assert not_enforced(box, box.crd) == (f"the rule {RULE}", "the default of spec.tier")


def test_a_process_warns_when_the_cluster_lacks_rules_of_its_box_once_for_each_finding(box: Box) -> None:
    cluster = MemoryCluster(lambda: START)
    enforcement = Enforcement(cluster.admin, [box])
    definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, box.kind.crd_name)

    def warnings() -> list[Any]:
        with capture_logs() as lines:
            run_sync(enforcement.compare())
        return lines

    assert warnings() == []  # no CRD yet: the controller of the box reports that
    cluster.install([box.crd])
    (line,) = warnings()
    assert line["lacks"] == (f"the rule {RULE}", "the default of spec.tier")
    assert line["remedy"].startswith("vworkspace-operator box manifests site.yaml --crds-only | kubectl apply")
    assert warnings() == []
    cluster.change(definition, {"spec": crd_of(box)["spec"]})
    assert warnings() == []
    cluster.change(definition, {"spec": box.crd["spec"]})
    assert [line["box"] for line in warnings()] == ["site"]


def test_box_check_says_who_writes_the_rules_into_the_definition(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run_command(["box", "check", "site.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  1 rule, 1 default, which `box manifests --crds-only` writes into the CRD"
