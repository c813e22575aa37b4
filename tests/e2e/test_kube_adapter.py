"""The `KubeApi` port over real HTTP: what each call promises, kept by `KubeApiClient` against an API server.

Nothing here needs a garbage collector or a controller; the cluster comes from the environment (RUN-8).
"""

import os
from collections.abc import AsyncIterator
from typing import Any

import anyio
import attrs
import pytest

from purekube.apimachinery.errors import AlreadyExists, Conflict, Invalid, KindMissing, NotFound, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.controller.informer.store import ObjectStore
from purekube.controller.queue.event_handlers import same_object
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import KubeApi, PatchType, WatchEventType
from purekube_http import KubeApiClient, load_config
from purekube_run.controller.definitions import slim_definition, wake_when_served
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.process.machine import SystemClock
from tests.support.definitions import until_served
from tests.support.embedded_server import config_of, embedded
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@attrs.frozen
class Cluster:
    """A connected adapter, a namespace of the test's own, and a served kind with a status subresource."""

    api: KubeApi
    namespace: str
    things: Kind

    def thing(self, name: str, **fields: Any) -> dict[str, Any]:
        return {**self.things.manifest(name, self.namespace), **fields}

    def ref(self, name: str) -> ObjectRef:
        return ObjectRef(self.things, self.namespace, name)

    async def apply(self, manifest: Manifest, manager: str = "test", **options: Any) -> Manifest:
        return await self.api.apply(manifest, kind=self.things, field_manager=manager, **options)


