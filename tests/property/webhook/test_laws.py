"""RUN-6: the webhook refuses exactly what the reconciler would only say no to, and never stands in the way."""

import copy
import json
from base64 import b64decode
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.admission_review import (
    AdmissionOperation,
    AdmissionRequest,
    MalformedReview,
    allowed,
    patched,
    read_review,
    refused,
)
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube.controller.decision import Decision
from tests.support.instance_worlds import CLUSTER, CONTEXT, NAMESPACE, instance_manifest, with_meta
from tests.support.operation_worlds import (
    CONTEXT as OPERATIONS,
)
from tests.support.operation_worlds import (
    GOOD,
    TARGET,
    TEMPLATES,
    operation_manifest,
    target_manifest,
)
from tests.support.strategies import application_instances, json_values, operations
from tests.support.violations import ADMISSION, CRD, Violation
from tests.support.work import calls_of
from vworkspace_core.api.codec import read_application_instance, read_operation, unstructure
from vworkspace_core.api.labels import CLUSTER_ID, FINALIZER, MANAGED_BY
from vworkspace_core.api.reasons import InstanceReason, OperationReason
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.reconcile import decide_unreadable, reconcile, unreadable_instance
from vworkspace_core.operations.context import OperationObserved
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.webhook.admission import WebhookSettings, default_patch, refusals

SETTINGS = WebhookSettings(CLUSTER)
NS = "org-myteam"
UNGATED = {**NAMESPACE, "metadata": {"name": NS}}
LABELS = {MANAGED_BY: "control-plane", CLUSTER_ID: CLUSTER}
INSTANCE_RULES = {InstanceReason.VALIDATION_FAILED, InstanceReason.NAMESPACE_NOT_GATED, InstanceReason.WRONG_CLUSTER}
OPERATION_RULES = {
    OperationReason.VALIDATION_FAILED,
    OperationReason.NAMESPACE_NOT_GATED,
    OperationReason.WRONG_CLUSTER,
}


def creation(manifest: Manifest) -> AdmissionRequest:
    return AdmissionRequest(
        "u", AdmissionOperation.CREATE, NS, str(get_path(manifest, "metadata", "name")), object=manifest
    )


def update(old: Manifest, new: Manifest) -> AdmissionRequest:
    return AdmissionRequest(
        "u", AdmissionOperation.UPDATE, NS, str(get_path(new, "metadata", "name")), object=new, old_object=old
    )


def reason_of(decision: Decision) -> str | None:
    """Why the reconciler goes no further: the reason of Blocked=True or Accepted=False."""
    for condition in get_path(decision.status, "status", "conditions") or ():
        if (condition["type"], condition["status"]) in (("Blocked", "True"), ("Accepted", "False")):
            return str(condition["reason"])
    return None


def instance_reason(manifest: Manifest, namespace: Manifest) -> str | None:
    observed = InstanceObserved(namespace)
    try:
        return reason_of(reconcile(read_application_instance(manifest), observed, CONTEXT))
    except ValidationProblems as error:
        return reason_of(decide_unreadable(unreadable_instance(manifest, error), observed, CONTEXT))


labelled = st.sampled_from(
    [LABELS, {}, {MANAGED_BY: "control-plane"}, {**LABELS, CLUSTER_ID: "another"}, {CLUSTER_ID: CLUSTER}]
)
namespaces = st.sampled_from([NAMESPACE, UNGATED])


def placed(manifest: Manifest, given: Manifest) -> dict[str, Any]:
    """As it comes in: in our namespace, with these labels, without what only the server writes."""
    name = get_path(manifest, "metadata", "name") or "a"
    body = {key: value for key, value in manifest.items() if key != "status"}
    return {**body, "metadata": {"name": name, "namespace": NS, "labels": dict(given), "uid": "u", "generation": 1}}


def anything_in(manifest: Manifest) -> st.SearchStrategy[dict[str, Any]]:
    """`manifest` with any JSON in the place of a part of its spec."""

    def put(path: tuple[str, ...], value: Any) -> dict[str, Any]:
        result = json.loads(json.dumps(manifest))
        place = result["spec"]
        for step in path[:-1]:
            if not isinstance(place.get(step), dict):
                return dict(result)
            place = place[step]
        place[path[-1]] = value
        return dict(result)

    paths: list[tuple[str, ...]] = [(key,) for key in manifest["spec"]]
    paths += [(key, inner) for key, part in manifest["spec"].items() if isinstance(part, dict) for inner in part]
    return st.builds(put, st.sampled_from(paths), json_values(6))


