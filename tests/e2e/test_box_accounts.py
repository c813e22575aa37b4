"""RUN-12: a box that acts as the ServiceAccount of each object makes nothing that this account may not make."""

import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.boxes.box import Box
from purekube_kit.kube_apiserver import OPERATOR_USER
from purekube_run.boxes.load import load_boxes, runnable
from tests.e2e.test_box_rights import ROLES, compare, fought_over, grant_all, set_up
from tests.e2e.test_box_run import SHOP
from tests.support.audited_story import Remembered
from tests.support.box_site import EXAMPLES, NS, QUICK, RIGHTS, BoxSite, in_process
from tests.support.boxes import SPEC, TEXT, box_of, config, crd, examined, told
from tests.support.commands import run
from tests.support.run_by import run_by
from vworkspace_app.install.extension_manifests import account_rbac, box_rbac
from vworkspace_app.install.roles import RoleOptions

on_both = pytest.mark.parametrize("rights", [pytest.param(run, id=name) for name, run in RIGHTS.items()])
"""What is said of roles holds on the embedded API server and on a kube-apiserver."""

KIND: Final = crd({**SPEC, "properties": {**SPEC["properties"], "account": TEXT}})
OWN: Final = config("own", "own-${self.metadata.name}", {"p": "${self.spec.image}"})
NEVER: Final = 86_400.0
"""Seconds between resyncs: in a test nothing comes of them."""


def acting(*resources: dict[str, Any], account: str = "${self.spec.?account.orValue('')}", **spec: Any) -> Box:
    return box_of(*(resources or (OWN,)), kind=KIND, serviceAccountName=account, **spec)


def child(name: str) -> ObjectRef:
    return ObjectRef(CONFIG_MAP, NS, f"own-{name}")


async def grant_account(site: BoxSite, box: Box, name: str) -> None:
    await grant_all(site, account_rbac(box, RoleOptions(NS, name, (NS,))))


async def order(site: BoxSite, box: Box, name: str, account: str | None) -> ObjectRef:
    named = {} if account is None else {"account": account}
    return await site.create(box.kind, name, spec={"image": "i", "parts": [], **named})


async def let_the_operator_do_everything(site: BoxSite, *resources: str) -> None:
    """Give it every right on ConfigMaps, or on these: no right of its own is missing for what does not come about."""
    role = ROLES["ClusterRole"]
    rule = {
        "apiGroups": [""],
        "resources": [*resources] or ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    }
    _, namespace, name = OPERATOR_USER.rsplit(":", 2)
    reference = {"apiGroup": role.group, "kind": "ClusterRole", "name": "mighty"}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    binding = {**ROLES["ClusterRoleBinding"].manifest("mighty"), "roleRef": reference, "subjects": [subject]}
    await grant_all(site, ({**role.manifest("mighty"), "rules": [rule]}, binding))


@on_both
@pytest.mark.slow
@run_by("rights", QUICK)
async def test_a_tenant_whose_account_may_not_write_config_maps_gets_none_although_the_operator_could_RUN_12(
    site: BoxSite,
) -> None:
    box = acting()
    await set_up(site, box)
    await let_the_operator_do_everything(site)
    await grant_account(site, box, "apps")
    async with site.running(box, namespaces=(NS,)):
        await site.until_ready(await order(site, box, "rich", "apps"))
        poor = await order(site, box, "poor", "visitor")
        message = await site.until_reason(poor, "Forbidden", "Stalled")
        assert "ServiceAccount team/visitor may not list configmaps in namespace team" in message
        assert message.endswith(
            "To fix: vworkspace-operator box rbac shop.yaml --for-account team/visitor --namespace team "
            "| kubectl apply --server-side -f -"
        )
        assert await site.get(child("poor")) is None
        await grant_account(site, box, "visitor")
        await site.until_ready(poor)
        assert await site.get(child("poor")) is not None


