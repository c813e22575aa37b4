"""PH-3, RUN-7: a kind that a box does not make any more, under the role that is printed for the box as it is now."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from purekube.apimachinery.manifest import ObjectRef, get_path, metadata
from purekube.boxes.box import Box
from purekube_run.boxes.load import load_boxes, runnable
from tests.e2e.test_box_rights import ROLES, grant
from tests.e2e.test_box_run import INGRESS_OF_SHOP, SHOP, SVC, WEB
from tests.support.box_site import EXAMPLES, NS, QUICK, BoxSite, in_process
from tests.support.commands import run
from tests.support.run_by import run_by

pytestmark = pytest.mark.slow

KUBECTL = " | kubectl apply --server-side -f -"


def without_edge(folder: Path) -> tuple[Path, Box]:
    """The example as somebody writes it who needs no Ingress any more: the only node of that kind is gone."""
    text = (EXAMPLES / "webapp.yaml").read_text()
    (folder / "webapp.yaml").write_text(text[: text.index("    - name: edge")] + text[text.index("  status:") :])
    (folder / "webapp-crd.yaml").write_text((EXAMPLES / "webapp-crd.yaml").read_text())
    (box,) = runnable(load_boxes([str(folder / "webapp.yaml")]))
    return folder / "webapp.yaml", box


def with_edge() -> Box:
    (box,) = runnable(load_boxes([str(EXAMPLES / "webapp.yaml")]))
    return box


async def set_up(site: BoxSite) -> ObjectRef:
    """A shop that the former box has made ready; after it nothing but the roles of the present box is granted."""
    webapp = with_edge()
    await site.install(webapp.crd)
    await grant(site, webapp)
    async with site.running(webapp, namespaces=(NS,)):
        shop = await site.create(webapp.kind, "shop", spec=SHOP)
        await site.until_ready(shop)
    return shop


async def replace_roles(site: BoxSite, box: Box) -> None:
    """What `box rbac … | kubectl apply --server-side` does where a role of the name is there."""
    from tests.e2e.test_box_rights import printed

    for manifest in printed(box):
        meta = metadata(manifest)
        ref = ObjectRef(ROLES[manifest["kind"]], meta.get("namespace"), str(meta["name"]))
        if "rules" in manifest:
            await site.edit(ref, {"rules": manifest["rules"]})


async def paste(site: BoxSite, message: str, file: Path) -> list[dict[str, Any]]:
    """Carry out the command that a condition advises, as it is printed, beside the file of the box."""
    command = message[message.index("vworkspace-operator ") :].removesuffix(KUBECTL)
    assert message.endswith(KUBECTL), message
    words = [str(file) if word == file.name else word for word in shlex.split(command)[1:]]
    ended = run(*words)
    assert ended.status == 0, ended.err
    roles = [one for one in yaml.safe_load_all(ended.out) if one]
    for manifest in roles:
        await site.admin.create(manifest, kind=ROLES[manifest["kind"]], field_manager="kubectl")
    return roles


def verbs(roles: list[dict[str, Any]]) -> list[tuple[str, str, set[str]]]:
    rules = [(role["kind"], rule) for role in roles for rule in role.get("rules", ())]
    return [(kind, rule["resources"][0], set(rule["verbs"])) for kind, rule in rules]


@run_by(in_process, QUICK, rbac=True)
async def test_a_right_that_is_missing_for_a_former_kind_holds_up_the_prune_alone(
    site: BoxSite, *, tmp_path: Path
) -> None:
    file, present = without_edge(tmp_path)
    shop = await set_up(site)
    await replace_roles(site, present)
    async with site.running(present, namespaces=(NS,)):
        await site.edit(shop, {"spec": {"replicas": 3}})
        told = await site.until_reason(shop, "Forbidden", "Stalled")
        await site.until_ready(shop)  # at the generation of the edit
        live = await site.get(shop)
        assert get_path(live, "status", "readyReplicas") == 3
        assert await site.get(INGRESS_OF_SHOP) is not None
        assert "Ingress" in told

        roles = await paste(site, told, file)
        assert verbs(roles) == [("Role", "ingresses", {"list", "patch", "delete"})]
        await site.until_gone(INGRESS_OF_SHOP)
        assert await site.until_reason(shop, "Stable", "Stalled") == ""

        await site.admin.delete(shop)
        await site.until_gone(shop, SVC, WEB)


@run_by(in_process, QUICK, rbac=True)
async def test_roles_with_the_previous_file_let_the_new_box_prune_what_the_former_one_made_RUN_7(
    site: BoxSite, *, tmp_path: Path
) -> None:
    file, present = without_edge(tmp_path)
    command = ("box", "rbac", str(file), "--namespace", NS, "--no-leader-elect")
    account = ("--service-account", "vworkspace-operator")
    alone, both = (run(*command, *account, *more) for more in ((), ("--previous", str(EXAMPLES / "webapp.yaml"))))
    assert (alone.status, both.status) == (0, 0), both.err
    assert both.out.startswith(alone.out)
    former = [one for one in yaml.safe_load_all(both.out.removeprefix(alone.out)) if one]
    assert verbs(former) == [("Role", "ingresses", {"list", "patch", "delete"})]
    assert run(*command, "--previous", str(file)).out == run(*command).out

    shop = await set_up(site)
    await replace_roles(site, present)
    for manifest in former:
        await site.admin.create(manifest, kind=ROLES[manifest["kind"]], field_manager="kubectl")
    async with site.running(present, namespaces=(NS,)):
        await site.edit(shop, {"spec": {"replicas": 3}})
        await site.until_gone(INGRESS_OF_SHOP)
        assert await site.until_reason(shop, "Stable", "Stalled") == ""


@run_by(in_process, QUICK, rbac=True)
async def test_a_deletion_waits_for_what_may_not_be_looked_at_and_says_so_at_its_generation(
    site: BoxSite, *, tmp_path: Path
) -> None:
    file, present = without_edge(tmp_path)
    shop = await set_up(site)
    await replace_roles(site, present)
    async with site.running(present, namespaces=(NS,)):
        await site.admin.delete(shop)
        await site.until_gone(SVC, WEB)
        told = await site.until_reason(shop, "Forbidden", "Stalled")
        assert (await site.condition(shop, "Deleting"))[0] == "True"
        assert await site.get(INGRESS_OF_SHOP) is not None

        await paste(site, told, file)
        await site.until_gone(shop, INGRESS_OF_SHOP)


@run_by(in_process, QUICK, rbac=True)
async def test_an_abandoned_object_is_not_let_go_before_all_that_it_has_may_be_looked_at(
    site: BoxSite, *, tmp_path: Path
) -> None:
    file, present = without_edge(tmp_path)
    shop = await set_up(site)
    await replace_roles(site, present)
    async with site.running(present, namespaces=(NS,)):
        await site.edit(shop, {"metadata": {"annotations": {"vworkspace.io/abandon": "true"}}})
        await site.admin.delete(shop)
        told = await site.until_reason(shop, "Forbidden", "Stalled")
        await paste(site, told, file)
        await site.until_gone(shop)
        for ref in (WEB, SVC, INGRESS_OF_SHOP):
            kept = await site.get(ref)
            assert kept is not None
            assert not metadata(kept).get("ownerReferences")


@pytest.mark.slow
def test_former_takes_kinds_as_the_message_says_them_and_nothing_else(tmp_path: Path) -> None:
    file, _ = without_edge(tmp_path)
    for wrong in ("Ingress", "a b", "Job/jobs.v1.batch Ingress/ingresses.v1.networking.k8s.io"):
        ended = run("box", "rbac", str(file), "--former", wrong)
        assert ended.status == 2
        assert "Job/jobs.v1.batch" in ended.err
