"""PH-7: a pure reconciler at work: in process, over HTTP, and on a kube-apiserver; its roles, and its commands."""

from pathlib import Path
from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, SECRET
from purekube.composites.rights import composite_access
from purekube.reconcilers.decide_pure import composite_of
from tests.e2e.test_box_rights import ROLES, fought_over
from tests.support.audited_story import Remembered
from tests.support.box_site import FACES, NS, QUICK, BoxSite, in_process
from tests.support.commands import Running, call, run
from tests.support.rights import granted, unused, used
from tests.support.run_by import run_by
from tests.support.shop import SHOP, shop
from vworkspace_app.install.roles import RoleOptions, roles_of

COMPOSITE = composite_of(shop)
WEB, LAST = ObjectRef(DEPLOYMENT, NS, "web"), ObjectRef(CONFIG_MAP, NS, "last")
SETTINGS, PASSWORD = ObjectRef(CONFIG_MAP, NS, "settings"), ObjectRef(SECRET, NS, "password")
NAME = "tests.support.shop:shop"
ROOT = str(Path(__file__).parents[2])


@pytest.mark.slow
@pytest.mark.parametrize("face", [pytest.param(face, id=name) for name, face in FACES.items()])
@run_by("face", QUICK)
async def test_a_function_is_kept_up_repaired_restarted_and_taken_down(site: BoxSite) -> None:
    await site.install(SHOP.crd())
    async with site.running(COMPOSITE, resync=86_400.0):
        mine = await site.create(SHOP.kind, "mine", spec={"image": "r/x:1", "replicas": 2, "parts": ["a"]})
        await site.until_ready(mine)
        live = await site.get(mine)
        assert get_path(live, "status", "ready") == 2
        assert get_path(live, "status", "parts") == ["a"]
        await site.edit(LAST, {"data": {"banner": "mine"}}, manager="kubectl")
        await site.until_reason(mine, "FieldConflict")
        await site.admin.delete(LAST)
        await site.until_ready(mine)

        await site.edit(mine, {"spec": {"fails": "raises"}})
        told = await site.until_reason(mine, "ReconcileFailed")
        assert told.startswith("shop: RuntimeError: the shop is closed: None (shop.py:")
        await site.edit(mine, {"spec": {"fails": None, "parts": []}})
        await site.until_gone(ObjectRef(CONFIG_MAP, NS, "part-a"))
        await site.until_ready(mine)

    settled = get_path(await site.get(mine), "metadata", "resourceVersion")
    async with site.running(COMPOSITE, resync=86_400.0) as running:
        await running.wait_ready()
        await site.clock.sleep(0.5)
        assert get_path(await site.get(mine), "metadata", "resourceVersion") == settled
        await site.admin.delete(mine)
        await site.until_gone(mine, WEB, LAST, PASSWORD)


def printed() -> list[dict[str, Any]]:
    options = RoleOptions(account="vworkspace-operator", tenants=(NS,), elects=False)
    return list(roles_of("vworkspace-controller-shop", composite_access(COMPOSITE), (), options))


@pytest.mark.slow
@run_by(in_process, QUICK, rbac=True)
async def test_a_pure_reconciler_has_the_rights_that_it_uses_and_no_other(site: BoxSite) -> None:
    await site.install(SHOP.crd())
    for manifest in printed():
        await site.admin.create(manifest, kind=ROLES[manifest["kind"]], field_manager="setup")
    await site.create(CONFIG_MAP, "sale", data={"text": "half price"})
    async with site.running(COMPOSITE, namespaces=(NS,)):
        mine = await site.create(SHOP.kind, "mine", spec={"banner": "sale"})
        await site.until_ready(mine)
        await fought_over(site, mine, WEB, WEB, SETTINGS)
        await site.admin.delete(mine)
        await site.until_gone(mine, WEB)
        await site.clock.sleep(5.0)
    assert site.server is not None
    rights, needed = set(granted(printed())), set(used(Remembered(site.server.audit).requests()))
    assert [one for one in needed if not any(right.covers(one) for right in rights)] == []
    # A Secret and a Job are made once here; a function may as well apply them.
    assert {(right.verb, right.resource) for right in unused(rights, needed)} <= {
        ("patch", "secrets"),
        ("get", "secrets"),
        ("delete", "jobs"),
        ("get", "jobs"),
        ("patch", "jobs"),
    }


@pytest.mark.slow
def test_the_commands_print_what_a_controller_needs() -> None:
    crds = run("controllers", "crds", NAME, PYTHONPATH=ROOT)
    assert (crds.status, "name: shops.example.com" in crds.out) == (0, True)
    roles = run("controllers", "rbac", NAME, "--namespace", NS, PYTHONPATH=ROOT)
    assert roles.status == 0
    assert "name: vworkspace-controller-shop" in roles.out
    assert "configmaps" in roles.out
    unknown = run("controllers", "run", "nobody")
    assert unknown.status == 2
    assert unknown.problems[0].startswith("error: there is no controller nobody: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("controllers", "run", NAME),
        ("run", "--controllers", NAME, "--no-agent", "--cluster-id", "here"),
    ],
)
def test_controllers_run_alone_and_beside_the_operator(tmp_path: Path, words: tuple[str, ...]) -> None:
    kubeconfig = tmp_path / "kc"
    (tmp_path / "crds.yaml").write_text(run("controllers", "crds", NAME, PYTHONPATH=ROOT).out)
    served = ("cluster", "--kubeconfig-out", kubeconfig, "--simulate", "workloads", "--crds", tmp_path / "crds.yaml")
    with Running(tmp_path / "cluster", *served) as cluster:
        objects = f"{cluster.ready()}/apis/example.com/v1/namespaces/default/shops"
        operator = Running(
            tmp_path / "operator", *words, "--kubeconfig", kubeconfig, "--log-format", "json", PYTHONPATH=ROOT
        )
        with operator:
            call("POST", objects, {**SHOP.kind.manifest("mine"), "spec": {"image": "r/x:1"}})
            operator.until(lambda: is_ready(call("GET", f"{objects}/mine")), "the shop is ready")
            call("DELETE", f"{objects}/mine")
            operator.until(lambda: call("GET", f"{objects}/mine") is None, "the shop is gone")
            assert operator.stop().status == 0


def is_ready(live: Any) -> bool:
    conditions = get_path(live, "status", "conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
