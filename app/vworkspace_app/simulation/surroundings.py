"""The surroundings of simulated applications: namespaces with what engines need, keys for approvals and signatures."""

import base64
import json
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

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
from vworkspace_app.simulation.world import NAMESPACES, OWN_NAMESPACE, SimulatedWorld
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.credentials.secret import CredentialKey, secret_ref
from vworkspace_core.operations.settings import RUNNER
from vworkspace_fake.controlplane.sealing import Sealing, signing_key_of

CHART: Final = "nextcloud"
HOOK: Final = "db-migrate"
PASSWORD: Final = "pass-77c1"
"""A text in the values of every instance, which no output may show (RES-7)."""
BROKEN: Final = "6.6.6"
"""The version that cannot be released."""
APPROVAL_SECRET: Final = b"approvals-of-the-simulation"
GUESTS: Final = "team-guest"
"""The namespace that is opened, closed and deleted."""
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
_HOOK_JOB: Final = {
    **JOB.manifest(HOOK),
    "metadata": {"name": HOOK, "annotations": {"helm.sh/hook": "pre-upgrade"}},
    "spec": {"backoffLimit": 1, "template": {"spec": _POD}},
}
FLUX: Final = FluxBehaviour(
    release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "hooks failed"), version=BROKEN),),
    hooks={CHART: (ChartHook(HOOK, JOB.kind, json.dumps(_HOOK_JOB), ("pre-upgrade",)),)},
)
"""A Flux for which one version cannot be released, and whose chart has a hook."""


@lru_cache(maxsize=1)
def _sealing() -> tuple[Sealing, str]:
    """Return the control plane's signatures and the public key that checks them; the same in every world."""
    key = signing_key_of(sha256(b"the control plane of a simulation").digest())
    return Sealing(signing_key=key), key.as_pem(private=False).decode()


def furnish(world: SimulatedWorld) -> None:
    """Make what engines need, and let the control plane sign its jobs and approve Operations."""
    sealing, public_key = _sealing()
    world.control.seal = sealing
    keys = {CredentialKey.APPROVAL_SECRET: APPROVAL_SECRET, CredentialKey.SIGNING_KEY: public_key.encode()}
    data = {key.value: base64.b64encode(text).decode() for key, text in keys.items()}
    world.change(secret_ref(OWN_NAMESPACE), {"data": data}, "admin")
    snapshots = {"driver": "simulated.csi.example", "deletionPolicy": "Retain"}
    world.create({**VOLUME_SNAPSHOT_CLASS.manifest(CLASS), **snapshots}, VOLUME_SNAPSHOT_CLASS, "admin")
    for namespace in NAMESPACES:
        _furnish(world, namespace)


def open_namespace(world: SimulatedWorld, name: str) -> None:
    """Create a namespace with what engines need, or label it. Raises errors of the port."""
    label = {"metadata": {"labels": {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}}}
    manifest = NAMESPACE.manifest(name)
    try:
        world.create({**manifest, "metadata": {**manifest["metadata"], **label["metadata"]}}, NAMESPACE, "admin")
    except AlreadyExists:
        world.change(ObjectRef(NAMESPACE, None, name), label, "admin")
    else:
        _furnish(world, name)


def _furnish(world: SimulatedWorld, namespace: str) -> None:
    claim: dict[str, Any] = PERSISTENT_VOLUME_CLAIM.manifest("data", namespace)
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world.create(claim, PERSISTENT_VOLUME_CLAIM, "admin")
    world.create({**SECRET.manifest("restic", namespace), "data": {"RESTIC_PASSWORD": "eA=="}}, SECRET, "admin")
    world.create(SERVICE_ACCOUNT.manifest(RUNNER, namespace), SERVICE_ACCOUNT, "admin")
