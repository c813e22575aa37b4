"""PH-9, D24: two controllers for one kind do not fight over its status, in one process or in two."""

import json
import shlex
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import EVENT
from purekube.boxes.decision.decide import composite_of
from purekube.composites.status_writers import StatusWriter
from purekube.ports import PatchType
from purekube.reconcilers import Feature, Object, Reconciler, Request, Result, Watcher, pure_reconciler, resource
from purekube.reconcilers.desired import Children, Desired
from purekube_kit import FakeCluster
from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.process.command_line import CommandError
from tests.e2e.test_box_rights import ROLES, printed
from tests.e2e.test_box_run import SHOP, WEB
from tests.support.box_site import FACES, NS, QUICK, BoxSite, example, in_process
from tests.support.run_by import run_by
from vworkspace_core.api.kinds import OWN_KINDS


async def notes(site: BoxSite, reason: str) -> list[str]:
    return [item["note"] for item in (await site.admin.list(EVENT)).items if item["reason"] == reason]


async def paste(site: BoxSite, note: str, ref: ObjectRef) -> None:
    """Run the `kubectl patch` that an Event ends with."""
    words = shlex.split(note[note.index("kubectl patch ") :])
    await site.admin.patch(ref, json.loads(words[-1]), patch_type=PatchType.JSON, field_manager="kubectl")


@pytest.mark.slow
@pytest.mark.parametrize("face", [pytest.param(face, id=name) for name, face in FACES.items()])
@run_by("face", QUICK)
async def test_a_box_that_was_renamed_leaves_the_objects_of_its_former_name_alone_and_says_so_on_them(
    site: BoxSite,
) -> None:
    webapp = example("webapp")
    renamed = attrs.evolve(webapp, name="storefront")
    await site.install(webapp.crd)
    async with site.with_ready(webapp, "shop", SHOP) as shop:
        pass
    before, web = await site.get(shop), await site.get(WEB)
    async with site.running(renamed):
        await site.until(lambda: notes(site, "StatusHeld"))
        (note,) = await notes(site, "StatusHeld")
        assert note.startswith("the box webapp writes the status of this object, so the box storefront leaves it")
        assert "give it its former name back" in note
        assert (await site.get(shop), await site.get(WEB)) == (before, web)

        await paste(site, note, shop)  # the other one is gone for good
        await site.until(lambda: _has_finalizer(site, shop, "box.vworkspace.io/storefront"))


async def _has_finalizer(site: BoxSite, ref: ObjectRef, name: str) -> bool:
    return name in (get_path(await site.get(ref), "metadata", "finalizers") or ())


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_two_boxes_for_one_kind_in_two_processes_do_not_write_the_same_object(site: BoxSite) -> None:
    webapp = example("webapp")
    second = attrs.evolve(webapp, name="second")
    await site.install(webapp.crd)
    async with site.with_ready(webapp, "shop", SHOP) as shop, site.running(second):
        await site.until(lambda: notes(site, "StatusHeld"))
        await site.edit(shop, {"spec": {"replicas": 3}})
        await site.until_ready(shop)
        before = await site.get(shop)
        await site.clock.sleep(300.0)
        assert await site.get(shop) == before
        assert len(await notes(site, "StatusHeld")) == 1


# --- in one process --------------------------------------------------------------------------------------------------


@attrs.frozen
class ShopSpec:
    """A shop."""

    image: str = "r/x:1"


@attrs.frozen
class ShopStatus:
    """What came of it."""

    remote_id: str = ""


SHOPS = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)
Shop = Object[ShopSpec, ShopStatus]


@pure_reconciler(SHOPS, owns=["v1/ConfigMap"])
def children(self: Shop, children: Children) -> Desired[ShopStatus]:
    return Desired([], ShopStatus())


class Effect(Reconciler[Shop, None]):
    kind = SHOPS

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        return Result(ShopStatus("id-1"))


class Fields(Effect):
    plain = (Feature.CONDITIONS,)


class Silent(Effect):
    plain = (Feature.CONDITIONS, Feature.STATUS)

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        return Result()


class Audit(Watcher[Shop]):
    kind = SHOPS


@pytest.mark.parametrize("second", [Effect, Fields], ids=["conditions", "fields"])
@pytest.mark.parametrize("first", [children, Effect], ids=["pure", "effectful"])
def test_two_reconcilers_that_write_a_status_of_one_kind_are_refused_at_the_start(first: Any, second: Any) -> None:
    second = type("Second", (second,), {})
    with FakeCluster() as cluster, pytest.raises(CommandError, match="would both write the status of Shop objects"):
        cluster.run(first, second)


@pytest.mark.parametrize("second", [Silent, Audit], ids=["silent", "watcher"])
@pytest.mark.parametrize("first", [children, Effect], ids=["pure", "effectful"])
def test_who_writes_no_status_runs_beside_who_does(first: Any, second: Any) -> None:
    with FakeCluster() as cluster:
        cluster.run(first, second)
        cluster.until(cluster.create(SHOPS, "corner"), "Ready", within=60)


def test_a_reconciler_that_says_it_writes_no_status_and_returns_one_is_told_so() -> None:
    class Loud(Effect):
        plain = (Feature.CONDITIONS, Feature.STATUS)

    with FakeCluster() as cluster:
        cluster.run(children, Loud)
        corner = cluster.until(cluster.create(SHOPS, "corner"), "Ready", within=60)
        cluster.after(5)
        assert any("return a Result without one" in event.note for event in cluster.events)
        assert cluster.get(corner).status.remote_id == ""


def test_no_box_is_run_beside_the_operator_for_a_kind_of_the_operator() -> None:
    webapp = composite_of(example("webapp"))
    for kind in OWN_KINDS:
        newer = attrs.evolve(kind, version="v2")
        with pytest.raises(CommandError, match=f"the box webapp and the operator would both write .* {kind.kind}"):
            refuse_shared_kinds([attrs.evolve(webapp, kind=newer)], [StatusWriter(kind, "operator")])


@run_by(in_process, QUICK, rbac=True)
async def test_a_status_that_may_not_be_written_is_told_by_an_event_with_the_role(site: BoxSite) -> None:
    webapp = example("webapp")
    await site.install(webapp.crd)
    for manifest in printed(webapp):
        rules = [rule for rule in manifest.get("rules", ()) if rule["resources"] != ["webapps/status"]]
        allowed = {**manifest, "rules": rules} if "rules" in manifest else manifest
        await site.admin.create(allowed, kind=ROLES[manifest["kind"]], field_manager="setup")
    async with site.running(webapp, namespaces=(NS,)):
        await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until(lambda: notes(site, "StatusNotWritten"))
    (note,) = await notes(site, "StatusNotWritten")
    assert "may not patch webapps.example.com/status in namespace team. To fix: vworkspace-operator" in note
