"""OPS-3: what has to hold before anything is created, in order, each failure named as specified."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import JOB, VELERO_BACKUP, VOLUME_SNAPSHOT
from purekube.controller.decision import Decision
from tests.support.instance_worlds import NAMESPACE, with_meta
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    NS,
    TARGET,
    claim_for,
    conditions_of,
    gated,
    message_of,
    observed,
    operation,
    operation_manifest,
    recorded,
    target_labels,
    target_manifest,
)
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.operation import Operation, Phase
from vworkspace_core.operations.approvals import Claims
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.identity import name_of
from vworkspace_core.operations.reconcile import reconcile_operation


def decide(one: Operation, seen: OperationObserved, context: OperationContext = CONTEXT) -> Decision:
    return reconcile_operation(one, seen, context)


def with_target(seen: OperationObserved, **fields: Any) -> OperationObserved:
    return with_object(seen, TARGET, {**seen.objects[TARGET], **fields})


def with_object(seen: OperationObserved, ref: ObjectRef, manifest: Manifest | None) -> OperationObserved:
    objects = {one: live for one, live in seen.objects.items() if one != ref}
    return attrs.evolve(seen, objects=objects if manifest is None else {**objects, ref: manifest})


@pytest.mark.parametrize("of", GOOD)
def test_when_everything_holds_the_intent_is_recorded_and_nothing_created_yet_OPS_1(of: str) -> None:
    decision = decide(operation(of), observed(of))

    assert decision.status is not None
    status = decision.status["status"]
    assert (status["phase"], status["startedAt"]) == ("Running", "2026-06-01T12:00:00Z")
    assert conditions_of(decision) == {"Accepted": ("True", "TemplateValidated"), "Running": ("True", "EngineStarted")}
    assert decision.creates == ()
    assert ("engineRef" in status) == (of != "upgrade.helm")
    if "engineRef" in status:
        assert "uid" not in status["engineRef"]
        assert status["engineRef"]["name"] == name_of(operation(of)) == "op-1-0badcafe"


# Every precondition with a way to break it, in the order in which they are looked at.
Breaking = Callable[[OperationObserved], OperationObserved]
ORDER: list[tuple[str, tuple[str, str, str], Breaking]] = [
    ("no target", ("Accepted", "False", "TargetNotFound"), lambda seen: with_object(seen, TARGET, None)),
    (
        "namespace not gated",
        ("Blocked", "True", "NamespaceNotGated"),
        lambda seen: attrs.evolve(seen, namespace={"metadata": {"name": NS}}),
    ),
    (
        "type not admitted",
        ("Accepted", "False", "TemplateNotAllowed"),
        lambda seen: attrs.evolve(
            seen, namespace=with_meta(NAMESPACE, annotations={"ops.vworkspace.io/allowed-types": "Backup"})
        ),
    ),
    (
        "capability names nobody",
        ("Accepted", "False", "CapabilityMissing"),
        lambda seen: with_target(seen, metadata={**seen.objects[TARGET]["metadata"], "annotations": {}}),
    ),
    (
        "kind not installed",
        ("Blocked", "True", "DependencyMissing"),
        lambda seen: attrs.evolve(seen, missing_kinds=frozenset({JOB})),
    ),
    (
        "target not Ready",
        ("Blocked", "True", "TargetNotReady"),
        lambda seen: with_target(seen, status=target_manifest(ready=False)["status"]),
    ),
    (
        "somebody else is at work",
        ("Blocked", "True", "ConflictingOperation"),
        lambda seen: attrs.evolve(seen, siblings=(running("upgrade.helm", name="busy", uid="b"),)),
    ),
]


def running(of: str, **more: Any) -> Operation:
    one = operation(of, **more)
    return attrs.evolve(one, status=attrs.evolve(one.status, phase=Phase.RUNNING, started_at="2026-06-01T11:59:30Z"))


@pytest.mark.parametrize("place", range(len(ORDER)), ids=[name for name, _, _ in ORDER])
def test_the_first_that_does_not_hold_is_the_one_named(place: int) -> None:
    """Break this one and everything that is looked at after it."""
    seen = observed("migration.helmHookJob")
    for _, _, breaking in reversed(ORDER[place:]):
        seen = breaking(seen)

    decision = decide(operation("migration.helmHookJob"), seen)

    kind, status, reason = ORDER[place][1]
    told = conditions_of(decision)
    assert told[kind] == (status, reason)
    if kind == "Blocked":
        accepted = None if reason == "NamespaceNotGated" else ("True", "TemplateValidated")
        assert told.get("Accepted") == accepted, "nothing is accepted before its template was looked at"
    assert_nothing_happens(decision)


def assert_nothing_happens(decision: Decision) -> None:
    assert not decision.writes_downstream
    assert decision.status is not None
    assert decision.status["status"]["phase"] == "Pending"
    assert "engineRef" not in decision.status["status"]
    assert conditions_of(decision)["Running"] == ("False", "EngineNotStarted")


def test_another_clusters_operation_gets_blocked_and_nothing_is_created_RES_5() -> None:
    manifest = operation_manifest()
    manifest["metadata"]["labels"]["app.vworkspace.io/cluster-id"] = "other"

    decision = decide(read_operation(manifest), observed())

    assert conditions_of(decision)["Blocked"] == ("True", "WrongCluster")
    assert "Accepted" not in conditions_of(decision)
    assert_nothing_happens(decision)


def test_another_clusters_target_gets_blocked_and_is_named_RES_5() -> None:
    meta = with_meta(target_manifest(), labels=target_labels(**{"app.vworkspace.io/cluster-id": "other"}))["metadata"]

    decision = decide(operation(), with_target(observed(), metadata=meta))

    assert conditions_of(decision)["Blocked"] == ("True", "WrongCluster")
    assert message_of(decision, "Blocked").startswith(f"the target {TARGET.name}: ")
    assert "Accepted" not in conditions_of(decision)
    assert_nothing_happens(decision)


def test_one_that_is_not_managed_is_ignored_entirely_RES_5() -> None:
    manifest = operation_manifest()
    del manifest["metadata"]["labels"]["app.vworkspace.io/managed-by"]

    assert decide(read_operation(manifest), observed()).is_empty


def test_parameters_are_refused_before_approval_is_asked_for() -> None:
    one = operation("restore.velero", parameters={}, approved=False)

    decision = decide(one, observed("restore.velero"))

    assert conditions_of(decision)["Accepted"] == ("False", "ValidationFailed")
    assert "spec.parameters.backupName: is required" in message_of(decision, "Accepted")
    assert_nothing_happens(decision)


def test_without_approval_it_waits_and_with_it_starts_OPS_4() -> None:
    waiting = decide(operation("restore.velero", approved=False), observed("restore.velero"))

    assert conditions_of(waiting)["Blocked"] == ("True", "AwaitingApproval")
    assert_nothing_happens(waiting)
    started = decide(operation("restore.velero"), observed("restore.velero")).status
    assert started is not None
    assert started["status"]["phase"] == "Running"


def test_approval_can_be_asked_for_by_the_operation_itself_OPS_4() -> None:
    decision = decide(operation(approvals={"required": True}), observed())

    assert conditions_of(decision)["Blocked"] == ("True", "AwaitingApproval")


@pytest.mark.parametrize(
    "claim", [claim_for("another"), claim_for("op-1")[:-3] + "abc", "vws1." + "A" * 6000 + ".b", "§"]
)
def test_a_claim_that_does_not_count_is_never_repeated_OPS_4(claim: str) -> None:
    one = operation("restore.velero", approvals={"required": True, "claim": claim})

    decision = decide(one, observed("restore.velero"))

    assert conditions_of(decision)["Blocked"] == ("True", "AwaitingApproval")
    told = str(decision.status) + str(decision.events) + str(decision.transitions)
    assert claim not in told
    assert all(part not in told for part in claim.split(".") if len(part) > 8)


def test_without_an_approval_secret_it_says_so() -> None:
    context = attrs.evolve(CONTEXT, claims=Claims(None))

    decision = decide(operation("restore.velero"), observed("restore.velero"), context)

    assert conditions_of(decision)["Blocked"] == ("True", "MissingSecret")


@pytest.mark.parametrize("of", ["restore.velero", "upgrade.helm", "backup.velero"])
def test_a_broken_target_is_no_reason_not_to_restore_or_upgrade_it_OPS_3(of: str) -> None:
    seen = observed(of)

    decision = decide(operation(of), with_target(seen, status=target_manifest(of, ready=False)["status"]))

    assert decision.status is not None
    assert decision.status["status"]["phase"] == "Running"


def test_a_target_that_is_ready_for_an_older_generation_is_not_ready() -> None:
    seen = observed()
    meta = {**seen.objects[TARGET]["metadata"], "generation": 2}

    decision = decide(operation(), with_target(seen, metadata=meta))

    assert conditions_of(decision)["Blocked"] == ("True", "TargetNotReady")


def test_an_unknown_combination_is_refused_OPS_2() -> None:
    decision = decide(operation("runCommand.job", engine="velero"), observed())

    assert conditions_of(decision)["Accepted"] == ("False", "ValidationFailed")
    assert message_of(decision, "Accepted").startswith("spec.engine:")


def test_an_upgrade_of_a_suspended_target_waits_OPS_9() -> None:
    seen = observed("upgrade.helm")

    decision = decide(
        operation("upgrade.helm"), with_target(seen, spec={**seen.objects[TARGET]["spec"], "suspend": True})
    )

    assert conditions_of(decision)["Blocked"] == ("True", "TargetNotReady")
    assert conditions_of(decision)["Accepted"] == ("True", "TemplateValidated")


def test_a_name_that_somebody_else_has_is_not_taken_OPS_1() -> None:
    one = operation()
    ref = ObjectRef(JOB, NS, name_of(one))
    stranger = {**JOB.manifest(ref.name, NS), "spec": {}}

    decision = decide(one, with_object(observed(), ref, stranger))

    assert conditions_of(decision)["Blocked"] == ("True", "NameTaken")
    assert_nothing_happens(decision)


BACKUP = ObjectRef(VELERO_BACKUP, "velero", "b-1")


@pytest.mark.parametrize(
    ("of", "parameters", "change", "path"),
    [
        ("backup.velero", {"includeNamespaces": [NS, "org-other"]}, {}, "spec.parameters.includeNamespaces"),
        ("backup.velero", {"retention": "0d"}, {}, "spec.parameters.retention"),
        ("backup.velero", {"snapshotClassName": "none"}, {}, "spec.parameters.snapshotClassName"),
        (
            "backup.velero",
            {"includedResources": ["operations.ops.vworkspace.io"]},
            {},
            "spec.parameters.includedResources[0]",
        ),
        (
            "restore.velero",
            {"backupName": "b-1", "namespaceMapping": {NS: "org-ungated"}},
            {},
            f"spec.parameters.namespaceMapping.{NS}",
        ),
        ("restore.velero", {"backupName": "nowhere"}, {}, "spec.parameters.backupName"),
        (
            "restore.velero",
            {"backupName": "b-1"},
            {"app.vworkspace.io/application-namespace": "of-another-tenant"},
            "spec.parameters.backupName",
        ),
        (
            "runCommand.job",
            {"image": "x", "serviceAccountName": "cluster-admin"},
            {},
            "spec.parameters.serviceAccountName",
        ),
        ("restore.snapshot", {"snapshotName": "none", "size": "1Gi"}, {}, "spec.parameters.snapshotName"),
        ("upgrade.helm", {"valuesPatch": {"db": {"password": "x"}}}, {}, "spec.parameters.valuesPatch.db.password"),
    ],
)
def test_what_the_schema_cannot_see_is_refused_with_its_path(
    of: str, parameters: dict[str, Any], change: dict[str, str], path: str
) -> None:
    seen = observed(of)
    labelled = with_meta(seen.objects[BACKUP], labels=target_labels(**change))

    decision = decide(operation(of, parameters=parameters), with_object(seen, BACKUP, labelled))

    assert conditions_of(decision)["Accepted"] == ("False", "ValidationFailed")
    assert path in message_of(decision, "Accepted")
    assert_nothing_happens(decision)


def test_an_explicit_permission_in_the_template_lets_a_foreign_backup_in_OPS_7() -> None:
    seen = observed("restore.velero")
    foreign = with_object(seen, BACKUP, with_meta(seen.objects[BACKUP], labels={}))
    items = tuple(attrs.evolve(item, allow_foreign_backups=True) for item in CONTEXT.templates.items)
    context = attrs.evolve(CONTEXT, templates=attrs.evolve(CONTEXT.templates, items=items))

    started = decide(operation("restore.velero"), foreign, context).status

    assert started is not None
    assert started["status"]["phase"] == "Running"


def test_a_mapping_into_a_gated_namespace_is_fine_OPS_7() -> None:
    ref, namespace = gated("org-copy")
    one = operation("restore.velero", parameters={"backupName": "b-1", "namespaceMapping": {NS: "org-copy"}})

    started = decide(one, with_object(observed("restore.velero"), ref, namespace)).status

    assert started is not None
    assert started["status"]["phase"] == "Running"


def test_images_can_be_limited_OPS_8() -> None:
    settings = attrs.evolve(CONTEXT.settings, allowed_images=("registry.example/safe/",))

    decision = decide(operation(), observed(), attrs.evolve(CONTEXT, settings=settings))

    assert "spec.parameters.image" in message_of(decision, "Accepted")


def test_a_chart_without_that_hook_is_refused_OPS_8() -> None:
    seen = observed("migration.helmHookJob", objects=recorded())

    decision = decide(operation("migration.helmHookJob"), seen)

    assert conditions_of(decision)["Accepted"] == ("False", "HookNotFound")


def test_a_snapshot_cannot_be_restored_where_nobody_makes_snapshots() -> None:
    seen = with_object(observed("restore.snapshot"), ObjectRef(VOLUME_SNAPSHOT, NS, "s-1"), None)

    decision = decide(operation("restore.snapshot"), attrs.evolve(seen, missing_kinds=frozenset({VOLUME_SNAPSHOT})))

    assert conditions_of(decision)["Blocked"] == ("True", "DependencyMissing")


def test_cancelled_before_the_start_nothing_is_created_OPS_11() -> None:
    one = operation(annotations={"ops.vworkspace.io/cancel": "true"})

    decision = decide(one, observed())

    assert not decision.writes_downstream
    assert conditions_of(decision)["Cancelled"] == ("True", "UserCancelled")
