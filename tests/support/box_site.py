"""A cluster with boxes running in it, with several faces: in process under virtual time, over HTTP, a kube-apiserver.

What runs is what `box run` runs: informers, queue, workers, Events. Workloads are simulated in all of them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import attrs
from lightkube.config.kubeconfig import KubeConfig, SingleConfig

from kubelab.clock import VirtualClock
from kubelab.downstream import DownstreamSimulator
from kubelab.downstream.behaviour import DownstreamBehaviour, JobBehaviour, WorkloadBehaviour
from kubelab.http.serving import kubeconfig
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.composites.composite import Composite
from purekube.ports import KubeApi
from purekube_http import KubeApiClient
from purekube_kit.kube_apiserver import OPERATOR_USER, RealServer
from purekube_run.boxes.applied_boxes import AppliedBoxes
from purekube_run.boxes.document import read_marked
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.machine import SystemClock
from purekube_run.reconcilers.extensions import ExtensionManager
from tests.support.embedded_server import config_of, embedded
from tests.support.lent_server import lent
from tests.support.site import Site
from tests.support.virtual_time import run as run_in_virtual_time
from vworkspace_core.api.labels import FIELD_MANAGER

NS: Final = "team"
EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples" / "boxes"
QUICK: Final = DownstreamBehaviour(
    workloads=WorkloadBehaviour(observe_seconds=0.02, ready_seconds=0.05, address_seconds=0.1),
    job=JobBehaviour(pod_seconds=0.1, terminating_seconds=0.05),
)
_OPERATOR: Final = Caller(
    OPERATOR_USER,
    ("system:serviceaccounts", "system:serviceaccounts:vworkspace-system", "system:authenticated"),
    "vworkspace-box/1",
)
_SIMULATED: Final = ("job", "workloads")


def example(name: str) -> Box:
    """A box of the examples."""
    (box,) = runnable(load_boxes([str(EXAMPLES / f"{name}.yaml")]))
    return box


def applied_example(name: str) -> dict[str, Any]:
    """An example with its CRD in it, without the rules and defaults for which a webhook has to be served."""
    given = read_marked(str(EXAMPLES / f"{name}.yaml"))[0].value
    spec = {key: value for key, value in given["spec"].items() if key not in ("mutation", "validation", "versions")}
    return {**given, "spec": {**spec, "crd": {"spec": example(name).crd["spec"]}}}


@attrs.define
class BoxSite(Site):
    """A site of boxes. `server` is the embedded one, where it is that."""

    server: ApiServer | None = None

    @asynccontextmanager
    async def running(
        self, *boxes: Box | Composite, resync: float | None = None, namespaces: tuple[str, ...] = ()
    ) -> AsyncIterator[ExtensionManager]:
        """Boxes at work while the block runs: a process that starts, and is gone without a word after it."""
        given = [box if isinstance(box, Composite) else composite_of(box) for box in boxes]
        chosen = [one if resync is None else attrs.evolve(one, resync=resync) for one in given]
        events = BackgroundEvents(self.api, self.clock, instance="test", field_manager=FIELD_MANAGER)
        options = ManagerOptions(Random(0).random, namespaces=namespaces)
        running = ExtensionManager(self.api, self.clock, events, options, composites=chosen)
        async with anyio.create_task_group() as group:
            group.start_soon(events.run)
            group.start_soon(running.run)
            await running.wait_ready()
            yield running
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def serving(self, *, place: str = NS, namespaces: tuple[str, ...] = ()) -> AsyncIterator[AppliedBoxes]:
        """A process that runs the boxes which are applied to the cluster, while the block runs; revisions are in
        `place`.
        """
        events = BackgroundEvents(self.api, self.clock, instance="test", field_manager=FIELD_MANAGER)
        options = ManagerOptions(Random(0).random, namespaces=namespaces)
        running = ExtensionManager(self.api, self.clock, events, options, namespaces=True)
        boxes = AppliedBoxes(self.api, self.clock, events, running, options, place)
        running.load(boxes.controller())
        async with anyio.create_task_group() as group:
            group.start_soon(events.run)
            group.start_soon(running.run)
            yield boxes
            group.cancel_scope.cancel()

    async def apply_box(self, name: str, spec: Mapping[str, Any]) -> ObjectRef:
        """Somebody applies an OperatorBox, for the first time or again."""
        manifest = {**OPERATOR_BOX.manifest(name), "spec": spec}
        await self.admin.apply(manifest, kind=OPERATOR_BOX, field_manager="kubectl", force=True)
        return ObjectRef(OPERATOR_BOX, None, name)

    @asynccontextmanager
    async def with_ready(
        self, box: Box, name: str, spec: Mapping[str, Any], *, namespaces: tuple[str, ...] = ()
    ) -> AsyncIterator[ObjectRef]:
        """A box at work while the block runs, and an object of its kind that is ready."""
        async with self.running(box, namespaces=namespaces):
            ref = await self.create(box.kind, name, spec=spec)
            await self.until_ready(ref)
            yield ref

    async def install(self, *definitions: Manifest) -> None:
        """Create CRDs, and the namespace."""
        for definition in definitions:
            await self.admin.create(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")
            await self.until(partial(self._is_established, metadata(definition)["name"]))

    async def _is_established(self, name: str) -> bool:
        live = await self.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name))
        conditions = get_path(live, "status", "conditions") or ()
        return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

    async def namespace(self, name: str = NS, **labels: str) -> None:
        """Create a namespace, which may be there."""
        made = {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": labels}}
        try:
            await self.admin.create(made, kind=NAMESPACE, field_manager="setup")
        except OperatorError:
            await self.edit(ObjectRef(NAMESPACE, None, name), {"metadata": {"labels": labels}})

    async def create(self, kind: Kind, name: str, **fields: Any) -> ObjectRef:
        """Somebody creates an object in the namespace."""
        manifest = {**kind.manifest(name, NS), **fields}
        await self.admin.create(manifest, kind=kind, field_manager="kubectl")
        return ObjectRef(kind, NS, name)

    async def until_reason(self, ref: ObjectRef, reason: str, kind: str = "Ready") -> str:
        """Wait for a reason; its message."""

        async def says_so() -> bool:
            return (await self.condition(ref, kind))[1] == reason

        await self.until(says_so)
        return (await self.condition(ref, kind))[2]

    async def until_there(self, ref: ObjectRef) -> Manifest:
        """Wait for an object."""

        async def is_there() -> bool:
            return await self.get(ref) is not None

        await self.until(is_there)
        found = await self.get(ref)
        assert found is not None
        return found


Play = Callable[[BoxSite], Awaitable[None]]
Face = Callable[[Play, DownstreamBehaviour], None]


def in_process(story: Play, behaviour: DownstreamBehaviour, *, rbac: bool = False) -> None:
    """Under virtual time; with `rbac` roles decide what boxes may do."""

    async def main() -> None:
        clock = VirtualClock()
        server = ApiServer(now=clock.now, collects=True, rbac=rbac)
        admin = InProcessKube(server)
        api = InProcessKube(server, caller=_OPERATOR)
        await _with_workloads(BoxSite(admin, api, clock, server), admin, story, behaviour)

    run_in_virtual_time(main)


async def _with_workloads(site: BoxSite, api: KubeApi, story: Play, behaviour: DownstreamBehaviour) -> None:
    async with anyio.create_task_group() as group:
        simulator = DownstreamSimulator(api, behaviour, names=_SIMULATED)
        group.start_soon(run_simulator, api, site.clock, simulator)
        await site.namespace()
        await story(site)
        group.cancel_scope.cancel()


def _over_http(story: Play, behaviour: DownstreamBehaviour) -> None:
    async def main() -> None:
        async with embedded() as (server, url):
            await _by_clients(config_of(url), config_of(url), story, behaviour, server)

    anyio.run(main)


async def _by_clients(
    admin: SingleConfig,
    operator: SingleConfig,
    story: Play,
    behaviour: DownstreamBehaviour,
    server: ApiServer | None = None,
) -> None:
    async with KubeApiClient(admin) as hands, KubeApiClient(operator) as api, KubeApiClient(admin) as workloads:
        await _with_workloads(BoxSite(hands, api, SystemClock(), server), workloads, story, behaviour)


def _real(story: Play, behaviour: DownstreamBehaviour) -> None:
    with lent() as server:
        config = _config(server)

        async def main() -> None:
            await _by_clients(config, config, story, behaviour)

        anyio.run(main)


def _config(server: RealServer) -> SingleConfig:
    config = KubeConfig.from_dict(server.kubeconfig()).get()
    assert config is not None
    return config


Limited = Callable[[Play, DownstreamBehaviour], None]


def _limited(story: Play, behaviour: DownstreamBehaviour) -> None:
    """A kube-apiserver on which boxes have the rights that the story grants, and no other."""
    with lent() as server:
        operator = KubeConfig.from_dict(kubeconfig(server.url, server.operator_token, authority=server.authority)).get()
        assert operator is not None

        async def main() -> None:
            await _by_clients(_config(server), operator, story, behaviour)

        anyio.run(main)


RIGHTS: Final[Mapping[str, Limited]] = {"in-process": partial(in_process, rbac=True), "kube-apiserver": _limited}
"""Faces on which roles decide what boxes may do."""
FACES: Final[Mapping[str, Face]] = {"in-process": in_process, "http": _over_http, "kube-apiserver": _real}
