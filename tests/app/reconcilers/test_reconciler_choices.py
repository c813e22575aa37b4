"""What controllers watch, share and may do; that none holds up another; how they stop (PH-7, RUN-4, L25)."""

from collections.abc import Iterable
from typing import Any, Final

import anyio
import attrs
import pytest
from structlog.testing import capture_logs

from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from purekube.controller.ownership import owner_reference
from purekube.ports import KubeApi
from purekube.reconcilers import (
    METADATA_ONLY,
    Cause,
    Constant,
    Feature,
    Filters,
    Object,
    Reconciler,
    Request,
    Result,
    Watch,
    Watched,
    Watcher,
    controller_access,
    resource,
)
from purekube_run.process.command_line import CommandError
from tests.support.audited_story import Remembered
from tests.support.controller_site import NS, SHOP, ControllerSite, ShopSpec, ShopStatus, play
from tests.support.rights import Right, used
from tests.support.run_by import run_by

Shop = Object[ShopSpec, ShopStatus]


@attrs.define
class Shops(Reconciler[Shop, None]):
    """Keeps its requests."""

    kind = SHOP
    requests: list[Request[Shop, None]] = attrs.field(factory=list)

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        self.requests.append(request)
        return Result()

    @property
    def names(self) -> list[str]:
        return [request.object.metadata.name for request in self.requests]


def watching(watch: Watch) -> Shops:
    """Shops with a choice of objects."""
    made: Shops = type("Shops", (Shops,), {"watch": watch})()
    return made


async def shops_of_two_teams(site: ControllerSite) -> None:
    await site.admin.create(NAMESPACE.manifest("other"), kind=NAMESPACE, field_manager="setup")
    await site.create("plain")
    await site.create("labelled", metadata={"name": "labelled", "namespace": NS, "labels": {"tier": "web"}})
    await site.create("elsewhere", metadata={"name": "elsewhere", "namespace": "other"})


@pytest.mark.parametrize(
    ("watch", "seen"),
    [
        (Watch(), {"plain", "labelled", "elsewhere"}),
        (Watch(namespace="other"), {"elsewhere"}),
        (Watch(label_selector="tier=web"), {"labelled"}),
        (Watch(field_selector="metadata.name=plain"), {"plain"}),
    ],
)
def test_a_namespace_and_selectors_choose_objects(watch: Watch, seen: set[str]) -> None:
    shops = watching(watch)

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            await shops_of_two_teams(site)
            await site.clock.sleep(5)
            assert (await site.finalizers(ObjectRef(SHOP.kind, NS, "plain")) != ()) == ("plain" in seen)

    play(story)
    assert set(shops.names) == seen


@pytest.mark.parametrize("fields", [METADATA_ONLY, (".spec.image",)])
def test_what_is_not_kept_in_memory_is_read_when_it_is_needed(fields: tuple[str, ...]) -> None:
    shops = watching(Watch(fields=fields))

    async def story(site: ControllerSite) -> None:
        async with site.running(shops) as controllers:
            ref = await site.create(spec={"image": "web:7", "replicas": 7})
            await site.until_ready(ref)
            await site.edit(ref, {"spec": {"replicas": 8}})
            await site.until_ready(ref)
            (kept,) = controllers.extensions.python[0].watches.own.store.objects()
            assert kept.get("spec", {}) == ({"image": "web:7"} if fields else {})

    play(story)
    assert [request.object.spec.replicas for request in shops.requests] == [7, 8]


@attrs.define
class Told(Watcher[Shop]):
    """Keeps what it is told, and takes its time or fails for it."""

    kind = SHOP
    timeout = 1000.0
    retry = Constant(5.0)
    told: list[str] = attrs.field(factory=list)
    seconds: float = 0.0
    failures: int = 0

    async def on_add(self, new: Shop) -> None:
        await anyio.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.told.append(f"add {new.spec.replicas}")

    async def on_update(self, old: Shop, new: Shop) -> None:
        self.told.append(f"update {old.spec.replicas} to {new.spec.replicas}")


