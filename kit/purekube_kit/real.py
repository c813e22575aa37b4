"""A cluster that a test reaches over HTTP: a kube-apiserver on this machine, or an existing cluster."""

import asyncio
import secrets
import time
import unittest
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, Self, TypeVar

from kubelab.downstream import DownstreamSimulator
from kubelab.downstream.behaviour import DownstreamBehaviour, JobBehaviour, WorkloadBehaviour
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.errors import AlreadyExists, KindMissing, NotFound, OperatorError, Stale, leaves_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.ports import KubeApi, PatchType
from purekube.readiness import readiness
from purekube_http import KubeApiClient, load_config
from purekube_kit.cluster import SOMEBODY, ClusterUnderTest
from purekube_kit.faults import ActiveFault
from purekube_run.controller.observer import Reconciled
from purekube_run.process.machine import SystemClock
from purekube_run.simulation.cluster import SIMULATED
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.replica import Replica

T = TypeVar("T")

QUICK: Final = DownstreamBehaviour(
    workloads=WorkloadBehaviour(observe_seconds=0.02, ready_seconds=0.05, address_seconds=0.1),
    job=JobBehaviour(pod_seconds=0.1, terminating_seconds=0.05),
)
"""The behaviour of simulated workloads in real time: everything takes fractions of a second."""
_LOOK: Final = 0.05
_LONGEST: Final = 10.0
"""The maximum number of seconds that a test may let pass by `after`, since time is real."""
_STARTS: Final = 60.0


class NotHere(unittest.SkipTest):
    """The error raised when a test needs something that this cluster lacks.

    pytest and unittest skip such a test and show the reason.
    """


