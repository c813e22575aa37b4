"""OPS-3: each precondition in its exact words, and what a start writes, from data."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import JOB, VELERO_BACKUP
from purekube.controller.decision import Decision, Finalizer, Requeue
from tests.support.instance_worlds import CLUSTER, NAMESPACE, NOW, with_meta
from tests.support.operation_worlds import (
    APPROVAL_SECRET,
    CONTEXT,
    NS,
    OP_UID,
    TARGET,
    conditions_of,
    message_of,
    observed,
    operation,
    operation_manifest,
    target_labels,
    target_manifest,
)
from vworkspace_core.api.labels import MANAGED_BY
from vworkspace_core.api.operation import EngineRef, Operation, OperationStatus, Phase
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.remedies import approval_remedy
from vworkspace_core.operations.approvals import Claims, Redemption, UsedApprovals
from vworkspace_core.operations.context import OperationContext, OperationObserved, lookups, operations_on, siblings_of
from vworkspace_core.operations.contract import EngineRefusal
from vworkspace_core.operations.identity import name_of
from vworkspace_core.operations.preconditions import Start, UnmetPrecondition, start_or_unmet
from vworkspace_core.operations.reconcile import approval_to_redeem, reconcile_operation


def with_object(seen: OperationObserved, ref: ObjectRef, manifest: dict[str, Any] | None) -> OperationObserved:
    objects = {one: live for one, live in seen.objects.items() if one != ref}
    return attrs.evolve(seen, objects=objects if manifest is None else {**objects, ref: manifest})


def with_target(seen: OperationObserved, **meta: Any) -> OperationObserved:
    return with_object(seen, TARGET, with_meta(seen.objects[TARGET], **meta))


def unmet(
    one: Operation | None = None, seen: OperationObserved | None = None, context: OperationContext = CONTEXT
) -> tuple[str, str, bool | None]:
    found = start_or_unmet(operation() if one is None else one, observed() if seen is None else seen, context)
    assert isinstance(found, UnmetPrecondition)
    return found.reason, found.message, found.accepted


NO_TARGET = f"spec.targetRef.name: there is no managed ApplicationInstance {TARGET.name} in this namespace"


def test_the_target_must_be_there_and_managed_OPS_3() -> None:
    assert unmet(seen=with_object(observed(), TARGET, None)) == ("TargetNotFound", NO_TARGET, False)
    assert unmet(seen=with_target(observed(), labels={})) == ("TargetNotFound", NO_TARGET, False)
    going = with_target(observed(), deletionTimestamp="2026-06-01T11:00:00Z")
    assert unmet(seen=going) == ("TargetNotFound", f"the target {TARGET.name} is being deleted", False)


def test_namespace_cluster_and_type_must_admit_it_OPS_3() -> None:
    reason, message, accepted = unmet(seen=attrs.evolve(observed(), namespace={"metadata": {"name": NS}}))
    assert (reason, accepted) == ("NamespaceNotGated", None)
    assert NS in message
    one = operation()
    elsewhere = attrs.evolve(one, metadata=attrs.evolve(one.metadata, labels=target_labels(**OTHER)))
    reason, message, accepted = unmet(elsewhere)
    assert (reason, accepted) == ("WrongCluster", None)
    assert "other" in message
    reason, message, accepted = unmet(seen=with_target(observed(), labels=target_labels(**OTHER)))
    assert (reason, accepted) == ("WrongCluster", None)
    assert message.startswith(f"the target {TARGET.name}: ")
    limited = with_meta(NAMESPACE, annotations={"ops.vworkspace.io/allowed-types": "Backup"})
    assert unmet(seen=attrs.evolve(observed(), namespace=limited)) == (
        "TemplateNotAllowed",
        "type RunCommand is not admitted in this namespace: its annotation ops.vworkspace.io/allowed-types names those "
        "that are",
        False,
    )


OTHER = {"app.vworkspace.io/cluster-id": "other"}


def test_type_and_engine_must_have_a_template_OPS_2() -> None:
    told = "spec.engine: there is no template for type RunCommand and engine {}"

    assert unmet(operation(engine="velero")) == ("ValidationFailed", told.format("velero"), False)
    assert unmet(context=attrs.evolve(CONTEXT, engines={})) == ("ValidationFailed", told.format("job"), False)


@pytest.mark.parametrize(("given", "words"), [(None, ""), ("other", ", but 'other'")])
def test_the_target_must_name_the_engine_RES_5(given: str | None, words: str) -> None:
    annotations = {} if given is None else {"ops.vworkspace.io/runcommand": given}

    assert unmet(seen=with_target(observed(), annotations=annotations)) == (
        "CapabilityMissing",
        f"the target {TARGET.name} does not name engine job for runcommand{words}. To fix: "
        f"kubectl annotate appinst {TARGET.name} -n {NS} ops.vworkspace.io/runcommand=job --overwrite",
        False,
    )


def test_parameters_must_fit_template_and_engine_OPS_2() -> None:
    bad = operation(parameters={"image": "x", "more": 1, "command": "x"})
    reason, message, accepted = unmet(bad)
    assert (reason, accepted) == ("ValidationFailed", False)
    assert message.count("; ") == 1
    assert message.startswith("spec.parameters.command: must be a list, not a string; spec.parameters.more: ")

    for blocks, expected in ((False, ("HookNotFound", "no", False)), (True, ("HookNotFound", "no", True))):
        refusal = EngineRefusal(Reason.HOOK_NOT_FOUND, "no", blocks)
        engine = attrs.evolve(CONTEXT.engines["job"], check=lambda *given, refusal=refusal: refusal)
        assert unmet(context=attrs.evolve(CONTEXT, engines={"job": engine})) == expected


def test_the_kinds_of_the_engine_must_be_served_REC_12() -> None:
    missing = attrs.evolve(observed(), missing_kinds=frozenset({JOB}))
    assert unmet(seen=missing) == ("DependencyMissing", "not installed in this cluster: jobs.batch", True)
    backup = operation("backup.velero")
    gone = attrs.evolve(observed("backup.velero"), missing_kinds=frozenset({VELERO_BACKUP}))
    reason, message, _ = unmet(backup, gone)
    assert reason == "DependencyMissing"
    assert message.startswith("not installed in this cluster: backups.velero.io. To fix, as an administrator")
    place = attrs.evolve(observed("backup.velero"), missing_places=frozenset({"velero"}))
    reason, message, accepted = unmet(backup, place)
    assert (reason, accepted) == ("DependencyMissing", True)
    assert message.startswith("there is no namespace velero, where the operator looks for Velero.")


def test_an_approval_must_be_good_OPS_4() -> None:
    restore, seen = operation("restore.velero", approved=False), observed("restore.velero")
    command = f"vworkspace-operator approve op/op-1 -n {NS}"

    assert unmet(restore, seen) == ("AwaitingApproval", f"waiting for approval. To fix: {command}", True)
    expired = attrs.evolve(CONTEXT, now=NOW + timedelta(hours=2))
    told = f"the approval claim has expired. To fix: {command}"
    assert unmet(operation("restore.velero"), seen, expired) == ("AwaitingApproval", told, True)
    unable = attrs.evolve(CONTEXT, claims=Claims(None, used_approvals=UsedApprovals()))
    remedy = approval_remedy(CONTEXT.settings.installation)
    told = f"no approval secret is configured to check the claim with. To fix: {remedy}"
    assert unmet(restore, seen, unable) == ("MissingSecret", told, True)
    assert unmet(operation(approvals={"required": True}))[0] == "AwaitingApproval"
    assert isinstance(start_or_unmet(operation(approvals={"required": False}), observed(), CONTEXT), Start)


def test_the_target_must_be_ready_where_the_template_asks_for_it_OPS_3() -> None:
    seen = with_object(observed(), TARGET, target_manifest("runCommand.job", ready=False))

    told = f"the target {TARGET.name} is not Ready (Ready=False/HelmReleaseReady)"
    assert unmet(seen=seen) == ("TargetNotReady", told, True)


@pytest.mark.parametrize(("phase", "words"), [(Phase.RUNNING, "Running"), (None, "Pending")])
def test_a_conflicting_operation_is_named_OPS_5(phase: Phase | None, words: str) -> None:
    ahead = operation("upgrade.helm", name="busy", uid="b", created="2026-06-01T10:00:00Z")
    ahead = attrs.evolve(ahead, status=OperationStatus(phase=phase, observed_generation=1))
    seen = attrs.evolve(observed("upgrade.helm"), siblings=(ahead,))

    told = f"waits for Operation busy (Upgrade, {words})"
    assert unmet(operation("upgrade.helm"), seen) == ("ConflictingOperation", told, True)


def test_the_name_of_what_is_created_must_be_free_OPS_1() -> None:
    ref = ObjectRef(JOB, NS, name_of(operation()))
    reason, message, accepted = unmet(seen=with_object(observed(), ref, JOB.manifest(ref.name, NS)))

    assert (reason, accepted) == ("NameTaken", True)
    assert message.startswith(f"{ref} exists and was not made for this Operation. To fix: ")


def test_where_all_holds_it_starts_with_what_it_creates_OPS_1() -> None:
    start = start_or_unmet(operation(), observed(), CONTEXT)
    assert isinstance(start, Start)
    assert (start.engine, start.redemption) == (CONTEXT.engines["job"], None)
    assert [one.ref for one in start.objects] == [ObjectRef(JOB, NS, name_of(operation()))]
    assert start.target.metadata.name == TARGET.name
    approved = start_or_unmet(operation("restore.velero"), observed("restore.velero"), CONTEXT)
    assert isinstance(approved, Start)
    assert approved.redemption == Redemption("request-op-1", OP_UID, NOW + timedelta(hours=1))


# --- the decision -----------------------------------------------------------------------------------------------------

RECORDS = attrs.evolve(CONTEXT, claims=Claims(APPROVAL_SECRET, CLUSTER, used_approvals=UsedApprovals()))


def test_an_approval_is_recorded_before_the_start_OPS_4() -> None:
    one, seen = operation("restore.velero"), observed("restore.velero")
    redemption = Redemption("request-op-1", OP_UID, NOW + timedelta(hours=1))

    assert approval_to_redeem(one, seen, RECORDS) == redemption
    waits = reconcile_operation(one, seen, RECORDS)
    assert waits.requeue == Requeue.BACKOFF
    assert conditions_of(waits)["Blocked"] == ("True", "AwaitingApproval")
    assert message_of(waits, "Blocked") == "the approval is being written down as used"
    troubled = attrs.evolve(RECORDS, claims=attrs.evolve(RECORDS.claims, trouble="busy"))
    told = "the approval could not be written down as used: busy; tried again"
    assert message_of(reconcile_operation(one, seen, troubled), "Blocked") == told
    used = attrs.evolve(RECORDS.claims, used_approvals=UsedApprovals().with_used(redemption, NOW))
    recorded = attrs.evolve(RECORDS, claims=used)
    assert approval_to_redeem(one, seen, recorded) is None
    assert conditions_of(reconcile_operation(one, seen, recorded))["Running"] == ("True", "EngineStarted")


def changed(one: Operation, **meta: Any) -> Operation:
    return attrs.evolve(one, metadata=attrs.evolve(one.metadata, **meta))


RESTORE = operation("restore.velero")


@pytest.mark.parametrize(
    "one",
    [
        changed(RESTORE, deletion_timestamp="now"),
        changed(RESTORE, annotations={"ops.vworkspace.io/cancel": "true"}),
        changed(RESTORE, labels={}),
        changed(RESTORE, labels={key: text for key, text in RESTORE.metadata.labels.items() if key != MANAGED_BY}),
        changed(RESTORE, labels=target_labels(**OTHER)),
        *(attrs.evolve(RESTORE, status=OperationStatus(phase=phase)) for phase in set(Phase) - {Phase.PENDING}),
        operation("restore.velero", approved=False),
        operation("restore.velero", parameters={}),
    ],
)
def test_what_does_not_start_uses_up_no_approval_OPS_4(one: Operation) -> None:
    assert approval_to_redeem(one, observed("restore.velero"), RECORDS) is None
    pending = attrs.evolve(RESTORE, status=OperationStatus(phase=Phase.PENDING))
    assert approval_to_redeem(pending, observed("restore.velero"), RECORDS) is not None
    assert approval_to_redeem(operation(), observed(), RECORDS) is None, "none is needed"


def test_a_start_writes_the_intent_and_the_finalizer_OPS_1() -> None:
    bare = changed(operation(), finalizers=("x/y",))

    assert reconcile_operation(bare, observed(), CONTEXT).finalizer is Finalizer.ADD
    started = reconcile_operation(operation(), observed(), CONTEXT)
    assert (started.finalizer, started.creates, started.requeue) == (None, (), Requeue.NO)
    assert started.status is not None
    status = started.status["status"]
    assert status["engineRef"] == {"apiVersion": "batch/v1", "kind": "Job", "namespace": NS, "name": name_of(bare)}
    assert status["message"] == f"creating Job {name_of(bare)}"
    outputs = attrs.evolve(CONTEXT.engines["job"], initial_outputs=lambda *given: {"a": 1})
    told = reconcile_operation(operation(), observed(), attrs.evolve(CONTEXT, engines={"job": outputs})).status
    assert told is not None
    assert told["status"]["outputs"] == {"a": 1}


def test_one_that_is_cancelled_before_its_start_ends_OPS_11() -> None:
    decision = reconcile_operation(operation(annotations={"ops.vworkspace.io/cancel": "true"}), observed(), CONTEXT)

    assert conditions_of(decision) == {
        "Cancelled": ("True", "UserCancelled"),
        "Running": ("False", "EngineNotStarted"),
    }
    assert message_of(decision, "Cancelled") == "cancelled before it started"


def test_one_that_is_not_ours_is_left_alone_RES_5() -> None:
    theirs = changed(operation(), labels=target_labels(**OTHER))

    assert reconcile_operation(changed(operation(), labels={}), observed(), CONTEXT) == Decision()
    assert reconcile_operation(changed(operation(), labels={}), observed(), CONTEXT).row == "not ours"
    assert conditions_of(reconcile_operation(theirs, observed(), CONTEXT))["Blocked"] == ("True", "WrongCluster")
    going = changed(operation(), deletion_timestamp="now", finalizers=())
    assert reconcile_operation(going, observed(), CONTEXT) == Decision()
    assert reconcile_operation(going, observed(), CONTEXT).row == "being deleted, without our finalizer"


# --- what is read -----------------------------------------------------------------------------------------------------


def reads(one: Operation, context: OperationContext = CONTEXT, target: Any = None) -> list[ObjectRef]:
    return list(lookups(one, context, target))


def test_what_a_decision_reads_follows_from_the_engine_and_the_run_OPS_3() -> None:
    made = ObjectRef(JOB, NS, name_of(operation()))
    known = EngineRef("batch/v1", "Job", NS, "job-1", "u-1")
    recorded = ObjectRef(JOB, NS, "job-1")

    def status(**fields: Any) -> Operation:
        return attrs.evolve(operation(), status=OperationStatus(**fields))

    assert reads(operation()) == [made]
    assert reads(status(engine_ref=known)) == [recorded]
    assert reads(status(engine_ref=attrs.evolve(known, uid=""))) == [recorded, made]
    assert reads(status(phase=Phase.FAILED)) == []
    assert reads(status(phase=Phase.FAILED, engine_ref=known)) == [recorded]
    assert reads(status(engine_ref=attrs.evolve(known, kind="Other"))) == []
    assert reads(status(engine_ref=attrs.evolve(known, api_version="batch/v2"))) == []
    assert reads(operation(), attrs.evolve(CONTEXT, engines={})) == []


def test_what_an_engine_looks_up_is_read_once_its_parameters_are_good_OPS_3() -> None:
    more = ObjectRef(JOB, NS, "more")
    engine = attrs.evolve(CONTEXT.engines["job"], looks_up=lambda one, target, settings: (more,))
    context = attrs.evolve(CONTEXT, engines={"job": engine})
    made = ObjectRef(JOB, NS, name_of(operation()))

    assert reads(operation(), context, target_manifest()) == [made, more]
    assert reads(operation(), context) == [made]
    assert reads(operation(parameters={}), context, target_manifest()) == [made]
    no_template = attrs.evolve(context, templates=type(CONTEXT.templates)())
    assert reads(operation(), no_template, target_manifest()) == [made]
    elsewhere = attrs.evolve(engine, namespace=lambda settings: "velero")
    placed = reads(operation(), attrs.evolve(CONTEXT, engines={"job": elsewhere}))
    assert [(ref.kind.kind, ref.namespace, ref.name) for ref in placed] == [
        ("Namespace", None, "velero"),
        ("Job", "velero", made.name),
    ]


def test_the_operations_on_a_target_are_those_that_this_operator_answers_for_OPS_5() -> None:
    ours = operation_manifest(name="a", uid="a")
    theirs = with_meta(operation_manifest(name="b", uid="b"), labels=target_labels(**OTHER))
    begun = {**theirs, "metadata": {**theirs["metadata"], "uid": "c"}, "status": {"startedAt": "2026-06-01T11:00:00Z"}}
    bare = with_meta(operation_manifest(name="d", uid="d"), labels={})
    malformed = {**ours, "spec": {"type": 1}}
    other = operation_manifest(name="e", uid="e", targetRef={"name": "another"})
    away = with_meta(operation_manifest(name="f", uid="f"), namespace="org-other")
    listed = [ours, theirs, begun, bare, malformed, other, away]

    assert [one.metadata.uid for one in operations_on(TARGET, listed, CLUSTER)] == ["a", "c"]
    me = operation(name="a", uid="a")
    assert [one.metadata.uid for one in siblings_of(me, listed, CONTEXT)] == ["c"]
    assert [one.metadata.uid for one in siblings_of(operation(), listed, CONTEXT)] == ["a", "c"]
