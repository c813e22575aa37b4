"""PH-10: boxes as objects in the cluster: acceptance, serving, roll-out, removal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import pytest
import yaml

from kubelab.model.calls import RequestVerb
from purekube.apimachinery.definitions import BROUGHT_TO, PIN
from purekube.apimachinery.errors import Forbidden, KindMissing, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION
from purekube.boxes.webhooks.admission_policy import BINDING, MUTATING_BINDING, MUTATING_POLICY, POLICY, policy_of
from purekube.ports import KubeRequest, KubeVerb, PatchType, Send
from purekube_kit.kube_apiserver import OPERATOR_USER
from purekube_run.process.command_line import CommandError
from tests.e2e.test_box_rights import ROLES, grant_all
from tests.support.box_site import FACES, NS, QUICK, BoxSite, in_process
from tests.support.boxes import SPEC as SPEC_SCHEMA
from tests.support.boxes import box_of, config, crd, secret
from tests.support.run_by import run_by
from vworkspace_app.commands.box.rollout import Action, RolloutRequest, carried_out
from vworkspace_app.commands.status import list_text
from vworkspace_app.install.extension_manifests import account_rbac, applied_installation, box_rbac, name_of
from vworkspace_app.install.options import WebhookTrust
from vworkspace_app.install.roles import RoleOptions, former_roles
from vworkspace_app.overview.reading import PermittedReader, kinds_of_boxes, read_object_context, read_own_objects

SHOP: Final = box_of(config("settings")).kind
SPEC: Final[Mapping[str, Any]] = {"image": "r/x:1", "parts": []}
_LONG: Final = {"in-process": 600.0, "http": 7.0}
"""The seconds until everything that is written later has been written: over HTTP they are real ones."""


def spec_of(*resources: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The spec of a box with these resources, which brings its CRD."""
    return {"crd": {"spec": crd()["spec"]}, "resources": [*resources], **more}


def settings(value: str, **more: Any) -> dict[str, Any]:
    """A box whose only child is a ConfigMap with this value."""
    return spec_of(config("settings", "${self.metadata.name}", data={"value": value}), **more)


def child(name: str) -> ObjectRef:
    return ObjectRef(CONFIG_MAP, NS, name)


async def value_of(site: BoxSite, name: str) -> Any:
    return get_path(await site.get(child(name)), "data", "value")


async def until_value(site: BoxSite, name: str, value: str) -> None:
    async def has_it() -> bool:
        return bool(await value_of(site, name) == value)

    await site.until(has_it)


async def revisions(site: BoxSite) -> list[Manifest]:
    """The ControllerRevisions, oldest first."""
    page = await site.admin.list(CONTROLLER_REVISION, namespace=NS)
    return sorted(page.items, key=lambda manifest: int(manifest["revision"]))


async def until_condition(site: BoxSite, ref: ObjectRef, type: str, status: str, reason: str) -> str:
    """Wait for a condition of the present generation; its message."""

    async def holds() -> bool:
        return (await site.condition(ref, type))[:2] == (status, reason)

    await site.until(holds)
    return (await site.condition(ref, type))[2]


def written(site: BoxSite) -> list[str]:
    """The paths of everything that was written."""
    assert site.server is not None
    return [entry.path for entry in site.server.audit.writes() if "reviews" not in entry.path]


async def until_rolled_out(site: BoxSite, ref: ObjectRef) -> None:
    await until_condition(site, ref, "RolledOut", "True", "Complete")


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_applied_box_is_served_changed_and_rolled_out_PH_10(face: str) -> None:
    async def story(site: BoxSite) -> None:
        await site.install(applied_box_definition())
        async with site.serving():
            box = await site.apply_box("shops", settings("one"))
            await until_rolled_out(site, box)
            first = await site.create(SHOP, "first", spec=SPEC)
            await site.until_ready(first)
            assert await value_of(site, "first") == "one"

            await site.apply_box("shops", settings("two"))
            await until_value(site, "first", "two")
            await until_rolled_out(site, box)

            names = [manifest["metadata"]["name"] for manifest in await revisions(site)]
            live = await site.get(first)
            assert get_path(live, "metadata", "annotations", BROUGHT_TO).partition(" ")[0] == names[1]
            status = get_path(await site.get(box), "status")
            assert (status["kind"], status["revision"]) == ("Shop", names[1])

    FACES[face](story, QUICK)


@run_by(in_process, QUICK)
async def test_a_definition_that_comes_while_a_box_is_compiled_is_seen_PH_10(site: BoxSite) -> None:
    """The answer that it is missing was read before; another definition is asked for when it comes."""
    own, zone = crd(), crd(names={"plural": "zones", "singular": "zone", "kind": "Zone"})
    of_zone = {"apiVersion": SHOP.api_version, "kind": "Zone", "metadata": {"name": "z"}, "spec": SPEC}

    async def installed_meanwhile(request: KubeRequest, send: Send) -> Manifest:
        is_late = request.verb is KubeVerb.GET and request.name == zone_name
        if is_late and await site.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, SHOP.crd_name)) is None:
            await site.install(own)
            await site.clock.sleep(2)
        return await send(request)

    zone_name = f"zones.{SHOP.group}"
    site.api = site.api.through(installed_meanwhile)
    await site.install(applied_box_definition(), {**zone, "metadata": {"name": zone_name}})
    async with site.serving():
        spec = {"crd": {"name": SHOP.crd_name}, "resources": [{"id": "zone", "template": of_zone}]}
        await until_condition(site, await site.apply_box("shops", spec), "Accepted", "True", "Valid")


@run_by(in_process, QUICK)
async def test_a_controller_whose_writes_hang_is_replaced_and_not_doubled_PH_10_RUN_11(site: BoxSite) -> None:
    """A webhook that does not answer holds a pass until its limit, and its report: longer than the box's own pass."""
    hangs, followed = False, list[tuple[Any, bool]]()

    async def hanging(request: KubeRequest, send: Send) -> Manifest:
        if hangs and request.writes and request.kind in (CONFIG_MAP, SHOP):
            await site.clock.sleep(1000)
        return await send(request)

    site.api = site.api.through(hanging)
    await site.install(applied_box_definition())
    async with site.serving() as boxes:
        boxes.follow(lambda reconciler, is_loaded: followed.append((reconciler, is_loaded)))
        box = await site.apply_box("shops", settings("one"))
        await until_rolled_out(site, box)
        first = await site.create(SHOP, "first", spec=SPEC)
        await site.until_ready(first)
        hangs = True
        await site.admin.delete(child("first"))
        await site.clock.sleep(1)
        await site.apply_box("shops", settings("two"))
        await site.clock.sleep(200)
        hangs = False
        await until_value(site, "first", "two")
    left = [reconciler for reconciler, is_loaded in followed if is_loaded and (reconciler, False) not in followed]
    assert [box.reconciler for box in boxes.served.values()] == left


