"""`box plan`: one pass, carried out on an API server that holds what was observed (PH-6, L26)."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from purekube.apimachinery.manifest import LAST_APPLIED, Manifest, ObjectRef, canonical_json
from purekube.apimachinery.resources import DEPLOYMENT, NAMESPACE
from purekube.boxes.box import MARKS
from purekube_run.simulation.extensions.box_world import BoxWorld
from purekube_run.simulation.extensions.plan import BoxPlan, plan_box, shown
from purekube_run.simulation.extensions.plan_against import PlanAgainst
from tests.support.box_site import example
from tests.support.boxes import box_of, secret
from tests.support.commands import run
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.box.plan import against_output
from vworkspace_app.commands.box.plan import planned as planned_by
from vworkspace_app.commands.shared.plan_documents import object_lines

BOXES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WEB = ObjectRef(DEPLOYMENT, "team", "shop")
SHOP: Mapping[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "WebApp",
    "metadata": {"name": "shop", "namespace": "team"},
    "spec": {"image": "registry.example.com/shop:1", "host": "shop.example.com"},
}


AGREES = {"box.vworkspace.io/readers": "registries.example.com"}


_WORLDS = ExitStack()


@pytest.fixture(autouse=True)
def _close_worlds() -> Iterator[None]:
    """Close the worlds that a test opens."""
    with _WORLDS:
        yield


def settled() -> tuple[BoxWorld, ObjectRef]:
    world = _WORLDS.enter_context(BoxWorld(example("webapp")))
    world.create(SHOP, world.box.kind)
    world.settle()
    return world, world.ref(SHOP)


def planned(world: BoxWorld, ref: ObjectRef) -> Any:
    parent = world.get(ref)
    assert parent is not None
    return plan_box(world.box, parent, list(world.children().values()), (), NOW)


def test_a_plan_is_what_the_pass_then_writes_defaults_included() -> None:
    world, ref = settled()
    world.change(ref, {"spec": {"image": "registry.example.com/shop:2", "replicas": 4}})
    found = planned(world, ref)
    (web,) = [obj for obj in found.objects if obj.node == "web"]

    world.reconcile(ref)

    after = shown(WEB, world.get(WEB))
    assert after is not None
    assert canonical_json(web.after) == canonical_json(after)
    assert {(change.path, change.after) for change in web.changes} == {
        ("spec.replicas", 4),
        ("spec.template.spec.containers[0].image", "registry.example.com/shop:2"),
    }
    assert web.after["spec"]["template"]["spec"]["containers"][0]["terminationMessagePolicy"] == "File"


def test_a_settled_object_has_nothing_to_do() -> None:
    found = planned(*settled())

    assert not found.changes
    assert [obj.action for obj in found.objects] == ["-", "-", "-"]
    assert found.ready.startswith("Ready=True")


def test_who_holds_a_field_is_told_with_the_command_that_hands_it_back() -> None:
    world, ref = settled()
    world.change(WEB, {"spec": {"replicas": 7}}, manager="autoscaler")
    found = planned(world, ref)
    (web,) = [obj for obj in found.objects if obj.node == "web"]

    assert (found.refused, web.state) == (1, "Conflict")
    assert "autoscaler" in web.message
    assert "kubectl patch" in web.message


def test_what_an_immutable_field_says_is_the_servers_own_answer() -> None:
    world, ref = settled()
    live = world.get(WEB)
    assert live is not None
    other: Manifest = {**live, "spec": {**live["spec"], "selector": {"matchLabels": {"app": "other"}}}}
    template = {**other["spec"]["template"], "metadata": {"labels": {"app": "other"}}}
    other = {**other, "spec": {**other["spec"], "template": template}}
    parent = world.get(ref)
    assert parent is not None
    box_plan = plan_box(world.box, parent, [other], (), NOW)
    (web,) = [obj for obj in box_plan.objects if obj.node == "web"]

    assert web.state == "Refused"
    assert "immutable" in web.message


@pytest.mark.parametrize("form", ["text", "diff", "yaml", "json"])
def test_no_plan_shows_a_secret(form: str, tmp_path: Path) -> None:
    parent, live = tmp_path / "hub.yaml", tmp_path / "live.yaml"
    spec = {
        "externalURL": "https://hub.example.com",
        "version": "1.0.0",
        "tls": {"secretName": "hub-tls"},
        "components": [{"name": "core", "image": "r/core:1"}],
    }
    hub = {"apiVersion": "example.com/v1", "kind": "Registry", "metadata": {"name": "hub"}, "spec": spec}
    data = {"tls.crt": "c2VjcmV0LTE=", "tls.key": "c2VjcmV0LTI="}
    tls = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hub-tls", "annotations": AGREES},
        "type": "kubernetes.io/tls",
    }
    parent.write_text(yaml.safe_dump(hub), encoding="utf-8")
    live.write_text(yaml.safe_dump({**tls, "data": data}), encoding="utf-8")

    _, text = planned_by(str(BOXES / "registry.yaml"), str(parent), [live], output=form)

    assert "hub-admin" in text
    assert "c2VjcmV0" not in text
    assert ("<generated>" in text) is (form != "text")


def changed_secret() -> BoxPlan:
    """The plan of a box that changes a Secret of which kubectl kept what it had applied."""
    world = _WORLDS.enter_context(BoxWorld(box_of(secret("own", {"key": "${self.spec.image}"}))))
    kind = world.box.kind
    world.create({**kind.manifest("one", "team"), "spec": {"image": "r/x:1", "parts": []}}, kind)
    world.settle()
    (live,) = world.children().values()
    kept = {LAST_APPLIED: '{"data":{"key":"c2VjcmV0LTE="}}'}
    ref = ObjectRef(kind, "team", "one")
    world.change(ref, {"spec": {"image": "r/x:2"}})
    parent = world.get(ref)
    assert parent is not None
    annotations = {**(live["metadata"].get("annotations") or {}), **kept}
    observed = {**live, "metadata": {**live["metadata"], "annotations": annotations}}
    return plan_box(world.box, parent, [observed], (), NOW)


def test_no_plan_shows_what_kubectl_kept_of_a_secret() -> None:
    found = changed_secret()
    lines = [line for obj in found.objects for line in object_lines(obj.object, obj.before, obj.after)]

    assert found.writes["apply"] == 1
    assert lines
    assert "c2VjcmV0" not in "".join(lines)


def test_an_observed_namespace_is_the_one_that_the_plan_sees() -> None:
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "${self.spec.image}"}}
    box = box_of({"id": "a", "template": template, "owner": "Label"}, trustParents=["Namespaces"])
    parent = {**box.kind.manifest("one", "team"), "spec": {"image": "far", "parts": []}}
    own, far = NAMESPACE.manifest("team"), NAMESPACE.manifest("far")
    open_to_team = {**far, "metadata": {**far["metadata"], "annotations": {MARKS.peers: "team"}}}

    assert "apply" not in plan_box(box, parent, [own, far], (), NOW).writes
    assert plan_box(box, parent, [own, open_to_team], (), NOW).writes["apply"] == 1


def test_plans_for_a_whole_cluster_have_the_form_that_is_asked_for() -> None:
    found = PlanAgainst((changed_secret(),), (("Shop team/two", "no API server would hold it"),))

    told = json.loads(against_output(found, "shop.yaml", "json"))
    assert told["writes"] == found.writes
    assert told["refused"] == 0
    assert told["unfit"] == [{"object": "Shop team/two", "message": "no API server would hold it"}]
    assert [each["object"] for each in told["objects"]] == ["Shop team/one"]
    assert yaml.safe_load(against_output(found, "shop.yaml", "yaml")) == told
    diff = against_output(found, "shop.yaml", "diff").splitlines()
    assert diff[:2] == ["--- Secret team/own now", "+++ Secret team/own then"]
    assert diff[-1] == "! Shop team/two has no plan: no API server would hold it"
    assert against_output(found, "shop.yaml", "text").startswith("shop.yaml against 2 objects: ")


def test_observed_objects_are_not_ignored_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    box = str(BOXES / "webapp.yaml")
    words = ["box", "plan", box, "--against", str(tmp_path / "kc"), "--observed", str(tmp_path)]

    assert run_command(words) == 2
    assert "--observed is for --cr: --against reads the objects of the cluster" in capsys.readouterr().err


@pytest.mark.slow
def test_a_held_resource_shows_the_line_of_its_gate() -> None:
    ended = run("box", "plan", str(BOXES / "webapp.yaml"), "--cr", "-", stdin=yaml.safe_dump(dict(SHOP)))

    assert ended.status == 0, ended.err
    held = next(line for line in ended.out.splitlines() if line.split()[0] == "service")
    assert "children.deployment.status.readyReplicas" in held
    assert "webapp.yaml:32" in held


@pytest.mark.slow
def test_the_exit_status_tells_refusals_from_changes_and_from_nothing_to_do(tmp_path: Path) -> None:
    """As those of `kubectl diff`, where all that is not a difference counts as an error (over 1)."""
    world, ref = settled()
    parent, live = tmp_path / "parent.yaml", tmp_path / "live.yaml"

    def status(*words: str) -> int:
        parent.write_text(yaml.safe_dump(world.get(ref)), encoding="utf-8")
        live.write_text(yaml.safe_dump_all(world.children().values()), encoding="utf-8")
        box = str(BOXES / "webapp.yaml")
        return run("box", "plan", box, "--cr", parent, "--observed", live, *words).status

    assert status("--exit-code") == 0
    world.change(ref, {"spec": {"image": "registry.example.com/shop:2"}})
    assert status("--exit-code") == 1
    world.change(WEB, {"spec": {"replicas": 7}}, manager="autoscaler")
    assert (status(), status("--exit-code")) == (0, 2)
    parent.unlink()
    assert run("box", "plan", str(BOXES / "webapp.yaml"), "--cr", parent, "--exit-code").status == 2
