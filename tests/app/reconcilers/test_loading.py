"""Controllers by their names: entry points, module:attribute, and what is said of mistakes (PH-7)."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import yaml

from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format
from purekube_run.reconcilers.controller_loading import installed, load_controllers
from vworkspace_app.commands.controllers import (
    controllers_table,
    render_controller_manifests,
    render_crds,
    render_roles,
)
from vworkspace_app.install.options import WebhookTrust
from vworkspace_app.install.roles import RoleOptions

SHOPS = """
import attrs
from purekube.reconcilers import Children, Desired, Object, Feature, Reconciler, Request, Result
from purekube.reconcilers import Watcher, pure_reconciler, resource


@attrs.frozen
class ShopSpec:
    image: str = ""


@attrs.frozen
class ShopStatus:
    ready: int = 0


SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)
Shop = Object[ShopSpec, ShopStatus]


@pure_reconciler(SHOP, owns=["v1/ConfigMap"])
def shop(self: Shop, children: Children) -> Desired[ShopStatus]:
    return Desired([], ShopStatus())


@pure_reconciler(SHOP, owns=[], name="shop")
def second(self: Shop, children: Children) -> Desired[ShopStatus]:
    return Desired([], ShopStatus())


class Audit(Watcher[Shop]):
    kind = SHOP


class Shops(Reconciler[Shop, str]):
    kind = SHOP

    async def reconcile(self, request: Request[Shop, str]) -> Result[str]:
        return Result()


@attrs.frozen
class Needy(Watcher[Shop]):
    kind = SHOP
    service: str


def made(api: object) -> Audit:
    return Audit()


def plain(self: Shop, children: Children) -> Desired[ShopStatus]:
    return Desired([], ShopStatus())


both = [shop, Audit]
nothing = 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Installs a distribution with entry points, and modules, as pip would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)

    def install(name: str, **offered: str) -> Path:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = (f"{one} = {value}" for one, value in offered.items())
        (info / "entry_points.txt").write_text("\n".join(["[vworkspace.controllers]", *lines]))
        return tmp_path

    (tmp_path / "shops.py").write_text(SHOPS)
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found\n")
    yield install
    for name in set(sys.modules) - known:
        if name in ("shops", "broken", "stalls", "booths"):
            del sys.modules[name]


def test_controllers_are_found_by_entry_point_by_module_and_in_lists(package: Callable[..., Path]) -> None:
    package("shops", shop="shops:shop", audit="shops:Audit")

    loaded = load_controllers(["shop", "shops:made"])
    assert loaded.names == ("shop", "audit")
    assert [resource.kind.kind for resource in loaded.resources] == ["Shop"]
    assert [composite.name for composite in loaded.composites] == ["shop"]
    assert load_controllers(["shops:both"]).names == ("shop", "audit")
    assert load_controllers(["audit"]).names == ("audit",)
    assert load_controllers([]).names == ()
    assert [one.name for one in installed()] == ["audit", "shop"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "status", "told"),
    [
        (
            ["shp"],
            2,
            "there is no controller shp (did you mean shop?): installed are audit, broken, shop; in development",
        ),
        (["shops:shp"], 2, "controller shops:shp: shops has no shp; it has shop, second, Audit, Shops, Needy"),
        (["nowhere:shop"], 1, "nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        (
            ["broken"],
            1,
            "controller broken (broken:x): broken cannot be imported: ModuleNotFoundError: No module named 'no",
        ),
        (["shops:plain"], 2, "plain is a function: write @pure_reconciler(…) above it"),
        (["shops:nothing"], 2, "a int is no Reconciler, Watcher or pure reconciler"),
        (["shops:ShopSpec"], 2, "the class ShopSpec is no Reconciler, Watcher or pure reconciler"),
        (
            ["shops:Needy"],
            1,
            "positional argument: 'service'; name a function that returns one with what it needs, as module:function",
        ),
        (["shops:shop", "shops:second"], 2, "two controllers are called shop"),
        (["shop", "shops:shop"], 2, "two controllers are called shop"),
        (
            ["shop", "shops:Shops"],
            2,
            "the controller shop and the controller shops would both write the status of Shop objects",
        ),
    ],
)
def test_what_cannot_be_loaded_is_said_with_what_to_do(
    package: Callable[..., Path], names: list[str], status: int, told: str
) -> None:
    package("shops", shop="shops:shop", audit="shops:Audit", broken="broken:x")

    with pytest.raises(CommandError) as refused:
        load_controllers(names)

    assert told in refused.value.message
    assert refused.value.status == status