new_instances = (
    application_instances().map(unstructure)
    | st.sampled_from([v.manifest for v in (*CRD, *ADMISSION) if v.manifest["kind"] == "ApplicationInstance"])
    | anything_in(instance_manifest())
)


@given(new_instances, labelled, namespaces)
@example(instance_manifest(), LABELS, NAMESPACE)
def test_a_new_instance_is_refused_exactly_when_the_reconciler_would_block_it_by_the_same_rules(
    manifest: Manifest, given_labels: Manifest, namespace: Manifest
) -> None:
    manifest = placed(manifest, given_labels)

    problems = refusals(creation(manifest), SETTINGS, namespace_managed=namespace is NAMESPACE)

    assert bool(problems) == (instance_reason(manifest, namespace) in INSTANCE_RULES)


new_operations = (
    operations().map(unstructure)
    | st.sampled_from([v.manifest for v in (*CRD, *ADMISSION) if v.manifest["kind"] == "Operation"])
    | st.sampled_from(sorted(GOOD)).map(operation_manifest)
    | st.sampled_from(sorted(GOOD)).flatmap(lambda name: anything_in(operation_manifest(name)))
)


@given(new_operations, labelled, namespaces)
@example(operation_manifest(), LABELS, NAMESPACE)
def test_a_new_operation_is_refused_exactly_when_the_reconciler_would_not_accept_it_by_the_same_rules(
    manifest: Manifest, given_labels: Manifest, namespace: Manifest
) -> None:
    manifest = placed(manifest, given_labels)
    problems = refusals(creation(manifest), SETTINGS, namespace_managed=namespace is NAMESPACE)
    try:
        operation = read_operation(manifest)
    except ValidationProblems:
        assert bool(problems) == (MANAGED_BY in given_labels)
        return
    template = TEMPLATES.find(operation.spec.type, operation.spec.engine)
    target = target_manifest()
    target["metadata"]["name"] = operation.spec.target_ref.name
    if template is not None:
        target["metadata"]["annotations"] = {f"ops.vworkspace.io/{template.capability}": template.engine}
    observed = OperationObserved(namespace, {attrs.evolve(TARGET, name=operation.spec.target_ref.name): target})

    reason = reason_of(reconcile_operation(operation, observed, OPERATIONS))

    engine = OPERATIONS.engine_of(operation)
    if template is not None and engine is not None and not problems and reason == OperationReason.VALIDATION_FAILED:
        # What only the engine can say of this target and these settings is the reconciler's.
        told = engine.check(operation, read_application_instance(target), OPERATIONS.for_engine(observed, template))
        assert told is not None
        return
    assert bool(problems) == (reason in OPERATION_RULES)


either = new_instances | new_operations


@given(either, either, labelled, labelled, st.booleans())
def test_what_is_going_away_and_what_is_not_ours_is_never_held_up(
    old: Manifest, new: Manifest, before: Manifest, after: Manifest, namespace_managed: bool
) -> None:
    old, new = placed(old, before), placed(new, after)
    going = with_meta(new, deletionTimestamp="2026-06-01T12:00:00Z")
    unmanaged = with_meta(new, labels={CLUSTER_ID: CLUSTER})

    for request in (update(old, going), update(old, unmanaged), creation(unmanaged)):
        assert refusals(request, SETTINGS, namespace_managed=namespace_managed) == ()


@given(either, labelled, st.lists(st.sampled_from([FINALIZER, "other.example/x"]), unique=True), st.booleans())
def test_finalizers_come_and_go_whatever_the_object_looks_like(
    manifest: Manifest, given_labels: Manifest, finalizers: list[str], namespace_managed: bool
) -> None:
    old = with_meta(placed(manifest, given_labels), finalizers=[FINALIZER])

    assert (
        refusals(update(old, with_meta(old, finalizers=finalizers)), SETTINGS, namespace_managed=namespace_managed)
        == ()
    )


