"""The printed roles hold every verb that the operator uses, and no other (RUN-7).

The command `run`, with leader election, its own webhooks and the credential from its Secret, works through
everything it can do in a cluster with RBAC; then what the API server's audit log saw is compared with what
`manifests` prints. Neither side is read from the registry that the roles are made from.
"""

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
import yaml
from lightkube.config.kubeconfig import SingleConfig

from kubelab.http.authority import certificates_for
from kubelab.http.serving import kubeconfig
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import CONFIG_MAP, LEASE, SECRET
from purekube.ports import KubeApi
from purekube_kit.kube_apiserver import OPERATOR_USER
from tests.support.audited_story import Audit, Request
from tests.support.cluster_environment import environment_world, grant
from tests.support.commands import Running, free_port
from tests.support.e2e_world import (
    AGENT_TOKEN,
    CLUSTER,
    EDITED,
    INSTANCE,
    LATER,
    NAME,
    NS,
    OWN_NS,
    UNGATED_NS,
    VELERO_NS,
    World,
)
from tests.support.e2e_world import instance as wanted_instance
from tests.support.operation_requests import APPROVAL_SECRET, AT_WORK, ENGINES_QUICK, FLUX, Operating, rules
from tests.support.rights import granted, printed, unused, used
from tests.support.servers import Face, serving_around, simulate
from tests.support.source_names import fragment_name, source_ref
from tests.support.webhooks_in_force import Guard
from vworkspace_app.install.webhook_manifests import SERVICE
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.operations.approvals import LEDGER_SECRET

pytestmark = pytest.mark.slow

LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
CREDENTIALS = ObjectRef(SECRET, OWN_NS, "vworkspace-agent-credentials")
POSTURE = ObjectRef(own_kinds.CLUSTER, None, CLUSTER)
NO_AGENT = ("--no-agent", "--cluster-id", CLUSTER)


@asynccontextmanager
async def the_command(world: World, settings: OperatorSettings, *, agent: bool = True) -> AsyncIterator[None]:
    """`run` as a process of its own, as the Deployment starts it."""
    assert world.reached is not None
    if world.reached.audit is None:
        pytest.skip("the cluster of KUBECONFIG has no audit log that a test can read")
    async with serving_around(world) as control_url, anyio.create_task_group() as group, folder() as name:
        simulate(group, world)
        world.hands.do(clean_slate)
        write_credentials(world, control_url if agent else "")
        if not agent and world.reached.restricted:
            world.hands.do(partial(grant, velero_namespace=VELERO_NS, agent=False))
        place = Path(name)
        process = Running(place, "run", *flags(world, place, () if agent else NO_AGENT))
        try:
            with process:
                if agent:
                    await world.until(lambda: world.control.waiting, "the long poll")
                else:
                    await world.until(lambda: _says(world, POSTURE, "Connected", "False"), "the Cluster says NoAgent")
                yield
        except BaseException:
            print(process.err[-6000:])
            raise
        finally:
            await forget(world)
        group.cancel_scope.cancel()


async def clean_slate(api: KubeApi) -> None:
    """What an operator before this one has made, nobody would have to create: its Lease, its Secrets."""
    for kind in (LEASE, SECRET):
        for manifest in (await api.list(kind, namespace=OWN_NS)).items:
            await api.delete(ref_of(manifest, kind))


async def forget(world: World) -> None:
    """Leave nothing in a cluster that others use too."""
    await GUARDS[-1].leave()
    world.delete_object(CREDENTIALS)


@asynccontextmanager
async def folder() -> AsyncIterator[str]:
    async with anyio.TemporaryDirectory(prefix="vworkspace-run-") as path:
        yield path


def write_credentials(world: World, control_url: str) -> None:
    """Write all of them, or without an agent the approval secret alone, in place of what an earlier story left."""
    connection = {"control-plane-base-url": control_url, "cluster-id": CLUSTER, "token": AGENT_TOKEN}
    fields = {"approval-secret": APPROVAL_SECRET}
    if control_url:
        fields |= {key: text.encode() for key, text in connection.items()}
    manifest = SECRET.manifest(CREDENTIALS.name, OWN_NS)
    data = {key: base64.b64encode(value).decode() for key, value in fields.items()}
    with suppress(NotFound):
        world.delete_object(CREDENTIALS)
    world.create_object({**manifest, "data": data}, SECRET)