@pytest.mark.slow
@run_by(FACES["http"], QUICK)
async def test_objects_whose_list_has_a_name_of_its_own_are_served_PH_10(site: BoxSite) -> None:
    """`spec.names.listKind` is free."""
    definition = crd(names={"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "Shopping"})
    await site.install(applied_box_definition())
    async with site.serving():
        box = await site.apply_box("shops", {**settings("one"), "crd": {"spec": definition["spec"]}})
        await until_rolled_out(site, box)
        await site.until_ready(await site.create(SHOP, "first", spec=SPEC))


@run_by(in_process, QUICK)
async def test_objects_that_cannot_be_listed_are_the_reason_why_a_box_is_not_served_PH_10(site: BoxSite) -> None:
    is_broken = True

    async def broken(request: KubeRequest, send: Send) -> Manifest:
        if is_broken and request.verb is KubeVerb.LIST and request.kind == SHOP:
            raise Unavailable(f"{request}: nobody answers")
        return await send(request)

    site.api = site.api.through(broken)
    await site.install(applied_box_definition())
    async with site.serving():
        box = await site.apply_box("shops", settings("one"))
        assert "nobody answers" in await until_condition(site, box, "Serving", "False", "Retrying")
        written = await site.get(box)
        await site.clock.sleep(60)
        assert await site.get(box) == written
        is_broken = False
        await until_rolled_out(site, box)


# --- roll-out ---------------------------------------------------------------------------------------------------------


async def set_up(site: BoxSite, count: int, **more: Any) -> ObjectRef:
    """A box whose first revision has reached all of so many parents."""
    box = await site.apply_box("shops", settings("one", **more))
    await until_rolled_out(site, box)
    for number in range(count):
        await site.until_ready(await site.create(SHOP, f"shop-{number}", spec=SPEC))
    await until_rolled_out(site, box)
    return box


async def values(site: BoxSite, count: int) -> list[Any]:
    return [await value_of(site, f"shop-{number}") for number in range(count)]


_OF_BOX: Final = ("operatorbox/shops", "rollout undo shops", "rollout history shops")


async def status_lines(site: BoxSite, *words: str) -> list[str]:
    """The lines of `status` that hold one of these; those about the box if none are given."""
    kinds = await kinds_of_boxes(PermittedReader(site.admin))
    shown = await read_own_objects(site.admin, namespace=None, system_namespace="none", boxes=kinds)
    return [
        line
        for line in list_text(shown, None, site.clock.now()).splitlines()
        if any(one in line for one in words or _OF_BOX)
    ]


def played(story: Any) -> None:
    """A story in a world of its own, in which OperatorBoxes are served and run."""

    async def whole(site: BoxSite) -> None:
        await site.install(applied_box_definition())
        async with site.serving():
            await story(site)

    in_process(whole, QUICK)


NEVER: Final = config(
    "settings", "${self.metadata.name}", data={"value": "two"}, readyWhen=["${settings.data.value == 'one'}"]
)
"""A child that is never ready."""


def failing(**rollout: Any) -> dict[str, Any]:
    return spec_of(NEVER, rollout={"maxUnavailable": 1, "progressDeadline": "1m", **rollout})


@pytest.mark.slow
@run_by(played)
async def test_a_parent_that_fails_stops_the_roll_out_and_a_good_definition_goes_on_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 3)
    await site.apply_box("shops", failing())
    message = await until_condition(site, box, "RolledOut", "False", "Stopped")
    assert message.startswith("Shop team/shop-0 failed: ")
    assert "1 of 3 objects" in message
    (row, remedy, *_), rows = await status_lines(site), await status_lines(site, "shop/shop-")
    revision = get_path(await site.get(box), "status", "revision")
    assert row.split() == ["operatorbox/shops", "Stalled", revision, "1/3", "0s", "Stopped"]
    assert [line.split()[3] for line in rows].count(revision) == 1, "each object shows its revision"
    assert remedy == "  -> vworkspace-operator box rollout undo shops"
    await site.clock.sleep(3600)
    assert await values(site, 3) == ["two", "one", "one"]
    assert (await site.condition(ObjectRef(SHOP, NS, "shop-1")))[0] == "True"

    await site.apply_box("shops", settings("three"))
    await until_rolled_out(site, box)
    assert await values(site, 3) == ["three"] * 3


@pytest.mark.slow
@run_by(played)
async def test_an_object_is_shown_by_its_applied_box_without_a_file_SEE_1_PH_10(site: BoxSite) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "${self.metadata.name}"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    present = spec_of({"id": "budget", "template": budget, "readiness": "Exists"})

    async def states(site: BoxSite) -> list[tuple[str, str]]:
        live, now = await site.admin.get(ObjectRef(SHOP, NS, "first")), site.clock.now()
        branch = (await read_object_context(site.admin, SHOP, live, now=now)).tree(now)
        return [(child.node, child.summary.state.value) for child in branch.children]

    box = await site.apply_box("shops", present)
    await until_rolled_out(site, box)
    await site.until_ready(await site.create(SHOP, "first", spec=SPEC))
    assert await states(site) == [("budget", "Ready")]
    await site.apply_box("shops", {**settings("two"), "rollout": {"pause": True}})
    await until_condition(site, box, "RolledOut", "False", "Paused")
    assert [node for node, _ in await states(site)] == ["budget"], "a box of another revision is not asked"


@pytest.mark.slow
@run_by(played)
async def test_undo_brings_the_parents_back_to_the_revision_that_works_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 3)
    before = [get_path(await site.get(child(f"shop-{number}")), "data") for number in range(3)]
    await site.apply_box("shops", failing(onFailure="Undo"))
    message = await until_condition(site, box, "RolledOut", "False", "Undone")
    assert "Shop team/shop-0" in message
    first, second = await revisions(site)
    for number in range(3):
        parent = ObjectRef(SHOP, NS, f"shop-{number}")
        await site.until_ready(parent)
        record = get_path(await site.get(parent), "metadata", "annotations", BROUGHT_TO)
        assert record.startswith(first["metadata"]["name"])
    assert [get_path(await site.get(child(f"shop-{number}")), "data") for number in range(3)] == before
    assert second["metadata"]["name"] in message


async def versions(site: BoxSite, count: int) -> list[Any]:
    """The resourceVersions of so many parents and their children."""
    refs = [ObjectRef(kind, NS, f"shop-{number}") for number in range(count) for kind in (SHOP, CONFIG_MAP)]
    return [get_path(await site.get(ref), "metadata", "resourceVersion") for ref in refs]


def labelled() -> dict[str, Any]:
    """A box that labels its child with the object's image, which is refused if that is no label."""
    mapped = config("settings", "${self.metadata.name}", data={"value": "two", "more": "x"})
    mapped["template"]["metadata"]["labels"] = {"image": "${self.spec.image.replace('/', '.').replace(':', '.')}"}
    return spec_of(mapped)


async def judgement(site: BoxSite, box: ObjectRef) -> dict[str, Any]:
    found: dict[str, Any] = get_path(await site.get(box), "status", "judgement")
    return {key: value for key, value in found.items() if key not in ("revision", "refusals")}


@pytest.mark.slow
@run_by(played)
async def test_a_revision_that_would_be_refused_for_an_object_says_so_before_any_object_moves_PH_10(
    site: BoxSite,
) -> None:
    box = await set_up(site, 3)
    await site.edit(ObjectRef(SHOP, NS, "shop-1"), {"spec": {"image": "Bad key!"}})
    await site.until_ready(ObjectRef(SHOP, NS, "shop-1"))
    before = await versions(site, 3)
    await site.apply_box("shops", labelled())
    message = await until_condition(site, box, "RolledOut", "False", "Refused")
    assert message.startswith("Shop team/shop-1 would fail: ConfigMap team/shop-1: apply: ")
    assert "0 of 3 objects at" in message
    assert "  -> vworkspace-operator box rollout undo shops" in await status_lines(site)
    await site.clock.sleep(600)
    assert await versions(site, 3) == before
    counts = {"objects": 3, "creates": 0, "changes": 2, "deletes": 0, "deletesAfterwards": 0, "refused": 1}
    assert await judgement(site, box) == counts

    await site.edit(ObjectRef(SHOP, NS, "shop-1"), {"spec": {"image": "good"}})
    await until_rolled_out(site, box)
    assert await values(site, 3) == ["two"] * 3
    assert (await judgement(site, box))["changes"] == 3


