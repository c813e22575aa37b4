"""A trial checks on one object whether a controller obeys the laws (properties that every controller must have).

A trial runs in simulated clusters of its own, one without faults and others with many, and compares their results
(PH-2, PH-3). Restarts and the deletion of the object are tried too. Equal seeds give equal trials, so that a failed
trial can be repeated.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from kubelab.downstream.behaviour import DownstreamBehaviour, DownstreamOutcome, DownstreamRule, Ending
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.resources import CORE_EVENT, EVENT, LEASE
from purekube.boxes.box import MARKS, Box
from purekube.boxes.model import ApplyMode
from purekube.composites.parent import MARKS as COMPOSITE_MARKS
from purekube.composites.parent import STANDARD
from purekube.graph.node import Removal
from purekube.reconcilers import PureReconciler
from purekube_run.simulation.cluster import SIMULATED, ready_of
from purekube_run.simulation.connection import ObservedWrite, WatchTrouble
from purekube_run.simulation.extensions.box_world import create_externals, install_box, simulated_for
from purekube_run.simulation.extensions.extension_replica import ExtensionReplica
from purekube_run.simulation.extensions.purity import AskedTwice
from purekube_run.simulation.extensions.runnables import (
    Runnable,
    child_kinds_of,
    definition_of,
    extending_of,
    reports_ready,
)
from purekube_run.simulation.extensions.stable_parts import stable_parts_of
from purekube_run.simulation.faults import at_random, away, calm
from purekube_run.simulation.world import World, WorldHotLoop

LAWS: Final = (
    "answers alike",
    "comes to rest",
    "says how it stands",
    "does not flap",
    "writes nothing in the steady state",
    "writes nothing after a restart",
    "forgets faults",
    "goes when it is deleted",
    "takes everything with it",
    "leaves nothing outside",
)
"""The names of the laws (properties that every controller must have), as failure messages show them."""
FAULTS: Final = (
    "no answer",
    "an answer that is lost",
    "an older copy",
    "killed before a write",
    "killed after a write",
    "late events",
    "an expired watch",
    "a child deleted by hand",
    "a field of ours removed by hand",
    "pods that do not start for a while",
    "an API server that is away",
)
"""The names of the faults that are injected in each trial, as messages show them."""

Outside: TypeAlias = Callable[[Any], Any]
"""A function that returns the state of a system outside the cluster, as a value that can be compared by `==`.

Its argument is the copy of the controller that runs in the simulated cluster.
"""

_USER: Final = "system:serviceaccount:vworkspace-system:controllers"
_UNRECORDED: Final = (EVENT, CORE_EVENT, LEASE)
_MOST_ROUNDS: Final = 5_000
_STEP: Final = 15.0
_QUIET: Final = 60.0
"""The seconds without a write after which a controller counts as at rest."""
_STEADY: Final = 700.0
_LONGEST_END: Final = 3600.0
_OFTEN: Final = 0.15
_TROUBLED: Final = 60.0
_CHANGES: Final = 2
"""The maximum number of times that a condition's status may change without faults, until the object is at rest."""


class BrokenLaw(Exception):
    """The error raised when a controller broke a law (required property).

    It has the name of the law, a description of what was observed instead, and the timeline of the simulated cluster
    (what happened in it, with times).
    """

    def __init__(self, law: str, told: str, world: World) -> None:
        super().__init__(law)
        assert law in LAWS
        self.law, self.told, self.timeline = law, told, tuple(world.timeline)


