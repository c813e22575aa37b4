"""Laws of the engine on random graphs and worlds (PH-1 to PH-3): L2 to L4, L7 to L11, L14.

Each story is carried out by the kernel against the in-memory API server. After every deed there is a pass, and at each
write of it the laws are asked (`graph_witness`); then the faults stop, and the end is compared with a quiet run.
"""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.ownership import UNRECORDED
from purekube.graph.node import ApplyPolicy, Until
from purekube_run.simulation.faults import Crash
from tests.support.graph_strategies import DEEDS, IDS, Deed, graphs
from tests.support.graph_witness import Witness
from tests.support.graph_world import CHILDREN, EXTRA, MARKS, NS, GraphWorld, NodeSpec, content


def act(world: GraphWorld, witness: Witness, deed: Deed) -> None:
    """Do it."""
    refs = sorted(world.objects)
    ref = refs[deed.at % len(refs)] if refs else None
    match deed.what:
        case "size":
            world.change(size=deed.at)
        case "without" | "closed":
            world.change(**{deed.what: deed.how})
        case "fault" | "items":
            world.change(**{deed.what: {name: deed.how.get(name) for name in IDS}})
        case "heal":
            world.heal()
        case "refuse":
            witness.refused = (IDS[deed.at], *deed.how.split("/"))
        case "relent":
            witness.refused = ("", "", "")
        case "missing":
            toggle_extra(world)
        case "drop":
            drop(world)
        case "crash":
            witness.kill_at = deed.at
        case "say" if ref is not None and ref.kind != CONFIG_MAP:
            world.say(ref, deed.how)
        case "delete" | "strip" | "hold" | "unlabel" if ref is not None:
            meddle(world, ref, deed.what)


def meddle(world: GraphWorld, ref: ObjectRef, what: str) -> None:
    """Somebody has his hands on an object."""
    meta = metadata(world.objects[ref])
    match what:
        case "delete":
            world.delete(ref)
        case "strip":
            world.patch(ref, {"data" if ref.kind == CONFIG_MAP else "spec": {"size": None}})
        case "unlabel":
            world.patch(ref, {"metadata": {"labels": {MARKS.owner_uid: None, MARKS.node: None}}})
        case "hold":
            ours = [name for name in meta.get("finalizers", ()) if name == UNRECORDED]
            held = "tests.example/busy" in meta.get("finalizers", ())
            if held or not meta.get("deletionTimestamp"):
                world.hold(ref, *ours, *(() if held else ("tests.example/busy",)))


def toggle_extra(world: GraphWorld) -> None:
    """The definition of a kind goes with all its objects, or comes back."""
    if EXTRA in world.missing:
        world.missing.clear()
        return
    for ref in [ref for ref in world.objects if ref.kind == EXTRA]:
        world.hold(ref)
        if ref in world.objects and not metadata(world.objects[ref]).get("deletionTimestamp"):
            world.delete(ref)
    world.missing.add(EXTRA)


def drop(world: GraphWorld) -> None:
    """The file changes: a node that nobody refers to goes."""
    nodes = world.decide.nodes
    needed = {to for spec in nodes for to, _ in spec.edges}
    free = next((spec.id for spec in nodes if spec.id not in needed), None)
    if free is not None and len(nodes) > 1:
        world.decide.nodes = [spec for spec in nodes if spec.id != free]


def played(nodes: Sequence[NodeSpec], deeds: Sequence[Deed]) -> tuple[GraphWorld, Witness]:
    """The world after the story, with a pass after every deed."""
    world = GraphWorld.of(*nodes, items={"a": ["x"], "b": ["x", "y"], "c": []})
    witness = Witness(world)
    world.refuse(witness)
    for deed in deeds:
        act(world, witness, deed)
        try:
            result = world.run()
        except Crash:
            continue
        assert result is not None
        if result.error is None:
            named(world)
    return world, witness