class RealCluster(ClusterUnderTest):
    """The cluster of a kubeconfig, with a namespace that is created for the test and deleted at its end. Time is real.

    With `workloads`, the controllers of Deployments and similar kinds are simulated, for a kube-apiserver that runs
    without them. CRDs that exist already are used as they are. CRDs that the test installs are deleted at the end,
    unless other users have created objects of their kinds by then.
    """

    def __init__(self, kubeconfig: str = "", context: str = "", *, workloads: bool) -> None:
        super().__init__(f"vworkspace-test-{secrets.token_hex(4)}", QUICK)
        self._began = time.monotonic()
        self.loop = asyncio.new_event_loop()
        self._config = load_config(kubeconfig or None, context or None)
        self._clients = [KubeApiClient(self._config) for _ in range(3)]
        self._admin, self._api, self._worker = self._clients
        self._workloads = workloads
        self._simulator = DownstreamSimulator(self._worker, QUICK, names=SIMULATED[:2])
        self._simulation: asyncio.Task[None] | None = None
        self.seed = 0
        self._failure: BaseException | None = None
        self._installed: list[ObjectRef] = []
        self._wide: dict[ObjectRef, str] = {}

    def __enter__(self) -> Self:
        self._logs.__enter__()
        for client in self._clients:
            self.loop.run_until_complete(client.__aenter__())
        self._have_namespace(self.namespace)
        if self._workloads:
            work = run_simulator(self._worker, SystemClock(), self._simulator)
            self._simulation = self.loop.create_task(work)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        try:
            self._clean()
        finally:
            self._end()
            self._logs.__exit__(None, None, None)

    def _end(self) -> None:
        if self._simulation is not None:
            self._simulation.cancel()
            self.loop.run_until_complete(asyncio.wait({self._simulation}))
        for client in self._clients:
            self.loop.run_until_complete(client.__aexit__(None, None, None))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    @property
    def seconds(self) -> float:
        """The seconds since the cluster was started."""
        return time.monotonic() - self._began

    # --- the world ---------------------------------------------------------------------------------------------------

    def _do(self, call: Callable[[KubeApi], Coroutine[Any, Any, T]]) -> T:
        return self.loop.run_until_complete(call(self._admin))

    def _install(self, definition: Manifest) -> None:
        ref = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, str(metadata(definition)["name"]))
        with suppress(AlreadyExists):
            kind = CUSTOM_RESOURCE_DEFINITION
            self._do(lambda api: api.create(definition, kind=kind, field_manager=SOMEBODY))
            self._installed.append(ref)
        if not self._wait(lambda: readiness(self._live(ref)).is_ready, _STARTS):
            raise RuntimeError(f"{ref} is not served after {_STARTS:g} s")

    def _have_namespace(self, name: str) -> None:
        if self._live(ObjectRef(NAMESPACE, None, name)) is None:
            if name != self.namespace:
                raise NotHere(f"makes objects in the namespace {name}; in a cluster of others it has {self.namespace}")
            self._do(lambda api: api.create(NAMESPACE.manifest(name), kind=NAMESPACE, field_manager=SOMEBODY))

    def _set_behaviour(self, behaviour: DownstreamBehaviour) -> None:
        self._simulator.behaviour = behaviour

    def _put_in_force(self, fault: ActiveFault) -> None:
        if fault.pods is not None and not self._workloads:
            raise NotHere(f"{fault.told}: the pods of this cluster are real")
        super()._put_in_force(fault)

    def _heal_one(self, fault: ActiveFault) -> None:
        super()._heal_one(fault)
        self.loop.run_until_complete(asyncio.sleep(0))

    # --- the process -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._runnables:
            return
        self._replica = replica = self._new_replica(self, "")
        replica.start()
        if not self._wait(lambda: replica.is_at_work, _STARTS):
            raise RuntimeError(f"the controllers are not at work after {_STARTS:g} s:\n" + "\n".join(self.log))

    def _stop(self) -> None:
        replica, self._replica = self._replica, None
        if replica is not None and replica.task is not None:
            replica.kill("stopped")
            self.loop.run_until_complete(asyncio.wait({replica.task}))

    def now(self) -> datetime:
        """Return the wall-clock time of this machine."""
        return SystemClock().now()

    def api_of(self, replica: Replica) -> KubeApi:
        """Return the client of the API server that the controllers use. It is the same for all processes."""
        return self._api

    def version(self) -> int:
        """Return 0. The version of a real API server's store is not known."""
        return 0

    def note(self, actor: str, what: str) -> None:
        """Do nothing. Only simulated clusters keep a trace of what happened."""

    def reconciled(self, replica: str, controller: str, done: Reconciled) -> None:
        """Do nothing. Reconciles in a real cluster are not recorded."""

    def written(self, write: ObservedWrite) -> None:
        """Add a write of the tested controllers to `writes`, which tests can read.

        Writes of Events and Leases are not added.
        """
        if (made := self._recorded(write, self.seconds)) is not None:
            self._say(made.told)

    def replica_ended(self, replica: Replica, error: BaseException | None) -> None:
        """Start `replica`, the process of the tested controllers, again if a fault has killed it: `error` is then None.

        Any other value of `error` is the error that ended the process. It is kept, and the next wait of the test raises
        it.
        """
        if replica is not self._replica:
            return
        if error is not None:
            self._failure = next(iter(leaves_of(error)))
            return
        self._say("the process is killed, and starts again")
        replica.start()

    # --- time --------------------------------------------------------------------------------------------------------

    def after(self, seconds: float) -> None:
        """Let real time pass, at most ten seconds. Raises NotHere if `seconds` is more, so that the test is skipped."""
        if seconds > _LONGEST:
            raise NotHere(f"lets {seconds:g} s pass, and time is real here: {_LONGEST:g} s at the most")
        super().after(seconds)

    def _wait(self, holds: Callable[[], bool], within: float) -> bool:
        limit = time.monotonic() + within
        while True:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if holds():
                return True
            if time.monotonic() >= limit:
                return False
            self.loop.run_until_complete(asyncio.sleep(min(_LOOK, max(0.0, limit - time.monotonic()))))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _clean(self) -> None:
        """Delete everything that the test created.

        Finalizers are removed first, because no controller runs any longer.
        """
        errors = [error for step in self._removals() if (error := _error_of(step)) is not None]
        if errors:
            raise errors[0]

    def _removals(self) -> Iterator[Callable[[], None]]:
        """Yield the steps of the removal. A step that is refused must not keep the others from being taken."""
        for kind in self._names:
            yield partial(self._free_all, kind)
        for ref, uid in self._wide.items():
            yield partial(self._free, ref, uid)
        for ref in self._installed:
            yield partial(self._uninstall, ref)
        yield partial(self._remove, ObjectRef(NAMESPACE, None, self.namespace))

    def _free_all(self, kind: Kind) -> None:
        for ref in self._left(kind):
            self._free(ref)

    def _uninstall(self, definition: ObjectRef) -> None:
        if not self._is_in_use(definition.name):
            self._remove(definition)

    def _created(self, made: Manifest, kind: Kind) -> None:
        if not kind.namespaced:
            self._wide[ref_of(made, kind)] = str(metadata(made)["uid"])

    def _is_in_use(self, definition: str) -> bool:
        """Report whether other users have objects of a CRD that the test installed.

        Deleting the CRD would delete these objects.
        """
        kinds = [kind for kind in self._names if kind.crd_name == definition]
        return any(self._any_of(kind) for kind in kinds[:1])

    def _any_of(self, kind: Kind) -> bool:
        with suppress(KindMissing):
            return bool(self._do(lambda api: api.list(kind, limit=1)).items)
        return False

    def _left(self, kind: Kind) -> Iterator[ObjectRef]:
        where = self.namespace if kind.namespaced else None
        if where is None:
            return
        with suppress(KindMissing):
            for item in self._do(lambda api: api.list(kind, namespace=where)).items:
                yield ref_of(item, kind)

    def _free(self, ref: ObjectRef, uid: str | None = None) -> None:
        """Delete an object without its finalizers. With `uid`, leave another object of that name as it is."""
        live = self._live(ref)
        if live is None or uid not in (None, metadata(live)["uid"]):
            return
        free = {"metadata": {"finalizers": None, "uid": metadata(live)["uid"]}}
        with suppress(NotFound):
            self._do(lambda api: api.patch(ref, free, patch_type=PatchType.MERGE, field_manager=SOMEBODY))
        self._remove(ref, uid)

    def _remove(self, ref: ObjectRef, uid: str | None = None) -> None:
        with suppress(NotFound, Stale):
            self._do(lambda api: api.delete(ref, uid=uid))


def _error_of(step: Callable[[], None]) -> OperatorError | None:
    try:
        step()
    except OperatorError as error:
        return error
    return None


def reachable(kubeconfig: str = "", context: str = "") -> str:
    """Return why a kubeconfig cannot be loaded, or an empty string if it can be loaded. The cluster is not contacted.

    `kubeconfig` is its path, and `context` one of its contexts. If they are empty, the defaults are used.
    """
    try:
        load_config(kubeconfig or None, context or None)
    except OperatorError as error:
        return error.message
    return ""