class TrialWorld(World):
    """A simulated cluster for a trial (a check of required properties of a controller), in which one process runs a
    copy of `controller`, a box or a controller in Python.

    `changes` has each write of the process that changed an object.
    """

    def __init__(self, controller: Runnable, definitions: Sequence[Manifest]) -> None:
        controller = deepcopy(controller)
        if isinstance(controller, PureReconciler):
            controller = attrs.evolve(controller, function=AskedTwice(controller.function))
        self.controller: Any = controller
        if isinstance(controller, Box):
            super().__init__(most_rounds=_MOST_ROUNDS, **simulated_for(controller))
            install_box(self, controller, definitions)
        else:
            super().__init__(most_rounds=_MOST_ROUNDS, simulated=SIMULATED)
            own = definition_of(controller)
            self.install({str(metadata(each)["name"]): each for each in (own, *definitions) if each}.values())
        self.changes: list[ObservedWrite] = []
        self.on_write.append(self._record)
        self.replicas.append(self._process())

    @property
    def replica(self) -> ExtensionReplica:
        """The only process of the simulated cluster."""
        (replica,) = self.replicas
        assert isinstance(replica, ExtensionReplica)
        return replica

    def restart(self) -> None:
        """Kill the process, and start a new process."""
        self.say("the process is killed, and starts again")
        process = self._process()
        process.schedule = self.replica.schedule
        self.remove(self.replica)
        self.add(process)

    def _process(self) -> ExtensionReplica:
        return ExtensionReplica(self, "test", extending_of((self.controller,), "test"), user=_USER)

    def _record(self, write: ObservedWrite) -> None:
        if write.request.kind in _UNRECORDED:
            return
        self.say(f"{write.request.action} {write.request.ref}{f': refused: {write.error}' if write.error else ''}")
        if write.error is None and self.version() != write.version:
            self.changes.append(write)


