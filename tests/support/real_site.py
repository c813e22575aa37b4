"""The operator's process on a cluster of real controllers, beside whatever else uses it: names of its own, real Flux.

Namespaces, account and roles are those of `demo --kubeconfig`; the process is `run`, connected to a control plane here.
"""

import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import attrs

from kubelab.flux.storage import release_document
from kubelab.http.serving import kubeconfig
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY, SECRET
from purekube_http import KubeApiClient, load_config
from purekube_run.controller.lookups import all_of
from purekube_run.process.yaml_documents import Format, dump
from tests.support.builders import instance_manifest
from tests.support.commands import Running
from tests.support.definitions import have_defined
from tests.support.patience import PATIENCE, pause_after
from tools.cluster.charts import Repository
from tools.cluster.up import Cluster
from vworkspace_app.demo.cluster_story import ClusterFixture
from vworkspace_app.demo.demo_world import open_group
from vworkspace_app.demo.narrator import Spectator
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_fake.controlplane import ControlPlaneServer, JobEntry
from vworkspace_fake.controlplane.http import serve as serve_control_plane

KINDS = (APPLICATION_INSTANCE, OCI_REPOSITORY, HELM_RELEASE)
CHART = "settings"


@attrs.define
class RealSite:
    """One installation. `spectator` counts every change of instances, sources and releases."""

    cluster: Cluster
    ground: ClusterFixture
    repository: Repository
    spectator: Spectator
    control: ControlPlaneServer
    control_url: str
    folder: Path
    _config: Mapping[str, Any]
    _processes: AsyncExitStack
    operator: Running | None = None
    """The process that was started last."""
    _starts: int = 0
    _read: int = 0
    _versions: set[tuple[str, str]] = attrs.field(factory=set)

    @property
    def namespace(self) -> str:
        """Return the gated namespace."""
        return self.ground.applications

    # --- the operator ------------------------------------------------------------------------------------------------

    async def start_operator(self, *words: str) -> Running:
        """Start a process, and return when it polls."""
        self._starts += 1
        place = self.folder / f"operator-{self._starts}"
        place.mkdir()
        (place / "kubeconfig").write_text(dump([self._config], Format.YAML), encoding="utf-8")
        (place / "token").write_text(self.ground.name, encoding="utf-8")
        process = Running(
            place,
            *("run", "--kubeconfig", place / "kubeconfig", "--namespace", self.ground.namespace),
            *("--control-plane-url", self.control_url, "--token-file", place / "token"),
            *("--cluster-id", self.ground.name, *words),
        )
        self._processes.enter_context(process)
        self.operator = process
        return process

    async def until(self, holds: Any, what: str, patience: float = PATIENCE) -> None:
        """Wait until something holds. AssertionError naming `what`."""
        began = time.monotonic()
        while not holds():
            waited = time.monotonic() - began
            assert waited < patience, f"{what}: not within {patience:g} s; {self.said()}"
            await anyio.sleep(pause_after(waited))

    def said(self) -> str:
        """Return what a failed wait says."""
        jobs = {job.id: (job.acks, job.result and job.result["outcome"]) for job in self.control.jobs}
        return f"{len(self.spectator.sightings)} changes seen; jobs {jobs}"

    # --- Odoo's side -------------------------------------------------------------------------------------------------

    def instance(self, name: str, version: str) -> dict[str, Any]:
        """Return the instance as Odoo sends it."""
        chart = {"sourceType": "oci", "url": self.repository.oci, "name": CHART, "version": version}
        values = {"source": "inline", "inline": {"motto": name}}
        return instance_manifest(name, self.namespace, chart=chart, values=values)

    def apply(self, name: str, version: str, generation: int) -> JobEntry:
        """Ask for an instance at a version."""
        return self._enqueue("apply", name, generation, self.instance(name, version))

    def delete(self, name: str, generation: int) -> JobEntry:
        """Ask for an instance to go."""
        which = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
        return self._enqueue("delete", name, generation, {**which, "namespace": self.namespace, "name": name})

    def _enqueue(self, kind: str, name: str, generation: int, payload: Mapping[str, Any]) -> JobEntry:
        key = f"ApplicationInstance/{self.namespace}/{name}@{generation}"
        job = f"{kind}-{name}-{generation}"
        return self.control.enqueue(self.ground.name, kind=kind, payload=payload, idempotency_key=key, job_id=job)

    # --- what there is -----------------------------------------------------------------------------------------------

    async def objects(self, kind: Kind, selector: str = "") -> tuple[Manifest, ...]:
        """Return the objects of a kind in the gated namespace."""
        return await all_of(self.ground.api, kind, selector=selector, namespace=self.namespace)

    async def deployed(self) -> dict[str, list[str]]:
        """Return the chart versions that Helm's own records call deployed, by release."""
        found: dict[str, list[str]] = {}
        for record in await self.objects(SECRET, "owner=helm,status=deployed"):
            version = release_document(record)["chart"]["metadata"]["version"].partition("+")[0]
            found.setdefault(record["metadata"]["labels"]["name"], []).append(version)
        return found

    def changes(self) -> int:
        """Return how many versions of objects were seen: what a new list shows again counts once."""
        for seen in self.spectator.sightings[self._read :]:
            meta = seen.object["metadata"]
            self._versions.add((meta["uid"], meta["resourceVersion"]))
        self._read = len(self.spectator.sightings)
        return len(self._versions)

    def uids(self, kind: Kind) -> dict[str, set[str]]:
        """Return every uid that objects of a kind were ever seen with, by name."""
        found: dict[str, set[str]] = {}
        for seen in self.spectator.sightings:
            if seen.kind == kind:
                found.setdefault(seen.object["metadata"]["name"], set()).add(seen.object["metadata"]["uid"])
        return found


@asynccontextmanager
async def real_site(cluster: Cluster, versions: Sequence[str]) -> AsyncIterator[RealSite]:
    """Have everything in the cluster except the operator's process, and charts of these versions."""
    assert cluster.registries is not None, "the cluster runs without flux"
    config = load_config(cluster.kubeconfig)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="vworkspace-site-")))
        api = await stack.enter_async_context(KubeApiClient(config))
        watcher = await stack.enter_async_context(KubeApiClient(config))
        await have_defined(crd_manifests(), api)
        ground = ClusterFixture(api, f"vworkspace-site-{secrets.token_hex(3)}")
        repository = Repository(cluster.registries.trusted, ground.name, cluster.registries.authority)
        for version in versions:
            await anyio.to_thread.run_sync(repository.push, CHART, version)
        stack.push_async_callback(ground.remove)
        await ground.make()
        operator = kubeconfig(config.cluster.server, await ground.token(), authority=_authority(cluster))
        control = ControlPlaneServer()
        control.tokens.add(ground.name, ground.name)
        servers = await open_group(stack)
        up, urls = anyio.Event(), list[str]()

        def announce(url: str) -> None:
            urls.append(url)
            up.set()

        async def serve() -> None:
            await serve_control_plane(control, "127.0.0.1", 0, admin_token="admin", ready=announce)

        servers.start_soon(serve)
        await up.wait()
        spectator = Spectator(watcher, time.monotonic(), KINDS, ground.applications)
        servers.start_soon(spectator.run)
        processes = await stack.enter_async_context(AsyncExitStack())
        stack.push_async_callback(ground.remove_applications)  # while an operator is there to do it
        yield RealSite(cluster, ground, repository, spectator, control, urls[0], folder, operator, processes)


def _authority(cluster: Cluster) -> bytes:
    return (cluster.folder / "authority.crt").read_bytes()
