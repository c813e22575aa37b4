"""Nothing that is advised does damage (U8, SEE-1): each reason by which an object waits is provoked, and what `status`
prints for it is pasted into a shell.

The reasons are those of the vocabulary, so that a new one without a case here fails. On the API server of the
environment: the embedded one, or a kube-apiserver where KUBEBUILDER_ASSETS names one. A remedy ends with status 0, the
obstacle goes, and every other object is as it was, the operator's Deployment and accounts above all. A reason that no
command takes away says who can.
"""

import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from kubelab.downstream import DownstreamBehaviour
from kubelab.flux import FluxBehaviour, SourceFault, SourceOutcome, SourceRule
from purekube.apimachinery import resources as known
from purekube.apimachinery.errors import KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.names import engine_object_name
from purekube.apimachinery.resources import HELM_RELEASE, NAMESPACE, SECRET
from tests.e2e.test_least_privilege import kubeconfig_of
from tests.support.cluster_environment import RIGHTS as RBAC
from tests.support.commands import COMMAND, run
from tests.support.e2e_world import (
    BROKEN,
    CLUSTER,
    INSTANCE,
    NAME,
    NS,
    OWN_NS,
    RELEASE,
    SUFFIX,
    UNGATED_NS,
    World,
    instance,
)
from tests.support.operation_requests import APPROVAL_SECRET, AT_WORK, ENGINES_QUICK, FLUX, LABELS, Operating, rules
from tests.support.patience import PATIENCE
from tests.support.rights import printed
from tests.support.servers import ENVIRONMENT
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.advice import ADVICE, obstacles
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.installation import CREDENTIALS_SECRET, Installation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import ALLOWED_TYPES
from vworkspace_core.credentials.secret import credentials_of
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.approvals import LEDGER_SECRET
from vworkspace_core.operations.settings import RUNNER

pytestmark = pytest.mark.slow

ELSEWHERE: Final = f"remedy{SUFFIX}"
"""A namespace that these stories alone use: what they do to it would be in the way of others."""
KINDS: Final = (*own_kinds.ALL_KINDS, known.DEPLOYMENT, known.SERVICE_ACCOUNT, *RBAC.values())
PASSING: Final = (known.EVENT, known.CORE_EVENT, known.LEASE, known.POD)
DEPLOYMENT: Final = ObjectRef(known.DEPLOYMENT, OWN_NS, "vworkspace-operator")
INSTALLED: Final = ("--image", "registry.example.com/ours/operator:7", "--no-agent", "--cluster-id", CLUSTER)
"""An operator as people run one: another image and other flags than those that are printed without options."""

Provoke = Callable[[Operating], Awaitable[ObjectRef]]


@attrs.frozen
class Case:
    """How a reason comes about, and what the remedy changes: `changes` are names of objects, as `str(ref)` begins.

    Without `changes` no command takes the obstacle away. `after` is what the operator's own process would do by then.
    """

    provoke: Provoke
    changes: tuple[str, ...] = ()
    decisions: OperatorSettings | None = None
    flux: FluxBehaviour = FLUX
    engines: DownstreamBehaviour | None = ENGINES_QUICK
    after: Callable[[Operating], None] = lambda ops: None


# --- worlds ----------------------------------------------------------------------------------------------------------


def decided(**changes: Any) -> OperatorSettings:
    """Settings of an operator without an agent."""
    settings = attrs.evolve(Settings(CLUSTER), installation=Installation(agent=False), **changes)
    return OperatorSettings(settings, identity="e2e")


def of_operations(**changes: Any) -> OperatorSettings:
    """Settings that shape Operations."""
    settings = decided()
    return attrs.evolve(settings, operations=attrs.evolve(settings.operations, **changes))


def make(world: World, namespace: str, labels: Mapping[str, str] = LABELS, name: str = NAME, **spec: Any) -> ObjectRef:
    """Somebody applies an instance."""
    meta = {"name": name, "namespace": namespace, "labels": dict(labels)}
    meta["annotations"] = {"ops.vworkspace.io/backup": "velero"}
    whole = {**instance()["spec"], "release": {"name": name, "namespace": namespace}, **spec}
    world.create_object({**instance(), "metadata": meta, "spec": whole}, APPLICATION_INSTANCE)
    return ObjectRef(APPLICATION_INSTANCE, namespace, name)


