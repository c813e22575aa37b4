"""The demo's world: API server and control plane on loopback ports, a simulated Flux, and the operator.

The operator is the production process (`vworkspace_app.manager.production`): HTTP both ways, nothing in memory.
"""

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import attrs
from anyio.abc import TaskGroup

from vworkspace_apiserver.inprocess import InProcessKube, run_sync
from vworkspace_app import VERSION
from vworkspace_app.control_plane.settings import AgentSettings
from vworkspace_app.credentials.live import Live
from vworkspace_app.credentials.source import CredentialsSource
from vworkspace_app.demo.platform import platform
from vworkspace_app.demo.spectator import WATCHED, Spectator
from vworkspace_app.embedded.access import write_kubeconfig
from vworkspace_app.embedded.cluster import EmbeddedCluster
from vworkspace_app.embedded.simulators import SIMULATORS
from vworkspace_app.manager.production import production_manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import Telemetry
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.apimachinery.resources import NAMESPACE, OPERATION
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_fake.controlplane.serve import serve as serve_control_plane
from vworkspace_fake.controlplane.server import ControlPlaneServer
from vworkspace_fake.downstream import DownstreamBehaviour, DownstreamSimulator
from vworkspace_fake.flux import FluxBehaviour, FluxSimulator
from vworkspace_kube import KubeApiClient, load_config

CLUSTER = "cluster-prod-1"
NAMESPACE_NAME = "org-myteam"
OWN_NAMESPACE = "vworkspace-system"
ADMIN_TOKEN = "demo-admin-token"


@attrs.frozen
class World:
    """What the story acts on and looks at. `started` is the moment, on the monotonic clock, when it began."""

    cluster: EmbeddedCluster
    control: ControlPlaneServer
    spectator: Spectator
    kubeconfig: Path
    cluster_url: str
    control_url: str
    admin: InProcessKube

    @property
    def engines(self) -> DownstreamSimulator:
        """The simulated downstream controllers."""
        assert self.cluster.downstream is not None
        return self.cluster.downstream

    @property
    def flux(self) -> FluxSimulator:
        """The simulated Flux, whose behaviour the story changes."""
        assert self.cluster.flux is not None
        return self.cluster.flux


@asynccontextmanager
async def open_world(
    behaviour: FluxBehaviour, engines: DownstreamBehaviour | None = None, telemetry: Telemetry | None = None
) -> AsyncIterator[World]:
    """Start everything, and stop it at the end. The operator is ready when the world is.

    With `engines` every downstream controller is simulated, and what they need is there. `telemetry` is the operator's.
    """
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-demo-")))
        servers = await open_group(stack)
        cluster = EmbeddedCluster.start(crd_manifests(), ("flux",) if engines is None else SIMULATORS)
        assert cluster.flux is not None
        cluster.flux.behaviour = behaviour
        admin = InProcessKube(cluster.server)
        for namespace in (_gated_namespace(), NAMESPACE.manifest(OWN_NAMESPACE)):
            run_sync(admin.create(namespace, kind=NAMESPACE, field_manager="demo"))
        if engines is not None and cluster.downstream is not None:
            cluster.downstream.behaviour = engines
            for kind, manifest in platform(NAMESPACE_NAME, OWN_NAMESPACE):
                run_sync(admin.create(manifest, kind=kind, field_manager="platform"))
        up, urls = anyio.Event(), list[str]()
        servers.start_soon(cluster.run, "127.0.0.1", 0, up, urls)
        control, token = ControlPlaneServer(), "demo-agent-token"
        control.tokens.add(CLUSTER, token)
        listening, control_urls = anyio.Event(), list[str]()
        servers.start_soon(_serve_control, control, listening, control_urls)
        await up.wait()
        await listening.wait()
        kubeconfig, token_file = folder / "kubeconfig", folder / "token"
        write_kubeconfig(kubeconfig, urls[0])
        token_file.write_text(token, encoding="utf-8")
        api = await stack.enter_async_context(KubeApiClient(load_config(kubeconfig)))
        source = CredentialsSource(api, OWN_NAMESPACE, control_urls[0], CLUSTER, token_file)
        settings = OperatorSettings(
            Settings(cluster_id=CLUSTER), identity="demo", namespace=OWN_NAMESPACE, version=VERSION
        )
        manager = await stack.enter_async_context(
            production_manager(
                api, settings, source, Live(await source.read()), agent=AgentSettings(), telemetry=telemetry
            )
        )
        watcher = await stack.enter_async_context(KubeApiClient(load_config(kubeconfig)))
        spectator = Spectator(watcher, started, WATCHED if engines is None else (*WATCHED, OPERATION, *engine_kinds()))
        # A group of its own, which ends before the connections that it uses are closed.
        working = await open_group(stack)
        working.start_soon(spectator.run)
        working.start_soon(manager.run)
        await manager.ready.wait()
        yield World(cluster, control, spectator, kubeconfig, urls[0], control_urls[0], admin)


async def open_group(stack: AsyncExitStack) -> TaskGroup:
    """A group whose tasks are cancelled when `stack` gets to it."""
    group = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(group.cancel_scope.cancel)
    return group


async def _serve_control(control: ControlPlaneServer, listening: anyio.Event, urls: list[str]) -> None:
    def announce(url: str) -> None:
        urls.append(url)
        listening.set()

    await serve_control_plane(control, "127.0.0.1", 0, admin_token=ADMIN_TOKEN, ready=announce)


def _gated_namespace() -> dict[str, object]:
    manifest = NAMESPACE.manifest(NAMESPACE_NAME)
    return {**manifest, "metadata": {"name": NAMESPACE_NAME, "labels": {"managed-by": "vworkspace"}}}
