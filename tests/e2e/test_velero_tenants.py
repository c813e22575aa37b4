"""Velero has an administrator's rights: what a tenant asks of it stays with that tenant (H3, D15, OPS-7).

The tenant of the other stories is the attacker here; beside it is another one, in a namespace that the operator may
act in as well.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import NAMESPACE, PERSISTENT_VOLUME_CLAIM, VELERO_BACKUP, VELERO_RESTORE
from tests.support.cluster_environment import RIGHTS
from tests.support.e2e_world import NS, SUFFIX, World
from tests.support.operation_requests import Operating, operations_story
from tests.support.rights import printed

VICTIM: Final = f"org-victim{SUFFIX}"
PEERS: Final = "ops.vworkspace.io/velero-peers"
LEDGER: Final = "ledger"
CLAIMS: Final = {"includedResources": ["persistentvolumeclaims"]}
TAKE: Final = {"namespaceMapping": {VICTIM: NS}}
OVERWRITE: Final = {"namespaceMapping": {NS: VICTIM}, "existingResourcePolicy": "update"}


@pytest.mark.slow
@operations_story(samples=True)
async def test_velero_reaches_another_tenant_by_its_consent_alone_OPS_7(ops: Operating) -> None:
    """Whoever is refused reads what to ask for; once that is given, the same Operation runs without further ado."""
    with victim(ops.world):
        await ops.prepare()
        consent(ops.world, NS, VICTIM)  # which lets the victim reach over, and not the other way
        mine = await backed_up(ops, "mine", {})
        refused = {
            "steal": ops.submit("backup.velero", "steal", {"includeNamespaces": [VICTIM], **CLAIMS}),
            "steal-both": ops.submit("backup.velero", "steal-both", {"includeNamespaces": [NS, VICTIM], **CLAIMS}),
            "take": restore(ops, "take", mine, TAKE),
            "overwrite": restore(ops, "overwrite", mine, OVERWRITE),
        }
        for ref in refused.values():
            told = await ops.says(ref, "Accepted", "False/ValidationFailed")
            assert f"namespace {VICTIM} does not agree" in told
            assert f"kubectl annotate namespace {VICTIM} {PEERS}={NS}" in told
        assert reaching(ops.world) == []
        assert claims_of(ops.world, NS) == {"data"}
        assert claims_of(ops.world, VICTIM) == {LEDGER}

        consent(ops.world, VICTIM, f"org-somebody, {NS}")
        for name in ("steal", "steal-both"):
            await ops.reaches(refused[name], "Succeeded")
        both = ops.engine_ref(refused["steal-both"]).name
        await ops.reaches(restore(ops, "taken", both, TAKE), "Succeeded")
        await ops.reaches(refused["overwrite"], "Succeeded")
        assert claims_of(ops.world, NS) == {"data", LEDGER}
        assert claims_of(ops.world, VICTIM) == {"data", LEDGER}

        consent(ops.world, VICTIM, None)
        late = restore(ops, "late", both, TAKE)
        assert PEERS in await ops.says(late, "Accepted", "False/ValidationFailed")
        assert ops.made(late) == []


async def backed_up(ops: Operating, name: str, parameters: Mapping[str, Any]) -> str:
    """The name of a Backup that is complete."""
    ref = ops.submit("backup.velero", name, {**parameters, **CLAIMS})
    await ops.reaches(ref, "Succeeded")
    return ops.engine_ref(ref).name


def restore(ops: Operating, name: str, backup: str, parameters: Mapping[str, Any]) -> ObjectRef:
    """With an approval of exactly these parameters, so that nothing else is in its way."""
    given = {"backupName": backup, **parameters}
    return ops.submit("restore.velero", name, given, approvals={"required": True, "claim": ops.claim(name, given)})


def reaching(world: World) -> list[Manifest]:
    """Objects of Velero that ever spoke of the victim."""
    events = [*world.history.events(VELERO_BACKUP), *world.history.events(VELERO_RESTORE)]
    return [event.object for event in events if VICTIM in str(event.object["spec"])]


def claims_of(world: World, namespace: str) -> set[str]:
    page = world.hands.do(lambda api: api.list(PERSISTENT_VOLUME_CLAIM, namespace=namespace))
    return {str(get_path(item, "metadata", "name")) for item in page.items}


def consent(world: World, namespace: str, peers: str | None) -> None:
    """Whoever is in charge of the namespace says who may reach it; None takes that back."""
    world.edit(ObjectRef(NAMESPACE, None, namespace), {"metadata": {"annotations": {PEERS: peers}}})


@contextmanager
def victim(world: World) -> Iterator[None]:
    """Another tenant with a volume of its own, and with all of the operator's rights; nothing of it is left."""
    labels = {"managed-by": "vworkspace"}
    world.have({**NAMESPACE.manifest(VICTIM), "metadata": {"name": VICTIM, "labels": labels}}, NAMESPACE)
    if world.reached is not None:
        for role in printed("--namespace", VICTIM):
            if role["kind"] in RIGHTS:
                world.have(role, RIGHTS[role["kind"]])
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world.create_object({**PERSISTENT_VOLUME_CLAIM.manifest(LEDGER, VICTIM), "spec": spec}, PERSISTENT_VOLUME_CLAIM)
    try:
        yield
    finally:
        consent(world, VICTIM, None)
        consent(world, NS, None)
        for name in claims_of(world, VICTIM):
            ref = ObjectRef(PERSISTENT_VOLUME_CLAIM, VICTIM, name)
            world.edit(ref, {"metadata": {"finalizers": None}})
            world.delete_object(ref)


@pytest.mark.slow
@operations_story()
async def test_a_namespace_that_comes_gated_and_agreeing_is_noticed_at_once_OPS_7(ops: Operating) -> None:
    await ops.prepare()
    late = ops.submit("backup.velero", "late", {"includeNamespaces": [NS, "org-late"]})
    assert "org-late is not one" in await ops.says(late, "Accepted", "False/ValidationFailed")

    space = {"name": "org-late", "labels": {"managed-by": "vworkspace"}, "annotations": {PEERS: NS}}
    ops.world.have({**NAMESPACE.manifest("org-late"), "metadata": space}, NAMESPACE)
    await ops.reaches(late, "Succeeded", seconds=5)
