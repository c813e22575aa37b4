"""What people may do to one object, and what is said where there is nothing to do (REC-14, RES-4, OPS-4, OPS-11)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.builders import NAME, NAMESPACE, condition, instance_manifest, operation_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import CANCEL, FIELD_MANAGER, RETRY, is_retry_token
from vworkspace_core.overview import actions
from vworkspace_core.overview.actions import ActionOutcome, Approver, PlannedAction

NOW = datetime(2026, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def instance(*conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """One with these conditions."""
    return {**instance_manifest(**spec), "status": {"conditions": list(conditions)}}


def operation(*conditions: dict[str, Any]) -> dict[str, Any]:
    """One with these conditions, as the API server holds it."""
    manifest = operation_manifest()
    meta = {**manifest["metadata"], "uid": "u-1", "labels": {"app.vworkspace.io/cluster-id": "prod-1"}}
    return {**manifest, "metadata": meta, "status": {"conditions": list(conditions)}}


STALLED = instance(condition("Stalled", "True", "RetriesExceeded"))


def test_a_retry_is_a_token_that_admission_takes_REC_14() -> None:
    asked = actions.retry(APPLICATION_INSTANCE, STALLED, NOW)
    assert isinstance(asked, PlannedAction)
    token = (asked.patch or {})["metadata"]["annotations"][RETRY]
    assert token == "2026-06-01T12:00:00.250000Z"
    assert is_retry_token(token)
    assert asked.message.endswith(f"vworkspace-operator status appinst/{NAME} -n {NAMESPACE} -w")


@pytest.mark.parametrize(
    ("decided", "why", "is_done"),
    [
        (actions.retry(APPLICATION_INSTANCE, instance(condition("Ready", "True", "X")), NOW), "is ready", True),
        (
            actions.retry(APPLICATION_INSTANCE, instance(condition("Blocked", "True", "X", message="gate")), NOW),
            "gate",
            False,
        ),
        (
            actions.retry(
                APPLICATION_INSTANCE,
                instance(
                    condition("Reconciling", "True", "HelmReleaseInstalling"),
                    condition("Ready", "False", "WaitingForSecret", message="none"),
                ),
                NOW,
            ),
            "another try would wait too: none. Create the Secret or ConfigMap",
            False,
        ),
        (actions.retry(OPERATION, operation(), NOW), "make a new one", False),
        (actions.suspend(APPLICATION_INSTANCE, instance(suspend=True)), "is suspended already", True),
        (actions.suspend(OPERATION, operation()), "can be cancelled", False),
        (actions.resume(APPLICATION_INSTANCE, instance()), "is not suspended", True),
        (
            actions.resume(
                APPLICATION_INSTANCE,
                instance(condition("Suspended", "True", "ManuallySuspended", message="To fix: kubectl patch")),
            ),
            "To fix: kubectl patch",
            False,
        ),
        (actions.cancel(APPLICATION_INSTANCE, instance()), "can be suspended", False),
        (actions.cancel(OPERATION, operation(condition("Failed", "True", "Timeout"))), "has ended: Failed", True),
        (
            actions.approve(OPERATION, operation(condition("Cancelled", "True", "X")), "vws1", timedelta(hours=1)),
            "has ended: Cancelled",
            True,
        ),
        (actions.approve(APPLICATION_INSTANCE, instance(), "vws1", timedelta(hours=1)), "only an Operation", False),
    ],
)
def test_where_there_is_nothing_to_do_it_is_said_why_SEE_1(
    decided: PlannedAction | ActionOutcome, why: str, is_done: bool
) -> None:
    assert isinstance(decided, ActionOutcome)
    assert why in decided.why
    assert decided.is_done is is_done


def test_resuming_leaves_nobody_with_the_field_RES_4() -> None:
    assert actions.resume(APPLICATION_INSTANCE, instance(suspend=True)) == PlannedAction(
        f"ApplicationInstance {NAMESPACE}/{NAME} is resumed", applies=({"spec": {"suspend": False}}, {})
    )


@pytest.mark.parametrize(("decide", "suspended"), [(actions.suspend, False), (actions.resume, True)])
def test_what_the_control_plane_holds_is_not_taken_from_it_RES_4(decide: Any, suspended: bool) -> None:
    held = instance(suspend=suspended)
    held["metadata"]["managedFields"] = [
        {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:suspend": {}}}}
    ]
    decided = decide(APPLICATION_INSTANCE, held)
    assert isinstance(decided, ActionOutcome)
    assert decided.why.endswith(" it there")


def test_a_cancellation_is_the_annotation_OPS_11() -> None:
    asked = actions.cancel(OPERATION, operation(condition("Running", "True", "EngineStarted")))
    assert isinstance(asked, PlannedAction)
    assert asked.patch == {"metadata": {"annotations": {CANCEL: "true"}}}


def test_an_approval_is_bound_to_this_very_object_and_what_it_says_OPS_4() -> None:
    until = NOW + timedelta(hours=1)
    payload = actions.approval_payload(operation(), Approver("alice", "r-1", until), "digest", NOW)
    assert payload == {
        "at": "2026-06-01T12:00:00.250000Z",
        "by": "alice",
        "exp": int(until.timestamp()),
        "op": "backup-1",
        "ns": NAMESPACE,
        "rid": "r-1",
        "params": "digest",
        "uid": "u-1",
        "cluster": "prod-1",
    }
