"""OPS-1, OPS-3, OPS-6: which object is that of an Operation, and whether its target is ready for work."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import JOB, REPLICATION_DESTINATION, VELERO_BACKUP
from purekube.controller.ownership import UNRECORDED
from tests.support.instance_worlds import CLUSTER
from tests.support.operation_worlds import CONTEXT, NS, OP_UID, SETTINGS, TARGET, operation, target_manifest, template
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.labels import FIELD_MANAGER, MANAGED_BY, MANAGED_BY_VALUE, OPERATION_UID
from vworkspace_core.api.operation import EngineRef, Operation
from vworkspace_core.operations.contract import EngineContext
from vworkspace_core.operations.identity import (
    engine_manifest,
    is_ours,
    is_ready,
    is_suspended,
    labels_of,
    name_of,
    name_taken,
    own_object,
    parameters_of,
    target_of,
    target_ref,
    was_created_by_operation,
    why_not_ready,
)

KNOWN = EngineRef("batch/v1", "Job", NS, "job-1", "u-1")
REF = ObjectRef(JOB, NS, "job-1")
CREATED = {"manager": FIELD_MANAGER, "operation": "Update"}


def recorded(known: EngineRef | None = KNOWN, **more: Any) -> Operation:
    one = operation(**more)
    return attrs.evolve(one, status=attrs.evolve(one.status, engine_ref=known))


def job(uid: str = "u-1", **meta: Any) -> dict[str, Any]:
    marks = {MANAGED_BY: MANAGED_BY_VALUE, OPERATION_UID: OP_UID}
    given = {"uid": uid, "labels": marks, "finalizers": [UNRECORDED], "creationTimestamp": "2026-06-01T11:59:00Z"}
    return {"metadata": {"name": "job-1", "managedFields": [CREATED], **given, **meta}}


@pytest.mark.parametrize(
    ("known", "manifest", "ours"),
    [
        (KNOWN, job(), True),
        (KNOWN, job("u-2"), False),
        (attrs.evolve(KNOWN, uid=""), job("u-2"), True),
        (None, job("u-2"), True),
        (KNOWN, job(labels={MANAGED_BY: MANAGED_BY_VALUE}), False),
        (KNOWN, job(labels={OPERATION_UID: OP_UID}), False),
        (KNOWN, job(labels={MANAGED_BY: "others", OPERATION_UID: OP_UID}), False),
        (KNOWN, job(labels={MANAGED_BY: MANAGED_BY_VALUE, OPERATION_UID: "others"}), False),
        (KNOWN, job(labels=None), False),
        (KNOWN, job(labels=[OPERATION_UID]), False),
    ],
)
def test_an_object_is_ours_by_its_labels_and_the_recorded_uid_OPS_1(
    known: EngineRef | None, manifest: dict[str, Any], ours: bool
) -> None:
    assert is_ours(manifest, recorded(known)) is ours
    found = (REF, manifest) if ours and known is not None else None
    assert own_object(recorded(known), {REF: manifest}) == found


@pytest.mark.parametrize(
    "ref",
    [
        attrs.evolve(REF, name="job-2"),
        attrs.evolve(REF, namespace="other"),
        attrs.evolve(REF, namespace=None),
        attrs.evolve(REF, kind=VELERO_BACKUP),
        attrs.evolve(REF, kind=attrs.evolve(JOB, version="v1beta1")),
    ],
)
def test_an_object_is_found_under_its_whole_reference_OPS_1(ref: ObjectRef) -> None:
    assert own_object(recorded(), {ref: job()}) is None
    both = {ref: job("u-2"), REF: job()}
    assert own_object(recorded(), both) == (REF, both[REF])


@pytest.mark.parametrize(
    ("change", "created"),
    [
        ({}, True),
        ({"creationTimestamp": "2026-06-01T11:59:01Z"}, True),
        ({"creationTimestamp": "2026-06-01T11:58:59Z"}, False),
        ({"creationTimestamp": None}, False),
        ({"finalizers": []}, False),
        ({"managedFields": None}, False),
        ({"managedFields": "x"}, False),
        ({"managedFields": [{"manager": "kubectl", "operation": "Update"}, CREATED]}, True),
        ({"managedFields": [{**CREATED, "manager": "kubectl"}]}, False),
        ({"managedFields": [{**CREATED, "operation": "Apply"}]}, False),
        ({"managedFields": [{**CREATED, "subresource": "status"}]}, False),
        ({"managedFields": [{**CREATED, "subresource": ""}]}, True),
        ({"labels": None}, True),
    ],
)
def test_a_forged_object_is_not_the_one_that_was_created_OPS_1(change: dict[str, Any], created: bool) -> None:
    assert was_created_by_operation(job(**change), operation()) is created


def test_an_object_is_named_after_the_operation_and_its_uid_OPS_1() -> None:
    assert name_of(operation()) == "op-1-0badcafe"
    assert name_of(operation(uid="12345678-x")) == "op-1-12345678"
    assert name_taken(REF) == (
        f"Job {NS}/job-1 exists and was not made for this Operation. To fix: delete it if nobody needs it, or create "
        "the Operation again under another name"
    )


def target(**more: Any) -> ApplicationInstance:
    return read_application_instance({**target_manifest(), **more})


@pytest.mark.parametrize("kind", [JOB, REPLICATION_DESTINATION], ids=str)
@pytest.mark.parametrize("namespace", [None, NS, "velero"])
def test_an_object_has_an_owner_where_it_may_go_with_the_operation_OPS_7(namespace: str | None, kind: Kind) -> None:
    one, context = (
        operation(),
        EngineContext(SETTINGS, template("runCommand.job"), holds_data=(REPLICATION_DESTINATION,)),
    )
    made = engine_manifest(kind, one, target(), context, namespace=namespace)

    labels = {**labels_of(one, target(), CLUSTER), "velero.io/exclude-from-backup": "true"}
    elsewhere = {"app.vworkspace.io/application-namespace": bounded_name(NS)} if namespace == "velero" else {}
    meta = {"name": "op-1-0badcafe", "namespace": namespace or NS, "labels": {**labels, **elsewhere}}
    owner = {
        "apiVersion": "ops.vworkspace.io/v1alpha1",
        "kind": "Operation",
        "name": "op-1",
        "uid": OP_UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    owned = kind == JOB and namespace != "velero"
    assert made == {**kind.manifest("x"), "metadata": {**meta, **({"ownerReferences": [owner]} if owned else {})}}
    assert labels[OPERATION_UID] == OP_UID
    assert labels["app.vworkspace.io/cluster-id"] == CLUSTER
    assert labels["app.vworkspace.io/application-instance"] == TARGET.name
    assert labels["app.vworkspace.io/instance-uid"] == target().metadata.uid


def test_the_target_is_found_next_to_the_operation_OPS_3() -> None:
    one = operation()

    assert target_ref(one) == TARGET
    assert target_of(one, {}) is None
    assert target_of(one, {TARGET: {**target_manifest(), "spec": {}}}) is None
    assert target_of(one, {TARGET: target_manifest()}) == target()
    assert parameters_of(operation(parameters={"a": 1})) == {"a": 1}
    bare = attrs.evolve(one, spec=attrs.evolve(one.spec, parameters=None))
    assert parameters_of(bare) == {}
    assert CONTEXT.engine_of(one) is CONTEXT.engines["job"]


def condition(kind: str, status: str, message: str = "", *, generation: int | None = 1) -> Condition:
    return Condition(kind, ConditionStatus(status), f"{kind}Reason", message, "2026-06-01T11:00:00Z", generation)


READY, OLD, UNREADY = condition("Ready", "True"), condition("Ready", "True", generation=0), condition("Ready", "False")
SUSPENDED = condition("Suspended", "True")


@pytest.mark.parametrize(
    ("conditions", "ready", "suspended", "why"),
    [
        ([], False, False, "is not Ready yet"),
        ([READY], True, False, ""),
        ([OLD], False, False, "is not Ready yet in its newest form"),
        ([condition("Ready", "True", generation=None)], False, False, "is not Ready yet in its newest form"),
        ([UNREADY], False, False, "is not Ready (Ready=False/ReadyReason)"),
        ([condition("Ready", "Unknown", "slow")], False, False, "is not Ready (Ready=Unknown/ReadyReason: slow)"),
        ([OLD, SUSPENDED], True, True, ""),
        ([UNREADY, SUSPENDED], False, True, "is not Ready (Ready=False/ReadyReason)"),
        ([OLD, condition("Suspended", "False")], False, False, "is not Ready yet in its newest form"),
        ([OLD, condition("Suspended", "True", generation=0)], False, False, "is not Ready yet in its newest form"),
        ([UNREADY, condition("Blocked", "True", "no right")], False, False,
         "is not Ready (Blocked=True/BlockedReason: no right)"),
        ([UNREADY, condition("Blocked", "False", "it was")], False, False, "is not Ready (Ready=False/ReadyReason)"),
        ([condition("Blocked", "True")], False, False, "is not Ready (Blocked=True/BlockedReason)"),
    ],
)  # fmt: skip
def test_a_target_is_ready_at_its_generation_or_as_it_was_suspended_OPS_3(
    conditions: Sequence[Condition], ready: bool, suspended: bool, why: str
) -> None:
    one = target()
    one = attrs.evolve(one, status=attrs.evolve(one.status, conditions=tuple(conditions)))

    assert (is_ready(one), is_suspended(one)) == (ready, suspended)
    if why:
        assert why_not_ready(one) == f"the target {TARGET.name} {why}"