@pytest.mark.slow
@run_by(played)
async def test_a_revision_is_judged_over_every_object_while_its_roll_out_is_paused_PH_10(site: BoxSite) -> None:
    more = [config("more", "${self.metadata.name}-more"), secret("keys", data={"a": "b"})]
    more[1]["template"]["metadata"]["name"] = "${self.metadata.name}"
    paused = {"rollout": {"pause": True}}
    box = await set_up(site, 3)
    await site.apply_box("shops", spec_of(*settings("two")["resources"], *more, **paused))
    await until_condition(site, box, "RolledOut", "False", "Paused")
    counts = {"objects": 3, "creates": 6, "changes": 3, "deletes": 0, "deletesAfterwards": 0, "refused": 0}
    assert await judgement(site, box) == counts
    assert await values(site, 3) == ["one"] * 3

    await site.apply_box("shops", spec_of(*settings("two")["resources"], *more))
    await until_rolled_out(site, box)
    await site.apply_box("shops", {**settings("two"), **paused})
    await until_condition(site, box, "RolledOut", "False", "Paused")
    assert await judgement(site, box) == {**counts, "creates": 0, "changes": 0, "deletes": 6}


async def spoiled(site: BoxSite, count: int) -> None:
    """Give so many objects an image that is no label."""
    for number in range(count):
        await site.edit(ObjectRef(SHOP, NS, f"shop-{number}"), {"spec": {"image": "Bad key!"}})
        await site.until_ready(ObjectRef(SHOP, NS, f"shop-{number}"))


@pytest.mark.slow
@run_by(played)
async def test_a_refusal_of_many_objects_names_the_first_and_the_way_back_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 3)
    await spoiled(site, 3)
    await site.apply_box("shops", labelled())
    message = await until_condition(site, box, "RolledOut", "False", "Refused")
    assert message.count("would fail") == 1
    assert "and 2 more (status.judgement)" in message
    assert message.endswith("or go back: vworkspace-operator box rollout undo shops")


async def rollout(site: BoxSite, action: Action) -> str:
    return (await carried_out(site.admin, RolloutRequest(action, "shops")))[0]


@pytest.mark.slow
@run_by(played)
async def test_undo_passes_over_a_refused_revision_and_history_says_that_it_was_refused_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 1)
    first = get_path(await site.get(box), "status", "revision")
    await spoiled(site, 1)
    await site.apply_box("shops", labelled())
    await until_condition(site, box, "RolledOut", "False", "Refused")
    second = get_path(await site.get(box), "status", "revision")
    await site.clock.sleep(60)
    assert f"{second}  2       present, refused: Shop team/shop-0 would fail: " in await rollout(site, "history")

    told, then = (await rollout(site, "undo")).splitlines()
    assert told == f"operatorbox shops rolls back to {first}"
    assert then == (
        "the next changed file of it conflicts with vworkspace-operator-cli: apply that once with: "
        "kubectl apply --server-side --force-conflicts -f FILE"
    )
    await until_rolled_out(site, box)
    assert f"{second}  2       refused: " in await rollout(site, "history")
    with pytest.raises(
        CommandError,
        match=f"has no earlier revision to return to: {second} was refused; choose one by --to-revision",
    ):
        await rollout(site, "undo")


@pytest.mark.slow
@run_by(played)
async def test_undo_says_which_newer_revision_it_passes_over_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 1)
    first = get_path(await site.get(box), "status", "revision")
    await spoiled(site, 1)
    await site.apply_box("shops", labelled())
    await until_condition(site, box, "RolledOut", "False", "Refused")
    second = get_path(await site.get(box), "status", "revision")
    await site.clock.sleep(60)
    await site.apply_box("shops", settings("three"))
    await until_rolled_out(site, box)
    told, _ = (await rollout(site, "undo")).splitlines()
    assert told == f"operatorbox shops rolls back to {first}; passed over, since {second} was refused"


@pytest.mark.slow
@run_by(played)
async def test_a_revision_that_failed_is_left_for_one_that_was_not_refused_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 1)
    first = get_path(await site.get(box), "status", "revision")
    await spoiled(site, 1)
    await site.apply_box("shops", labelled())
    await until_condition(site, box, "RolledOut", "False", "Refused")
    await site.clock.sleep(60)
    await site.apply_box("shops", failing(onFailure="Undo"))
    assert f"Objects are at {first}" in await until_condition(site, box, "RolledOut", "False", "Undone")


@pytest.mark.slow
@run_by(played)
async def test_a_revision_that_is_refused_no_longer_is_not_told_as_refused_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 1)
    await spoiled(site, 1)
    await site.apply_box("shops", labelled())
    await until_condition(site, box, "RolledOut", "False", "Refused")
    await site.clock.sleep(60)
    await site.edit(ObjectRef(SHOP, NS, "shop-0"), {"spec": {"image": "good"}})
    await until_rolled_out(site, box)
    assert "refused" not in await rollout(site, "history")


@pytest.mark.slow
@run_by(played)
async def test_the_judgement_counts_deletes_that_wait_for_a_new_child_PH_10(site: BoxSite) -> None:
    renamed = spec_of(
        config(
            "settings", "${self.metadata.name}-new", data={"value": "one"}, readyWhen=["${settings.data.value == 'x'}"]
        )
    )
    box = await set_up(site, 3)
    await site.apply_box("shops", {**renamed, "rollout": {"pause": True}})
    await until_condition(site, box, "RolledOut", "False", "Paused")
    found = await judgement(site, box)
    assert (found["creates"], found["deletes"], found["deletesAfterwards"]) == (3, 0, 3)


@pytest.mark.slow
@run_by(played)
async def test_roll_out_that_is_paused_moves_nothing_until_it_is_resumed_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 2)
    await site.apply_box("shops", settings("two", rollout={"pause": True}))
    await until_condition(site, box, "RolledOut", "False", "Paused")
    await site.clock.sleep(3600)
    assert await values(site, 2) == ["one", "one"]
    fresh = await site.create(SHOP, "shop-2", spec=SPEC)
    await site.until_ready(fresh)
    assert await value_of(site, "shop-2") == "one"

    await site.apply_box("shops", settings("two"))
    await until_rolled_out(site, box)
    assert await values(site, 3) == ["two"] * 3
    fresh = await site.create(SHOP, "shop-3", spec=SPEC)
    await site.until_ready(fresh)
    assert await value_of(site, "shop-3") == "two"
    assert len(await revisions(site)) == 2


