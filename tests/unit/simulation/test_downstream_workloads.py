"""What the simulated controllers of workloads leave, and what readiness says to it on the way (PH-1, RUN-9)."""

from typing import Any

import pytest

from kubelab.downstream import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from kubelab.downstream.kinds import HORIZONTAL_POD_AUTOSCALER
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import DAEMON_SET, DEPLOYMENT, INGRESS, SERVICE, STATEFUL_SET
from purekube.readiness import State, readiness
from tests.support.downstream_world import NS, DownstreamWorld, conditions

LABELS = {"app": "web"}


def template(image: str = "web:1") -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "web", "image": image}]}}


def workload(kind: Kind, **spec: Any) -> dict[str, Any]:
    whole = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return {**kind.manifest("web", NS), "spec": whole}


def started(kind: Kind, *rules: DownstreamRule, **spec: Any) -> DownstreamWorld:
    world = DownstreamWorld(names=("workloads",))
    world.prepare()
    world.behave(DownstreamBehaviour(rules))
    world.create(workload(kind, **spec), kind)
    return world


def change(world: DownstreamWorld, kind: Kind, **spec: Any) -> None:
    world.patch(kind, "web", {"spec": spec})


def state(world: DownstreamWorld, kind: Kind) -> tuple[State, str]:
    found = readiness(world.get(kind, "web"))
    return found.state, found.message


@pytest.mark.parametrize(
    ("kind", "spec"),
    [(DEPLOYMENT, {"replicas": 3}), (STATEFUL_SET, {"replicas": 3, "serviceName": "web"}), (DAEMON_SET, {})],
)
def test_a_workload_is_ready_after_a_pod_at_a_time_and_again_after_an_update(kind: Kind, spec: dict[str, Any]) -> None:
    world = started(kind, **spec)
    assert state(world, kind) == (State.PROGRESSING, "its controller has not observed it yet")
    world.run(1.5)
    assert state(world, kind)[0] is State.PROGRESSING
    world.settle()
    assert state(world, kind)[0] is State.READY

    change(world, kind, template=template("web:2"))
    assert state(world, kind)[0] is State.PROGRESSING
    assert "generation 1" in state(world, kind)[1]
    world.run(1.5)
    assert state(world, kind)[0] is State.PROGRESSING
    world.settle()
    assert state(world, kind)[0] is State.READY


def test_counts_are_left_out_where_they_are_zero() -> None:
    world = started(DEPLOYMENT, replicas=2)
    world.run(0.2)

    assert {"readyReplicas", "availableReplicas"}.isdisjoint(world.status(DEPLOYMENT, "web"))
    assert world.status(DEPLOYMENT, "web")["unavailableReplicas"] == 1


def test_a_rollout_keeps_the_pods_of_before_until_the_new_ones_are_ready() -> None:
    world = started(DEPLOYMENT, replicas=3)
    world.settle()
    change(world, DEPLOYMENT, template=template("web:2"))
    world.run(0.5)

    status = world.status(DEPLOYMENT, "web")
    assert (status["updatedReplicas"], status["replicas"], status["availableReplicas"]) == (1, 4, 3)


def test_a_deployment_without_progress_says_so_after_its_deadline_and_goes_on_when_it_can() -> None:
    broken = DownstreamRule(DownstreamOutcome(Ending.STALL, "no image"), DEPLOYMENT.kind)
    world = started(DEPLOYMENT, broken, replicas=2, progressDeadlineSeconds=30)
    world.run(25)
    assert state(world, DEPLOYMENT)[0] is State.PROGRESSING
    world.run(10)
    assert state(world, DEPLOYMENT)[0] is State.FAILED
    assert "has timed out progressing" in state(world, DEPLOYMENT)[1]

    world.behave(DownstreamBehaviour())
    world.settle()
    assert state(world, DEPLOYMENT)[0] is State.READY


@pytest.mark.parametrize(
    ("strategy", "ready"),
    [
        ({}, 3),
        ({"rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}}, 2),
        ({"rollingUpdate": {"maxUnavailable": "10%", "maxSurge": "0%"}}, 3),
        ({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}, 4),
        ({"type": "Recreate"}, 4),
    ],
)
def test_a_deployment_is_available_without_the_pods_that_an_update_may_take(
    strategy: dict[str, Any], ready: int
) -> None:
    world = started(DEPLOYMENT, replicas=4, strategy=strategy)
    counts = set()
    for _ in range(12):
        world.run(0.5)
        status = world.status(DEPLOYMENT, "web")
        if conditions(status).get("Available") == "True/MinimumReplicasAvailable":
            counts.add(status["availableReplicas"])
    assert counts == set(range(ready, 5))


def test_an_autoscaler_names_the_missing_target_as_the_api_server_does() -> None:
    world = DownstreamWorld(names=("workloads",))
    world.prepare()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3}
    autoscaler = {**HORIZONTAL_POD_AUTOSCALER.manifest("web", NS), "spec": spec}
    world.create(autoscaler, HORIZONTAL_POD_AUTOSCALER)
    world.settle()
    found = world.status(HORIZONTAL_POD_AUTOSCALER, "web")["conditions"]
    message = 'the HPA controller was unable to get the target\'s current scale: deployments.apps "web" not found'
    assert [(item["type"], item["message"]) for item in found] == [("AbleToScale", message)]


def test_scaling_makes_only_the_pods_that_are_missing() -> None:
    world = started(DEPLOYMENT, replicas=2)
    world.settle()
    change(world, DEPLOYMENT, replicas=3)
    world.run(0.5)
    assert world.status(DEPLOYMENT, "web")["readyReplicas"] == 2
    world.settle()
    assert world.status(DEPLOYMENT, "web")["readyReplicas"] == 3

    change(world, DEPLOYMENT, replicas=0)
    world.settle()
    assert "readyReplicas" not in world.status(DEPLOYMENT, "web")
    assert state(world, DEPLOYMENT)[0] is State.READY


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (SERVICE, {"type": "LoadBalancer", "ports": [{"port": 80}]}),
        (INGRESS, {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}),
    ],
)
def test_an_address_comes_later_and_stays(kind: Kind, spec: dict[str, Any]) -> None:
    world = DownstreamWorld(names=("workloads",))
    world.prepare()
    world.create({**kind.manifest("web", NS), "spec": spec}, kind)
    assert state(world, kind)[0] is State.PROGRESSING
    world.settle()
    first = world.status(kind, "web")

    assert state(world, kind) == (State.READY, f"reached at {first['loadBalancer']['ingress'][0]['ip']}")
    world.run(60)
    assert world.status(kind, "web") == first


def test_a_service_that_is_no_load_balancer_gets_no_address() -> None:
    world = DownstreamWorld(names=("workloads",))
    world.prepare()
    world.create({**SERVICE.manifest("web", NS), "spec": {"ports": [{"port": 80}]}}, SERVICE)
    world.run(60)

    assert world.status(SERVICE, "web") == {"loadBalancer": {}}
