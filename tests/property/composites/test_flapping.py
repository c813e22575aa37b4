"""A child that flaps costs its parent a bounded number of writes, and the status comes to say how it stands (PH-6)."""

from datetime import timedelta
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import DEPLOYMENT
from purekube.ports import PatchType
from tests.support.box_world import PureWorld
from tests.support.boxes import box_of, deployment
from tests.support.composite_world import NS
from tests.support.effort import effort

BOX = box_of(deployment("web", spec={"replicas": 1}))
WEB = ObjectRef(DEPLOYMENT, NS, "web")
DELAYS = st.lists(st.floats(0.1, 4.0).map(lambda seconds: round(seconds, 1)), min_size=2, max_size=40)


def flip(world: PureWorld, ready: bool) -> None:
    """The Deployment's controller says how its one pod is."""
    status: dict[str, Any] = {"readyReplicas": 1 if ready else None, "availableReplicas": 1 if ready else None}
    patch = {"status": {**status, "unavailableReplicas": None if ready else 1}}
    run_sync(world.admin.patch(WEB, patch, patch_type=PatchType.MERGE, field_manager="kubelet", subresource="status"))


@settings(max_examples=effort(0.3))
@given(DELAYS, st.booleans())
@example([1.0] * 40, False)
@example([0.1, 0.1], True)
def test_a_child_that_flaps_costs_no_write_each_time(delays: list[float], ends_ready: bool) -> None:
    world = PureWorld(BOX, {"image": "r/x:1", "parts": []})
    world.settle()
    world.now += timedelta(seconds=60)
    begin, writes, ready = world.now, len(world.statuses), True
    for delay in delays:
        ready = not ready
        flip(world, ready)
        world.reconcile()
        world.now += timedelta(seconds=delay)
    flip(world, ends_ready)
    result = world.reconcile()
    while result is not None and result.requeue.after is not None and result.requeue.after < 60:
        world.now += timedelta(seconds=result.requeue.after)
        result = world.reconcile()

    seconds = (world.now - begin).total_seconds()
    assert len(world.statuses) - writes <= 2 + 2 * seconds / 10
    assert (world.condition()["status"] == "True") is ends_ready