def place(world: World, **labels: str) -> str:
    """The namespace of these stories, with these labels alone."""
    world.have({**NAMESPACE.manifest(ELSEWHERE), "metadata": {"name": ELSEWHERE}}, NAMESPACE)
    world.edit(ObjectRef(NAMESPACE, None, ELSEWHERE), {"metadata": {"labels": {"managed-by": None} | dict(labels)}})
    for kind, name in (("RoleBinding", "vworkspace-operator"), ("Role", "vworkspace-operator")):
        with suppress(NotFound):
            world.delete_object(ObjectRef(RBAC[kind], ELSEWHERE, name))
    return ELSEWHERE


def an_operation(world: World, of: str = "backup.velero", **changes: Any) -> ObjectRef:
    """Somebody creates one; `changes` replace fields of its metadata and spec."""
    manifest = Operating(world).manifest(of, "nightly")
    meta, spec = changes.pop("metadata", {}), changes.pop("spec", {})
    world.create_object(
        {**manifest, "metadata": manifest["metadata"] | meta, "spec": manifest["spec"] | spec}, OPERATION
    )
    return ObjectRef(OPERATION, (manifest["metadata"] | meta)["namespace"], "nightly")


# --- instances -------------------------------------------------------------------------------------------------------


async def invalid(ops: Operating) -> ObjectRef:
    return make(
        ops.world, NS, chart={**instance()["spec"]["chart"], "url": "http://charts.example.com", "sourceType": "helm"}
    )


async def not_gated(ops: Operating) -> ObjectRef:
    return make(ops.world, place(ops.world))


async def of_another_cluster(ops: Operating) -> ObjectRef:
    return make(ops.world, NS, {**LABELS, "app.vworkspace.io/cluster-id": "another"})


async def field_conflict(ops: Operating) -> ObjectRef:
    ref = make(ops.world, NS)
    await ops.says(ref, "Ready", "True/HelmReleaseReady")
    theirs = {**HELM_RELEASE.manifest(NAME, NS), "spec": {"interval": "7m"}}
    ops.world.hands.do(lambda api: api.apply(theirs, kind=HELM_RELEASE, field_manager="gitops", force=True))
    return ref


async def name_taken(ops: Operating) -> ObjectRef:
    chart = {"spec": {"chart": "a", "sourceRef": {"kind": "HelmRepository", "name": "a"}}}
    ops.world.create_object(
        {**HELM_RELEASE.manifest(NAME, NS), "spec": {"interval": "5m", "chart": chart}}, HELM_RELEASE
    )
    return make(ops.world, NS)


async def in_ns(ops: Operating) -> ObjectRef:
    return make(ops.world, NS)


async def without_a_role(ops: Operating) -> ObjectRef:
    return make(ops.world, place(ops.world, **{"managed-by": "vworkspace"}))


async def given_up(ops: Operating) -> ObjectRef:
    await ops.world.ready()
    ops.world.ask(BROKEN, 8)
    return INSTANCE


async def suspended(ops: Operating) -> ObjectRef:
    ref = make(ops.world, NS)
    await ops.says(ref, "Ready", "True/HelmReleaseReady")
    ops.world.edit(ref, {"spec": {"suspend": True}})
    return ref


async def suspended_by_hand(ops: Operating) -> ObjectRef:
    ref = make(ops.world, NS)
    await ops.says(ref, "Ready", "True/HelmReleaseReady")
    ops.world.edit(RELEASE, {"spec": {"suspend": True}}, manager="flux")
    return ref


async def no_values(ops: Operating) -> ObjectRef:
    return make(ops.world, NS, values={"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}})


# --- Operations ------------------------------------------------------------------------------------------------------


async def an_unknown_parameter(ops: Operating) -> ObjectRef:
    make(ops.world, NS)
    return an_operation(ops.world, spec={"parameters": {"retention": "never"}})


async def no_target(ops: Operating) -> ObjectRef:
    return an_operation(ops.world)


async def no_capability(ops: Operating) -> ObjectRef:
    make(ops.world, NS)
    ref = an_operation(ops.world)
    ops.world.edit(INSTANCE, {"metadata": {"annotations": {"ops.vworkspace.io/backup": None}}})
    ops.world.delete_object(ref)
    await ops.gone(ref)
    manifest = {"name": "nightly", "namespace": NS, "labels": LABELS}
    body = {
        "targetRef": {"apiVersion": INSTANCE.kind.api_version, "kind": INSTANCE.kind.kind, "name": NAME},
        "type": "Backup",
        "engine": "velero",
        "parameters": {"retention": "30d"},
    }
    ops.world.create_object({**OPERATION.manifest("nightly", NS), "metadata": manifest, "spec": body}, OPERATION)
    return ref


async def not_allowed(ops: Operating) -> ObjectRef:
    make(ops.world, NS)
    ops.world.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"annotations": {ALLOWED_TYPES: "Upgrade"}}})
    return an_operation(ops.world)


