"""A world in the cluster that the environment names: set up before a story, cleaned after it (RUN-8)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from kubelab.downstream import DownstreamBehaviour
from kubelab.flux import FluxBehaviour
from purekube.apimachinery import resources as known
from purekube.apimachinery.errors import AlreadyExists, KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import SERVICE_ACCOUNT
from purekube.ports import Clock, KubeApi, PatchType
from purekube_http import KubeApiClient, load_config
from tests.support import e2e_world as worlds
from tests.support.cluster_choice import Reached, is_existing, reached, real_cluster
from tests.support.definitions import define, have_defined
from tests.support.e2e_world import NAMESPACES, NS, OWN_NS, VELERO_NS, World
from tests.support.kube_client import RemoteHands, RemoteRecord
from tests.support.namespace_ends import end_what_goes
from tests.support.recording_client import Witness
from tools.cluster.charts import Repository
from tools.cluster.up import Cluster
from vworkspace_app.install import InstallOptions, installation, tenant
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.labels import ALLOWED_TYPES, CLUSTER_ID, JOB_STORE

RIGHTS: Final = {kind.kind: kind for kind in known.RBAC_KINDS}
_LEFT: Final = (*(kind for kind in own_kinds.ALL_KINDS if kind.namespaced),)
"""What a story may leave in its namespace."""


@contextmanager
def environment_world(
    clock: Clock,
    behaviour: FluxBehaviour,
    *,
    crds: Sequence[Manifest] | None,
    engines: DownstreamBehaviour | None,
    alone: bool = False,
) -> Iterator[World]:
    """A world in the environment's cluster. A story that wants definitions of its own needs a cluster of its own."""
    with reached(alone=alone) as cluster, start_blocking_portal() as portal, _connected(portal, cluster) as hands:
        if crds is not None and not cluster.is_ours:
            pytest.skip("needs a cluster whose definitions may come and go")
        if cluster.real is not None:
            if engines is not None or behaviour is not worlds.QUICK:
                pytest.skip("scripts simulated controllers, and these are real")
            _push_charts(cluster.real)
        manifests = worlds.usual_crds(engines is not None) if crds is None else crds
        hands.do(partial(_define, manifests, cluster.is_ours and not cluster.is_fresh))
        hands.do(partial(_prepare, cluster))
        record = RemoteRecord(hands, list(_places(worlds.recorded(hands))))
        record.start()
        witnesses = Witness(hands.api), Witness(hands.api), Witness(hands.api)
        world = World.of(clock, hands, worlds.History(record), witnesses, behaviour, engines, reached=cluster)
        try:
            yield world
        finally:
            record.stop()
            if not cluster.is_fresh:
                hands.do(_clean)
                end_what_goes(world, NS, worlds.UNGATED_NS)


def _push_charts(cluster: Cluster) -> None:
    """Have the versions that stories ask for: all but one are a ConfigMap, that one has a hook that fails."""
    assert cluster.registries is not None, "the cluster runs without flux"
    repository = Repository(cluster.registries.trusted, NS, cluster.registries.authority)
    for version in (worlds.FIRST, worlds.EDITED, worlds.LATER):
        repository.push("nextcloud", version, like="settings")
    repository.push("nextcloud", worlds.BROKEN, {"hook": "fails"}, like="hooked")


@contextmanager
def _connected(portal: BlockingPortal, cluster: Reached) -> Iterator[RemoteHands]:
    with portal.wrap_async_context_manager(KubeApiClient(cluster.admin)) as api:
        yield RemoteHands(portal, api)


async def _define(crds: Sequence[Manifest], with_preconditions: bool, api: KubeApi) -> None:
    """Have these definitions and, in a cluster of our own, no other of those that we know."""
    if with_preconditions:
        await define(crds, worlds.usual_crds(True), api)
    else:
        await have_defined(crds, api)


async def _prepare(cluster: Reached, api: KubeApi) -> None:
    """Namespaces, and the operator's rights where it has none but these."""
    for name, labels in NAMESPACES.items():
        manifest = {**known.NAMESPACE.manifest(name), "metadata": {"name": name, "labels": dict(labels)}}
        try:
            await api.create(manifest, kind=known.NAMESPACE, field_manager="e2e")
        except AlreadyExists:
            fresh = {"metadata": {"annotations": {ALLOWED_TYPES: None}, "labels": dict(labels)}}
            ref = ref_of(manifest, known.NAMESPACE)
            await api.patch(ref, fresh, patch_type=PatchType.MERGE, field_manager="e2e")
    if cluster.restricted:
        await grant(api, VELERO_NS)