@attrs.define
class _Tried:
    """The object `ref` of a trial in one of the trial's simulated clusters.

    `before` is the state of the service outside the cluster before the object was created.
    """

    world: TrialWorld
    ref: ObjectRef
    before: Any = None

    def live(self) -> Manifest | None:
        """Return the object of the trial, or None if it does not exist."""
        return self.world.get(self.ref)

    def made(self) -> dict[ObjectRef, Manifest]:
        """Return the existing objects that the controller wrote, by reference, without the object of the trial."""
        refs = dict.fromkeys(write.request.ref for write in self.world.changes)
        found = {ref: self.world.get(ref) for ref in refs if ref != self.ref}
        return {ref: live for ref, live in found.items() if live is not None}

    def go_on(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass. Raises BrokenLaw if work goes on forever without time passing."""
        try:
            self.world.run(seconds)
        except WorldHotLoop as error:
            raise BrokenLaw("comes to rest", str(error), self.world) from error


@attrs.frozen
class Trial:
    """A trial of a controller on one object, which checks whether the controller keeps the laws (required properties).

    The object must come to rest within `within` seconds: after that, the controller writes nothing more. `outside`
    returns the state of a service outside the cluster that the controller manages. Faults must not change that state,
    and the deletion of the object must restore it. `definitions` are CRDs of further kinds. Objects of the kinds in
    `keeps` may stay after the deletion. If `by_hand` is True, users delete and change children (the objects that the
    controller creates) during the faults.
    """

    controller: Runnable
    object: Manifest
    seed: int | str
    definitions: Sequence[Manifest] = ()
    outside: Outside | None = None
    keeps: Sequence[Kind] = ()
    by_hand: bool = True
    within: float = 600.0

    def run(self) -> Manifest:
        """Check all laws (required properties), and return the object as it was after the run without faults.

        It is the object's last state in that run, when the controller had nothing more to write. Raises BrokenLaw for
        the first law that is broken.
        """
        random = Random(self.seed)
        with self._world() as calm_one, self._world() as troubled, self._world() as early:
            straight, hurt, soon = (self._begun(world) for world in (calm_one, troubled, early))
            self._settled(straight)
            self._no_flapping(straight)
            self._steady(straight)
            rested = straight.live() or {}
            self._trouble(hurt, random)
            self._settled(hurt)
            self._same(straight, hurt)
            self._taken_down(straight, random)
            self._taken_down(hurt, random)
            self._early(soon, random)
        return rested

    # --- simulated clusters ------------------------------------------------------------------------------------------

    def _world(self) -> TrialWorld:
        return TrialWorld(self.controller, self.definitions)

    def _begun(self, world: TrialWorld) -> _Tried:
        """Create the object of the trial in a new simulated cluster.

        For a box, also create the externals (objects of other owners) to which that object refers.
        """
        world.run(0)
        before, ref = self._outside(world), world.ref(self.object)
        meta = {**metadata(self.object), **({"namespace": ref.namespace} if ref.namespace else {})}
        world.say(f"somebody creates {ref}")
        world.create({**self.object, "metadata": meta}, ref.kind)
        if isinstance(world.controller, Box):
            create_externals(world, world.controller, ref)
        return _Tried(world, ref, before)

    def _outside(self, world: TrialWorld) -> Any:
        return None if self.outside is None else deepcopy(self.outside(world.controller))

    # --- laws --------------------------------------------------------------------------------------------------------

    def _settled(self, tried: _Tried) -> None:
        """Check that the object comes to rest, and that its condition Ready reports its state."""
        world, limit = tried.world, tried.world.seconds + self.within
        while world.seconds < limit and not (self._is_quiet(world) and world.controllers.next_work() is None):
            tried.go_on(_STEP)
        if not self._is_quiet(world):
            last = ", ".join(f"{write.request.action} {write.request.ref}" for write in world.changes[-3:])
            raise BrokenLaw("comes to rest", f"still writing after {self.within:g} s: {last}", world)
        self._says(tried)
        self._alike(world)

    def _is_quiet(self, world: TrialWorld) -> bool:
        return world.seconds - (world.changes[-1].at if world.changes else 0.0) >= _QUIET

    def _alike(self, world: TrialWorld) -> None:
        """Check that the function of a pure reconciler returned equal results for equal arguments."""
        function = getattr(world.controller, "function", None)
        if isinstance(function, AskedTwice) and function.different:
            raise BrokenLaw("answers alike", function.different, world)

    def _says(self, tried: _Tried) -> None:
        if not reports_ready(self.controller):
            return
        ready = condition_of(tried.live(), "Ready")
        if not ready:
            raise BrokenLaw("says how it stands", "there is no condition Ready", tried.world)
        if ready.get("status") != "True" and not (ready.get("reason") and ready.get("message")):
            raise BrokenLaw("says how it stands", f"it is not ready, and does not say why: {ready}", tried.world)

    def _no_flapping(self, tried: _Tried) -> None:
        """Check that no standard condition of the object changed its status more often than permitted.

        This holds for boxes and pure reconcilers.
        """
        if not isinstance(self.controller, Box | PureReconciler):
            return
        statuses = [write.answer for write in tried.world.changes if write.request.ref == tried.ref]
        for kind in STANDARD:
            said = [condition_of(status, kind).get("status") for status in statuses]
            changes = sum(one != other for one, other in pairwise(said))
            if changes > _CHANGES:
                raise BrokenLaw("does not flap", f"{kind} changed {changes} times: {said}", tried.world)

    def _steady(self, tried: _Tried) -> None:
        """Check that the controller writes nothing at rest, and nothing after a restart of the process."""
        world = tried.world
        held = self._outside(world)
        for law in ("writes nothing in the steady state", "writes nothing after a restart"):
            written = len(world.changes)
            if "restart" in law:
                world.restart()
            tried.go_on(_STEADY)
            if more := world.changes[written:]:
                raise BrokenLaw(law, "; ".join(f"{each.request.action} {each.request.ref}" for each in more[:3]), world)
            if (now := self._outside(world)) != held:
                raise BrokenLaw(law, f"outside, {held!r} became {now!r}", world)

    def _same(self, straight: _Tried, hurt: _Tried) -> None:
        """Check that the cluster `hurt`, which had faults, has the same objects as `straight`, which had none.

        The state of the service outside the cluster must be the same, too.
        """
        one, other = self._shapes(straight), self._shapes(hurt)
        if one != other:
            missing, further = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
            changed = sorted(name for name in one.keys() & other.keys() if one[name] != other[name])
            parts = (("missing", missing), ("too many", further), ("different", changed))
            told = ", ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
            raise BrokenLaw("forgets faults", f"{told}; it says: {ready_of(hurt.live() or {})}", hurt.world)
        held = self._outside(straight.world), self._outside(hurt.world)
        if held[0] != held[1]:
            told = f"outside there is {held[1]!r}, without faults {held[0]!r}"
            raise BrokenLaw("forgets faults", told, hurt.world)

    def _shapes(self, tried: _Tried) -> dict[str, bytes]:
        shapes = {f"Ready of {tried.ref}": str(condition_of(tried.live(), "Ready").get("status")).encode()}
        return shapes | {str(ref): stable_parts_of(live) for ref, live in tried.made().items()}

    def _taken_down(self, tried: _Tried, random: Random) -> None:
        """Check that a deleted object is removed together with its children, despite faults and restarts."""
        world = tried.world
        world.say(f"somebody deletes {tried.ref}")
        world.delete(tried.ref)
        world.replica.schedule = at_random(random, _OFTEN)
        tried.go_on(_TROUBLED)
        world.replica.schedule = calm
        world.restart()
        tried.go_on(_LONGEST_END)
        if (live := tried.live()) is not None:
            held = ", ".join(metadata(live).get("finalizers") or ())
            raise BrokenLaw("goes when it is deleted", f"held by {held}; it says: {ready_of(live)}", world)
        left = [str(ref) for ref, live in tried.made().items() if not self._may_stay(ref, live)]
        if left:
            remedy = "What is to stay has to be declared an orphan, or its kind named in `keeps`."
            raise BrokenLaw("takes everything with it", f"left: {', '.join(left)}. {remedy}", world)
        if (now := self._outside(world)) != tried.before:
            raise BrokenLaw("leaves nothing outside", f"{tried.before!r} before, {now!r} after", world)

    def _may_stay(self, ref: ObjectRef, live: Manifest) -> bool:
        """Report whether an object that the controller made may outlive its owner."""
        meta = metadata(live)
        if isinstance(self.controller, PureReconciler):
            # Only its function declares nodes, for an object that has gone. The framework has marked those that stay.
            declared = get_path(meta, "annotations", COMPOSITE_MARKS.removal) == Removal.ORPHAN.value
        else:
            nodes = self.controller.nodes if isinstance(self.controller, Box) else ()
            orphans = {node.id for node in nodes if node.on_delete is Removal.ORPHAN}
            declared = get_path(meta, "labels", MARKS.node) in orphans
        return declared or ref.kind in self.keeps

    def _early(self, tried: _Tried, random: Random) -> None:
        """Check that an object is removed even if it is deleted soon after its creation, before all children exist."""
        tried.world.replica.schedule = at_random(random, _OFTEN)
        tried.go_on(random.choice((0.0, 0.5, 2.0, 5.0)))
        self._taken_down(tried, random)

    # --- faults ------------------------------------------------------------------------------------------------------

    def _trouble(self, tried: _Tried, random: Random) -> None:
        """Apply faults of all kinds for a minute, then end the faults and restart the process."""
        world = tried.world
        kinds = [kind for kind in ("Deployment", "StatefulSet", "Job") if random.random() < 0.3]
        stall = DownstreamOutcome(Ending.STALL)
        world.set_behaviour(
            engines=DownstreamBehaviour(rules=tuple(DownstreamRule(stall, kind=kind) for kind in kinds))
        )
        world.replica.schedule = at_random(random, _OFTEN)
        for _ in range(4):
            self._disturb_watches(world, random)
            tried.go_on(_TROUBLED / 4)
            if self.by_hand:
                self._act_by_hand(tried, random)
        world.replica.schedule = away
        tried.go_on(5.0)
        world.say("all faults are over")
        world.replica.schedule = calm
        world.heal()
        world.restart()
        tried.go_on(_STEP)

    def _disturb_watches(self, world: TrialWorld, random: Random) -> None:
        """Apply a random fault, or none, to all open watches: their events come late for 15 seconds, or the watches
        expire.
        """
        trouble = random.choice((None, None, WatchTrouble.LATE, WatchTrouble.EXPIRED))
        watches = len(world.replica.link.watches)
        if trouble is not None:
            for number in range(watches):
                world.replica.link.disturb_watch(trouble, (number + 0.5) / watches, _TROUBLED / 4)

    def _act_by_hand(self, tried: _Tried, random: Random) -> None:
        """Change a child as a user might: delete it, or remove a label that a box sets."""
        children = sorted(ref for ref, live in tried.made().items() if self._is_kept_up(ref, live))
        if not children:
            return
        ref = random.choice(children)
        try:
            if isinstance(self.controller, Box) and random.random() < 0.5:
                tried.world.change(ref, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
            else:
                tried.world.say(f"somebody deletes {ref}")
                tried.world.delete(ref)
        except OperatorError:
            return  # a controller has already deleted it

    def _is_kept_up(self, ref: ObjectRef, live: Manifest) -> bool:
        """Report whether the controller must create a deleted child again. Some children are created only once."""
        match self.controller:
            case Box() as box:
                always = {node.id for node in box.nodes if node.apply is ApplyMode.ALWAYS}
                return get_path(live, "metadata", "labels", MARKS.node) in always
            case PureReconciler():
                return get_path(live, "metadata", "annotations", APPLIED_HASH) is not None
            case controller:
                return ref.kind in child_kinds_of(controller)
