"""`status` of boxes: their objects in the fleet, and each node with the gate that it waits for (SEE-1, PH-2)."""

import json
from datetime import UTC, datetime
from typing import Any

import attrs
import yaml

from kubelab.downstream import DownstreamBehaviour, WorkloadBehaviour
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.boxes.box import Box
from purekube.boxes.definition import crd_of
from purekube_run.process.yaml_documents import Format
from tests.e2e.test_box_run import SHOP
from tests.e2e.test_pure_reconciler_run import COMPOSITE
from tests.e2e.test_pure_reconciler_run import NAME as PURE
from tests.support.box_site import NS, QUICK, BoxSite, example, in_process
from tests.support.boxes import box_of, config
from tests.support.run_by import run_by
from vworkspace_app.commands.controllers import render_crds
from vworkspace_app.commands.diff import DIFFERS, applied, diff_line, status_of, text
from vworkspace_app.commands.status import list_text, object_text
from vworkspace_app.overview.differences import difference
from vworkspace_app.overview.reading import (
    PermittedReader,
    kinds_by_word,
    kinds_of_boxes,
    read_object_context,
    read_own_objects,
)
from vworkspace_app.overview.text import Screen
from vworkspace_app.verbs import find_named_object
from vworkspace_core.overview.summary import OverviewState

NOW = datetime(2026, 1, 1, 13, tzinfo=UTC)
NEVER = DownstreamBehaviour(workloads=WorkloadBehaviour(ready_seconds=86_400.0))
WEBAPP = example("webapp")
SHOP_SPEC = {"image": "r/x:1", "parts": []}


async def told(site: BoxSite, name: str, box: Box | None) -> dict[str, Any]:
    """What `status NAME -o json` says, with or without the file of the box."""
    words = await kinds_by_word(PermittedReader(site.admin), name.partition("/")[0])
    around = await read_object_context(
        site.admin, *await find_named_object(site.admin, name, None, words), box, now=NOW
    )
    print(object_text(around, None, NOW, screen=Screen(80)))
    found: dict[str, Any] = json.loads(object_text(around, Format.JSON, NOW))
    return found


async def held(site: BoxSite) -> None:
    """An object whose Deployment does not become ready."""
    await site.install(WEBAPP.crd)
    await site.namespace()
    shop = await site.create(WEBAPP.kind, "shop", spec=SHOP)
    await site.until_reason(shop, "ResourceNotReady")


@run_by(in_process, NEVER)
async def test_with_its_file_every_node_is_told_and_the_gate_that_it_waits_for_SEE_1(site: BoxSite) -> None:
    async with site.running(WEBAPP):
        await held(site)
        found = await told(site, "webapp/shop", WEBAPP)
    web, service, ingress = found["children"]
    assert (web["node"], web["kind"], web["state"]) == ("web", "Deployment", "Progressing")
    assert (service["node"], service["state"], service["reason"]) == ("service", "Waiting", "GateClosed")
    assert "children.deployment.status.readyReplicas" in service["message"]
    assert (ingress["state"], ingress["waitsFor"]) == ("Waiting", ["service"])


@run_by(in_process, QUICK)
async def test_a_name_that_another_object_has_is_told_as_the_parent_tells_it_SEE_1(site: BoxSite) -> None:
    box = box_of(config("settings"))
    await site.install(box.crd)
    await site.namespace()
    await site.create(CONFIG_MAP, "settings", data={"whose": "mine"})
    async with site.running(box):
        shop = await site.create(box.kind, "shop", spec=SHOP_SPEC)
        await site.until_reason(shop, "NameTaken")
        found = await told(site, "shop/shop", box)
    (settings,) = found["children"]
    assert (settings["state"], settings["reason"]) == ("Stalled", "NameTaken")
    assert settings["remedies"][0].startswith("kubectl label configmaps settings -n team ")


@run_by(in_process, QUICK)
async def test_a_node_that_differs_from_a_newer_file_is_not_told_as_being_applied_SEE_1(site: BoxSite) -> None:
    box, newer = (box_of(config("settings", data={"v": value})) for value in ("one", "two"))
    await site.install(box.crd)
    await site.namespace()
    async with site.running(box):
        await site.until_ready(await site.create(box.kind, "shop", spec=SHOP_SPEC))
        ((present,), (differing,)) = [(await told(site, "shop/shop", each))["children"] for each in (box, newer)]
    assert (present["state"], present["reason"]) == ("Ready", "Exists")
    assert (differing["state"], differing["reason"]) == ("Waiting", "Differs")
    assert differing["message"] == (
        "it differs from what the file of --box says: if the file is newer than the box at work, apply its "
        "OperatorBox, or start `box run` with it"
    )