@pytest.mark.slow
@run_by(played)
async def test_closed_gate_and_waves_hold_parents_back_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 3)
    await site.edit(ObjectRef(SHOP, NS, "shop-2"), {"metadata": {"labels": {"canary": "yes"}}})
    canary = {"name": "canary", "objects": {"matchLabels": {"canary": "yes"}}}
    gates = ["rollout.moved < 1"]
    await site.apply_box("shops", settings("two", rollout={"waves": [canary], "when": gates}))
    await until_condition(site, box, "RolledOut", "False", "Gated")
    await site.clock.sleep(60)
    assert await values(site, 3) == ["one", "one", "two"]

    await site.apply_box("shops", settings("two", rollout={"waves": [canary]}))
    await until_rolled_out(site, box)
    assert await values(site, 3) == ["two"] * 3


@pytest.mark.slow
@run_by(played)
async def test_pinned_parent_stays_and_says_how_far_behind_it_is_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 2)
    (first,) = await revisions(site)
    pinned = ObjectRef(SHOP, NS, "shop-0")
    await site.edit(pinned, {"metadata": {"annotations": {PIN: first["metadata"]["name"]}}})
    await site.apply_box("shops", settings("two"))
    await until_rolled_out(site, box)
    assert await values(site, 2) == ["one", "two"]
    assert "1 behind" in await site.until_reason(pinned, "Pinned", "Revision")
    assert get_path(await site.get(box), "status", "rollout", "pinned") == 1

    await site.edit(pinned, {"metadata": {"annotations": {PIN: None}}})
    await until_value(site, "shop-0", "two")


@pytest.mark.slow
@run_by(played)
async def test_a_pin_to_a_revision_that_does_not_exist_is_shown_and_a_roll_out_is_not_complete_with_it_PH_10(
    site: BoxSite,
) -> None:
    box, shop = await set_up(site, 1), ObjectRef(SHOP, NS, "shop-0")
    await site.edit(shop, {"metadata": {"annotations": {PIN: "shops-0123456789"}}})
    message = await until_condition(site, box, "RolledOut", "False", "NoSuchRevision")
    await site.until_reason(shop, "NoSuchRevision", "Revision")
    assert message in (await rollout(site, "status")).replace("\n", " ")
    (row,) = await status_lines(site, "shop/shop-0")
    assert row.split()[2] == "Degraded"
    assert "  -> vworkspace-operator box rollout history shops" in await status_lines(site)

    await site.edit(shop, {"metadata": {"annotations": {PIN: None}}})
    await until_rolled_out(site, box)


# --- acceptance -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@run_by(played)
async def test_problems_have_their_paths_and_the_accepted_revision_goes_on_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 1)
    other = await site.apply_box("others", settings("x", crd={"name": "nothings.example.com"}))
    wrong = settings("${self.spec.imgae}", rollout={"when": ["rollout.moves > 1"]})
    await site.apply_box("shops", wrong)
    await until_condition(site, box, "Accepted", "False", "Invalid")
    problems = get_path(await site.get(box), "status", "problems")
    assert [problem["path"] for problem in problems] == [
        "spec.resources[0].template.data.value",
        "spec.rollout.when[0]",
    ]
    assert "image" in problems[0]["message"]
    assert "nothings.example.com" in await until_condition(site, other, "Accepted", "False", "Invalid")
    await site.admin.delete(child("shop-0"))
    await until_value(site, "shop-0", "one")
    assert len(await revisions(site)) == 1


TIER: Final = "self.metadata.?annotations[?'tier'].orValue('')"
BARRED: Final = {"rule": "!('barred' in self.metadata.?labels.orValue({})) // never", "message": "barred"}
STAYS: Final = {"rule": f"{TIER} == {TIER.replace('self', 'oldSelf')}", "message": "the tier\nstays"}


HOST: Final = {"field": "spec.host", "value": "${self.metadata.name + '.x'}"}
SHOWING: Final = {"value": "${self.spec.?host.orValue('none')}"}


@pytest.mark.slow
@run_by(played)
async def test_a_value_that_the_api_server_cannot_compute_is_refused_with_what_to_write_instead_PH_10(
    site: BoxSite,
) -> None:
    filled = [{"field": "spec.image", "value": "r/x:1"}, {"field": "spec.host", "value": "${hash(self.metadata.name)}"}]
    box = await site.apply_box("shops", settings("one", mutation=filled))
    await until_condition(site, box, "Accepted", "False", "Invalid")
    (problem,) = get_path(await site.get(box), "status", "problems")
    assert problem["path"] == "spec.mutation[1].value"
    told = "cannot: there is no function hash(); write it otherwise, compute it where it is used, or run the box"
    assert told in problem["message"]
    assert await revisions(site) == []

    await site.apply_box("shops", settings("one", mutation=filled[:1]))
    await until_rolled_out(site, box)


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_values_that_no_crd_can_compute_are_those_of_a_policy_which_has_to_be_there_PH_10(face: str) -> None:
    printed = policy_of(attrs.evolve(box_of(config("settings"), mutation=[HOST]), name="shops"))
    assert [*printed] == [MUTATING_POLICY, MUTATING_BINDING]
    showing = spec_of(config("settings", "${self.metadata.name}", data=SHOWING), mutation=[HOST])

    async def story(site: BoxSite) -> None:
        await site.install(applied_box_definition())
        async with site.serving():
            box = await site.apply_box("shops", showing)
            message = await until_condition(site, box, "Accepted", "False", "Invalid")
            told = "the MutatingAdmissionPolicy shops.box.vworkspace.io is not there, or is another"
            assert message.startswith(f"spec.mutation: {told}, for values that no CRD can compute")
            for kind, manifest in printed.items():
                await site.admin.apply(manifest, kind=kind, field_manager="kubectl", force=True)
            if face != "in-process":  # there, a minute is soon over
                await site.edit(box, {"metadata": {"labels": {"woken": "now"}}})
            await until_rolled_out(site, box)
            await filled_in_by_the_policy(site)
            await site.create(SHOP, "own", spec={**SPEC, "host": "mine"})
            await until_value(site, "own", "mine")
            await site.edit(ObjectRef(SHOP, NS, "own"), {"spec": {"host": None}})
            await until_value(site, "own", "own.x")

            binding = ref_of(printed[MUTATING_BINDING], MUTATING_BINDING)
            await site.edit(binding, {"spec": {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}})
            await site.edit(box, {"metadata": {"labels": {"woken": "again"}}})
            assert MUTATING_BINDING.kind in await until_condition(site, box, "Accepted", "False", "Invalid")
            assert (await site.condition(box, "Serving"))[0] == "True"

    FACES[face](story, QUICK)


async def filled_in_by_the_policy(site: BoxSite) -> None:
    """Wait until the server has read the policy, and an object gets its value.

    kube-apiserver looks the kind of a new CRD up for such a policy, and answers 503 until it has found it.
    """

    async def is_filled() -> bool:
        try:
            ref = await site.create(SHOP, "first", spec=SPEC)
        except Unavailable:
            return False
        if get_path(await site.get(ref), "spec", "host") == "first.x":
            return True
        await site.admin.delete(ref)
        await site.until_gone(ref)
        return False

    await site.until(is_filled)
    await until_value(site, "first", "first.x")


