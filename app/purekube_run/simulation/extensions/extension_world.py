"""The simulation of boxes and controllers: users act during faults, and required properties are checked (SIM-5).

simulation = simulation_of(box, my_reconciler)
outcome = simulation.perform(simulation.draw(7, seconds=600, objects=3, replicas=2, faults=("watch-cut",)))
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from enum import StrEnum
from functools import partial
from random import Random
from typing import Final

import attrs

from kubelab.flux import FluxBehaviour
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import Invalid, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, patch_between, ref_of
from purekube.apimachinery.resources import LEASE, NAMESPACE
from purekube.boxes.box import MARKS, Box
from purekube.boxes.webhooks.kind_webhooks import converter_of
from purekube.controller.lease.record import LeasePolicy
from purekube.graph.node import Removal
from purekube.reconcilers import PureReconciler
from purekube_run.controller.candidacy import Candidacy
from purekube_run.examples.data_source import Seeded
from purekube_run.examples.examples import Examples, NoExample
from purekube_run.simulation.cluster import kinds_with_work
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.extensions.box_world import create_externals
from purekube_run.simulation.extensions.child_laws import ChildLaws
from purekube_run.simulation.extensions.extension_replica import Extending, ExtensionReplica
from purekube_run.simulation.extensions.runnables import (
    Runnable,
    child_kinds_of,
    composite_of,
    definition_of,
    extending_of,
    kind_of,
    read_kinds_of,
    reports_ready,
    schema_of,
)
from purekube_run.simulation.laws import NOTE, Laws, Unsettled, condition_text
from purekube_run.simulation.run import Simulation
from purekube_run.simulation.script import Act, SimulationScript
from purekube_run.simulation.world import World
from purekube_run.simulation.world_faults import WORLD_FAULTS

NAMESPACES: Final = ("team-a", "team-b")
"""The namespaces in which simulated users create objects."""
OWN: Final = "controllers-system"
"""The namespace of the processes: of their Lease, and of the revisions of applied boxes."""
_LEASE: Final = "controllers"
MANAGER: Final = "controllers"
_CANDIDACY: Final = Candidacy(OWN, _LEASE, MANAGER, LeasePolicy(60.0, 40.0, 8.0))
"""The settings of leader election of each replica. The Lease is renewed a quarter as often as usual, to save steps."""
_LATENCY: Final = (0.001, 0.008)
_RESTARTS: Final = (1.0, 12.0)
_TRIES: Final = 30
_SERVER: Final = ("status", "metadata")


class Deed(StrEnum):
    """The kinds of actions of simulated users: they create, edit, annotate and delete objects, and change children."""

    CREATE = "create"
    EDIT = "edit"
    ANNOTATE = "annotate"
    DELETE = "delete"
    DELETE_CHILD = "delete a child"
    ANNOTATE_CHILD = "annotate a child"


_WEIGHTS: Final = {
    Deed.EDIT: 6,
    Deed.CREATE: 2,
    Deed.DELETE: 2,
    Deed.ANNOTATE: 1,
    Deed.DELETE_CHILD: 2,
    Deed.ANNOTATE_CHILD: 1,
}


class ExtensionWorld(World):
    """A simulated cluster in which several replicas of a process run boxes and controllers; one replica leads."""

    def __init__(
        self, runnables: Sequence[Runnable], definitions: Sequence[Manifest], seed: int, replicas: int
    ) -> None:
        self.runnables = runnables = deepcopy(tuple(runnables))
        self.definitions: Mapping[str, Manifest] = {str(metadata(each)["name"]): each for each in definitions}
        children = [kind for runnable in runnables for kind in child_kinds_of(runnable)]
        converters = [converter_of(runnable) for runnable in runnables if isinstance(runnable, Box)]
        super().__init__(
            seed=seed,
            simulated=kinds_with_work([*children, *(kind for each in runnables for kind in read_kinds_of(each))]),
            flux=FluxBehaviour() if any(kind.group.endswith(".toolkit.fluxcd.io") for kind in children) else None,
            converters=[converter for converter in converters if converter is not None],
            restarts=_RESTARTS,
        )
        self.child_kinds: Sequence[Kind] = tuple(dict.fromkeys(children))
        self.rights = tuple(dict.fromkeys(kind.plural for kind in self.kinds))
        self._prepare()
        extending = attrs.evolve(self._extending(), candidacy=_CANDIDACY)
        names = (f"replica-{number + 1}" for number in range(replicas))
        users = {name: f"system:serviceaccount:{OWN}:{name}" for name in names}
        self.replicas += [
            ExtensionReplica(self, name, extending, user=user, latency=_LATENCY) for name, user in users.items()
        ]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of objects that are reconciled, and of their children."""
        return tuple(dict.fromkeys((*map(kind_of, self.runnables), *self.child_kinds)))

    def _prepare(self) -> None:
        labels: dict[str, str] = {}
        for runnable in self.runnables:
            labels |= ((runnable.namespaces or {}).get("matchLabels") or {}) if isinstance(runnable, Box) else {}
        self.namespace_labels = labels
        for name in (*NAMESPACES, OWN):
            self.have_namespace(name)
        self.change(ObjectRef(NAMESPACE, None, "default"), {"metadata": {"labels": labels}})
        self.install({str(metadata(crd)["name"]): crd for crd in self._definitions()}.values())

    def _definitions(self) -> Iterator[Manifest]:
        """Yield the CRDs that exist before a process starts; if two have the same name, the last counts."""
        yield from self.definitions.values()
        yield from (crd for runnable in self.runnables if (crd := definition_of(runnable)) is not None)

    def _extending(self) -> Extending:
        """Return the settings of each process, without leader election."""
        return extending_of(self.runnables, MANAGER)

    def subject(self, name: str) -> tuple[Runnable, ObjectRef]:
        """Return the reference of the object that the simulation's script names `name`, and the extension (box or
        controller) that reconciles it.
        """
        number = int(name.rpartition("-")[2])
        runnable = self.runnables[number % len(self.runnables)]
        kind = kind_of(runnable)
        return runnable, ObjectRef(kind, NAMESPACES[number % len(NAMESPACES)] if kind.namespaced else None, name)

    def parents(self) -> Iterator[tuple[Runnable, Manifest]]:
        """Yield every object that is reconciled, with the extension (box or controller) that reconciles it."""
        for runnable in self.runnables:
            for live in self.objects(kind_of(runnable)):
                yield runnable, live

    def children(self) -> Iterator[tuple[ObjectRef, Manifest, frozenset[str]]]:
        """Yield every child: its reference, its manifest, and the uids of its parents."""
        composites = [composite_of(each) for each in self.runnables if isinstance(each, Box | PureReconciler)]
        labels = {composite.marks.owner_uid for composite in composites}
        kinds = {kind_of(runnable).kind for runnable in self.runnables}
        for kind in self.child_kinds:
            for live in self.objects(kind):
                meta = metadata(live)
                uids = {text for name, text in (meta.get("labels") or {}).items() if name in labels}
                uids |= {owner["uid"] for owner in meta.get("ownerReferences") or () if owner["kind"] in kinds}
                if uids:
                    yield ref_of(live, kind), live, frozenset(uids)


