"""Every request that an object of a box costs the API server on its way to Ready, in order (PH-2, RUN-1)."""

import pytest

from kubelab.access.audit_log import AuditEntry
from kubelab.model.calls import RequestVerb
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import DEPLOYMENT
from purekube_kit.kube_apiserver import OPERATOR_USER
from tests.support.box_site import NS, QUICK, BoxSite, example, in_process
from tests.support.run_by import run_by

SHOP = {"image": "registry.example.com/shop:1", "replicas": 2, "host": "shop.example.com"}
IS_CURRENT = "get webapps"
"""Nothing is written downstream for an old copy, where no write to the parent itself comes first (REC-7)."""
TOLD = "patch webapps status"


def sent(site: BoxSite) -> list[str]:
    """What the operator has asked, watches and Events apart."""
    assert site.server is not None
    entries = site.server.audit.select(lambda entry: entry.user == OPERATOR_USER)
    return [_short(entry) for entry in entries if entry.verb is not RequestVerb.WATCH and "/events" not in entry.path]


def _short(entry: AuditEntry) -> str:
    """Verb, resource and subresource: `patch webapps status`."""
    parts = entry.path.split("/")[3 if entry.path.startswith("/api/") else 4 :]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return " ".join((entry.verb.value, parts[0], *parts[2:]))


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_on_the_way_to_ready_nothing_is_read_from_the_server_but_whether_the_parent_is_current(
    site: BoxSite,
) -> None:
    """Three phases: what is under way is known from watches; it is read anew after five minutes only (D23)."""
    webapp = example("webapp")
    await site.install(webapp.crd)
    async with site.running(webapp, resync=86_400.0):
        assert site.server is not None
        await site.clock.sleep(5)
        site.server.audit.clear()
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
        await site.clock.sleep(5)
        assert sent(site) == [
            "patch webapps",  # the finalizer
            "patch deployments",
            TOLD,
            IS_CURRENT,
            "patch services",
            TOLD,
            IS_CURRENT,
            "patch ingresses",
            TOLD,
            TOLD,
        ]


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_what_waits_for_long_is_read_anew_once_in_five_minutes(site: BoxSite) -> None:
    """Should a cache be wrong, what waits for it would wait for the next full list (D23)."""
    webapp = example("webapp")
    await site.install(webapp.crd)
    async with site.running(webapp, resync=86_400.0):
        assert site.server is not None
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
        web = ObjectRef(DEPLOYMENT, NS, "shop")
        await site.edit(web, {"metadata": {"finalizers": ["tests.example/busy"]}})
        await site.admin.delete(web)
        await site.until_reason(shop, "ResourceNotReady")
        await site.clock.sleep(30)
        site.server.audit.clear()
        await site.clock.sleep(3000)
        reads = [request for request in sent(site) if request.startswith("list deployments")]
        assert len(reads) == 10
