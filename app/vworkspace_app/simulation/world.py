"""The operator's world: replicas of the operator, a control plane, Flux and the engines (SIM-1)."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import attrs

from kubelab.downstream import CONTROLLERS, DownstreamBehaviour
from kubelab.flux import FluxBehaviour
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube_run.simulation.world import World
from vworkspace_app.settings import RunSettings
from vworkspace_app.simulation.replica import OperatorReplica
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
_RESTARTS: Final = (1.0, 12.0)
"""Seconds until a process that ended is started again, at least and at most."""


UNHURRIED: Final = RunSettings(
    leader_elect=True,
    leader_elect_lease_duration="60s",
    leader_elect_renew_deadline="40s",
    leader_elect_retry_period="20s",
    interval="30m",
)
"""Settings of `run` with a tenth of the default's renewals of the Lease, and a sixth of Flux's regular passes.

Both only repeat what is known, and would be half of a simulation's cost.
"""


@attrs.frozen
class WorldSettings:
    """The size of a world, and how its simulated controllers behave. Each shard has that many replicas (RUN-13)."""

    seed: int = 0
    replicas: int = 1
    shards: int = 1
    flux: FluxBehaviour = attrs.field(factory=FluxBehaviour)
    engines: DownstreamBehaviour = attrs.field(factory=DownstreamBehaviour)
    run: RunSettings = attrs.field(factory=lambda: UNHURRIED)
    window: int = 10_000
    """The number of changes that the API server's history holds."""


class SimulatedWorld(World):
    """One cluster with its operator and its control plane, for a `with` block."""

    def __init__(self, settings: WorldSettings | None = None) -> None:
        self.settings = settings = settings or WorldSettings()
        super().__init__(
            seed=settings.seed,
            window=settings.window,
            simulated=tuple(CONTROLLERS),
            flux=settings.flux,
            behaviour=settings.engines,
            restarts=_RESTARTS,
        )
        self.makes_namespaces = False
        numbers = itertools.count(1)
        self.control = ControlPlaneServer(now=self.loop.now, mint=lambda: f"tok-minted-{next(numbers)}")
        self.rights = (
            *("applicationinstances", "operations", "helmreleases", "ocirepositories", "helmrepositories", "events"),
            *("secrets", "backups", "workflows", "jobs", "volumesnapshots"),
        )
        self._prepare()
        self.operators = [OperatorReplica(self, self.control, name, run) for name, run in _processes(settings)]
        self.replicas += self.operators

    def heal(self) -> None:
        """End all faults."""
        super().heal()
        self.control.faults = Faults()

    def _prepare(self) -> None:
        self.install(crd_manifests())
        for name in (OWN_NAMESPACE, VELERO):
            self.create(NAMESPACE.manifest(name), NAMESPACE, "admin")
        for name in NAMESPACES:
            meta = {"name": name, "labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}}
            self.create({**NAMESPACE.manifest(name), "metadata": meta}, NAMESPACE, "admin")
        self.control.tokens.add(CLUSTER_ID, TOKEN)
        stored = StoredCredential(TOKEN, "", None, self.loop.now() - timedelta(days=1))
        secret = new_secret(OWN_NAMESPACE, "https://odoo.example.com", CLUSTER_ID, stored)
        self.create(secret, SECRET, "admin")


def _processes(settings: WorldSettings) -> Iterator[tuple[str, RunSettings]]:
    """Yield the name and the settings of each replica of each shard."""
    for shard in range(settings.shards):
        is_whole = settings.shards == 1
        run = settings.run if is_whole else attrs.evolve(settings.run, shard=f"{shard}/{settings.shards}")
        for number in range(settings.replicas):
            yield f"{'' if is_whole else f'shard-{shard}-'}replica-{number + 1}", run