@run_by(play)
async def test_controllers_of_a_kind_share_an_informer_and_none_holds_up_another(site: ControllerSite) -> None:
    quick, slow, failing = (type(name, (Told,), {})() for name in ("Quick", "Slow", "Failing"))
    slow.seconds, failing.failures, shops = 600.0, 3, Shops()
    async with site.running(quick, slow, failing, shops) as controllers:
        assert len({id(controller_passes.watches.own) for controller_passes in controllers.extensions.python}) == 1
        ref = await site.create()
        await site.until_ready(ref)
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.clock.sleep(3)
        assert quick.told == ["add 1", "update 1 to 2"]
        assert shops.names == ["shop", "shop"]
        assert slow.told == failing.told == []
        await site.clock.sleep(20)
        assert failing.told[0] == "add 2", "a retry has the current object"
        await site.clock.sleep(1000)
        assert slow.told[0] == "add 1"


def test_resync_looks_at_everything_again() -> None:
    made = type("Shops", (Shops,), {"resync": 100.0})()

    async def story(site: ControllerSite) -> None:
        async with site.running(made):
            await site.create()
            await site.clock.sleep(350)

    play(story)
    assert [request.cause for request in made.requests] == [Cause.CREATED, *[Cause.RESYNCED] * 3]
    assert not any(request.settled for request in made.requests)


@attrs.define
class Owning(Reconciler[Shop, None]):
    """Makes a ConfigMap of each shop, from a Secret that it reads."""

    kind = SHOP
    owns = (CONFIG_MAP,)
    reads = (Watched(SECRET, Watch(namespace=NS)),)
    api: KubeApi
    requests: list[Request[Shop, None]] = attrs.field(factory=list)

    def refers_to(self, object: Shop) -> Iterable[ObjectRef]:
        return (ObjectRef(SECRET, NS, object.spec.image),)

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        self.requests.append(request)
        meta = request.object.metadata
        secret = await self.api.list(SECRET, namespace=NS, field_selector=f"metadata.name={request.object.spec.image}")
        manifest = {
            **CONFIG_MAP.manifest(meta.name, NS),
            "metadata": {
                "name": meta.name,
                "namespace": NS,
                "ownerReferences": [owner_reference(request.object.kind, meta)],
            },
            "data": {"secrets": str(len(secret.items))},
        }
        await self.api.apply(manifest, kind=CONFIG_MAP, field_manager="shops")
        return Result()


def test_what_is_owned_and_read_wakes_and_own_writes_do_not() -> None:
    requests: list[Request[Shop, None]] = []

    def owning(api: KubeApi) -> Owning:
        return Owning(api, requests)

    async def story(site: ControllerSite) -> None:
        child = ObjectRef(CONFIG_MAP, NS, "shop")
        async with site.running(owning):
            ref = await site.create(spec={"image": "key"})
            await site.until_ready(ref)
            await site.clock.sleep(60)
            assert len(requests) == 1, "its own writes, of the child too, wake nobody"
            await site.edit(child, {"data": {"more": "by somebody"}})
            await site.clock.sleep(5)
            await site.create("key", SECRET, stringData={"a": "b"})
            await site.create("no-key", SECRET, stringData={"a": "b"})
            await site.clock.sleep(5)
            assert get_path(await site.get(child), "data", "secrets") == "1"

    play(story)
    woken = [(request.cause, [ref.kind for ref in request.woken_by]) for request in requests]
    assert woken == [(Cause.CREATED, []), (Cause.WOKEN, [CONFIG_MAP]), (Cause.WOKEN, [SECRET])]