def test_two_packages_with_one_name_are_told(package: Callable[..., Path]) -> None:
    package("shops", shop="shops:shop")
    package("more-shops", shop="shops:second")

    with pytest.raises(CommandError, match="shop is offered twice: shops:second of more-shops and shops:shop of shops"):
        load_controllers(["shop"])


def test_crds_roles_and_a_list_are_printed(package: Callable[..., Path]) -> None:
    package("shops", shop="shops:shop", audit="shops:Audit")

    assert "name: shops.example.com" in render_crds(["shop"], Format.YAML)
    roles = render_roles(["shop", "audit"], RoleOptions(tenants=("team",)), Format.YAML)
    assert {"vworkspace-controller-shop", "vworkspace-controller-audit"} <= set(re.findall(r"name: (\S+)", roles))
    assert "'*'" not in roles
    assert controllers_table().splitlines()[1:] == ["audit  shops:Audit  shops 1.0", "shop   shops:shop   shops 1.0"]


def test_two_that_write_conditions_of_one_kind_do_not_run_together(package: Callable[..., Path]) -> None:
    package("shops", shop="shops:shop")
    (shop,) = load_controllers(["shop"]).composites

    with pytest.raises(
        CommandError, match="the controller shop and the box shop would both write the status of Shop objects"
    ):
        refuse_shared_kinds([shop, attrs.evolve(shop, word="box")])
    refuse_shared_kinds([shop])
    with pytest.raises(CommandError, match="would both write the status of Shop objects"):
        refuse_shared_kinds([shop, shop])


def test_a_box_and_a_reconciler_that_makes_calls_do_not_write_conditions_of_one_kind(
    package: Callable[..., Path],
) -> None:
    package("shops", shop="shops:shop", calls="shops:Shops", audit="shops:Audit")
    (shop,), loaded = load_controllers(["shop"]).composites, load_controllers(["calls", "audit"])

    with pytest.raises(CommandError, match="the box shop and the controller shops would both write"):
        refuse_shared_kinds([attrs.evolve(shop, word="box")], loaded.writers)


def test_what_runs_controllers_is_printed_with_one_account_for_all(package: Callable[..., Path]) -> None:
    package("shops", shop="shops:shop", audit="shops:Audit")

    text = render_controller_manifests(["shop", "audit"], "r/shops:1", RoleOptions(), Format.YAML)
    printed = list(yaml.safe_load_all(text))
    (account,) = [one for one in printed if one["kind"] == "ServiceAccount"]
    (deployment,) = [one for one in printed if one["kind"] == "Deployment"]
    subjects = {one["subjects"][0]["name"] for one in printed if one["kind"].endswith("Binding")}
    pod = deployment["spec"]["template"]["spec"]
    assert account["metadata"]["name"] == pod["serviceAccountName"] == "vworkspace-controllers"
    assert subjects == {"vworkspace-controllers"}
    assert pod["containers"][0]["args"][:4] == ["controllers", "run", "shop", "audit"]
    assert deployment["spec"]["replicas"] == 2

    alone = render_controller_manifests(["audit"], "r/shops:1", RoleOptions(elects=False), Format.YAML)
    assert "name: vworkspace-controller-audit" in alone
    assert "leader-elect" not in alone


VERSIONED = """
import attrs
from purekube.reconcilers import Watcher, conversion, resource, versioned


@attrs.frozen
class OldSpec:
    replicas: int = 1


@attrs.frozen
class StallSpec:
    size: int = 1


@attrs.frozen
class StallStatus:
    ready: int = 0


OLD = resource("example.com", "v1alpha1", "Stall", OldSpec, StallStatus)
NEW = resource("example.com", "v1", "Stall", StallSpec, StallStatus)
both_ways = conversion(OLD, NEW, up=lambda old: StallSpec(old.replicas), down=lambda new: OldSpec(new.size))


class Stalls(Watcher):
    kind = versioned(NEW, both_ways)
"""


