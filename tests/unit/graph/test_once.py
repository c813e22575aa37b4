"""What is created once is created once, whenever the process dies (OPS-1's protocol; L20)."""

from contextlib import suppress

import pytest

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.controller.ownership import UNRECORDED
from purekube.graph.node import ApplyPolicy, Until
from purekube.graph.owner import CreateRecord
from purekube.ports import KubeRequest, KubeVerb, Send
from purekube_run.simulation.faults import Crash
from tests.support.graph_witness import Witness
from tests.support.graph_world import NS, PART, GraphWorld, NodeSpec

JOB = ObjectRef(PART, NS, "job")
NODES = (NodeSpec("job", policy=ApplyPolicy.ONCE), NodeSpec("web", (("job", Until.APPLIED),)))


def creations(world: GraphWorld) -> int:
    """How often the object came into being."""
    return sum(1 for verb, ref in world.face.writes if (verb, ref) == ("create", JOB))


def test_intent_create_uid_and_only_then_may_it_go() -> None:
    world = GraphWorld.of(*NODES)
    world.refuse(lambda verb, ref: None)
    world.run()
    assert world.shop.records == (CreateRecord("job", "job", NS),)
    assert world.objects == {}

    world.run()
    uid = metadata(world.objects[JOB])["uid"]
    assert world.shop.records == (CreateRecord("job", "job", NS, uid=uid),)
    assert get_path(world.objects[JOB], "metadata", "finalizers") == [UNRECORDED]

    world.settle()
    assert get_path(world.objects[JOB], "metadata", "finalizers") is None
    world.delete(JOB)
    world.settle()
    assert JOB not in world.objects
    assert creations(world) == 1
    assert world.condition("Ready") == "True ResourcesReady"


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [False, True], ids=["left alone", "deleted at once by others"])
@pytest.mark.parametrize("kill_at", range(1, 14))
def test_the_process_may_die_at_any_call(kill_at: int, deleted: bool) -> None:
    """L20: before each call, which is after the one before."""
    world = GraphWorld.of(*NODES)
    witness = Witness(world)
    face = world.refuse(witness)
    witness.kill_at = kill_at
    for _ in range(6):
        with suppress(Crash):
            world.run()
        if deleted and JOB in world.objects and not metadata(world.objects[JOB]).get("deletionTimestamp"):
            world.delete(JOB)
    witness.kill_at = 0
    world.settle()

    assert creations(world) == 1
    assert face.writes
    assert (JOB in world.objects) is not deleted
    assert world.shop.records[0].uid


def test_an_answer_that_is_lost_is_no_second_create() -> None:
    world = GraphWorld.of(*NODES)
    world.run()
    lost = [Unavailable("no answer")]

    async def lossy(request: KubeRequest, proceed: Send) -> Manifest:
        answer = await proceed(request)
        if request.verb is KubeVerb.CREATE and lost:
            raise lost.pop()
        return answer

    world.face = world.refuse(lambda verb, ref: None).through(lossy)
    world.run()
    assert not lost
    world.settle()

    assert creations(world) == 1
    assert world.shop.records[0].uid == metadata(world.objects[JOB])["uid"]


def test_the_name_is_the_one_that_was_written_down() -> None:
    """Between intent and create the owner may change: the first name stays, and is never wanted under another."""
    world = GraphWorld.of(NodeSpec("job", policy=ApplyPolicy.ONCE), suffix="-first")
    world.run()
    world.change(suffix="-later")
    world.settle()

    assert [obj.name for obj in world.objects] == ["job-first"]
    assert world.condition("Ready") == "True ResourcesReady"


def test_a_name_that_is_none_is_told_before_it_is_written_down() -> None:
    world = GraphWorld.of(NodeSpec("job", policy=ApplyPolicy.ONCE, listed=True), items={"job": ["No!"]})
    world.run()

    assert world.shop.records == ()
    assert "'job-No!' is no name of an object" in world.message()


def test_what_is_locked_goes_with_its_owner() -> None:
    """L11: before its uid is recorded too."""
    world = GraphWorld.of(*NODES)
    world.run()
    witness = Witness(world)
    world.refuse(witness)
    witness.kill_at = 4
    with pytest.raises(Crash):
        world.run()
    assert get_path(world.objects[JOB], "metadata", "finalizers") == [UNRECORDED]
    world.relent()
    world.delete_shop()
    world.settle()

    assert (world.is_gone, world.objects) == (True, {})
