"""`box test`: scenarios as data, and laws on objects drawn from a CRD's schema (PH-6; L2, L3, L11, L13, L14)."""

import json
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
import yaml

from purekube.boxes.box import BoxRule
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube.schema import compile_schema
from purekube.schema.violations import validate
from purekube_run.examples.data_source import Seeded
from purekube_run.examples.examples import Examples
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format, dump
from purekube_run.simulation.extensions.box_laws import BrokenBoxLaw, Rested, try_example
from purekube_run.simulation.extensions.scenario import run_scenario
from purekube_run.simulation.extensions.scenario_file import read_scenarios
from tests.support.box_site import example
from tests.support.boxes import compile_box, crd, document
from tests.support.commands import one_line, run
from tests.support.effort import of_both
from vworkspace_app.commands.box.test import BoxTestRequest, play_box, try_box

BOXES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
BOX_NAMES = ("webapp", "registry", "chart")


@pytest.mark.slow
@pytest.mark.parametrize("name", BOX_NAMES)
def test_the_scenarios_of_the_examples_hold(name: str) -> None:
    outcomes = [run_scenario(example(name), (), one) for one in read_scenarios([str(BOXES / f"{name}-test.yaml")])]

    assert outcomes
    assert [outcome.problem for outcome in outcomes if outcome.problem] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BOX_NAMES)
def test_laws_hold_on_objects_drawn_from_the_crd(name: str) -> None:
    """One: `box test` tries many, and its seed brings one back."""
    assert isinstance(try_example(example(name), (), 0, 1), Rested)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOX_NAMES)
def test_laws_hold_on_many_objects(name: str) -> None:
    ended = [try_example(example(name), (), number, 2) for number in range(of_both(10, 100))]
    assert [broken for broken in ended if isinstance(broken, BrokenBoxLaw)] == []


def test_equal_seeds_draw_equal_objects() -> None:
    schema = compile_schema(example("registry").crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    one, other = (Examples(schema, Seeded(Random(7))).spec_of() for _ in range(2))

    assert one == other


@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_is_valid(seed: int) -> None:
    schema = {
        "type": "object",
        "required": ["name", "count"],
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "minLength": 2, "maxLength": 9},
            "count": {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 3},
            "size": {"type": "string", "enum": ["s", "m"]},
            "at": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": True},
            "parts": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "boolean"}},
            "labels": {
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 3},
                "maxProperties": 2,
            },
        },
    }

    compiled = compile_schema(schema)

    assert list(validate(compiled, Examples(compiled, Seeded(Random(seed))).value())) == []


