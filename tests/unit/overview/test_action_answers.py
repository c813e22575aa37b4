"""What each action of a person answers for each kind and state, word by word (REC-14, RES-4, OPS-4, OPS-11)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from tests.support.builders import NAME, NAMESPACE, condition, instance_manifest, operation_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import CANCEL, CLUSTER_ID, RETRY
from vworkspace_core.overview.actions import (
    ActionOutcome,
    Approver,
    PlannedAction,
    approval_payload,
    approve,
    cancel,
    resume,
    retry,
    suspend,
)
from vworkspace_core.overview.summary import summary_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AN_INSTANCE = f"ApplicationInstance {NAMESPACE}/{NAME}"
AN_OPERATION = f"Operation {NAMESPACE}/backup-1"
APP, RUN = APPLICATION_INSTANCE, OPERATION


def instance(*conditions: Any, **spec: Any) -> dict[str, Any]:
    return {**instance_manifest(**spec), "status": {"conditions": list(conditions)}}


def operation(*conditions: Any) -> dict[str, Any]:
    return {**operation_manifest(), "status": {"conditions": list(conditions)}}


def held(manager: str) -> dict[str, Any]:
    """A suspended instance whose field is that manager's."""
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:suspend": {}}}}
    found = instance(suspend=True)
    return {**found, "metadata": {**found["metadata"], "managedFields": [entry]}}


STALLED = instance(condition("Stalled", "True", "RetriesExceeded", message="gave up"))
READY = instance(condition("Ready", "True", "HelmReleaseReady"))
BLOCKED = instance(condition("Blocked", "True", "NameTaken", message="taken"))
BY_HAND = instance(condition("Suspended", "True", "ManuallySuspended", message="resume it so"))
RUNNING = operation(condition("Running", "True", "Started"))
FOLLOW_INSTANCE = f"vworkspace-operator status appinst/{NAME} -n {NAMESPACE} -w"
FOLLOW_OPERATION = f"vworkspace-operator status op/backup-1 -n {NAMESPACE} -w"
RESUME_INSTANCE = f"vworkspace-operator resume appinst/{NAME} -n {NAMESPACE}"
TOKEN = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("kind", "manifest", "answer"),
    [
        (
            RUN,
            RUNNING,
            ActionOutcome(f"{AN_OPERATION} runs once, if it is an Operation: make a new one to run it again"),
        ),
        (APP, READY, ActionOutcome(f"{AN_INSTANCE} is ready: there is nothing to try again", is_done=True)),
        (
            APP,
            BLOCKED,
            ActionOutcome(
                f"{AN_INSTANCE} waits, and another try would wait too: taken. Another object has the name: its owner "
                "deletes it, or what the message names is done, or another name is chosen."
            ),
        ),
        (
            APP,
            STALLED,
            PlannedAction(
                f"{AN_INSTANCE}: retry requested ({TOKEN}); follow it with: {FOLLOW_INSTANCE}",
                {"metadata": {"annotations": {RETRY: TOKEN}}},
            ),
        ),
    ],
)
def test_a_retry_is_for_a_release_that_flux_gave_up_REC_14(kind: Kind, manifest: Any, answer: Any) -> None:
    assert retry(kind, manifest, NOW) == answer


@pytest.mark.parametrize(
    ("said", "spec", "answer"),
    [
        (("Deleting", "True", "Uninstalling", "deleting"), {}, "is being deleted: no release is tried again"),
        (
            ("Suspended", "True", "ManuallySuspended", "the HelmRelease is suspended"),
            {"suspend": True},
            f"is suspended, and nothing is tried until it is resumed: {RESUME_INSTANCE}",
        ),
        (
            ("Suspended", "True", "ManuallySuspended", "the HelmRelease is suspended. To fix: kubectl patch it"),
            {},
            "is suspended, and nothing is tried until it is resumed: the HelmRelease is suspended. To fix: kubectl "
            "patch it",
        ),
    ],
)
@pytest.mark.parametrize("also", [(), (("Stalled", "True", "RetriesExceeded", "boom"),)])
def test_no_retry_is_promised_while_nothing_is_tried_REC_14(
    said: tuple[str, ...], spec: Any, answer: str, also: tuple[tuple[str, ...], ...]
) -> None:
    found = (condition(kind, status, reason, message=text) for kind, status, reason, text in (said, *also))
    manifest = instance(*found, **spec)

    assert retry(APP, manifest, NOW) == ActionOutcome(f"{AN_INSTANCE} {answer}")


NOT_AN_INSTANCE = ActionOutcome("only an ApplicationInstance can be suspended; an Operation can be cancelled")
PAUSED = f"{AN_INSTANCE} is paused: what runs goes on, nothing is upgraded or repaired until it is resumed"


@pytest.mark.parametrize(
    ("kind", "manifest", "answer"),
    [
        (RUN, RUNNING, NOT_AN_INSTANCE),
        (APP, instance(suspend=True), ActionOutcome(f"{AN_INSTANCE} is suspended already", is_done=True)),
        (APP, READY, PlannedAction(PAUSED, applies=({"spec": {"suspend": True}},))),
        (APP, instance(suspend=False), PlannedAction(PAUSED, applies=({"spec": {"suspend": True}},))),
    ],
)
def test_an_instance_is_suspended_once_RES_4(kind: Kind, manifest: Any, answer: Any) -> None:
    assert suspend(kind, manifest) == answer