@given(either, labelled, st.sampled_from(["status", "finalizers", "scale"]), st.booleans())
def test_subresources_and_deletions_are_nobody_s_business_here(
    manifest: Manifest, given_labels: Manifest, subresource: str, namespace_managed: bool
) -> None:
    manifest = placed(manifest, given_labels)
    below = attrs.evolve(update(manifest, manifest), subresource=subresource)
    gone = AdmissionRequest("u", AdmissionOperation.DELETE, NS, "a", old_object=manifest)

    assert (
        refusals(below, SETTINGS, namespace_managed=namespace_managed)
        == refusals(gone, SETTINGS, namespace_managed=namespace_managed)
        == ()
    )
    assert default_patch(below) == default_patch(gone) == []


@given(new_instances | new_operations, labelled, st.booleans())
def test_an_object_that_becomes_ours_is_judged_as_a_new_one(
    manifest: Manifest, given_labels: Manifest, namespace_managed: bool
) -> None:
    new = placed(manifest, given_labels)
    unmanaged = with_meta(new, labels={})

    assert refusals(update(unmanaged, new), SETTINGS, namespace_managed=namespace_managed) == refusals(
        creation(new), SETTINGS, namespace_managed=namespace_managed
    )


@pytest.mark.parametrize("violation", [v for v in (*CRD, *ADMISSION) if v.old is not None], ids=lambda v: v.name)
def test_what_may_not_change_is_refused_at_its_path(violation: Violation) -> None:
    assert violation.old is not None
    old, new = (placed(one, LABELS) | {"status": one.get("status", {})} for one in (violation.old, violation.manifest))
    if new["kind"] not in ("ApplicationInstance", "Operation"):
        return

    found = {problem.path for problem in refusals(update(old, new), SETTINGS, namespace_managed=True)}

    assert found >= set(violation.paths)


def test_a_change_of_the_cluster_id_is_judged_though_the_spec_is_the_same() -> None:
    old = placed(instance_manifest(), LABELS)
    (problem,) = refusals(
        update(old, with_meta(old, labels={**LABELS, CLUSTER_ID: "b"})), SETTINGS, namespace_managed=True
    )
    assert problem.message == f"must be {CLUSTER}, not b"


def test_an_object_that_another_operator_reconciles_is_not_ours_to_judge_RES_5() -> None:
    theirs = placed(instance_manifest(), {**LABELS, CLUSTER_ID: "another"})
    condition = {"type": "Ready", "status": "True", "reason": "HelmReleaseReady", "message": ""}
    old = {**theirs, "status": {"conditions": [{**condition, "lastTransitionTime": "2026-06-01T11:00:00Z"}]}}
    new = {**old, "spec": {**old["spec"], "suspend": True}}

    assert refusals(update(old, new), SETTINGS, namespace_managed=True) == ()
    assert refusals(creation(theirs), SETTINGS, namespace_managed=True) != ()


def test_a_cluster_id_that_is_too_long_for_a_label_is_compared_as_the_label_has_it() -> None:
    long = "c" * 80
    manifest = placed(instance_manifest(), {**LABELS, CLUSTER_ID: bounded_name(long)})
    assert refusals(creation(manifest), WebhookSettings(long), namespace_managed=True) == ()


def apply(patch: list[dict[str, Any]], manifest: Manifest) -> dict[str, Any]:
    """What the API server makes of the patch, which only adds."""
    result = json.loads(json.dumps(manifest))
    for one in patch:
        *path, last = one["path"].strip("/").split("/")
        place = result
        for step in path:
            place = place[step]
        assert one["op"] == "add"
        assert place.get(last) is None, "nothing that is there is changed"
        place[last] = one["value"]
    return dict(result)


@given(either, labelled)
def test_defaults_are_filled_in_once_and_never_make_it_worse(manifest: Manifest, given_labels: Manifest) -> None:
    manifest = placed(manifest, given_labels)

    whole = apply(default_patch(creation(manifest)), manifest)

    assert default_patch(creation(whole)) == []
    worse = {problem.path for problem in refusals(creation(whole), SETTINGS, namespace_managed=True)}
    assert worse <= {problem.path for problem in refusals(creation(manifest), SETTINGS, namespace_managed=True)} | {
        "spec.release.name",
        "spec.release.namespace",
    }


@given(application_instances().map(unstructure) | operations().map(unstructure))
def test_valid_objects_need_no_defaults(manifest: Manifest) -> None:
    assert default_patch(creation(manifest)) == []