def flags(world: World, place: Path, more: Sequence[str] = ()) -> list[str]:
    """Those of the Deployment, but for what only a pod can have: its ports and folders."""
    reached = world.reached
    assert reached is not None
    webhook = free_port()
    made = certificates_for((f"{SERVICE}.{OWN_NS}.svc",), datetime.now(UTC))
    for name, content in (("tls.crt", made.certificate), ("tls.key", made.key), ("ca.crt", made.authority)):
        (place / name).write_bytes(content)
    plain = ("--setting", "job-signatures=auto", "--setting", "allowed-images=")
    manifests = printed("--velero-namespace", VELERO_NS, "--webhook-ca", str(place / "ca.crt"), *plain, *more)
    (deployment,) = (manifest for manifest in manifests if manifest["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    own = {
        "--listen": f"127.0.0.1:{free_port()}",
        "--webhook-listen": f"127.0.0.1:{webhook}",
        "--webhook-certificates": str(place),
        "--kubeconfig": str(kubeconfig_of(reached.operator, place)),
    }
    GUARDS[:] = [Guard.of(world, webhook, manifests)]
    given = [word for word in container["args"] if word.partition("=")[0] not in own]
    assert given[0] == "run"
    assert "--leader-elect" in given
    return [*given[1:], *(f"{flag}={value}" for flag, value in own.items())]


def kubeconfig_of(config: SingleConfig, place: Path) -> Path:
    """The file with the operator's token."""
    assert config.user is not None
    assert config.user.token is not None
    given = config.cluster.certificate_auth_data
    authority = None if given is None else base64.b64decode(given)
    path = place / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig(config.cluster.server, config.user.token, authority=authority)))
    return path


GUARDS: list[Guard] = []
"""The webhooks that the story puts in force."""


COMMANDED = Face("the command", False, the_command, environment_world)
LOCAL = Face("the command without an agent", False, partial(the_command, agent=False), environment_world)


def test_every_verb_is_used_and_none_is_missing_RUN_7() -> None:
    audits: list[Audit] = []

    async def story(world: World) -> None:
        ops = Operating(world)
        await ops.prepare()
        await instances(world)
        await GUARDS[-1].stand()
        await every_template(ops)
        await a_pod_that_does_not_start(ops)
        await every_cancellation(ops)
        await endings(ops)
        assert world.reached is not None
        assert world.reached.audit is not None
        audits.append(world.reached.audit)

    COMMANDED.run(story, behaviour=FLUX, engines=ENGINES_QUICK)

    with_preconditions(audits[0].requests(), ())


def test_without_an_agent_fewer_verbs_do_and_each_is_used_SEE_4_RUN_7() -> None:
    """People apply everything; nothing says Disconnected, no Secret is written, and nothing waits for a token."""
    audits: list[Audit] = []

    async def story(world: World) -> None:
        ops = Operating(world)
        await ops.prepare(ready=False)
        labelled = wanted_instance()
        labelled["metadata"] = {**labelled["metadata"], "labels": LABELS}
        world.create_object(labelled, APPLICATION_INSTANCE)
        await world.until(lambda: _says(world, INSTANCE, "Ready", "True"), "what a person applied is Ready")
        await instances(world)
        await GUARDS[-1].stand()
        await every_template(ops)
        await a_pod_that_does_not_start(ops)
        await every_cancellation(ops)
        await no_agent_is_told(world)
        world.delete_object(_operation(ops, "done-backup-volsync"))
        world.delete_object(INSTANCE)
        await world.until(lambda: world.find(INSTANCE) is None, "the instance gone, and its release before it")
        assert world.reached is not None
        assert world.reached.audit is not None
        audits.append(world.reached.audit)

    LOCAL.run(story, behaviour=FLUX, engines=ENGINES_QUICK)

    seen = audits[0].requests()
    with_preconditions(seen, NO_AGENT)
    (role,) = (one for one in printed(*NO_AGENT) if _is_own_role(one))
    rules = [rule for rule in role["rules"] if rule["resources"] == ["secrets"]]
    named = {name for rule in rules for name in rule.get("resourceNames", ())}
    assert named == {CREDENTIALS.name, LEDGER_SECRET}, "no other Secret of its namespace is read"
    assert [rule["verbs"] for rule in rules if "resourceNames" not in rule] == [["create"]], "which no name can limit"


