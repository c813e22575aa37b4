"""The simulated parts of an examination in one namespace: Flux, the engines, the control plane."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar

import anyio
import attrs
from anyio.abc import TaskGroup, TaskStatus

from kubelab.downstream import DownstreamSimulator
from kubelab.downstream.behaviour import DownstreamBehaviour, JobBehaviour, SnapshotBehaviour, VeleroBehaviour
from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.simulation.running import run_simulator
from kubelab.simulation.simulator import Simulator
from purekube.apimachinery.manifest import Manifest
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send
from purekube_run.process.machine import SystemClock
from vworkspace_fake.controlplane.http import serve
from vworkspace_fake.controlplane.server import ControlPlaneServer

QUICK_FLUX: Final = FluxBehaviour(
    source_fetch_seconds=0.1,
    install_seconds=0.3,
    upgrade_seconds=0.3,
    rollback_seconds=0.1,
    uninstall_seconds=0.2,
    min_retry_seconds=0.2,
)
QUICK_ENGINES: Final = DownstreamBehaviour(
    velero=VeleroBehaviour(backup_seconds=0.5, restore_seconds=0.5, finalize_seconds=0.1),
    job=JobBehaviour(pod_seconds=0.5, terminating_seconds=0.2),
    snapshot=SnapshotBehaviour(cut_seconds=0.2, bind_seconds=0.2, checks_references=False),
)
ENGINES: Final = ("velero", "job", "snapshot")


def within(api: KubeApi, namespace: str) -> KubeApi:
    """Return a client like `api` whose lists and watches of namespaced kinds are restricted to `namespace`."""

    def narrowed(request: KubeRequest) -> KubeRequest:
        everywhere = request.verb in (KubeVerb.LIST, KubeVerb.WATCH) and request.namespace is None
        return attrs.evolve(request, namespace=namespace) if everywhere and request.kind.namespaced else request

    async def send(request: KubeRequest, proceed: Send) -> Manifest:
        return await proceed(narrowed(request))

    return api.through(send, lambda request, proceed: proceed(narrowed(request)))


B = TypeVar("B", FluxBehaviour, DownstreamBehaviour)


class SimulatorTask(Generic[B]):
    """A simulated controller of an examination, which runs as a task in `group` and can be paused.

    At each start `make` creates the simulator from its present behaviour, such as how long an upgrade takes. An object
    that the simulator cannot handle does not end the task.
    """

    def __init__(self, api: KubeApi, group: TaskGroup, make: Callable[[B], Any], behaviour: B) -> None:
        self._api = api
        self._group = group
        self._make: Callable[[B], Any] = make
        self._behaviour: B = behaviour
        self._running: tuple[Any, anyio.CancelScope] | None = None

    def behave(self, **changes: Any) -> None:
        """Replace fields of the simulator's behaviour, even while it runs."""
        self._behaviour = attrs.evolve(self._behaviour, **changes)
        if self._running is not None:
            self._running[0].behaviour = self._behaviour

    def begin(self) -> None:
        """Start the simulated controller unless it runs already. It reads all its objects in the cluster again."""
        if self._running is None:
            simulator = self._make(self._behaviour)
            simulator.recovers = True
            self._running = simulator, anyio.CancelScope()
            self._group.start_soon(self._run, *self._running)

    def pause(self) -> None:
        """Stop the simulated controller until the next `begin`, even in the middle of its work."""
        if self._running is not None:
            self._running[1].cancel()
            self._running = None

    async def _run(self, simulator: Simulator, scope: anyio.CancelScope) -> None:
        with scope:
            await run_simulator(self._api, SystemClock(), simulator)


def flux_in(api: KubeApi, group: TaskGroup, namespace: str) -> SimulatorTask[FluxBehaviour]:
    """Return a simulated Flux for the objects in one namespace, which runs in `group` once `begin` is called.

    It can be paused, and its behaviour can be changed.
    """
    narrow = within(api, namespace)
    return SimulatorTask(narrow, group, partial(FluxSimulator, narrow), QUICK_FLUX)


def engines_in(api: KubeApi, group: TaskGroup, namespace: str) -> SimulatorTask[DownstreamBehaviour]:
    """Return simulated engines (controllers that run Operations, like Velero) for the objects in one namespace.

    They run in `group` once `begin` is called. They can be paused, and their behaviour can be changed.
    """
    narrow = within(api, namespace)
    behaviour = attrs.evolve(QUICK_ENGINES, velero=attrs.evolve(QUICK_ENGINES.velero, namespace=namespace))
    return SimulatorTask(narrow, group, partial(DownstreamSimulator, narrow, names=ENGINES), behaviour)


async def serve_control_plane(server: ControlPlaneServer, *, task_status: TaskStatus[str]) -> None:
    """Serve a simulated control plane on a loopback port until cancelled. Its URL is passed to `task_status`."""
    await serve(server, "127.0.0.1", 0, admin_token="", ready=task_status.started)