HEAD = "apiVersion: box.vworkspace.io/v1alpha1\nkind: BoxScenario\nmetadata: {name: x}\nspec:\n"


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("kind: Other", ":1", "apiVersion"),
        (f"{HEAD}  given: []\n  steps: [{{}}]", ":5:3: spec.given", "must be a list of objects"),
        (
            f"{HEAD}  given: [{{}}]\n  steps:\n    - pause: 1",
            ":7:14: spec.steps[0].pause",
            "there are until, expect, gone",
        ),
        (
            f"{HEAD}  given: [{{}}]\n  steps:\n    - until: Ready\n    - exepct: {{}}",
            ":8:7: spec.steps[1].exepct",
            "is unknown to a step; did you mean expect?",
        ),
        (f"{HEAD}  given: [{{}}]\n  steps:\n    - within: 1m", ":7:7: spec.steps[0]", "has no action"),
        (f"{HEAD}  given: [{{}}]\n  steps:\n    - until: a\n      gone: {{}}", ":7:7: spec.steps[0]", "until and gone"),
        (
            f"{HEAD}  given: [{{}}]\n  steps:\n    - gone: {{}}\n      refused: a",
            ":8:16: spec.steps[0].refused",
            "belongs to",
        ),
        (
            f"{HEAD}  given: [{{}}]\n  steps:\n    - create: {{}}\n      refused: ''",
            ":8:16: spec.steps[0].refused",
            "message",
        ),
        (f"{HEAD}  given: [{{}}]\n  steps:\n    - create: shop", ":7:15: spec.steps[0].create", "must be an object"),
        (
            f"{HEAD}  given: [{{}}]\n  steps: [{{after: 5 minutes}}]\n  more: 1",
            ":7:9: spec.more",
            "is unknown to a scenario",
        ),
        (f"{HEAD}  given: [{{}}]\n  steps:\n    - after: 5 minutes", ":7:7: spec.steps[0]", "is no duration"),
        (f"{HEAD}  given: [{{}}]\n  steps: []\n  steps: []", ":7:3: spec.steps", "there twice"),
    ],
)
def test_what_is_wrong_with_a_scenario_is_named_with_its_line(text: str, place: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "x-test.yaml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(CommandError) as error:
        read_scenarios([str(file)])

    assert error.value.message.startswith(f"{file}{place}")
    assert told in error.value.message


@pytest.mark.parametrize(
    ("replicas", "refused", "problem"),
    [
        (6, "at most five", ""),
        (5, "at most five", "is accepted"),
        (6, "at most six", "is refused for another reason"),
    ],
)
def test_a_step_expects_that_the_api_server_refuses_a_write(
    replicas: int, refused: str, problem: str, tmp_path: Path
) -> None:
    box = attrs.evolve(
        example("webapp"), rules=(BoxRule("self.spec.replicas <= 5", "at most five", "spec.replicas", in_crd=True),)
    )
    steps = [{"change": shop(spec={"replicas": replicas}), "refused": refused}, {"until": "Ready"}]
    scenario = {"metadata": {"name": "x"}, "spec": {"given": [shop(spec={"image": "r/x:1"})], "steps": steps}}
    scenario |= {"apiVersion": "box.vworkspace.io/v1alpha1", "kind": "BoxScenario"}
    file = tmp_path / "x-test.yaml"
    file.write_text(yaml.safe_dump(scenario), encoding="utf-8")
    (read,) = read_scenarios([str(file)])

    outcome = run_scenario(box, (), read)

    assert (problem in outcome.problem) if problem else not outcome.problem
    assert not problem or "spec.steps[0]: WebApp default/shop" in outcome.problem


def shop(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "WebApp", "metadata": {"name": "shop"}, **fields}


def test_a_scenario_sets_the_status_of_what_no_simulated_controller_looks_after(tmp_path: Path) -> None:
    """It was dropped, as by an API server: a child of a kind of its own could never become ready in a scenario."""
    names = {"plural": "parts", "singular": "part", "kind": "Part", "listKind": "PartList"}
    part = {**crd(names=names), "metadata": {"name": "parts.example.com"}}
    versions = [CrdVersions.of(crd()), CrdVersions.of(part)]
    api, spec = {"apiVersion": "example.com/v1"}, {"image": "r/x:1", "parts": []}
    child = {**api, "kind": "Part", "metadata": {"name": "part"}, "spec": spec}
    given = {**api, "kind": "Part", "metadata": {"name": "other"}, "spec": spec, "status": {"address": "there"}}
    other = {"id": "other", **api, "kind": "Part", "metadata": {"name": "other"}}
    resource = {"id": "part", "template": child, "readyWhen": ["${part.status.address == other.status.address}"]}
    box = compile_box(read_box(document(resource, externals=[other])), versions[0], Schemas(versions))
    steps: list[dict[str, Any]] = [
        {"until": {"condition": "Ready", "status": "False"}},
        {"change": {**child, "status": {"address": "there"}}},
        {"until": "Ready"},
        {"create": {**given, "metadata": {"name": "third"}}},
        {"expect": {**given, "metadata": {"name": "third"}}},
    ]
    shop_of = {**api, "kind": "Shop", "metadata": {"name": "shop"}, "spec": spec}
    scenario = {"metadata": {"name": "x"}, "spec": {"given": [given, shop_of], "steps": steps}}
    scenario |= {"apiVersion": "box.vworkspace.io/v1alpha1", "kind": "BoxScenario"}
    file = tmp_path / "x-test.yaml"
    file.write_text(dump([scenario], Format.YAML), encoding="utf-8")

    (read,) = read_scenarios([str(file)])
    assert run_scenario(box, (part,), read).problem == ""


@pytest.mark.slow
def test_a_scenario_that_does_not_hold_shows_its_step_and_the_timeline(tmp_path: Path) -> None:
    file = tmp_path / "x-test.yaml"
    steps = [{"until": "Ready"}, {"expect": shop(status={"readyReplicas": 9})}]
    given = [shop(spec={"image": "r/x:1"})]
    scenario = {"metadata": {"name": "nine"}, "spec": {"given": given, "steps": steps}}
    scenario |= {"apiVersion": "box.vworkspace.io/v1alpha1", "kind": "BoxScenario"}
    file.write_text(yaml.safe_dump(scenario), encoding="utf-8")

    ended = run("box", "test", str(BOXES / "webapp.yaml"), str(file), "--examples", "0")

    assert ended.status == 1
    assert "steps[1]" in ended.out
    assert "status.readyReplicas is 2, not 9" in ended.out
    assert "apply Deployment default/shop" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize(("name", "warns"), [("web", False), ("nobody", True)])
def test_a_box_whose_examples_never_become_ready_has_a_warning(name: str, warns: bool, tmp_path: Path) -> None:
    """The laws may hold because almost nothing was made."""
    (tmp_path / "webapp-crd.yaml").write_text((BOXES / "webapp-crd.yaml").read_text())
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "${self.metadata.name}"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": scaled},
    }
    labels = {"app": "${self.metadata.name}"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": pods},
    }
    resources = [{"id": "web", "template": web}, {"id": "sizes", "template": autoscaler}]
    box = {
        "apiVersion": "box.vworkspace.io/v1alpha1",
        "kind": "OperatorBox",
        "metadata": {"name": "webapp"},
        "spec": {"crd": "webapp-crd.yaml", "resources": resources},
    }
    (tmp_path / "webapp.yaml").write_text(json.dumps(box))

    text, held = try_box(BoxTestRequest(str(tmp_path / "webapp.yaml"), examples=1, seed=1))

    assert held, text
    assert ("warning: no example became Ready, so little was tried: " in text) is warns
    assert ('deployments.apps "nobody" not found' in text) is warns


@pytest.mark.slow
def test_a_further_crd_that_the_api_server_refuses_is_named_in_one_line(tmp_path: Path) -> None:
    names = {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"}
    version = {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.dotless"},
        "spec": {"group": "dotless", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    file = tmp_path / "gizmo.yaml"
    file.write_text(yaml.safe_dump(crd), encoding="utf-8")

    line = one_line(run("box", "test", str(BOXES / "webapp.yaml"), "--crds", str(file), "--examples", "1"), 1)

    assert line.startswith("CRD gizmos.dotless is refused: ")
    assert "spec.group" in line


def test_a_negative_number_of_examples_is_refused() -> None:
    """It ended with an IndexError after the scenarios."""
    with pytest.raises(CommandError, match="--examples -1: a number of objects"):
        play_box("examples/boxes/webapp.yaml", examples=-1)