@pytest.mark.slow
def test_what_serves_several_versions_is_printed_with_all_that_the_definition_names(
    package: Callable[..., Path],
) -> None:
    """PH-8: the definition names a Service; that, its certificate and who serves it are printed beside the rest."""
    (package("shops") / "stalls.py").write_text(VERSIONED)
    options, trust = RoleOptions(), WebhookTrust("vworkspace-system", cert_manager=True)
    with pytest.raises(
        CommandError, match=r"needs a webhook \(conversion of v1alpha1\), which the API server has to trust"
    ):
        render_controller_manifests(["stalls:Stalls"], "r/stalls:1", options, Format.YAML)

    (crd,) = yaml.safe_load_all(render_crds(["stalls:Stalls"], Format.YAML, trust))
    text = render_controller_manifests(["stalls:Stalls"], "r/stalls:1", options, Format.YAML, trust)
    printed = {one["kind"]: one for one in yaml.safe_load_all(text)}

    named = crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    service = printed["Service"]
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == (named["name"], named["namespace"])
    template = printed["Deployment"]["spec"]["template"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    secrets = [volume["secret"]["secretName"] for volume in template["spec"]["volumes"] if "secret" in volume]
    assert secrets == [printed["Certificate"]["spec"]["secretName"]] == ["vworkspace-controller-stalls-webhook-tls"]
    (runs,) = template["spec"]["containers"]
    assert {"--webhook-listen=[::]:9443", "--webhook-certificates=/var/run/vworkspace/webhook-tls"} <= set(runs["args"])


@pytest.mark.slow
def test_two_installations_in_one_namespace_share_no_service(package: Callable[..., Path]) -> None:
    """The second Service took the first one's place: each write of the first kind was refused."""
    folder = package("shops")
    (folder / "stalls.py").write_text(VERSIONED)
    booths = VERSIONED.replace("class Stalls", "class Booths").replace('"Stall"', '"Booth"')
    (folder / "booths.py").write_text(booths)
    trust = WebhookTrust("vworkspace-system", cert_manager=True)

    def printed(*names: str) -> set[tuple[str, str]]:
        text = render_controller_manifests(names, "r/stalls:1", RoleOptions(), Format.YAML, trust)
        return {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(text)}

    assert printed("stalls:Stalls") & printed("booths:Booths") == set()
    both = ("stalls:Stalls", "booths:Booths")
    named = {
        one["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"]
        for one in yaml.safe_load_all(render_crds(both, Format.YAML, trust))
    }
    assert {("Service", name) for name in named} == {one for one in printed(*both) if one[0] == "Service"}


@pytest.mark.slow
def test_two_sets_of_controllers_share_nothing_by_names_of_their_own(package: Callable[..., Path]) -> None:
    """Deployment, Service, account and webhook configuration of the second set took the first one's place."""
    folder = package("shops")
    for name, kind in (("stalls", "Stall"), ("booths", "Booth"), ("carts", "Cart"), ("tents", "Tent")):
        source = VERSIONED.replace("class Stalls", f"class {kind}s").replace('"Stall"', f'"{kind}"')
        (folder / f"{name}.py").write_text(source)
    trust, former, latter = WebhookTrust("vworkspace-system", cert_manager=True), "first", "second"
    first, second = ("stalls:Stalls", "booths:Booths"), ("carts:Carts", "tents:Tents")

    def printed(names: tuple[str, ...], name: str) -> set[tuple[str, str]]:
        text = render_controller_manifests(names, "r/a:1", RoleOptions(), Format.YAML, trust, name)
        return {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(text)}

    assert printed(first, former) & printed(second, latter) == set()
    named = {
        one["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"]
        for one in yaml.safe_load_all(render_crds(first[:1], Format.YAML, trust, former))
    }
    assert {("Service", name) for name in named} == {one for one in printed(first, former) if one[0] == "Service"}
    with pytest.raises(CommandError, match="--name A/b: must be a DNS label"):
        printed(first, "A/b")


def test_the_service_of_a_long_name_is_one_that_an_api_server_takes(package: Callable[..., Path]) -> None:
    """The Service was refused for its 70 characters, and the CRD, which names it, taken: no object could be read."""
    longest = "s" * 40
    source = VERSIONED.replace("    kind = versioned", f'    name = "{longest}"\n    kind = versioned')
    (package("shops") / "longest.py").write_text(source)
    trust = WebhookTrust("vworkspace-system", cert_manager=True)
    (crd,) = yaml.safe_load_all(render_crds(["longest:Stalls"], Format.YAML, trust))
    text = render_controller_manifests(["longest:Stalls"], "r/stalls:1", RoleOptions(), Format.YAML, trust)
    printed = {one["kind"]: one for one in yaml.safe_load_all(text)}
    name = printed["Service"]["metadata"]["name"]
    assert len(name) <= 63
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] == name
    assert crd["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == f"vworkspace-system/{name}"
    assert printed["Certificate"]["metadata"]["name"] == name