@run_by(in_process, QUICK)
async def test_a_cluster_without_the_policy_of_computed_values_is_told_its_version_PH_10(site: BoxSite) -> None:
    async def older(request: KubeRequest, send: Send) -> Manifest:
        if request.kind in (MUTATING_POLICY, MUTATING_BINDING):
            raise KindMissing(f"{request}: 404 page not found")
        return await send(request)

    site.api = site.api.through(older)
    await site.install(applied_box_definition())
    async with site.serving():
        box = await site.apply_box("shops", settings("one", mutation=[HOST], validation=[BARRED]))
        await until_condition(site, box, "Accepted", "False", "Invalid")
        rules, values = get_path(await site.get(box), "status", "problems")
        assert (rules["path"], values["path"]) == ("spec.validation", "spec.mutation")
        assert values["message"] == (
            "the cluster serves no MutatingAdmissionPolicy, for values that no CRD can compute: that takes "
            "Kubernetes 1.36; write a literal, compute it where it is used, or run the box from its file, with its "
            "webhook (box manifests FILE)"
        )


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_rules_that_no_crd_can_check_are_those_of_a_policy_which_has_to_be_there_PH_10(face: str) -> None:
    rules = [{"rule": "size(self.spec.image) > 0"}, BARRED, STAYS]
    printed = policy_of(attrs.evolve(box_of(config("settings"), validation=rules), name="shops"))

    async def story(site: BoxSite) -> None:
        await site.install(applied_box_definition())
        async with site.serving():
            box = await site.apply_box("shops", settings("one", validation=rules))
            message = await until_condition(site, box, "Accepted", "False", "Invalid")
            told = "the ValidatingAdmissionPolicy shops.box.vworkspace.io is not there, or is another"
            assert message.startswith(f"spec.validation: {told}")
            for kind, manifest in printed.items():
                await site.admin.apply(manifest, kind=kind, field_manager="kubectl", force=True)
            if face != "in-process":  # there, a minute is soon over
                await site.edit(box, {"metadata": {"labels": {"woken": "now"}}})
            await until_rolled_out(site, box)
            first = await site.create(SHOP, "first", spec=SPEC, metadata=named("first", annotations={"tier": "gold"}))
            await site.until_ready(first)
            await refused_by_the_policy(site, first)

            binding = ref_of(printed[BINDING], BINDING)
            await site.edit(binding, {"spec": {"validationActions": ["Audit"]}})
            await site.edit(box, {"metadata": {"labels": {"woken": "again"}}})
            assert BINDING.kind in await until_condition(site, box, "Accepted", "False", "Invalid")
            assert (await site.condition(box, "Serving"))[0] == "True"

    FACES[face](story, QUICK)


@pytest.mark.slow
@run_by(played)
async def test_undo_says_which_policies_the_former_revision_needs_and_goes_on_once_they_are_applied_PH_10(
    site: BoxSite,
) -> None:
    former, present = ([BARRED], [STAYS])

    async def apply_policies(manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            kind = POLICY if manifest["kind"] == POLICY.kind else BINDING
            await site.admin.apply(manifest, kind=kind, field_manager="kubectl", force=True)

    for number, rules in enumerate((former, present)):
        compiled = attrs.evolve(box_of(config("settings"), validation=rules), name="shops")
        await apply_policies(policy_of(compiled).values())
        box = await site.apply_box("shops", settings(f"value-{number}", validation=rules))
        await until_rolled_out(site, box)
    await site.create(SHOP, "first", spec=SPEC)
    undone = await rollout(site, "undo")
    *_, told = undone.splitlines()
    command = "vworkspace-operator box rollout policies shops --to-revision"
    assert told.startswith(f"once its admission policies are applied: {command} ")
    await until_condition(site, box, "Accepted", "False", "Invalid")
    name = told.split("--to-revision ")[1].split()[0]
    printed = (await carried_out(site.admin, RolloutRequest("policies", "shops", name)))[0]
    await apply_policies(yaml.safe_load_all(printed))
    await until_rolled_out(site, box)
    assert get_path(await site.get(box), "status", "revision") == name

    async def blind(request: KubeRequest, send: Send) -> Manifest:
        if request.kind == POLICY:
            raise Forbidden("no right to get policies")
        return await send(request)

    text, status = await carried_out(site.admin.through(blind), RolloutRequest("undo", "shops"))
    assert (text.count("rolls back to"), status) == (1, 0), "what is written is told, whoever may not look"
    assert text.endswith("whether its admission policies are there was not checked: no right to get policies\n")
    await until_condition(site, box, "Accepted", "False", "Invalid")


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_a_policy_is_looked_up_when_its_box_changes_or_after_a_minute_however_often_parents_do_PH_10(
    site: BoxSite,
) -> None:
    box = attrs.evolve(box_of(config("settings"), validation=[BARRED]), name="shops")
    assert site.server is not None
    await site.install(applied_box_definition())
    for kind, manifest in policy_of(box).items():
        await site.admin.apply(manifest, kind=kind, field_manager="kubectl", force=True)
    async with site.serving():
        shops = await site.apply_box("shops", settings("one", validation=[BARRED]))
        await until_rolled_out(site, shops)
        shop = await site.create(SHOP, "first", spec=SPEC)
        await site.until_ready(shop)
        await site.clock.sleep(120)
        site.server.audit.clear()
        for number in range(300):
            await site.edit(shop, {"spec": {"image": f"r/x:{number}"}})
            await site.clock.sleep(1)
        asked = site.server.audit.select(lambda entry: entry.user == OPERATOR_USER)
        looked_up = [entry for entry in asked if POLICY.plural in entry.path]
        written = [entry for entry in asked if "/operatorboxes/" in entry.path and entry.verb is RequestVerb.PATCH]
        assert 5 <= len(looked_up) <= 5 + 1 + len(written)


@pytest.mark.slow
@pytest.mark.parametrize("needing", [{"validation": [BARRED]}, {"mutation": [HOST]}], ids=["rules", "values"])
@run_by(in_process, QUICK, rbac=True)
async def test_the_printed_roles_suffice_to_see_the_policy_and_older_ones_are_told_PH_10(
    site: BoxSite, *, needing: Mapping[str, Any]
) -> None:
    resource = config("settings", "${self.metadata.name}", data={"value": "one"})
    box = attrs.evolve(box_of(resource, **needing), name="shops")
    account = RoleOptions(account="vworkspace-operator")
    (policy, *_) = policy_of(box)

    await site.install(applied_box_definition())
    own = [*of_the_operator(account)]
    older = [{**role, "rules": without_policies(role)} if "rules" in role else role for role in own]
    await grant_all(site, older)
    await grant_all(site, box_rbac(box, attrs.evolve(account, elects=False)))
    for kind, manifest in policy_of(box).items():
        await site.admin.apply(manifest, kind=kind, field_manager="kubectl", force=True)
    async with site.serving():
        shops = await site.apply_box("shops", settings("one", **needing))
        told = await until_condition(site, shops, "Serving", "False", "Forbidden")
        assert told.startswith(f"the operator may not get {policy.plural}")
        assert "box manifests --applied" in told
        for role, former in zip(own, older, strict=True):
            if role != former:
                ref = ObjectRef(ROLES[role["kind"]], role["metadata"].get("namespace"), role["metadata"]["name"])
                await site.edit(ref, {"rules": role["rules"]})
        await until_rolled_out(site, shops)


def without_policies(role: Mapping[str, Any]) -> list[Any]:
    return [rule for rule in role["rules"] if POLICY.group not in rule["apiGroups"]]


def named(name: str, **meta: Any) -> dict[str, Any]:
    return {"name": name, "namespace": NS, **meta}


async def refused_by_the_policy(site: BoxSite, first: ObjectRef) -> None:
    async def is_refused() -> bool:
        try:
            ref = await site.create(SHOP, "second", spec=SPEC, metadata=named("second", labels={"barred": "x"}))
        except OperatorError as error:
            return "denied request: barred" in error.message
        await site.admin.delete(ref)  # the server has not read the policy yet
        return False

    await site.until(is_refused)
    with pytest.raises(OperatorError, match="denied request: the tier stays"):
        await site.edit(first, {"metadata": {"annotations": {"tier": "tin"}}})
    await site.edit(first, {"metadata": {"annotations": {"other": "x"}}})


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_a_second_box_of_the_same_kind_changes_nothing_until_the_first_one_is_gone_PH_10(site: BoxSite) -> None:
    """The first one is that whose definition was accepted first, also for a process that starts later."""
    further = {**SPEC_SCHEMA, "properties": {**SPEC_SCHEMA["properties"], "further": {"type": "string"}}}
    definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, SHOP.crd_name)
    await site.install(applied_box_definition())
    async with site.serving():
        first = await set_up(site, 1)
        before = get_path(await site.get(definition), "spec")
        other = await site.apply_box("a-second", {**settings("x"), "crd": {"spec": crd(further)["spec"]}})
        await site.clock.sleep(60)
        assert get_path(await site.get(definition), "spec") == before
        message = await until_condition(site, other, "Accepted", "False", "Invalid")
        assert message == f"spec.crd: the objects of {SHOP.crd_name} are those of the box shops: a kind has one box"
        assert (await site.condition(other, "RolledOut"))[0] == "Unknown"
    async with site.serving() as boxes:
        await site.clock.sleep(300)
        assert [*boxes.served] == ["shops"]
        assert get_path(await site.get(definition), "spec") == before
        await site.admin.delete(first)
        await site.admin.delete(ObjectRef(SHOP, NS, "shop-0"))
        await site.until_gone(first)
        await until_rolled_out(site, other)
        assert "further" in str(await site.get(definition))
        await site.until_ready(await site.create(SHOP, "next", spec=SPEC))


