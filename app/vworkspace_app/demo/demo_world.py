"""The parts of the demo on this machine: an embedded API server and control plane, a simulated Flux, and the operator.

The control plane is the server that offers jobs to the operator. The servers listen on loopback ports. The operator is
the production one (`vworkspace_app.manager.production`), and talks to both servers over HTTP.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import attrs
from anyio.abc import TaskGroup

from kubelab.cluster.access import write_kubeconfig
from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.downstream import DownstreamBehaviour, DownstreamSimulator
from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.inprocess import InProcessKube, run_sync
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import NAMESPACE
from purekube.ports import KubeApi
from purekube_http import KubeApiClient, load_config
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app import USER_AGENT, VERSION
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_app.credentials.live_credential import CredentialsSource, Live
from vworkspace_app.demo.narrator import WATCHED, Narrator, Spectator
from vworkspace_app.demo.operations_scene import CAPABILITIES, OperationRequest, platform
from vworkspace_app.demo.scene import APPLICATION, CLUSTER, FIRST, NAME, NAMESPACE_NAME, QUICK, WANTED
from vworkspace_app.demo.story import PlayedWorld
from vworkspace_app.manager.production import production_manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import Telemetry
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import (
    CAPABILITY_PREFIX,
    CLUSTER_ID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    NAMESPACE_GATE,
    NAMESPACE_GATE_VALUE,
)
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_fake.controlplane.http import serve as serve_control_plane
from vworkspace_fake.controlplane.server import ControlPlaneServer

OWN_NAMESPACE = "vworkspace-system"
ADMIN_TOKEN = "demo-admin-token"
_BACKUP = "backup.yaml"


@attrs.frozen
class ServedCluster:
    """An embedded cluster that is served over HTTP at `url`, for users by the file `kubeconfig`.

    `api` and `watcher` are connections over HTTP. `admin` is an administrator's connection without HTTP.
    """

    cluster: EmbeddedCluster
    url: str
    kubeconfig: Path
    admin: InProcessKube
    api: KubeApiClient
    watcher: KubeApiClient

    @property
    def engines(self) -> DownstreamSimulator:
        """The simulated controllers downstream of the operator, such as those of Jobs and of Velero."""
        assert self.cluster.downstream is not None
        return self.cluster.downstream

    @property
    def flux(self) -> FluxSimulator:
        """The simulated Flux. The demo's story changes its behaviour, for example so that an upgrade fails."""
        assert self.cluster.flux is not None
        return self.cluster.flux


