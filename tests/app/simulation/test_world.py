"""One world in one thread under virtual time: production's replicas on the embedded servers (SIM-1, SIM-3)."""

import os
import subprocess
import sys
import time
from datetime import timedelta

import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE, LEASE
from vworkspace_app.simulation.operator_world import CLUSTER_ID, NAMESPACES, SimulatedWorld, WorldSettings
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

SPACE = NAMESPACES[0]


def instance(name: str, version: str = "1.0.0") -> Manifest:
    marks = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.CLUSTER_ID: CLUSTER_ID}
    chart = {"sourceType": "oci", "url": "oci://r.example.test/charts", "name": "nextcloud", "version": version}
    return {
        **APPLICATION_INSTANCE.manifest(name, SPACE),
        "metadata": {"name": name, "namespace": SPACE, "labels": marks},
        "spec": {
            "appRef": {"catalogId": "nextcloud"},
            "chart": chart,
            "release": {"name": name, "namespace": SPACE},
        },
    }


def ref(name: str) -> ObjectRef:
    return ObjectRef(APPLICATION_INSTANCE, SPACE, name)


def ready_of(world: SimulatedWorld, name: str) -> str:
    conditions = get_path(world.get(ref(name)), "status", "conditions") or ()
    return next((each["status"] for each in conditions if each["type"] == "Ready"), "")


def lives(seed: int, *, count: int = 5, replicas: int = 1, pace: float = 600, rest: float = 2400) -> str:
    """Install instances, upgrade some, delete the others; return the digest of everything."""
    names = [f"app-{number}" for number in range(count)]
    kept, left = names[: count // 2 + 1], names[count // 2 + 1 :]
    with SimulatedWorld(WorldSettings(seed=seed, replicas=replicas)) as world:
        world.run(30)
        for name in names:
            world.create(instance(name), APPLICATION_INSTANCE)
        world.run(pace)
        assert [ready_of(world, name) for name in names] == ["True"] * count
        for name in kept:
            world.change(ref(name), {"spec": {"chart": {"version": "2.0.0"}}})
        world.run(pace)
        assert {get_path(world.get(ref(name)), "status", "deployedChart", "version") for name in kept} == {"2.0.0"}
        for name in left:
            world.delete(ref(name))
        world.run(rest)
        assert [bool(world.get(ref(name))) for name in names] == [name in kept for name in names]
        assert len(world.objects(HELM_RELEASE)) == len(kept)
        return world.digest()


@pytest.mark.slow
def test_an_hour_passes_without_waiting_and_five_instances_live_through_it() -> None:
    """SIM-1: installed, upgraded and deleted by the production manager, and no thread or socket takes real time."""
    began = time.monotonic()
    assert lives(1)
    assert time.monotonic() - began < 3600


def test_a_run_is_a_function_of_its_seed() -> None:
    """SIM-3: equal seeds, equal bytes; another seed, another course."""
    first, again, other = (lives(seed, count=2, replicas=2, pace=60, rest=30) for seed in (2, 2, 3))
    assert first == again != other


@pytest.mark.slow
def test_another_process_with_another_hash_seed_has_the_same_run() -> None:
    """SIM-3."""
    program = "from tests.app.simulation.test_world import lives; print(lives(2, replicas=2, rest=60))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(digests) == 1
    assert digests == {lives(2, replicas=2, rest=60) + "\n"}


@pytest.mark.slow
def test_a_standby_takes_over_from_a_leader_that_was_killed() -> None:
    """SIM-1, RUN-4: two replicas, one Lease."""
    with SimulatedWorld(WorldSettings(seed=4, replicas=2)) as world:
        world.run(30)
        leader = next(replica for replica in world.replicas if replica.is_running and _leads(world, replica.name))
        leader.kill("the test")
        world.create(instance("app"), APPLICATION_INSTANCE)
        world.run(120)
        assert ready_of(world, "app") == "True"
        assert not _leads(world, leader.name)


def _leads(world: SimulatedWorld, name: str) -> bool:
    lease = ObjectRef(LEASE, "vworkspace-system", "vworkspace-operator")
    return str(get_path(world.get(lease), "spec", "holderIdentity")).startswith(name)


def test_time_passes_to_a_simulated_controller_that_is_due_within_a_microsecond() -> None:
    """SIM-1: its time is rounded to microseconds, so it may lie nearer than the shortest timer."""
    with SimulatedWorld(WorldSettings()) as world:
        world.run(1580.7688965)
        world.controllers._due = world.loop.start + timedelta(seconds=1580.768897)
        assert world.controllers.plan(world.loop)
        assert not world.controllers.plan(world.loop)