def definition(kind: Kind) -> dict[str, Any]:
    """A CRD with a spec of a number, a free map and one with a rule, and with a status."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    ruled = {
        "type": "object",
        "properties": {"maybe": {"type": "string", "nullable": True}, "told": {"type": "boolean"}},
        "x-kubernetes-validations": [{"rule": "has(self.maybe) == self.told"}],
    }
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "free": free, "ruled": ruled}}
    schema = {"type": "object", "properties": {"spec": spec, "status": free}}
    version = {"name": kind.version, "served": True, "storage": True, "subresources": {"status": {}}}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    return {
        **CUSTOM_RESOURCE_DEFINITION.manifest(kind.crd_name),
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def install(api: KubeApi, kind: Kind) -> None:
    """Create the definition and wait until its objects can be listed."""
    await api.apply(definition(kind), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test")
    with anyio.fail_after(PATIENCE):
        await until_served(definition(kind), api)


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    things = Kind("adapter.vworkspace.test", "v1", "Thing", "things")
    if os.environ.get("E2E_CLUSTER") == "existing":
        async with KubeApiClient(load_config()) as api:
            async for ready in prepared(api, things):
                yield ready
    else:
        async with embedded() as (_, url), KubeApiClient(config_of(url)) as api:
            async for ready in prepared(api, things):
                yield ready


async def prepared(api: KubeApi, things: Kind) -> AsyncIterator[Cluster]:
    made = await api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "adapter-"}},
        kind=NAMESPACE,
        field_manager="test",
    )
    namespace = str(get_path(made, "metadata", "name"))
    await install(api, things)
    try:
        yield Cluster(api, namespace, things)
    finally:
        await api.delete(ObjectRef(NAMESPACE, None, namespace))


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize(
    ("before", "empty"),
    [
        ({"m": {"a": 1}, "n": 1}, {"m": {}, "n": 1}),
        ({"m": {"x": {"a": 1}}}, {"m": {"x": {}}}),
        ({"m": {"a": 1}}, {}),
    ],
)
async def test_a_map_that_an_apply_empties_is_empty_and_not_null_S_42(
    cluster: Cluster, before: dict[str, Any], empty: dict[str, Any], guarded: bool
) -> None:
    thing = cluster.thing("a", spec={"size": 1, "free": before})
    made = await cluster.apply(thing)
    emptied = {**thing, "spec": {"size": 1, "free": empty}}
    if guarded:
        version = made["metadata"]["resourceVersion"]
        emptied["metadata"] = {**thing["metadata"], "resourceVersion": version}

    dry = await cluster.apply(emptied, dry_run=True)
    answer = await cluster.apply(emptied)

    assert answer["spec"] == {"size": 1, "free": empty}
    assert await cluster.api.get(cluster.ref("a")) == answer
    assert dry["spec"]["size"] == 1
    assert (await cluster.apply({**thing, "spec": {"size": 1, "free": empty}})) == answer


async def test_a_refused_apply_names_what_was_refused_though_it_empties_a_map_too(cluster: Cluster) -> None:
    thing = cluster.thing("a", spec={"size": 1, "free": {"m": 1}})
    made = await cluster.apply(thing)

    with pytest.raises(Invalid) as refusal:
        await cluster.apply({**thing, "spec": {"size": None, "free": {}}})

    assert {"spec.free", "spec.size"} <= {cause.field for cause in refusal.value.causes}
    assert await cluster.api.get(cluster.ref("a")) == made


@pytest.mark.parametrize(("maybe", "present"), [(None, False), ("", True)])
async def test_a_declared_field_that_is_null_is_absent_for_a_rule(
    cluster: Cluster, maybe: str | None, present: bool
) -> None:
    with pytest.raises(Invalid):
        await cluster.apply(cluster.thing("a", spec={"ruled": {"maybe": maybe, "told": not present}}))

    made = await cluster.apply(cluster.thing("a", spec={"ruled": {"maybe": maybe, "told": present}}))
    assert made["spec"]["ruled"] == {"maybe": maybe, "told": present}


async def test_what_was_created_can_be_read_listed_changed_and_deleted(cluster: Cluster) -> None:
    api, ref = cluster.api, cluster.ref("a")
    made = await api.create(cluster.thing("a", spec={"size": 1}), kind=cluster.things, field_manager="test")
    assert await api.get(ref) == made

    updated = await api.update({**made, "spec": {"size": 2}}, kind=cluster.things, field_manager="test")
    assert get_path(updated, "metadata", "generation") == 2
    patched = await api.patch(ref, {"spec": {"size": 3}}, patch_type=PatchType.MERGE, field_manager="test")
    assert get_path(patched, "spec", "size") == 3
    operations = [{"op": "test", "path": "/spec/size", "value": 3}, {"op": "replace", "path": "/spec/size", "value": 4}]
    patched = await api.patch(ref, operations, patch_type=PatchType.JSON, field_manager="test")
    assert get_path(patched, "spec", "size") == 4

    page = await api.list(cluster.things, namespace=cluster.namespace)
    assert list(page.items) == [patched]
    await api.delete(ref)
    with pytest.raises(NotFound) as caught:
        await api.get(ref)
    assert not isinstance(caught.value, KindMissing)


async def test_a_list_in_pages_is_one_snapshot(cluster: Cluster) -> None:
    for number in range(5):
        await cluster.apply(cluster.thing(f"a-{number}"))
    first = await cluster.api.list(cluster.things, namespace=cluster.namespace, limit=2)
    await cluster.apply(cluster.thing("later"))

    pages = [first]
    while pages[-1].continue_token:
        token = pages[-1].continue_token
        pages.append(await cluster.api.list(cluster.things, namespace=cluster.namespace, limit=2, continue_token=token))

    assert [get_path(one, "metadata", "name") for page in pages for one in page.items] == [f"a-{at}" for at in range(5)]
    assert len({page.resource_version for page in pages}) == 1


async def test_selectors_narrow_a_list(cluster: Cluster) -> None:
    for name, color in (("a", "red"), ("b", "blue")):
        manifest = cluster.thing(name)
        manifest["metadata"]["labels"] = {"color": color}
        await cluster.apply(manifest)

    by_label = await cluster.api.list(cluster.things, namespace=cluster.namespace, label_selector="color in (red)")
    by_name = await cluster.api.list(cluster.things, namespace=cluster.namespace, field_selector="metadata.name=b")

    assert [get_path(item, "metadata", "name") for item in by_label.items] == ["a"]
    assert [get_path(item, "metadata", "name") for item in by_name.items] == ["b"]


async def test_a_second_identical_apply_changes_nothing_S_65(cluster: Cluster) -> None:
    first = await cluster.apply(cluster.thing("a", spec={"size": 1}))
    second = await cluster.apply(cluster.thing("a", spec={"size": 1}))

    assert get_path(first, "metadata", "resourceVersion") == get_path(second, "metadata", "resourceVersion")


async def test_a_conflict_names_managers_and_fields_and_force_takes_them_S_30_S_31(cluster: Cluster) -> None:
    await cluster.apply(cluster.thing("a", spec={"size": 1}), manager="first")
    await cluster.api.patch(
        cluster.ref("a"), {"spec": {"free": {"x": "1"}}}, patch_type=PatchType.MERGE, field_manager="second one"
    )
    desired = cluster.thing("a", spec={"size": 2, "free": {"x": "2"}})

    with pytest.raises(Conflict) as caught:
        await cluster.apply(desired, manager="third")
    assert [(conflict.manager, conflict.field) for conflict in caught.value.conflicts] == [
        ("first", ".spec.size"),
        ("second one", ".spec.free.x"),
    ]

    taken = await cluster.apply(desired, manager="third", force=True)
    assert get_path(taken, "spec") == desired["spec"]


async def test_a_dry_run_tells_and_does_nothing_S_13(cluster: Cluster) -> None:
    told = await cluster.apply(cluster.thing("a", spec={"size": 1}), dry_run=True)

    assert get_path(told, "spec", "size") == 1
    with pytest.raises(NotFound):
        await cluster.api.get(cluster.ref("a"))


async def test_status_has_an_endpoint_of_its_own_S_12_S_26(cluster: Cluster) -> None:
    api, status = cluster.api, {"status": {"phase": "Ready"}}
    with pytest.raises(NotFound):
        await api.apply_status(cluster.thing("a", **status), kind=cluster.things, field_manager="test")
    await cluster.apply(cluster.thing("a", spec={"size": 1}))

    written = await api.apply_status(cluster.thing("a", **status), kind=cluster.things, field_manager="test")

    assert get_path(written, "status", "phase") == "Ready"
    assert get_path(written, "spec", "size") == 1
    assert get_path(written, "metadata", "generation") == 1
    stale = cluster.thing("a", status={"phase": "Failed"})
    stale["metadata"]["resourceVersion"] = "1"
    with pytest.raises(Stale):
        await api.apply_status(stale, kind=cluster.things, field_manager="test")


async def test_a_deleted_object_is_not_resurrected_by_an_apply_with_its_uid_S_08(cluster: Cluster) -> None:
    made = await cluster.apply(cluster.thing("a"))
    await cluster.api.delete(cluster.ref("a"))
    again = cluster.thing("a")
    again["metadata"]["uid"] = get_path(made, "metadata", "uid")

    with pytest.raises(Stale):
        await cluster.apply(again)


async def test_an_overtaken_update_is_stale(cluster: Cluster) -> None:
    made = await cluster.apply(cluster.thing("a", spec={"size": 1}))
    await cluster.apply(cluster.thing("a", spec={"size": 2}))

    with pytest.raises(Stale):
        await cluster.api.update({**made, "spec": {"size": 3}}, kind=cluster.things, field_manager="test")


async def test_delete_preconditions_protect_another_object_of_that_name_W_30(cluster: Cluster) -> None:
    api, ref = cluster.api, cluster.ref("a")
    made = await cluster.apply(cluster.thing("a"))
    with pytest.raises(Stale):
        await api.delete(ref, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Stale):
        await api.delete(ref, resource_version="1")

    await api.delete(
        ref, uid=get_path(made, "metadata", "uid"), resource_version=get_path(made, "metadata", "resourceVersion")
    )
    with pytest.raises(NotFound):
        await api.delete(ref)


async def test_creating_twice_and_creating_nowhere(cluster: Cluster) -> None:
    manifest = {**CONFIG_MAP.manifest("a", cluster.namespace), "data": {"x": "1"}}
    await cluster.api.create(manifest, kind=CONFIG_MAP, field_manager="test")

    with pytest.raises(AlreadyExists):
        await cluster.api.create(manifest, kind=CONFIG_MAP, field_manager="test")
    with pytest.raises(NotFound, match="nowhere") as caught:
        await cluster.api.create(CONFIG_MAP.manifest("a", "nowhere"), kind=CONFIG_MAP, field_manager="test")
    assert not isinstance(caught.value, KindMissing)


@pytest.mark.parametrize("spec", [{"nope": 1}, {"size": "big"}], ids=["unknown field", "wrong type"])
async def test_content_that_does_not_fit_is_invalid_and_never_unavailable_S_15(
    cluster: Cluster, spec: dict[str, Any]
) -> None:
    manifest = cluster.thing("a", spec=spec)
    with pytest.raises(Invalid):
        await cluster.apply(manifest)
    with pytest.raises(Invalid):
        await cluster.api.create(manifest, kind=cluster.things, field_manager="test")


async def test_a_bad_name_is_invalid(cluster: Cluster) -> None:
    with pytest.raises(Invalid):
        await cluster.apply(cluster.thing("Not A Name?"))


async def test_a_kind_that_is_not_served_is_missing_REC_12(cluster: Cluster) -> None:
    for missing in (
        Kind("nobody.example.com", "v1", "Ghost", "ghosts"),
        attrs.evolve(cluster.things, plural="ghosts"),
        attrs.evolve(cluster.things, version="v9"),
    ):
        with pytest.raises(KindMissing):
            await cluster.api.list(missing)
        with pytest.raises(KindMissing):
            await anext(cluster.api.watch(missing, resource_version="1"))


@pytest.mark.slow
async def test_a_watch_brings_every_change_after_its_position_and_ends_at_its_timeout(cluster: Cluster) -> None:
    page = await cluster.api.list(cluster.things, namespace=cluster.namespace)
    await cluster.apply(cluster.thing("a", spec={"size": 1}))
    await cluster.apply(cluster.thing("a", spec={"size": 2}))
    await cluster.api.delete(cluster.ref("a"))

    events = [
        (one.type, get_path(one.object, "spec", "size"))
        async for one in cluster.api.watch(
            cluster.things, namespace=cluster.namespace, resource_version=page.resource_version, timeout_seconds=1
        )
        if one.type is not WatchEventType.BOOKMARK
    ]

    assert events == [(WatchEventType.ADDED, 1), (WatchEventType.MODIFIED, 2), (WatchEventType.DELETED, 2)]


@pytest.mark.slow
async def test_a_kind_that_appears_is_watched_without_a_restart_and_its_objects_are_reconciled_REC_12(
    cluster: Cluster,
) -> None:
    """Informers, queue and driver end to end: the definition comes, then an object, then its reconcile."""
    late = Kind("late.vworkspace.test", "v1", "Late", "lates")
    clock, reconciled = SystemClock(), anyio.Event()

    async def reconcile(key: ObjectRef) -> ReconcileResult:
        assert lates.store.get(key.namespace, key.name) is not None
        reconciled.set()
        return ReconcileResult()

    lates = InformerRunner(cluster.api, late, clock=clock, random=lambda: 0.5)
    store = ObjectStore(CUSTOM_RESOURCE_DEFINITION, transform=slim_definition)
    definitions = InformerRunner(cluster.api, CUSTOM_RESOURCE_DEFINITION, clock=clock, random=lambda: 0.5, store=store)
    definitions.subscribe(wake_when_served(lambda: [lates]))
    informers = Informers([lates, definitions])
    driver = WorkerPool(reconcile, clock=clock, has_seen=informers.has_seen, refresh=informers.refresh)
    lates.subscribe(driver.handler(same_object))

    async with anyio.create_task_group() as group:
        group.start_soon(informers.run)
        group.start_soon(driver.run)
        with anyio.fail_after(PATIENCE):
            await informers.wait_for_sync()
            assert lates.missing
            await install(cluster.api, late)
            manifest = late.manifest("a", cluster.namespace)
            await cluster.api.create(manifest, kind=late, field_manager="test")
            await reconciled.wait()
        assert "schema" not in str(store.get(None, late.crd_name))
        group.cancel_scope.cancel()
    await cluster.api.delete(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, late.crd_name))


async def test_an_object_can_be_refreshed_past_a_slow_watch_RUN_3(cluster: Cluster) -> None:
    """The informer does not even run: a live read brings the object in, and takes it out when it is gone."""
    informer = InformerRunner(
        cluster.api, cluster.things, namespace=cluster.namespace, clock=SystemClock(), random=lambda: 0.5
    )
    made = await cluster.apply(cluster.thing("a"))
    version = str(get_path(made, "metadata", "resourceVersion"))
    assert not informer.store.has_seen(cluster.ref("a"), version)

    await informer.refresh(cluster.ref("a"))
    assert informer.store.has_seen(cluster.ref("a"), version)

    await cluster.api.delete(cluster.ref("a"))
    await informer.refresh(cluster.ref("a"))
    assert len(informer.store) == 0