@pytest.mark.slow
def test_the_command_that_a_status_prints_gives_the_account_what_it_lacks_and_nobody_else_RUN_12(
    tmp_path: Path,
) -> None:
    """Pasted as it stands, beside the file of the box: roles of the account come about, and nothing else changes."""
    text = (EXAMPLES / "webapp.yaml").read_text().replace("\nspec:\n", "\nspec:\n  serviceAccountName: apps\n", 1)
    (tmp_path / "webapp.yaml").write_text(text)
    shutil.copy(EXAMPLES / "webapp-crd.yaml", tmp_path)
    (box,) = runnable(load_boxes([str(tmp_path / "webapp.yaml")]))

    async def story(site: BoxSite) -> None:
        await set_up(site, box)
        async with site.running(box, namespaces=(NS,)):
            shop = await site.create(box.kind, "shop", spec=SHOP)
            message = await site.until_reason(shop, "Forbidden", "Stalled")
            _, _, command = message.partition("To fix: vworkspace-operator ")
            words, _, _ = command.partition(" | kubectl apply --server-side -f -")
            printed = run(*words.replace("webapp.yaml", str(tmp_path / "webapp.yaml")).split(" "))
            assert printed.status == 0, printed.err
            manifests = list(yaml.safe_load_all(printed.out))
            subjects = [subject for manifest in manifests for subject in manifest.get("subjects", ())]
            assert subjects == [{"kind": "ServiceAccount", "name": "apps", "namespace": NS}]
            assert {manifest["metadata"]["namespace"] for manifest in manifests} == {NS}
            await grant_all(site, manifests)
            await site.until_ready(shop)

    in_process(story, QUICK, rbac=True)


@on_both
@pytest.mark.slow
@run_by("rights", QUICK)
async def test_an_account_that_may_look_and_not_write_gets_nothing_and_the_status_names_it_RUN_12(
    site: BoxSite,
) -> None:
    box = acting()
    await set_up(site, box)
    await let_the_operator_do_everything(site)
    for role in account_rbac(box, RoleOptions(NS, "reader", (NS,))):
        looks = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
        await grant_all(site, ({**role, "rules": looks} if role["kind"] == "Role" else role,))
    async with site.running(box, namespaces=(NS,)):
        shop = await order(site, box, "shop", "reader")
        message = await site.until_reason(shop, "Denied")
        assert 'User "system:serviceaccount:team:reader" cannot patch resource "configmaps"' in message
        assert "box rbac shop.yaml --for-account team/reader --namespace team | kubectl" in message
        assert await site.get(child("shop")) is None


@on_both
@pytest.mark.slow
@run_by("rights", QUICK)
async def test_what_an_account_made_is_kept_up_and_removed_as_that_account_without_a_resync(site: BoxSite) -> None:
    """A watch of metadata as the account wakes the object; what it may not delete any more stays and is told."""
    box = acting()
    await set_up(site, box)
    await grant_account(site, box, "apps")
    async with site.running(box, resync=NEVER, namespaces=(NS,)):
        shop = await order(site, box, "shop", "apps")
        await site.until_ready(shop)
        first = await site.until_there(child("shop"))
        await site.admin.delete(child("shop"))

        async def is_another() -> bool:
            live = await site.get(child("shop"))
            return get_path(live, "metadata", "uid") not in (None, get_path(first, "metadata", "uid"))

        await site.until(is_another)
        await site.until_ready(shop)
        await site.admin.delete(shop)
        await site.until_gone(shop, child("shop"))


