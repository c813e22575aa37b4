"""U2, issue 11 item 2: everything has an answer on the object, whatever rights are missing and whatever fails.

A minute after an object of ours exists in any namespace it has a condition that says what is the case; or it is not
for us, and one Event says so.
"""

from collections.abc import Collection
from typing import Any

import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kubelab.access.authorization import Attributes, denied
from kubelab.model.calls import Caller, RequestVerb
from purekube.apimachinery.errors import Right, refused_right
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import EVENT, NAMESPACE
from tests.support.cluster_environment import RIGHTS
from tests.support.e2e_world import (
    CLUSTER,
    INSTANCE,
    NAME,
    NS,
    OPERATOR,
    SUFFIX,
    UNGATED_NS,
    VELERO_NS,
    World,
    instance,
)
from tests.support.effort import effort
from tests.support.operation_requests import ENGINES_QUICK, FLUX, LABELS, Operating
from tests.support.rights import printed
from tests.support.run_by import run_by
from tests.support.servers import ENVIRONMENT, IN_PROCESS
from vworkspace_app.instances.controller import InstanceReconciler
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.remedies import not_permitted, remedy
from vworkspace_core.install.access import EVERYWHERE, JOBS, TENANT, VELERO
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.settings import OperationSettings

pytestmark = pytest.mark.slow

FOREIGN = f"norole{SUFFIX}"


# --- the law, over worlds with missing rights (virtual time) ----------------------------------------------------------


Lack = tuple[str, str, str]
"""Verb, resource with its subresource, and namespace (empty: everywhere)."""


def lacks() -> st.SearchStrategy[frozenset[Lack]]:
    """Any of the rights that the operator has in gated namespaces, in Velero's, and to write what it says."""
    inside = [(verb, access.resource, NS) for access in TENANT for verb in access.verbs if access.resource != "secrets"]
    velero = [(verb, access.resource, VELERO_NS) for access in VELERO for verb in access.verbs]
    said = [
        (verb, access.resource, "")
        for access in EVERYWHERE
        for verb in access.verbs
        if verb != "watch" and "clusters" not in access.resource
    ]
    return st.frozensets(st.sampled_from([*inside, *velero, *said]), min_size=1, max_size=6)


def refuse(world: World, lacking: Collection[Lack]) -> None:
    """The operator does not have these rights."""

    def authorize(caller: Caller, asked: Attributes) -> bool:
        resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        desired = {(asked.verb, resource, asked.namespace), (asked.verb, resource, "")}
        return caller.user != OPERATOR or not desired & set(lacking)

    world.cluster.authorize = authorize


@st.composite
def objects(draw: st.DrawFn) -> tuple[dict[str, Any], ...]:
    """An instance and an Operation on it: managed or not, for this cluster or another or none, gated or not."""
    made = []
    for number in range(draw(st.integers(1, 2))):
        labels = draw(
            st.sampled_from(
                [
                    LABELS,
                    LABELS,
                    {},
                    {**LABELS, "app.vworkspace.io/cluster-id": "another"},
                    {"app.vworkspace.io/managed-by": "control-plane"},
                ]
            )
        )
        namespace = draw(st.sampled_from([NS, NS, UNGATED_NS]))
        name = f"{NAME}-{number}"
        spec = {**instance()["spec"], "release": {"name": name, "namespace": namespace}}
        engine = draw(st.sampled_from(["velero", "snapshot", "volsync"]))
        annotations = {"ops.vworkspace.io/backup": engine}
        meta = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
        made.append({**instance(), "metadata": meta, "spec": spec})
        target = {
            "apiVersion": APPLICATION_INSTANCE.api_version,
            "kind": "ApplicationInstance",
            "name": draw(st.sampled_from([name, "nobody"])),
        }
        backup = {
            "targetRef": target,
            "type": "Backup",
            "engine": engine,
            "parameters": {
                "velero": {"retention": "30d"},
                "snapshot": {"pvc": "data", "snapshotClassName": "csi"},
                "volsync": {"source": "data", "repository": "restic"},
            }[engine],
        }
        kept = {"name": name, "namespace": namespace, "labels": labels}
        made.append({**OPERATION.manifest(name, namespace), "metadata": kept, "spec": backup})
    return tuple(made)


