"""A cluster in memory on virtual time: an hour passes at once, and each run of a test takes the same course."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.flux import FluxBehaviour
from kubelab.inprocess import run_sync
from kubelab.writes.writer import AdmissionPlugin
from purekube.apimachinery.admission_review import read_review
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import KubeApi
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import ReviewWebhook, reviewers
from purekube.versions import Converter
from purekube_kit.cluster import ClusterUnderTest, Definition
from purekube_kit.faults import ActiveFault
from purekube_run.simulation.cluster import SIMULATED, ready_of
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.faults import Schedule
from purekube_run.simulation.world import World, WorldHotLoop

T = TypeVar("T")

_USER: Final = "system:serviceaccount:vworkspace-system:controllers"
_MOST_ROUNDS: Final = 3_000
"""The maximum number of iterations of the event loop at one moment of virtual time; more are a hot loop."""


class HotLoop(AssertionError):
    """The failure raised when controllers stay busy forever without time passing.

    They undo each other's writes, or their own.
    """


def _plugins(kind: Resource[Any, Any]) -> Iterator[AdmissionPlugin]:
    """Yield the admission plugins that replace the webhooks of a kind."""
    for reviewer in reviewers(kind):
        yield AdmissionPlugin(kind.kind.crd_name, kind.kind, partial(_reviewed, reviewer))


def _reviewed(reviewer: ReviewWebhook, body: Manifest) -> Manifest:
    return reviewer.answer(read_review(body))


class FakeCluster(ClusterUnderTest):
    """A cluster in memory, for a `with` block. Time passes only in `until` and `after`, and takes no real time.

    `kinds` are Resources or CustomResourceDefinitions to serve. With `workloads`, Deployments, StatefulSets,
    DaemonSets, Jobs, PersistentVolumeClaims and load balancers become ready as in a real cluster; `behaviour` sets how.
    With `flux`, Flux sources and releases become ready, too. `converters` replace the conversion webhooks of CRDs with
    several versions. The API server is the embedded one, which refuses what a real one refuses.
    """

    def __init__(
        self,
        *kinds: Definition,
        workloads: bool = True,
        flux: bool = False,
        namespace: str = "default",
        behaviour: DownstreamBehaviour | None = None,
        converters: Sequence[Converter] = (),
    ) -> None:
        super().__init__(namespace, behaviour or DownstreamBehaviour())
        self._world = World(
            most_rounds=_MOST_ROUNDS,
            simulated=SIMULATED if workloads else (),
            flux=FluxBehaviour() if flux else None,
            behaviour=behaviour,
            converters=converters,
        )
        self._world.install(())
        self._world.timeline = self.timeline
        self._world.on_write.append(self._written)
        self._logs.__enter__()
        self._world.open()
        self.serve(*kinds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything that runs in the cluster, as leaving the `with` block does."""
        if not self._world.loop.is_closed():
            self._stop()
            self._world.close()
            self._logs.__exit__(None, None, None)

    @property
    def seconds(self) -> float:
        """The virtual seconds since the cluster was started."""
        return self._world.seconds

    # --- the world ---------------------------------------------------------------------------------------------------

    def _do(self, call: Callable[[KubeApi], Coroutine[Any, Any, T]]) -> T:
        return run_sync(call(self._world.admin))

    def _install(self, definition: Manifest) -> None:
        if not self._world.is_defined(str(definition["metadata"]["name"])):
            self._world.create(self._world.converted(definition), CUSTOM_RESOURCE_DEFINITION)

    def serve(self, *definitions: Definition) -> None:
        """Serve kinds: install their CustomResourceDefinitions if they are missing.

        If a Resource has functions that validate or mutate its objects (`reviewed`), the server calls them directly: no
        webhook is needed.
        """
        super().serve(*definitions)
        plugins = self._world.server.plugins
        for one in definitions:
            if isinstance(one, Resource) and not any(plugin.kind == one.kind for plugin in plugins):
                plugins += _plugins(one)

    def _have_namespace(self, name: str) -> None:
        self._world.have_namespace(name)

    def _set_behaviour(self, behaviour: DownstreamBehaviour) -> None:
        self._world.set_behaviour(engines=behaviour)

    def _heal_one(self, fault: ActiveFault) -> None:
        if fault in self._board.active:
            self._say(f"over: {fault.told}")
        super()._heal_one(fault)

    def random_faults(self, schedule: Schedule) -> None:
        """Set the function that decides which requests of controllers fail at random, in addition to injected faults.

        `schedule` takes a request and returns its fault, or None if the request is to succeed. A schedule that always
        returns None ends random faults.
        """
        self._board.background = schedule

    def heal(self) -> None:
        """End all faults that the test has injected by `fault`."""
        self._say("all faults are over")
        super().heal()

    # --- the process -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._runnables:
            self._replica = self._new_replica(self._world, _USER)
            self._world.add(self._replica)
        self._wait(lambda: False, 0.0)

    def _stop(self) -> None:
        replica, self._replica = self._replica, None
        if replica is not None:
            self._world.remove(replica)

    def _written(self, write: ObservedWrite) -> None:
        made = self._recorded(write, write.at, changed=self._world.server.store.version != write.version)
        if made is not None:
            shows_status = write.request.subresource == "status" and write.answer is not None
            self._say(f"{made.told}: {ready_of(write.answer or {})}" if shows_status else made.told)

    def _wait(self, holds: Callable[[], bool], within: float) -> bool:
        try:
            return self._world.until(holds, within)
        except WorldHotLoop as error:
            raise HotLoop(str(error)) from None
