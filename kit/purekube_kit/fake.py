"""A cluster in memory on virtual time: an hour takes no time, and the same test has the same course each time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kubelab.clock import START, BusyError, VirtualClock, VirtualTimeLoop
from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import CORE_EVENT, CUSTOM_RESOURCE_DEFINITION, EVENT, LEASE, NAMESPACE
from purekube.ports import KubeApi, KubeRequest
from purekube.versions import Converter
from purekube_kit.cluster import ClusterUnderTest, Definition
from purekube_kit.faults import ActiveFault, FaultBoard
from purekube_kit.logs import keeping_logs
from purekube_kit.process import Process
from purekube_kit.record import Write
from purekube_run.simulation.cluster import SIMULATED, MemoryCluster, ready_of
from purekube_run.simulation.controllers import do_nothing
from purekube_run.simulation.faults import Crash, Fault, Schedule

T = TypeVar("T")

_USER: Final = "system:serviceaccount:vworkspace-system:controllers"
_MOST_ROUNDS: Final = 3_000
"""The most rounds of the event loop without time passing; more are taken for a hot loop of controllers."""
_UNTOLD: Final = (EVENT, CORE_EVENT, LEASE)
"""The kinds whose writes are left out of the record: Events about controllers' work, and leases of leaders."""
_EPSILON: Final = 1e-6


class HotLoop(AssertionError):
    """A hot loop: controllers work for ever without time passing, undoing each other's writes or their own."""


class FakeCluster(ClusterUnderTest):
    """A cluster in memory, for a `with` block. Time passes in `until` and `after` only, and takes no real time.

    `kinds` are served: Resources, or CustomResourceDefinitions. With `workloads` Deployments, StatefulSets, DaemonSets,
    Jobs, claims and load balancers become ready as in a real cluster, with `flux` sources and releases, too;
    `behaviour` sets how. `converters` answer the conversion webhooks of CRDs with several versions. The API server is
    the embedded one, which refuses what a real one refuses.
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
        super().__init__(namespace)
        self._loop = VirtualTimeLoop(START, most_rounds=_MOST_ROUNDS)
        self._usual = behaviour or DownstreamBehaviour()
        self._memory = MemoryCluster(
            self._loop.now,
            simulated=SIMULATED if workloads else (),
            flux=flux,
            behaviour=self._usual,
            converters=converters,
        )
        self._memory.install(())
        self._clock = VirtualClock()
        self._board = FaultBoard(self._set_behaviour, self._usual)
        self._process: Process | None = None
        self._goal: Callable[[], bool] | None = None
        self._failure: BaseException | None = None
        self._version = 0
        self._logs = keeping_logs(self.log)
        self._loop.at_rest = self._at_rest
        self._loop.set_exception_handler(_unless_crashed)
        self._logs.__enter__()
        self.serve(*kinds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything that runs in the cluster, as leaving the `with` block does."""
        if self._loop.is_closed():
            return
        self._stop()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self._logs.__exit__(None, None, None)

    @property
    def seconds(self) -> float:
        """The virtual seconds since the cluster began."""
        return self._loop.time()

    # --- the world ---------------------------------------------------------------------------------------------------

    def _do(self, call: Callable[[KubeApi], Coroutine[Any, Any, T]]) -> T:
        return run_sync(call(self._memory.admin))

    def _install(self, definition: Manifest) -> None:
        if not self._memory.is_defined(str(definition["metadata"]["name"])):
            self._memory.create(self._memory.converted(definition), CUSTOM_RESOURCE_DEFINITION)

    def _have_namespace(self, name: str) -> None:
        if self._memory.get(ObjectRef(NAMESPACE, None, name)) is None:
            self._memory.create({**NAMESPACE.manifest(name), "metadata": {"name": name}}, NAMESPACE)

    def _set_behaviour(self, behaviour: DownstreamBehaviour) -> None:
        self._memory.workloads.behaviour = behaviour

    def _put_in_force(self, fault: ActiveFault) -> None:
        self._board.add(fault)

    def _heal_one(self, fault: ActiveFault) -> None:
        if fault in self._board.active:
            self._say(f"over: {fault.told}")
        self._board.remove(fault)

    def random_faults(self, schedule: Schedule) -> None:
        """Set the random faults of controllers' calls, which occur in addition to injected faults; `calm` is none."""
        self._board.background = schedule

    def heal(self) -> None:
        """End all faults."""
        self._say("all faults are over")
        self._board.clear()

    # --- the process -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._begin()
        self._wait(lambda: False, 0.0)

    def _begin(self) -> None:
        if self._runnables:
            api = self._memory.connect(_USER, "controllers/1", self._clock.sleep)
            self._process = Process(api, self._clock, self._runnables, self._fault_of, self._board, self._told)
            self._process.start(self._loop)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.task is not None:
            process.kill()
            self._loop.run_until_complete(asyncio.wait({process.task}))
            process.failure()

    def _fault_of(self, request: KubeRequest) -> Fault | None:
        self._version = self._memory.server.store.version
        return self._board.fault_of(request)

    def _told(self, request: KubeRequest, answer: Manifest | None, error: BaseException | None) -> None:
        if request.kind in _UNTOLD:
            return
        changed = self._memory.server.store.version != self._version
        write = Write(self.seconds, request.action, request.ref, "" if error is None else str(error), changed)
        self.writes.append(write)
        self._say(f"{write.told}{_write_line(write, answer)}")

    # --- time --------------------------------------------------------------------------------------------------------

    def _wait(self, holds: Callable[[], bool], within: float) -> bool:
        limit = self._loop.time() + within
        met = False

        def reached() -> bool:
            nonlocal met
            met = holds()
            return met or self._loop.time() >= limit - _EPSILON

        if asyncio._get_running_loop() is not None:
            raise RuntimeError("a test with a FakeCluster is a plain function, not a coroutine: its loop is its own")
        marker = self._loop.call_at(limit, do_nothing)
        self._goal = reached
        try:
            self._loop.run_forever()
        except BusyError:
            last = "\n".join(self.timeline[-6:])
            raise HotLoop(f"controllers go on for ever at the same moment:\n{last}") from None
        finally:
            self._goal = None
            marker.cancel()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return met

    def _at_rest(self) -> bool:
        """Run the simulated controllers when no other task is ready. Return whether there is work again."""
        if self._goal is None:
            return False
        try:
            return self._go_on(self._goal)
        except BaseException as error:
            self._failure = error
            self._loop.stop()
            return True

    def _go_on(self, goal: Callable[[], bool]) -> bool:
        before = self._memory.server.store.version
        self._memory.controllers.work()
        if self._memory.server.store.version != before or self._revive():
            return True
        if goal():
            self._loop.stop()
            return True
        return self._memory.controllers.plan(self._loop)

    def _revive(self) -> bool:
        """Restart the process if a fault has killed it. Raises any other error that ended it."""
        process = self._process
        if process is None or process.task is None:
            return False
        if process.is_dead and not process.task.done():
            process.kill()
            return True
        failure = process.failure()
        failure = Crash() if process.is_dead else failure
        if failure is None:
            return False
        if not isinstance(failure, Crash):
            raise failure
        self._say("the process is killed, and starts again")
        self._begin()
        return True


def _unless_crashed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report errors of tasks, except those of a killed process."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)


def _write_line(write: Write, answer: Manifest | None) -> str:
    if not write.verb.endswith("status") or answer is None:
        return ""
    return f": {ready_of(answer)}"