async def no_hook(ops: Operating) -> ObjectRef:
    await ops.says(make(ops.world, NS), "Ready", "True/HelmReleaseReady")
    return ops.submit("migration.helmHookJob", "nightly", {"hookName": "another"})


async def operation_not_gated(ops: Operating) -> ObjectRef:
    make(ops.world, place(ops.world))
    return an_operation(ops.world, metadata={"namespace": ELSEWHERE})


async def operation_of_another_cluster(ops: Operating) -> ObjectRef:
    make(ops.world, NS)
    return an_operation(ops.world, metadata={"labels": {**LABELS, "app.vworkspace.io/cluster-id": "another"}})


async def not_approved(ops: Operating) -> ObjectRef:
    _approval_secret(ops.world)
    ops.approve_with(APPROVAL_SECRET)
    make(ops.world, NS)
    return an_operation(ops.world, spec={"approvals": {"required": True}})


def _approval_secret(world: World) -> None:
    with suppress(NotFound):
        world.delete_object(ObjectRef(SECRET, OWN_NS, CREDENTIALS_SECRET))
    secret = {
        **SECRET.manifest(CREDENTIALS_SECRET, OWN_NS),
        "stringData": {"approval-secret": APPROVAL_SECRET.decode()},
    }
    world.create_object(secret, SECRET)


async def no_approval_secret(ops: Operating) -> ObjectRef:
    ops.approve_with(None)
    with suppress(NotFound):
        ops.world.delete_object(ObjectRef(SECRET, OWN_NS, CREDENTIALS_SECRET))
    make(ops.world, NS)
    return an_operation(ops.world, spec={"approvals": {"required": True}})


def take_the_secret(ops: Operating) -> None:
    """What the watch of the credentials does in an operator's process."""
    ops.approve_with(credentials_of(ops.world.get(ObjectRef(SECRET, OWN_NS, CREDENTIALS_SECRET))).approval_secret)


async def target_not_ready(ops: Operating) -> ObjectRef:
    make(ops.world, NS, suspend=True)
    return ops.submit("upgrade.helm", "nightly")


async def conflicting(ops: Operating) -> ObjectRef:
    await ops.says(make(ops.world, NS), "Ready", "True/HelmReleaseReady")
    ops.world.have(known.SERVICE_ACCOUNT.manifest(RUNNER, NS), known.SERVICE_ACCOUNT)
    first = ops.submit("migration.workflow", "first")
    await ops.reaches(first, "Running")
    return ops.submit("migration.workflow", "nightly")


async def no_velero(ops: Operating) -> ObjectRef:
    """As it was seen: Velero is not installed, and nobody gave the operator a Role for it."""
    for kind in ("RoleBinding", "Role"):
        with suppress(NotFound):
            ops.world.delete_object(ObjectRef(RBAC[kind], "velero", "vworkspace-operator-velero"))
    make(ops.world, NS)
    return an_operation(ops.world)


async def operation_name_taken(ops: Operating) -> ObjectRef:
    ref = await not_approved(ops)
    await ops.says(ref, "Blocked", "True/AwaitingApproval")
    name = engine_object_name("nightly", ops.world.get(ref)["metadata"]["uid"])
    theirs = {**known.VELERO_BACKUP.manifest(name, "velero"), "spec": {}}
    ops.world.create_object(theirs, known.VELERO_BACKUP)
    parameters = ops.world.get(ref)["spec"]["parameters"]
    claim = ops.claim("nightly", parameters, of="backup.velero")
    ops.world.edit(ref, {"spec": {"approvals": {"claim": claim}}})
    return ref


async def workflow_suspended(ops: Operating) -> ObjectRef:
    await ops.says(make(ops.world, NS), "Ready", "True/HelmReleaseReady")
    ops.world.have(known.SERVICE_ACCOUNT.manifest(RUNNER, NS), known.SERVICE_ACCOUNT)
    ref = ops.submit("runbook.workflow", "nightly")
    await ops.says(ref, "Running", "True/WorkflowInProgress")
    ops.world.edit(ops.engine_ref(ref), {"spec": {"suspend": True}})
    return ref