def test_what_the_control_plane_decides_is_suspended_and_resumed_there() -> None:
    theirs = held("vworkspace-operator")
    running = {**theirs, "spec": {**theirs["spec"], "suspend": False}}

    there = f"the control plane decides about spec.suspend of {AN_INSTANCE}: suspend it there"
    assert suspend(APP, running) == ActionOutcome(there)
    assert resume(APP, theirs) == ActionOutcome(f"the control plane suspended {AN_INSTANCE}: resume it there")


def test_no_request_is_claimed_of_an_object_that_the_operator_leaves_alone() -> None:
    """`retry` and `cancel` said that it is requested, and nobody was there to do it."""
    for found in (retry(APP, instance_manifest(), NOW), cancel(RUN, operation_manifest())):
        assert isinstance(found, ActionOutcome)
        assert not found.is_done
        assert "To hand it over: kubectl label " in found.why


@pytest.mark.parametrize(
    ("manager", "tool"),
    [("kustomize-controller", "Flux's kustomize-controller"), ("argocd-controller", "Argo CD")],
)
def test_what_git_suspends_is_not_said_to_be_resumed(manager: str, tool: str) -> None:
    """The tool takes the field back at its next sync: `resume` said that it is resumed, and `status` advised it."""
    theirs = held(manager)
    assert resume(APP, theirs) == ActionOutcome(f"GitOps, by {tool}, suspended {AN_INSTANCE}: resume it there")
    told = {**theirs, "status": {"conditions": [condition("Suspended", "True", "ManuallySuspended", message="m")]}}
    found = summary_of(APP, told)
    assert (found.remedies, found.advice) == ((), "It waits to be resumed, where it was suspended.")


@pytest.mark.parametrize(
    ("kind", "manifest", "answer"),
    [
        (RUN, RUNNING, ActionOutcome("only an ApplicationInstance can be resumed")),
        (
            APP,
            held("kubectl"),
            PlannedAction(f"{AN_INSTANCE} is resumed", applies=({"spec": {"suspend": False}}, {})),
        ),
        (APP, BY_HAND, ActionOutcome("resume it so")),
        (APP, READY, ActionOutcome(f"{AN_INSTANCE} is not suspended", is_done=True)),
    ],
)
def test_an_instance_is_resumed_and_its_field_given_back(kind: Kind, manifest: Any, answer: Any) -> None:
    assert resume(kind, manifest) == answer


def ended(type_: str) -> dict[str, Any]:
    return operation(condition(type_, "True", "Done"))


@pytest.mark.parametrize(
    ("kind", "manifest", "answer"),
    [
        (APP, READY, ActionOutcome("only an Operation can be cancelled; an ApplicationInstance can be suspended")),
        *(
            (RUN, ended(word), ActionOutcome(f"{AN_OPERATION} has ended: {word}", is_done=True))
            for word in ("Succeeded", "Failed", "Cancelled")
        ),
        (
            RUN,
            RUNNING,
            PlannedAction(
                f"{AN_OPERATION} is asked to stop; follow it with: {FOLLOW_OPERATION}",
                {"metadata": {"annotations": {CANCEL: "true"}}},
            ),
        ),
    ],
)
def test_an_operation_is_cancelled_until_it_has_ended_OPS_11(kind: Kind, manifest: Any, answer: Any) -> None:
    assert cancel(kind, manifest) == answer


@pytest.mark.parametrize(
    ("kind", "manifest", "answer"),
    [
        (CLUSTER, {"metadata": {"name": "c"}}, ActionOutcome("only an Operation can be approved")),
        (RUN, ended("Failed"), ActionOutcome(f"{AN_OPERATION} has ended: Failed", is_done=True)),
        (
            RUN,
            operation(),
            PlannedAction(
                f"{AN_OPERATION} is approved for one run, which has to begin within 10 minutes",
                {"spec": {"approvals": {"claim": "signed"}}},
            ),
        ),
    ],
)
def test_an_operation_is_approved_for_one_run_OPS_4(kind: Kind, manifest: Any, answer: Any) -> None:
    assert approve(kind, manifest, "signed", timedelta(minutes=10, seconds=59)) == answer


@pytest.mark.parametrize(("labels", "bound"), [({CLUSTER_ID: "c"}, {"cluster": "c"}), ({}, {}), (None, {})])
def test_a_claim_is_bound_to_its_operation_OPS_4(labels: Any, bound: dict[str, str]) -> None:
    manifest = operation_manifest()
    manifest["metadata"] |= {"uid": "u", "labels": labels}

    assert approval_payload(manifest, Approver("alice", "r-1", NOW + timedelta(minutes=5)), "digest", NOW) == {
        "at": TOKEN,
        "by": "alice",
        "exp": int(NOW.timestamp()) + 300,
        "op": "backup-1",
        "ns": NAMESPACE,
        "rid": "r-1",
        "params": "digest",
        "uid": "u",
        **bound,
    }
