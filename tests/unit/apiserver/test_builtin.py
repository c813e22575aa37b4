"""Built-in kinds: what is filled in, what is owned, what is refused, what never changes."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from kubelab.builtin.event_kinds import core_event_of, new_event_of
from kubelab.builtin.resources import BUILTIN_DEFINITIONS, STORED
from kubelab.http.tables.builtin_columns import BUILTIN_TABLES
from kubelab.model.calls import FieldValidation, WriteOutcome, WriteRequest
from kubelab.model.definition import ServedKind
from kubelab.model.failure import ApiFailure
from kubelab.writes import pipeline
from purekube.ports import PatchType

BY_KIND = {
    (builtin_definition.kind.group, builtin_definition.kind.kind): builtin_definition
    for builtin_definition in BUILTIN_DEFINITIONS
}
CONTAINER = {"name": "c", "image": "i"}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}


def of(kind: str) -> ServedKind:
    return next(
        builtin_definition for builtin_definition in BUILTIN_DEFINITIONS if builtin_definition.kind.kind == kind
    )


def write(definition: ServedKind, name: str = "a", **more: Any) -> WriteRequest:
    space = "t" if definition.kind.namespaced else ""
    return WriteRequest(manager="m", now="2026-01-01T00:00:00Z", name=name, namespace=space, uid="0f-1", **more)


def body(definition: ServedKind, meta: Any = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": "a", **(meta or {})}
    return {"apiVersion": definition.api_version, "kind": definition.kind.kind, "metadata": metadata, **fields}


def create(kind: str, meta: Any = None, **fields: Any) -> dict[str, Any]:
    definition = of(kind)
    made = dict(pipeline.create(definition, body(definition, meta, **fields), write(definition, name="")).object)
    return {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}


def update(live: dict[str, Any], definition: ServedKind | None = None, **fields: Any) -> WriteOutcome:
    known = definition or of(live["kind"])
    return pipeline.update(known, live, {**live, **fields}, write(known, live["metadata"]["name"]))


def refused(act: Any) -> list[tuple[str, str]]:
    """Field and message of every cause of a 422."""
    with pytest.raises(ApiFailure) as caught:
        act()
    assert caught.value.status == 422
    return [(cause.field, cause.message) for cause in caught.value.causes]


def owned(manifest: dict[str, Any]) -> Any:
    [entry] = manifest["metadata"]["managedFields"]
    return entry["fieldsV1"]


def test_every_kind_is_there_once_per_group() -> None:
    assert len(BY_KIND) == len(BUILTIN_DEFINITIONS)
    desired = "Namespace ConfigMap Secret ServiceAccount Event Lease Job Pod PersistentVolumeClaim Service Deployment"
    desired += " StatefulSet DaemonSet Role ClusterRole RoleBinding ClusterRoleBinding CustomResourceDefinition"
    desired += " ValidatingWebhookConfiguration MutatingWebhookConfiguration"
    assert set(desired.split()) <= {kind for _, kind in BY_KIND}
    assert {group for group, kind in BY_KIND if kind == "Event"} == {"", "events.k8s.io"}


def test_string_data_of_a_secret_goes_into_data_and_is_owned_there() -> None:
    secret = create("Secret", stringData={"a": "b"}, data={"c": "Yg=="})
    assert (secret["data"], secret["type"]) == ({"a": "Yg==", "c": "Yg=="}, "Opaque")
    assert owned(secret) == {"f:data": {".": {}, "f:a": {}, "f:c": {}}, "f:type": {}}
    assert "generation" not in secret["metadata"]


def test_the_type_of_a_secret_never_changes() -> None:
    secret = create("Secret", data={})
    assert refused(lambda: update(secret, type="other")) == [("type", 'Invalid value: "other": field is immutable')]
    kept = {key: value for key, value in secret.items() if key != "type"}
    definition = of("Secret")
    assert pipeline.update(definition, secret, kept, write(definition)).object["type"] == "Opaque"


def test_an_immutable_config_map_is_immutable() -> None:
    frozen = create("ConfigMap", data={"a": "1"}, immutable=True)
    assert refused(lambda: update(frozen, data={"a": "2"})) == [
        ("data", "Forbidden: field is immutable when `immutable` is set")
    ]
    assert refused(lambda: update(frozen, immutable=False))[0][0] == "immutable"


@pytest.mark.parametrize("key", ["a b", "", ".", "a/b"])
def test_keys_of_a_config_map_are_file_names(key: str) -> None:
    assert refused(lambda: create("ConfigMap", data={key: "x"}))[0][0] == f"data[{key}]"


def test_a_secret_holds_a_mebibyte_and_no_more() -> None:
    exact = base64.b64encode(b"x" * 1_048_576).decode()
    assert create("Secret", data={"a": exact})["data"]
    assert refused(lambda: create("Secret", data={"a": exact, "b": "Yg=="}))[0][0] == "data"


def test_data_of_a_secret_is_base64() -> None:
    with pytest.raises(ApiFailure) as caught:
        create("Secret", data={"a": "not base64!"})
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")
    assert "data.a" in caught.value.message


@pytest.mark.parametrize(
    "spec", ["text", {"containers": [1]}, {"containers": [{"name": "c", "ports": [None]}]}, {"hostNetwork": "yes"}]
)
def test_values_of_the_wrong_type_cannot_be_read(spec: Any) -> None:
    with pytest.raises(ApiFailure) as caught:
        create("Pod", spec=spec)
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")
    assert "cannot be handled as a Pod" in caught.value.message


def test_a_namespace_is_born_active_with_its_label_and_finalizer() -> None:
    space = create("Namespace")
    assert space["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    assert (space["spec"], space["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    (entry,) = space["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}
    assert refused(lambda: create("Namespace", {"name": "a.b"}))[0][0] == "metadata.name"


def test_a_job_gets_defaults_labels_and_a_selector() -> None:
    job = create("Job", spec={"suspend": True, "template": TEMPLATE})
    spec, labels = job["spec"], job["metadata"]["labels"]
    desired = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": True}
    assert {key: spec[key] for key in desired} == desired
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == "0f-1"
    assert spec["template"]["metadata"]["labels"] == labels
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "0f-1"}}
    assert "f:selector" not in owned(job)["f:spec"]
    assert job["status"] == {}
    assert job["metadata"]["generation"] == 1


def test_labels_of_a_jobs_own_stay_its_own() -> None:
    job = create("Job", {"labels": {"mine": "1"}}, spec={"template": TEMPLATE})
    assert job["metadata"]["labels"] == {"mine": "1"}


def test_a_job_is_written_once() -> None:
    job = create("Job", spec={"template": TEMPLATE})
    other = {
        **job["spec"],
        "template": {**job["spec"]["template"], "spec": {**job["spec"]["template"]["spec"], "dnsPolicy": "Default"}},
    }
    assert [field for field, _ in refused(lambda: update(job, spec=other))] == ["spec.template.spec"]
    assert [field for field, _ in refused(lambda: update(job, spec={**job["spec"], "completions": 2}))] == [
        "spec.completions"
    ]
    assert update(job, spec={**job["spec"], "suspend": True}).object["metadata"]["generation"] == 2


@pytest.mark.parametrize("policy", [None, "Always"])
def test_a_job_does_not_restart_for_ever(policy: str | None) -> None:
    spec = {"containers": [CONTAINER], **({"restartPolicy": policy} if policy else {})}
    assert refused(lambda: create("Job", spec={"template": {"spec": spec}}))[0][0] == "spec.template.spec.restartPolicy"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:1", "IfNotPresent"),
        ("r:5000/i", "Always"),
        ("i@sha256:0", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    pod = create("Pod", spec={"containers": [{"name": "c", "image": image}]})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_pod_is_completed_and_can_change_its_images_only() -> None:
    probe = {"httpGet": {"port": 80}}
    pod = create(
        "Pod",
        spec={
            "containers": [{**CONTAINER, "ports": [{"containerPort": 80}], "livenessProbe": probe}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
        },
    )
    spec = pod["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["enableServiceLinks"]) == ("Always", "ClusterFirst", True)
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert spec["containers"][0]["livenessProbe"]["httpGet"] == {"path": "/", "port": 80, "scheme": "HTTP"}
    assert spec["volumes"] == [
        {"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
    ]
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    image = {**spec, "containers": [{**spec["containers"][0], "image": "other"}]}
    assert update(pod, spec=image).changed
    assert refused(lambda: update(pod, spec={**spec, "hostNetwork": True}))[0][0] == "spec"


def test_a_deployment_rolls_out_and_keeps_its_selector() -> None:
    spec = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}},
    }
    live = create("Deployment", spec=spec)
    assert live["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (1, 1)
    other = {**live["spec"], "selector": {"matchLabels": {"app": "b"}}}
    assert {field for field, _ in refused(lambda: update(live, spec=other))} == {
        "spec.template.metadata.labels",
        "spec.selector",
    }
    assert update(live, metadata={**live["metadata"], "labels": {"x": "y"}}).object["metadata"]["generation"] == 1


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_no_count_of_a_workload_is_negative(kind: str) -> None:
    spec = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}},
    }
    assert ("spec.replicas", "Invalid value: -3: must be greater than or equal to 0") in refused(
        lambda: create(kind, spec={**spec, "replicas": -3})
    )


def test_scaling_a_deployment_is_an_entry_of_its_own_S_51() -> None:
    definition = of("Deployment")
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}},
    }
    live = create("Deployment", spec=spec)
    patch = {"spec": {"replicas": 5}}
    outcome = pipeline.patch(definition, live, patch, PatchType.MERGE, write(definition, subresource="scale"))
    assert outcome.object["spec"]["replicas"] == 5
    entries = {entry.get("subresource", ""): entry["fieldsV1"] for entry in outcome.object["metadata"]["managedFields"]}
    assert entries["scale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in entries[""]["f:spec"]


def test_a_stateful_set_changes_only_what_rolls_out() -> None:
    spec = {
        "serviceName": "s",
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}},
    }
    live = create("StatefulSet", spec=spec)
    assert update(live, spec={**live["spec"], "replicas": 3}).changed
    [(field, message)] = refused(lambda: update(live, spec={**live["spec"], "serviceName": "other"}))
    assert field == "spec"
    assert message.startswith("Forbidden: updates to statefulset spec for fields other than 'replicas'")


def test_a_service_has_an_address_that_stays() -> None:
    live = create("Service", spec={"ports": [{"port": 80}], "selector": {"app": "a"}})
    spec = live["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    bare = {"ports": [{"port": 81}], "selector": {"app": "a"}}
    assert update(live, spec=bare).object["spec"]["clusterIP"] == spec["clusterIP"]
    assert refused(lambda: update(live, spec={**spec, "clusterIP": "10.96.0.9"}))[0][0] == "spec.clusterIPs[0]"


def test_a_claim_waits_protected_and_is_immutable() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    live = create("PersistentVolumeClaim", spec=spec)
    assert live["status"] == {"phase": "Pending"}
    assert live["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert refused(lambda: update(live, spec={**live["spec"], "accessModes": ["ReadWriteMany"]}))[0][0] == "spec"
    grown = {**live["spec"], "resources": {"requests": {"storage": "2Gi"}}}
    assert refused(lambda: update(live, spec=grown))[0][0] == "spec", "only a bound claim grows"
    assert update({**live, "status": {"phase": "Bound"}}, spec=grown).changed


def test_a_binding_keeps_its_role() -> None:
    live = create("RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "u"}])
    assert live["roleRef"]["apiGroup"] == live["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    other = {**live["roleRef"], "name": "other"}
    assert refused(lambda: update(live, roleRef=other))[0] == (
        "roleRef",
        'Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"other"}: cannot change roleRef',
    )


def test_a_lease_needs_its_resource_version() -> None:
    live = create("Lease", spec={"holderIdentity": "a"})
    definition = of("Lease")
    bare = {**live, "metadata": {"name": "a"}}
    assert (
        refused(lambda: pipeline.update(definition, live, bare, write(definition)))[0][0] == "metadata.resourceVersion"
    )
    assert refused(lambda: create("Lease", spec={"leaseDurationSeconds": 0}))[0][0] == "spec.leaseDurationSeconds"


def test_a_put_of_a_config_map_needs_none() -> None:
    live = create("ConfigMap", data={"a": "1"})
    definition = of("ConfigMap")
    bare = body(definition, data={"a": "2"})
    assert pipeline.update(definition, live, bare, write(definition)).object["data"] == {"a": "2"}


EVENT = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "regarding": {"kind": "Thing", "name": "x", "namespace": "t"},
    "reportingController": "c.example/x",
    "reportingInstance": "i",
    "action": "Did",
    "reason": "Because",
    "note": "n",
    "type": "Normal",
}


def new_event(**change: Any) -> dict[str, Any]:
    definition = BY_KIND["events.k8s.io", "Event"]
    fields = {key: value for key, value in {**EVENT, **change}.items() if value is not None}
    made = dict(pipeline.create(definition, body(definition, **fields), write(definition, name="")).object)
    return {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}


def test_an_event_is_one_object_under_two_schemas() -> None:
    event = new_event()
    core = core_event_of(event)
    assert (core["message"], core["involvedObject"], core["reportingComponent"]) == (
        "n",
        EVENT["regarding"],
        "c.example/x",
    )
    assert new_event_of(core) == event


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"action": None}, "action"),
        ({"reason": ""}, "reason"),
        ({"eventTime": None}, "eventTime"),
        ({"type": "Odd"}, "type"),
        ({"note": "x" * 1025}, "note"),
        ({"regarding": {"kind": "T", "name": "x", "namespace": "other"}}, "involvedObject.namespace"),
        ({"regarding": {"kind": "T", "name": "x"}}, "involvedObject.namespace"),
    ],
)
def test_an_event_says_who_did_what_in_few_words(change: dict[str, Any], field: str) -> None:
    assert field in {where for where, _ in refused(lambda: new_event(**change))}


def test_the_note_of_an_event_never_changes() -> None:
    event = new_event()
    assert [field for field, _ in refused(lambda: update(event, BY_KIND["events.k8s.io", "Event"], note="other"))] == [
        "note"
    ]
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    assert update(event, BY_KIND["events.k8s.io", "Event"], series=series).changed


CRD: dict[str, Any] = {
    "group": "x.example",
    "scope": "Namespaced",
    "names": {"plural": "as", "kind": "A"},
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
}


def test_a_definition_gets_its_names_and_has_to_be_named_after_them() -> None:
    live = create("CustomResourceDefinition", {"name": "as.x.example"}, spec=CRD)
    assert live["spec"]["names"] == {"plural": "as", "kind": "A", "singular": "a", "listKind": "AList"}
    assert refused(lambda: create("CustomResourceDefinition", {"name": "b"}, spec=CRD))[0][0] == "metadata.name"
    moved = {**live["spec"], "group": "y.example"}
    assert "spec.group" in {field for field, _ in refused(lambda: update(live, spec=moved))}


def test_a_definition_whose_schema_cannot_be_served_is_refused_with_the_path() -> None:
    schema = {
        "type": "object",
        "properties": {"f": {"type": "array"}},
        "x-kubernetes-validations": [{"rule": "self.z"}],
    }
    broken = {**CRD, "versions": [{**CRD["versions"][0], "schema": {"openAPIV3Schema": schema}}]}
    fields = [f for f, _ in refused(lambda: create("CustomResourceDefinition", {"name": "as.x.example"}, spec=broken))]
    assert fields == [
        "spec.versions[0].schema.openAPIV3Schema.properties[f].items",
        "spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations[0]",
    ]


def test_exactly_one_version_is_stored() -> None:
    none = {**CRD, "versions": [{**CRD["versions"][0], "storage": False}]}
    assert "spec.versions" in {
        field for field, _ in refused(lambda: create("CustomResourceDefinition", {"name": "as.x.example"}, spec=none))
    }


def test_webhooks_are_completed_and_checked() -> None:
    hook = {
        "name": "a.x.example",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}],
    }
    live = create("ValidatingWebhookConfiguration", webhooks=[hook])
    done = live["webhooks"][0]
    assert (done["failurePolicy"], done["timeoutSeconds"], done["clientConfig"]["service"]["port"]) == ("Fail", 10, 443)
    short = {**hook, "name": "short"}
    assert refused(lambda: create("MutatingWebhookConfiguration", webhooks=[short]))[0][0] == "webhooks[0].name"


@pytest.mark.parametrize(
    "definition",
    [one for one in BUILTIN_DEFINITIONS if one not in STORED],
    ids=lambda one: f"{one.kind.group}/{one.kind.kind}",
)
def test_unknown_fields_are_dropped_with_a_warning_and_refused_by_strict_W_36(definition: ServedKind) -> None:
    strange = body(definition, nonsense=1)
    strict = write(definition, field_validation=FieldValidation.STRICT)
    with pytest.raises(ApiFailure) as caught:
        pipeline.create(definition, strange, strict)
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "nonsense"' in caught.value.message


def test_an_unknown_field_of_a_config_map_is_dropped_with_a_warning_W_36() -> None:
    definition = of("ConfigMap")
    outcome = pipeline.create(definition, body(definition, data={}, nonsense=1), write(definition))
    assert "nonsense" not in outcome.object
    assert outcome.warnings == ('unknown field "nonsense"',)
    silent = pipeline.create(
        definition, body(definition, nonsense=1), write(definition, field_validation=FieldValidation.IGNORE)
    )
    assert silent.warnings == ()


def test_an_unknown_field_in_an_apply_of_a_config_map_is_a_500_S_15() -> None:
    definition = of("ConfigMap")
    with pytest.raises(ApiFailure) as caught:
        pipeline.apply(definition, None, body(definition, nonsense=1), write(definition))
    assert (caught.value.status, caught.value.reason) == (500, "")
    assert caught.value.message == (
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .nonsense: field not declared in schema"
    )


def test_applying_to_built_in_kinds_merges_by_their_list_types() -> None:
    definition = of("Pod")
    first = body(definition, spec={"containers": [{"name": "a", "image": "1"}]})
    live = dict(pipeline.apply(definition, None, first, write(definition)).object)
    live["metadata"] = {**live["metadata"], "resourceVersion": "1"}
    second = WriteRequest(manager="other", now="2026-01-01T00:00:01Z", name="a", namespace="t")
    config = body(definition, {"labels": {"l": "1"}}, spec={"containers": [{"name": "a", "image": "1"}]})
    outcome = pipeline.apply(definition, live, config, second)
    assert [entry["manager"] for entry in outcome.object["metadata"]["managedFields"]] == ["m", "other"]
    assert len(outcome.object["spec"]["containers"]) == 1


def test_null_as_empty_resets_ownership_of_built_in_kinds_S_68() -> None:
    live = create("ConfigMap", data={"a": "1"})
    outcome = update(live, metadata={**live["metadata"], "managedFields": []})
    assert "managedFields" not in outcome.object["metadata"]


@pytest.mark.parametrize(
    ("deleted", "true", "spec", "cells"),
    [
        (False, [], {"parallelism": 1}, ["Running", "0/1"]),
        (False, [], {"parallelism": 3}, ["Running", "0/1 of 3"]),
        (False, ["FailureTarget"], {"completions": 2}, ["FailureTarget", "0/2"]),
        (True, ["FailureTarget"], {"completions": 2}, ["Terminating", "0/2"]),
        (True, ["FailureTarget", "Failed"], {"completions": 2}, ["Failed", "0/2"]),
    ],
)
def test_what_kubectl_shows_of_a_job(deleted: bool, true: list[str], spec: dict[str, int], cells: list[str]) -> None:
    conditions = [{"type": kind, "status": "True"} for kind in true]
    metadata = {"name": "a", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    job = {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
    assert BUILTIN_TABLES["batch", "jobs"].cells(job, datetime(2026, 1, 1, tzinfo=UTC))[:2] == cells


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("ResourceQuota", {}, {}),
        ("Ingress", {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}, {"loadBalancer": {}}),
    ],
)
def test_the_status_of_a_new_object_is_shown_empty(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
    assert create(kind, spec=spec)["status"] == status