class ExtensionLaws(Laws):
    """The laws (required properties) of boxes and controllers, in addition to those of every simulated cluster.

    Each object becomes Ready or reports why it does not. A deleted object disappears with its children.
    """

    settles: Sequence[tuple[str, str]] = (
        ("REC-1", "every object becomes Ready or says why not"),
        ("REC-10", "a deleted object goes"),
        ("REC-10", "nothing is left of a deleted object"),
    )

    def __init__(self, world: ExtensionWorld) -> None:
        super().__init__(world, ObjectRef(LEASE, OWN, _LEASE))
        self._extensions = world
        self._orphans = {
            node.id
            for runnable in world.runnables
            if isinstance(runnable, Box)
            for node in runnable.nodes
            if node.on_delete is Removal.ORPHAN
        }
        for kind in dict.fromkeys(map(kind_of, world.runnables)):
            self.keep_notes(kind, "REC-8", "annotations of others stay")
            self.keep_generations(kind)
        for kind in world.child_kinds:
            self.keep_notes(kind, "REC-9", "annotations of others stay")
        for runnable in world.runnables:
            if isinstance(runnable, Box):
                ChildLaws(self, runnable)

    @property
    def is_progressing(self) -> bool:
        """Report whether simulated controllers have work left, such as pods that are not ready yet.

        The final state of the cluster is not checked before this is False.
        """
        return self.world.controllers.next_work() is not None

    def breaks_silence(self, write: ObservedWrite) -> bool:
        """Report whether a write breaks the law (required property) that nothing is written at rest.

        A refused write does not: it may be retried.
        """
        return write.error is None and super().breaks_silence(write)

    def unsettled(self) -> Iterator[Unsettled]:
        """Yield each law (required property) that must hold at rest and does not hold yet."""
        uids = set()
        for runnable, live in self._extensions.parents():
            name = str(ref_of(live, kind_of(runnable)))
            uids.add(metadata(live)["uid"])
            if metadata(live).get("deletionTimestamp"):
                yield Unsettled("REC-10", "a deleted object goes", name, condition_text(live))
            elif reports_ready(runnable) and not _has_converged(live):
                law = "every object becomes Ready or says why not"
                yield Unsettled("REC-1", law, name, condition_text(live))
        for ref, live, owners in self._extensions.children():
            node = get_path(live, "metadata", "labels", MARKS.node)
            if not owners & uids and node not in self._orphans:
                law, told = "nothing is left of a deleted object", f"its owner was {', '.join(sorted(owners))}"
                yield Unsettled("REC-10", law, str(ref), told)


def _has_converged(live: Manifest) -> bool:
    """Report whether the condition Ready is up to date, and is either True or gives a reason and a message."""
    ready = condition_of(live, "Ready")
    current = ready.get("observedGeneration") in (None, get_path(live, "metadata", "generation"))
    return current and (ready.get("status") == "True" or bool(ready.get("reason") and ready.get("message")))


