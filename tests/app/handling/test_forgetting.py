"""Objects of a controller that will not run again: they can be deleted, and others' finalizers stay (PH-7, trap 6)."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kubelab.http.serving import kubeconfig
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.reconcilers import Object, Reconciler, Request, Result, Watcher
from purekube_run.reconcilers.passes import rules_of
from tests.support.commands import run
from tests.support.controller_site import SHOP, ControllerSite, ShopSpec, ShopStatus, play
from tests.support.server_thread import served, wall_clock
from vworkspace_app.verbs import Forgetting, Held

Shop = Object[ShopSpec, ShopStatus]
ROOT = Path(__file__).parents[3]
WEBAPP = Kind("example.com", "v1", "WebApp", "webapps")


@attrs.frozen
class Shops(Reconciler[Shop, None]):
    kind = SHOP

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        return Result()


@attrs.frozen
class Audit(Watcher[Shop]):
    kind = SHOP


def held(controller: Any) -> Held:
    rules = rules_of(controller)
    return Held(SHOP.kind, (rules.begun, rules.kept), "controller")


def test_what_a_controller_held_goes_once_it_is_forgotten() -> None:
    async def story(site: ControllerSite) -> None:
        async with site.running(Shops(), Audit()):
            ref, other = await site.create("one"), await site.create("two")
            await site.clock.sleep(5)
        await site.admin.delete(ref)
        await site.clock.sleep(60)
        assert len(await site.finalizers(ref)) == 2

        told: list[str] = []
        assert await Forgetting(site.admin, told.append, dry_run=True).run(held(Shops())) == 2
        assert len(await site.finalizers(ref)) == 2
        assert told == [
            "Shop team/one: would be free of the controller",
            "Shop team/two: would be free of the controller",
        ]

        assert await Forgetting(site.admin, told.append).run(held(Shops())) == 2
        assert [len(await site.finalizers(one)) for one in (ref, other)] == [1, 1]
        await Forgetting(site.admin, told.append).run(held(Audit()))
        assert await site.get(ref) is None
        assert await site.finalizers(other) == ()
        assert await Forgetting(site.admin, told.append).run(held(Audit())) == 0

    play(story)


@pytest.mark.slow
def test_the_command_frees_the_objects_of_a_box(tmp_path: Path) -> None:
    server = ApiServer(now=wall_clock)
    api = InProcessKube(server)
    finalizers = ["box.vworkspace.io/webapp", "tests.example/other"]
    definition = yaml.safe_load((ROOT / "examples/boxes/webapp-crd.yaml").read_text(encoding="utf-8"))
    run_sync(api.create(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup"))
    manifest = {**WEBAPP.manifest("shop", "default"), "spec": {"image": "web:1", "replicas": 1}}
    manifest["metadata"]["finalizers"] = finalizers
    run_sync(api.create(manifest, kind=WEBAPP, field_manager="setup"))
    with served(server) as url:
        (tmp_path / "kc").write_text(json.dumps(kubeconfig(url, None)))
        words = (ROOT / "examples/boxes/webapp.yaml", "--kubeconfig", tmp_path / "kc")
        dry, done, again = (run("box", "forget", *words, *more) for more in (["--dry-run"], [], []))

    assert [dry.out, done.out, again.out] == [
        "WebApp default/shop: would be free of the box webapp\n",
        "WebApp default/shop: free of the box webapp\n",
        "the box webapp holds no WebApp\n",
    ], (dry, done, again)
    (live,) = run_sync(api.list(WEBAPP)).items
    assert get_path(live, "metadata", "finalizers") == ["tests.example/other"]
