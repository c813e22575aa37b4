"""Autoscalers, quotas, limits and classes, as kube-apiserver 1.36.3 answered the same bodies on 2026-11-28."""

from typing import Any

import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest
from tests.support.simulation import START

BY_PERCENT = {"periodSeconds": 15, "type": "Percent", "value": 100}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}


def created(api_version: str, kind: str, **fields: Any) -> Manifest:
    """An object as the server stores it."""
    server = ApiServer(now=lambda: START)
    resource = server.registry.of_kind(api_version, kind)
    assert resource is not None
    place = {"namespace": "default"} if resource.namespaced else {}
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **place}, **fields}
    api = InProcessKube(server)
    return run_sync(api.apply(body, kind=resource.core_kind, field_manager="kubectl"))


def autoscaler(**spec: Any) -> Manifest:
    whole = {"maxReplicas": 3, "scaleTargetRef": TARGET, **spec}
    return created("autoscaling/v2", "HorizontalPodAutoscaler", spec=whole)


def test_an_autoscaler_gets_a_metric_and_a_least_size() -> None:
    made = autoscaler()
    cpu = {"name": "cpu", "target": {"averageUtilization": 80, "type": "Utilization"}}
    assert made["spec"] == {
        "maxReplicas": 3,
        "metrics": [{"resource": cpu, "type": "Resource"}],
        "minReplicas": 1,
        "scaleTargetRef": TARGET,
    }
    assert made["status"] == {"desiredReplicas": 0}
    assert "generation" not in made["metadata"]
    (entry,) = made["metadata"]["managedFields"]
    named: dict[str, Any] = {"f:apiVersion": {}, "f:kind": {}, "f:name": {}}
    assert entry["fieldsV1"] == {"f:spec": {"f:maxReplicas": {}, "f:scaleTargetRef": named}}


def test_a_behaviour_is_completed_both_ways() -> None:
    assert autoscaler(behavior={"scaleDown": {}})["spec"]["behavior"] == {
        "scaleDown": {"policies": [BY_PERCENT], "selectPolicy": "Max"},
        "scaleUp": {
            "policies": [{"periodSeconds": 15, "type": "Pods", "value": 4}, BY_PERCENT],
            "selectPolicy": "Max",
            "stabilizationWindowSeconds": 0,
        },
    }


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"maxReplicas": 0}, "must be set and greater than 0"),
        ({"minReplicas": 4}, "must be greater than or equal to `min"),
    ],
)
def test_sizes_that_cannot_be_are_refused(spec: dict[str, int], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        autoscaler(**spec)


def test_a_limit_is_the_default_request() -> None:
    limit = {"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "2"}}
    made = created("v1", "LimitRange", spec={"limits": [limit]})
    assert made["spec"]["limits"] == [{**limit, "defaultRequest": {"cpu": "500m"}}]


def test_quotas_and_classes_are_stored() -> None:
    assert created("v1", "ResourceQuota", spec={"hard": {"pods": "5"}})["spec"] == {"hard": {"pods": "5"}}
    priority = created("scheduling.k8s.io/v1", "PriorityClass", value=5)
    assert (priority["preemptionPolicy"], priority["metadata"]["generation"]) == ("PreemptLowerPriority", 1)
    ingress = created("networking.k8s.io/v1", "IngressClass", spec={"controller": "example.com/c"})
    assert ingress["metadata"]["generation"] == 1


def test_a_replica_set_is_one_pod_by_default() -> None:
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    made = created("apps/v1", "ReplicaSet", spec={"selector": {"matchLabels": {"a": "b"}}, "template": pods})
    assert (made["spec"]["replicas"], made["status"]) == (1, {"replicas": 0})


def test_a_kind_without_a_schema_is_stored_as_it_is_written() -> None:
    made = created("node.k8s.io/v1", "RuntimeClass", handler="fast", scheduling={"nodeSelector": {"a": "b"}})
    assert (made["handler"], made["scheduling"]) == ("fast", {"nodeSelector": {"a": "b"}})
