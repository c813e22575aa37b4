"""RUN-12: boxes at work under exactly the roles that `box rbac` prints, and a tenant who writes what it may."""

from collections.abc import Mapping

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE
from tests.e2e.test_box_rights import set_up
from tests.e2e.test_box_run import SHOP, WEB
from tests.property.boxes.test_box_tenants import elsewhere
from tests.support.box_site import NS, QUICK, RIGHTS, BoxSite, example, in_process
from tests.support.boxes import box_of, crd
from tests.support.run_by import run_by

FORGED = {
    "kinds that exist nowhere": {"box.vworkspace.io/kinds": "Gizmo/gizmos.v1.tenant.example.com Secret/secrets.v1"},
    "records without an end": {"box.vworkspace.io/created": "[" * 60_000},
}


@pytest.mark.slow
@pytest.mark.parametrize("annotations", FORGED.values(), ids=FORGED)
@run_by(in_process, QUICK, rbac=True)
async def test_a_record_that_a_tenant_writes_is_not_believed_and_keeps_no_parent_RUN_12(
    site: BoxSite, *, annotations: Mapping[str, str]
) -> None:
    webapp = example("webapp")
    await set_up(site, webapp)
    async with site.with_ready(webapp, "shop", SHOP, namespaces=(NS,)) as shop:
        await site.edit(shop, {"metadata": {"annotations": annotations}})
        await site.clock.sleep(5.0)
        await site.edit(shop, {"metadata": {"annotations": annotations}})
        await site.admin.delete(shop)
        await site.until_gone(shop, WEB)


@pytest.mark.parametrize("rights", [pytest.param(run, id=name) for name, run in RIGHTS.items()])
@run_by("rights", QUICK)
async def test_another_tenants_namespace_is_entered_with_its_leave_alone_RUN_12(site: BoxSite) -> None:
    """A namespace that an expression works out has to name the parent's among its peers; taken back, all stays."""
    box = box_of(elsewhere("${self.metadata.namespace + '-jobs'}"), kind=crd())
    made = ObjectRef(CONFIG_MAP, f"{NS}-jobs", "a")
    jobs = ObjectRef(NAMESPACE, None, f"{NS}-jobs")
    await site.namespace(f"{NS}-jobs")
    await set_up(site, box)
    async with site.running(box, resync=86_400.0, namespaces=(NS,)):
        shop = await site.create(box.kind, "shop", spec={"image": "i", "parts": []})
        told = await site.until_reason(shop, "Denied")
        assert "kubectl annotate --overwrite namespaces team-jobs box.vworkspace.io/peers=team" in told
        assert await site.get(made) is None

        await site.edit(jobs, {"metadata": {"annotations": {"box.vworkspace.io/peers": f"other,{NS}"}}})
        await site.until_ready(shop)
        assert await site.get(made) is not None

        await site.edit(jobs, {"metadata": {"annotations": {"box.vworkspace.io/peers": None}}})
        await site.until_reason(shop, "Denied")
        assert await site.get(made) is not None, "what is unknown or refused never removes"
        await site.admin.delete(shop)
        await site.until_gone(shop, made)