async def no_agent_is_told(world: World) -> None:
    """The Cluster says that there is no agent; what only an agent can have is not there at all."""
    await world.until(lambda: _says(world, POSTURE, "ControllersHealthy", "True"), "the controllers are healthy")
    cluster = world.get(POSTURE)
    found = {one["type"]: f"{one['status']}/{one['reason']}" for one in cluster["status"]["conditions"]}
    assert found == {
        "Connected": "False/NoAgent",
        "Disconnected": "False/NoAgent",
        "ControllersHealthy": "True/AllControllersReady",
        "Hardened": "False/OpenSettings",
    }
    assert "controlPlaneEndpoint" not in cluster["spec"]
    assert "lastHeartbeat" in cluster["status"]


def _is_own_role(manifest: dict[str, Any]) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == ("Role", "vworkspace-operator-system")


def with_preconditions(seen: Iterable[Request], more: Sequence[str]) -> None:
    """What `manifests` prints with these options holds what was used, and nothing else."""
    rights = {*granted(printed("--velero-namespace", VELERO_NS, *more))}
    rights |= {*granted(printed("--namespace", NS, *more[:1]))}
    seen = list(seen)
    needed = set(used(seen))
    missing = {one for one in needed if not any(right.covers(one) for right in rights)}
    assert (missing, unused(rights, needed)) == (set(), set())
    refused = {entry.path for entry in seen if entry.user == OPERATOR_USER and entry.status in (401, 403)}
    assert refused == set()


