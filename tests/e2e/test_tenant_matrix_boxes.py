"""RUN-12: what boxes make for a tenant under exactly the roles that `box rbac` prints is nothing beyond that tenant.

One parent for each field of the CRD, each label and annotation, with what a hostile tenant would write there; then
everything that is in the cluster is looked at. Boxes are those of examples/boxes, and drawn ones.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelab.flux import flux_crds
from purekube.apimachinery.errors import Invalid, KindMissing, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.boxes.box import Box
from purekube.boxes.model import Power
from purekube_run.boxes.load import load_text, runnable
from tests.e2e.test_box_rights import grant, grant_all
from tests.property.boxes.test_box_tenants import ACCEPTED, ATOMS, EXPRESSIONS, FORMS, HOLES, elsewhere, found_in, pod
from tests.support.box_site import EXAMPLES, NS, QUICK, RIGHTS, BoxSite, Limited, example, in_process
from tests.support.boxes import config
from tests.support.effort import effort
from tests.support.run_by import run_by
from tests.support.tenant_matrix import ADMIN, VICTIM, attempts_of, box_annotated, held_beyond
from vworkspace_app.install.extension_manifests import account_rbac
from vworkspace_app.install.roles import RoleOptions

on_both = pytest.mark.parametrize("rights", [pytest.param(run, id=name) for name, run in RIGHTS.items()])

LOOT: Final = "dG9wLXNlY3JldA=="
GOOD: Final[Mapping[str, Mapping[str, Any]]] = {
    "webapp": {"image": "registry.example.com/shop:1", "replicas": 1, "host": "shop.example.com"},
    "registry": {
        "externalURL": "https://hub.example.com",
        "version": "1.2.3",
        "tls": {"secretName": "given"},
        "components": [{"name": "core", "image": "registry.example.com/core:1", "replicas": 1}],
    },
    "chart": {
        "chart": {"sourceType": "oci", "url": "oci://registry.example.com/charts", "name": "blog", "version": "1.0.0"},
        "release": {"name": "blog"},
    },
}
"""A spec for each example."""


def specs_of(box: Box, good: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a parent for each place that a tenant may write, the first being a good one."""
    manifest = {**box.kind.manifest("good", NS), "spec": good}
    schema = box.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    tried = [manifest, *(one for _, one in (*attempts_of(manifest, schema), *box_annotated(manifest)))]
    for number, one in enumerate(tried):
        yield {**one, "metadata": {**one["metadata"], "name": f"try-{number}"}}


async def prepare(site: BoxSite, box: Box) -> None:
    """Set up the tenant's namespace and another's, each with Secrets that have agreed to nothing."""
    await site.namespace(**{"managed-by": "vworkspace"})
    await site.namespace(VICTIM)
    await site.install(box.crd, *(flux_crds() if any("fluxcd" in kind.group for kind in box.child_kinds) else ()))
    await grant(site, box)
    for namespace in (NS, VICTIM):
        for name in (VICTIM, ADMIN, "given"):
            agrees = {"box.vworkspace.io/readers": box.kind.crd_name} if (namespace, name) == (NS, "given") else {}
            meta = {"name": name, "namespace": namespace, "annotations": agrees}
            data = {"tls.crt": LOOT, "tls.key": LOOT}
            made = {**SECRET.manifest(name, namespace), "metadata": meta, "type": "kubernetes.io/tls", "data": data}
            await site.admin.create(made, kind=SECRET, field_manager="setup")


async def outcome(site: BoxSite, box: Box, parents: Iterator[dict[str, Any]]) -> list[str]:
    """Return what the box has made that is beyond the tenant; a parent that the server refuses comes to nothing."""
    refs = []
    for manifest in parents:
        try:
            await site.admin.create(manifest, kind=box.kind, field_manager="kubectl")
        except Invalid:
            continue
        refs.append(ObjectRef(box.kind, NS, manifest["metadata"]["name"]))
    assert refs, "the server takes some of them"

    async def have_a_word() -> bool:
        live = [await site.get(ref) for ref in refs]
        return all(get_path(one, "status", "conditions") for one in live)

    await site.until(have_a_word)
    await site.clock.sleep(2.0)
    return [line for kind in box.child_kinds for one in await all_of(site, kind) for line in judged(box, kind, one)]