@attrs.define
class ExtensionWorkload:
    """The simulated users of boxes (operators defined in YAML) and controllers.

    `done` counts their actions that had an effect.
    """

    world: ExtensionWorld
    done: int = 0

    def help_out(self) -> None:
        """Do nothing, since no law (required property) of these simulations depends on a user's help."""

    def counts(self) -> Mapping[str, int]:
        """Return an empty mapping, since this workload has no counts other than `done`."""
        return {}

    def perform(self, act: Act) -> None:
        """Carry out an action of a user. If the API server refuses it or its object does not exist, nothing changes."""
        try:
            what = self._perform(act)
        except (OperatorError, NoExample) as error:
            what = ""
            self.world.note("people", f"{act.do} {act.name}: {type(error).__name__}")
        if what:
            self.done += 1
            self.world.note("people", f"{act.do} {act.name}: {what}")

    def _perform(self, act: Act) -> str:
        """Carry out an action of a user. Return the affected object as text, or "" if no object was affected."""
        world, random = self.world, Random(f"{self.world.seed}/{act.name}/{act.number}")
        runnable, ref = world.subject(act.name)
        note = {"metadata": {"annotations": {NOTE: str(act.number)}}}
        match act.do:
            case Deed.CREATE:
                return self._create(runnable, ref, random)
            case Deed.EDIT:
                return self._edit(runnable, ref, random)
            case Deed.ANNOTATE:
                world.change(ref, note)
            case Deed.DELETE:
                world.delete(ref)
            case Deed.DELETE_CHILD | Deed.ANNOTATE_CHILD:
                if (child := self._child_of(ref, random)) is None:
                    return ""
                if act.do == Deed.DELETE_CHILD:
                    world.delete(child)
                else:
                    world.change(child, note)
                return str(child)
        return str(ref)

    def _create(self, runnable: Runnable, ref: ObjectRef, random: Random) -> str:
        """Create a generated object that the API server admits.

        Return the object as text, or "" if the server refused every try as invalid. Raises NoExample, and
        OperatorErrors other than Invalid.
        """
        examples = Examples(schema_of(runnable, self.world.definitions), Seeded(random))
        meta = {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {})}
        for _ in range(_TRIES):
            with suppress(Invalid):
                manifest = examples.object_of(ref.kind, meta)
                self.world.create(manifest, ref.kind)
                break
        else:
            return ""
        if isinstance(runnable, Box):
            create_externals(self.world, runnable, ref)
        return f"{ref} {manifest.get('spec', {})}"

    def _edit(self, runnable: Runnable, ref: ObjectRef, random: Random) -> str:
        live = self.world.get(ref)
        if live is None:
            return ""
        before = {key: value for key, value in live.items() if key not in _SERVER}
        meta = {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {})}
        examples = Examples(schema_of(runnable, self.world.definitions), Seeded(random))
        patch = patch_between({**before, "metadata": meta}, examples.changed({**before, "metadata": meta}))
        if not patch:
            return ""
        self.world.change(ref, patch)
        if isinstance(runnable, Box):
            create_externals(self.world, runnable, ref)
        return f"{ref} {patch}"

    def _child_of(self, ref: ObjectRef, random: Random) -> ObjectRef | None:
        uid = get_path(self.world.get(ref), "metadata", "uid")
        mine = sorted(child for child, _, owners in self.world.children() if uid in owners)
        return random.choice(mine) if mine else None


def lives(random: Random, objects: int, seconds: float) -> Iterator[Act]:
    """Yield random actions of users on a number of `objects` within `seconds`.

    Each object is created in the first third of the time. Later a user changes it every ten minutes on average, or more
    often in a short simulation.
    """
    deeds, weights = zip(*_WEIGHTS.items(), strict=True)
    for number in range(objects):
        name, at, step = f"object-{number}", random.uniform(1.0, 0.3 * seconds), 0
        yield Act(round(at, 3), Deed.CREATE, name)
        while (at := at + random.expovariate(1 / min(600.0, seconds / 4))) < seconds:
            step += 1
            yield Act(round(at, 3), random.choices(deeds, weights)[0], name, step)


def simulation_of(
    *runnables: Runnable, definitions: Sequence[Manifest] = ()
) -> Simulation[ExtensionWorld, ExtensionLaws]:
    """Return the simulation of a process that runs these boxes and controllers.

    `definitions` are CRDs of further kinds that they use. Raises CommandError if they cannot run together.
    """
    extending_of(runnables, MANAGER)
    return Simulation(
        partial(_world, runnables, definitions), ExtensionLaws, ExtensionWorkload, lives, tuple(Deed), WORLD_FAULTS
    )


def _world(runnables: Sequence[Runnable], definitions: Sequence[Manifest], script: SimulationScript) -> ExtensionWorld:
    return ExtensionWorld(runnables, definitions, script.seed, script.replicas)