@pytest.mark.parametrize("policy", ["Delete", "Refuse", "Orphan"])
@run_by(played)
async def test_a_box_that_never_had_the_objects_of_a_kind_goes_without_them_PH_10(
    site: BoxSite, *, policy: str
) -> None:
    """A second box of a kind, applied by mistake and deleted again, deletes nothing of the first one's."""
    await until_rolled_out(site, await site.apply_box("shops", settings("one")))
    first = await site.create(SHOP, "first", spec=SPEC)
    await site.until_ready(first)
    second = await site.apply_box("other", settings("two", deletionPolicy=policy))
    await until_condition(site, second, "Accepted", "False", "Invalid")
    await site.admin.delete(second)
    await site.until_gone(second)
    await site.clock.sleep(60)
    assert get_path(await site.get(first), "metadata", "deletionTimestamp") is None
    assert await value_of(site, "first") == "one"


@pytest.mark.parametrize("policy", ["Delete", "Refuse", "Orphan"])
@run_by(in_process, QUICK)
async def test_a_box_that_was_never_accepted_goes_without_the_objects_that_were_there_PH_10(
    site: BoxSite, *, policy: str
) -> None:
    """Somebody else made them, and no revision of the box was ever at work on them."""
    (stored,) = crd()["spec"]["versions"]
    both = {**crd(), "spec": {**crd()["spec"], "versions": [stored, {**stored, "name": "v1alpha1", "storage": False}]}}
    up, down = {"spec.image": "${old.spec.image}"}, {"spec.image": "${self.spec.image}"}
    versions = [{"name": "v1"}, {"name": "v1alpha1", "up": up, "down": down, "keeps": "annotation"}]
    spec = {**settings("one", deletionPolicy=policy, versions=versions), "crd": {"name": SHOP.crd_name}}

    await site.install(applied_box_definition(), both)
    first = await site.create(SHOP, "first", spec=SPEC)
    async with site.serving():
        box = await site.apply_box("shops", spec)
        await until_condition(site, box, "Accepted", "False", "Invalid")
        await site.admin.delete(box)
        await site.until_gone(box)
        await site.clock.sleep(60)
        live = await site.get(first)
        assert live is not None
        assert get_path(live, "metadata", "deletionTimestamp") is None


@run_by(in_process, QUICK)
async def test_a_refused_write_is_reported_and_tried_again_PH_10(site: BoxSite) -> None:
    await site.install(applied_box_definition())
    async with site.serving(place="nowhere"):
        box = await site.apply_box("shops", settings("one"))
        message = await until_condition(site, box, "Serving", "False", "Refused")
        assert message.startswith("create ControllerRevision nowhere/shops-")
        await site.namespace("nowhere")
        await until_rolled_out(site, box)


# --- removal ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@run_by(played)
async def test_deletion_waits_for_the_objects_and_serves_them_meanwhile_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 1)
    await site.admin.delete(box)
    assert "1 object" in await until_condition(site, box, "Serving", "True", "Deleting")
    await site.admin.delete(child("shop-0"))
    await until_value(site, "shop-0", "one")
    await site.admin.delete(ObjectRef(SHOP, NS, "shop-0"))
    await site.until_gone(ObjectRef(SHOP, NS, "shop-0"), child("shop-0"), box)


@run_by(played)
async def test_the_objects_of_a_box_count_although_it_is_refused_for_another_version_PH_10(site: BoxSite) -> None:
    """Without them its deletion would not wait, and leave objects whose finalizer nobody removes."""
    box = await set_up(site, 1)
    newer = crd()["spec"]
    newer["versions"] = [{**newer["versions"][0], "name": "v2"}]
    await site.apply_box("shops", settings("two", crd={"spec": newer}))
    message = await until_condition(site, box, "Accepted", "False", "Invalid")
    assert "an applied box keeps the version that its objects are stored in, v1: declare v2" in message
    assert get_path(await site.get(box), "status", "objects") == 1
    await site.admin.delete(box)
    assert "1 object" in await until_condition(site, box, "Serving", "True", "Deleting")
    assert await site.get(box) is not None
    await site.admin.delete(ObjectRef(SHOP, NS, "shop-0"))
    await site.until_gone(ObjectRef(SHOP, NS, "shop-0"), child("shop-0"), box)


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_a_restart_while_a_deletion_waits_for_the_objects_writes_nothing_PH_10(site: BoxSite) -> None:
    """The caches of a new process are empty at first, which does not mean that no object is left."""
    assert site.server is not None
    await site.install(applied_box_definition())
    async with site.serving():
        box = await set_up(site, 2)
        await site.admin.delete(box)
        await until_condition(site, box, "Serving", "True", "Deleting")
        await site.clock.sleep(60)
    site.server.audit.clear()
    async with site.serving():
        await site.clock.sleep(600)
    assert written(site) == []
    assert await site.get(box) is not None


@run_by(played)
async def test_deletion_policy_delete_takes_the_objects_first_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 2, deletionPolicy="Delete")
    await site.admin.delete(box)
    await site.until_gone(box)
    assert await site.get(ObjectRef(SHOP, NS, "shop-0")) is None
    assert await values(site, 2) == [None, None]


@run_by(played)
async def test_deletion_policy_orphan_leaves_objects_that_can_be_deleted_PH_10(site: BoxSite) -> None:
    box = await set_up(site, 2, deletionPolicy="Orphan")
    await site.admin.delete(box)
    await site.until_gone(box)
    await site.clock.sleep(600)
    assert await values(site, 2) == ["one", "one"]
    shop = ObjectRef(SHOP, NS, "shop-0")
    await site.admin.delete(shop)
    await site.until_gone(shop)