async def all_of(site: BoxSite, kind: Kind) -> list[Manifest]:
    while True:
        try:
            return list((await site.admin.list(kind)).items)
        except KindMissing:
            return []
        except Unavailable:  # a kube-apiserver prepares the storage of a kind that nobody has asked for yet
            await site.clock.sleep(0.1)


def managers_of(live: Manifest) -> set[str]:
    return {get_path(entry, "manager") for entry in get_path(live, "metadata", "managedFields") or ()}


def judged(box: Box, kind: Kind, live: Manifest) -> list[str]:
    if box.field_manager not in managers_of(live):
        return []
    secrets = Power.SECRETS not in box.model.spec.trust_parents
    found = held_beyond(live, NS, {"vworkspace-release", "runner"}, secrets=secrets)
    told = [] if kind == SECRET or LOOT not in str(live) else ["data of a Secret"]
    return [f"{kind.kind} {metadata(live)['name']}: {line}" for line in (*found, *told)]


@on_both
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GOOD))
@run_by("rights", QUICK)
async def test_no_example_of_a_box_does_for_a_tenant_what_the_tenant_could_not_RUN_12(
    site: BoxSite, *, name: str
) -> None:
    box = example(name)
    await prepare(site, box)
    async with site.running(box, namespaces=(NS,)):
        assert await outcome(site, box, specs_of(box, GOOD[name])) == []


@on_both
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GOOD))
@run_by("rights", QUICK)
async def test_no_example_that_acts_as_an_account_does_for_a_tenant_what_that_could_not_RUN_12(
    site: BoxSite, *, name: str
) -> None:
    """The operator may impersonate and nothing else; what comes about is what the tenant's account may make."""
    box = acting(name)
    await prepare(site, box)
    await grant_all(site, account_rbac(box, RoleOptions(NS, "apps", (NS,))))
    async with site.running(box, namespaces=(NS,)):
        assert await outcome(site, box, specs_of(box, GOOD[name])) == []
        assert await made(site, box) != []


@on_both
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GOOD))
@run_by("rights", QUICK)
async def test_an_example_makes_nothing_for_a_tenant_whose_account_may_nothing_RUN_12(
    site: BoxSite, *, name: str
) -> None:
    box = acting(name)
    await prepare(site, box)
    async with site.running(box, namespaces=(NS,)):
        assert await outcome(site, box, specs_of(box, GOOD[name])) == []
        assert await made(site, box) == []


def acting(name: str) -> Box:
    """Return the box of an example that acts as the ServiceAccount `apps` of its objects' namespaces."""
    file = EXAMPLES / f"{name}.yaml"
    text = file.read_text().replace("\nspec:\n", "\nspec:\n  serviceAccountName: apps\n", 1)
    (box,) = runnable([load_text(str(file), text)])
    assert box.account is not None
    return box


async def made(site: BoxSite, box: Box) -> list[str]:
    """Return the names of everything that the box has made."""
    found = [one for kind in box.child_kinds for one in await all_of(site, kind)]
    return [str(metadata(one)["name"]) for one in found if box.field_manager in managers_of(one)]


@pytest.mark.slow
def test_the_matrix_sees_what_a_box_does_for_a_tenant_whom_it_trusts() -> None:
    """Nothing found is worth something: a box that trusts its parents is found at each of these places."""
    trusting = [
        pod(serviceAccountName="${self.spec.image}"),
        elsewhere("${self.spec.image}", "x-${self.metadata.name}"),
    ]
    for one in trusting:
        one["template"]["metadata"]["name"] = f"{one['id']}-${{self.metadata.name}}"
    mounts = pod(volumes=[{"name": "v", "secret": {"secretName": "${self.spec.image}"}}])
    mounts["template"]["metadata"]["name"] = "m-${self.metadata.name}"
    box = found_in(*trusting, {**mounts, "id": "m"}, trustParents=["Accounts", "Namespaces", "Names", "Secrets"]).box
    assert box is not None
    seen = attrs.evolve(box, model=attrs.evolve(box.model, spec=attrs.evolve(box.model.spec, trust_parents=())))

    async def story(site: BoxSite) -> None:
        await prepare(site, seen)
        meta = {"metadata": {"annotations": {"box.vworkspace.io/peers": NS}}}
        await site.edit(ObjectRef(NAMESPACE, None, VICTIM), meta)
        async with site.running(seen, namespaces=(NS,)):
            found = " ".join(await outcome(site, seen, specs_of(seen, SHOP)))
            assert f".serviceAccountName {ADMIN}" in found
            assert f"in namespace {VICTIM}" in found
            assert f".secretName {VICTIM}" in found

    in_process(story, QUICK, rbac=True)


