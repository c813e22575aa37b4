"""A simulated cluster: an API server, simulated controllers and the processes under test, on a virtual clock (SIM-1).

Everything runs in one thread on one event loop whose time jumps to the next timer. Nothing sleeps, and a run depends
only on its seed and on the users' actions (SIM-3). Simulated controllers run whenever no task of a process is ready.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import structlog

from kubelab.clock import START, BusyError, VirtualTimeLoop
from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.flux import FluxBehaviour
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.storage.store import StoreSnapshot
from purekube.apimachinery.errors import leaves_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.ports import KubeApi
from purekube.versions import Converter
from purekube_run.controller.observer import Reconciled
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.cluster import SIMULATED, MemoryCluster
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.controllers import do_nothing
from purekube_run.simulation.replica import Replica

_MOST_ROUNDS: Final = 200_000
"""The maximum number of iterations of the event loop at one moment of virtual time; more are a hot loop."""
_EPSILON: Final = 1e-6
_AT_ONCE: Final = (0.0, 0.0)


class WorldHotLoop(AssertionError):
    """The error raised when simulated processes or controllers stay busy forever without time passing.

    For example, they undo each other's writes, or their own, in an endless loop.
    """


class World(MemoryCluster):
    """A simulated cluster with the processes of the operator under test (`replicas`). Virtual time passes only in `run`
    and `until`.

    `trace` has a line for every write request, every action and every fault. The functions in `on_write` are called for
    every write of a replica that reached the API server. Those in `on_end` are called when a process ends, with the
    error that ended it; without them, `until` raises the error. A process that has ended starts again after a random
    time between the two numbers of seconds in `restarts`.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        start: datetime = START,
        window: int = 10_000,
        most_rounds: int = _MOST_ROUNDS,
        simulated: Sequence[str] = SIMULATED,
        flux: FluxBehaviour | None = None,
        behaviour: DownstreamBehaviour | None = None,
        converters: Sequence[Converter] = (),
        restarts: tuple[float, float] = _AT_ONCE,
    ) -> None:
        self.loop = VirtualTimeLoop(start, most_rounds=most_rounds)
        super().__init__(
            self.loop.now,
            seed=seed,
            window=window,
            simulated=simulated,
            flux=flux,
            behaviour=behaviour,
            converters=converters,
        )
        self.seed = seed
        self.replicas: list[Replica] = []
        self.trace: list[str] = []
        self.on_write: list[Callable[[ObservedWrite], None]] = []
        self.on_end: list[Callable[[Replica, BaseException | None], None]] = []
        self.on_decision: list[Callable[[str, str], None]] = []
        self.on_note: list[Callable[[str, str], None]] = []
        """The functions that are called for each line of the trace."""
        self.on_reconciled: list[Callable[[str, str, Reconciled], None]] = []
        """The functions that are called for each reconcile, with the names of its replica and its controller."""
        self.decisions: dict[str, str] = {}
        """The last line that a controller logged about each object."""
        self.happened: Counter[str] = Counter()
        """The number of times that each fault happened."""
        self.crashed_at: set[str] = set()
        """The write points at which a process crashed, each with `before` or `after` the write."""
        self.restored_at = float("-inf")
        """The virtual time at which etcd was last restored from a snapshot."""
        self.troubled_until = float("-inf")
        """The virtual time at which the last fault happened, or at which its duration ends."""
        self.at_end_of_faults: list[Callable[[], object]] = []
        """The functions that `heal` calls once: each ends a fault that has not happened yet."""
        self.letting_go: ObjectRef | None = None
        """The object from which a user removes a finalizer now."""
        self.rights: Sequence[str] = ()
        """The resources that replicas write. A fault may remove the right to read or write one."""
        self._behaviours = (behaviour or DownstreamBehaviour(), flux)
        self._restarts = restarts
        self._goal: Callable[[], bool] | None = None
        self._failure: BaseException | None = None
        self._is_halted = False
        self._closing = False
        self._logs = _capturing(self._log)

    def install(self, definitions: Iterable[Manifest]) -> None:
        """Create the CRDs `definitions`, and the CRDs of the kinds that simulated controllers need.

        If the server refuses a CRD, close the world and raise CommandError.
        """
        try:
            super().install(definitions)
        except CommandError:
            self.close()
            raise

    # --- life --------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._logs.__enter__()
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._logs.__exit__(None, None, None)

    def open(self) -> None:
        """Start all processes. The simulated controllers run when time passes."""
        self.loop.at_rest = self._at_rest
        for replica in self.replicas:
            replica.start()

    def close(self) -> None:
        """Kill all processes, and close the event loop."""
        if self.loop.is_closed():
            return
        self._closing = True
        self.loop.at_rest = lambda: False
        for replica in self.replicas:
            replica.kill("the end")
        while tasks := asyncio.all_tasks(self.loop):
            # A task that is cancelled before its first step never awaits the coroutine that a task group wrapped.
            self.loop.run_until_complete(asyncio.sleep(0))
            for task in sorted(tasks, key=hash):
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def add(self, replica: Replica) -> None:
        """Add a replica (a process of the operator under test) to the simulated cluster, and start its process."""
        self.replicas.append(replica)
        replica.start()

    def remove(self, replica: Replica) -> None:
        """Remove a replica (a process of the operator under test) from the simulated cluster: kill its process, and
        wait until its tasks have ended.
        """
        self.replicas.remove(replica)
        replica.kill("removed")
        if replica.task is not None and not replica.task.done():
            self.loop.run_until_complete(asyncio.wait({replica.task}))

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def was_restored(self) -> bool:
        """True once etcd has been restored from a snapshot."""
        return self.restored_at > float("-inf")

    @property
    def seconds(self) -> float:
        """The virtual seconds since the simulated cluster was created."""
        return self.loop.time()

    @property
    def is_calm(self) -> bool:
        """True while no fault lasts and every process can reach the API server and gets the events of its watches."""
        is_troubled = self.seconds <= self.troubled_until or self.server.authorize is not None
        return not (is_troubled or any(replica.link.is_disturbed for replica in self.replicas))

    def run(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass.

        Raises WorldHotLoop if tasks run forever without time passing, and any error that ended a process.
        """
        self.until(lambda: False, seconds)

    def until(self, holds: Callable[[], bool], within: float) -> bool:
        """Let virtual time pass until `holds` returns True, but at most `within` seconds.

        Return True if `holds` returned True, and False at the time limit. `holds` is called whenever no task is ready
        before the next timer. Raises WorldHotLoop if tasks run forever without time passing, and any error that ended
        a process.
        """
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("a world has an event loop of its own: use it in a plain function, not in a coroutine")
        self._raise_failure()
        if self._is_halted:
            return False
        limit, held = self.loop.time() + max(0.0, within), False

        def is_over() -> bool:
            nonlocal held
            held = holds()
            return held or self.loop.time() >= limit - _EPSILON

        marker, self._goal = self.loop.call_at(limit, do_nothing), is_over
        try:
            self.loop.run_forever()
        except BusyError:
            last = "\n".join(self.timeline[-6:] or self.trace[-8:])
            raise WorldHotLoop(f"controllers go on for ever at the same moment:\n{last}") from None
        finally:
            self._goal = None
            marker.cancel()
        self._raise_failure()
        return held

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def halt(self) -> None:
        """Stop virtual time for good, so that the state in which a law (required property) was broken can be examined.

        From now on `until` returns False immediately.
        """
        self._is_halted = True
        if self.loop.is_running():
            self.loop.stop()

    def _at_rest(self) -> bool:
        """Run the simulated controllers, since no task of a process is ready.

        Return True if they worked or set a timer, or if the condition of `until` holds. Return False if virtual time
        may advance to the next timer.
        """
        if self.controllers.work():
            return True
        if self._goal is not None and self._goal():
            self.loop.stop()
            return True
        return self.controllers.plan(self.loop)

    # --- record ------------------------------------------------------------------------------------------------------

    def note(self, actor: str, what: str) -> None:
        """Add a line to the trace, the record of what happens in the run: the virtual time, the `actor` (such as a
        replica) and `what` it did.

        The functions in `on_note` are called with the actor and the text.
        """
        self.trace.append(f"{self.loop.time():12.6f}  {actor:14} {what}")
        for observe in self.on_note:
            self.inform(observe, actor, what)

    def digest(self) -> str:
        """Return a hash of the trace (the lines about what happened in the run) and of all stored objects.

        Two runs with equal hashes were equal.
        """
        digest = sha256("\n".join(self.trace).encode())
        for place, objects in sorted(self.server.store.snapshot().objects.items()):
            digest.update(repr(place).encode())
            for key in sorted(objects):
                digest.update(objects[key].raw)
        return digest.hexdigest()

    def _log(self, event: Any) -> None:
        if "object" in event:
            fields = " ".join(f"{name}={event[name]}" for name in sorted(event) if name not in ("object", "event"))
            writes = event["writes"] if event["event"] == "written" else ()
            written = (" ".join(write.split()[-2:]) for write in writes)  # such as "apply Secret ns/name"
            job = (str(event["job_id"]),) if "job_id" in event else ()
            for ref in dict.fromkeys((str(event["object"]), *written, *job)):
                line = self.decisions[ref] = f"{event['event']} {fields}"
                for observe in self.on_decision:
                    self.inform(observe, ref, line)

    # --- misfortune --------------------------------------------------------------------------------------------------

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Replace all stored objects by an older snapshot, as a restore of etcd does."""
        self.restored_at = self.seconds
        self.server.restore(snapshot)

    def set_behaviour(self, *, flux: FluxBehaviour | None = None, engines: DownstreamBehaviour | None = None) -> None:
        """Change how the simulated controllers behave from now on.

        `flux` is for the simulated Flux, `engines` for the other simulated controllers, such as those of workloads.
        None leaves the behaviour unchanged.
        """
        if flux is not None and self.flux is not None:
            self.flux.behaviour = flux
        if engines is not None:
            self.workloads.behaviour = engines

    def calm_down(self) -> None:
        """Reset the simulated controllers to their initial behaviour."""
        engines, flux = self._behaviours
        self.set_behaviour(flux=flux, engines=engines)

    def restart_flux(self) -> None:
        """End what the simulated Flux is doing, and let it begin again with all objects."""
        if self.flux is not None:
            self.flux.crash()
        self.controllers.forget()

    def heal(self) -> None:
        """End all injected faults: those of requests, watches, clocks, permissions and simulated controllers."""
        self.note("world", "all faults are over")
        self.calm_down()
        self.server.authorize = None
        while self.at_end_of_faults:
            self.at_end_of_faults.pop()()
        for replica in self.replicas:
            replica.link.heal()
            replica.clock.offset = timedelta(0)
            replica.clock.slept = replica.clock.slept_last = 0.0

    # --- what replicas report ----------------------------------------------------------------------------------------

    def inform(self, observe: Callable[..., object], *told: object) -> None:
        """Call `observe`, a check of a law or another observer. If it raises an error, virtual time stops for good, and
        `until` raises the error.

        Most observers are called within a request of a process, which would take the error for its answer: a law that
        fails would look like one that holds.
        """
        try:
            observe(*told)
        except Exception as error:
            self._failure = self._failure or error
            self.halt()

    def written(self, write: ObservedWrite) -> None:
        """Record a replica's write that reached the API server: add a line to `trace`, and call each function in
        `on_write` with the write.
        """
        outcome = f"{type(write.error).__name__}: {write.error.message}" if write.error else _version_of(write.answer)
        self.note(write.replica, f"{write.request} -> {outcome}")
        for observe in (*self.on_write,):  # a fault that waited for this write leaves them
            self.inform(observe, write)

    def api_of(self, replica: Replica) -> KubeApi:
        """Return a client of the API server whose requests are made as the user of this replica."""
        caller = Caller(replica.user, agent="vworkspace-operator/1")
        return InProcessKube(self.server, caller=caller, on_open=replica.link.opened)

    def version(self) -> int:
        """Return the current resource version of the API server's store, which each stored write increases."""
        return self.server.store.version

    def reconciled(self, replica: str, controller: str, done: Reconciled) -> None:
        """Pass the report `done` about a finished reconcile of a replica's controller to the functions in
        `on_reconciled`.
        """
        for observe in self.on_reconciled:
            self.inform(observe, replica, controller, done)

    def replica_ended(self, replica: Replica, error: BaseException | None) -> None:
        """Handle the end of a replica, which is one of the processes of the operator under test: call the functions in
        `on_end`, and schedule a restart.

        `error` is the exception that ended the process; None if it ended without one. If there is an error and `on_end`
        is empty, the simulation stops with this error instead. A replica that was removed is ignored.
        """
        if self._closing or replica not in self.replicas:
            return
        if error is not None:
            self.note(replica.name, f"ended: {_in_words(error)}")
            if not self.on_end:
                self._failure = next(iter(leaves_of(error)))
                self.loop.stop()
                return
        for observe in self.on_end:
            self.inform(observe, replica, error)
        self.say("the process is killed, and starts again")
        delay = Random(f"{self.seed}/{replica.name}/{replica.starts}/restart").uniform(*self._restarts)
        self.loop.call_later(delay, self._start, replica)

    def _start(self, replica: Replica) -> None:
        if not self._closing and replica in self.replicas and not replica.is_running:
            self.note(replica.name, "starts")
            replica.start()


@contextmanager
def _capturing(keep: Callable[[Any], None]) -> Iterator[None]:
    """Pass every log event to `keep` while the block runs, instead of printing it."""

    def process(logger: Any, method: str, event: Any) -> Any:
        keep(event)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[process],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _version_of(answer: Manifest | None) -> str:
    """Return the state of the object after a successful write: its resourceVersion, or "gone" if the answer has none.

    A delete that removes the object at once is answered without the object.
    """
    version = get_path(answer, "metadata", "resourceVersion")
    return f"resourceVersion {version}" if version else "gone"


def _in_words(error: BaseException) -> str:
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves_of(error))