async def velero_without_a_role(ops: Operating) -> ObjectRef:
    place(ops.world)
    with suppress(NotFound):
        ops.world.delete_object(ObjectRef(RBAC["RoleBinding"], ELSEWHERE, "vworkspace-operator-velero"))
    make(ops.world, NS)
    return an_operation(ops.world)


UNFETCHABLE = attrs.evolve(FLUX, source_rules=(SourceRule(SourceOutcome(SourceFault.UNAVAILABLE, "no such host")),))
WORKING = rules(AT_WORK)
STRICT = decided(policy=Policy(("oci://registry.other.example",)))

OPENED: Final = (f"Namespace {ELSEWHERE}", f" {ELSEWHERE}/vworkspace-o", f" {ELSEWHERE}/vworkspace-release")
"""The label of a namespace, the operator's Role, and both accounts with their roles."""

CASES: Final[Mapping[tuple[str, str], Case]] = {
    ("ApplicationInstance", "ValidationFailed"): Case(invalid),
    ("ApplicationInstance", "NamespaceNotGated"): Case(not_gated, OPENED),
    ("ApplicationInstance", "WrongCluster"): Case(of_another_cluster, (f"ApplicationInstance {NS}/{NAME}",)),
    ("ApplicationInstance", "FieldConflict"): Case(field_conflict, (f"HelmRelease {NS}/{NAME}",)),
    ("ApplicationInstance", "NameTaken"): Case(name_taken, (f"HelmRelease {NS}/{NAME}",)),
    ("ApplicationInstance", "MissingDependencies"): Case(in_ns),
    ("ApplicationInstance", "PolicyDenied"): Case(in_ns, decisions=STRICT),
    ("ApplicationInstance", "Forbidden"): Case(
        without_a_role, (f"Role {ELSEWHERE}/vworkspace-operator", f"RoleBinding {ELSEWHERE}/vworkspace-operator")
    ),
    ("ApplicationInstance", "RetriesExceeded"): Case(given_up, (f"ApplicationInstance {NS}/{NAME}",)),
    ("ApplicationInstance", "ManuallySuspended"): Case(suspended, (f"ApplicationInstance {NS}/{NAME}",)),
    ("ApplicationInstance", "ChartUnreachable"): Case(in_ns, flux=UNFETCHABLE),
    ("ApplicationInstance", "WaitingForSecret"): Case(no_values),
    ("Operation", "ValidationFailed"): Case(an_unknown_parameter),
    ("Operation", "TargetNotFound"): Case(no_target),
    ("Operation", "CapabilityMissing"): Case(no_capability, (f"ApplicationInstance {NS}/{NAME}",)),
    ("Operation", "TemplateNotAllowed"): Case(not_allowed),
    ("Operation", "HookNotFound"): Case(no_hook),
    ("Operation", "NamespaceNotGated"): Case(operation_not_gated, OPENED),
    ("Operation", "WrongCluster"): Case(operation_of_another_cluster, (f"Operation {NS}/nightly",)),
    ("Operation", "AwaitingApproval"): Case(not_approved, (f"Operation {NS}/nightly",)),
    ("Operation", "MissingSecret"): Case(
        no_approval_secret, (f"Secret {OWN_NS}/{CREDENTIALS_SECRET}",), after=take_the_secret
    ),
    ("Operation", "TargetNotReady"): Case(target_not_ready),
    ("Operation", "ConflictingOperation"): Case(conflicting, engines=WORKING),
    ("Operation", "DependencyMissing"): Case(no_velero, engines=None),
    ("Operation", "NameTaken"): Case(operation_name_taken),
    ("Operation", "AwaitingResume"): Case(workflow_suspended, (f"Workflow {NS}/nightly",), engines=WORKING),
    ("Operation", "Forbidden"): Case(
        velero_without_a_role,
        (f"Role {ELSEWHERE}/vworkspace-operator-velero", f"RoleBinding {ELSEWHERE}/vworkspace-operator-velero"),
        of_operations(velero_namespace=ELSEWHERE),
    ),
}