# --- rights and restarts ----------------------------------------------------------------------------------------------


def of_the_operator(options: RoleOptions) -> Iterable[dict[str, Any]]:
    """The printed roles, those of the operator's own namespace in that of this story."""
    for manifest in applied_installation("image", options, WebhookTrust(options.namespace)):
        meta = manifest["metadata"]
        if manifest["kind"] in ROLES:
            yield {**manifest, "metadata": {**meta, "namespace": NS}} if "namespace" in meta else manifest


@pytest.mark.slow
@run_by(in_process, QUICK, rbac=True)
async def test_nothing_is_loaded_before_the_rights_are_there_and_the_printed_roles_suffice_PH_10(site: BoxSite) -> None:
    resource = config("settings", "${self.metadata.name}", data={"value": "one"})
    box = attrs.evolve(box_of(resource, deletionPolicy="Delete"), name="shops")
    account = RoleOptions(account="vworkspace-operator")
    await site.install(applied_box_definition())
    await grant_all(site, of_the_operator(account))
    async with site.serving() as boxes:
        shops = await site.apply_box("shops", settings("one", deletionPolicy="Delete"))
        message = await until_condition(site, shops, "Permitted", "False", "Forbidden")
        assert message.startswith("the operator may not ")
        assert "box rbac shops.yaml" in message
        assert boxes.served == {}
        assert await revisions(site) == []

        await grant_all(site, box_rbac(box, attrs.evolve(account, elects=False)))
        await until_rolled_out(site, shops)
        first = await site.create(SHOP, "first", spec=SPEC)
        await site.until_ready(first)
        await site.apply_box("shops", settings("two", deletionPolicy="Delete"))
        await until_value(site, "first", "two")
        await site.admin.delete(shops)
        await site.until_gone(shops, first)


@pytest.mark.slow
@run_by(in_process, QUICK, rbac=True)
async def test_rights_on_a_kind_that_a_box_no_longer_has_are_asked_for_until_no_object_holds_one_PH_10(
    site: BoxSite,
) -> None:
    """The role of the box alone is replaced, as `box rbac` of the new file does."""
    settings_only = spec_of(config("settings", "${self.metadata.name}", data={"value": "two"}))
    with_keys = spec_of(*settings("one")["resources"], secret("keys", data={"a": "b"}))
    boxes = [attrs.evolve(box_of(*spec["resources"]), name="shops") for spec in (with_keys, settings_only)]
    account = RoleOptions(account="vworkspace-operator", elects=False)
    keys, first = ObjectRef(SECRET, NS, "keys"), ObjectRef(SHOP, NS, "first")

    await site.install(applied_box_definition())
    await grant_all(site, of_the_operator(attrs.evolve(account, elects=True)))
    await grant_all(site, box_rbac(boxes[0], account))
    async with site.serving():
        shops = await site.apply_box("shops", with_keys)
        await until_rolled_out(site, shops)
        await site.create(SHOP, "first", spec=SPEC)
        await site.until_ready(first)
    (role,) = (each for each in box_rbac(boxes[1], account) if each["kind"] == "ClusterRole")
    await site.edit(ObjectRef(ROLES["ClusterRole"], None, role["metadata"]["name"]), {"rules": role["rules"]})
    former = [*former_roles(name_of(boxes[1]), (SECRET,), account)]
    async with site.serving():
        await site.apply_box("shops", settings_only)
        message = await until_condition(site, shops, "Permitted", "False", "Forbidden")
        assert message.startswith("the operator may not list secrets")
        assert "box rbac shops.yaml --former Secret/secrets.v1 --service-account " in message
        assert await site.get(keys) is not None

        await grant_all(site, former)
        await until_rolled_out(site, shops)
        await site.until_gone(keys)
        await until_value(site, "first", "two")
    for manifest in former:
        await site.admin.delete(ObjectRef(ROLES[manifest["kind"]], None, manifest["metadata"]["name"]))
    async with site.serving():
        await site.apply_box("shops", {**settings_only, "resync": "2m"})
        await until_rolled_out(site, shops)
        assert (await site.condition(shops, "Permitted"))[0] == "True"


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_process_that_starts_in_the_middle_of_a_roll_out_writes_nothing_twice_PH_10(site: BoxSite) -> None:
    assert site.server is not None
    await site.install(applied_box_definition())
    async with site.serving():
        box = await set_up(site, 4)
        await site.apply_box("shops", settings("two", rollout={"maxUnavailable": 1, "when": ["rollout.moved < 2"]}))
        await until_condition(site, box, "RolledOut", "False", "Gated")
        await site.clock.sleep(60)
    assert await values(site, 4) == ["two", "two", "one", "one"]
    kinds = (CONFIG_MAP, SHOP)
    refs = [ObjectRef(kind, NS, f"shop-{number}") for number in range(4) for kind in kinds]
    before = {ref: await site.get(ref) for ref in refs}
    async with site.serving():
        await site.clock.sleep(600)
    assert {ref: await site.get(ref) for ref in before} == before
    async with site.serving():
        await site.apply_box("shops", settings("two"))
        await until_rolled_out(site, box)
    assert await values(site, 4) == ["two"] * 4


