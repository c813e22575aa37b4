"""The simulated cluster of the operator: control plane, replicas, and objects that applications and engines need.

The control plane offers jobs to the operator; engines, such as Velero, carry out Operations.
"""

import base64
import itertools
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Final

import attrs

from kubelab.downstream import CONTROLLERS, DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from kubelab.flux import ChartHook, FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule
from purekube.apimachinery.errors import AlreadyExists
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import (
    JOB,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE_ACCOUNT,
    VOLUME_SNAPSHOT_CLASS,
)
from purekube_run.simulation.world import World
from vworkspace_app.settings import RunSettings
from vworkspace_app.simulation.operator_replica import OperatorReplica
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.credentials.secret import CredentialKey, StoredCredential, new_secret, secret_ref
from vworkspace_core.operations.settings import RUNNER
from vworkspace_fake.controlplane import ControlPlaneServer
from vworkspace_fake.controlplane.faults import Faults
from vworkspace_fake.controlplane.sealing import Sealing, signing_key_of

CLUSTER_ID: Final = "simulated-1"
OWN_NAMESPACE: Final = "vworkspace-system"
NAMESPACES: Final = ("team-a", "team-b", "team-c")
"""The namespaces of the instances."""
VELERO: Final = "velero"
TOKEN: Final = "tok-first-5c1e"
TOKEN_LIFETIME: Final = timedelta(minutes=20)
"""The time after which a token of the control plane ends, in the runs of every third seed."""
_EXPIRING: Final = 3
_RESTARTS: Final = (1.0, 12.0)
"""The minimum and maximum seconds until a process that ended is restarted."""


UNHURRIED: Final = RunSettings(
    leader_elect=True,
    leader_elect_lease_duration="60s",
    leader_elect_renew_deadline="40s",
    leader_elect_retry_period="20s",
    interval="30m",
)
"""The settings of `run`, with a tenth of the default's Lease renewals and a sixth of Flux's regular reconciles.

Renewals and regular reconciles only confirm what is known, and would be half of a simulation's cost.
"""


@attrs.frozen
class WorldSettings:
    """The settings of a simulated cluster with the operator: its size, and how its simulated controllers behave.

    `shards` is the number of parts of the operator, each of which reconciles a share of the namespaces (RUN-13).
    `replicas` is the number of processes of each shard. `flux` and `engines` say how the simulated controllers behave.
    """

    seed: int = 0
    replicas: int = 1
    shards: int = 1
    flux: FluxBehaviour = attrs.field(factory=FluxBehaviour)
    engines: DownstreamBehaviour = attrs.field(factory=DownstreamBehaviour)
    run: RunSettings = attrs.field(factory=lambda: UNHURRIED)
    window: int = 10_000
    """The number of changes that the API server keeps for watches."""


