"""PH-10: a box from a file and the same box applied as an object behave alike."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import pytest
import yaml

from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import DEPLOYMENT, JOB, SECRET
from purekube.boxes.box import Box
from purekube.boxes.definition import crd_of
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube_run.boxes.load import load_text, runnable
from tests.e2e.test_box_run import AGREES, HUB, INGRESS_OF_SHOP, SHOP, SVC, WEB
from tests.support.box_site import NS, QUICK, BoxSite, applied_example, example, in_process
from tests.support.run_by import run_by


@asynccontextmanager
async def from_file(site: BoxSite, name: str) -> AsyncIterator[Box]:
    (box,) = runnable([load_text(f"{name}.yaml", yaml.safe_dump(applied_example(name)))])
    await site.install(crd_of(box))
    async with site.running(box):
        yield box


@asynccontextmanager
async def from_object(site: BoxSite, name: str) -> AsyncIterator[Box]:
    await site.install(applied_box_definition())
    async with site.serving():
        ref = await site.apply_box(name, applied_example(name)["spec"])
        await site.until_reason(ref, "Complete", "RolledOut")
        yield example(name)


MADE: Final = ((DEPLOYMENT, "core"), (DEPLOYMENT, "jobs"), (SECRET, "admin"))
Form = Callable[[BoxSite, str], AbstractAsyncContextManager[Box]]
FORMS: Final[dict[str, Form]] = {"file": from_file, "object": from_object}

in_every_form = pytest.mark.parametrize("form", [pytest.param(form, id=name) for name, form in FORMS.items()])


@pytest.mark.slow
@in_every_form
@run_by(in_process, QUICK)
async def test_children_are_made_kept_up_and_removed_alike_PH_10(site: BoxSite, *, form: Form) -> None:
    async with form(site, "webapp") as box:
        shop = await site.create(box.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
        for ref in (WEB, SVC, INGRESS_OF_SHOP):
            assert await site.get(ref) is not None
        await site.edit(shop, {"spec": {"host": None}})
        await site.until_gone(INGRESS_OF_SHOP)
        await site.admin.delete(SVC)
        await site.until_there(SVC)
        await site.edit(WEB, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}, manager="somebody")
        await site.until_reason(shop, "FieldConflict")
        await site.admin.delete(shop)
        await site.until_gone(shop, WEB, SVC)


@pytest.mark.slow
@in_every_form
@run_by(in_process, QUICK)
async def test_lists_drains_and_generated_secrets_work_alike_PH_10(site: BoxSite, *, form: Form) -> None:
    await site.namespace(**{"managed-by": "vworkspace"})
    async with form(site, "registry") as box:
        data = {"tls.crt": "YQ==", "tls.key": "YQ=="}
        await site.edit(await site.create(SECRET, "hub-tls", type="kubernetes.io/tls", data=data), AGREES)
        hub = await site.create(box.kind, "hub", spec=HUB)
        await site.until_ready(hub)
        core, jobs, password = (ObjectRef(kind, NS, f"hub-{name}") for kind, name in MADE)
        secret = get_path(await site.get(password), "data", "password")
        await site.edit(hub, {"spec": {"components": HUB["components"][1:]}})
        await site.until_gone(core)
        await site.admin.delete(hub)
        await site.until_there(ObjectRef(JOB, NS, "hub-drain"))
        await site.until_gone(hub, jobs)
        assert secret
        assert get_path(await site.get(password), "data", "password") == secret
