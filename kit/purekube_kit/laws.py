"""Laws that every controller should obey, tried on one object: with and without faults, through restarts and deletion.

`hold` makes clusters of its own, one without faults and others with many, and compares them.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, content_hash, get_path, metadata
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.boxes.box import Box
from purekube.reconcilers import Object, PureReconciler
from purekube_kit.cluster import ClusterUnderTest, Definition
from purekube_kit.fake import FakeCluster, HotLoop
from purekube_kit.purity import AskedTwice
from purekube_kit.record import Write
from purekube_run.simulation import box_laws as of_boxes
from purekube_run.simulation.cluster import condition_of, ready_of
from purekube_run.simulation.faults import at_random, away, calm
from purekube_run.simulation.runnables import Runnable, child_kinds_of, reports_ready
from purekube_run.simulation.stable_parts import stable_parts_of

LAWS: Final = (
    "answers alike",
    "comes to rest",
    "says how it stands",
    "writes nothing in the steady state",
    "writes nothing after a restart",
    "forgets faults",
    "goes when it is deleted",
    "takes everything with it",
    "leaves nothing outside",
)
"""The laws, by the names in failure messages."""

Outside: TypeAlias = Callable[[Any], Any]
"""A function that returns the state of an outside system for one cluster's controller, as a comparable value."""

_STEP: Final = 15.0
_QUIET: Final = 60.0
"""The seconds without a write after which a controller is at rest."""
_STEADY: Final = 700.0
_LONGEST_END: Final = 3600.0
_OFTEN: Final = 0.15
_TROUBLED: Final = 60.0
_MOST_LINES: Final = 40
_FIRST: Final = 8
_WORKLOADS: Final = ("deployments", "statefulsets", "jobs")


class LawBroken(AssertionError):
    """The error that a law was broken. It names the law, what was observed, the object, and how to reproduce it."""


def hold(
    controller: Runnable,
    given: Object[Any, Any] | Manifest,
    *,
    outside: Outside | None = None,
    serves: Sequence[Definition] = (),
    keeps: Sequence[Kind] = (),
    by_hand: bool = True,
    within: float = 600.0,
    seed: int | None = None,
) -> None:
    """Try all laws on an object. Raises LawBroken.

    A pure function returns the same when it is called twice. The object comes to rest within `within` seconds and has a
    Ready condition; then there are no more writes, not even after a restart. After a minute of faults (no answers, lost
    answers, kills, stale and lost events, pods that do not start, an object that it `owns` deleted by hand, unless
    `by_hand` is False) everything is as without faults. Deleted at any moment, the object goes, with everything that
    was made for it except kinds that it `keeps`.

    Each law is tried in new clusters with a deep copy of the controller. `outside` returns the state of a faked service
    that such a copy uses. It must be the same in all clusters, and after a deletion the same as before. `serves` are
    further kinds. Equal objects meet equal faults, unless `seed` is given.
    """
    drawn = _seed_of(given) if seed is None else seed
    trial = _Trial(controller, given, outside, serves, keeps, by_hand, within, drawn)
    try:
        trial.run()
    except of_boxes.BrokenLaw as broken:
        raise LawBroken(_failure_text(broken.law, broken.told, broken.timeline, given, trial.seed)) from None
    except _Broken as broken:
        raise LawBroken(
            _failure_text(broken.law, broken.told, broken.timeline, given, trial.seed)
        ) from broken.__cause__


def _seed_of(given: Object[Any, Any] | Manifest) -> int:
    manifest = {"name": given.metadata.name, "spec": repr(given.spec)} if isinstance(given, Object) else given
    return int(content_hash(manifest), 16) % 1_000_000


def _failure_text(law: str, told: str, timeline: Sequence[str], given: Object[Any, Any] | Manifest, seed: int) -> str:
    manifest = given.manifest if isinstance(given, Object) else given
    shown = json.dumps(manifest, indent=2) if manifest else repr(given)
    lines = [
        f"the law “{law}” does not hold: {told}",
        "on this object:",
        *(f"  {line}" for line in shown.splitlines()),
        f"again: laws.hold(controller, object, seed={seed})",
        "timeline:",
        *(timeline if len(timeline) <= _MOST_LINES else (*timeline[:_FIRST], "…", *timeline[_FIRST - _MOST_LINES :])),
    ]
    return "\n".join(lines)


class _Broken(Exception):
    def __init__(self, law: str, told: str, cluster: ClusterUnderTest) -> None:
        super().__init__(law)
        assert law in LAWS
        self.law, self.told, self.timeline = law, told, tuple(cluster.timeline)


