"""Readiness of any object (PH-1): examples a kind, and the laws that hold for all of them."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.readiness import RULES, Readiness, State, readiness
from purekube.schema.compile import compile_schema


def made(group: str, kind: str, spec: Mapping[str, Any], status: Mapping[str, Any], generation: int = 2) -> Any:
    """An object whose controller has observed its generation, where it tells."""
    meta = {"name": "a", "generation": generation}
    version = f"{group}/v1" if group else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": dict(spec), "status": dict(status)}


def condition(kind: str, status: str, reason: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


SEEN = {"observedGeneration": 2}
FULL = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
NODES = dict.fromkeys(
    ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"), 2
)
READY = {"conditions": [condition("Ready", "True", "Succeeded", observedGeneration=2)]}
ADDRESS = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}

HEALTHY: dict[tuple[str, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    ("apps", "Deployment"): ({"replicas": 3}, {**SEEN, **FULL}),
    ("apps", "ReplicaSet"): ({"replicas": 3}, {**SEEN, **FULL}),
    ("apps", "StatefulSet"): ({"replicas": 3}, {**SEEN, **FULL, "currentRevision": "r1", "updateRevision": "r2"}),
    ("apps", "DaemonSet"): ({}, {**SEEN, **NODES}),
    ("", "ReplicationController"): ({"replicas": 3}, {**SEEN, **FULL}),
    ("", "Pod"): ({}, {"phase": "Running", "conditions": [condition("Ready", "True")]}),
    ("batch", "Job"): ({}, {"succeeded": 1, "conditions": [condition("Complete", "True")]}),
    ("batch", "CronJob"): ({}, {}),
    ("", "PersistentVolumeClaim"): ({"volumeName": "v"}, {"phase": "Bound"}),
    ("", "PersistentVolume"): ({}, {"phase": "Available"}),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"): (
        {},
        {"readyToUse": True, "boundVolumeSnapshotContentName": "c"},
    ),
    ("", "Service"): ({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}, ADDRESS),
    ("networking.k8s.io", "Ingress"): ({}, ADDRESS),
    ("networking.k8s.io", "ServiceCIDR"): ({}, READY),
    ("autoscaling", "HorizontalPodAutoscaler"): ({}, {"conditions": [condition("AbleToScale", "True")]}),
    ("policy", "PodDisruptionBudget"): ({}, {**SEEN, "currentHealthy": 2, "desiredHealthy": 2}),
    ("", "Namespace"): ({}, {"phase": "Active"}),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        {},
        {"conditions": [condition("NamesAccepted", "True"), condition("Established", "True")]},
    ),
    ("apiregistration.k8s.io", "APIService"): ({}, {"conditions": [condition("Available", "True")]}),
    ("certificates.k8s.io", "CertificateSigningRequest"): (
        {},
        {"certificate": "Y2VydA==", "conditions": [condition("Approved", "True")]},
    ),
    ("helm.toolkit.fluxcd.io", "HelmRelease"): ({}, {**SEEN, **READY}),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): ({}, {**SEEN, **READY}),
    **{
        ("source.toolkit.fluxcd.io", kind): ({}, {**SEEN, **READY, "artifact": {"revision": "1"}})
        for kind in ("OCIRepository", "GitRepository", "Bucket", "HelmChart", "HelmRepository")
    },
    ("velero.io", "Backup"): ({}, {"phase": "Completed"}),
    ("velero.io", "Restore"): ({}, {"phase": "Completed"}),
    ("velero.io", "BackupStorageLocation"): ({}, {"phase": "Available"}),
    ("argoproj.io", "Workflow"): ({}, {"phase": "Succeeded"}),
    **{
        ("volsync.backube", kind): (
            {"trigger": {"manual": "u"}},
            {"lastManualSync": "u", "latestMoverStatus": {"result": "Successful"}},
        )
        for kind in ("ReplicationSource", "ReplicationDestination")
    },
}


def test_there_is_a_healthy_example_of_every_kind_in_the_table() -> None:
    assert HEALTHY.keys() == RULES.keys()


@pytest.mark.parametrize("kind", sorted(HEALTHY))
def test_a_healthy_object_is_ready_and_one_that_is_being_deleted_is_not(kind: tuple[str, str]) -> None:
    healthy = made(*kind, *HEALTHY[kind])
    leaving = {**healthy, "metadata": {**healthy["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert readiness(healthy).state is State.READY
    assert readiness(leaving) == Readiness(State.PROGRESSING, "Terminating", "it is being deleted")


@pytest.mark.parametrize("kind", sorted(HEALTHY))
def test_no_object_is_ready_by_what_was_said_of_an_older_generation(kind: tuple[str, str]) -> None:
    spec, status = HEALTHY[kind]
    older = made(*kind, spec, {**status, "observedGeneration": 1})

    assert readiness(older).state is State.PROGRESSING
    assert "generation 1" in readiness(older).message


def failing(generation: int, status: Mapping[str, Any]) -> Any:
    """A source of Flux at generation 1 that could not be fetched; `status` says what else stands there."""
    reason, message = "OCIArtifactPullFailed", "failed to pull artifact: MANIFEST_UNKNOWN"
    ready = condition("Ready", "False", reason, message, observedGeneration=generation)
    return made("source.toolkit.fluxcd.io", "OCIRepository", {}, {**status, "conditions": [ready]}, generation=1)


@pytest.mark.parametrize("observed", [-1, 0])
def test_a_condition_of_this_generation_says_more_than_what_the_controller_has_observed(observed: int) -> None:
    """PH-1: Flux leaves `observedGeneration` as it was, at first -1, while a source cannot be fetched."""
    failed = readiness(failing(1, {"observedGeneration": observed}))

    assert (failed.state, failed.reason) == (State.PROGRESSING, "OCIArtifactPullFailed")
    assert failed.message == "failed to pull artifact: MANIFEST_UNKNOWN"
    assert readiness(failing(0, {"observedGeneration": observed})).reason == "GenerationNotObserved"


@given(st.sampled_from(sorted(HEALTHY)), st.integers(-1, 3), st.data())
def test_a_condition_of_this_generation_never_makes_an_object_ready(
    kind: tuple[str, str], observed: int, data: st.DataObject
) -> None:
    """PH-1: whatever conditions say, an object whose generation was not observed is not ready."""
    statuses = st.sampled_from(["True", "False", "Unknown"])
    conditions = [
        condition(name, data.draw(statuses), "Any", observedGeneration=data.draw(st.integers(0, 3)))
        for name in ("Ready", "Stalled", "Reconciling")
    ]
    spec, status = HEALTHY[kind]
    manifest = made(*kind, spec, {**status, "observedGeneration": observed, "conditions": conditions}, generation=3)

    assert observed == 3 or readiness(manifest).state is not State.READY


def without(status: Any, path: tuple[str | int, ...]) -> Any:
    out = deepcopy(status)
    where = out
    for step in path[:-1]:
        where = where[step]
    del where[path[-1]]
    return out


def paths(value: Any, prefix: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [one for key, inner in items for one in ((*prefix, key), *paths(inner, (*prefix, key)))]


@given(st.sampled_from(sorted(HEALTHY)), st.data())
def test_what_is_taken_from_a_healthy_status_never_makes_a_failure_of_it(
    kind: tuple[str, str], data: st.DataObject
) -> None:
    """Monotone: a status is written field by field, and on the way to ready nothing looks like a failure."""
    spec, status = HEALTHY[kind]
    for _ in range(data.draw(st.integers(0, 6))):
        left = paths(status)
        status = without(status, data.draw(st.sampled_from(left))) if left else status

    assert readiness(made(*kind, spec, status)).state in (State.READY, State.PROGRESSING)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4) | st.sampled_from(["True", "False", "Ready"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "status", "phase", "conditions", "replicas", "trigger", "ingress", "state"])
            | st.text(max_size=2),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from([*sorted(HEALTHY), ("x.example", "Thing"), ("", "")]), JUNK, JUNK, JUNK)
def test_any_object_gets_an_answer(kind: tuple[str, str], meta: Any, spec: Any, status: Any) -> None:
    found = readiness({"apiVersion": kind[0], "kind": kind[1], "metadata": meta, "spec": spec, "status": status})

    assert isinstance(found.state, State)
    assert len(found.message) <= 2_048


@pytest.mark.parametrize(
    ("kind", "spec", "status", "state", "words"),
    [
        (("apps", "Deployment"), {"replicas": 3}, {}, "Progressing", "has not observed it"),
        (("apps", "Deployment"), {"replicas": 3}, {**SEEN}, "Progressing", "0 of 3 pods are of the newest template"),
        (("apps", "Deployment"), {"replicas": 0}, {**SEEN}, "Ready", ""),
        (("apps", "Deployment"), {"replicas": 3}, {**SEEN, **FULL, "replicas": 4}, "Progressing", "1 pods of before"),
        (
            ("apps", "Deployment"),
            {"replicas": 3},
            {**SEEN, **FULL, "availableReplicas": 2},
            "Progressing",
            "2 of 3 pods are available",
        ),
        (
            ("apps", "Deployment"),
            {},
            {**SEEN, "conditions": [condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out")]},
            "Failed",
            "timed out",
        ),
        (
            ("apps", "StatefulSet"),
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
            {**SEEN, **FULL, "updatedReplicas": 1, "currentRevision": "r1", "updateRevision": "r2"},
            "Ready",
            "",
        ),
        (
            ("apps", "StatefulSet"),
            {"replicas": 3},
            {**SEEN, **FULL, "updatedReplicas": 1, "currentRevision": "r1", "updateRevision": "r2"},
            "Progressing",
            "1 of 3 pods are of the newest revision",
        ),
        (("batch", "Job"), {}, {"active": 1}, "Progressing", "1 pods are active"),
        (("batch", "Job"), {}, {"conditions": [condition("FailureTarget", "True")]}, "Progressing", "no pod"),
        (
            ("batch", "Job"),
            {},
            {"conditions": [condition("Failed", "True", "BackoffLimitExceeded", "too often")]},
            "Failed",
            "too often",
        ),
        (
            ("", "Service"),
            {"type": "LoadBalancer", "clusterIP": "10.0.0.1"},
            {"loadBalancer": {}},
            "Progressing",
            "address",
        ),
        (("", "Service"), {"type": "ClusterIP"}, {"loadBalancer": {}}, "Ready", ""),
        (
            ("", "Pod"),
            {},
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"name": "web", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
                ],
            },
            "Progressing",
            "container web: no",
        ),
        (("", "PersistentVolumeClaim"), {}, {"phase": "Lost"}, "Failed", "gone"),
        (("velero.io", "Backup"), {}, {"phase": "NewInSomeVersion"}, "Progressing", "NewInSomeVersion"),
        (("velero.io", "Restore"), {}, {"phase": "PartiallyFailed"}, "Failed", "has failed"),
        (
            ("helm.toolkit.fluxcd.io", "HelmRelease"),
            {},
            {**SEEN, "conditions": [*READY["conditions"], condition("Reconciling", "True", "Progressing")]},
            "Ready",
            "",
        ),
        (("helm.toolkit.fluxcd.io", "HelmRelease"), {"suspend": True}, {**SEEN, **READY}, "Progressing", "suspended"),
        (("source.toolkit.fluxcd.io", "HelmRepository"), {"type": "oci"}, {}, "Ready", ""),
        (
            ("volsync.backube", "ReplicationSource"),
            {"trigger": {"manual": "new"}},
            {"lastManualSync": "old", "latestMoverStatus": {"result": "Successful"}},
            "Progressing",
            "no sync",
        ),
        (("x.example", "Thing"), {}, {"conditions": [condition("Stalled", "True", "Broken", "no")]}, "Failed", "no"),
        (
            ("x.example", "Thing"),
            {},
            {"conditions": [condition("Ready", "False", "Waiting", "soon")]},
            "Progressing",
            "soon",
        ),
        (("x.example", "Thing"), {}, {"conditions": [condition("Ready", "True")]}, "Ready", ""),
        (("", "ConfigMap"), {}, {}, "Ready", ""),
    ],
)
def test_an_answer_names_what_is_missing(
    kind: tuple[str, str], spec: Mapping[str, Any], status: Mapping[str, Any], state: str, words: str
) -> None:
    found = readiness(made(*kind, spec, status))

    assert (found.state.value, words in found.message) == (state, True), found


def test_a_kind_whose_schema_has_a_status_and_that_has_none_yet_is_progressing() -> None:
    schema = compile_schema({"type": "object", "properties": {"status": {"type": "object"}}})
    fresh = {"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {"name": "a", "generation": 1}}

    assert readiness(fresh, schema).reason == "NoStatus"
    assert readiness(fresh).reason == "Exists"
    assert readiness(None).reason == "NotFound"