@run_by(in_process, NEVER)
async def test_without_a_file_the_fleet_has_its_objects_and_the_tree_what_there_is_SEE_1(site: BoxSite) -> None:
    async with site.running(WEBAPP):
        await held(site)
    kinds = await kinds_of_boxes(PermittedReader(site.admin))
    assert kinds == (WEBAPP.kind,)
    own_objects = await read_own_objects(site.admin, namespace=NS, system_namespace="none", boxes=kinds)
    assert "team       webapp/shop  Progressing" in list_text(own_objects, None, NOW)
    found = await told(site, "webapps/shop", None)
    assert [(each["node"], each["kind"]) for each in found["children"]] == [("web", "Deployment")]
    assert found["state"] == OverviewState.PROGRESSING


def test_the_definition_that_is_printed_carries_the_label_whatever_the_file_says_SEE_1() -> None:
    bare = attrs.evolve(WEBAPP, crd={**WEBAPP.crd, "metadata": {"name": "webapps.example.com", "labels": {"a": "b"}}})
    assert crd_of(bare)["metadata"]["labels"] == {"a": "b", "box.vworkspace.io/name": "webapp"}


@run_by(in_process, NEVER)
async def test_an_object_of_a_box_is_compared_with_what_is_made_of_it_at_once_SEE_2(site: BoxSite) -> None:
    async with site.running(WEBAPP):
        await held(site)
    desired = {**WEBAPP.kind.manifest("shop", NS), "spec": {**SHOP, "image": "registry.example.com/shop:2"}}
    ((kind, manifest, _),) = applied([desired], [WEBAPP.kind])
    found = await difference(site.admin, kind, manifest, NOW, WEBAPP)
    assert {change.ref.kind.kind for change in found.changes if change.before != change.after} == {
        "WebApp",
        "Deployment",
    }
    assert "+        image: registry.example.com/shop:2" in text(found, colour=False)
    assert (status_of(found), diff_line(found).split(";")[0]) == (DIFFERS, "1 apply (Deployment shop), 0 deletes")


@run_by(in_process, QUICK)
async def test_an_object_that_a_changed_box_no_longer_names_counts_as_deleted_afterwards_SEE_2(site: BoxSite) -> None:
    former, kept = config("settings", "${self.metadata.name}-old"), config("other", "${self.metadata.name}-kept")
    box = box_of(former, {**kept, "onDelete": "Orphan"})
    renamed = box_of(config("settings", "${self.metadata.name}-new"))
    await site.install(box.crd)
    await site.namespace()
    async with site.running(box):
        shop = await site.create(box.kind, "shop", spec=SHOP_SPEC)
        await site.until_ready(shop)
    manifest = {**box.kind.manifest("shop", NS), "spec": SHOP_SPEC}
    found = await difference(site.admin, box.kind, manifest, NOW, renamed)
    counts = "1 apply (ConfigMap shop-new), 1 delete afterwards (ConfigMap shop-old)"
    assert diff_line(found).split(";")[0] == counts
    (gone,) = [change for change in found.changes if change.after is None]
    assert gone.ref.name == "shop-old"
    assert "--- ConfigMap team/shop-old now" in text(found, colour=False)


@run_by(in_process, QUICK)
async def test_objects_of_a_pure_reconciler_are_shown_with_their_nodes_SEE_1(site: BoxSite) -> None:
    (definition,) = yaml.safe_load_all(render_crds([PURE], Format.YAML))
    await site.install(definition)
    await site.namespace()
    async with site.running(COMPOSITE):
        await site.until_ready(await site.create(COMPOSITE.kind, "mine", spec={"image": "r/x:1"}))
    assert await kinds_of_boxes(PermittedReader(site.admin)) == (COMPOSITE.kind,)
    found = await told(site, "shop/mine", None)
    assert found["state"] == "Ready"
    assert {("web", "Deployment")} <= {(each["node"], each["kind"]) for each in found["children"]}