@run_by(play)
async def test_a_child_of_another_owner_is_left_alone_and_its_owner_is_named(site: ControllerSite) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Café", "name": "bar", "uid": "other", "controller": True}
    meta = {"name": "shop", "namespace": NS}
    child = await site.create("shop", CONFIG_MAP, metadata={**meta, "ownerReferences": [owner]}, data={"a": "b"})
    unowned = await site.create("alone", CONFIG_MAP, metadata={**meta, "name": "alone"}, data={"a": "b"})
    async with site.running(Owning):
        taken, alone = await site.create("shop", spec={"image": "key"}), await site.create("alone")
        await site.clock.sleep(60)
        *words, why = await site.condition(taken)
        assert words == ["False", "NameTaken"]
        assert "controlled by Café bar (uid other)" in why
        assert "has another owner or none" in (await site.condition(alone))[2]
        for ref in (child, unowned):
            assert get_path(await site.get(ref), "data") == {"a": "b"}

        await site.admin.delete(child)
        await site.edit(unowned, {"metadata": {"ownerReferences": [await owner_of(site, alone)]}})
        await site.clock.sleep(600)
        for ref in (taken, alone):
            await site.until_ready(ref)


async def owner_of(site: ControllerSite, ref: ObjectRef) -> dict[str, Any]:
    uid = get_path(await site.get(ref), "metadata", "uid")
    owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": ref.name, "uid": uid}
    return {**owner, "controller": True, "blockOwnerDeletion": True}


@run_by(play)
async def test_a_child_that_is_cached_is_not_read_again_before_a_write(site: ControllerSite) -> None:
    async with site.running(Owning):
        ref = await site.create(spec={"image": "key"})
        await site.until_ready(ref)
        await site.clock.sleep(5)
        before = reads(site)
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.until_ready(ref)
        assert reads(site) == before == 1, "only when it was made"


def reads(site: ControllerSite) -> int:
    asked = used(Remembered(site.server.audit).requests())
    return sum(1 for right in asked if (right.resource, right.verb) == ("configmaps", "get"))


@attrs.define
class Labelled(Shops):
    """Shops that a ConfigMap of another owner names by its label, which no shop knows."""

    reads = (CONFIG_MAP,)

    def wakes(self, object: Manifest) -> Iterable[ObjectRef]:
        shop = get_path(object, "metadata", "labels", "shop")
        if shop == "nonsense":
            raise ValueError(shop)
        if shop == "foreign":
            return (ObjectRef(SECRET, NS, "0"),)
        return (ObjectRef(SHOP.kind, NS, shop),) if shop else ()


ZONE: Final = resource("example.com", "v1", "Zone", ShopSpec, ShopStatus, namespaced=False)


@pytest.mark.parametrize("kind", [SHOP, ZONE])
@pytest.mark.parametrize("fields", [None, METADATA_ONLY])
@pytest.mark.parametrize("read", [CONFIG_MAP, NAMESPACE])
def test_what_a_spec_names_wakes_its_object_whatever_is_in_memory(kind: Any, fields: Any, read: Kind) -> None:
    """`refers_to` and `wakes` name objects with a namespace although a kind has none."""

    class Referring(Shops):
        reads = (read,)

        def refers_to(self, object: Shop) -> Iterable[ObjectRef]:
            return (ObjectRef(read, NS, object.spec.image),)

    class Waking(Shops):
        reads = (read,)
        plain = (Feature.CONDITIONS, Feature.STATUS)

        def wakes(self, object: Manifest) -> Iterable[ObjectRef]:
            return (ObjectRef(kind.kind, NS, f"of-{metadata(object)['name']}"),)

    watch = {"kind": kind, "watch": Watch(fields=fields)}
    referring, waking = type("Referring", (Referring,), watch)(), type("Waking", (Waking,), watch)()

    async def story(site: ControllerSite) -> None:
        await site.install(ZONE)
        async with site.running(referring, waking):
            named = ObjectRef(kind.kind, NS if kind.kind.namespaced else None, "of-shared")
            manifest = {**kind.kind.manifest(named.name, named.namespace), "spec": {"image": "shared"}}
            await site.admin.create(manifest, kind=kind.kind, field_manager="kubectl")
            await site.clock.sleep(5)
            place = NS if read.namespaced else None
            await site.admin.create(read.manifest("shared", place), kind=read, field_manager="kubectl")
            await site.clock.sleep(5)

    play(story)
    for shops in (referring, waking):
        assert [request.cause for request in shops.requests] == [Cause.CREATED, Cause.WOKEN]


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (ObjectRef(SECRET, NS, "key"), "it returned a Secret of v1, and no ConfigMap of v1"),
        (ObjectRef(CONFIG_MAP, None, "key"), "it returned a ConfigMap of v1 without a namespace"),
        (ObjectRef(CONFIG_MAP, "", "key"), "it returned a ConfigMap of v1 without a namespace"),
    ],
)
@run_by(play)
async def test_a_reference_that_can_wake_nothing_is_logged_once(
    site: ControllerSite, *, ref: ObjectRef, told: str
) -> None:
    class Referring(Shops):
        reads = (CONFIG_MAP,)

        def refers_to(self, object: Shop) -> Iterable[ObjectRef]:
            return (ref,)

    with capture_logs() as logs:
        async with site.running(Referring()):
            for name in ("a", "b"):
                await site.until_ready(await site.create(name))
    assert [line["error"] for line in logs if line["event"].startswith("refers_to failed")] == [told]