UNPROVOKED: Final = {
    ("ApplicationInstance", "MissingChartSource"): "the definition refuses it before the operator sees it",
    ("ApplicationInstance", "AwaitingApproval"): "is in the vocabulary, and no decision gives it yet",
    ("ApplicationInstance", "MaintenanceWindow"): "is in the vocabulary, and no decision gives it yet",
    ("ApplicationInstance", "HelmReleaseDegraded"): "Flux has to be held up for a minute: tests/unit/instances has it",
    ("ApplicationInstance", "Uninstalling"): "nothing is in the way: Flux is at it",
    ("ApplicationInstance", "AwaitingConfirmation"): "tests/e2e/test_uninstall.py and tests/unit/instances have it",
    (
        "ApplicationInstance",
        "WaitingForChildResources",
    ): "nothing is in the way, unless Flux fails: tests/unit/instances",
    (
        "ApplicationInstance",
        "InternalError",
    ): "is a defect of ours: tests/property/controller/test_blocked_pass.py has it",
    ("Operation", "InternalError"): "is a defect of ours: tests/property/controller/test_blocked_pass.py has it",
    ("Operation", "FieldConflict"): "is in the vocabulary, and no decision gives it yet",
}
"""Reasons that no story can bring about here, each with why."""


# --- the law ---------------------------------------------------------------------------------------------------------


def test_every_reason_of_the_vocabulary_has_a_remedy_and_a_case() -> None:
    reasons = {(kind, str(reason)) for kind in ("ApplicationInstance", "Operation") for reason in obstacles(kind)}
    assert reasons == set(CASES) | set(UNPROVOKED)
    for kind in ADVICE:
        assert {str(reason) for reason in obstacles(kind)} == set(ADVICE[kind])


@pytest.mark.parametrize(("kind", "reason"), CASES, ids=map("-".join, CASES))
def test_the_remedy_of_a_reason_takes_it_away_and_changes_nothing_else(kind: str, reason: str, tmp_path: Path) -> None:
    check(CASES[kind, reason], reason, tmp_path)


def test_the_remedy_of_a_release_that_was_suspended_by_hand_resumes_it_SEE_1(tmp_path: Path) -> None:
    check(Case(suspended_by_hand, (f"HelmRelease {NS}/{NAME}",)), "ManuallySuspended", tmp_path)


def test_the_remedy_where_velero_has_no_namespace_is_to_install_it_and_no_role(tmp_path: Path) -> None:
    """A Role for a namespace that is not there could not be applied."""
    nowhere = Case(no_velero, decisions=of_operations(velero_namespace=f"nowhere{SUFFIX}"))
    advice = check(nowhere, "DependencyMissing", tmp_path)
    assert advice.startswith("Install ")


def check(case: Case, reason: str, folder: Path) -> str:
    """Provoke the reason, do what is printed, and compare; what else is said."""
    said: list[str] = []

    async def story(world: World) -> None:
        ops, shell = Operating(world), Shell.of(world, folder)
        have_installed(world)
        try:
            ref = await case.provoke(ops)
            status = await until_said(ops, shell, ref, reason)
            said.append(str(status.get("advice", "")))
            assert said[0], "somebody is named who can help, or it is said that nobody has to"
            assert bool(status.get("remedies")) == bool(case.changes), status
            if case.changes:
                await mended(ops, shell, ref, reason, case, status["remedies"])
        finally:
            leave(world)

    crds = crd_manifests() if reason == "MissingDependencies" else None

    ENVIRONMENT.run(story, behaviour=case.flux, engines=case.engines, decisions=case.decisions or decided(), crds=crds)
    return said[0]


async def until_said(ops: Operating, shell: "Shell", ref: ObjectRef, reason: str) -> dict[str, Any]:
    """What `status` prints of the object once a condition gives the reason, or has given it."""

    def told() -> bool:
        return any(reason in _reasons(event.object) for event in ops.world.history.events(ref.kind)) or (
            reason in _reasons(ops.world.find(ref) or {})
        )

    await ops.world.until(told, f"{reason}; {ops.told(ref)}")
    status = shell.status(ref)
    assert status["reason"] == reason, status
    return status


