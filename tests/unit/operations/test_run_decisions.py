"""OPS-1, OPS-8, OPS-11: what is decided about a started run and about its deletion, from what its engine reports."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Forbidden, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.resources import JOB
from purekube.controller.decision import Create, Decision, Delete, Failure, Finalizer, MergePatch, Requeue
from purekube.controller.ownership import UNRECORDED
from tests.support.instance_worlds import NAMESPACE, NOW, with_meta
from tests.support.operation_worlds import CONTEXT, NS, OP_UID, TARGET, operation, target_manifest
from vworkspace_core.api.labels import FIELD_MANAGER, MANAGED_BY, MANAGED_BY_VALUE, OPERATION_UID
from vworkspace_core.api.operation import EngineRef, Operation, OperationStatus, Phase
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import EngineRefusal, EngineStatus, Progress
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.identity import name_of
from vworkspace_core.operations.reconcile import needs_live_view, reconcile_operation

NAME = name_of(operation())
REF = ObjectRef(JOB, NS, NAME)
KNOWN = EngineRef("batch/v1", "Job", NS, NAME, "u-1")
UNSEEN = attrs.evolve(KNOWN, uid="")
STARTED = "2026-06-01T11:30:00Z"
GOES_ON = EngineStatus(Progress.RUNNING, "PodRunning", "one pod", {"pods": 1})
WELL = EngineStatus(Progress.SUCCEEDED, "JobComplete", "done", {"pods": 1})
BADLY = EngineStatus(Progress.FAILED, "JobFailed", "no luck")


def context(report: EngineStatus = GOES_ON, limit: int | None = None, **more: Any) -> OperationContext:
    """Return a context in which the engine `job` reports this, and its runs may take `limit` seconds."""
    engine = attrs.evolve(ENGINES["job"], **{"observe": lambda one, objects: report, **more})
    settings = attrs.evolve(CONTEXT.settings, timeout_seconds={} if limit is None else {"job": limit})
    return attrs.evolve(CONTEXT, engines={"job": engine}, settings=settings)


def condition(kind: str, status: str, reason: str, message: str = "") -> Condition:
    return Condition(kind, ConditionStatus(status), reason, message, "2026-06-01T11:30:00Z", 1)


LAST = condition("Running", "True", "PodPending", "no node")


def run(
    known: EngineRef | None = KNOWN,
    *conditions: Condition,
    phase: Phase = Phase.RUNNING,
    cancelled: bool = False,
    deleting: bool = False,
    **more: Any,
) -> Operation:
    annotations = {"ops.vworkspace.io/cancel": "true"} if cancelled else {}
    one = operation(annotations={**annotations, **more.pop("annotations", {})}, **more)
    status = OperationStatus(
        phase=phase, started_at=STARTED, engine_ref=known, conditions=conditions or (LAST,), outputs={"old": 1}
    )
    meta = attrs.evolve(one.metadata, deletion_timestamp="2026-06-01T11:59:30Z" if deleting else None)
    return attrs.evolve(one, status=status, metadata=meta)


def job(**meta: Any) -> dict[str, Any]:
    marks = {MANAGED_BY: MANAGED_BY_VALUE, OPERATION_UID: OP_UID, "app.vworkspace.io/cluster-id": "c-1"}
    return {
        **JOB.manifest(NAME, NS),
        "metadata": {
            "name": NAME,
            "namespace": NS,
            "uid": "u-1",
            "resourceVersion": "5",
            "creationTimestamp": "2026-06-01T11:59:00Z",
            "managedFields": [{"manager": FIELD_MANAGER, "operation": "Update"}],
            "labels": marks,
            "ownerReferences": [{"uid": OP_UID}],
            **meta,
        },
    }


def seen(made: dict[str, Any] | None = None, *, target: bool = True, **more: Any) -> OperationObserved:
    objects = {**({TARGET: target_manifest("runCommand.job")} if target else {}), **({REF: made} if made else {})}
    return OperationObserved(**{"namespace": NAMESPACE, "objects": objects, **more})


def told(decision: Decision) -> dict[str, tuple[str, str, str]]:
    assert decision.status is not None
    return {
        one["type"]: (one["status"], one["reason"], one.get("message", ""))
        for one in decision.status["status"]["conditions"]
    }


def field(decision: Decision, name: str) -> Any:
    assert decision.status is not None
    return decision.status["status"].get(name)


def decide(one: Operation, observed: OperationObserved, of: OperationContext | None = None) -> Decision:
    return reconcile_operation(one, observed, context() if of is None else of)


# --- the engine reports ----------------------------------------------------------------------------------------------


def test_a_run_that_goes_on_is_told_and_looked_at_again_OPS_8() -> None:
    decision = decide(run(timeoutSeconds=3600), seen(job()))

    assert told(decision) == {"Running": ("True", "PodRunning", "one pod")}
    assert (field(decision, "phase"), field(decision, "outputs")) == ("Running", {"pods": 1})
    assert field(decision, "engineRef")["uid"] == "u-1"
    assert (decision.requeue, decision.patches, decision.deletes) == (Requeue.at_latest(1800.0), (), ())
    soon = decide(run(timeoutSeconds=3600), seen(job()), context(attrs.evolve(GOES_ON, requeue_after=5.0)))
    assert soon.requeue == Requeue.at_latest(5.0)
    later = decide(run(timeoutSeconds=3600), seen(job()), context(attrs.evolve(GOES_ON, requeue_after=9999.0)))
    assert later.requeue == Requeue.at_latest(1800.0)
    endless = decide(run(), seen(job()), context(recurring=lambda one: True))
    assert endless.requeue == Requeue.NO


@pytest.mark.parametrize(
    ("report", "phase", "ended"),
    [
        (WELL, "Succeeded", ("Succeeded", ("True", "JobComplete", "done"))),
        (BADLY, "Failed", ("Failed", ("True", "JobFailed", "no luck"))),
    ],
)
def test_an_end_is_believed_before_the_deadline_and_a_cancellation_OPS_8(
    report: EngineStatus, phase: str, ended: tuple[str, Any]
) -> None:
    for one in (run(), run(cancelled=True), run(timeoutSeconds=1)):
        decision = decide(one, seen(job()), context(report))
        assert field(decision, "phase") == phase
        assert told(decision) == {"Running": ("False", "EngineFinished", ""), ended[0]: ended[1]}
        assert field(decision, "finishedAt") == "2026-06-01T12:00:00Z"
        assert decision.deletes == ()
    stopping = decide(run(cancelled=True), seen(job(deletionTimestamp="now")), context(report))
    assert field(stopping, "phase") == "Running", "it ends because it was stopped"
    alone = decide(run(), seen(job(deletionTimestamp="now")), context(report))
    assert field(alone, "phase") == phase


def test_a_remedy_and_the_last_trouble_are_added_to_the_message_OPS_8() -> None:
    helped = decide(run(), seen(job()), context(remedy=lambda one, status, settings: f"Mend {status.reason}"))
    assert told(helped)["Running"][2] == "one pod. Mend PodRunning"
    troubled = decide(run(), seen(job()), context(BADLY, terminal_reasons=frozenset({"PodPending"})))
    assert told(troubled)["Failed"][2] == "no luck; before: PodPending (no node)"
    other = decide(run(), seen(job()), context(BADLY, terminal_reasons=frozenset({"ImagePull"})))
    assert told(other)["Failed"][2] == "no luck"
    well = decide(run(), seen(job()), context(WELL, terminal_reasons=frozenset({"PodPending"})))
    assert told(well)["Succeeded"][2] == "done"


@pytest.mark.parametrize(
    ("spec", "report", "message"),
    [
        ({"timeoutSeconds": 60}, GOES_ON, "not finished within 60 s; last seen: PodRunning (one pod)"),
        ({"timeoutSeconds": 60}, attrs.evolve(GOES_ON, message=""), "not finished within 60 s; last seen: PodRunning"),
        ({}, GOES_ON, "not finished within the engine's default deadline; last seen: PodRunning (one pod)"),
    ],
)
@pytest.mark.parametrize("note", ["", "It may go on"])
def test_a_run_that_is_over_is_stopped_and_failed_OPS_12(
    spec: dict[str, Any], report: EngineStatus, message: str, note: str
) -> None:
    one = run(**spec)
    decision = decide(one, seen(job()), context(report, 60, after_stop=note))

    assert told(decision)["Failed"] == ("True", "Timeout", message + (f". {note}" if note else ""))
    assert (decision.deletes, decision.only_if_current) == ((Delete(REF, "u-1", "5"),), True)
    assert decision.requeue == Requeue.NO
    gone = decide(one, seen(), context(report, 60))
    assert told(gone)["Failed"][2].endswith("; last seen: PodPending (no node)")
    assert gone.deletes == ()


RIGHT = 'User "u" cannot delete resource "jobs" in API group "batch" in the namespace "org-myteam"'


@pytest.mark.parametrize("note", ["", "It may go on"])
def test_a_cancelled_run_is_waited_for_until_its_object_is_gone_OPS_11(note: str) -> None:
    end = f". {note}" if note else ""
    one, of = run(cancelled=True, timeoutSeconds=3600), context(after_stop=note)
    going = decide(one, seen(job()), of)
    assert told(going) == {"Running": ("True", "PodRunning", f"cancelling: waiting for Job {NS}/{NAME} to go{end}")}
    assert (going.deletes, going.only_if_current) == ((Delete(REF, "u-1", "5"),), True)
    assert going.requeue == Requeue.at_latest(1800.0)

    gone = decide(one, seen(), of)
    assert told(gone)["Cancelled"] == ("True", "UserCancelled", f"cancelled on request{end}")
    assert field(gone, "phase") == "Cancelled"
    held = decide(one, seen(), context(after_stop=note, blocks_end=lambda one, objects: True))
    assert told(held)["Running"][2] == f"cancelling: waiting for the target to let go of it{end}"
    failures = (Failure(REF, "delete", Forbidden(RIGHT)), Failure(REF, "patch", Unavailable("busy")))
    refused = decide(one, seen(job(), failures=failures), of)
    assert told(refused)["Running"][2].endswith(f"; delete Job {NS}/{NAME}: {RIGHT}; patch Job {NS}/{NAME}: busy")
    assert told(refused)["Blocked"][:2] == ("True", "Forbidden")
    assert (refused.deletes, refused.requeue.pace) == ((), Requeue.REFUSED.pace)


def test_a_run_whose_object_was_removed_is_failed_unless_its_end_is_told_OPS_8() -> None:
    lost = (
        f"Job {NAME} was removed before its end was seen, so that it is not known whether it had finished; last seen: "
    )
    assert told(decide(run(), seen()))["Failed"] == ("True", "ExternalDeletion", f"{lost}PodPending: no node")
    silent = run(KNOWN, condition("Running", "True", "PodPending"))
    assert told(decide(silent, seen()))["Failed"][2] == f"{lost}PodPending"
    unknown = run(KNOWN, condition("Accepted", "True", "TemplateValidated"))
    assert told(decide(unknown, seen()))["Failed"][2] == f"{lost}EngineStarted"
    assert field(decide(run(), seen()), "outputs") == {"old": 1}

    for final, phase in ((WELL, "Succeeded"), (BADLY, "Failed"), (GOES_ON, "Failed")):
        decision = decide(run(), seen(), context(final_status=lambda one, objects, final=final: final))
        assert (field(decision, "phase"), told(decision)[phase]) == (phase, ("True", final.reason, final.message))


def test_an_engine_without_an_object_is_judged_by_its_report_alone_OPS_9() -> None:
    bare = context(WELL, kinds=lambda one: ())
    assert field(decide(run(None), seen(), bare), "phase") == "Succeeded"
    assert field(decide(run(KNOWN), seen(), bare), "phase") == "Succeeded"
    cancelled = decide(run(None, cancelled=True), seen(), bare)
    assert field(cancelled, "phase") == "Cancelled"


def test_an_engine_that_is_unknown_blocks_its_run_OPS_2() -> None:
    decision = decide(run(), seen(job()), attrs.evolve(CONTEXT, engines={}))

    message = "engine job is unknown to the operator in its present version"
    assert told(decision) == {
        "Running": ("True", "EngineStarted", message),
        "Blocked": ("True", "DependencyMissing", message),
    }
    assert decision.requeue == Requeue.SLOW


# --- the object is created once ---------------------------------------------------------------------------------------


def test_the_object_is_created_locked_from_the_newest_copy_OPS_1() -> None:
    decision = decide(run(UNSEEN, timeoutSeconds=3600), seen())
    (create,) = decision.creates

    assert create == Create(JOB, create.manifest)
    assert (create.ref, create.manifest["metadata"]["finalizers"]) == (REF, [UNRECORDED])
    assert (decision.only_if_current, decision.status, decision.row) == (True, None, "OPS-1 create once")
    assert decision.requeue == Requeue.at_latest(1800.0)


def test_the_object_that_was_created_is_recorded_before_it_is_unlocked_OPS_1() -> None:
    made = job(finalizers=[UNRECORDED])
    first, later = decide(run(UNSEEN), seen(made)), decide(run(KNOWN), seen(made))

    assert (field(first, "engineRef")["uid"], first.patches) == ("u-1", ())
    assert later.patches == (MergePatch(REF, {"metadata": {"resourceVersion": "5", "finalizers": []}}),)
    forged = decide(run(UNSEEN), seen(job(finalizers=[UNRECORDED], managedFields=[])))
    assert told(forged)["Blocked"][:2] == ("True", "NameTaken")
    assert told(forged)["Blocked"][2].startswith(f"Job {NS}/{NAME} exists and was not made for this Operation")
    assert forged.requeue.pace is Requeue.SLOW.pace
    assert field(forged, "engineRef").get("uid", "") == ""


@pytest.mark.parametrize(
    ("one", "observed", "of", "message"),
    [
        (run(UNSEEN), seen(target=False), context(), "the target has gone"),
        (run(UNSEEN), seen(), attrs.evolve(context(), templates=type(CONTEXT.templates)()), "the template has gone"),
        (run(UNSEEN, parameters={}), seen(), context(), "spec.parameters.image: is required"),
        (
            run(UNSEEN),
            seen(),
            context(check=lambda *given: EngineRefusal(Reason.VALIDATION_FAILED, "not so")),
            "not so",
        ),
    ],
)
def test_what_can_no_longer_be_created_ends_the_run_OPS_1(
    one: Operation, observed: OperationObserved, of: OperationContext, message: str
) -> None:
    decision = decide(one, observed, of)

    assert told(decision)["Failed"][:2] == ("True", "PreconditionFailed")
    assert message in told(decision)["Failed"][2]
    assert decision.creates == ()


def test_before_the_create_the_deadline_and_a_cancellation_count_OPS_11() -> None:
    late, cancelled = run(UNSEEN, timeoutSeconds=60), run(UNSEEN, cancelled=True)

    assert told(decide(late, seen()))["Failed"][1:] == (
        "Timeout",
        "not finished within 60 s; last seen: PodPending (nothing was created; no node)",
    )
    bare = run(UNSEEN, condition("Running", "True", "EngineStarted"), timeoutSeconds=60)
    assert told(decide(bare, seen()))["Failed"][2].endswith("last seen: EngineStarted (nothing was created)")
    assert told(decide(cancelled, seen()))["Cancelled"] == ("True", "UserCancelled", "cancelled on request")
    refused = decide(run(UNSEEN), seen(failures=(Failure(REF, "create", Unavailable("busy")),)))
    assert told(refused)["Running"][2] == f"create Job {NS}/{NAME}: busy; tried again"
    assert (refused.creates, refused.requeue.pace) == ((), Requeue.BACKOFF.pace)


# --- after the end ----------------------------------------------------------------------------------------------------


def ended(phase: Phase, *conditions: Condition, **more: Any) -> Operation:
    return run(KNOWN, condition("Running", "False", "EngineFinished"), *conditions, phase=phase, **more)


TIMED_OUT = condition("Failed", "True", "Timeout", "late")
LOCKED = job(finalizers=[UNRECORDED, "x"])
UNLOCK = MergePatch(REF, {"metadata": {"resourceVersion": "5", "finalizers": ["x"]}})


@pytest.mark.parametrize(
    ("one", "stopped"),
    [
        (ended(Phase.SUCCEEDED), False),
        (ended(Phase.FAILED, condition("Failed", "True", "JobFailed")), False),
        (ended(Phase.FAILED), False),
        (ended(Phase.FAILED, TIMED_OUT), True),
        (ended(Phase.CANCELLED), True),
        (ended(Phase.SUCCEEDED, TIMED_OUT), False),
    ],
)
def test_an_ended_run_leaves_its_object_unless_it_was_stopped_OPS_11(one: Operation, stopped: bool) -> None:
    table: list[tuple[dict[str, Any] | None, bool, str | None]] = [
        (job(), False, "5"),
        (LOCKED, True, None),
        (None, False, None),
    ]
    for made, locked, version in table:
        decision = decide(one, seen(made))
        deletes = (Delete(REF, "u-1", version),) if stopped and made else ()
        assert decision == Decision(patches=(UNLOCK,) if locked else (), deletes=deletes, only_if_current=True)
        assert decision.row == f"OPS-1 ended {one.status.phase}"


@pytest.mark.parametrize("phase", [Phase.CANCELLED, Phase.FAILED])
def test_a_create_that_arrives_after_the_end_is_undone_OPS_11(phase: Phase) -> None:
    """The client had given up on it; nothing else would ever unlock or stop the object."""
    one = attrs.evolve(ended(phase), status=attrs.evolve(ended(phase).status, engine_ref=UNSEEN))
    decision = decide(one, seen(LOCKED))

    assert (decision.patches, decision.deletes) == ((UNLOCK,), (Delete(REF, "u-1"),))


def test_an_ended_run_is_not_blocked_except_by_a_missing_right_REC_13() -> None:
    blocked = ended(Phase.SUCCEEDED, condition("Blocked", "True", "NameTaken"), condition("Succeeded", "True", "Done"))
    assert told(decide(blocked, seen(job())))["Blocked"][:2] == ("False", "Unblocked")
    free = ended(Phase.SUCCEEDED, condition("Blocked", "False", "Unblocked"), condition("Succeeded", "True", "Done"))
    assert decide(free, seen(job())).status is None
    refused = decide(free, seen(LOCKED, failures=(Failure(REF, "patch", Forbidden(RIGHT)),)))
    assert told(refused)["Blocked"][:2] == ("True", "Forbidden")
    assert told(refused)["Succeeded"][:2] == ("True", "Done")
    assert (refused.requeue, refused.patches) == (Requeue.REFUSED, ())
    busy = decide(free, seen(LOCKED, failures=(Failure(REF, "patch", Unavailable("busy")),)))
    assert (busy.requeue, busy.status) == (Requeue.BACKOFF, None)


# --- deletion ---------------------------------------------------------------------------------------------------------

GONE = Decision(finalizer=Finalizer.REMOVE, only_if_current=True)
TERMINATING = {**with_meta(NAMESPACE, deletionTimestamp="now"), "status": {"phase": "Terminating"}}


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED])
def test_an_operation_without_a_run_goes_at_once_OPS_11(phase: Phase) -> None:
    decision = decide(run(None, phase=phase, deleting=True), seen())

    assert (decision, decision.row) == (GONE, "OPS-11 nothing to stop")
    assert decide(without_finalizer(run(deleting=True)), seen(job())) == Decision()


def test_a_running_one_is_stopped_before_its_operation_goes_OPS_11() -> None:
    decision = decide(run(deleting=True), seen(job()))

    assert decision.deletes == (Delete(REF, "u-1", "5"),)
    assert (decision.finalizer, decision.only_if_current, decision.requeue) == (None, True, Requeue.NO)
    assert told(decision)["Running"] == ("True", "PodPending", f"being deleted: waiting for Job {NS}/{NAME} to go")
    noted = decide(run(deleting=True), seen(job()), context(after_stop="It may go on"))
    assert told(noted)["Running"][2].endswith("to go. It may go on")
    unlocked = decide(run(deleting=True), seen(LOCKED))
    assert (unlocked.patches, unlocked.deletes) == ((UNLOCK,), (Delete(REF, "u-1", None),))
    going = decide(run(deleting=True), seen(job(deletionTimestamp="now")))
    assert (going.deletes, going.finalizer) == ((), None)
    failures = (Failure(REF, "delete", Unavailable("busy")),)
    refused = decide(run(deleting=True), seen(job(), failures=failures))
    assert told(refused)["Running"][2].endswith(f"to go; delete Job {NS}/{NAME}: busy")
    assert (refused.deletes, refused.requeue) == ((), Requeue.BACKOFF)
    bare = run(KNOWN, condition("Accepted", "True", "TemplateValidated"), deleting=True)
    assert told(decide(bare, seen(job())))["Running"][1] == "EngineStarted"


@pytest.mark.parametrize("report", [WELL, BADLY])
def test_a_run_that_had_just_ended_is_kept_when_its_operation_goes_OPS_7(report: EngineStatus) -> None:
    assert decide(run(deleting=True), seen(job()), context(report)) == GONE
    unlocked = decide(run(deleting=True), seen(LOCKED), context(report))
    assert (unlocked.patches, unlocked.deletes, unlocked.finalizer) == ((UNLOCK,), (), None)
    stopping = decide(run(deleting=True), seen(job(deletionTimestamp="now")), context(report))
    assert (stopping.finalizer, stopping.deletes) == (None, ())
    for one in (ended(Phase.SUCCEEDED, deleting=True), ended(Phase.FAILED, deleting=True)):
        assert decide(one, seen(job())) == GONE
    stopped = decide(ended(Phase.FAILED, TIMED_OUT, deleting=True), seen(job()))
    assert (stopped.deletes, stopped.status, stopped.finalizer) == ((Delete(REF, "u-1", "5"),), None, None)
    unknown = attrs.evolve(context(), engines={})
    assert decide(run(deleting=True), seen(job()), unknown) == GONE


def test_a_run_without_an_object_is_waited_for_while_it_holds_its_target_OPS_11() -> None:
    holds = context(blocks_end=lambda one, objects: True)

    assert decide(run(deleting=True), seen()) == GONE
    waits = decide(run(deleting=True), seen(), holds)
    assert told(waits)["Running"][2] == "being deleted: waiting for the target to let go of it"
    assert waits.finalizer is None
    assert decide(ended(Phase.SUCCEEDED, deleting=True), seen(), holds) == GONE
    assert decide(ended(Phase.FAILED, deleting=True), seen(), holds) == Decision()
    assert decide(run(deleting=True), seen(), attrs.evolve(holds, engines={})) == GONE
    assert decide(run(deleting=True), seen(namespace=TERMINATING), holds) == GONE


def test_what_goes_with_its_namespace_is_let_go_REC_14() -> None:
    unlocks = decide(run(deleting=True), seen(LOCKED, namespace=TERMINATING))
    assert unlocks == Decision(patches=(UNLOCK,), only_if_current=True)
    assert unlocks.row == "OPS-11 goes with its namespace"
    assert decide(run(deleting=True), seen(job(), namespace=TERMINATING)) == GONE
    failures = (Failure(REF, "patch", Forbidden("no")),)
    stuck = decide(run(deleting=True), seen(LOCKED, namespace=TERMINATING, failures=failures))
    assert "the namespace is being deleted and the operator may not change it any more" in told(stuck)["Running"][2]
    assert "To let go of it: kubectl" in told(stuck)["Running"][2]
    assert '"finalizers":["x"]' in told(stuck)["Running"][2]


def test_an_abandoned_run_is_left_to_itself_OPS_11() -> None:
    abandon: dict[str, Any] = {"annotations": {"vworkspace.io/abandon": "true"}, "deleting": True}
    owner = {"uid": OP_UID, "kind": "Operation"}
    held = job(ownerReferences=[owner, {"uid": "u-9"}], finalizers=[UNRECORDED, "x"])
    released = MergePatch(
        REF, {"metadata": {"resourceVersion": "5", "ownerReferences": [{"uid": "u-9"}], "finalizers": ["x"]}}
    )

    first = decide(run(**abandon), seen(held))
    assert (first.patches, first.finalizer, first.only_if_current, first.events[:0]) == ((released,), None, True, ())
    assert told(first)["Running"][2] == f"being deleted: waiting for Job {NS}/{NAME} to be let go of"
    refused = decide(run(**abandon), seen(held, failures=(Failure(REF, "patch", Unavailable("busy")),)))
    assert (refused.patches, refused.requeue) == ((), Requeue.BACKOFF)
    for made in (job(ownerReferences=[owner]), job(ownerReferences=[], finalizers=[UNRECORDED])):
        assert len(decide(run(**abandon), seen(made)).patches) == 1

    for observed, text in (
        (seen(), f"Job {NS}/{NAME} was not found, or may not be read"),
        (seen(job(ownerReferences=[])), f"Job {NS}/{NAME} is left to itself"),
        (seen(job(ownerReferences=[], deletionTimestamp="now")), f"Job {NS}/{NAME} is being deleted already"),
        (seen(held, namespace=TERMINATING), f"Job {NS}/{NAME} is left to itself"),
    ):
        done = decide(run(**abandon), observed)
        (event,) = done.events
        assert attrs.evolve(done, events=()) == GONE
        assert (event.type, event.reason, event.action) == ("Warning", "Abandoned", "Finalize")
        assert event.note == f"vworkspace.io/abandon is set: the finalizer goes; {text}"
        assert (event.regarding.name, event.regarding.namespace, event.regarding_uid) == ("op-1", NS, OP_UID)


@pytest.mark.parametrize("shown", ["finalizer", "remembered", "no owner"])
def test_a_run_whose_operation_is_deleted_with_cascade_orphan_goes_on_OPS_11(shown: str) -> None:
    """It is what the request means for any object; a restore that is stopped halfway leaves a broken application.

    Once the garbage collector is done, an operator that did not run meanwhile sees only a Job without an owner.
    """
    one = run(deleting=True)
    finalizers = (*one.metadata.finalizers, *(["orphan"] if shown == "finalizer" else []))
    one = attrs.evolve(one, metadata=attrs.evolve(one.metadata, finalizers=finalizers))
    held = job(finalizers=[UNRECORDED, "x"], **({"ownerReferences": []} if shown == "no owner" else {}))
    first = decide(one, seen(held, is_orphaning=shown == "remembered"))
    assert (len(first.patches), first.deletes, first.finalizer) == (1, (), None)

    done = decide(one, seen(job(ownerReferences=[]), is_orphaning=shown == "remembered"))
    assert attrs.evolve(done, events=()) == GONE
    assert [event.note for event in done.events] == [
        f"deleted with --cascade=orphan: the finalizer goes; Job {NS}/{NAME} is left to itself"
    ]


def test_an_upgrade_that_failed_is_taken_back_before_its_orphaned_operation_goes_OPS_11() -> None:
    """There is nothing to leave, and without the Operation nothing would say that its override has failed."""
    holds = context(blocks_end=lambda one, objects: True)
    orphaned = seen(is_orphaning=True)

    assert decide(ended(Phase.FAILED, deleting=True), orphaned, holds) == Decision()
    assert decide(run(deleting=True), orphaned, holds) == GONE
    assert decide(run(phase=Phase.PENDING, deleting=True), orphaned) == GONE


def without_finalizer(one: Operation) -> Operation:
    return attrs.evolve(one, metadata=attrs.evolve(one.metadata, finalizers=("x/y",)))


# --- what must be read live -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "observed", "of", "live"),
    [
        (run(), seen(job()), context(), False),
        (run(deleting=True), seen(job()), context(), True),
        (
            attrs.evolve(run(deleting=True), metadata=attrs.evolve(run(deleting=True).metadata, finalizers=())),
            seen(),
            context(),
            False,
        ),
        (ended(Phase.SUCCEEDED), seen(), context(), False),
        (run(cancelled=True), seen(job()), context(), True),
        (run(phase=Phase.PENDING), seen(job()), context(), True),
        (run(phase=Phase.PENDING), seen(job(), namespace={"metadata": {"name": NS}}), context(), False),
        (run(), seen(job(), namespace={"metadata": {"name": NS}}), context(), False),
        (run(), seen(job()), attrs.evolve(CONTEXT, engines={}), True),
        (run(UNSEEN), seen(job()), context(), True),
        (run(), seen(), context(), True),
        (run(), seen(job(), target=False), context(), False),
        (run(None), seen(job(), target=False), context(), True),
        (run(None), seen(job()), context(), False),
        (run(timeoutSeconds=1800), seen(job()), context(), True),
        (run(timeoutSeconds=1801), seen(job()), context(), False),
        (run(), seen(job()), context(diagnostics=lambda one, objects: ("x",)), True),
        (run(), seen(job()), context(extra_reads=lambda one, objects: (REF,)), False),
        (run(), seen(job()), context(extra_reads=lambda one, objects: (REF, attrs.evolve(REF, name="y"))), True),
    ],
)
def test_what_cannot_be_undone_is_decided_from_a_live_view_OPS_1(
    one: Operation, observed: OperationObserved, of: OperationContext, live: bool
) -> None:
    quiet = attrs.evolve(of.engines["job"], diagnostics=lambda one, objects: ()) if of.engines else None
    if quiet is not None and of.engines["job"].diagnostics is ENGINES["job"].diagnostics:
        of = attrs.evolve(of, engines={"job": quiet})

    assert needs_live_view(one, observed, of) is live
    unmanaged = attrs.evolve(one, metadata=attrs.evolve(one.metadata, labels={}))
    assert needs_live_view(unmanaged, observed, of) is (live and one.metadata.deletion_timestamp is not None)
    assert of.now == NOW