FOR_ANOTHER_CLUSTER = (
    {
        **instance(),
        "metadata": {"name": NAME, "namespace": NS, "labels": {**LABELS, "app.vworkspace.io/cluster-id": "another"}},
    },
)


def kind_of(manifest: Manifest) -> Any:
    return APPLICATION_INSTANCE if manifest["kind"] == "ApplicationInstance" else OPERATION


def says(world: World, ref: ObjectRef, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    for condition in get_path(world.find(ref), "status", "conditions") or ():
        if condition["type"] == kind:
            return condition["status"], condition["reason"], condition.get("message", "")
    return "", "", ""


def is_answered(world: World, ref: ObjectRef, logs: list[Any]) -> bool:
    live = world.find(ref)
    assert live is not None
    if get_path(live, "metadata", "labels", "app.vworkspace.io/managed-by") != "control-plane":
        found = [
            item
            for item in world.hands.do(lambda api: api.list(EVENT, namespace=ref.namespace)).items
            if item["reason"] == "NotManaged" and item["regarding"]["name"] == ref.name
        ]
        kinds = [item["regarding"]["kind"] for item in found]
        return kinds.count(ref.kind.kind) == 1 or bool(
            [line for line in logs if line["event"] in ("event dropped", "left alone: not labelled for this operator")]
        )
    if any(line["event"] == "the status could not be written" and line["object"] == str(ref) for line in logs):
        return True
    return bool(get_path(live, "status", "conditions")) and get_path(live, "status", "observedGeneration") == get_path(
        live, "metadata", "generation"
    )


@settings(max_examples=effort(0.3))
@given(lacks(), objects())
@example(frozenset({("patch", "applicationinstances", NS)}), ())
@example(frozenset({("get", "backups", VELERO_NS)}), ())
@example(frozenset({("list", "operations", NS), ("get", "applicationinstances", NS)}), ())
@example(frozenset({("patch", "applicationinstances/status", "")}), ())
@example(frozenset({("patch", "applicationinstances/status", "")}), FOR_ANOTHER_CLUSTER)
def test_a_minute_later_every_object_has_its_answer_REC_13(
    lacking: frozenset[Lack], given_objects: tuple[dict[str, Any], ...]
) -> None:
    """In all worlds: whatever is missing is named on the object, or in the log where that itself is refused."""
    made = given_objects or (
        {**instance(), "metadata": {"name": NAME, "namespace": NS, "labels": LABELS}},
        *_backup(),
    )

    async def story(world: World) -> None:
        refuse(world, lacking)
        with capture_logs() as logs:
            for manifest in made:
                world.create_object(manifest, kind_of(manifest))
            await world.clock.sleep(60)
            for manifest in made:
                meta = manifest["metadata"]
                ref = ObjectRef(kind_of(manifest), meta["namespace"], meta["name"])
                assert is_answered(world, ref, logs), f"{ref}: {world.find(ref)}"
                status, reason, message = says(world, ref, "Blocked")
                if reason == "Forbidden":
                    assert status == "True"
                    assert "vworkspace-operator manifests" in message
        world.cluster.authorize = None
        await world.clock.sleep(60)
        for manifest in made:
            meta = manifest["metadata"]
            ref = ObjectRef(kind_of(manifest), meta["namespace"], meta["name"])
            assert says(world, ref, "Blocked")[:2] != ("True", "Forbidden"), "it recovers by itself"

    IN_PROCESS.run(story, behaviour=FLUX, engines=ENGINES_QUICK)


def _backup() -> tuple[dict[str, Any], ...]:
    target = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": "ApplicationInstance", "name": NAME}
    spec = {"targetRef": target, "type": "Backup", "engine": "velero", "parameters": {"retention": "30d"}}
    meta = {"name": "nightly", "namespace": NS, "labels": LABELS}
    return ({**OPERATION.manifest("nightly", NS), "metadata": meta, "spec": spec},)


# --- the likeliest mistakes of an installation, with the printed roles ------------------------------------------------


@run_by(ENVIRONMENT.run)
async def test_a_forgotten_Role_is_told_with_the_command_that_prints_it(world: World) -> None:
    ref = ObjectRef(APPLICATION_INSTANCE, FOREIGN, NAME)
    labels = {"managed-by": "vworkspace"}
    world.have({**NAMESPACE.manifest(FOREIGN), "metadata": {"name": FOREIGN, "labels": labels}}, NAMESPACE)
    spec = {**instance()["spec"], "release": {"name": NAME, "namespace": FOREIGN}}
    meta = {"name": NAME, "namespace": FOREIGN, "labels": LABELS}
    world.create_object({**instance(), "metadata": meta, "spec": spec}, APPLICATION_INSTANCE)
    await world.until(lambda: says(world, ref, "Blocked")[1] == "Forbidden", "Forbidden is told")
    message = says(world, ref, "Blocked")[2]
    command = f"vworkspace-operator manifests --rbac-only --namespace {FOREIGN} | kubectl apply --server-side -f -"
    assert command in message
    assert FOREIGN in message
    for role in printed("--namespace", FOREIGN):
        if role["kind"] in RIGHTS:
            world.create_object(role, RIGHTS[role["kind"]])
    await world.until(lambda: says(world, ref, "Ready")[0] == "True", "Ready once the Role is there")
    assert says(world, ref, "Blocked")[:2] == ("False", "Unblocked")
    world.delete_object(ref)
    await world.until(lambda: world.find(ref) is None, "the instance gone")


def test_a_forgotten_velero_namespace_is_told_on_the_Operation() -> None:
    elsewhere = f"velero-two{SUFFIX}"
    decided = OperatorSettings(
        Settings(cluster_id=CLUSTER), OperationSettings(CLUSTER, velero_namespace=elsewhere), identity="e2e"
    )

    async def story(world: World) -> None:
        world.have({**NAMESPACE.manifest(elsewhere), "metadata": {"name": elsewhere}}, NAMESPACE)
        ops = Operating(world)
        await ops.prepare()
        ref = ops.submit("backup.velero", "nightly")
        await world.until(lambda: says(world, ref, "Blocked")[1] == "Forbidden", "Forbidden is told")
        command = f"vworkspace-operator manifests --rbac-only --velero-namespace {elsewhere} | kubectl apply"
        assert command in says(world, ref, "Blocked")[2]

    ENVIRONMENT.run(story, behaviour=FLUX, engines=ENGINES_QUICK, decisions=decided)


LACKING_AT_THE_END = [
    ("delete", "helmreleases", NS),
    ("get", "helmreleases", ""),
    ("list", "ocirepositories", ""),
    ("delete", "ocirepositories", NS),
    ("patch", "applicationinstances", ""),
    ("get", "applicationinstances", ""),
]


@pytest.mark.parametrize("lack", LACKING_AT_THE_END, ids=lambda lack: f"{lack[0]} {lack[1]}")
@run_by(IN_PROCESS.run)
async def test_an_end_that_a_missing_right_stops_is_told_and_goes_on_when_it_comes(world: World, *, lack: Lack) -> None:
    await world.ready()
    refuse(world, [lack])
    world.delete_object(INSTANCE)
    await world.until(lambda: says(world, INSTANCE, "Blocked")[1] == "Forbidden", "Forbidden is told")
    assert f"may not {lack[0]} {lack[1]}" in says(world, INSTANCE, "Blocked")[2]
    assert "vworkspace-operator manifests" in says(world, INSTANCE, "Blocked")[2]
    world.cluster.authorize = None
    await world.until(lambda: world.find(INSTANCE) is None, "the instance gone")


# --- a pass that crashes ----------------------------------------------------------------------------------------------


def test_a_pass_that_crashes_is_told_with_the_line_of_the_log_and_recovers_issue_11(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A defect in the operator: InternalError with the id of the log line, nothing lost of the status."""
    sound = InstanceReconciler._decide
    broken = [False]

    def decide(self: InstanceReconciler, source: Any, observed: Any) -> Any:
        if broken[0]:
            raise ZeroDivisionError("a defect")
        return sound(self, source, observed)

    monkeypatch.setattr(InstanceReconciler, "_decide", decide)

    async def story(world: World) -> None:
        await world.ready()
        before = world.find(INSTANCE)
        broken[0] = True
        with capture_logs([structlog.contextvars.merge_contextvars]) as logs:
            world.edit(INSTANCE, {"spec": {"values": {"inline": {"replicaCount": 2}}}})
            await world.until(lambda: says(world, INSTANCE, "Blocked")[1] == "InternalError", "InternalError")
        message = says(world, INSTANCE, "Blocked")[2]
        (line, *_) = [line for line in logs if line["event"] == "reconcile crashed"]
        assert f"reconcile_id {line['reconcile_id']} " in message
        assert "ZeroDivisionError" in message
        after = world.find(INSTANCE)
        for name in ("helmReleaseRef", "lastAppliedChart"):
            assert get_path(after, "status", name) == get_path(before, "status", name)
        assert says(world, INSTANCE, "Ready")[:2] == ("True", "HelmReleaseReady"), "what runs, runs"
        version = get_path(after, "metadata", "resourceVersion")
        await world.clock.sleep(120)
        assert get_path(world.find(INSTANCE), "metadata", "resourceVersion") == version, "told once"
        broken[0] = False
        await world.until(lambda: says(world, INSTANCE, "Blocked")[1] == "Unblocked", "recovered", seconds=400)

    IN_PROCESS.run(story)


# --- what a refusal says ----------------------------------------------------------------------------------------------


@given(
    st.sampled_from(list(RequestVerb)),
    st.sampled_from([(access, namespace) for access in (*TENANT, *VELERO, *EVERYWHERE) for namespace in ("", "org-a")]),
)
def test_the_right_is_read_from_the_servers_own_words_and_its_remedy_fits_what_is_printed(
    verb: RequestVerb, where: tuple[Any, str]
) -> None:
    access, namespace = where
    asked = Attributes(verb.value, access.kind.group, access.kind.plural, access.subresource, namespace, "x")
    said = denied(Caller("system:serviceaccount:a:b"), asked).message
    right = refused_right(said)
    assert right == Right(verb.value, access.kind.group, access.resource, namespace)
    assert right is not None
    assert remedy(right) in not_permitted(right)


@pytest.mark.parametrize(
    "said",
    [
        'pods "x" is forbidden: exceeded quota: compute, requested: pods=1',
        'jobs.batch "x" is forbidden: violates PodSecurity "restricted:latest"',
        'admission webhook "w.example.com" denied the request: User cannot',
    ],
)
def test_a_refusal_that_is_no_missing_right_names_none(said: str) -> None:
    assert refused_right(said) is None


def test_what_is_printed_for_a_namespace_mends_what_is_refused_there() -> None:
    for access in (*TENANT, *JOBS):
        for verb in access.verbs:
            assert "--namespace org-a " in remedy(Right(verb, access.kind.group, access.resource, "org-a"))
    for access in VELERO:
        for verb in access.verbs:
            assert "--velero-namespace v " in remedy(Right(verb, access.kind.group, access.resource, "v"))
    for access in EVERYWHERE:
        for verb in access.verbs:
            right = Right(verb, access.kind.group, access.resource)
            assert remedy(right).startswith("vworkspace-operator manifests --rbac-only | ")
