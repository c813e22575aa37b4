"""An Operation that cannot be read is told so, starts nothing, and can still be deleted (REC-13, OPS-11)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import JOB
from purekube.controller.decision import Decision, Finalizer
from tests.support.operation_worlds import (
    CONTEXT,
    NS,
    OP_UID,
    conditions_of,
    message_of,
    observed,
    operation_manifest,
)
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.operation import Operation
from vworkspace_core.api.own_status import Unreadable
from vworkspace_core.operations.context import lookups
from vworkspace_core.operations.reconcile import needs_live_view
from vworkspace_core.operations.unreadable import decide_unreadable_operation, unreadable_operation

JOB_REF = ObjectRef(JOB, NS, "op-1-0badcafe")
ENGINE_REF = {"apiVersion": "batch/v1", "kind": "Job", "namespace": NS, "name": JOB_REF.name, "uid": "job-1"}
RUNNING = {
    "phase": "Running",
    "startedAt": "2026-06-01T11:59:30Z",
    "engineRef": ENGINE_REF,
    "outputs": {"jobName": JOB_REF.name},
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "JobPodActive",
            "message": "",
            "lastTransitionTime": "2026-06-01T11:59:31Z",
            "observedGeneration": 1,
        }
    ],
}


def unreadable(*, status: Any = None, deleted: bool = False, **spec: Any) -> Unreadable[Operation]:
    manifest = operation_manifest()
    manifest["spec"] |= spec or {"timeoutSeconds": "soon"}
    if status is not None:
        manifest["status"] = status
    if deleted:
        manifest["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    with pytest.raises(ValidationProblems) as raised:
        read_operation(manifest)
    return unreadable_operation(manifest, raised.value)


def job(**status: Any) -> dict[ObjectRef, dict[str, Any]]:
    """The Job that it made, as it stands."""
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/operation-uid": OP_UID}
    meta = {
        "name": JOB_REF.name,
        "namespace": NS,
        "uid": "job-1",
        "resourceVersion": "7",
        "labels": labels,
        "ownerReferences": [{"uid": OP_UID}],
    }
    return {JOB_REF: {**JOB.manifest(JOB_REF.name, NS), "metadata": meta, "status": status}}


def decide(source: Unreadable[Operation], **objects: Any) -> Decision:
    return decide_unreadable_operation(source, observed(**objects), CONTEXT)


def test_it_is_told_with_the_path_and_nothing_is_started() -> None:
    decision = decide(unreadable())

    assert conditions_of(decision) == {
        "Accepted": ("False", "ValidationFailed"),
        "Running": ("False", "EngineNotStarted"),
    }
    assert "spec.timeoutSeconds" in message_of(decision, "Accepted")
    assert decision.status is not None
    assert decision.status["status"]["phase"] == "Pending"
    assert not decision.writes_downstream


def test_saying_it_twice_writes_nothing_REC_6() -> None:
    first = decide(unreadable())
    assert first.status is not None

    again = decide(unreadable(status=dict(first.status["status"])))

    assert again == Decision()


def test_a_run_goes_on_and_keeps_what_is_known_of_it() -> None:
    decision = decide(unreadable(status=RUNNING), objects=job(active=1))

    assert decision.status is not None
    status = decision.status["status"]
    assert conditions_of(decision) == {"Accepted": ("False", "ValidationFailed"), "Running": ("True", "JobPodActive")}
    assert {name: status[name] for name in ("phase", "startedAt", "engineRef", "outputs")} == {
        name: RUNNING[name] for name in ("phase", "startedAt", "engineRef", "outputs")
    }
    assert not decision.writes_downstream


def test_an_end_stays_as_it_is_OPS_1() -> None:
    ended = {**RUNNING, "phase": "Succeeded", "finishedAt": "2026-06-01T11:59:59Z"}

    assert decide(unreadable(status=ended), objects=job()).status is None


def test_nothing_is_written_over_a_status_that_cannot_be_read() -> None:
    source = unreadable(status={"phase": "Resting", "engineRef": ENGINE_REF})

    assert not source.has_status
    assert decide(source) == Decision()


def test_one_whose_status_cannot_be_read_can_be_deleted() -> None:
    source = unreadable(status={"phase": "Resting"}, deleted=True)

    assert decide(source).finalizer is Finalizer.REMOVE


def test_deleting_a_running_one_stops_its_engine_first_OPS_11() -> None:
    source = unreadable(status=RUNNING, deleted=True)

    stopping = decide(source, objects=job(active=1))
    assert [delete.ref for delete in stopping.deletes] == [JOB_REF]
    assert stopping.finalizer is None

    assert decide(source).finalizer is Finalizer.REMOVE


@pytest.mark.parametrize("spec", [{"engine": "teleport"}, {"type": "Miracle"}])
def test_where_even_the_engine_is_unknown_the_finalizer_goes_and_what_was_made_stays(spec: Any) -> None:
    source = unreadable(status=RUNNING, deleted=True, **spec)
    assert not source.has_spec

    decision = decide(source, objects=job(active=1))

    assert decision.finalizer is Finalizer.REMOVE
    assert decision.deletes == ()


def test_one_that_is_not_managed_or_has_no_finalizer_is_left_alone() -> None:
    foreign = unreadable()
    foreign.stub.metadata.labels.pop("app.vworkspace.io/managed-by")  # type: ignore[attr-defined]
    assert decide(foreign) == Decision()

    free = operation_manifest()
    free["metadata"] |= {"finalizers": [], "deletionTimestamp": "2026-06-01T12:00:00Z"}
    free["spec"] = {}
    with pytest.raises(ValidationProblems) as raised:
        read_operation(free)
    assert decide(unreadable_operation(free, raised.value)) == Decision()


def test_what_it_made_is_looked_up_even_where_the_engine_is_unknown() -> None:
    source = unreadable(status=RUNNING, deleted=True, engine="teleport")

    assert list(lookups(source.stub, CONTEXT, None)) == [JOB_REF]


@pytest.mark.parametrize(("finalizers", "live"), [([], False), (["vworkspace.io/operator"], True)])
def test_what_is_not_ours_is_not_even_read(finalizers: list[str], live: bool) -> None:
    manifest = operation_manifest()
    manifest["metadata"] |= {"labels": {}, "finalizers": finalizers}
    stranger = read_operation(manifest)
    manifest["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    leaving = read_operation(manifest)

    assert not needs_live_view(stranger, observed(), CONTEXT)
    assert needs_live_view(leaving, observed(), CONTEXT) is live
