"""Each step of the deletion of an instance: what is written, what is told, and when it is looked at again (REC-10)."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Forbidden, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, NAMESPACE, OCI_REPOSITORY
from purekube.controller.decision import Decision, Delete, Failure, Finalizer, MergePatch, Requeue
from tests.support.instance_worlds import CONTEXT, NOW, RELEASE, UID, conditions_of, instance_manifest, message_of
from tests.support.instance_worlds import NAMESPACE as GATED
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import KEPT_FROM, UNINSTALL
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.deletion import decide_deletion

NS = "org-myteam"
SOURCE = ObjectRef(OCI_REPOSITORY, NS, "nextcloud")
VALUES = ObjectRef(CONFIG_MAP, NS, "nextcloud-integrations")
THEIRS = ObjectRef(OCI_REPOSITORY, NS, "theirs")
ANNOTATE = f"kubectl annotate {APPLICATION_INSTANCE.crd_name} nextcloud-myteam -n {NS}"
ASKED = "2026-06-01T11:58:00Z"
OWNER = {"uid": UID, "controller": True}
ENDING = {**GATED, "metadata": {"name": NS, "uid": "n", "deletionTimestamp": ASKED}}
NO_RIGHT = Forbidden(
    f'helmreleases "x" is forbidden: User "operator" cannot delete resource "{HELM_RELEASE.plural}" '
    f'in API group "{HELM_RELEASE.group}" in the namespace "{NS}"'
)


def live(ref: ObjectRef, *, going: bool = False, owner: Any = OWNER, status: Any = None, **spec: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": ref.name, "namespace": NS, "uid": f"uid-{ref.name}", "resourceVersion": "7"}
    meta |= {"ownerReferences": [owner]} if owner else {}
    meta |= {"deletionTimestamp": ASKED} if going else {}
    return {**ref.kind.manifest(ref.name, NS), "metadata": meta, "spec": spec, "status": status or {}}


def world(*refs: ObjectRef, **fields: Any) -> dict[ObjectRef, dict[str, Any]]:
    return {ref: live(ref, **fields) for ref in refs}


def decided(
    objects: Any = None,
    *failures: Failure,
    annotations: Any = None,
    finalizers: Any = ("vworkspace.io/operator",),
    status: Any = None,
    namespace: Manifest | None = GATED,
    asked: str = ASKED,
    **observed: Any,
) -> Decision:
    manifest = instance_manifest()
    meta = {**manifest["metadata"], "deletionTimestamp": asked, "finalizers": list(finalizers)}
    manifest = {**manifest, "metadata": {**meta, "annotations": annotations or {}}, "status": status or {}}
    seen = InstanceObserved(namespace, objects or {}, failures=failures, **observed)
    return decide_deletion(read_application_instance(manifest), seen, CONTEXT)


def refused(ref: ObjectRef, error: OperatorError, verb: str = "delete") -> Failure:
    return Failure(ref, verb, error)


GONE = Delete(RELEASE, "uid-nextcloud")


# --- in order -----------------------------------------------------------------------------------------------------


def test_the_release_goes_first_and_what_it_reads_waits() -> None:
    found = decided({**world(SOURCE, VALUES, RELEASE), **world(THEIRS, owner=None)})

    assert (found.patches, [delete.ref for delete in found.deletes]) == ((), [RELEASE])
    assert (found.finalizer, found.requeue, found.only_if_current) == (None, Requeue.NO, True)
    assert conditions_of(found)["Deleting"] == ("True", "Uninstalling")
    assert message_of(found, "Deleting") == f"deleting {RELEASE}"
    assert found.row == "REC-10 Uninstalling"


def test_a_suspended_release_is_resumed_so_that_flux_uninstalls_it() -> None:
    found = decided(world(RELEASE, suspend=True))

    meta = {"resourceVersion": "7"}
    assert found.patches == (MergePatch(RELEASE, {"metadata": meta, "spec": {"suspend": None}}),)
    assert [delete.ref for delete in found.deletes] == [RELEASE]
    assert decided(world(RELEASE, suspend=False)).patches == ()


def test_a_release_that_is_going_is_waited_for() -> None:
    found = decided({**world(RELEASE, going=True), **world(SOURCE)})

    assert (found.patches, found.deletes) == ((), ())
    assert conditions_of(found)["Deleting"] == ("True", "WaitingForChildResources")
    assert message_of(found, "Deleting") == f"waiting for {RELEASE} (deleted at {ASKED}, not gone yet), {SOURCE}"


def failed_uninstall(kind: str = "Released", status: str = "False", reason: str = "UninstallFailed") -> Any:
    condition = {"type": kind, "status": status, "reason": reason, "message": "hook failed"}
    return world(RELEASE, going=True, status={"conditions": [condition]})


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        (failed_uninstall(), True),
        (failed_uninstall("Ready"), True),
        (failed_uninstall("Other"), False),
        (failed_uninstall(status="True"), False),
        (failed_uninstall(reason="UpgradeFailed"), False),
    ],
)
def test_an_uninstall_that_failed_is_told_with_what_helps(objects: Any, told: bool) -> None:
    message = message_of(decided(objects), "Deleting")

    quoted = "; Flux says UninstallFailed: hook failed" if told else ""
    cure = (
        ". Flux tries again by itself; fix what it names, or leave the workload as it is and let go of it with: "
        f"{ANNOTATE} {ABANDON}=true"
    )
    assert message == f"waiting for {RELEASE} (deleted at {ASKED}, not gone yet{quoted}){cure if told else ''}"


def test_no_long_name_or_failure_cuts_the_command_of_a_deletion_REC_8() -> None:
    """Half a command is of no use, and may do something else than what was meant."""
    name, place, uninstalled = "n" * 253, "p" * 63, "r" * 53
    meta = {"name": name, "namespace": place, "deletionTimestamp": ASKED, "finalizers": ["vworkspace.io/operator"]}
    manifest = instance_manifest(release={"name": uninstalled, "namespace": place})
    manifest["metadata"] |= meta
    release = live(ObjectRef(HELM_RELEASE, place, uninstalled), going=True)
    failure = {"type": "Released", "status": "False", "reason": "UninstallFailed", "message": "x" * 900}
    release["metadata"]["namespace"], release["status"] = place, {"conditions": [failure]}
    objects = {ObjectRef(HELM_RELEASE, place, uninstalled): release}
    command = f"kubectl annotate {APPLICATION_INSTANCE.crd_name} {name} -n {place}"

    for observed, ends in (
        (InstanceObserved(GATED, objects), [ABANDON]),
        (InstanceObserved(GATED, objects, definition_ending=True), [UNINSTALL, ABANDON]),
    ):
        decision = decide_deletion(read_application_instance(manifest), observed, CONTEXT)
        message = message_of(decision, "Deleting")
        assert [f"{command} {end}=true" in message for end in ends] == [True] * len(ends)


def test_what_the_release_read_goes_after_it_and_then_the_finalizer() -> None:
    found = decided(world(SOURCE, VALUES))
    assert [delete.ref for delete in found.deletes] == [SOURCE, VALUES]
    assert message_of(found, "Deleting") == f"deleting {SOURCE}, {VALUES}"

    empty = decided(world(THEIRS, owner={"uid": "they", "controller": True}))
    assert (empty.finalizer, empty.status, empty.row) == (Finalizer.REMOVE, None, "REC-10 nothing is left")


@pytest.mark.parametrize(
    ("error", "requeue", "blocked"), [(Unavailable("down"), Requeue.BACKOFF, False), (NO_RIGHT, Requeue.REFUSED, True)]
)
def test_a_refused_deletion_is_told_and_tried_again(error: OperatorError, requeue: Requeue, blocked: bool) -> None:
    found = decided(world(RELEASE, SOURCE), refused(RELEASE, error))

    assert (found.deletes, found.requeue) == ((), requeue)
    assert conditions_of(found)["Deleting"] == ("True", "Uninstalling")
    assert message_of(found, "Deleting") == f"delete {RELEASE}: {error.message}; trying again"
    assert (conditions_of(found).get("Blocked") == ("True", "Forbidden")) is blocked


# --- what is in the way -------------------------------------------------------------------------------------------


def test_while_the_definition_ends_each_instance_needs_a_confirmation() -> None:
    found = decided(world(RELEASE), definition_ending=True)

    assert not found.writes_downstream
    assert conditions_of(found)["Deleting"] == ("True", "AwaitingConfirmation")
    assert message_of(found, "Deleting") == (
        f"the CustomResourceDefinition {APPLICATION_INSTANCE.crd_name} is being deleted, and every instance with it; "
        f"the application runs on until somebody decides. To uninstall it: {ANNOTATE} {UNINSTALL}=true. To let it run "
        f"on without the operator: {ANNOTATE} {ABANDON}=true"
    )
    confirmed = decided(world(RELEASE), definition_ending=True, annotations={UNINSTALL: "true"})
    assert [delete.ref for delete in confirmed.deletes] == [RELEASE]
    assert decided(definition_ending=True).finalizer is Finalizer.REMOVE


@pytest.mark.parametrize("known", [True, False])
def test_without_flux_a_release_cannot_be_uninstalled(known: bool) -> None:
    status = {"helmReleaseRef": {"name": "nextcloud", "namespace": NS}} if known else {}

    found = decided(status=status, missing_kinds=frozenset({HELM_RELEASE}))

    assert (found.finalizer is Finalizer.REMOVE) is not known
    if known:
        message = message_of(found, "Deleting")
        assert message.startswith("the release cannot be uninstalled: ")
        assert message.endswith(f"To let it go and leave the workload behind: {ANNOTATE} {ABANDON}=true")


def test_the_garbage_collector_s_orphans_are_let_go() -> None:
    found = decided(world(RELEASE), finalizers=("vworkspace.io/operator", "orphan"))

    assert found == Decision(finalizer=Finalizer.REMOVE)
    assert found.row == "REC-10 orphaned by the garbage collector"


# --- with its namespace -------------------------------------------------------------------------------------------


def test_in_an_ending_namespace_only_the_release_is_waited_for_and_not_for_ever() -> None:
    found = decided(world(RELEASE, SOURCE), namespace=ENDING)
    assert [delete.ref for delete in found.deletes] == [RELEASE]
    assert found.requeue.after == 180.0, "five minutes after it was asked for"

    others = decided(world(SOURCE, VALUES), namespace=ENDING)
    assert (others.finalizer, others.row, others.deletes) == (Finalizer.REMOVE, "REC-10 goes with its namespace", ())


@pytest.mark.parametrize(("seconds", "waits"), [(299, True), (300, False), (900, False)])
def test_a_release_that_flux_does_not_uninstall_in_time_is_left_behind(seconds: int, waits: bool) -> None:
    asked = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    found = decided(world(RELEASE, SOURCE), namespace=ENDING, asked=asked)

    assert (found.finalizer is None) is waits
    if waits:
        return
    (event,) = found.events
    assert (event.regarding, event.regarding_uid) == (ObjectRef(NAMESPACE, None, NS), "n")
    assert (event.type, event.reason, event.action) == ("Warning", "ReleaseLeftBehind", "Finalize")
    assert event.note.startswith(
        f"ApplicationInstance nextcloud-myteam waited 300 seconds and lets go: {RELEASE} has not been uninstalled by "
        "Flux, and its finalizer may keep the namespace. Start Flux, or let go of the release with: kubectl "
    )
    assert found.row == "REC-10 release left behind"


def test_in_an_ending_namespace_a_missing_right_needs_no_retry() -> None:
    no_right = decided(world(RELEASE, suspend=True), refused(RELEASE, NO_RIGHT), namespace=ENDING)
    down = decided(world(RELEASE), refused(RELEASE, Unavailable("down")), namespace=ENDING)

    assert (no_right.patches, no_right.deletes) == ((), ())
    assert no_right.requeue == attrs.evolve(Requeue.NO, after=180.0)
    assert down.requeue == attrs.evolve(Requeue.BACKOFF, after=180.0)


# --- abandoned ----------------------------------------------------------------------------------------------------

LET_GO = {ABANDON: "true"}


def orphaned(ref: ObjectRef) -> MergePatch:
    meta = {"resourceVersion": "7", "annotations": {KEPT_FROM: UID}, "ownerReferences": []}
    return MergePatch(ref, {"metadata": meta})


def test_an_abandoned_instance_lets_go_of_its_objects_first() -> None:
    found = decided(world(SOURCE, RELEASE), annotations=LET_GO)

    assert sorted(found.patches, key=lambda patch: patch.ref) == [orphaned(RELEASE), orphaned(SOURCE)]
    assert (found.finalizer, found.requeue, found.only_if_current) == (None, Requeue.NO, True)
    names = ", ".join(str(patch.ref) for patch in found.patches)
    assert message_of(found, "Deleting") == f"letting go of {names}"


@pytest.mark.parametrize(("error", "requeue"), [(Unavailable("down"), Requeue.BACKOFF), (NO_RIGHT, Requeue.REFUSED)])
def test_what_cannot_be_let_go_is_told_and_tried_again(error: OperatorError, requeue: Requeue) -> None:
    found = decided(world(SOURCE, RELEASE), refused(RELEASE, error, "patch"), annotations=LET_GO)

    assert (found.patches, found.requeue) == ((orphaned(SOURCE),), requeue)
    assert message_of(found, "Deleting").endswith(f"; patch {RELEASE}: {error.message}; trying again")


LEFT = live(RELEASE, owner=None)


@pytest.mark.parametrize(
    ("objects", "observed", "told"),
    [
        ({}, {}, "the finalizer goes; no HelmRelease of it is left"),
        (
            {RELEASE: LEFT},
            {},
            f"the finalizer goes without an uninstall: what is deployed stays, and nobody owns {RELEASE} any more",
        ),
        (
            {RELEASE: live(RELEASE, owner=None, going=True)},
            {},
            f"the finalizer goes; {RELEASE} was being deleted already, and Flux has been told to leave what it runs",
        ),
        (
            {RELEASE: live(RELEASE)},
            {"namespace": ENDING},
            "the finalizer goes; the namespace is being deleted, and what is in it with it",
        ),
        (
            {},
            {"missing_kinds": frozenset({HELM_RELEASE})},
            "the finalizer goes without an uninstall: Flux is not installed, and what it deployed is left to itself",
        ),
    ],
)
def test_then_the_finalizer_goes_with_a_warning_of_what_is_left(objects: Any, observed: Any, told: str) -> None:
    found = decided(objects, annotations=LET_GO, **observed)

    assert (found.finalizer, found.patches, found.row) == (Finalizer.REMOVE, (), "REC-10 abandoned")
    (event,) = found.events
    assert event.regarding == ObjectRef(APPLICATION_INSTANCE, NS, "nextcloud-myteam")
    assert (event.regarding_uid, event.type, event.reason, event.action) == (UID, "Warning", "Abandoned", "Finalize")
    assert event.note == f"{ABANDON} is set: {told}"
