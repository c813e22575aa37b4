"""RUN-12: boxes at work under exactly the roles that `box rbac` prints, and a tenant who writes what it may."""

from collections.abc import Mapping

import pytest

from tests.e2e.test_box_rights import grant
from tests.e2e.test_box_run import SHOP, WEB
from tests.support.box_site import QUICK, BoxSite, example, in_process

FORGED = {
    "kinds that exist nowhere": {"box.vworkspace.io/kinds": "Gizmo/gizmos.v1.tenant.example.com Secret/secrets.v1"},
    "records without an end": {"box.vworkspace.io/created": "[" * 60_000},
}


@pytest.mark.parametrize("annotations", FORGED.values(), ids=FORGED)
def test_a_record_that_a_tenant_writes_is_not_believed_and_keeps_no_parent_RUN_12(
    annotations: Mapping[str, str],
) -> None:
    webapp = example("webapp")

    async def story(site: BoxSite) -> None:
        await site.install(webapp.crd)
        await grant(site, webapp)
        async with site.running(webapp):
            shop = await site.create(webapp.kind, "shop", spec=SHOP)
            await site.until_ready(shop)
            await site.edit(shop, {"metadata": {"annotations": annotations}})
            await site.clock.sleep(5.0)
            await site.edit(shop, {"metadata": {"annotations": annotations}})
            await site.admin.delete(shop)
            await site.until_gone(shop, WEB)

    in_process(story, QUICK, rbac=True)