async def serve_cluster(stack: AsyncExitStack, cluster: EmbeddedCluster, *namespaces: Manifest) -> ServedCluster:
    """Serve a cluster on a loopback port until `stack` is closed, after the creation of these namespaces."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-demo-")))
    admin, kubeconfig = InProcessKube(cluster.server), folder / "kubeconfig"
    for namespace in namespaces:
        run_sync(admin.create(namespace, kind=NAMESPACE, field_manager="demo"))
    url = await stack.enter_async_context(cluster.serving())
    write_kubeconfig(kubeconfig, url)
    clients = [KubeApiClient(load_config(kubeconfig), user_agent=USER_AGENT) for _ in range(2)]
    api, watcher = [await stack.enter_async_context(client) for client in clients]
    return ServedCluster(cluster, url, kubeconfig, admin, api, watcher)


@attrs.frozen
class DemoWorld(PlayedWorld):
    """The parts of the demo on embedded servers: the cluster, the control plane, and the recorder of changes to
    objects.
    """

    place: ServedCluster

    async def running(self) -> list[str]:
        """Return the chart versions that the simulated Flux runs, without the digest that Flux appends to them."""
        return [load.version.partition("+")[0] for load in self.place.flux.workloads]

    async def repair(self) -> None:
        """Remove the rule of the simulated Flux by which the upgrade to one chart version fails."""
        self.place.flux.behaviour = attrs.evolve(QUICK, release_rules=())


@asynccontextmanager
async def open_world(
    behaviour: FluxBehaviour, engines: DownstreamBehaviour | None = None, telemetry: Telemetry | None = None
) -> AsyncIterator[DemoWorld]:
    """Start servers and operator, yield them once the operator is ready, and stop them after the block.

    `behaviour` is that of the simulated Flux. `engines` is the behaviour of the other simulated controllers downstream
    of the operator, such as Velero, and the objects that these need are created. Without `engines`, only Flux is
    simulated. The operator reports to `telemetry`.
    """
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        cluster = EmbeddedCluster.start(crd_manifests(), ("flux",) if engines is None else ("all",))
        gated = NAMESPACE.manifest(NAMESPACE_NAME, metadata={"labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}})
        place = await serve_cluster(stack, cluster, gated, NAMESPACE.manifest(OWN_NAMESPACE))
        place.flux.behaviour = behaviour
        if engines is not None and cluster.downstream is not None:
            cluster.downstream.behaviour = engines
            for kind, manifest in platform(NAMESPACE_NAME, OWN_NAMESPACE):
                run_sync(place.admin.create(manifest, kind=kind, field_manager="platform"))
        kinds = WATCHED if engines is None else (*WATCHED, OPERATION, *engine_kinds())
        spectator = Spectator(place.watcher, started, kinds)
        settings = OperatorSettings(
            Settings(cluster_id=CLUSTER), identity="demo", namespace=OWN_NAMESPACE, version=VERSION
        )
        folder = place.kubeconfig.parent
        control, control_url = await start_operator(stack, folder, place.api, spectator, settings, telemetry)
        yield DemoWorld(place.admin, spectator, control, control_url, APPLICATION, timedelta(0), place)


async def start_operator(
    stack: AsyncExitStack,
    folder: Path,
    api: KubeApi,
    spectator: Spectator,
    settings: OperatorSettings,
    telemetry: Telemetry | None = None,
) -> tuple[ControlPlaneServer, str]:
    """Start a control plane, and an operator that connects it to the cluster of `api`; both end with `stack`.

    Return the control plane and its URL once the operator is ready.

    The token with which the operator authenticates to the control plane is written into `folder`. `spectator`, the
    recorder of changes to objects, is started too. The operator reports to `telemetry`. Raises CommandError if the
    operator is not ready within the time limit of the spectator's waits, with the error of a kind that it cannot read.
    """
    servers = await open_group(stack)
    control, token, cluster_id = ControlPlaneServer(), "demo-agent-token", settings.decisions.cluster_id
    control.tokens.add(cluster_id, token)
    listening, urls = anyio.Event(), list[str]()
    servers.start_soon(_serve_control, control, listening, urls)
    await listening.wait()
    token_file = folder / "token"
    token_file.write_text(token, encoding="utf-8")
    source = CredentialsSource(api, settings.namespace, urls[0], cluster_id, token_file)
    credentials, agent = Live(await source.read()), AgentSettings()
    production = production_manager(api, settings, source, credentials, agent=agent, telemetry=telemetry)
    manager = await stack.enter_async_context(production)
    # A group of its own, which ends before the connections that it uses are closed.
    working = await open_group(stack)
    working.start_soon(spectator.run)
    working.start_soon(manager.run)
    with anyio.move_on_after(spectator.patience):
        await manager.ready.wait()
        return control, urls[0]
    troubles = ((informer.kind.crd_name, informer.trouble()[0]) for informer in manager.informers)
    unread = next((f": {name}: {trouble}" for name, trouble in troubles if trouble), "")
    raise CommandError(f"the operator could not read the cluster within {spectator.patience:g} seconds{unread}")


async def open_group(stack: AsyncExitStack) -> TaskGroup:
    """Return a task group whose tasks are cancelled when `stack` is closed."""
    group = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(group.cancel_scope.cancel)
    return group


async def _serve_control(control: ControlPlaneServer, listening: anyio.Event, urls: list[str]) -> None:
    def announce(url: str) -> None:
        urls.append(url)
        listening.set()

    await serve_control_plane(control, "127.0.0.1", 0, admin_token=ADMIN_TOKEN, ready=announce)


# --- the playground ---------------------------------------------------------------------------------------------------


def application() -> dict[str, Any]:
    """Return the ApplicationInstance as Odoo requests it, with an annotation for each simulated engine."""
    desired = APPLICATION.manifest(FIRST)
    marks = {CAPABILITY_PREFIX + name: engine for name, engine in CAPABILITIES.items()}
    return {**desired, "metadata": {**desired["metadata"], "annotations": marks}}


async def prepare_playground(narrator: Narrator[DemoWorld]) -> None:
    """Request the demo's application by a job after the story, which may have deleted it, and await the result.

    Then write a file with an Operation of type Backup, which the user can apply. Raises TooSlow after the time limit.
    """
    world = narrator.world
    await narrator.result(world.enqueue("job-playground", application(), 100))
    backup = OperationRequest("my-backup", "Backup", "velero", {"retention": "30d"}).manifest
    labels = {**backup["metadata"]["labels"], MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: CLUSTER}
    text = dump([{**backup, "metadata": {**backup["metadata"], "labels": labels}}], Format.YAML)
    (world.place.kubeconfig.parent / _BACKUP).write_text(text, encoding="utf-8")


def commands(world: DemoWorld) -> tuple[tuple[str, str], ...]:
    """Return commands that the user can try unchanged, each with a description."""
    here, where = world.place.kubeconfig.parent, f"-n {NAMESPACE_NAME}"
    version = f'{{"spec":{{"chart":{{"version":"{WANTED}"}}}}}}'
    return (
        ("kubectl get vworkspace -A", "everything that the operator looks after"),
        (f"kubectl describe appinst {NAME} {where}", "one application: its conditions and Events"),
        (f"kubectl patch appinst {NAME} {where} --type merge \\\n    -p '{version}'", "another version: Flux upgrades"),
        (f"kubectl apply -f {here}/{_BACKUP}", "a backup; follow it with: kubectl get op -A -w"),
        (f"kubectl delete appinst {NAME} {where}", "the application goes, its release first"),
    )


def playground_lines(world: DemoWorld) -> Iterator[str]:
    """Yield the lines that the demo prints at the end: addresses, files, and commands to try."""
    yield f'"{NAME}" is running, and so are the operator and the controllers'
    yield "that it relies on (simulated). Try, in another shell:"
    yield ""
    yield f"  export KUBECONFIG={world.place.kubeconfig}"
    for command, about in commands(world):
        yield ""
        yield f"  # {about}"
        yield f"  {command}"
    yield ""
    yield "What the control plane knows of it (its jobs and their results):"
    yield ""
    yield f"  curl -H 'Authorization: Bearer {ADMIN_TOKEN}' \\"
    yield f"    {world.control_url}/api/admin/jobs"
    yield ""
    yield "Ctrl-C ends everything."
