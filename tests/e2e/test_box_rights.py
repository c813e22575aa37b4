"""RUN-7, L25: the verbs that boxes use are the verbs that `box rbac` prints, by the audit log of an API server."""

from collections.abc import Iterable
from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, JOB, RBAC_KINDS, SECRET
from purekube.boxes.box import Box
from purekube.controller.managed_fields import entries
from purekube.ports import PatchType
from purekube_kit.kube_apiserver import OPERATOR_USER
from tests.e2e.test_box_run import AGREES, HUB, INGRESS_OF_SHOP, SHOP, SVC, WEB
from tests.support.audited_story import Remembered
from tests.support.box_site import NS, QUICK, BoxSite, example, in_process
from tests.support.rights import granted, unused, used
from tests.support.run_by import run_by
from vworkspace_app.install.extension_manifests import box_rbac
from vworkspace_app.install.roles import RoleOptions

ROLES = {kind.kind: kind for kind in RBAC_KINDS}


def printed(box: Box) -> list[dict[str, Any]]:
    return list(box_rbac(box, RoleOptions(account="vworkspace-operator", tenants=(NS,), elects=False)))


async def grant(site: BoxSite, box: Box) -> None:
    await grant_all(site, printed(box))


async def set_up(site: BoxSite, box: Box) -> None:
    await site.install(box.crd)
    await grant(site, box)


async def grant_all(site: BoxSite, manifests: Iterable[dict[str, Any]]) -> None:
    for manifest in manifests:
        await site.admin.create(manifest, kind=ROLES[manifest["kind"]], field_manager="setup")


def compare(site: BoxSite, box: Box) -> None:
    assert site.server is not None
    rights, needed = set(granted(printed(box))), set(used(Remembered(site.server.audit).requests()))
    refused = [one for one in needed if not any(right.covers(one) for right in rights)]

    assert refused == []
    assert unused(rights, needed) == set()


async def hand_back(site: BoxSite, ref: ObjectRef, manager: str) -> None:
    """What the message of a conflict says: its entry of managedFields is removed."""
    live = await site.get(ref)
    (index,) = [at for at, one in entries(live) if one["manager"] == manager]
    steps = [{"op": "remove", "path": f"/metadata/managedFields/{index}"}]
    await site.admin.patch(ref, steps, patch_type=PatchType.JSON, field_manager="kubectl")


async def fought_over(site: BoxSite, parent: ObjectRef, *children: ObjectRef) -> None:
    """Somebody takes a label of each child, and hands it back: a conflict is explained by a look at the object."""
    for child in children:
        await site.edit(child, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}, manager="somebody")
        await site.until_reason(parent, "FieldConflict")
        await hand_back(site, child, "somebody")
        await site.until_ready(parent)


@pytest.mark.slow
@run_by(in_process, QUICK, rbac=True)
async def test_a_box_of_three_phases_has_the_rights_that_it_uses_and_no_other(site: BoxSite) -> None:
    webapp = example("webapp")
    await set_up(site, webapp)
    async with site.with_ready(webapp, "shop", SHOP, namespaces=(NS,)) as shop:
        await fought_over(site, shop, WEB, WEB, SVC, INGRESS_OF_SHOP)  # what is told twice is one Event, patched
        await site.admin.delete(shop)
        await site.until_gone(shop, WEB)
        await site.clock.sleep(5.0)
    compare(site, webapp)


@pytest.mark.slow
@run_by(in_process, QUICK, rbac=True)
async def test_a_box_with_secrets_lists_and_a_drain_has_the_rights_that_it_uses(site: BoxSite) -> None:
    registry = example("registry")
    await site.namespace(**{"managed-by": "vworkspace"})
    await set_up(site, registry)
    data = {"tls.crt": "YQ==", "tls.key": "YQ=="}
    await site.edit(await site.create(SECRET, "hub-tls", type="kubernetes.io/tls", data=data), AGREES)
    core = ObjectRef(WEB.kind, NS, "hub-core")
    others = (
        ObjectRef(CONFIG_MAP, NS, "hub-config"),
        ObjectRef(JOB, NS, "hub-migrate-1.2.3"),
        ObjectRef(SVC.kind, NS, "hub-core"),
    )
    async with site.with_ready(registry, "hub", HUB, namespaces=(NS,)) as hub:
        await fought_over(site, hub, core, core, *others)
        await site.admin.delete(hub)
        await site.until_gone(hub, core)
        await site.clock.sleep(5.0)
    compare(site, registry)


@run_by(in_process, QUICK, rbac=True)
async def test_a_missing_right_is_told_with_what_gives_it(site: BoxSite) -> None:
    webapp = example("webapp")
    await site.install(webapp.crd)
    everywhere, binding, role, its_binding = printed(webapp)
    services = {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}
    role["rules"] = [*(rule for rule in role["rules"] if "services" not in rule["resources"]), services]
    for manifest in (everywhere, binding, role, its_binding):
        await site.admin.create(manifest, kind=ROLES[manifest["kind"]], field_manager="setup")
    async with site.running(webapp, namespaces=(NS,)):
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        told = await site.until_reason(shop, "Denied")
        assert "services" in told
        assert told.endswith(
            "To fix: vworkspace-operator box rbac webapp.yaml --namespace team "
            "--service-account vworkspace-operator | kubectl apply --server-side -f -"
        )
        await site.edit(
            ObjectRef(ROLES["Role"], NS, str(metadata(role)["name"])), {"rules": printed(webapp)[2]["rules"]}
        )
        await site.until_ready(shop)


@pytest.mark.parametrize("name", ["webapp", "registry", "chart"])
def test_no_role_holds_a_wildcard(name: str) -> None:
    for manifest in printed(example(name)):
        for rule in manifest.get("rules", ()):
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])


@pytest.mark.parametrize("name", ["webapp", "registry", "chart"])
def test_roles_of_one_tenants_namespace_show_nothing_of_another(name: str) -> None:
    """With `--namespace` the ClusterRole is about the cluster: definitions, Events, and labels of namespaces."""
    rules = [rule for one in printed(example(name)) if one["kind"] == "ClusterRole" for rule in one["rules"]]
    assert {resource for rule in rules for resource in rule["resources"]} <= {
        "customresourcedefinitions",
        "events",
        "namespaces",
    }


@run_by(in_process, QUICK, rbac=True)
async def test_a_box_that_watches_one_tenants_namespace_leaves_others_alone(site: BoxSite) -> None:
    webapp = example("webapp")
    theirs = ObjectRef(webapp.kind, "org-other", "shop")
    await site.namespace("org-other")
    await set_up(site, webapp)
    await site.admin.create(
        {**webapp.kind.manifest("shop", "org-other"), "spec": SHOP}, kind=webapp.kind, field_manager="kubectl"
    )
    async with site.with_ready(webapp, "shop", SHOP, namespaces=(NS,)):
        await site.clock.sleep(120.0)
        assert get_path(await site.get(theirs), "status") is None
    assert site.server is not None
    asked = [request.path for request in Remembered(site.server.audit).requests() if request.user == OPERATOR_USER]
    assert not [path for path in asked if "org-other" in path]