def test_a_release_is_named_as_the_instance_and_an_update_keeps_the_name_it_has() -> None:
    bare = placed(instance_manifest(release=None), LABELS)
    (added,) = default_patch(creation(bare))
    assert added == {"op": "add", "path": "/spec/release", "value": {"name": "nextcloud-myteam", "namespace": NS}}
    old = placed(instance_manifest(), LABELS)
    (kept,) = default_patch(update(old, bare))
    assert kept["value"] == {"name": "nextcloud", "namespace": NS}
    long = with_meta(bare, name="n" * 60)
    assert default_patch(creation(long))[0]["value"] == {"namespace": NS}


def test_a_target_needs_its_name_only() -> None:
    bare = placed(operation_manifest(), LABELS)
    bare["spec"]["targetRef"] = {"name": "nextcloud-myteam"}

    whole = apply(default_patch(creation(bare)), bare)

    assert refusals(creation(whole), SETTINGS, namespace_managed=True) == ()


@given(json_values(20))
def test_what_is_no_review_is_told_and_nothing_else_happens(body: Any) -> None:
    with pytest.raises(MalformedReview):
        read_review(body)


reviews: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "uid": st.sampled_from(["u", "", None, 3]),
        "operation": st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", "PATCH", None, 3]),
    },
    optional={
        "namespace": st.sampled_from([NS, "", None, 3]),
        "name": st.sampled_from(["a", None, []]),
        "subResource": st.sampled_from(["status", "", None]),
        "object": json_values(8) | new_instances,
        "oldObject": json_values(8) | new_operations,
    },
)


@given(reviews, st.booleans())
def test_every_review_is_answered_with_its_uid_or_refused_as_malformed(request: Any, namespace_managed: bool) -> None:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    try:
        read = read_review(body)
    except MalformedReview:
        return
    patch, problems = default_patch(read), refusals(read, SETTINGS, namespace_managed=namespace_managed)
    answer = refused(read, problems) if problems else patched(read, patch)
    assert answer["response"]["uid"] == request["uid"]
    assert answer["response"]["allowed"] is not bool(problems)


def test_the_answers_are_those_that_an_api_server_reads() -> None:
    request = creation({})
    assert allowed(request)["response"] == {"uid": "u", "allowed": True}
    patch = [{"op": "add", "path": "/spec/a", "value": 1}]
    response = patched(request, patch)["response"]
    assert (response["patchType"], json.loads(b64decode(response["patch"]))) == ("JSONPatch", patch)
    no = refused(request, [Problem("spec.a", "password=hunter2"), Problem("", "x" * 9000)])["response"]
    assert (no["allowed"], no["status"]["code"], no["status"]["reason"]) == (False, 422, "Invalid")
    assert "hunter2" not in json.dumps(no)
    assert len(no["status"]["message"]) == 4096
    assert no["status"]["details"]["causes"][0]["field"] == "spec.a"


@pytest.mark.parametrize("changed", [True, False])
def test_however_many_owners_an_object_has_none_of_them_is_read_RUN_11(changed: bool) -> None:
    def judged(owners: int) -> int:
        manifest = instance_manifest()
        manifest["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": f"owner-{at}", "uid": f"{at}"} for at in range(owners)
        ]
        old = {**manifest, "spec": {**manifest["spec"], "suspend": True}} if changed else copy.deepcopy(manifest)
        request = AdmissionRequest("u", AdmissionOperation.UPDATE, object=manifest, old_object=old)
        return calls_of(lambda: refusals(request, SETTINGS, namespace_managed=True))

    judged(1)  # what is made once
    assert judged(1_000) == judged(1)


WHOLE: dict[str, Any] = {
    "uid": "r-1",
    "operation": "UPDATE",
    "namespace": "ns",
    "name": "a",
    "subResource": "status",
    "userInfo": {"username": "alice"},
    "object": {"a": 1},
    "oldObject": {"a": 2},
}