@on_both
@pytest.mark.slow
@run_by("rights", QUICK)
async def test_without_the_right_to_impersonate_nothing_is_done_and_the_status_says_what_gives_it(
    site: BoxSite,
) -> None:
    box = acting()
    await site.install(box.crd)
    printed = [*box_rbac(box, RoleOptions(account="vworkspace-operator", tenants=(NS,), elects=False))]
    for role in printed:
        rules = [rule for rule in role.get("rules", ()) if rule["verbs"] != ["impersonate"]]
        await grant_all(site, ({**role, "rules": rules} if "rules" in role else role,))
    await grant_account(site, box, "apps")
    async with site.running(box, namespaces=(NS,)):
        shop = await order(site, box, "shop", "apps")
        message = await site.until_reason(shop, "Forbidden", "Stalled")
        assert "the box shop may not impersonate serviceaccounts in namespace team" in message
        assert message.endswith(
            "To fix: vworkspace-operator box rbac shop.yaml --namespace team --service-account vworkspace-operator "
            "| kubectl apply --server-side -f -"
        )
        (role,) = [role for role in printed if role["kind"] == "Role"]
        await site.edit(ObjectRef(ROLES["Role"], NS, role["metadata"]["name"]), {"rules": role["rules"]})
        await site.until_ready(shop)


@run_by(in_process, QUICK, rbac=True)
async def test_an_object_that_names_no_account_is_left_alone_until_it_does(site: BoxSite) -> None:
    box = acting()
    await set_up(site, box)
    await grant_account(site, box, "apps")
    async with site.running(box, namespaces=(NS,)):
        shop = await order(site, box, "shop", None)
        message = await site.until_reason(shop, "NoServiceAccount")
        assert "${self.spec.?account.orValue('')} gives no name of one" in message
        await site.edit(shop, {"spec": {"account": "system:masters\r\nImpersonate-Group: system:masters"}})
        await site.until_reason(shop, "NoServiceAccount")
        await site.edit(shop, {"spec": {"account": "apps"}})
        await site.until_ready(shop)
        await site.edit(shop, {"spec": {"account": None}})
        await site.until_reason(shop, "NoServiceAccount")
        assert await site.get(child("shop")) is not None, "what is not known never removes"


@run_by(in_process, QUICK, rbac=True)
async def test_an_external_is_read_as_the_account_and_wakes_its_reader_without_a_resync(site: BoxSite) -> None:
    reads = {"id": "given", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "given"}}
    box = acting(config("own", "own-${self.metadata.name}", {"p": "${given.data.p}"}), externals=[reads])
    await set_up(site, box)
    await grant_account(site, box, "apps")
    given = await site.create(CONFIG_MAP, "given", data={"p": "one"})
    async with site.running(box, resync=NEVER, namespaces=(NS,)):
        await site.until_ready(await order(site, box, "shop", "apps"))
        await site.edit(given, {"data": {"p": "two"}})

        async def has_followed() -> bool:
            return bool(get_path(await site.get(child("shop")), "data", "p") == "two")

        await site.until(has_followed)
    assert site.server is not None
    of_configs = [request for request in Remembered(site.server.audit).requests() if "configmaps" in request.path]
    assert {request.impersonated for request in of_configs if request.user == OPERATOR_USER} == {
        f"system:serviceaccount:{NS}:apps"
    }


@run_by(in_process, QUICK, rbac=True)
async def test_a_secret_that_the_account_may_not_read_is_read_for_nobody_RUN_12(site: BoxSite) -> None:
    """The operator could: it holds every right on Secrets here."""
    reads = {"id": "tls", "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${self.metadata.name}-tls"}}
    box = acting(config("own", "own-${self.metadata.name}", {"p": "${tls.metadata.name}"}), externals=[reads])
    await set_up(site, box)
    await let_the_operator_do_everything(site, "configmaps", "secrets")
    for role in account_rbac(box, RoleOptions(NS, "apps", (NS,))):
        rules = [rule for rule in role.get("rules", ()) if rule["resources"] != ["secrets"]]
        await grant_all(site, ({**role, "rules": rules} if "rules" in role else role,))
    await site.create(SECRET, "shop-tls", type="Opaque", data={"p": "YQ=="})
    async with site.running(box, namespaces=(NS,)):
        message = await site.until_reason(await order(site, box, "shop", "apps"), "Forbidden", "Stalled")
        assert "ServiceAccount team/apps may not get secrets in namespace team" in message
        assert await site.get(child("shop")) is None