@attrs.define
class _World:
    """A cluster with the object in it, and with its own copy of the controller."""

    cluster: FakeCluster
    controller: Any
    ref: ObjectRef
    before: Any = None

    def made(self) -> dict[ObjectRef, Manifest]:
        """Return everything that the controller made and that still exists."""
        found = {}
        for ref in dict.fromkeys(write.ref for write in self.cluster.writes if write.ref != self.ref):
            try:
                found[ref] = self.cluster.get(ref.kind, ref.name, namespace=ref.namespace or "")
            except (NotFound, OperatorError):
                continue
        return {ref: live.manifest if isinstance(live, Object) else live for ref, live in found.items()}


def _changes(world: _World) -> list[Write]:
    """Return the writes that changed an object; refused ones, which are retried from time to time, do not count."""
    return [write for write in world.cluster.writes if write.changed]


@attrs.define
class _Trial:
    controller: Runnable
    given: Object[Any, Any] | Manifest
    outside: Outside | None
    serves: Sequence[Definition]
    keeps: Sequence[Kind]
    by_hand: bool
    within: float
    seed: int

    def run(self) -> None:
        """Try the laws in all clusters."""
        random = Random(self.seed)
        if isinstance(self.controller, Box):
            self._of_box(self.controller, random)
            return
        with self._world() as calm_one, self._world() as troubled, self._world() as early:
            straight, hurt, soon = (self._begun(one) for one in (calm_one, troubled, early))
            self._settled(straight)
            self._steady(straight)
            self._trouble(hurt, random)
            self._settled(hurt)
            self._same(straight, hurt)
            self._taken_down(straight, random)
            self._taken_down(hurt, random)
            self._early(soon, random)

    def _of_box(self, box: Box, random: Random) -> None:
        """Try the laws of boxes, which are more, because a box declares more about itself."""
        if isinstance(self.given, Object):
            raise TypeError("the object of a box is a manifest, as objects_of(box.crd) draws it")
        definitions = [definition if not hasattr(definition, "crd") else definition.crd() for definition in self.serves]
        of_boxes.hold_laws(box, definitions, self.given, random)

    # --- worlds ------------------------------------------------------------------------------------------------------

    def _world(self) -> FakeCluster:
        return FakeCluster(*self.serves)

    def _begun(self, cluster: FakeCluster) -> _World:
        controller = deepcopy(self.controller)
        if isinstance(controller, PureReconciler):
            controller = attrs.evolve(controller, function=AskedTwice(controller.function))
        cluster.run(controller)
        before = self._outside(controller)
        created = cluster.create(self.given)
        return _World(cluster, controller, cluster.ref(created), before)

    def _outside(self, controller: Any) -> Any:
        return None if self.outside is None else deepcopy(self.outside(controller))

    def _go_on(self, world: _World, seconds: float) -> None:
        try:
            world.cluster.after(seconds)
        except HotLoop as error:
            raise _Broken("comes to rest", str(error), world.cluster) from None

    # --- laws --------------------------------------------------------------------------------------------------------

    def _settled(self, world: _World) -> None:
        """Check that the object comes to rest and has a Ready condition."""
        cluster = world.cluster
        limit = cluster.seconds + self.within
        while cluster.seconds - self._last_write(world) < _QUIET:
            if cluster.seconds >= limit:
                last = ", ".join(f"{write.verb} {write.ref}" for write in cluster.writes[-3:])
                raise _Broken("comes to rest", f"still writing after {self.within:g} s: {last}", cluster)
            self._go_on(world, _STEP)
        self._says(world)
        self._alike(world)

    def _alike(self, world: _World) -> None:
        """Check that a pure function returned the same both times it was called."""
        function = getattr(world.controller, "function", None)
        if isinstance(function, AskedTwice) and function.different:
            raise _Broken("answers alike", function.different, world.cluster)

    def _last_write(self, world: _World) -> float:
        return max((write.at for write in _changes(world)), default=0.0)

    def _says(self, world: _World) -> None:
        if not reports_ready(self.controller):
            return
        ready = condition_of(self._live(world), "Ready")
        if not ready:
            raise _Broken("says how it stands", "there is no condition Ready", world.cluster)
        if ready.get("status") != "True" and not (ready.get("reason") and ready.get("message")):
            raise _Broken("says how it stands", f"it is not ready, and does not say why: {ready}", world.cluster)

    def _steady(self, world: _World) -> None:
        """Check that nothing is written while nothing changes, nor because the process restarts."""
        held = self._outside(world.controller)
        for law in ("writes nothing in the steady state", "writes nothing after a restart"):
            written = len(_changes(world))
            if "restart" in law:
                world.cluster.restart()
            self._go_on(world, _STEADY)
            if more := _changes(world)[written:]:
                raise _Broken(law, "; ".join(str(write).strip() for write in more[:3]), world.cluster)
            if (now := self._outside(world.controller)) != held:
                raise _Broken(law, f"outside, {held!r} became {now!r}", world.cluster)

    def _same(self, straight: _World, hurt: _World) -> None:
        """Check that after all faults have ended everything is as in the cluster without faults."""
        one, other = self._shapes(straight), self._shapes(hurt)
        if one != other:
            missing, further = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
            changed = sorted(name for name in one.keys() & other.keys() if one[name] != other[name])
            parts = (("missing", missing), ("too many", further), ("different", changed))
            told = ", ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
            raise _Broken("forgets faults", f"{told}; it says: {ready_of(self._live(hurt) or {})}", hurt.cluster)
        held = self._outside(straight.controller), self._outside(hurt.controller)
        if held[0] != held[1]:
            told = f"outside there is {held[1]!r}, without faults {held[0]!r}"
            raise _Broken("forgets faults", told, hurt.cluster)

    def _shapes(self, world: _World) -> dict[str, bytes]:
        ready = condition_of(self._live(world), "Ready").get("status")
        shapes = {f"Ready of {world.ref}": str(ready).encode()}
        return shapes | {str(ref): stable_parts_of(live) for ref, live in world.made().items()}

    def _live(self, world: _World) -> Manifest | None:
        try:
            live = world.cluster.get(world.ref.kind, world.ref.name, namespace=world.ref.namespace or "")
        except NotFound:
            return None
        return live.manifest if isinstance(live, Object) else live

    def _taken_down(self, world: _World, random: Random) -> None:
        """Check that a deleted object goes, with everything that belongs to it, through faults and restarts."""
        cluster = world.cluster
        cluster.delete(world.ref.kind, world.ref.name, namespace=world.ref.namespace or "")
        cluster.random_faults(at_random(random, _OFTEN))
        self._go_on(world, _TROUBLED)
        cluster.random_faults(calm)
        cluster.restart()
        self._go_on(world, _LONGEST_END)
        live = self._live(world)
        if live is not None:
            held = ", ".join(metadata(live).get("finalizers") or ())
            raise _Broken("goes when it is deleted", f"held by {held}; it says: {ready_of(live)}", cluster)
        left = [str(ref) for ref in world.made() if ref.kind not in self.keeps]
        if left:
            raise _Broken("takes everything with it", f"left: {', '.join(left)}", cluster)
        if (now := self._outside(world.controller)) != world.before:
            raise _Broken("leaves nothing outside", f"{world.before!r} before, {now!r} after", cluster)

    def _early(self, world: _World, random: Random) -> None:
        """Check the deletion of an object while its children are still being made."""
        world.cluster.random_faults(at_random(random, _OFTEN))
        self._go_on(world, random.choice((0.0, 0.5, 2.0, 5.0)))
        self._taken_down(world, random)

    # --- faults ------------------------------------------------------------------------------------------------------

    def _trouble(self, world: _World, random: Random) -> None:
        """Inject many faults for a minute, then end them all."""
        cluster = world.cluster
        for name in _WORKLOADS:
            if random.random() < 0.3:
                cluster.fault(name, never_ready=True)
        cluster.random_faults(at_random(random, _OFTEN))
        for _ in range(4):
            self._a_while(world, random)
            if self.by_hand:
                self._by_hand(world, random)
        cluster.random_faults(away)
        self._go_on(world, 5.0)
        cluster.random_faults(calm)
        cluster.heal()
        cluster.restart()
        self._go_on(world, _STEP)

    def _a_while(self, world: _World, random: Random) -> None:
        """Let a quarter of the minute pass, sometimes with watches that are late or lose events."""
        watching = random.choice(("", "", "stale", "lost"))
        with ExitStack() as faults:
            if watching:
                is_stale = watching == "stale"
                faults.enter_context(world.cluster.fault(stale=is_stale, lose_events=not is_stale))
            self._go_on(world, _TROUBLED / 4)

    def _by_hand(self, world: _World, random: Random) -> None:
        """Delete an object that the controller declares as its own."""
        there = sorted(ref for ref, live in world.made().items() if self._is_kept_up(ref, live))
        if there:
            ref = random.choice(there)
            try:
                world.cluster.delete(ref.kind, ref.name, namespace=ref.namespace or "")
            except NotFound:
                return

    def _is_kept_up(self, ref: ObjectRef, live: Manifest) -> bool:
        """Report whether the controller has to make a deleted object again; objects made once stay deleted."""
        match self.controller:
            case Box():
                return False
            case PureReconciler():
                return get_path(live, "metadata", "annotations", APPLIED_HASH) is not None
            case controller:
                return ref.kind in child_kinds_of(controller)