async def grant(api: KubeApi, velero_namespace: str = "", *, agent: bool = True) -> None:
    """Give the operator the rights that are printed for it, in namespaces that are there."""
    options = InstallOptions(namespace=OWN_NS, velero_namespace=velero_namespace, agent=agent)
    await apply_printed((*installation(options), *tenant(NS, options)), RIGHTS, api)
    await apply_printed(tenant(NS, options), {SERVICE_ACCOUNT.kind: SERVICE_ACCOUNT}, api)


async def apply_printed(manifests: Iterable[Manifest], kinds: Mapping[str, Kind], api: KubeApi) -> None:
    """Apply what is of these kinds among what is printed."""
    for manifest in manifests:
        if (kind := kinds.get(manifest["kind"])) is not None:
            await api.apply(manifest, kind=kind, field_manager="e2e", force=True)


def _places(kinds: Collection[Kind]) -> Iterator[tuple[Kind, str | None]]:
    for kind in kinds:
        yield kind, NS if kind.namespaced else None
    for kind in (known.VELERO_BACKUP, known.VELERO_RESTORE):
        if kind in kinds:
            yield kind, VELERO_NS
    yield known.EVENT, "default"  # where those of cluster-scoped objects are


def leave() -> None:
    """At the end of a run, take its namespaces out of a cluster that goes on without it."""
    if (cluster := real_cluster()) is not None:
        anyio.run(_leave, cluster.kubeconfig)
    elif worlds.SUFFIX and is_existing():
        anyio.run(_leave, None)


async def _leave(kubeconfig: Path | None) -> None:
    async with KubeApiClient(load_config(kubeconfig)) as api:
        for name in (NS, worlds.UNGATED_NS):
            with suppress(NotFound):
                await api.delete(ObjectRef(known.NAMESPACE, None, name))


async def _clean(api: KubeApi) -> None:
    """Leave nothing of the story behind: the operator is gone, so finalizers are taken off by hand."""
    for kind in _LEFT:
        await _remove(api, kind, NS)
    for kind in (own_kinds.APPLICATION_INSTANCE, own_kinds.OPERATION, known.HELM_RELEASE, known.HELM_CHART):
        await _remove(api, kind, worlds.UNGATED_NS)
    for kind in (known.VELERO_BACKUP, known.VELERO_RESTORE):
        await _remove(api, kind, VELERO_NS, f"{CLUSTER_ID}={worlds.CLUSTER}")
    await _remove(api, known.SECRET, OWN_NS, JOB_STORE)
    await _remove(api, own_kinds.CLUSTER, None)
    for content in await _contents(api):
        await _free(api, content, known.VOLUME_SNAPSHOT_CONTENT)
    for event in (await api.list(known.EVENT, namespace="default")).items:
        if get_path(event, "regarding", "name") == worlds.CLUSTER:
            with suppress(NotFound):
                await api.delete(ref_of(event, known.EVENT))


async def _contents(api: KubeApi) -> list[Manifest]:
    """What snapshots of the story's namespace hold, which is in no namespace."""
    with suppress(KindMissing):
        found = (await api.list(known.VOLUME_SNAPSHOT_CONTENT)).items
        return [content for content in found if get_path(content, "spec", "volumeSnapshotRef", "namespace") == NS]
    return []


async def _remove(api: KubeApi, kind: Kind, namespace: str | None, selector: str = "") -> None:
    try:
        page = await api.list(kind, namespace=namespace, label_selector=selector)
    except KindMissing:
        return
    for manifest in page.items:
        if namespace is not None or metadata(manifest)["name"] == worlds.CLUSTER:
            await _free(api, manifest, kind)


async def _free(api: KubeApi, manifest: Manifest, kind: Kind) -> None:
    ref = ref_of(manifest, kind)
    with suppress(NotFound):
        if metadata(manifest).get("finalizers"):
            free = {"metadata": {"finalizers": None}}
            await api.patch(ref, free, patch_type=PatchType.MERGE, field_manager="e2e")
        await api.delete(ref)