class SimulatedWorld(World):
    """A simulated cluster with the operator and a control plane. Use it in a `with` block."""

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
        lifetime = TOKEN_LIFETIME if settings.seed % _EXPIRING == 1 else None
        self.control = ControlPlaneServer(
            now=self.loop.now, mint=lambda: f"tok-minted-{next(numbers)}", token_lifetime=lifetime
        )
        self.rights = (
            *("applicationinstances", "operations", "helmreleases", "ocirepositories", "helmrepositories", "events"),
            *("secrets", "backups", "workflows", "jobs", "volumesnapshots"),
        )
        self._prepare()
        self.operators = [OperatorReplica(self, self.control, name, run) for name, run in _processes(settings)]
        self.replicas += self.operators

    def accepts(self, text: str) -> bool:
        """Report whether the control plane accepts a token for longer than one that a rotation has replaced."""
        token, latest = self.control.tokens.find(text), self.loop.now() + self.control.rotation_grace
        return token is not None and (token.ends is None or token.ends > latest)

    def heal(self) -> None:
        """End all faults, including those of the control plane."""
        super().heal()
        self.control.faults = Faults()

    def _prepare(self) -> None:
        self.install(crd_manifests())
        for name in (OWN_NAMESPACE, VELERO):
            self.create(NAMESPACE.manifest(name), NAMESPACE, "admin")
        for name in NAMESPACES:
            gate = {"labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}}
            self.create(NAMESPACE.manifest(name, metadata=gate), NAMESPACE, "admin")
        now, lifetime = self.loop.now(), self.control.token_lifetime
        ends = None if lifetime is None else now + lifetime
        self.control.tokens.add(CLUSTER_ID, TOKEN).ends = ends
        stored = StoredCredential(TOKEN, "", ends, now - timedelta(days=1) if ends is None else now)
        secret = new_secret(OWN_NAMESPACE, "https://odoo.example.com", CLUSTER_ID, stored)
        self.create(secret, SECRET, "admin")


def _processes(settings: WorldSettings) -> Iterator[tuple[str, RunSettings]]:
    """Yield the name and settings of every replica of every shard."""
    for shard in range(settings.shards):
        is_whole = settings.shards == 1
        run = settings.run if is_whole else attrs.evolve(settings.run, shard=f"{shard}/{settings.shards}")
        for number in range(settings.replicas):
            yield f"{'' if is_whole else f'shard-{shard}-'}replica-{number + 1}", run


CHART: Final = "nextcloud"
HOOK: Final = "db-migrate"
PASSWORD: Final = "pass-77c1"
"""A secret among the values of every instance, which no output may contain (RES-7)."""
STUCK: Final = "stuck"
"""The prefix of Operations whose engines do not end."""
BROKEN: Final = "6.6.6"
"""The chart version whose release always fails."""
FORBIDDEN: Final = f"{CHART}@6.7.0"
"""The chart and version that the policy of the Cluster object may forbid (RES-3)."""
APPROVAL_SECRET: Final = b"approvals-of-the-simulation"
GUESTS: Final = "team-guest"
"""The guests' namespace, which is opened, closed and deleted during a run."""
CLASS: Final = "csi"

_POD: Final = {
    "restartPolicy": "Never",
    "containers": [
        {
            "name": "migrate",
            "image": "registry.example.test/nextcloud:30",
            "command": ["php", "occ", "upgrade"],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
    ],
}
_HOOK_JOB: Final = JOB.manifest(
    HOOK,
    metadata={"annotations": {"helm.sh/hook": "pre-upgrade"}},
    spec={"backoffLimit": 1, "template": {"spec": _POD}},
)
FLUX: Final = FluxBehaviour(
    release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "hooks failed"), version=BROKEN),),
    hooks={CHART: (ChartHook(HOOK, JOB.kind, json.dumps(_HOOK_JOB), ("pre-upgrade",)),)},
)
"""The behaviour of Flux: releases of one version fail, and the chart has a hook."""
ENGINES: Final = DownstreamBehaviour(rules=(DownstreamRule(DownstreamOutcome(Ending.STALL), name=f"*{STUCK}-*"),))
"""The behaviour of engines: the objects of some Operations never end."""


@lru_cache(maxsize=1)
def _sealing() -> tuple[Sealing, str]:
    """Return the control plane's signing key, and the public key that verifies signatures.

    Every world has the same keys.
    """
    key = signing_key_of(sha256(b"the control plane of a simulation").digest())
    return Sealing(signing_key=key), key.as_pem(private=False).decode()


def furnish(world: SimulatedWorld) -> None:
    """Create the objects that engines need, and give the control plane keys to sign jobs and approve Operations."""
    sealing, public_key = _sealing()
    world.control.seal = sealing
    keys = {CredentialKey.APPROVAL_SECRET: APPROVAL_SECRET, CredentialKey.SIGNING_KEY: public_key.encode()}
    data = {key.value: base64.b64encode(text).decode() for key, text in keys.items()}
    world.change(secret_ref(OWN_NAMESPACE), {"data": data}, "admin")
    snapshots = VOLUME_SNAPSHOT_CLASS.manifest(CLASS, driver="simulated.csi.example", deletionPolicy="Retain")
    world.create(snapshots, VOLUME_SNAPSHOT_CLASS, "admin")
    for namespace in NAMESPACES:
        _furnish(world, namespace)


def open_namespace(world: SimulatedWorld, name: str) -> None:
    """Make a namespace managed: create it with the objects that engines need, or label an existing namespace.

    Raises errors of the API server.
    """
    gate = {"labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}}
    try:
        world.create(NAMESPACE.manifest(name, metadata=gate), NAMESPACE, "admin")
    except AlreadyExists:
        world.change(ObjectRef(NAMESPACE, None, name), {"metadata": gate}, "admin")
    else:
        _furnish(world, name)


def _furnish(world: SimulatedWorld, namespace: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world.create(PERSISTENT_VOLUME_CLAIM.manifest("data", namespace, spec=spec), PERSISTENT_VOLUME_CLAIM, "admin")
    world.create(SECRET.manifest("restic", namespace, data={"RESTIC_PASSWORD": "eA=="}), SECRET, "admin")
    world.create(SERVICE_ACCOUNT.manifest(RUNNER, namespace), SERVICE_ACCOUNT, "admin")
