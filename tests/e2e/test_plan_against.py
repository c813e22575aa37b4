"""PH-10: a changed box is judged over every object of a cluster, and nothing is written."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT
from purekube.boxes.box import Box
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.extensions.plan_against import PlanAgainst, plan_against
from tests.support.box_site import NS, QUICK, BoxSite, in_process
from tests.support.boxes import box_of, config, crd, deployment

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
def test_writes_and_refusals_are_counted_over_every_object_and_none_is_made_PH_10() -> None:
    async def story(site: BoxSite) -> None:
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

    in_process(story, QUICK)


def test_the_former_child_of_a_renamed_one_is_told_as_a_delete_afterwards_PH_10() -> None:
    renamed = shops("a", name="${self.metadata.name}-new")

    async def story(site: BoxSite) -> None:
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

    in_process(story, QUICK)


def test_objects_without_a_plan_are_in_the_first_line_too_PH_10() -> None:
    assert PlanAgainst(()).summary == "0 objects: nothing"
    assert PlanAgainst((), (("Shop team/one", "no API server would hold it"),)).summary == "1 object: 1 without a plan"


def test_a_version_that_the_cluster_does_not_serve_yet_is_not_a_cluster_without_objects_PH_10() -> None:
    async def story(site: BoxSite) -> None:
        assert (await plan_against(site.admin, shops("a"), (), NOW)).plans == ()
        await site.install(crd())
        await site.create(shops("a").kind, "one", spec=SPEC)
        newer = attrs.evolve(shops("a").kind, version="v2")
        with pytest.raises(CommandError, match=r"serves shops\.example\.com in v1, not in v2.*apply the CRD first"):
            await plan_against(site.admin, attrs.evolve(shops("a"), kind=newer), (), NOW)

    in_process(story, QUICK)
