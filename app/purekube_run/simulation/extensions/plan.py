"""The plan of a box: the writes of one pass over one parent, which is an object of the box's kind.

A box is an operator that is defined in YAML; a pass is one reconcile of the parent. The writes are tried on an API
server in memory that has a copy of the cluster's objects. So the server decides on defaults, conflicts and immutable
fields as in a cluster, and no real cluster is changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.boxes.box import MARKS, Box
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.decision.evaluation import Evaluation
from purekube.boxes.decision.nodes import drains_of, graph_of
from purekube.composites.observe import observe_live
from purekube.composites.parent import Parent
from purekube.controller.appliers import without_last_applied
from purekube.controller.decision import Decision, Snapshot
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.graph.plan import plan
from purekube.graph.states import NodeState, Observation
from purekube.graph.teardown import Hooks, teardown
from purekube_run.boxes.trial import NoEvents
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.cluster import MemoryCluster, ready_of
from purekube_run.simulation.extensions.box_world import (
    OPERATOR,
    children_of,
    install_box,
    simulated_for,
    store_observed,
)

AFTERWARDS: Final = "delete afterwards"
"""The verb in a plan for a delete that waits until all other objects are ready."""
GENERATED: Final = "<generated>"
_HIDDEN: Final = "<hidden>"
_ENCODED: Final = "PGdlbmVyYXRlZD4="
"""The placeholder `GENERATED` in base64, as it is in the data of a Secret."""
_OF_SERVER: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_HASH: Final = MARKS.applied_hash
"""The annotation with a hash of the applied fields. Plans omit it, since it only reflects changes of other fields."""
_QUIET: Final = (NodeState.EXCLUDED, NodeState.READY, NodeState.LEFT)


@attrs.frozen
class FieldChange:
    """A change of one field by a planned write: its path, and its value before and after, None if there is no value."""

    path: str
    before: Any
    after: Any


@attrs.frozen
class PlannedObject:
    """One object in a plan: the write that is planned for it, or its present state if nothing is written.

    If the object is not written or not ready, `place` is the place in the box file (file and line) of the field that
    causes this, such as a gate.
    """

    node: str
    object: str
    action: str
    state: str
    message: str = ""
    place: str = ""
    changes: tuple[FieldChange, ...] = ()
    before: Manifest | None = attrs.field(default=None, repr=False)
    after: Manifest | None = attrs.field(default=None, repr=False)


@attrs.frozen
class BoxPlan:
    """The plan of a box for one parent (an object of its kind): the writes that one pass over it would make.

    A box is an operator that is defined in YAML; a pass is one reconcile of the parent. `writes` maps each verb to the
    number of writes, including deletes that wait until other objects are ready. `refused` counts the writes that would
    be refused. `status` is the parent's status after the pass.
    """

    object: str
    objects: tuple[PlannedObject, ...]
    writes: Mapping[str, int]
    refused: int
    status: Manifest
    ready: str

    @property
    def changes(self) -> bool:
        """Report whether anything other than the status would be written."""
        return any(count for verb, count in self.writes.items() if verb != "status")


class _Shown:
    """A replacement for the generator of secrets that returns a placeholder, so that equal inputs give equal plans."""

    def text(self, length: int, alphabet: str) -> str:
        """Return the placeholder in place of a random text."""
        return GENERATED


def plan_box(
    box: Box, parent: Manifest, observed: Sequence[Manifest], definitions: Iterable[Manifest], now: datetime
) -> BoxPlan:
    """Return the plan of `box` for `parent`, given the other objects that were observed in a cluster.

    `definitions` are CRDs of other kinds. Raises CommandError for an object that no API server would store.
    """
    cluster = MemoryCluster(lambda: now, **simulated_for(box))
    install_box(cluster, box, definitions)
    ref = _stored(cluster, box, parent, observed)
    before = _objects(cluster, box, observed)
    result, seen = _one_pass(cluster, box, ref)
    after, executed = _objects(cluster, box, observed), dict(reversed([(ref, verb) for verb, ref in result.executed]))
    later = [each.ref for each in composite_of(box).deletes_afterwards(*seen[-1], now, executed)]
    for each in later:
        executed[each] = AFTERWARDS
        after.pop(each, None)
    objects = list(_planned(box, *seen[-1], before, after, executed, now))
    writes: dict[str, int] = {}
    for verb in (*(verb for verb, _ in result.executed), *(AFTERWARDS for _ in later)):
        writes[verb] = writes.get(verb, 0) + 1
    live = cluster.get(ref) or {}
    ready = ready_of(live) if live else "it is gone"
    return BoxPlan(str(ref), tuple(objects), writes, len(seen[-1][1].failures), live.get("status") or {}, ready)


def _one_pass(
    cluster: MemoryCluster, box: Box, ref: ObjectRef
) -> tuple[ReconcileResult, Sequence[tuple[Parent, Snapshot]]]:
    """Run one pass over the parent `ref`.

    Return the pass's result, and for each of its decisions the parent and the snapshot (the observed objects) on which
    the decision was based.
    """
    api, composite = cluster.connect(OPERATOR, "vworkspace-box/1"), composite_of(box)
    plain = composite.pass_rules(cluster.now, _Shown())
    seen: list[tuple[Parent, Snapshot]] = []

    def decide(parent: Parent, observed: Snapshot) -> Decision:
        seen.append((parent, observed))
        return plain.decide(parent, observed)

    parent = composite.read(run_sync(cluster.admin.get(ref)))
    observed = run_sync(observe_live(api, composite, parent))
    return run_sync(run_pass(attrs.evolve(plain, decide=decide), parent, observed, api, NoEvents())), seen


def _stored(cluster: MemoryCluster, box: Box, parent: Manifest, observed: Sequence[Manifest]) -> ObjectRef:
    """Store the parent and the observed objects, and return the reference of the parent.

    Namespaces come first: others would be made for the objects in them.
    """
    namespaces = [each for each in observed if _is_namespace(each)]
    for manifest in (*namespaces, parent, *(each for each in observed if not _is_namespace(each))):
        try:
            store_observed(cluster, box, manifest)
        except OperatorError as error:
            name = f"{manifest.get('kind')} {metadata(manifest).get('name')}"
            raise CommandError(f"{name}: no API server would hold it: {error.message}") from error
    return cluster.ref(parent)


def _is_namespace(manifest: Manifest) -> bool:
    return (manifest.get("apiVersion"), manifest.get("kind")) == (NAMESPACE.api_version, NAMESPACE.kind)


def _objects(cluster: MemoryCluster, box: Box, observed: Sequence[Manifest]) -> dict[ObjectRef, Manifest]:
    """Return the objects of the box in the simulated cluster: those of kinds that it creates, and those in `observed`.

    Objects in `observed` that no longer exist are left out.
    """
    objects = children_of(cluster, box)
    for manifest in observed:
        ref = cluster.ref(manifest)
        if (live := cluster.get(ref)) is not None:
            objects[ref] = live
    return objects


def _planned(
    box: Box,
    parent: Parent,
    snapshot: Snapshot,
    before: Mapping[ObjectRef, Manifest],
    after: Mapping[ObjectRef, Manifest],
    executed: Mapping[ObjectRef, str],
    now: datetime,
) -> Iterator[PlannedObject]:
    object_refs: set[ObjectRef] = set()
    for observation in _observations(box, parent, snapshot, now):
        if observation.ref is not None:
            object_refs.add(observation.ref)
        yield _of(observation, before, after, executed)
    for ref, verb in executed.items():
        if ref not in object_refs and ref.kind != box.kind:
            old, new = shown(ref, before.get(ref)), shown(ref, after.get(ref))
            yield PlannedObject("", str(ref), verb, "", "", "", tuple(_changes(old, new)), old, new)


def _observations(box: Box, parent: Parent, snapshot: Snapshot, now: datetime) -> Iterator[Observation]:
    """Yield the state of each object of the box after the pass.

    For a parent that is being deleted, yield the state of each remaining object.
    """
    evaluation, owner = Evaluation(box, parent.manifest, now, snapshot), composite_of(box).owner_of(parent)
    if parent.metadata.deletion_timestamp is None:
        found = plan(graph_of(box), owner, snapshot, evaluation.scope())
        yield from found.everything
        yield from found.going
        return
    step = teardown(owner, snapshot, Hooks(drains_of(box), evaluation.scope()) if box.drains else None)
    for ref in step.left:
        yield Observation("", NodeState.LEAVING, step.step, ref=ref)


def _of(
    observation: Observation,
    before: Mapping[ObjectRef, Manifest],
    after: Mapping[ObjectRef, Manifest],
    executed: Mapping[ObjectRef, str],
) -> PlannedObject:
    old = None if observation.ref is None else shown(observation.ref, before.get(observation.ref))
    new = None if observation.ref is None else shown(observation.ref, after.get(observation.ref))
    action = executed.get(observation.ref, "") if observation.ref is not None else ""
    changes = tuple(_changes(old, new)) if action else ()
    message = "" if observation.state in _QUIET else observation.message
    place = str(observation.place) if message else ""
    return PlannedObject(
        observation.node, observation.name, action or "-", observation.state.value, message, place, changes, old, new
    )


def shown(ref: ObjectRef, manifest: Manifest | None) -> dict[str, Any] | None:
    """Return an object in the form for plans: without fields that only the server writes, and without a Secret's
    content.

    The annotation in which kubectl keeps an object, with the content of a Secret, is left out, too.
    """
    if manifest is None:
        return None
    manifest = without_last_applied(manifest)
    meta = {key: value for key, value in metadata(manifest).items() if key not in _OF_SERVER}
    plain = {**manifest, "metadata": meta}
    plain.pop("status", None)
    if ref.kind == SECRET and isinstance(plain.get("data"), Mapping):
        plain["data"] = {key: GENERATED if value == _ENCODED else _HIDDEN for key, value in plain["data"].items()}
    return plain


def _changes(old: Manifest | None, new: Manifest | None) -> Iterator[FieldChange]:
    """Yield the fields that differ between two objects. Nothing is yielded if one of the objects does not exist."""
    if old is not None and new is not None:
        yield from (change for change in changed_fields(old, new) if not change.path.endswith(_HASH))


def changed_fields(old: Any, new: Any, path: str = "") -> Iterator[FieldChange]:
    """Yield the changes between two values of the field `path`: of the innermost fields that differ."""
    match old, new:
        case Mapping(), Mapping():
            for key in dict.fromkeys((*old, *new)):
                yield from changed_fields(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
        case list(), list() if len(old) == len(new):
            for at, (one, other) in enumerate(zip(old, new, strict=True)):
                yield from changed_fields(one, other, f"{path}[{at}]")
        case _ if old != new:
            yield FieldChange(path, old, new)
