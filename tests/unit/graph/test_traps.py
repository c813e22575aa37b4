"""The traps of other graph engines, one by one: what each of them met, ours does not (PH-1 to PH-3)."""

from tests.support.graph_world import NS, PART, GraphWorld, NodeSpec
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.graph import Until


def chain(*ids: str, until: Until = Until.READY) -> list[NodeSpec]:
    """Each node waits for the one before."""
    return [NodeSpec(one, ((before, until),) if before else ()) for before, one in zip(("", *ids), ids, strict=False)]


def part(name: str) -> ObjectRef:
    """A child."""
    return ObjectRef(PART, NS, name)


def test_the_status_blames_the_obstacle_and_not_what_waits_behind_it() -> None:
    """Trap 4 (L14): the sentence names the stuck object, and who waits for it."""
    world = GraphWorld.of(*chain("a", "b", "c"))
    world.settle(but=lambda ref: ref.name == "b")

    assert world.condition("Ready") == "False ResourceNotReady"
    assert world.message() == ("Part team/b: its controller has not written a status yet; waiting behind it: c")