def test_an_object_wakes_whom_its_labels_name_before_and_after_a_change() -> None:
    labelled = Labelled()
    names = [str(number) for number in range(3)]

    async def story(site: ControllerSite) -> None:
        async with site.running(labelled):
            for name in names:
                await site.until_ready(await site.create(name))
            labelled.requests.clear()
            note = await site.create(
                "note", CONFIG_MAP, metadata={"name": "note", "namespace": NS, "labels": {"shop": "0"}}
            )
            await site.clock.sleep(5)
            await site.edit(note, {"metadata": {"labels": {"shop": "1"}}})
            await site.clock.sleep(5)
            await site.admin.delete(note)
            await site.clock.sleep(5)

    play(story)
    woken = [(request.object.metadata.name, request.cause, request.woken_by[0].name) for request in labelled.requests]
    assert woken[0] == ("0", Cause.WOKEN, "note")
    assert sorted(woken[1:3]) == [("0", Cause.WOKEN, "note"), ("1", Cause.WOKEN, "note")]
    assert woken[3:] == [("1", Cause.WOKEN, "note")]


def test_a_function_that_modifies_what_it_gets_hides_nothing_from_other_controllers() -> None:
    """Controllers of a kind share an informer, and with it each change."""

    def taking(old: Any, new: Any) -> bool:
        new["metadata"]["labels"].clear()
        return True

    class Taking(Labelled):
        name = "a-taking"
        filters = Filters(predicate=taking)
        plain = (Feature.CONDITIONS, Feature.STATUS)

        def wakes(self, object: Any) -> Iterable[ObjectRef]:
            object["metadata"].pop("labels", None)
            return ()

    taking_all, labelled = Taking(), type("Labelled", (Labelled,), {"filters": Filters(generation=False)})()

    async def story(site: ControllerSite) -> None:
        async with site.running(taking_all, labelled):
            shop = await site.create("0")
            await site.until_ready(shop)
            meta = {"name": "note", "namespace": NS, "labels": {"shop": "0"}}
            await site.create("note", CONFIG_MAP, metadata=meta)
            await site.clock.sleep(5)
            await site.edit(shop, {"metadata": {"labels": {"look": "again"}}})
            await site.clock.sleep(5)

    play(story)
    assert [request.cause for request in labelled.requests] == [Cause.CREATED, Cause.WOKEN, Cause.CHANGED]


def test_every_object_that_changes_during_a_call_is_named_to_the_next_one() -> None:
    class Slow(Labelled):
        async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
            await anyio.sleep(30)
            return await super().reconcile(request)

    slow, count = Slow(), 50

    async def story(site: ControllerSite) -> None:
        async with site.running(slow):
            shop = await site.create("0")
            await site.clock.sleep(5)
            for number in range(count):
                meta = {"name": f"note-{number}", "namespace": NS, "labels": {"shop": "0"}}
                await site.create(f"note-{number}", CONFIG_MAP, metadata=meta)
            await site.edit(shop, {"spec": {"replicas": 2}})
            await site.clock.sleep(60)

    play(story)
    assert [request.cause for request in slow.requests] == [Cause.CREATED, Cause.CHANGED]
    assert len(slow.requests[1].woken_by) == count


