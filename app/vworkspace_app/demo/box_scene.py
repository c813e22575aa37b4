"""The parts of the demo of boxes: an API server on a loopback port, simulated workloads, and a running box.

A box is an operator that a YAML file declares. The box runs as `box run` runs it: informers, queue, workers and Events
over HTTP.
"""

import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

from kubelab.cluster.access import write_kubeconfig
from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.downstream import DownstreamBehaviour, WorkloadBehaviour
from kubelab.inprocess import InProcessKube, run_sync
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import EVENT, NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.definition import crd_of
from purekube_http import KubeApiClient, load_config
from purekube_run.boxes.load import load_box, runnable
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.machine import SystemClock
from purekube_run.reconcilers.extensions import ExtensionManager
from vworkspace_app.demo.demo_world import open_group
from vworkspace_app.demo.spectator import Spectator
from vworkspace_app.manager.telemetry import Components, components_of_extensions
from vworkspace_core.api.labels import FIELD_MANAGER

FILE: Final = Path(__file__).parent / "boxes" / "webapp.yaml"
"""The file of the demo's box, equal to `examples/boxes/webapp.yaml`."""

NAMESPACE_NAME: Final = "team"
_UNHURRIED: Final = DownstreamBehaviour(
    workloads=WorkloadBehaviour(observe_seconds=0.05, ready_seconds=0.25, address_seconds=0.35)
)
"""The delays of simulated workloads in seconds: long enough to see which object waits for which."""


@attrs.frozen
class BoxScene:
    """The parts of the demo about a box: the box, the embedded cluster, and the recorder of changes (`spectator`).

    `kubeconfig` is a file by which the user reaches the cluster, and `admin` an API connection to it.
    """

    box: Box
    cluster: EmbeddedCluster
    spectator: Spectator
    kubeconfig: Path
    cluster_url: str
    admin: InProcessKube

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The box's own kind, then the kinds of its children, in the order of the file."""
        return (self.box.kind, *self.box.child_kinds)


@asynccontextmanager
async def open_box_scene(attach: Callable[[Components], None] = lambda components: None) -> AsyncIterator[BoxScene]:
    """Start the cluster and the box, and yield them once the box's controller is ready.

    Both are stopped after the block. `attach` is called before the controller runs. It gets the parts of the
    process, such as informers and controllers, so that it can display their state.
    """
    (box,) = runnable([load_box(str(FILE))])
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-demo-")))
        cluster = EmbeddedCluster.start([crd_of(box)], ("workloads",))
        assert cluster.downstream is not None
        cluster.downstream.behaviour = _UNHURRIED
        admin = InProcessKube(cluster.server)
        run_sync(admin.create(NAMESPACE.manifest(NAMESPACE_NAME), kind=NAMESPACE, field_manager="demo"))
        url = await stack.enter_async_context(cluster.serving())
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, url)
        api = await stack.enter_async_context(KubeApiClient(load_config(kubeconfig)))
        watcher = await stack.enter_async_context(KubeApiClient(load_config(kubeconfig)))
        clock = SystemClock()
        events = BackgroundEvents(api, clock, instance="demo", field_manager=FIELD_MANAGER)
        options = ManagerOptions(random.random)
        boxes = ExtensionManager(api, clock, events, options, composites=[composite_of(box)])
        attach(components_of_extensions(boxes, events))
        spectator = Spectator(watcher, started, (box.kind, *box.child_kinds, EVENT))
        # A group of its own, which ends before the connections that it uses are closed.
        working = await open_group(stack)
        working.start_soon(spectator.run)
        working.start_soon(events.run)
        working.start_soon(boxes.run)
        await boxes.wait_ready()
        yield BoxScene(box, cluster, spectator, kubeconfig, url, admin)
