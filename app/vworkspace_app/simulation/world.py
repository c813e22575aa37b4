"""One world: API server, control plane, simulated controllers, and replicas of the operator, under a virtual clock.

Everything runs in one thread on one event loop whose time jumps to the next timer: nothing sleeps, and a run is a
function of its seed and of what is done to the world (SIM-1, SIM-3).
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import attrs
import structlog

from kubelab.clock import START, BusyError, VirtualTimeLoop
from kubelab.downstream import DownstreamBehaviour, DownstreamSimulator
from kubelab.downstream.crds import downstream_crds
from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from kubelab.storage.store import StoreSnapshot
from purekube.apimachinery.errors import KindMissing, NotFound, leaves_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from purekube.ports import PatchType
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.controllers import SimulatedControllers
from vworkspace_app.settings import RunSettings
from vworkspace_app.simulation.replica import Replica
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.credentials.secret import StoredCredential, new_secret
from vworkspace_fake.controlplane import ControlPlaneServer
from vworkspace_fake.controlplane.faults import Faults

CLUSTER_ID: Final = "simulated-1"
OWN_NAMESPACE: Final = "vworkspace-system"
NAMESPACES: Final = ("team-a", "team-b", "team-c")
"""The namespaces of applications."""
VELERO: Final = "velero"
TOKEN: Final = "tok-first-5c1e"
USER: Final = "kubectl"
"""The field manager of users' writes."""
_MOST_ROUNDS: Final = 200_000
"""The most rounds of the loop at one moment; more are a hot loop."""
_RESTART: Final = (1.0, 12.0)
"""Seconds until a process that ended is started again, at least and at most."""


UNHURRIED: Final = RunSettings(
    leader_elect=True,
    leader_elect_lease_duration="60s",
    leader_elect_renew_deadline="40s",
    leader_elect_retry_period="8s",
    interval="30m",
)
"""Settings of `run` with a quarter of the default's renewals of the Lease, and a sixth of Flux's regular passes.

Both only repeat what is known, and would be half of a simulation's cost.
"""


class WorldHotLoop(AssertionError):
    """Work that goes on for ever without time passing."""


@attrs.frozen
class WorldSettings:
    """The size of a world, and how its simulated controllers behave."""

    seed: int = 0
    replicas: int = 1
    flux: FluxBehaviour = attrs.field(factory=FluxBehaviour)
    engines: DownstreamBehaviour = attrs.field(factory=DownstreamBehaviour)
    run: RunSettings = attrs.field(factory=lambda: UNHURRIED)
    window: int = 10_000
    """The number of changes that the API server's history holds."""


