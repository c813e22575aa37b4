"""Exactly what the webhooks refuse and fill in, one case at a time (RUN-6)."""

from typing import Any

import pytest

from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest
from purekube.apimachinery.nesting import TOO_DEEP, UNREADABLE
from purekube.apimachinery.problems import Problem
from tests.support.instance_worlds import CLUSTER, instance_manifest, with_meta
from tests.support.operation_worlds import operation_manifest
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY
from vworkspace_core.webhook.admission import WebhookSettings, default_patch, refusals

NS = "org-myteam"
OURS = {MANAGED_BY: "control-plane", CLUSTER_ID: CLUSTER}
THEIRS = {**OURS, CLUSTER_ID: "another"}
SETTINGS = WebhookSettings(CLUSTER)
NAMED = WebhookSettings(CLUSTER, writers=frozenset({"bob", "alice"}))


def made(given: Any = None, **spec: Any) -> dict[str, Any]:
    found = instance_manifest()
    meta = {"name": "nextcloud-myteam", "namespace": NS, "labels": OURS if given is None else given}
    return {**found, "metadata": meta, "spec": {**found["spec"], **spec}}


def asked(new: Any, old: Any = None, user: str = "alice") -> AdmissionRequest:
    verb = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE
    return AdmissionRequest("u", verb, NS, "nextcloud-myteam", "", user, new, old)