def in_review(request: Any) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_a_review_is_read_field_by_field_RUN_6() -> None:
    whole = AdmissionRequest(
        uid="r-1",
        operation=AdmissionOperation.UPDATE,
        namespace="ns",
        name="a",
        subresource="status",
        user="alice",
        object={"a": 1},
        old_object={"a": 2},
    )
    assert read_review(in_review(WHOLE)) == whole
    least = read_review(in_review({"uid": "r-1", "operation": "DELETE"}))
    assert least == AdmissionRequest(
        uid="r-1",
        operation=AdmissionOperation.DELETE,
        namespace="",
        name="",
        subresource="",
        user="",
        object=None,
        old_object=None,
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([], "the body is no JSON object"),
        ({**in_review(WHOLE), "kind": "Review"}, "the body is no admission.k8s.io/v1 AdmissionReview"),
        ({**in_review(WHOLE), "apiVersion": "v1"}, "the body is no admission.k8s.io/v1 AdmissionReview"),
        (in_review(None), "request: is required"),
        (in_review({**WHOLE, "uid": ""}), "request.uid: is required"),
        (in_review({**WHOLE, "uid": 3}), "request.uid: is required"),
        (
            in_review({**WHOLE, "operation": "PATCH"}),
            f"request.operation: must be one of {', '.join(AdmissionOperation)}",
        ),
        (in_review({**WHOLE, "namespace": 3}), "request.namespace: must be a string"),
        (in_review({**WHOLE, "name": []}), "request.name: must be a string"),
        (in_review({**WHOLE, "subResource": {}}), "request.subResource: must be a string"),
        (in_review({**WHOLE, "object": "x"}), "request.object: must be an object"),
        (in_review({**WHOLE, "oldObject": []}), "request.oldObject: must be an object"),
    ],
)
def test_what_is_no_review_is_told_at_its_field_RUN_6(body: Any, told: str) -> None:
    with pytest.raises(MalformedReview) as caught:
        read_review(body)
    assert str(caught.value) == told


def test_each_answer_has_the_form_that_an_api_server_reads_RUN_6() -> None:
    request = read_review(in_review(WHOLE))
    form = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    problem = Problem("spec.a", "is wrong")
    add = {"op": "add", "path": "/spec/a", "value": 1}

    assert allowed(request) == patched(request, []) == {**form, "response": {"uid": "r-1", "allowed": True}}
    warned = {"uid": "r-1", "allowed": True, "warnings": ["spec.a: is wrong"]}
    assert allowed(request, [problem]) == {**form, "response": warned}
    answer = patched(request, [add])
    assert json.loads(b64decode(answer["response"].pop("patch"))) == [add]
    assert answer == {**form, "response": {"uid": "r-1", "allowed": True, "patchType": "JSONPatch"}}
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "spec.a: is wrong",
        "details": {"causes": [{"reason": "FieldValueInvalid", "message": "is wrong", "field": "spec.a"}]},
    }
    refusal = {"uid": "r-1", "allowed": False, "status": status}
    assert refused(request, [problem]) == {**form, "response": refusal}


def test_an_operation_gets_the_kind_of_its_target_unless_it_says_one_RUN_6() -> None:
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance"}
    bare = operation_manifest()
    bare["spec"]["targetRef"] = {"name": "a"}
    adds = [{"op": "add", "path": f"/spec/targetRef/{key}", "value": value} for key, value in target.items()]

    assert default_patch(creation(bare)) == adds
    assert default_patch(creation({**bare, "spec": {**bare["spec"], "targetRef": {"name": "a", **target}}})) == []
    assert default_patch(creation({**bare, "spec": {**bare["spec"], "targetRef": "a"}})) == []
    assert default_patch(creation({**bare, "spec": []})) == []
    old = {**bare, "spec": {**bare["spec"], "targetRef": {"name": "a", "apiVersion": "old/v1", "kind": "Old"}}}
    assert [one["value"] for one in default_patch(update(old, bare))] == ["old/v1", "Old"]
    going = with_meta(bare, deletionTimestamp="2026-06-01T11:00:00Z")
    assert default_patch(creation(going)) == []


@pytest.mark.parametrize(
    ("asked", "written", "name"),
    [
        ("", "a" * 53, "a" * 53),
        ("b", "", "b"),
        ("b", "a", "b"),
        ("", "a" * 54, None),
        ("", "Not_One", None),
    ],
)
def test_a_release_gets_the_name_and_namespace_that_the_instance_is_written_under_RUN_6(
    asked: str, written: str, name: str | None
) -> None:
    bare = instance_manifest(release=None, mode=None)
    bare["metadata"] = {**bare["metadata"], "name": written, "namespace": "of-manifest"}
    for given_namespace, namespace in (("of-request", "of-request"), ("", "of-manifest")):
        request = attrs.evolve(creation(bare), name=asked, namespace=given_namespace)
        (added,) = default_patch(request)
        expected = {"namespace": namespace} if name is None else {"name": name, "namespace": namespace}
        assert (added["path"], added["value"]) == ("/spec/release", expected)
