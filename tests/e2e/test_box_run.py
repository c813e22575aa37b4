"""PH-4, PH-6: boxes at work as `box run` runs them: in process, over HTTP, and on a kube-apiserver."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, INGRESS, JOB, SECRET, SERVICE
from purekube.boxes.box import Box
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube_run.simulation.cluster import plain_definition
from tests.support.box_site import FACES, NS, QUICK, BoxSite, example
from tests.support.boxes import compile_box, config, crd, document
from tests.support.run_by import run_by

WEB = ObjectRef(DEPLOYMENT, NS, "shop")
SVC = ObjectRef(SERVICE, NS, "shop-svc")
INGRESS_OF_SHOP = ObjectRef(INGRESS, NS, "shop-ingress")
SHOP: dict[str, Any] = {"image": "registry.example.com/shop:1", "replicas": 2, "host": "shop.example.com"}
HUB: dict[str, Any] = {
    "externalURL": "https://hub.example.com",
    "version": "1.2.3",
    "tls": {"secretName": "hub-tls"},
    "components": [
        {"name": "core", "image": "registry.example.com/core:1", "replicas": 2},
        {"name": "jobs", "image": "registry.example.com/jobs:1", "replicas": 1},
    ],
}

AGREES: dict[str, Any] = {"metadata": {"annotations": {"box.vworkspace.io/readers": "registries.example.com"}}}
"""What a Secret says that lets objects of the kind Registry name it."""

pytestmark = pytest.mark.parametrize("face", [pytest.param(face, id=name) for name, face in FACES.items()])


@pytest.mark.slow
@run_by("face", QUICK)
async def test_three_phases_open_by_what_children_say_and_close_in_reverse(site: BoxSite) -> None:
    webapp = example("webapp")
    await site.install(webapp.crd)
    async with site.running(webapp, resync=86_400.0):
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
        for ref in (WEB, SVC, INGRESS_OF_SHOP):
            assert await site.get(ref) is not None
        live = await site.get(shop)
        assert get_path(live, "status", "readyReplicas") == 2
        assert str(get_path(live, "status", "address")).startswith("192.0.2.")

        await site.edit(WEB, {"metadata": {"labels": {"box.vworkspace.io/node": None}}})
        await site.until(lambda: has(site, WEB, "web", "metadata", "labels", "box.vworkspace.io/node"))
        was = get_path(await site.get(SVC), "metadata", "uid")
        await site.admin.delete(SVC)
        await site.until(lambda: differs(site, SVC, was, "metadata", "uid"))
        await site.until_ready(shop)

        await site.edit(shop, {"spec": {"host": None}})
        await site.until_gone(INGRESS_OF_SHOP)

        await site.admin.delete(shop)
        await site.until_gone(shop, WEB, SVC)


async def has(site: BoxSite, ref: ObjectRef, value: Any, *path: str) -> bool:
    return bool(get_path(await site.get(ref), *path) == value)


async def differs(site: BoxSite, ref: ObjectRef, value: Any, *path: str) -> bool:
    return get_path(await site.get(ref), *path) not in (None, value)


@pytest.mark.slow
@run_by("face", QUICK)
async def test_a_list_by_key_a_job_and_a_drain_PH_1(site: BoxSite) -> None:
    registry = example("registry")
    core, jobs, more = (ObjectRef(DEPLOYMENT, NS, f"hub-{name}") for name in ("core", "jobs", "more"))
    password, drain = ObjectRef(SECRET, NS, "hub-admin"), ObjectRef(JOB, NS, "hub-drain")
    await site.namespace(**{"managed-by": "vworkspace"})
    await site.install(registry.crd)
    async with site.running(registry, resync=86_400.0):
        hub = await site.create(registry.kind, "hub", spec=HUB)
        assert "hub-tls" in await site.until_reason(hub, "WaitingForExternal")
        assert await site.get(core) is None
        tls = {"tls.crt": "YQ==", "tls.key": "YQ=="}
        secret_of_hub = await site.create(SECRET, "hub-tls", type="kubernetes.io/tls", data=tls)
        await site.edit(hub, {"metadata": {"annotations": {"look": "again"}}})  # a Secret is not watched
        told = await site.until_reason(hub, "Denied")  # a Secret that a parent names has to agree (RUN-12)
        assert "kubectl annotate --overwrite secrets hub-tls -n team" in told
        assert await site.get(core) is None
        await site.edit(secret_of_hub, AGREES)
        await site.edit(hub, {"metadata": {"annotations": {"look": "once more"}}})
        await site.until_ready(hub)
        first = await site.get(core)
        secret = get_path(await site.get(password), "data", "password")

        parts = [HUB["components"][1], HUB["components"][0], {"name": "more", "image": "r/more:1", "replicas": 1}]
        await site.edit(hub, {"spec": {"components": parts}})
        await site.until_there(more)
        await site.until_ready(hub)
        assert get_path(await site.get(core), "metadata", "generation") == get_path(first, "metadata", "generation")

        await site.edit(hub, {"spec": {"components": parts[:2]}})
        await site.until_gone(more)
        assert await site.get(jobs) is not None

        await site.admin.delete(hub)
        await site.until_there(drain)
        await site.until_gone(hub, core, jobs, ObjectRef(CONFIG_MAP, NS, "hub-config"))
        assert get_path(await site.get(password), "data", "password") == secret


@pytest.mark.slow
@run_by("face", QUICK)
async def test_a_restart_writes_nothing_and_takes_another_file_up(site: BoxSite) -> None:
    """What a removed resource has left is pruned, though no kind of the new file is of it."""
    webapp = example("webapp")
    smaller = without_ingress(webapp)
    await site.install(webapp.crd)
    async with site.running(webapp):
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
    before = await versions(site, shop, WEB, SVC, INGRESS_OF_SHOP)
    async with site.running(webapp) as running:
        await site.until(lambda: settled(running))
    assert await versions(site, shop, WEB, SVC, INGRESS_OF_SHOP) == before
    async with site.running(smaller):
        await site.until_gone(INGRESS_OF_SHOP)
        await site.until_ready(shop)
        assert await site.get(SVC) is not None


def without_ingress(box: Box) -> Box:
    nodes = tuple(node for node in box.nodes if node.kind != INGRESS)
    return attrs.evolve(box, nodes=nodes)


async def versions(site: BoxSite, *refs: ObjectRef) -> list[Any]:
    return [get_path(await site.get(ref), "metadata", "resourceVersion") for ref in refs]


async def settled(running: Any) -> bool:
    """The one key has been looked at."""
    (pool,) = running.worker_pools.values()
    return bool(pool.vitals("").unfinished == 0.0 and pool.stats().queue.adds >= 1 and not pool.vitals("").ready)


@pytest.mark.slow
@run_by("face", QUICK)
async def test_what_others_hold_is_told_and_not_fought(site: BoxSite) -> None:
    webapp = example("webapp")
    await site.install(webapp.crd)
    async with site.running(webapp, resync=86_400.0):
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
        await site.edit(WEB, {"spec": {"replicas": 5}}, manager="autoscaler")
        told = await site.until_reason(shop, "FieldConflict")
        assert "autoscaler" in told
        assert ".spec.replicas" in told
        assert (await site.condition(shop, "Stalled"))[0] == "True"
        assert get_path(await site.get(WEB), "spec", "replicas") == 5


@pytest.mark.slow
@run_by("face", QUICK)
async def test_a_name_that_is_taken_stays_untouched(site: BoxSite) -> None:
    webapp = example("webapp")
    await site.install(webapp.crd)
    await site.create(SERVICE, "shop-svc", spec={"ports": [{"port": 1}], "selector": {"app": "other"}})
    async with site.running(webapp, resync=86_400.0):
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        told = await site.until_reason(shop, "NameTaken")
        assert "shop-svc" in told
        assert get_path(await site.get(SVC), "spec", "selector") == {"app": "other"}
        await site.admin.delete(SVC)
        await site.edit(shop, {"metadata": {"annotations": {"look": "again"}}})
        await site.until_ready(shop)


THING = Kind("things.example.com", "v1", "Thing", "things")


@pytest.mark.slow
@run_by("face", QUICK)
async def test_a_kind_that_is_not_installed_holds_its_branch_and_is_noticed_when_it_comes(site: BoxSite) -> None:
    thing = {"apiVersion": "things.example.com/v1", "kind": "Thing", "metadata": {"name": "thing"}}
    known = [CrdVersions.of(crd()), CrdVersions.of(plain_definition(THING))]
    model = read_box(document(config("beside"), {"id": "thing", "template": thing}))
    shop_box = compile_box(model, known[0], Schemas(known))
    beside, held = ObjectRef(CONFIG_MAP, NS, "beside"), ObjectRef(THING, NS, "thing")

    await site.install(shop_box.crd)
    async with site.running(shop_box, resync=86_400.0):
        shop = await site.create(shop_box.kind, "shop", spec={"image": "r/x:1", "parts": []})
        told = await site.until_reason(shop, "MissingKind")
        assert "things.things.example.com" in told
        await site.until_there(beside)
        await site.install(plain_definition(THING))
        await site.until_there(held)


@pytest.mark.slow
@run_by("face", QUICK)
async def test_a_parent_that_comes_again_under_its_name_touches_nothing_of_the_old_one(site: BoxSite) -> None:
    webapp = example("webapp")
    await site.install(webapp.crd)
    async with site.running(webapp):
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
    await site.edit(WEB, {"metadata": {"ownerReferences": None, "finalizers": ["test.example.com/kept"]}})
    await site.admin.delete(shop)  # before the box runs again, or its first pass may own the Deployment once more
    async with site.running(webapp, resync=86_400.0):
        await site.until_gone(shop)
        again = await site.create(webapp.kind, "shop", spec={**SHOP, "image": "registry.example.com/shop:2"})
        await site.until_reason(again, "NameTaken")
        image = get_path(await site.get(WEB), "spec", "template", "spec", "containers", 0, "image")
        assert image == SHOP["image"]
    await site.edit(WEB, {"metadata": {"finalizers": None}})