@pytest.mark.parametrize("face", ["in-process", pytest.param("http", marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", [("shops",), ("shops", "stalls")])
def test_a_restart_after_which_nothing_has_changed_writes_nothing_PH_10(face: str, names: Sequence[str]) -> None:
    """Caches are filled one after the other meanwhile, and the box says no less than before."""
    kinds = {name: attrs.evolve(SHOP, group=f"{name}.example.com") for name in names}

    async def story(site: BoxSite) -> None:
        assert site.server is not None
        await site.install(applied_box_definition())
        async with site.serving():
            for name, kind in kinds.items():
                box = await site.apply_box(
                    name, {**settings("one"), "crd": {"spec": {**crd()["spec"], "group": kind.group}}}
                )
                await until_rolled_out(site, box)
                for number in range(3):
                    await site.until_ready(await site.create(kind, f"{name}-{number}", spec=SPEC))
            await site.clock.sleep(_LONG[face])
        site.server.audit.clear()
        async with site.serving() as boxes:

            async def is_running() -> bool:
                return {*boxes.served} == {*names} and not any(each.obstacle for each in boxes.served.values())

            await site.until(is_running)
            await site.clock.sleep(_LONG[face])
        assert written(site) == []

    FACES[face](story, QUICK)


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_a_restart_says_that_a_box_is_not_served_only_when_its_caches_stay_empty_PH_10(site: BoxSite) -> None:
    is_broken = False

    async def broken(request: KubeRequest, send: Send) -> Manifest:
        if is_broken and request.verb is KubeVerb.LIST and request.kind == CONFIG_MAP:
            raise Unavailable(f"{request}: nobody answers")
        return await send(request)

    site.api = site.api.through(broken)
    await site.install(applied_box_definition())
    async with site.serving():
        box = await set_up(site, 1)
        await site.clock.sleep(60)
    before, is_broken = await site.get(box), True
    async with site.serving():
        await site.clock.sleep(50)
        assert await site.get(box) == before
        await site.clock.sleep(20)
        assert await site.condition(box, "Serving") == (
            "False",
            "Starting",
            "its caches of configmaps are being filled",
        )
        is_broken = False
        await until_rolled_out(site, box)


@run_by(played)
async def test_an_applied_box_whose_rules_the_installed_definition_lacks_is_refused_until_it_has_them_PH_10(
    site: BoxSite,
) -> None:
    rule = "size(self.spec.image) < 9"
    definition = crd()
    await site.install(definition)
    named = {**settings("one"), "crd": {"name": SHOP.crd_name}, "validation": [{"rule": rule}]}
    box = await site.apply_box("shops", named)
    message = await until_condition(site, box, "Accepted", "False", "Invalid")
    assert message.startswith(f"spec.crd: the CRD {SHOP.crd_name} lacks the rule {rule}: apply what `box manifests")

    (version,) = definition["spec"]["versions"]
    schema = {**version["schema"]["openAPIV3Schema"], "x-kubernetes-validations": [{"rule": rule}]}
    ruled = {**version, "schema": {"openAPIV3Schema": schema}}
    patch = {"spec": {"versions": [ruled]}}
    await site.admin.patch(
        ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, SHOP.crd_name),
        patch,
        patch_type=PatchType.MERGE,
        field_manager="kubectl",
    )
    await until_rolled_out(site, box)


@run_by(played)
async def test_a_box_is_served_with_the_definitions_that_the_cluster_has_now_PH_10(site: BoxSite) -> None:
    """An item of another manager is drift in an atomic list, and none once the CRD gives the list a key."""

    def zones(**more: Any) -> Manifest:
        parts = {**SPEC_SCHEMA["properties"]["parts"], **more}
        names = {"plural": "zones", "singular": "zone", "kind": "Zone", "listKind": "ZoneList"}
        schema = {**SPEC_SCHEMA, "properties": {**SPEC_SCHEMA["properties"], "parts": parts}}
        return {**crd(schema, names=names), "metadata": {"name": f"zones.{SHOP.group}"}}

    zone = attrs.evolve(SHOP, kind="Zone", plural="zones")

    await site.install(zones())
    made = {"apiVersion": SHOP.api_version, "kind": "Zone", "metadata": {"name": "z"}}
    spec = {"image": "r/x:1", "parts": [{"name": "ours"}]}
    box = await site.apply_box("shops", spec_of({"id": "zone", "template": {**made, "spec": spec}}))
    await until_rolled_out(site, box)
    await site.create(SHOP, "first", spec=SPEC)
    await site.clock.sleep(60)

    keyed = zones(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})
    definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, zone.crd_name)
    await site.edit(definition, {"spec": {"versions": keyed["spec"]["versions"]}})
    await site.clock.sleep(60)
    before = written(site)
    theirs = {**made, "metadata": {"name": "z", "namespace": NS}, "spec": {"parts": [{"name": "theirs"}]}}
    await site.admin.apply(theirs, kind=zone, field_manager="others")
    await site.clock.sleep(60)

    live = await site.get(ObjectRef(zone, NS, "z"))
    assert [part["name"] for part in get_path(live, "spec", "parts")] == ["ours", "theirs"]
    only_theirs = [f"/apis/{SHOP.api_version}/namespaces/{NS}/zones/z"]
    assert written(site)[len(before) :] == only_theirs


# --- accounts, other boxes, namespaces --------------------------------------------------------------------------------


def of_account(value: str) -> dict[str, Any]:
    return settings(value, serviceAccountName="apps")


@pytest.mark.slow
@run_by(in_process, QUICK, rbac=True)
async def test_an_applied_box_judges_and_writes_as_the_account_of_its_objects_PH_10(site: BoxSite) -> None:
    """What the account may not do holds the roll-out before anything moves, and the earlier revision goes on."""
    resource = settings("one")["resources"][0]
    box = attrs.evolve(box_of(resource, serviceAccountName="apps"), name="shops")
    more = attrs.evolve(box_of(resource, secret("keys"), serviceAccountName="apps"), name="shops")
    operator = RoleOptions(account="vworkspace-operator")

    await site.install(applied_box_definition())
    await grant_all(site, of_the_operator(operator))
    await grant_all(site, box_rbac(more, attrs.evolve(operator, elects=False)))
    await grant_all(site, account_rbac(box, RoleOptions(NS, "apps", (NS,))))
    async with site.serving():
        shops = await site.apply_box("shops", of_account("one"))
        await until_rolled_out(site, shops)
        first = await site.create(SHOP, "first", spec=SPEC)
        await site.until_ready(first)
        assert site.server is not None
        writers = {entry.user for entry in site.server.audit.writes() if "/configmaps/first" in entry.path}
        assert writers == {f"system:serviceaccount:{NS}:apps"}

        keys = secret("keys", data={"a": "b"})
        await site.apply_box("shops", spec_of(*settings("two")["resources"], keys, serviceAccountName="apps"))
        message = await until_condition(site, shops, "RolledOut", "False", "Judging")
        await site.clock.sleep(60)
        message = (await site.condition(shops, "RolledOut"))[2]
        assert message.startswith("0 of 1 object judged; Shop team/first: list Secret team: secrets is forbidden")
        await site.admin.delete(child("first"))
        await until_value(site, "first", "one")
        assert await value_of(site, "first") == "one"

        wider = account_rbac(more, RoleOptions(NS, "apps", (NS,)))
        (role,) = (each for each in wider if each["kind"] == "Role")
        await site.edit(ObjectRef(ROLES["Role"], NS, role["metadata"]["name"]), {"rules": role["rules"]})
        await until_rolled_out(site, shops)
        assert await value_of(site, "first") == "two"


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_a_box_without_end_of_writes_leaves_another_box_its_share_PH_10(site: BoxSite) -> None:
    """Each box has workers of its own, and a budget of writes: while one has hundreds to make, the other is served."""

    async def story(site: BoxSite) -> None:
        for number in range(300):
            await site.create(SHOP, f"shop-{number}", spec=SPEC)
        busy = await site.apply_box("shops", settings("one"))
        await until_condition(site, busy, "Serving", "True", "Running")
        began = site.clock.monotonic()
        other = {**crd()["spec"], "group": "other.example.com"}
        quiet = await site.apply_box("quiet", {**settings("two"), "crd": {"spec": other}})
        await until_rolled_out(site, quiet)
        kind = attrs.evolve(SHOP, group="other.example.com")
        await site.until_ready(await site.create(kind, "quiet", spec=SPEC))
        assert site.clock.monotonic() - began < 3
        assert (await site.condition(busy, "RolledOut"))[1] == "Progressing"
        await until_rolled_out(site, busy)

    await site.install(applied_box_definition(), crd())
    async with site.serving():
        await story(site)


@pytest.mark.slow
@run_by(played)
async def test_an_object_in_a_namespace_that_the_box_does_not_select_stops_no_roll_out_PH_10(site: BoxSite) -> None:
    selected = {"namespaces": {"matchLabels": {"shops": "yes"}}}
    await site.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"labels": {"shops": "yes"}}})
    await site.namespace("outside")
    box = await set_up(site, 2, **selected)
    stray = {**SHOP.manifest("a-stray", "outside"), "spec": SPEC}
    await site.admin.create(stray, kind=SHOP, field_manager="kubectl")
    await site.clock.sleep(60)
    await site.apply_box("shops", settings("two", **selected))
    await until_value(site, "shop-0", "two")
    await until_value(site, "shop-1", "two")
    await until_rolled_out(site, box)
