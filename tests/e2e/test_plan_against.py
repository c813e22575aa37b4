"""PH-10: a changed box is judged over every object of a cluster, and nothing is written."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.extensions.plan_against import PlanAgainst, plan_against
from tests.support.box_site import NS, QUICK, BoxSite, in_process
from tests.support.boxes import box_of, compile_box, config, crd, deployment, document
from tests.support.run_by import run_by

SPEC = {"image": "r/x:1", "parts": []}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def shops(app: str, *more: Any, name: str = "${self.metadata.name}") -> Box:
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "r/x:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return box_of(deployment("web", name, spec=spec), *more)


async def everything(site: BoxSite) -> list[Manifest]:
    assert site.server is not None
    return [manifest for kind in (shops("a").kind,) for manifest in (await site.admin.list(kind)).items]


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_writes_and_refusals_are_counted_over_every_object_and_none_is_made_PH_10(site: BoxSite) -> None:
    await site.install(crd())
    async with site.running(shops("a")):
        for name in ("one", "two"):
            await site.until_ready(await site.create(shops("a").kind, name, spec=SPEC))
    before = await everything(site)

    same = await plan_against(site.admin, shops("a"), (), NOW)
    assert (len(same.plans), same.writes, same.changed, same.unfit) == (2, {}, (), ())
    wider = await plan_against(site.admin, shops("a", config("settings", "${self.metadata.name}")), (), NOW)
    assert wider.writes == {"annotate": 2, "apply": 2}
    moved = await plan_against(site.admin, shops("b"), (), NOW)
    assert moved.refused == 2
    assert "immutable" in str(moved.changed[0].objects)

    assert await everything(site) == before
    assert (await site.admin.list(CONFIG_MAP, namespace=NS)).items == []


@run_by(in_process, QUICK)
async def test_the_former_child_of_a_renamed_one_is_told_as_a_delete_afterwards_PH_10(site: BoxSite) -> None:
    renamed = shops("a", name="${self.metadata.name}-new")
    await site.install(crd())
    async with site.running(shops("a")):
        await site.until_ready(await site.create(shops("a").kind, "one", spec=SPEC))
    found = await plan_against(site.admin, renamed, (), NOW)
    assert found.writes == {"apply": 1, "delete afterwards": 1}
    gone = [row for row in found.changed[0].objects if row.action == "delete afterwards"]
    assert [(row.object, row.after) for row in gone] == [(f"Deployment {NS}/one", None)]

    async with site.running(renamed):
        await site.until_gone(ObjectRef(DEPLOYMENT, NS, "one"))
    assert (await plan_against(site.admin, renamed, (), NOW)).writes == {}


@run_by(in_process, QUICK)
async def test_objects_of_a_kind_that_a_box_makes_no_more_are_told_as_deletes_PH_10(site: BoxSite) -> None:
    """No file of the changed box tells of the kind; its CRD is read from the cluster."""
    part = crd()
    names = {"plural": "parts", "singular": "part", "kind": "Part", "listKind": "PartList"}
    part = {**part, "metadata": {"name": "parts.example.com"}, "spec": {**part["spec"], "names": names}}
    template = {"apiVersion": "example.com/v1", "kind": "Part", "metadata": {"name": "part"}, "spec": SPEC}
    versions = [CrdVersions.of(crd()), CrdVersions.of(part)]
    resources = ({"id": "part", "template": template, "readiness": "Exists"}, deployment("web"))
    former = compile_box(read_box(document(*resources)), versions[0], Schemas(versions))

    await site.install(crd())
    await site.admin.create(part, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")
    async with site.running(former):
        await site.until_ready(await site.create(former.kind, "one", spec=SPEC))

    found = await plan_against(site.admin, box_of(deployment("web")), (), NOW)

    assert found.unfit == ()
    assert found.writes["delete"] == 1
    gone = [row for row in found.changed[0].objects if row.action == "delete"]
    assert [(row.object, row.after) for row in gone] == [(f"Part {NS}/part", None)]


@run_by(in_process, QUICK)
async def test_a_namespace_that_a_box_does_not_select_gets_nothing_in_the_plan_either_PH_10(site: BoxSite) -> None:
    box = box_of(config("settings", "${self.metadata.name}"), namespaces={"matchLabels": {"shops": "yes"}})
    await site.install(crd())
    await site.create(box.kind, "one", spec=SPEC)
    assert (await plan_against(site.admin, box, (), NOW)).writes == {}

    await site.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"labels": {"shops": "yes"}}})
    assert (await plan_against(site.admin, box, (), NOW)).writes["apply"] == 1


@run_by(in_process, QUICK)
async def test_a_namespace_that_lets_others_in_does_so_in_the_plan_too_PH_10(site: BoxSite) -> None:
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "${self.spec.image}"}}
    box = box_of({"id": "a", "template": template, "owner": "Label"}, trustParents=["Namespaces"])
    await site.install(crd())
    await site.admin.create(NAMESPACE.manifest("far"), kind=NAMESPACE, field_manager="setup")
    await site.create(box.kind, "one", spec={**SPEC, "image": "far"})
    assert "apply" not in (await plan_against(site.admin, box, (), NOW)).writes

    peers = {"metadata": {"annotations": {"box.vworkspace.io/peers": NS}}}
    await site.edit(ObjectRef(NAMESPACE, None, "far"), peers)
    assert (await plan_against(site.admin, box, (), NOW)).writes["apply"] == 1


def test_objects_without_a_plan_are_in_the_first_line_too_PH_10() -> None:
    assert PlanAgainst(()).summary == "0 objects: nothing"
    assert PlanAgainst((), (("Shop team/one", "no API server would hold it"),)).summary == "1 object: 1 without a plan"


@run_by(in_process, QUICK)
async def test_a_version_that_the_cluster_does_not_serve_yet_is_not_a_cluster_without_objects_PH_10(
    site: BoxSite,
) -> None:
    assert (await plan_against(site.admin, shops("a"), (), NOW)).plans == ()
    await site.install(crd())
    await site.create(shops("a").kind, "one", spec=SPEC)
    newer = attrs.evolve(shops("a").kind, version="v2")
    with pytest.raises(CommandError, match=r"serves shops\.example\.com in v1, not in v2.*apply the CRD first"):
        await plan_against(site.admin, attrs.evolve(shops("a"), kind=newer), (), NOW)