def test_a_wakes_that_fails_or_names_nobody_holds_up_nothing() -> None:
    labelled = Labelled()

    async def story(site: ControllerSite) -> None:
        async with site.running(labelled):
            shop = await site.create("0")
            await site.until_ready(shop)
            for name in ("nonsense", "foreign", "nobody", "0"):
                meta = {"name": name, "namespace": NS, "labels": {"shop": name}}
                await site.create(name, CONFIG_MAP, metadata=meta)
            await site.clock.sleep(5)

    play(story)
    assert [request.cause for request in labelled.requests] == [Cause.CREATED, Cause.WOKEN]


@run_by(play)
async def test_an_api_that_was_not_declared_is_refused_with_what_to_write(site: ControllerSite) -> None:
    @attrs.define
    class Greedy(Reconciler[Shop, None]):
        kind = SHOP
        api: KubeApi

        async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
            with pytest.raises(Forbidden, match="secrets: name the kind in owns, or to read it in reads"):
                await self.api.get(ObjectRef(SECRET, NS, "key"))
            with pytest.raises(Forbidden, match="it may get, list, watch"):
                await self.api.delete(ObjectRef(SHOP.kind, NS, "shop"))
            return Result()

    async with site.running(Greedy):
        await site.until_ready(await site.create())


@run_by(play)
async def test_the_verbs_that_are_used_are_those_that_are_printed(site: ControllerSite) -> None:
    requests: list[Request[Shop, None]] = []
    told = type("Told", (Told,), {"watch": Watch(fields=METADATA_ONLY)})()
    async with site.running(lambda api: Owning(api, requests), told) as controllers:
        ref = await site.create(spec={"image": "key"})
        await site.until_ready(ref)
        await site.clock.sleep(5)
        await site.admin.delete(ref)
        await site.until_gone(ref)
        desired = granted([controller_passes.controller for controller_passes in controllers.extensions.python])
    asked = set(used(Remembered(site.server.audit).requests()))
    assert {attrs.evolve(right, where="*") for right in asked} <= desired
    ours = ("shops", "shops/status", "customresourcedefinitions", "secrets")
    unused = desired - {attrs.evolve(right, where="*") for right in asked}
    assert {one for one in unused if one.resource in ours} <= {
        Right("*", "example.com", "shops", "get"),  # an overtaken copy is read again
        Right("*", "", "secrets", "get"),
    }


def granted(controllers: Iterable[Any]) -> set[Right]:
    accesses = controller_access(controllers)
    return {Right("*", access.kind.group, access.resource, verb) for access in accesses for verb in access.verbs}


@run_by(play)
async def test_a_call_in_hand_is_finished_at_the_end_and_nothing_more_is_begun(site: ControllerSite) -> None:
    told = Told(seconds=30.0)
    async with site.running(told) as controllers:
        await site.create("one")
        await site.clock.sleep(5)
        async with anyio.create_task_group() as group:
            group.start_soon(controllers.finish)
            await site.create("two")
        assert told.told == ["add 1"]
        assert not await site.finalizers(ObjectRef(SHOP.kind, NS, "two"))
        assert "example.com/told" in await site.finalizers(ObjectRef(SHOP.kind, NS, "one"))


def test_a_standby_keeps_caches_and_calls_nobody_until_it_is_elected() -> None:
    shops, told = Shops(), Told()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops, told, elected_after=100.0) as controllers:
            ref = await site.create()
            await site.edit(ref, {"spec": {"replicas": 2}})
            await site.clock.sleep(50)
            assert controllers.extensions.python[0].watches.own.store.get(NS, "shop") is not None
            assert not shops.requests
            assert not told.told
            assert not await site.finalizers(ref)
            await site.clock.sleep(60)

    play(story)
    assert [request.object.spec.replicas for request in shops.requests] == [2]
    assert told.told == ["add 2"]