async def mended(ops: Operating, shell: "Shell", ref: ObjectRef, reason: str, case: Case, remedies: list[str]) -> None:
    """Each command that is printed ends well; the obstacle goes, and what the remedy does not name stays as it was."""
    world = ops.world
    uids = {str(metadata(world.get(ref))["uid"])}
    before = everything(world)
    for remedy in remedies:
        shell.paste(remedy)
    after = everything(world)
    case.after(ops)
    changed = {str(one) for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
    own = {str(one) for one in after if _follows(after[one], uids)}
    others = {one for one in changed - own if not any(name in one for name in case.changes)}
    assert not others, f"{remedies} changed more than it names"
    if reason == "RetriesExceeded":
        return  # Flux tries again, and gives up again over the same chart
    await world.until(lambda: reason not in _reasons(world.find(ref) or {}), f"{reason} gone; {ops.told(ref)}")


def _reasons(manifest: Manifest) -> set[str]:
    """The reasons of what is in the way, or of why it is not Ready."""
    bad = {("Blocked", "True"), ("Accepted", "False"), ("Stalled", "True"), ("Suspended", "True"), ("Ready", "False")}
    conditions = get_path(manifest, "status", "conditions") or ()
    return {str(condition["reason"]) for condition in conditions if (condition["type"], condition["status"]) in bad}


def _follows(manifest: Manifest, uids: set[str]) -> bool:
    """Whether an object is what the operator or Flux makes of the one that was unblocked, or what they write down."""
    meta = metadata(manifest)
    labels, owners = meta.get("labels") or {}, meta.get("ownerReferences") or ()
    marked = uids & {*labels.values(), *(owner["uid"] for owner in owners)}
    return bool(marked) or manifest.get("type") == "helm.sh/release.v1" or meta["name"] == LEDGER_SECRET


def everything(world: World) -> dict[ObjectRef, Manifest]:
    """Every object, without what the server and the controllers write by themselves."""
    found: dict[ObjectRef, Manifest] = {}
    for kind in KINDS:
        if kind not in PASSING:
            found |= {ref_of(one, kind): _plain(one) for one in _listed(world, kind)}
    return found


def _listed(world: World, kind: Kind) -> Iterator[Manifest]:
    try:
        yield from world.hands.do(lambda api: api.list(kind)).items
    except KindMissing:
        return


def _plain(manifest: Manifest) -> Manifest:
    moving = ("resourceVersion", "managedFields", "generation", "finalizers")
    meta = {name: value for name, value in metadata(manifest).items() if name not in moving}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": meta}


def have_installed(world: World) -> None:
    """The operator's Deployment and its account, as their owner applied them."""
    for manifest in printed(*INSTALLED):
        if manifest["kind"] in ("Deployment", "ServiceAccount"):
            kind = known.DEPLOYMENT if manifest["kind"] == "Deployment" else known.SERVICE_ACCOUNT
            world.hands.do(lambda api: api.apply(manifest, kind=kind, field_manager="kubectl", force=True))  # noqa: B023


def leave(world: World) -> None:
    """Leave nothing that a story after this one would meet."""
    if world.reached is None or world.reached.is_fresh:
        return
    world.delete_object(DEPLOYMENT)
    for namespace in (ELSEWHERE, UNGATED_NS, NS):
        for kind in (OPERATION, APPLICATION_INSTANCE, HELM_RELEASE, known.OCI_REPOSITORY, known.VELERO_BACKUP):
            for manifest in [one for one in _listed(world, kind) if metadata(one)["namespace"] == namespace]:
                with suppress(NotFound):
                    world.edit(ref_of(manifest, kind), {"metadata": {"finalizers": None}})
                    world.delete_object(ref_of(manifest, kind))


@attrs.frozen
class Shell:
    """An administrator's shell: the cluster's kubeconfig, kubectl and our command."""

    kubeconfig: Path

    @classmethod
    def of(cls, world: World, folder: Path) -> "Shell":
        assert world.reached is not None
        return cls(kubeconfig_of(world.reached.admin, folder))

    def status(self, ref: ObjectRef) -> dict[str, Any]:
        """What `status` prints of one object."""
        name = f"{ref.kind.kind.lower()}/{ref.name}"
        ended = run("status", name, "-n", str(ref.namespace), "-o", "json", "--kubeconfig", self.kubeconfig)
        assert ended.status == 0, ended.err
        found: dict[str, Any] = json.loads(ended.out)
        return found

    def paste(self, line: str) -> None:
        """Run a line exactly as it is printed; it ends with status 0, each part of it."""
        path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
        given = {"PATH": path, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent), "USER": "alice"}
        words = ["bash", "-c", f"set -o pipefail; {line}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=given, check=False)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
