"""The label says that the control plane asks for it; a setting says who may put it on an object (C2, RUN-12)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest, read_review
from tests.support.instance_worlds import instance_manifest
from vworkspace_core.webhook.admission import WebhookSettings, refusals

OPERATOR = "system:serviceaccount:vworkspace-system:vworkspace-operator"
CLUSTER_ID = instance_manifest()["metadata"]["labels"]["app.vworkspace.io/cluster-id"]
NAMED = WebhookSettings(CLUSTER_ID, writers=frozenset({OPERATOR, "alice"}))
users = st.sampled_from((OPERATOR, "alice", "mallory", "", "system:serviceaccount:org-a:default"))


def asked(
    user: str, verb: AdmissionOperation = AdmissionOperation.CREATE, old: dict[str, Any] | None = None, **meta: Any
) -> AdmissionRequest:
    manifest = instance_manifest()
    manifest["metadata"] = {**manifest["metadata"], **meta}
    return AdmissionRequest(
        "1", verb, manifest["metadata"]["namespace"], manifest["metadata"]["name"], "", user, manifest, old
    )


@given(users)
def test_only_those_named_may_make_a_managed_object_and_the_refusal_names_them(user: str) -> None:
    problems = refusals(asked(user), NAMED, namespace_managed=True)
    assert (problems == ()) is (user in NAMED.writers)
    if problems:
        assert [problem.path for problem in problems] == ['metadata.labels["app.vworkspace.io/managed-by"]']
        assert "alice" in problems[0].message


@given(users)
def test_an_object_without_the_label_is_anybody_s_and_becoming_managed_is_not(user: str) -> None:
    plain = instance_manifest()
    plain["metadata"] = {**plain["metadata"], "labels": {}}
    assert refusals(asked(user, labels={}), NAMED, namespace_managed=True) == ()
    taken = refusals(asked(user, AdmissionOperation.UPDATE, plain), NAMED, namespace_managed=True)
    assert (taken == ()) is (user in NAMED.writers)


@given(users)
def test_without_names_nobody_is_asked_and_a_finalizer_always_comes_off_RUN_6(user: str) -> None:
    assert refusals(asked(user), WebhookSettings(CLUSTER_ID), namespace_managed=True) == ()
    going = asked(
        user, AdmissionOperation.UPDATE, instance_manifest(), deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[]
    )
    assert refusals(going, NAMED, namespace_managed=True) == ()
    same = asked(user, AdmissionOperation.UPDATE, instance_manifest(), annotations={"ops.vworkspace.io/x": "y"})
    assert refusals(same, NAMED, namespace_managed=True) == ()


def test_the_user_is_read_from_the_review() -> None:
    request = {"uid": "1", "operation": "CREATE", "userInfo": {"username": "alice", "groups": []}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert read_review(review).user == "alice"
    assert read_review({**review, "request": {**request, "userInfo": 7}}).user == ""
