"""Converted boxes pass `box check`, and behave as the authors of their originals meant (PH-6)."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import SERVICE
from purekube.boxes.box import Box
from purekube.boxes.compiler.compile import examine
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube_run.simulation.extensions.box_world import BoxWorld
from vworkspace_app.commands.box.convert import convert_file

HERE = Path(__file__).parent / "convert"


_WORLDS = ExitStack()


@pytest.fixture(autouse=True)
def _close_worlds() -> Iterator[None]:
    """Close the worlds that a test opens."""
    with _WORLDS:
        yield


def box_of(file: str) -> Box:
    """The compiled box of a file; nothing is wrong with it, nothing remarkable, and every type is known."""
    found = {made.name: yaml.safe_load(made.text) for made in convert_file(str(HERE / file)).files}
    crd = CrdVersions.of(found["webapp-crd.yaml"])
    examined = examine(read_box(found["webapp.yaml"]), crd, Schemas([crd]))
    assert (examined.problems, examined.warnings, examined.unchecked, examined.untyped) == ((), (), (), ())
    assert examined.box is not None
    return examined.box


def world(file: str, **spec: Any) -> tuple[BoxWorld, ObjectRef]:
    """A cluster with the box, and one object of its kind."""
    made = _WORLDS.enter_context(BoxWorld(box_of(file)))
    kind = made.box.kind
    made.create({**kind.manifest("shop", "team"), "spec": {"image": "nginx:1", "replicas": 3, **spec}}, kind)
    return made, ObjectRef(kind, "team", "shop")


def applied(world: BoxWorld) -> list[str]:
    return [line.split("apply ", 1)[1] for line in world.timeline if "apply " in line]


def children(world: BoxWorld) -> dict[str, Any]:
    return {ref.kind.kind: manifest for ref, manifest in world.children().items()}


@pytest.mark.slow
@pytest.mark.parametrize("file", ["webapp.katalog.yaml", "webapp.rgd.yaml"])
def test_a_service_comes_once_all_pods_are_ready(file: str) -> None:
    shown, _ = world(file, host="shop.example.test")

    def ready() -> int:
        return int(get_path(children(shown)["Deployment"], "status", "readyReplicas") or 0)

    assert shown.until(lambda: ready() == 2, 60)
    assert "Service" not in children(shown)
    assert shown.until(lambda: "Service" in children(shown), 60)
    assert ready() == 3


@pytest.mark.slow
def test_the_three_phases_of_a_katalog_follow_each_other() -> None:
    shown, shop = world("webapp.katalog.yaml")

    assert shown.until(lambda: condition_of(shown.get(shop), "Ready").get("status") == "True", 600)

    assert applied(shown) == [
        "Deployment team/shop",
        "ConfigMap team/shop-config",
        "Service team/shop-svc",
        "Ingress team/shop-ingress",
    ]
    found = children(shown)
    assert found["ConfigMap"]["data"] == {"greeting": "hello from shop"}
    assert found["Deployment"]["spec"]["replicas"] == 3
    assert found["Service"]["spec"]["selector"] == found["Deployment"]["spec"]["selector"]["matchLabels"]
    assert "host" not in found["Ingress"]["spec"]["rules"][0], "no host was wanted"
    status = (shown.get(shop) or {})["status"]
    address = found["Service"]["status"]["loadBalancer"]["ingress"][0]["ip"]
    assert (status["readyReplicas"], status["address"]) == (3, address)


@pytest.mark.slow
def test_what_a_katalog_reconciles_is_kept_up() -> None:
    shown, _ = world("webapp.katalog.yaml")
    shown.settle()
    config = next(ref for ref in shown.children() if ref.kind.kind == "ConfigMap")

    shown.change(config, {"data": {"greeting": None}})
    shown.settle()
    assert (shown.get(config) or {})["data"] == {"greeting": "hello from shop"}

    shown.delete(config)
    shown.settle()
    assert shown.get(config) is not None


@pytest.mark.slow
def test_a_gate_that_closes_leaves_what_is_there() -> None:
    shown, shop = world("webapp.katalog.yaml")
    shown.settle()

    shown.change(shop, {"spec": {"replicas": 5}})
    shown.run(0)

    assert {"Service", "Ingress"} <= set(children(shown))


@pytest.mark.slow
def test_a_graph_of_kro_includes_what_its_conditions_say() -> None:
    shown, shop = world("webapp.rgd.yaml", host="")
    shown.settle()
    assert sorted(children(shown)) == ["Deployment", "Service"]
    assert condition_of(shown.get(shop), "Ready")["status"] == "True"

    shown.change(shop, {"spec": {"host": "shop.example.test"}})
    shown.settle()
    ingress = children(shown)["Ingress"]
    assert ingress["spec"]["rules"][0]["host"] == "shop.example.test"
    assert ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] == "shop-svc"

    shown.change(shop, {"spec": {"host": ""}})
    shown.settle()
    assert "Ingress" not in children(shown), "false prunes, as it does in kro"
    assert (shown.get(shop) or {})["status"]["readyReplicas"] == 3


def started(folder: Path, schema: dict[str, Any], *resources: dict[str, Any]) -> BoxWorld:
    """A cluster with the box of a definition that checks."""
    spec = {"schema": {"apiVersion": "v1alpha1", "kind": "Shop", **schema}, "resources": list(resources)}
    document = {"kind": "ResourceGraphDefinition", "metadata": {"name": "shop"}, "spec": spec}
    file = folder / "shop.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    files = {made.name: yaml.safe_load(made.text) for made in convert_file(str(file)).files}
    crd = CrdVersions.of(files["shop-crd.yaml"])
    examined = examine(read_box(files["shop.yaml"]), crd, Schemas([crd]))
    assert examined.problems == ()
    assert examined.box is not None
    return _WORLDS.enter_context(BoxWorld(examined.box))


def test_a_definition_without_resources_is_a_kind_whose_objects_are_ready(tmp_path: Path) -> None:
    shown = started(tmp_path, {"spec": {"values": "object | required=true"}})
    kind = shown.box.kind
    shown.create({**kind.manifest("a", "team"), "spec": {"values": {"x": 1}}}, kind)
    shown.settle()

    assert condition_of(shown.get(ObjectRef(kind, "team", "a")), "Ready")["status"] == "True"


def test_two_resources_that_exclude_each_other_take_turns_with_one_object(tmp_path: Path) -> None:
    def config(name: str, include: str) -> dict[str, Any]:
        template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}"}}
        return {"id": name, "includeWhen": [include], "template": {**template, "data": {"by": name}}}

    fields = {"spec": {"own": "boolean | default=true"}}
    shown = started(tmp_path, fields, config("mine", "${schema.spec.own}"), config("theirs", "${ !schema.spec.own }"))
    kind = shown.box.kind
    shown.create({**kind.manifest("a", "team"), "spec": {}}, kind)
    uids = set()
    for own in (True, False, True):
        shown.change(ObjectRef(kind, "team", "a"), {"spec": {"own": own}})
        shown.settle()
        (made,) = shown.children().values()
        assert made["data"] == {"by": "mine" if own else "theirs"}
        uids.add(made["metadata"]["uid"])
    assert len(uids) == 1, "it was deleted and made again"
    assert condition_of(shown.get(ObjectRef(kind, "team", "a")), "Ready")["status"] == "True"


def test_nothing_is_made_of_a_list_while_the_source_of_the_list_is_not_ready(tmp_path: Path) -> None:
    data = {"whole": "${schema.spec.whole}", "zones": "${schema.spec.zones}"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}, "data": data}
    source = {"id": "source", "readyWhen": ["${source.data.whole == 'yes'}"], "template": config}
    template = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "${zone}"},
        "spec": {"ports": [{"port": 1}]},
    }
    zones = {"id": "zones", "forEach": [{"zone": "${source.data.zones.split(',')}"}], "template": template}
    fields = {"whole": "string | required=true", "zones": "string | required=true"}
    shown = started(tmp_path, {"spec": fields}, source, zones)
    kind = shown.box.kind

    def services() -> list[str]:
        shown.settle()
        return sorted(ref.name for ref in shown.children() if ref.kind == SERVICE)

    shown.create({**kind.manifest("a", "team"), "spec": {"whole": "yes", "zones": "a,b"}}, kind)
    assert services() == ["a", "b"]
    shown.change(ObjectRef(kind, "team", "a"), {"spec": {"whole": "no", "zones": "a,c"}})
    assert services() == ["a", "b"], "the list was not complete"
    shown.change(ObjectRef(kind, "team", "a"), {"spec": {"whole": "yes"}})
    assert services() == ["a", "c"]


@pytest.mark.parametrize("asked", [True, False])
def test_a_job_of_a_deletion_runs_where_the_block_says_so_and_nowhere_else(tmp_path: Path, asked: bool) -> None:
    job = {"name": "{{ .metadata.name }}-wipe", "image": "busybox"}
    block = {"when": [{"field": "spec.host", "equals": "wipe.example.test"}], "jobs": [job]}
    (tmp_path / "webapp-crd.yaml").write_bytes((HERE / "webapp-crd.yaml").read_bytes())
    file = tmp_path / "k.yaml"
    document = {"operatorBox": {"crdFile": "webapp-crd.yaml", "onDelete": block}}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    made = convert_file(str(file))
    assert (made.problems, made.refused) == ((), ())
    files = {one.name: yaml.safe_load(one.text) for one in made.files}
    crd = CrdVersions.of(files["webapp-crd.yaml"])
    examined = examine(read_box(files["webapp.yaml"]), crd, Schemas([crd]))
    assert examined.box is not None
    shown = _WORLDS.enter_context(BoxWorld(examined.box))
    kind, host = examined.box.kind, "wipe.example.test" if asked else "shop.example.test"
    shop = ObjectRef(kind, "team", "shop")
    shown.create({**kind.manifest("shop", "team"), "spec": {"image": "nginx:1", "replicas": 3, "host": host}}, kind)
    shown.settle()

    shown.delete(shop)
    shown.settle()

    assert shown.get(shop) is None
    assert ("Job team/shop-wipe" in " ".join(shown.timeline)) is asked
