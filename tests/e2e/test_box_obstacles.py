"""PH-2, PH-6, REC-8: what stands in a box's way is told with what helps, and goes on as soon as it is gone."""

import json
import shlex
from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT
from purekube.boxes.box import MARKS
from purekube.boxes.decision.decide import composite_of
from purekube.composites.observe import observe_live
from purekube.ports import PatchType
from tests.support.box_site import NS, QUICK, BoxSite, in_process
from tests.support.boxes import box_of, config, crd, deployment
from tests.support.run_by import run_by
from vworkspace_core.overview.box_tree import tree_of_box
from vworkspace_core.overview.remedy import commands_in
from vworkspace_core.overview.summary import OverviewState

BOX = box_of(
    deployment("web", spec={"replicas": "${self.spec.replicas}"}),
    config("beside", data={"image": "${self.spec.image}"}),
    config("behind", dependsOn=["web"]),
    kind=crd(),
)
SPEC: dict[str, Any] = {"image": "r/x:1", "replicas": 2, "parts": []}
WEB = ObjectRef(DEPLOYMENT, NS, "web")
BESIDE, BEHIND = (ObjectRef(CONFIG_MAP, NS, name) for name in ("beside", "behind"))
DAY = 86_400.0


async def make(site: BoxSite) -> ObjectRef:
    await site.install(crd())
    return await site.create(BOX.kind, "shop", spec=SPEC)


async def paste(site: BoxSite, message: str, ref: ObjectRef) -> None:
    """Run the `kubectl patch` that a condition names."""
    (command,) = commands_in(message)
    words = shlex.split(command)
    assert words[:2] == ["kubectl", "patch"]
    steps = json.loads(words[-1])
    await site.admin.patch(ref, steps, patch_type=PatchType.JSON, field_manager="kubectl")


@run_by(in_process, QUICK)
async def test_a_name_that_comes_free_wakes_the_object_that_waits_for_it(site: BoxSite) -> None:
    await site.create(CONFIG_MAP, "beside", data={"whose": "mine"})
    shop = await make(site)
    async with site.running(BOX, resync=DAY):
        await site.until_reason(shop, "NameTaken")
        await site.clock.sleep(600.0)
        before = site.clock.monotonic()
        await site.admin.delete(BESIDE)
        await site.until_ready(shop)
        assert site.clock.monotonic() - before < 2.0


@run_by(in_process, QUICK)
async def test_an_object_that_is_labelled_to_be_taken_over_wakes_the_object_that_waits_for_it(site: BoxSite) -> None:
    await site.create(CONFIG_MAP, "beside", data={"whose": "mine"})
    shop = await make(site)
    async with site.running(BOX, resync=DAY):
        told = await site.until_reason(shop, "NameTaken")
        uid = str(metadata(await site.get(shop) or {})["uid"])
        assert told.endswith(f"kubectl label configmaps beside -n {NS} {MARKS.owner_uid}={uid}")
        await site.clock.sleep(600.0)
        before = site.clock.monotonic()
        await site.edit(BESIDE, {"metadata": {"labels": {MARKS.owner_uid: uid}}})
        await site.until_ready(shop)
        assert site.clock.monotonic() - before < 2.0


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_an_object_that_somebody_scaled_can_be_handed_back_and_holds_up_nothing_that_is_there(
    site: BoxSite,
) -> None:
    shop = await make(site)
    async with site.running(BOX, resync=DAY):
        await site.until_ready(shop)
        scaled = {"spec": {"replicas": 5}}
        await site.admin.patch(WEB, scaled, patch_type=PatchType.MERGE, field_manager="kubectl", subresource="scale")
        told = await site.until_reason(shop, "FieldConflict")
        assert 'field manager "kubectl" holds .spec.replicas' in told

        await site.clock.sleep(5.0)  # five pods are ready
        assert await _overview(site, shop, "web") == (OverviewState.STALLED, "FieldConflict", "kubectl patch")
        await site.admin.delete(BEHIND)
        await site.until_there(BEHIND)

        await site.edit(BESIDE, {"data": {"image": "mine"}})
        await site.until(lambda: _names(site, shop, "ConfigMap team/beside (Conflict)"))

        await paste(site, told, WEB)
        await paste(site, await _told_of(site, shop, "beside"), BESIDE)
        await site.until_ready(shop)
        assert get_path(await site.get(WEB), "spec", "replicas") == 2


async def _overview(site: BoxSite, shop: ObjectRef, node: str) -> tuple[str, str, str]:
    """What `status --box` says of a node, and the beginning of what helps."""
    manifest = await site.get(shop) or {}
    observed = await observe_live(site.admin, composite_of(BOX), composite_of(BOX).read(manifest))
    tree = tree_of_box(BOX, manifest, observed, site.clock.now())
    (found,) = [branch.summary for branch in tree.children if branch.node == node]
    assert found.remedies
    return found.state, found.reason, found.remedies[0][:13]


async def _names(site: BoxSite, ref: ObjectRef, text: str) -> bool:
    return text in (await site.condition(ref))[2]


async def _told_of(site: BoxSite, ref: ObjectRef, name: str) -> str:
    """The message of Ready, once the object of that name is the first in the way."""

    async def is_first() -> bool:
        return f"/{name}:" in (await site.condition(ref))[2].partition(" ")[2].partition(" ")[0] + ":"

    await site.until(is_first)
    return (await site.condition(ref))[2]


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_what_stands_behind_a_conflict_waits_where_something_is_left_to_be_applied(site: BoxSite) -> None:
    shop = await make(site)
    async with site.running(BOX, resync=DAY):
        await site.until_ready(shop)
        await site.edit(WEB, {"spec": {"replicas": 5}})
        await site.until_reason(shop, "FieldConflict")
        await site.edit(shop, {"spec": {"image": "r/x:2"}})
        await site.until_reason(shop, "FieldConflict")
        await site.admin.delete(BEHIND)
        await site.clock.sleep(120.0)
        assert await site.get(BEHIND) is None


@pytest.mark.parametrize("free", [{"x": "text"}, {"x": [1]}])
@run_by(in_process, QUICK)
async def test_a_status_field_of_the_wrong_type_is_reported_once_and_not_tried_again_PH_2(
    site: BoxSite, *, free: dict[str, Any]
) -> None:
    field = "${has(self.spec.free) ? self.spec.free.x : dyn(0)}"
    status = {"fields": {"ready": field, "address": "${self.spec.image}"}}
    box = box_of(config("beside", data={"image": "${self.spec.image}"}), status=status)
    assert site.server is not None
    await site.install(crd())
    shop = await site.create(box.kind, "shop", spec={**SPEC, "free": free})
    async with site.running(box, resync=DAY):
        told = await site.until_reason(shop, "ExpressionFailed", "Stalled")
        assert "spec.status.fields.ready: " in told
        assert "must be of type integer" in told
        assert get_path(await site.get(shop), "status", "address") == "r/x:1", "the other fields are there"
        before = len(site.server.audit.writes())
        await site.clock.sleep(600.0)
        assert len(site.server.audit.writes()) == before, "only a change helps"

        await site.edit(shop, {"spec": {"free": {"x": 3}}})
        await site.until_ready(shop)
        assert get_path(await site.get(shop), "status", "ready") == 3
