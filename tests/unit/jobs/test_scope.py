"""What a job may touch (PULL-10)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.names import bounded_name
from tests.support.builders import NAMESPACE
from tests.support.jobs import CLUSTER_ID, delete_payload, instance, job, operation
from vworkspace_core.api import labels
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.control_plane.port import Fetched
from vworkspace_core.jobs.result import JobOutcome, JobResult
from vworkspace_core.jobs.scope import (
    ApplyTask,
    DeleteTask,
    JobScope,
    RotateTask,
    admit,
    job_context,
    may_touch,
    namespace_refusal,
)
from vworkspace_core.jobs.state import JobState, accept, record_of
from vworkspace_core.jobs.wire import Job, parse_job

SCOPE = JobScope(CLUSTER_ID)
GATED = {"metadata": {"name": NAMESPACE, "labels": {"managed-by": "vworkspace"}}}
REF = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, "nextcloud-myteam")


def admitted(scope: JobScope = SCOPE, **fields: Any) -> Any:
    found = parse_job(job(**fields))
    assert isinstance(found, Job), found
    return admit(found, scope)


def error_of(**fields: Any) -> str:
    verdict = admitted(**fields)
    assert isinstance(verdict, JobResult), verdict
    assert verdict.outcome is JobOutcome.FAILED
    return verdict.error


def test_missing_labels_are_added() -> None:
    task = admitted()

    assert isinstance(task, ApplyTask)
    assert task.ref == REF
    assert task.manifest["metadata"]["labels"] == {labels.MANAGED_BY: "control-plane", labels.CLUSTER_ID: CLUSTER_ID}


def test_the_payload_s_own_labels_and_annotations_are_kept() -> None:
    payload = instance(labels={"team": "a"}, annotations={"ops.vworkspace.io/backup": "velero"})

    task = admitted(payload=payload)

    assert task.manifest["metadata"]["labels"]["team"] == "a"
    assert task.manifest["metadata"]["annotations"] == {"ops.vworkspace.io/backup": "velero"}


def test_metadata_is_a_whitelist_and_status_is_never_sent_REC_6() -> None:
    payload = instance(
        uid="u",
        resourceVersion="5",
        generation=9,
        finalizers=["evil/finalizer"],
        ownerReferences=[{"uid": "u"}],
        managedFields=[],
        annotations={labels.IDEMPOTENCY_KEY: "forged", labels.LAST_APPLIED_GENERATION: "99", "kept": "yes"},
    )

    task = admitted(payload={**payload, "status": {"observedGeneration": 5}})

    assert set(task.manifest) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(task.manifest["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert task.manifest["metadata"]["annotations"] == {"kept": "yes"}
    assert task.manifest["spec"] == payload["spec"]


@pytest.mark.parametrize(
    "payload",
    [
        {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c", "namespace": "n"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}},
        {"apiVersion": "apps.vworkspace.io/v2", "kind": "ApplicationInstance"},
        {"kind": "ApplicationInstance"},
        {},
    ],
)
def test_other_kinds_are_not_permitted(payload: Any) -> None:
    assert error_of(payload=payload).startswith(
        "NotPermitted: payload.kind: a job may touch ApplicationInstance or Operation only,"
    )
    assert admitted(kind="delete", payload={**delete_payload(), "kind": "Cluster"}) == JobResult(
        JobOutcome.FAILED,
        "NotPermitted: payload.kind: a job may touch ApplicationInstance or Operation only, "
        "not apps.vworkspace.io/v1alpha1/Cluster",
    )


def test_an_intent_cannot_smuggle_another_kind() -> None:
    error = error_of(
        kind="intent", payload={"intent": "ensure-application-instance", "applicationInstance": operation()}
    )

    assert error == (
        "NotPermitted: payload.applicationInstance.kind: a job may touch ApplicationInstance only, "
        "not ops.vworkspace.io/v1alpha1/Operation"
    )


def test_an_intent_implies_the_type_its_manifest_leaves_out() -> None:
    bare = {name: value for name, value in operation().items() if name not in ("apiVersion", "kind")}

    task = admitted(kind="intent", payload={"intent": "request-operation", "operation": bare})

    assert task.ref == ObjectRef(OPERATION, NAMESPACE, "backup-1")
    assert (task.manifest["apiVersion"], task.manifest["kind"]) == ("ops.vworkspace.io/v1alpha1", "Operation")


def test_a_foreign_cluster_id_is_refused() -> None:
    error = error_of(payload=instance(labels={labels.CLUSTER_ID: "cluster-b"}))

    assert error == (
        "NotPermitted: payload.metadata.labels: app.vworkspace.io/cluster-id is 'cluster-b', "
        "this cluster is 'cluster-prod-1'"
    )


def test_nothing_of_a_payload_shows_in_a_repr() -> None:
    mark = "m4rk-of-a-payload"
    raw = job(payload=instance(annotations={"note": mark}))
    taken = accept(raw, 0, SCOPE)
    assert isinstance(taken, JobState)
    record = record_of(taken)
    approved = operation()
    approved["spec"]["approvals"] = {"claim": mark}
    approved["metadata"]["uid"] = "u"

    assert mark in str(record.raw)
    assert read_operation(approved).spec.approvals is not None
    shown = [parse_job(raw), taken, taken.task, record, Fetched([raw]), read_operation(approved).spec]
    assert [repr(one) for one in shown if mark in repr(one)] == []


def test_a_cluster_id_too_long_for_a_label_is_bounded_as_everywhere_RES_5() -> None:
    scope = JobScope("c" * 70)
    label = bounded_name(scope.cluster_id)

    task = admitted(scope, payload=instance(labels={labels.CLUSTER_ID: label}))

    assert isinstance(task, ApplyTask)
    assert task.manifest["metadata"]["labels"][labels.CLUSTER_ID] == label
    assert may_touch(task, task.manifest, GATED, scope) is None


def test_the_admission_rules_of_the_webhook_hold_with_paths() -> None:
    bad = instance()
    bad["spec"]["chart"]["version"] = ">=6"
    bad["spec"]["values"] = {"source": "inline", "inline": {"db": {"password": "hunter2"}}}

    error = error_of(payload=bad)

    assert error.startswith("ValidationFailed: ")
    assert "payload.spec.chart.version: " in error
    assert "payload.spec.values.inline.db.password: " in error
    assert "hunter2" not in error


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        (None, "payload.metadata"),
        ([], "payload.metadata"),
        ({"namespace": "n"}, "payload.metadata.name"),
        ({"name": "a", "namespace": 5}, "payload.metadata.namespace"),
        ({"name": "a", "namespace": "n", "labels": []}, "payload.metadata.labels"),
        ({"name": "a", "namespace": "n", "annotations": {"x": 5}}, "payload.metadata.annotations.x"),
        ({"name": "a", "namespace": "n", "labels": {labels.MANAGED_BY: "me"}}, "payload.metadata.labels['app.vwork"),
    ],
)
def test_bad_metadata_is_refused_with_its_path(metadata: Any, path: str) -> None:
    error = error_of(payload={**instance(), "metadata": metadata})

    assert error.startswith("ValidationFailed: ")
    assert path in error


APPLY = ApplyTask(REF, {})
DELETE = DeleteTask(REF)
OURS = {labels.MANAGED_BY: "control-plane", labels.CLUSTER_ID: CLUSTER_ID}


def live(**metadata: Any) -> dict[str, Any]:
    return instance(uid="u", **metadata)


@pytest.mark.parametrize("task", [APPLY, DELETE])
def test_only_gated_namespaces(task: Any) -> None:
    refused = namespace_refusal(task, {"metadata": {"name": NAMESPACE}})

    assert refused == JobResult(
        JobOutcome.FAILED,
        f"NotPermitted: {task.namespace_path}: namespace 'org-myteam' is not labelled managed-by=vworkspace."
        " To fix: kubectl label namespace org-myteam managed-by=vworkspace",
    )
    assert namespace_refusal(task, GATED) is None


def test_nothing_is_applied_into_a_namespace_that_does_not_exist() -> None:
    assert may_touch(APPLY, None, None, SCOPE) == JobResult(
        JobOutcome.FAILED, "NotPermitted: payload.metadata.namespace: namespace 'org-myteam' does not exist"
    )
    assert may_touch(DELETE, None, None, SCOPE) is None


@pytest.mark.parametrize("task", [APPLY, DELETE])
def test_an_object_of_another_cluster_is_not_touched(task: Any) -> None:
    theirs = live(labels={**OURS, labels.CLUSTER_ID: "cluster-b"}, finalizers=[labels.FINALIZER])

    refused = may_touch(task, theirs, GATED, SCOPE)

    assert refused is not None
    assert refused.error.startswith("NotPermitted: ApplicationInstance org-myteam/nextcloud-myteam belongs to cluster")


def test_an_object_that_nobody_labelled_can_be_taken_over_and_not_deleted() -> None:
    assert may_touch(APPLY, live(), GATED, SCOPE) is None
    assert may_touch(DELETE, live(), GATED, SCOPE) is not None
    assert may_touch(DELETE, live(finalizers=[labels.FINALIZER]), GATED, SCOPE) is None
    assert may_touch(DELETE, live(labels=OURS), GATED, SCOPE) is None


def test_a_rotation_touches_nothing() -> None:
    assert namespace_refusal(RotateTask(), None) is None
    assert may_touch(RotateTask(), None, None, SCOPE) is None


ANNOTATED = {"name": "a", "namespace": "n"}


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (None, "payload.metadata: is required"),
        ("x", "payload.metadata: must be an object, not a string"),
        ({}, "payload.metadata.name: is required; payload.metadata.namespace: is required"),
        (
            {"name": "", "namespace": 5},
            "payload.metadata.name: is required; payload.metadata.namespace: must be a string",
        ),
        ({**ANNOTATED, "labels": 5}, "payload.metadata.labels: must be an object of strings, not a number"),
        (
            {**ANNOTATED, "annotations": {"a": 1, "b": None, "c": "x"}},
            "payload.metadata.annotations.a: must be a string, not a number; "
            "payload.metadata.annotations.b: must be a string, not null",
        ),
        (
            {**ANNOTATED, "labels": {labels.MANAGED_BY: "me"}},
            f"payload.metadata.labels['{labels.MANAGED_BY}']: must be 'control-plane' or absent, not 'me'",
        ),
    ],
)
def test_each_problem_of_the_metadata_is_told_with_its_path(metadata: Any, told: str) -> None:
    assert error_of(payload={**instance(), "metadata": metadata}) == f"ValidationFailed: {told}"


def test_a_kind_is_named_as_far_as_it_fits() -> None:
    error = error_of(payload={**instance(), "apiVersion": "v" * 300, "kind": "k" * 300})

    asked = "a job may touch ApplicationInstance or Operation only"
    assert error == f"NotPermitted: payload.kind: {asked}, not {'v' * 253}/{'k' * 253}"


def test_an_operation_is_labelled_with_its_application_and_says_on_what_it_acts_RES_5() -> None:
    task = admitted(payload=operation())

    assert isinstance(task, ApplyTask)
    assert task.manifest["metadata"]["labels"][labels.APPLICATION_INSTANCE] == REF.name
    assert task.target == REF
    assert task.namespace_path == "payload.metadata.namespace"
    assert admitted().target is None
    bare = ApplyTask(ObjectRef(OPERATION, NAMESPACE, "a"), {"spec": {"targetRef": {"name": 5}}})
    assert bare.target is None
    assert DELETE.namespace_path == "payload.namespace"


@pytest.mark.parametrize("trace", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-nothing", ""])
def test_an_object_continues_the_trace_of_its_job_where_it_has_one_SEE_7(trace: str) -> None:
    found = admitted(traceparent=trace).manifest["metadata"]["annotations"]

    assert (labels.TRACEPARENT in found) is trace.endswith("-01")
    if found:
        assert found[labels.TRACEPARENT] == str(job_context(CLUSTER_ID, job()["idempotencyKey"], trace)[0])


def test_without_a_page_there_is_no_link() -> None:
    assert JobScope(CLUSTER_ID).link(REF) == ""


def test_a_manifest_without_a_spec_gets_none() -> None:
    bare = {name: value for name, value in instance().items() if name != "spec"}

    task = admitted(JobScope(CLUSTER_ID, admission=lambda _: ()), payload=bare)

    assert set(task.manifest) == {"apiVersion", "kind", "metadata"}


def test_an_object_that_may_not_be_touched_says_whose_it_is() -> None:
    theirs = may_touch(DELETE, live(labels={labels.CLUSTER_ID: "b"}), GATED, SCOPE)
    nobodys = may_touch(DELETE, live(), GATED, SCOPE)

    assert theirs == JobResult(
        JobOutcome.FAILED, f"NotPermitted: {REF} belongs to cluster 'b', this cluster is '{CLUSTER_ID}'"
    )
    assert nobodys == JobResult(
        JobOutcome.FAILED, f"NotPermitted: {REF} is not labelled {labels.MANAGED_BY}=control-plane"
    )
    assert may_touch(APPLY, live(labels={labels.CLUSTER_ID: CLUSTER_ID}), GATED, SCOPE) is None