def named(world: GraphWorld) -> None:
    """L14, and kstatus: what is not ready is moving or stuck, and the message begins with an obstacle's own name."""
    last, conditions = world.decide.plans[-1], world.shop.conditions
    if last.effects.writes_downstream:
        return  # it had no more rounds: another pass follows
    ready = conditions["Ready"].status == "True"
    assert ready == last.is_ready
    if not ready:
        assert "True" in (conditions["Reconciling"].status, conditions["Stalled"].status)
        obstacles = [
            observation.name
            for observation in last.everything
            if not observation.is_ready and not observation.waits_for
        ]
        assert any(conditions["Ready"].message.startswith(f"{name}: ") for name in obstacles), "L14"


def calm(world: GraphWorld, witness: Witness) -> None:
    """All faults stop."""
    witness.refused, witness.kill_at = ("", "", ""), 0
    world.missing.clear()
    for ref, live in world.objects.items():
        finalizers = metadata(live).get("finalizers", ())
        if "tests.example/busy" in finalizers:
            world.hold(ref, *(name for name in finalizers if name == UNRECORDED))


@pytest.mark.slow
@given(graphs(plain=True), st.lists(DEEDS.filter(lambda deed: deed.what != "unlabel"), max_size=10))
def test_graph_any_story_ends_where_a_quiet_one_does(nodes: Sequence[NodeSpec], deeds: Sequence[Deed]) -> None:
    """L3: state(history) = state(direct); L2: settled, nothing is written; L4, L7, L8, L10, L14 on the way.

    Without people who take the label off what is not wanted: that is not ours to delete any more.
    """
    world, witness = played(nodes, deeds)
    calm(world, witness)
    world.change(fault=dict.fromkeys(IDS), closed=[])
    world.settle()

    quiet = GraphWorld.of(*world.decide.nodes, **world.shop.manifest["spec"])
    quiet.settle()
    assert {ref: content(live) for ref, live in world.objects.items()} == {
        ref: content(live) for ref, live in quiet.objects.items()
    }
    assert world.condition("Ready") == quiet.condition("Ready") == "True ResourcesReady"


@pytest.mark.slow
@given(graphs(), st.lists(DEEDS, max_size=8), st.integers(0, 12), st.booleans())
def test_graph_everything_goes_from_wherever_it_stands(
    nodes: Sequence[NodeSpec], deeds: Sequence[Deed], kill_at: int, compiles: bool
) -> None:
    """L11: in descending waves, through crashes, also where the file cannot be read any more."""
    world, witness = played(nodes, deeds)
    witness.kill_at = 0
    world.run()
    world.delete_shop()
    if not compiles:
        world.decide.nodes = ()
    for _ in range(2):
        witness.kill_at = kill_at
        try:
            world.run()
        except Crash:
            continue
    calm(world, witness)
    unlabelled = {
        ref for ref, live in world.objects.items() if get_path(live, "metadata", "labels", MARKS.owner_uid) is None
    }
    world.settle()

    assert world.is_gone
    assert set(world.objects) <= {ref for ref in unlabelled if ref.kind in CHILDREN and ref.namespace == NS}


@pytest.mark.slow
@given(graphs(), st.lists(DEEDS, max_size=10))
@example(
    (NodeSpec("a", listed=True), NodeSpec("b", (("a", Until.APPLIED),), listed=True)),
    [Deed("size", 1), Deed("fault", how={"b": "gate/MISSING"}), Deed("without", how=["a"])],
)  # what depends on what is not wanted goes with it, whatever its gate asks
def test_graph_what_is_created_once_is_created_once(nodes: Sequence[NodeSpec], deeds: Sequence[Deed]) -> None:
    """L20, through crashes between any two calls, refusals and deletions by hand."""
    world, witness = played(nodes, deeds)
    calm(world, witness)
    world.settle()

    once = {spec.id for spec in nodes if spec.policy is ApplyPolicy.ONCE}
    created = [ref for verb, ref in world.face.writes if verb == "create" and ref.name.partition("-")[0] in once]
    assert len(created) == len(set(created))