async def instances(world: World) -> None:
    """Every kind of source and values, one thing in the place of another, and an instance where nothing may be."""
    manifest = wanted_instance()
    elsewhere = {"name": NAME, "namespace": UNGATED_NS, "labels": LABELS}
    ungated = {**manifest["spec"], "release": {"name": NAME, "namespace": UNGATED_NS}}
    world.create_object({**manifest, "metadata": elsewhere, "spec": ungated}, APPLICATION_INSTANCE)
    helm = {"sourceType": "helm", "url": "https://charts.example.com", "name": "nextcloud", "version": EDITED}
    # Values from a Secret: then the integrations become a ConfigMap of ours.
    world.create_object({**SECRET.manifest("values", NS), "stringData": {"values.yaml": "a: 1\n"}}, SECRET)
    values = {"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}}
    shop = {"name": "shop", "namespace": NS, "labels": LABELS}
    spec = {
        **manifest["spec"],
        "release": {"name": "shop", "namespace": NS},
        "values": values,
        "integrations": {"ingress": {"enabled": True, "host": "shop.example.com"}},
    }
    world.create_object({**manifest, "metadata": shop, "spec": {**spec, "chart": helm}}, APPLICATION_INSTANCE)
    ref = attrs.evolve(INSTANCE, name="shop")
    fragment = {"ingress": {"enabled": True, "host": "shop.example.com"}}
    beneath = ObjectRef(CONFIG_MAP, NS, fragment_name("shop", fragment, world.get(ref)["metadata"]["uid"]))
    repository = source_ref(NS, "shop", helm)
    await world.until(lambda: world.find(beneath) and world.find(repository), "the ConfigMap and the HelmRepository")
    await world.until(lambda: _says(world, ref, "Ready", "True"), "the second instance Ready")
    world.edit(ref, {"spec": {"integrations": None, "chart": {**manifest["spec"]["chart"], "sourceType": "oci"}}})
    await world.until(lambda: world.find(beneath) is None and world.find(repository) is None, "both pruned")
    for written in (_is_written, _is_repeated):  # an Event that is written, and then repeats, grows a series
        world.edit(ref, {"spec": {"suspend": True}})
        await world.until(lambda: any(map(written, _suspensions(world, ref))), "suspended")  # noqa: B023
        world.edit(ref, {"spec": {"suspend": False}})
        await world.until(lambda: _says(world, ref, "Suspended", "False"), "suspended no more")
    # Taken down with both, since a deletion looks each of them up until it has gone.
    world.edit(ref, {"spec": {"integrations": spec["integrations"], "chart": helm}})
    await world.until(lambda: world.find(beneath) and world.find(repository), "both once more")
    await world.until(lambda: _says(world, ref, "Ready", "True"), "the second instance Ready again")
    world.delete_object(ref)
    await world.until(lambda: world.find(ref) is None, "the second instance gone")
    blocked = ObjectRef(APPLICATION_INSTANCE, UNGATED_NS, NAME)
    await world.until(lambda: _says(world, blocked, "Blocked", "True"), "Blocked")
    world.delete_object(blocked)


def _says(world: World, ref: ObjectRef, kind: str, status: str) -> bool:
    conditions = (world.find(ref) or {}).get("status", {}).get("conditions", ())
    return any((condition["type"], condition["status"]) == (kind, status) for condition in conditions)


def _suspensions(world: World, ref: ObjectRef) -> list[Manifest]:
    """Return the Events that say that the instance `ref` was suspended."""
    return [event for event in world.events("ManuallySuspended") if event["regarding"]["name"] == ref.name]


def _is_written(_: Manifest) -> bool:
    return True


def _is_repeated(event: Manifest) -> bool:
    return bool(event.get("series"))


TEMPLATES = (
    "backup.velero",
    "upgrade.helm",
    "migration.helmHookJob",
    "migration.workflow",
    "runCommand.job",
    "backup.volsync",
    "restore.volsync",
    "backup.snapshot",
)


async def every_template(ops: Operating) -> None:
    for of in TEMPLATES:
        more = {"snapshotClassName": "csi"} if of == "backup.velero" else {}
        await ops.reaches(ops.submit(of, f"done-{of.replace('.', '-').lower()}", more), "Succeeded")
    backup = {"backupName": ops.engine_ref(_operation(ops, "done-backup-velero")).name}
    claimed = {"approvals": {"required": True, "claim": ops.claim("done-restore", backup)}}
    await ops.reaches(ops.submit("restore.velero", "done-restore", backup, **claimed), "Succeeded")
    snapshot = {"snapshotName": str(ops.outputs(_operation(ops, "done-backup-snapshot"))["volumeSnapshotName"])}
    await ops.reaches(ops.submit("restore.snapshot", "done-claim", snapshot), "Succeeded")


def _operation(ops: Operating, name: str) -> ObjectRef:
    return ObjectRef(OPERATION, NS, name)


async def a_pod_that_does_not_start(ops: Operating) -> None:
    """Then the operator asks why. Whether it meets a quick Job before its pods are ready is a matter of chance."""
    reached = ops.world.reached
    assert reached is not None
    audit = reached.audit
    assert audit is not None
    slow = attrs.evolve(ENGINES_QUICK.job, ready_seconds=3600.0)
    ops.engines_are(attrs.evolve(rules(AT_WORK), job=slow))
    ref = ops.submit("runCommand.job", "starting")
    await ops.reaches(ref, "Running")
    asked = {"pods", "events"}
    await ops.world.until(
        lambda: asked <= {right.resource for right in used(audit.requests()) if right.verb == "list"},
        "the Job's pods and their Events looked at",
    )
    ops.cancel(ref)
    await ops.reaches(ref, "Cancelled")


async def every_cancellation(ops: Operating) -> None:
    """What an engine has begun is taken away again, kind by kind."""
    backup = {"backupName": ops.engine_ref(_operation(ops, "done-backup-velero")).name}
    snapshot = {"snapshotName": str(ops.outputs(_operation(ops, "done-backup-snapshot"))["volumeSnapshotName"])}
    ops.engines_are(rules(AT_WORK))
    claimed = {"approvals": {"required": True, "claim": ops.claim("stop-restore", backup)}}
    for name, of, parameters, more in (
        ("stop-backup", "backup.velero", {}, {}),
        ("stop-restore", "restore.velero", backup, claimed),
        ("stop-workflow", "runbook.workflow", {}, {}),
        ("stop-job", "runCommand.job", {}, {}),
        ("stop-source", "backup.volsync", {}, {}),
        ("stop-destination", "restore.volsync", {}, {}),
        ("stop-snapshot", "backup.snapshot", {}, {}),
        ("stop-claim", "restore.snapshot", snapshot, {}),
    ):
        ref = ops.submit(of, name, parameters, **more)
        await ops.reaches(ref, "Running")
        made = ops.engine_ref(ref)
        await ops.world.until(lambda: ops.world.find(made), f"{made}")  # noqa: B023
        ops.cancel(ref)
        await ops.reaches(ref, "Cancelled")


async def endings(ops: Operating) -> None:
    """Odoo asks for an Operation, and for things to be gone."""
    world = ops.world
    ops.engines_are(ENGINES_QUICK)
    job = ops.ask("runCommand.job", "asked")
    assert (await world.result(job))["outcome"] == "succeeded"
    ref = _operation(ops, "asked")
    payload = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "namespace": NS, "name": ref.name}
    gone = world.control.enqueue(CLUSTER, kind="delete", payload=payload, idempotency_key=f"Operation/{NS}/asked@2")
    assert (await world.result(gone))["outcome"] == "succeeded"
    await world.ready(LATER, 8)
    assert (await world.result(world.ask_deletion(9)))["outcome"] == "succeeded"
    await world.until(lambda: not world.open_records(), "the records closed")