GATE = Problem(
    "metadata.namespace",
    f"'{NS}' is not labelled managed-by=vworkspace: kubectl label namespace {NS} managed-by=vworkspace",
)
WRONG = Problem(f"metadata.labels['{CLUSTER_ID}']", f"must be {CLUSTER}, not another")
ABSENT = Problem(f"metadata.labels['{CLUSTER_ID}']", f"must be {CLUSTER}, not absent")
MODE = {"mode": "sideways"}
DEEP = {**made(), UNREADABLE: ["spec.values", "spec.other"]}
CLAIMED = {"conditions": [{"type": "Ready", "status": "True", "reason": "X", "message": ""}]}
CLAIMED["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:00Z"


def not_a_writer(user: str) -> Problem:
    return Problem(
        f'metadata.labels["{MANAGED_BY}"]',
        f"{user} may not write objects that the control plane manages; these may: alice, bob (setting --writers)",
    )


@pytest.mark.parametrize(
    ("request_", "managed", "settings", "problems"),
    [
        (asked(made()), True, SETTINGS, ()),
        (asked(made()), False, SETTINGS, (GATE,)),
        (asked(made(THEIRS)), True, SETTINGS, (WRONG,)),
        (asked(made(THEIRS)), False, SETTINGS, (WRONG, GATE)),
        (asked(made({MANAGED_BY: "control-plane"})), True, SETTINGS, (ABSENT,)),
        (asked(with_meta(made(), ownerReferences=[{"uid": "o"}])), False, SETTINGS, (GATE,)),
        (asked(made({})), False, SETTINGS, ()),
        (asked({**made(), "kind": "Cluster"}), False, SETTINGS, ()),
        (asked({**made(), "kind": "ConfigMap", "apiVersion": "v1"}), False, SETTINGS, ()),
        # what was there before
        (asked(made(), made()), False, SETTINGS, ()),
        (asked(made(**MODE), made(**MODE)), False, SETTINGS, ()),
        (asked(made(THEIRS, **MODE), made(**MODE)), True, SETTINGS, (WRONG,)),
        (asked(made(suspend=True), made()), False, SETTINGS, (GATE,)),
        (asked(made(), made({})), False, SETTINGS, (GATE,)),
        # of another operator, which says so in its status
        (asked({**made(THEIRS), "status": CLAIMED}), False, SETTINGS, ()),
        (asked({**made(), "status": CLAIMED}), False, SETTINGS, (GATE,)),
        # too deep to be read
        (asked(DEEP), True, SETTINGS, (Problem("spec.values", TOO_DEEP), Problem("spec.other", TOO_DEEP))),
        (asked(DEEP, made()), True, SETTINGS, (Problem("spec.values", TOO_DEEP), Problem("spec.other", TOO_DEEP))),
        (asked(DEEP, DEEP), False, SETTINGS, ()),
        (asked(made(), DEEP), True, SETTINGS, ()),
        (asked({**DEEP, "metadata": {**DEEP["metadata"], "labels": {}}}), False, SETTINGS, ()),
        # who may write
        (asked(made(), user="mallory"), False, NAMED, (not_a_writer("mallory"),)),
        (asked(made(), user=""), False, NAMED, (not_a_writer("an unknown user"),)),
        (asked(made(), user="bob"), False, NAMED, (GATE,)),
        (asked(made(), made(), user="mallory"), False, NAMED, ()),
        (asked({**made(THEIRS), "status": CLAIMED}, user="mallory"), True, NAMED, ()),
    ],
)
def test_exactly_these_problems_are_told(
    request_: AdmissionRequest, managed: bool, settings: WebhookSettings, problems: tuple[Problem, ...]
) -> None:
    assert refusals(request_, settings, namespace_managed=managed) == problems


def test_problems_of_the_spec_and_of_the_namespace_are_told_together() -> None:
    told = refusals(asked(made(**MODE)), SETTINGS, namespace_managed=False)

    assert GATE in told
    assert {problem.path for problem in told} == {"spec.mode", "metadata.namespace"}


def test_an_operation_that_no_template_knows_is_refused_at_its_engine() -> None:
    found = operation_manifest()
    found = {**found, "metadata": {"name": "a", "namespace": NS, "labels": OURS}}
    odd = {**found, "spec": {**found["spec"], "type": "Restore", "engine": "job"}}

    assert refusals(asked(found), SETTINGS, namespace_managed=True) == ()
    (problem,) = refusals(asked(odd), SETTINGS, namespace_managed=True)
    assert problem.message.startswith("there is no template for type Restore and engine job")


def test_an_object_of_another_cluster_that_cannot_be_read_is_judged_as_ours() -> None:
    told = refusals(asked({**made(THEIRS, **MODE), "status": CLAIMED}), SETTINGS, namespace_managed=True)

    assert WRONG in told


API_VERSION, KIND = "apps.vworkspace.io/v1alpha1", "ApplicationInstance"
OLD = {"name": "old", "namespace": NS}
WHOLE = {"name": "nextcloud-myteam", "namespace": NS}


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


TYPED = add("/spec/targetRef/apiVersion", API_VERSION)


def operation(target: Any) -> dict[str, Any]:
    found = operation_manifest()
    return {**found, "metadata": {"name": "a", "namespace": NS}, "spec": {**found["spec"], "targetRef": target}}


@pytest.mark.parametrize(
    ("request_", "patch"),
    [
        (asked(made(release=None)), [add("/spec/release", WHOLE)]),
        (asked(made(release=None, mode="managed")), [add("/spec/release", WHOLE)]),
        (asked(made(release=None, mode=None)), [add("/spec/release", WHOLE)]),
        (asked(made(release=None, mode="placeholder")), []),
        (asked(made(release={})), [add("/spec/release/name", WHOLE["name"]), add("/spec/release/namespace", NS)]),
        (asked(made(release={"name": "a"})), [add("/spec/release/namespace", NS)]),
        (asked(made(release={"name": "a", "namespace": None})), [add("/spec/release/namespace", NS)]),
        (asked(made(release={"name": "a", "namespace": "b"})), []),
        (asked(made(release="a")), []),
        # an update keeps what the object had
        (asked(made(release=None), made(release={"name": "old"})), [add("/spec/release", OLD)]),
        (
            asked(made(release=None), made(release={"name": 5, "namespace": "b"})),
            [add("/spec/release", {**WHOLE, "namespace": "b"})],
        ),
        (asked(made(release=None), made(release={"name": "old", "other": "x"})), [add("/spec/release", OLD)]),
        # what is going away, or is no object of ours
        (asked(with_meta(made(release=None), deletionTimestamp="2026-01-01T00:00:00Z")), []),
        (asked({**made(), "spec": None}), []),
        (asked({**made(release=None), "kind": "Cluster"}), []),
        # the target of an Operation
        (asked(operation({"name": "a"})), [TYPED, add("/spec/targetRef/kind", KIND)]),
        (asked(operation({"name": "a", "kind": "X"})), [TYPED]),
        (asked(operation({"name": "a"}), operation({"kind": "Old"})), [TYPED, add("/spec/targetRef/kind", "Old")]),
        (asked(made(mode="placeholder", targetRef={"name": "a"})), []),
        (asked(operation(None)), []),
        (AdmissionRequest("u", AdmissionOperation.DELETE, NS, "a", "", "", made(release=None)), []),
        (asked(operation("a")), []),
    ],
)
def test_exactly_what_is_missing_is_filled_in(request_: AdmissionRequest, patch: list[dict[str, Any]]) -> None:
    assert default_patch(request_) == patch


@pytest.mark.parametrize(
    ("name", "filled"),
    [("n" * 53, True), ("n" * 54, False), ("a.b", False), ("A", False), ("-a", False), ("a-", False), ("7", True)],
)
def test_a_name_that_is_no_release_name_is_left_for_the_schema_to_refuse(name: str, filled: bool) -> None:
    request = AdmissionRequest("u", AdmissionOperation.CREATE, "", "", "", "", with_meta(made(release=None), name=name))

    (patch,) = default_patch(request)

    assert patch["value"] == ({"name": name} if filled else {}) | {"namespace": NS}


def test_the_name_in_the_request_goes_before_that_in_the_object() -> None:
    found = with_meta(made(release=None), name="other", namespace="elsewhere")

    assert default_patch(asked(found)) == [add("/spec/release", WHOLE)]


def test_without_any_name_nothing_is_filled_in() -> None:
    bare = {**made(release=None), "metadata": {"generateName": "a-"}}

    assert default_patch(AdmissionRequest("u", AdmissionOperation.CREATE, "", "", "", "", bare)) == []