@run_by(in_process, QUICK, rbac=True)
async def test_an_object_goes_once_its_account_may_remove_what_it_made_and_not_before(site: BoxSite) -> None:
    box = acting()
    await set_up(site, box)
    await grant_account(site, box, "apps")
    (role,) = [one for one in account_rbac(box, RoleOptions(NS, "apps", (NS,))) if one["kind"] == "Role"]
    where = ObjectRef(ROLES["Role"], NS, role["metadata"]["name"])
    async with site.running(box, namespaces=(NS,)):
        shop = await order(site, box, "shop", "apps")
        await site.until_ready(shop)
        await site.edit(where, {"rules": []})
        await site.admin.delete(shop)
        message = await site.until_reason(shop, "Forbidden", "Stalled")
        assert "ServiceAccount team/apps may not list configmaps" in message
        await site.clock.sleep(300.0)
        assert await site.get(child("shop")) is not None
        assert await site.get(shop) is not None
        await site.edit(where, {"rules": role["rules"]})
        await site.until_gone(shop, child("shop"))


@pytest.mark.parametrize("account", ["${self.spec.?account.orValue('')}", "apps"])
def test_the_operator_holds_impersonate_and_nothing_on_children_and_the_account_what_it_uses(account: str) -> None:
    box = acting(account=account)

    async def story(site: BoxSite) -> None:
        await set_up(site, box)
        await grant_account(site, box, "apps")
        async with site.running(box, namespaces=(NS,)):
            shop = await order(site, box, "shop", "apps")
            await site.until_ready(shop)
            await fought_over(site, shop, child("shop"), child("shop"))
            await site.admin.delete(shop)
            await site.until_gone(shop, child("shop"))
            await site.clock.sleep(5.0)
        compare(site, box)
        assert site.server is not None
        of_children = [request for request in Remembered(site.server.audit).requests() if "configmaps" in request.path]
        assert {request.impersonated for request in of_children if request.user == OPERATOR_USER} == {
            "system:serviceaccount:team:apps"
        }

    in_process(story, QUICK, rbac=True)
    roles = [one for one in box_rbac(box, RoleOptions(tenants=(NS,))) if one["kind"] == "Role"]
    (rule,) = [rule for role in roles for rule in role["rules"] if rule["verbs"] == ["impersonate"]]
    assert rule.get("resourceNames") == (["apps"] if account == "apps" else None)
    (tenants,) = [one for one in account_rbac(box, RoleOptions(NS, "apps", (NS,))) if one["kind"] == "Role"]
    assert tenants["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]}
    ]


@pytest.mark.slow
@run_by(in_process, QUICK, rbac=True)
async def test_accounts_beyond_the_most_of_a_namespace_take_no_watch_of_others(site: BoxSite) -> None:
    box = acting()
    await set_up(site, box)
    for number in range(12):
        await grant_account(site, box, f"apps-{number}")
    async with site.running(box, namespaces=(NS,)) as running:
        shops = [await order(site, box, f"shop-{number}", f"apps-{number}") for number in range(12)]
        for shop in shops:
            await site.until_ready(shop)
        (one,) = running.extensions.composites
        assert len(one.accounts._scopes) == one.accounts.most == 8
        for shop in shops[:8]:
            await site.admin.delete(shop)
        await site.until_gone(*shops[:8])
        await site.clock.sleep(1.0)
        assert len(one.accounts._scopes) == 4


def test_box_check_says_what_no_account_can_be() -> None:
    assert told(examined(OWN, kind=KIND, serviceAccountName="Not_A_Name")) != []
    assert told(examined(OWN, kind=KIND, serviceAccountName="${self.spec.acount}")) != []
    assert told(examined(OWN, kind=KIND, serviceAccountName="${own.metadata.name}")) != []
    assert told(examined(OWN, kind=KIND, serviceAccountName="apps")) == []
    wide = {**KIND, "spec": {**KIND["spec"], "scope": "Cluster"}}
    assert "has no namespace" in " ".join(told(examined(OWN, kind=wide, serviceAccountName="apps")))
