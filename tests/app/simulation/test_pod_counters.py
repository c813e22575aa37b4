"""The simulated statuses of disruption budgets and autoscalers, by the workloads whose pods they are about."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.readiness import State, readiness
from purekube_kit import FakeCluster

LABELS = {"app": "web"}


def deployment(name: str = "web", replicas: int = 3, labels: dict[str, str] = LABELS) -> dict[str, Any]:
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def budget(**spec: Any) -> dict[str, Any]:
    whole = {"selector": {"matchLabels": LABELS}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": whole}


def autoscaler() -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"maxReplicas": 5, "scaleTargetRef": target}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": spec,
    }


@pytest.mark.slow
@given(st.integers(1, 9), st.integers(0, 100), st.booleans())
def test_a_budget_counts_the_pods_that_it_selects(replicas: int, percent: int, least: bool) -> None:
    word = "minAvailable" if least else "maxUnavailable"
    part = math.ceil(replicas * percent / 100)
    with FakeCluster() as cluster:
        cluster.create(budget(**{word: f"{percent}%"}))
        cluster.create(deployment(replicas=replicas))
        cluster.create(deployment("other", 7, {"app": "other"}))
        cluster.after(60)
        status = cluster.get("poddisruptionbudgets", "web")["status"]
    desired = part if least else replicas - part
    assert (status["expectedPods"], status["currentHealthy"]) == (replicas, replicas)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, replicas - desired)


def test_a_budget_is_ready_as_soon_as_its_pods_are() -> None:
    with FakeCluster() as cluster:
        made = cluster.create(budget(minAvailable=2))
        cluster.after(1)
        assert readiness(cluster.get(made)).state is State.PROGRESSING
        cluster.create(deployment())
        cluster.after(60)
        assert readiness(cluster.get(made)).state is State.READY


@pytest.mark.parametrize("first", ["autoscaler", "deployment"])
def test_an_autoscaler_is_ready_once_it_finds_its_target(first: str) -> None:
    with FakeCluster() as cluster:
        if first == "deployment":
            cluster.create(deployment())
        made = cluster.create(autoscaler())
        cluster.after(1)
        if first == "autoscaler":
            assert readiness(cluster.get(made)).state is State.PROGRESSING
            cluster.create(deployment())
        cluster.after(5)
        live = cluster.get(made)
        assert readiness(live).state is State.READY
        assert (live["status"]["currentReplicas"], live["status"]["desiredReplicas"]) == (3, 3)
        before = cluster.get(made)["metadata"]["resourceVersion"]
        cluster.after(3600)
        assert cluster.get(made)["metadata"]["resourceVersion"] == before