SHOP: Final = {"image": "i", "parts": [{"name": "a"}], "replicas": 1, "host": "h", "free": {"a": "b"}}


def drawn(texts: list[tuple[str, str]]) -> Box | None:
    """Return a box with an expression at each of these places, as far as `box check` lets it through."""
    made = []
    for number, (hole, text) in enumerate(texts):
        one = HOLES[hole](f"${{{text}}}")
        one = {**one, "id": f"x{number}"}
        if hole != "cluster":
            one["template"]["metadata"]["name"] = f"x{number}-${{self.metadata.name}}"
        if hole != "things" and found_in(config("own", data={"p": "x"}), one).box is not None:
            made.append(one)
    return found_in(config("own", "own-${self.metadata.name}", {"p": "${self.spec.image}"}), *made).box


@on_both
@pytest.mark.slow
def test_what_box_check_lets_through_does_nothing_for_a_tenant_that_the_tenant_could_not_RUN_12(
    rights: Limited,
) -> None:
    made = [
        {**one, "id": f"x{number}"}
        for number, (what, one) in enumerate(ACCEPTED.items())
        if one["template"]["kind"] != "Thing" and what != "a literal namespace"
    ]
    for one in made:
        one["template"] = {**one["template"], "metadata": {**one["template"]["metadata"]}}
        if one["template"]["kind"] != "ClusterRole":
            one["template"]["metadata"]["name"] = f"{one['id']}-${{self.metadata.name}}"
    box = found_in(*made).box
    assert box is not None

    async def story(site: BoxSite) -> None:
        await prepare(site, box)
        await site.namespace(f"{NS}-jobs")
        async with site.running(box, namespaces=(NS,)):
            assert await outcome(site, box, specs_of(box, SHOP)) == []

    rights(story, QUICK)


@pytest.mark.slow
@settings(max_examples=effort(0.3))
@given(texts=st.lists(st.tuples(st.sampled_from(sorted({*HOLES} - {"things"})), EXPRESSIONS), min_size=4, max_size=8))
def test_no_drawn_box_does_for_a_tenant_what_the_tenant_could_not_RUN_12(
    texts: list[tuple[str, str]],
) -> None:
    box = drawn(texts)
    if box is None or len(box.nodes) < 2:
        return

    async def story(site: BoxSite) -> None:
        await prepare(site, box)
        async with site.running(box, namespaces=(NS,)):
            found = await outcome(site, box, specs_of(box, SHOP))
            assert [line for line in found if VICTIM in line or ADMIN in line or "data of" in line] == []

    in_process(story, QUICK, rbac=True)


def a_drawn_box(number: int) -> Box:
    """Return the box of a number, the same everywhere: the first of its draws that comes to five resources."""
    random = Random(number)
    while True:
        places = random.choices(sorted({*HOLES} - {"things"}), k=12)
        box = drawn([(hole, an_expression(random)) for hole in places])
        if box is not None and len(box.nodes) >= 5:
            return box


def an_expression(random: Random, depth: int = 2) -> str:
    if depth == 0 or random.random() < 0.4:
        return random.choice(ATOMS)
    return random.choice(FORMS).format(*(an_expression(random, depth - 1) for _ in range(3)))


@on_both
@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
@run_by("rights", QUICK)
async def test_a_drawn_box_under_exactly_its_roles_does_for_a_tenant_nothing_that_the_tenant_could_not_RUN_12(
    site: BoxSite, *, number: int
) -> None:
    box = a_drawn_box(number)
    await prepare(site, box)
    async with site.running(box, namespaces=(NS,)):
        found = await outcome(site, box, specs_of(box, SHOP))
        assert [line for line in found if VICTIM in line or ADMIN in line or "data of" in line] == []
        assert await made(site, box) != []
