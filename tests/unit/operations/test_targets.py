"""What an Operation makes of its target's state: suspended, blocked, deleted (OPS-3, OPS-9; L2, L7, D16)."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import JOB
from purekube.controller.decision import Decision
from purekube.controller.ownership import UNRECORDED
from tests.support.operation_worlds import (
    CONTEXT,
    NS,
    TARGET,
    conditions_of,
    message_of,
    observed,
    operation,
    started,
    target_labels,
    target_manifest,
)
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.operations.context import OperationObserved
from vworkspace_core.operations.reconcile import needs_live_view, reconcile_operation

MOMENT = {"lastTransitionTime": "2026-06-01T11:00:00Z", "message": "told"}


def condition(kind: str, status: str, reason: str, generation: int = 2) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "observedGeneration": generation, **MOMENT}


def target_that(of: str, *conditions: dict[str, Any], **spec: Any) -> Manifest:
    manifest = target_manifest(of)
    manifest["metadata"]["generation"] = 2
    manifest["spec"] = {**manifest["spec"], **spec}
    manifest["status"]["conditions"] = list(conditions)
    return manifest


def on(of: str, target: Manifest) -> Decision:
    return reconcile_operation(operation(of), observed(of, objects={TARGET: target}), CONTEXT)


SUSPENDED = condition("Suspended", "True", "ManuallySuspended")
WAS_READY = condition("Ready", "True", "HelmReleaseReady", 1)
MAINTENANCE = ["runCommand.job", "migration.workflow", "migration.helmHookJob", "runbook.workflow"]


@pytest.mark.parametrize("of", MAINTENANCE)
def test_a_suspended_application_can_be_maintained(of: str) -> None:
    """Suspend, maintain, resume: nothing is confirmed of a suspended one, so Ready keeps its old generation."""
    decided = on(of, target_that(of, WAS_READY, SUSPENDED, suspend=True)).status

    assert decided is not None
    assert decided["status"]["phase"] == "Running"


BUT = [
    ("it is not said yet", (WAS_READY,)),
    ("of an older generation", (WAS_READY, condition("Suspended", "True", "ManuallySuspended", 1))),
    ("it never was Ready", (condition("Ready", "False", "NotDeployed", 2), SUSPENDED)),
    ("it is suspended no longer", (WAS_READY, condition("Suspended", "False", "Active"))),
]


@pytest.mark.parametrize(("why", "conditions"), BUT, ids=[why for why, _ in BUT])
def test_but_not_before_it_is_known_to_be_suspended_and_well(why: str, conditions: Any) -> None:
    decision = on("runCommand.job", target_that("runCommand.job", *conditions, suspend=True))

    assert conditions_of(decision)["Blocked"] == ("True", "TargetNotReady"), why


def test_what_stands_in_its_way_is_told_OPS_3() -> None:
    blocked = target_that("runCommand.job", WAS_READY, condition("Blocked", "True", "FieldConflict"))

    message = message_of(on("runCommand.job", blocked), "Blocked")

    assert message == f"the target {TARGET.name} is not Ready (Blocked=True/FieldConflict: told)"


def test_a_suspended_target_is_not_upgraded_OPS_9() -> None:
    decision = on("upgrade.helm", target_that("upgrade.helm", WAS_READY, SUSPENDED, suspend=True))

    assert conditions_of(decision)["Blocked"] == ("True", "TargetNotReady")


# --- upgrades under way -----------------------------------------------------------------------------------------------


def upgrading(target: Manifest | None) -> tuple[Any, OperationObserved]:
    one, _ = started("upgrade.helm")
    seen = observed("upgrade.helm", objects={} if target is None else {TARGET: target})
    objects = {ref: live for ref, live in seen.objects.items() if ref != TARGET or target is not None}
    return one, attrs.evolve(seen, objects=objects)


def test_an_upgrade_of_a_blocked_target_says_the_block_before_it_was_taken_up() -> None:
    blocked = target_that("upgrade.helm", WAS_READY, condition("Blocked", "True", "PolicyDenied"))

    decision = reconcile_operation(*upgrading(blocked), CONTEXT)

    assert conditions_of(decision)["Running"] == ("True", "TargetBlocked")
    assert message_of(decision, "Running") == "PolicyDenied: told"


def test_an_upgrade_whose_target_is_deleted_ends_at_once() -> None:
    well = target_that("upgrade.helm", WAS_READY)
    going = {**well, "metadata": {**well["metadata"], "deletionTimestamp": "2026-06-01T12:00:00Z"}}
    for target in (None, going):
        decision = reconcile_operation(*upgrading(target), CONTEXT)
        assert conditions_of(decision)["Failed"] == ("True", "TargetDeleted")


def test_a_target_is_called_gone_by_the_api_server_only() -> None:
    one, seen = upgrading(None)

    assert needs_live_view(one, seen, CONTEXT)
    assert not needs_live_view(*upgrading(target_manifest("upgrade.helm")), CONTEXT)


def test_a_target_that_cannot_be_read_is_not_gone() -> None:
    broken = {**target_manifest("upgrade.helm"), "spec": {"mode": 7}}

    decision = reconcile_operation(*upgrading(broken), CONTEXT)

    assert conditions_of(decision)["Running"] == ("True", "HelmReleaseUpgrading")


# --- whose the object is, before its uid is known (SL10) --------------------------------------------------------------

COMPLETE = {"conditions": [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}]}


def found(**meta: Any) -> Decision:
    """The decision on a run whose Job has just been created, by whomever, and is complete already."""
    one, made = started("runCommand.job")
    known = one.status.engine_ref
    assert made is not None
    assert known is not None
    intent = attrs.evolve(one, status=attrs.evolve(one.status, engine_ref=attrs.evolve(known, uid="")))
    own = {
        "uid": "uid-1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-06-01T11:59:31Z",
        "finalizers": [UNRECORDED],
        "managedFields": [{"manager": FIELD_MANAGER, "operation": "Update", "apiVersion": "batch/v1"}],
    }
    live = {**made.manifest, "metadata": {**made.manifest["metadata"], **own, **meta}, "status": COMPLETE}
    return reconcile_operation(intent, observed(objects={made.ref: live}), CONTEXT)


def test_what_we_created_is_recorded_and_judged() -> None:
    assert conditions_of(found())["Succeeded"] == ("True", "JobComplete")


FORGED: list[dict[str, Any]] = [
    {"managedFields": [{"manager": "kubectl-create", "operation": "Update"}]},
    {"managedFields": [{"manager": FIELD_MANAGER, "operation": "Apply"}]},
    {"managedFields": [{"manager": FIELD_MANAGER, "operation": "Update", "subresource": "status"}]},
    {"managedFields": None},
    {"finalizers": []},
    {"creationTimestamp": "2026-06-01T11:58:00Z"},
]


@pytest.mark.parametrize("meta", FORGED, ids=range(len(FORGED)))
def test_a_forged_object_is_no_run_of_ours(meta: dict[str, Any]) -> None:
    decision = found(**meta)

    assert conditions_of(decision)["Blocked"] == ("True", "NameTaken")
    assert not decision.writes_downstream


def test_what_was_there_before_the_start_is_never_taken_over() -> None:
    forged = {"metadata": {"name": "op-1-0badcafe", "namespace": NS, "labels": target_labels()}}
    one = operation()
    labels = {**forged["metadata"]["labels"], "app.vworkspace.io/operation-uid": one.metadata.uid}  # type: ignore[dict-item]
    live = {"metadata": {**forged["metadata"], "labels": labels}, "status": COMPLETE}

    decision = reconcile_operation(one, observed(objects={ObjectRef(JOB, NS, "op-1-0badcafe"): live}), CONTEXT)

    assert conditions_of(decision)["Blocked"] == ("True", "NameTaken")