def test_a_call_that_is_cut_off_at_the_end_is_made_again_by_the_next_process() -> None:
    slow, later = Told(seconds=1e6), Told()

    async def story(site: ControllerSite) -> None:
        async with site.running(slow):
            ref = await site.create()
            await site.clock.sleep(5)
        assert await site.finalizers(ref) == ["example.com/told-begun"]
        async with site.running(later):
            await site.clock.sleep(5)

    play(story)
    assert later.told == ["add 1"], "not a sync: nobody was told of it"


def test_a_kind_that_is_not_installed_holds_up_nobody_and_is_watched_as_soon_as_it_is() -> None:
    ghost = Kind("ghosts.example", "v1", "Ghost", "ghosts")

    @attrs.define
    class Ghosts(Watcher[Any]):
        kind = ghost
        told: list[str] = attrs.field(factory=list)

        async def on_add(self, new: Any) -> None:
            self.told.append(str(metadata(new)["name"]))

    ghosts = Ghosts()

    async def story(site: ControllerSite) -> None:
        async with site.running(ghosts, Shops()):
            await site.until_ready(await site.create())
            version = {"name": "v1", "served": True, "storage": True}
            schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
            crd = SHOP.crd() | {
                "metadata": {"name": "ghosts.ghosts.example"},
                "spec": {
                    "group": ghost.group,
                    "scope": "Namespaced",
                    "names": {"kind": "Ghost", "plural": "ghosts", "singular": "ghost", "listKind": "GhostList"},
                    "versions": [{**version, "schema": schema}],
                },
            }
            await site.admin.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")
            await site.clock.sleep(2)
            await site.create("casper", ghost)
            await site.clock.sleep(5)

    play(story)
    assert ghosts.told == ["casper"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "shops"}, "says no kind"),
        ({"name": "Not A Name"}, "must be such as shop-audit"),
        ({"timeout": 0}, "timeout must be seconds, more than 0"),
        ({"resync": -1.0}, "resync must be seconds"),
        ({"workers": 0}, "workers must be 1 or more"),
        ({"plain": ("everything",)}, "plain names everything: give conditions, echo,"),
        ({"reads": (SECRET,)}, "write `refers_to"),
        ({"owns": SECRET}, "owns must be a list of kinds"),
        ({"owns": ("v1/Secret",)}, "owns must name kinds"),
        ({"owns": (Watched("v1/Secret"),)}, "owns must name kinds"),  # type: ignore[arg-type]
        ({"wakes": lambda self, object: ()}, "`wakes` is asked only about objects of `reads`"),
        ({"conditions": ("Ready",)}, "none of Ready, Reconciling, Stalled"),
    ],
)
@run_by(play)
async def test_a_class_that_cannot_run_says_all_that_is_wrong(
    site: ControllerSite, *, wrong: dict[str, Any], says: str
) -> None:
    made = type("Shops", (Shops,), wrong)()
    with pytest.raises(CommandError, match=says.replace("(", r"\(")):
        async with site.running(made):
            pass


@run_by(play)
async def test_two_of_one_name_or_two_writers_of_a_status_cannot_run(site: ControllerSite) -> None:
    class Others(Shops):
        pass

    class Fields(Shops):
        plain = (Feature.CONDITIONS,)

    class Quiet(Shops):
        plain = (Feature.CONDITIONS, Feature.STATUS)

    refused = (
        ((Shops(), Shops()), "another `name`"),
        ((Shops(), Others()), "plain = "),
        ((Shops(), Fields()), "plain"),
    )
    for two, says in refused:
        with pytest.raises(CommandError, match=says):
            async with site.running(*two):
                pass
    async with site.running(Shops(), Quiet()):
        await site.until_ready(await site.create())