class SimulatedWorld:
    """One cluster with its operator, for a `with` block. Time passes in `run` only.

    `trace` has a line for every request that may write, every act and every fault. `on_write` are called for every
    write of a replica that reached the API server.
    """

    def __init__(self, settings: WorldSettings | None = None) -> None:
        self.settings = settings or WorldSettings()
        self.seed = self.settings.seed
        self.loop = VirtualTimeLoop(START, most_rounds=_MOST_ROUNDS)
        self.server = ApiServer(now=self.loop.now, seed=self.seed, collects=True, window=self.settings.window)
        self.admin = InProcessKube(self.server)
        numbers = itertools.count(1)
        self.control = ControlPlaneServer(now=self.loop.now, mint=lambda: f"tok-minted-{next(numbers)}")
        self.trace: list[str] = []
        self.on_write: list[Callable[[ObservedWrite], None]] = []
        self.happened: Counter[str] = Counter()
        """How often each fault struck."""
        self.restored_at = float("-inf")
        """When etcd was last restored from a snapshot."""
        self.on_end: list[Callable[[Replica, BaseException | None], None]] = []
        self.decisions: dict[str, str] = {}
        """The last line that a controller logged about each object."""
        self.on_decision: list[Callable[[str, str], None]] = []
        simulated = InProcessKube(self.server, caller=Caller("system:simulated", agent="simulated/1"))
        self.flux = FluxSimulator(simulated, self.settings.flux)
        self.engines = DownstreamSimulator(simulated, self.settings.engines)
        self.controllers = SimulatedControllers(simulated, (self.flux, self.engines), self.loop.now)
        self._pause: asyncio.Task[None] | None = None
        self._is_halted = False
        self._logs = structlog.get_config()
        self._closing = False
        self._prepare()
        self.replicas = [
            Replica(self, f"replica-{number + 1}", self.settings.run) for number in range(self.settings.replicas)
        ]

    # --- life --------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        structlog.configure(
            processors=[self._log],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=False,
        )
        self.loop.at_rest = self._at_rest
        for replica in self.replicas:
            replica.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self.loop.at_rest = lambda: False
        for replica in self.replicas:
            replica.kill("the end")
        while tasks := asyncio.all_tasks(self.loop):
            for task in sorted(tasks, key=hash):
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        structlog.configure(**self._logs)

    def run(self, seconds: float) -> None:
        """Let virtual time pass. Raises HotLoop."""
        if self._is_halted:
            return
        self._pause = self.loop.create_task(asyncio.sleep(seconds))
        try:
            self.loop.run_until_complete(self._pause)
        except asyncio.CancelledError:
            return
        except BusyError:
            raise WorldHotLoop("\n".join(["work goes on for ever at the same moment:", *self.trace[-8:]])) from None

    def halt(self) -> None:
        """Let no more time pass: a law is broken, and the moment is kept."""
        self._is_halted = True
        if self._pause is not None:
            self._pause.cancel()

    @property
    def seconds(self) -> float:
        """The virtual seconds since the world began."""
        return self.loop.time()

    def note(self, actor: str, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.loop.time():12.6f}  {actor:14} {what}")

    def digest(self) -> str:
        """Return a hash of everything that happened and of everything that is stored."""
        digest = sha256("\n".join(self.trace).encode())
        for place, objects in sorted(self.server.store.snapshot().objects.items()):
            digest.update(repr(place).encode())
            for key in sorted(objects):
                digest.update(objects[key].raw)
        return digest.hexdigest()

    # --- what users and administrators do ----------------------------------------------------------------------------

    def get(self, ref: ObjectRef) -> Manifest | None:
        """Return an object as it is now; None if it does not exist."""
        try:
            return run_sync(self.admin.get(ref))
        except NotFound:
            return None

    def objects(self, kind: Kind) -> Sequence[Manifest]:
        """Return all objects of a kind; none if it is not served."""
        try:
            return run_sync(self.admin.list(kind)).items
        except KindMissing:
            return ()

    def create(self, manifest: Mapping[str, Any], kind: Kind, manager: str = USER) -> Manifest:
        """Create an object as a user. Raises errors of the port."""
        return run_sync(self.admin.create(manifest, kind=kind, field_manager=manager))

    def change(self, ref: ObjectRef, patch: Mapping[str, Any], manager: str = USER) -> Manifest:
        """Change an object by a merge patch as a user. Raises errors of the port."""
        return run_sync(self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=manager))

    def delete(self, ref: ObjectRef) -> None:
        """Delete an object as a user. Raises errors of the port."""
        run_sync(self.admin.delete(ref))

    # --- misfortune --------------------------------------------------------------------------------------------------

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Replace everything that is stored by an older snapshot, as a restore of etcd does."""
        self.restored_at = self.seconds
        self.server.restore(snapshot)

    def set_behaviour(self, *, flux: FluxBehaviour | None = None, engines: DownstreamBehaviour | None = None) -> None:
        """Let the simulated controllers behave like this from now on."""
        if flux is not None:
            self.flux.behaviour = flux
        if engines is not None:
            self.engines.behaviour = engines

    def heal(self) -> None:
        """End all faults."""
        self.note("world", "all faults are over")
        self.set_behaviour(flux=self.settings.flux, engines=self.settings.engines)
        self.server.authorize = None
        self.control.faults = Faults()
        for replica in self.replicas:
            replica.disturbances.clear()
            replica.link.cut_until = 0.0
            replica.clock.offset = timedelta(0)
            replica.clock.slept = 0.0

    # --- inside ------------------------------------------------------------------------------------------------------

    def written(self, write: ObservedWrite) -> None:
        """Note a write of a replica that reached the API server."""
        outcome = f"{type(write.error).__name__}: {write.error.message}" if write.error else _version_of(write.answer)
        self.note(write.replica, f"{write.request} -> {outcome}")
        for observe in self.on_write:
            observe(write)

    def replica_ended(self, replica: Replica, error: BaseException | None) -> None:
        """Start a process that ended again, after a while."""
        if self._closing:
            return
        if error is not None:
            self.note(replica.name, f"ended: {_in_words(error)}")
        for observe in self.on_end:
            observe(replica, error)
        delay = Random(f"{self.seed}/{replica.name}/{replica.starts}/restart").uniform(*_RESTART)
        self.loop.call_later(delay, self._start, replica)

    def _start(self, replica: Replica) -> None:
        if not self._closing and not replica.is_running:
            self.note(replica.name, "starts")
            replica.start()

    def _at_rest(self) -> bool:
        """Let the simulated controllers work; return whether there is work again. Plan when they have more."""
        return self.controllers.work() or self.controllers.plan(self.loop)

    def _log(self, logger: Any, method: str, event: Any) -> Any:
        if "object" in event:
            fields = " ".join(f"{name}={event[name]}" for name in sorted(event) if name not in ("object", "event"))
            line = self.decisions[str(event["object"])] = f"{event['event']} {fields}"
            for observe in self.on_decision:
                observe(str(event["object"]), line)
        raise structlog.DropEvent

    def _prepare(self) -> None:
        for crd in (*crd_manifests(), *flux_crds(), *downstream_crds()):
            self.create(crd, CUSTOM_RESOURCE_DEFINITION, "admin")
        for name in (OWN_NAMESPACE, VELERO):
            self.create(NAMESPACE.manifest(name), NAMESPACE, "admin")
        for name in NAMESPACES:
            meta = {"name": name, "labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}}
            self.create({**NAMESPACE.manifest(name), "metadata": meta}, NAMESPACE, "admin")
        self.control.tokens.add(CLUSTER_ID, TOKEN)
        stored = StoredCredential(TOKEN, "", None, self.loop.now() - timedelta(days=1))
        secret = new_secret(OWN_NAMESPACE, "https://odoo.example.com", CLUSTER_ID, stored)
        self.create(secret, SECRET, "admin")


def _version_of(answer: Manifest | None) -> str:
    return "gone" if answer is None else str(answer["metadata"].get("resourceVersion", ""))


def _in_words(error: BaseException) -> str:
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves_of(error))
