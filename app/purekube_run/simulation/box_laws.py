"""Laws that every box keeps, tried on objects drawn from the schema of its CRD, without and with faults (PH-2, PH-3).

Equal seeds give equal trials, so that a failed one can be repeated.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Final

import attrs

from kubelab.clock import START
from kubelab.downstream.behaviour import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from purekube.apimachinery.errors import Invalid, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.boxes.box import Box
from purekube.boxes.labels import MARKS
from purekube.boxes.model import ApplyMode, OnDelete
from purekube.boxes.schemas import CrdVersions
from purekube.composites.parent import STANDARD
from purekube.schema.node import JsonType, Schema
from purekube_run.examples.data_source import Seeded
from purekube_run.examples.examples import Examples, NoExample
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.box_world import BoxWorld, create_externals, install_box, simulated_for
from purekube_run.simulation.cluster import MemoryCluster, condition_of, ready_of
from purekube_run.simulation.faults import at_random, away, calm
from purekube_run.simulation.stable_parts import stable_parts_of
from purekube_run.simulation.world import WorldHotLoop

FAULTS: Final = (
    "no answer",
    "an answer that is lost",
    "an older copy",
    "killed before a write",
    "killed after a write",
    "a child deleted by hand",
    "a field of ours removed by hand",
    "pods that do not start for a while",
    "an API server that is away",
)
"""The faults in the second world of each trial."""

_NAMESPACE: Final = "examples"
_TRIES: Final = 30
_OFTEN: Final = 0.15
_TROUBLED_SECONDS: Final = 60.0
_CHANGES: Final = 2
"""The number of changes of a condition between creation and Ready that is allowed if every child becomes ready."""


@attrs.frozen
class Broken:
    """A broken law: the object, and what happened. `number` and the seed reproduce it."""

    law: str
    number: int
    example: Manifest
    told: str
    timeline: tuple[str, ...]


class BrokenLaw(Exception):
    """The error that a law is broken: what was observed, and what happened before."""

    def __init__(self, law: str, told: str, world: MemoryCluster) -> None:
        super().__init__(law)
        self.law, self.told, self.timeline = law, told, tuple(world.timeline)


def try_example(box: Box, definitions: Sequence[Manifest], number: int, seed: int) -> Broken | None:
    """Run one trial; return the broken law, if any."""
    random = Random(f"{seed}/{number}")
    example = _example(box, definitions, random)
    try:
        hold_laws(box, definitions, example, random)
    except BrokenLaw as broken:
        return Broken(broken.law, number, example, broken.told, broken.timeline)
    return None


def _example(box: Box, definitions: Sequence[Manifest], random: Random) -> Manifest:
    """Return an object that the API server admits, which also checks CEL rules. Raises CommandError."""
    examples = Examples(_schema(box), Seeded(random))
    cluster, refused = MemoryCluster(lambda: START, **simulated_for(box)), ""
    install_box(cluster, box, definitions)
    for number in range(_TRIES):
        meta = {"name": f"example-{number}", **({"namespace": _NAMESPACE} if box.kind.namespaced else {})}
        try:
            manifest = examples.object_of(box.kind, meta)
            cluster.create(manifest, box.kind)
        except NoExample as error:
            refused = str(error)
        except Invalid as error:
            refused = error.message
        else:
            return manifest
    raise CommandError(f"no example of {box.kind.kind} is admitted after {_TRIES} tries: {refused}")


def _schema(box: Box) -> Schema:
    known = CrdVersions.of(box.crd).stored.schema if box.crd else None
    return Schema(type=JsonType.OBJECT) if known is None else known


def hold_laws(box: Box, definitions: Sequence[Manifest], example: Manifest, random: Random) -> None:
    """Check all laws on one object; `random` decides which faults occur. Raises BrokenLaw."""
    with _world(box, definitions) as straight, _world(box, definitions) as troubled:
        ref = _given(straight, example)
        _settled(straight, ref)
        _no_flapping(straight, ref)
        _given(troubled, example)
        _trouble(troubled, random)
        _settled(troubled, ref)
        _same(straight, troubled, ref)
        for world in (straight, troubled):
            _taken_down(world, ref, random)


def _world(box: Box, definitions: Sequence[Manifest]) -> BoxWorld:
    return BoxWorld(box, definitions, entropy=_Constant())


def _given(world: BoxWorld, example: Manifest) -> ObjectRef:
    """Create the example, and externals under the names that it refers to."""
    box = world.box
    world.create(example, box.kind)
    ref = world.ref(example)
    create_externals(world, box, ref)
    return ref


class _Constant:
    """`Entropy` that is the same in all worlds, since generated secrets are hashed into pod templates."""

    def text(self, length: int, alphabet: str) -> str:
        """Return the same text each time."""
        return alphabet[0] * length


# --- faults ----------------------------------------------------------------------------------------------------------


def _trouble(world: BoxWorld, random: Random) -> None:
    """Cause every kind of fault for a minute, then none."""
    kinds = [kind for kind in ("Deployment", "StatefulSet", "Job") if random.random() < 0.3]
    stall = DownstreamOutcome(Ending.STALL)
    world.workloads.behaviour = DownstreamBehaviour(rules=tuple(DownstreamRule(stall, kind=kind) for kind in kinds))
    world.set_faults(at_random(random, _OFTEN))
    for _ in range(4):
        _go_on(world, _TROUBLED_SECONDS / 4)
        _by_hand(world, random)
    world.set_faults(away)
    _go_on(world, 5.0)
    world.set_faults(calm)
    world.workloads.behaviour = DownstreamBehaviour()
    world.restart()


def _go_on(world: BoxWorld, seconds: float) -> None:
    try:
        world.run(seconds)
    except WorldHotLoop as error:
        raise BrokenLaw("comes to rest", str(error), world) from error


def _by_hand(world: BoxWorld, random: Random) -> None:
    """Delete a child as a user would, or remove a label of ours from one."""
    kept = {node.id for node in world.box.nodes if node.apply is ApplyMode.ALWAYS}
    children = [ref for ref, live in sorted(world.children().items()) if _node(live) in kept]
    if not children:
        return
    ref = random.choice(children)
    try:
        if random.random() < 0.5:
            world.delete(ref)
        else:
            world.change(ref, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
    except OperatorError:
        return  # a controller has already deleted it


def _node(live: Manifest) -> str:
    return str(get_path(live, "metadata", "labels", MARKS.node) or "")


# --- laws ------------------------------------------------------------------------------------------------------------


def _settled(world: BoxWorld, ref: ObjectRef) -> None:
    """Check that the world comes to rest, writes nothing more, and gives a reason for what is not ready (PH-2)."""
    try:
        world.settle()
    except WorldHotLoop as error:
        raise BrokenLaw("comes to rest", str(error), world) from error
    before = world.writes
    world.reconcile(ref)
    if world.writes != before:
        raise BrokenLaw("writes nothing when nothing changed", world.timeline[-1], world)
    ready = condition_of(world.get(ref), "Ready")
    if not ready:
        raise BrokenLaw("says how it stands", "there is no condition Ready", world)
    if ready.get("status") != "True" and not (ready.get("reason") and ready.get("message")):
        raise BrokenLaw("names what is in the way", str(ready), world)


def _no_flapping(world: BoxWorld, ref: ObjectRef) -> None:
    """Check that no condition changes more often than allowed."""
    for kind in STANDARD:
        said = [condition_of(status, kind).get("status") for status in world.statuses]
        changes = sum(one != other for one, other in pairwise(said))
        if changes > _CHANGES:
            raise BrokenLaw("does not flap", f"{kind} changed {changes} times: {said}", world)


def _same(straight: BoxWorld, troubled: BoxWorld, ref: ObjectRef) -> None:
    """Check that after faults have ended, everything is as if there had been none."""
    one, other = _stable_parts(straight, ref), _stable_parts(troubled, ref)
    if one != other:
        missing, further = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
        changed = sorted(name for name in one.keys() & other.keys() if one[name] != other[name])
        told = f"missing {missing}, further {further}, different {changed}; then: {ready_of(troubled.get(ref) or {})}"
        raise BrokenLaw("forgets faults", told, troubled)


def _stable_parts(world: BoxWorld, ref: ObjectRef) -> dict[str, bytes]:
    """Return children without values that differ between worlds: uids, times, addresses, secrets."""
    uid = str(get_path(world.get(ref), "metadata", "uid"))
    shapes: dict[str, bytes] = {"": str(condition_of(world.get(ref), "Ready").get("status")).encode()}
    for child, live in world.children().items():
        if get_path(live, "metadata", "labels", MARKS.owner_uid) == uid:
            shapes[str(child)] = stable_parts_of(live)
    return shapes


def _taken_down(world: BoxWorld, ref: ObjectRef, random: Random) -> None:
    """Check that a deleted object is removed with everything it owns, through faults and restarts (PH-3)."""
    uid = str(get_path(world.get(ref), "metadata", "uid"))
    world.delete(ref)
    world.set_faults(at_random(random, _OFTEN))
    _go_on(world, _TROUBLED_SECONDS)
    world.set_faults(calm)
    world.restart()
    _go_on(world, 3600.0)
    if (live := world.get(ref)) is not None:
        raise BrokenLaw("goes when it is deleted", ready_of(live), world)
    orphans = {node.id for node in world.box.nodes if node.on_delete is OnDelete.ORPHAN}
    left = [
        str(child)
        for child, live in world.children().items()
        if get_path(live, "metadata", "labels", MARKS.owner_uid) == uid and _node(live) not in orphans
    ]
    if left:
        raise BrokenLaw("takes everything with it", f"left: {', '.join(left)}", world)
