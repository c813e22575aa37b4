"""The controller of OperatorBoxes in a cluster: it loads and unloads a controller for the kind of each box (PH-10).

An OperatorBox is an object that defines an operator (a box) in YAML.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import anyio
import attrs

from purekube.apimachinery.definitions import BOX_NAME, OPERATOR_BOX
from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import access_of
from purekube.boxes.read import BoxProblem
from purekube.boxes.rollout_policy import DeletionPolicy
from purekube.boxes.rollouts.applied import FINALIZER, MANAGER, AppliedBox, BoxSnapshot, BoxState
from purekube.boxes.rollouts.applied_status import WORDS, decide_with_status
from purekube.boxes.rollouts.members import ParentReadings
from purekube.boxes.rollouts.reasons import CONDITIONS
from purekube.boxes.rollouts.revised import retired_kinds
from purekube.boxes.rollouts.revisions import (
    CONTROLLER_REVISION,
    Revision,
    crd_name_of,
    owner_of_kind,
    read_revisions,
)
from purekube.composites.rights import CompositeAccess
from purekube.composites.status_writers import StatusWriter
from purekube.controller.decision import Decision
from purekube.controller.execute import PassRules
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.store import ObjectStore
from purekube.controller.managed_fields import StatusOwner, without_managed_fields
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Clock, EventSink, KubeApi
from purekube_run.boxes.applied_load import (
    KnownDefinitions,
    LoadedDefinition,
    access_to_retired,
    changed_problems,
    lacking_rights,
    told_of,
    unenforced_problems,
)
from purekube_run.boxes.requirements import KnownRequirements
from purekube_run.boxes.served_boxes import Follower, ServedBox, ServedBoxes, served_assignments
from purekube_run.controller.controller import ControllerDefinition, For, StatusManager, Watches, Work
from purekube_run.controller.decision_reconciler import DecisionReconciler, LiveRereads
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers, StoredObject
from purekube_run.controller.lookups import all_of, find
from purekube_run.controller.manager import ControllerManager
from purekube_run.controller.runner import ManagerOptions

NAME: Final = "operatorbox"
"""The controller's name in metrics and logs."""
_BY_BOX: Final = "box"
_BY_CRD: Final = "crd"
_COALESCED: Final = 0.5
"""The seconds after which a changed parent (object of a box's kind) enqueues its box, so that several changes cause one
pass.
"""


class _Caches(Informers):
    """The informers that the controller of OperatorBoxes uses: of OperatorBoxes and of their ControllerRevisions.

    `find` also searches the informers of the parents of running boxes (the objects of a box's kind).
    """

    def __init__(self, runners: Sequence[InformerRunner], served: Mapping[str, ServedBox]) -> None:
        super().__init__(runners)
        self._served = served

    def find(self, kind: Kind, namespace: str | None = None) -> InformerRunner | None:
        """Return the informer that watches `kind` in `namespace`, or None if there is none.

        Informers of the parents of running boxes (the objects of a box's kind) are searched, too.
        """
        parents = (box.reconciler.informers.find(kind, namespace) for box in self._served.values() if box.kind == kind)
        return super().find(kind, namespace) or next(parents, None)


@attrs.frozen
class AppliedInstallation:
    """The facts about an installation that runs applied boxes, for messages that say how to grant missing rights.

    Applied boxes are operators that users define by OperatorBox objects. `command` is the shell command that prints the
    manifests with the roles of this process. `account` is the command-line option that names the ServiceAccount to
    which the rights of the boxes are granted. `serves_webhooks` is True if this process serves webhooks, which boxes
    with several versions need.
    """

    account: str = "--service-account vworkspace-boxes"
    command: str = "vworkspace-operator box manifests --applied"
    serves_webhooks: bool = False

    def remedy(self, right: Right) -> str:
        """Return the shell command that grants `right` to this process: print its manifests, and apply them."""
        return f"{self.command} | kubectl apply --server-side -f -"

    def not_permitted(self, right: Right) -> str:
        """Return the error message that this process lacks `right`, with the command that grants it."""
        return f"the operator may not {right}. To fix: {self.remedy(right)}"


class AppliedBoxes:
    """The OperatorBoxes in a cluster, and the controllers that this process runs for them.

    An OperatorBox defines an operator for one kind. The objects of that kind are called the parents of the box; their
    controllers are loaded into `manager`. No box may have a kind whose status one of the writers in `taken` (the other
    controllers of the process) writes. The ControllerRevisions of boxes are in `namespace`.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        events: EventSink,
        manager: ControllerManager,
        options: ManagerOptions,
        namespace: str,
        taken: Sequence[StatusWriter] = (),
        installed: AppliedInstallation = AppliedInstallation(),
    ) -> None:
        self._api, self._clock, self._events, self._manager, self._options = api, clock, events, manager, options
        self._namespace, self._installed = namespace, installed
        self._serving = ServedBoxes(api, clock, events, manager, options, tuple(taken), self._parents_changed)
        self._definitions = KnownDefinitions(api)
        self._requirements = KnownRequirements(api, clock, installed.serves_webhooks)
        self._granted: set[tuple[str, CompositeAccess]] = set()
        self._work: Work | None = None
        self.caches = _Caches((self._informer(OPERATOR_BOX), self._informer(CONTROLLER_REVISION)), self.served)

    @property
    def served(self) -> Mapping[str, ServedBox]:
        """The boxes whose parents (the objects of a box's kind) this process reconciles, by the name of the box."""
        return self._serving.boxes

    def follow(self, follower: Follower) -> None:
        """Register `follower`, which is called with each reconciler of a box's parents that is loaded or unloaded.

        Parents are the objects of a box's kind. The second argument of a call is True for loaded, False for unloaded.
        For reconcilers that are already loaded, `follower` is called at once.
        """
        self._serving.follow(follower)

    def _informer(self, kind: Kind) -> InformerRunner:
        store = ObjectStore(kind, transform=without_managed_fields, indexers={_BY_BOX: _box_of, _BY_CRD: _crd_of})
        is_box = kind == OPERATOR_BOX
        return InformerRunner(
            self._api,
            kind,
            clock=self._clock,
            random=self._options.random,
            namespace=None if is_box else self._namespace,
            label_selector="" if is_box else BOX_NAME,
            store=store,
        )

    def controller(self) -> ControllerDefinition:
        """Return the definition of the controller that reconciles OperatorBoxes, from which a manager runs it."""
        boxes, revisions = self.caches
        rules = PassRules(OPERATOR_BOX, AppliedBox.read, self._decide, MANAGER, FINALIZER, idempotent=True, rounds=6)
        reconciler = DecisionReconciler(
            rules,
            lambda stored: AppliedBox.read(stored.manifest),
            self._observe,
            self._api,
            self._events,
            LiveRereads(self.caches, self._clock),
            absent=self._absent,
        )
        definitions = self._manager.shared.find(CUSTOM_RESOURCE_DEFINITION)
        return ControllerDefinition(
            NAME,
            OPERATOR_BOX,
            reconciler,
            self.caches,
            For((boxes,)),
            StatusManager(
                StatusOwner(MANAGER, {OPERATOR_BOX: frozenset(CONDITIONS)}),
                self._installed.not_permitted,
                self._installed.remedy,
                WORDS,
                "boxes",
            ),
            watches=(
                Watches((revisions,), lambda change: _keys(_box_of(change.object))),
                Watches(filter(None, (definitions,)), self._keys_of_definition),
            ),
            resync=60.0,
            synced=self._synced,
            background=(self._follow,),
        )

    async def _synced(self) -> None:
        await self.caches.wait_for_sync()
        await self._manager.shared.wait_for_sync()

    async def _follow(self, work: Work) -> None:
        self._work = work
        await anyio.sleep_forever()

    def _keys_of_definition(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the OperatorBoxes that were compiled with the changed CRD."""
        return _keys(self._definitions.crd_changed(change.ref.name))

    # --- observation --------------------------------------------------------------------------------------------------

    def _state(self, applied: AppliedBox, observed: BoxSnapshot) -> BoxState:
        return BoxState(applied, observed, self._clock.now(), self._namespace)

    def _decide(self, applied: AppliedBox, observed: BoxSnapshot) -> Decision:
        return decide_with_status(self._state(applied, observed))

    async def _observe(self, key: ObjectRef, applied: AppliedBox, stored: StoredObject) -> BoxSnapshot:
        """Return the snapshot of an OperatorBox for its next decision.

        Before that, load or unload the controller of the box's parents (the objects of its kind), as the box requires.
        """
        stored_revisions = self.caches.store(CONTROLLER_REVISION, self._namespace).indexed(_BY_BOX, key.name)
        history = read_revisions(stored_revisions)
        self._definitions.keep(key.name, (applied.spec, *(revision.definition for revision in history)))
        loaded = await self._definitions.of(key.name, applied.spec)
        owner = self._owner(key.name, history[0].definition if history else applied.spec)
        needed = await self._requirements.of(applied.metadata, loaded.box)
        changed = await self._changed(applied.metadata.name, loaded.box, history)
        problems = loaded.problems or (*owner, *changed, *needed.problems)
        releases = applied.deletion_policy is DeletionPolicy.ORPHAN and applied.metadata.deletion_timestamp is not None
        problem = await self._serve(key.name, () if releases or owner else history)
        served = self.served.get(key.name)
        kind = await self._kind(key.name, loaded, history)
        unserved = problem or ("" if served is None else served.obstacle)
        filling = None if served is None else served.filling(self._clock.monotonic())
        observed = BoxSnapshot(
            objects={ref: each async for ref, each in self._objects(loaded.box, kind, served, stored_revisions)},
            box=None if problems else loaded.box,
            problems=problems,
            gates=loaded.gates,
            unserved=unserved,
            filling=filling,
            serving=frozenset() if served is None or unserved else frozenset(served.revisions),
            kind=kind,
            is_anothers=bool(owner),
            readings=ParentReadings() if served is None else served.readings,
            webhook=needed.webhook,
        )
        observed = attrs.evolve(observed, lacking=await self._missing_rights(key.name, observed, history))
        state = self._state(applied, observed)
        if served is None:
            return observed
        served.assignments = served_assignments(history, served.revisions, state.in_use)
        if not state.needs_judgement:
            return observed
        judgement = await served.judge.judge(state.waiting, observed.objects, state.target, state.now)
        return attrs.evolve(observed, judgement=judgement)

    def _owner(self, name: str, definition: Mapping[str, Any]) -> tuple[BoxProblem, ...]:
        """Return a problem if another box already owns the kind that the box `name` defines, else an empty tuple.

        `definition` is a spec of the box. It contains or names the CRD of the kind.
        """
        crd = crd_name_of(definition)
        accepted = self.caches.store(CONTROLLER_REVISION, self._namespace).indexed(_BY_CRD, crd)
        boxes = {name for _, name in self.caches.store(OPERATOR_BOX).names()}
        owner = owner_of_kind(accepted, boxes) or name
        message = f"the objects of {crd} are those of the box {owner}: a kind has one box"
        return () if owner == name else (BoxProblem(Place("spec.crd"), message),)

    async def _objects(
        self, box: Box | None, kind: Kind | None, served: ServedBox | None, revisions: Sequence[Manifest]
    ) -> AsyncIterator[tuple[ObjectRef, Manifest]]:
        """Yield the objects that belong in the snapshot of a box, each with its reference.

        These are the box's `revisions` and parents (the objects of its kind). The CRD of the kind is included if the
        box contains it, and all Namespaces are included if the rollout selects namespaces.
        """
        for manifest in revisions:
            yield ref_of(manifest, CONTROLLER_REVISION), manifest
        if served is not None:
            for informer in served.reconciler.parents:
                for manifest in await self._all_in(informer):
                    yield ref_of(manifest, served.kind), manifest
        elif kind is not None:
            for manifest in await all_of(self._api, kind):
                yield ref_of(manifest, kind), manifest
        if box is None:
            return
        if box.model.spec.crd.spec is not None:
            ref = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, box.kind.crd_name)
            if (live := await find(self._api, ref)) is not None:
                yield ref, live
        if any(wave.namespaces for wave in box.model.spec.rollout.waves):
            for manifest in await all_of(self._api, NAMESPACE):
                yield ref_of(manifest, NAMESPACE), manifest

    async def _all_in(self, informer: InformerRunner) -> Sequence[Manifest]:
        """Return all objects of an informer's kind and namespace from its cache.

        Until the informer's first list is complete, list the objects from the API server instead (PH-10).
        """
        if informer.has_synced:
            return [*informer.store.objects()]
        return await all_of(self._api, informer.kind, namespace=informer.namespace)

    async def _missing_rights(self, name: str, observed: BoxSnapshot, history: Sequence[Revision]) -> str:
        """Return the error message about the rights that this process lacks to run the box `name`, or "" if it lacks
        none.

        Rights are needed on the kinds that the box creates now. Rights are also needed on kinds that only revisions in
        `history` created, so that the objects that are left can be pruned.
        """
        box = observed.box
        if box is None:
            return ""
        if lacking := await self._lacking(name, access_of((box,))):
            return told_of(name, self._installed.account, lacking)
        every = [(each.name, (await self._definitions.of(name, each.definition)).box) for each in history]
        former = {revision: former for revision, former in every if former is not None}
        parents = (manifest for ref, manifest in observed.objects.items() if ref.kind == observed.kind)
        retired = retired_kinds(box, former, parents)
        lacking = await self._lacking(name, access_to_retired(box, retired))
        return told_of(name, self._installed.account, lacking, retired)

    async def _lacking(self, name: str, access: CompositeAccess) -> tuple[Right, ...]:
        """Return the rights in `access` that this process lacks to run the box `name`, or () if it has all of them.

        Once the process has all of them, that answer is cached, and the API server is not asked again.
        """
        if (name, access) in self._granted:
            return ()
        lacking = await lacking_rights(self._api, access, self._options.namespaces)
        if not lacking:
            self._granted.add((name, access))
        return lacking

    async def _kind(self, name: str, loaded: LoadedDefinition, history: Sequence[Revision]) -> Kind | None:
        """Return the kind of the box `name`, or None if neither its definition nor a revision in `history` compiles.

        The accepted revisions come first: a definition with another kind is refused, and the objects are those of the
        accepted one.
        """
        every = [*[await self._definitions.of(name, revision.definition) for revision in history], loaded]
        return next((each.box.kind for each in every if each.box is not None), None)

    async def _changed(self, name: str, box: Box | None, history: Sequence[Revision]) -> list[BoxProblem]:
        """Return the problems of a new definition of the box `name`.

        There is a problem if the definition has another kind than the revisions in `history`, or if it starts or stops
        using a ServiceAccount. There is also a problem if the CRD in the cluster lacks rules of the box.
        """
        former = [(await self._definitions.of(name, each.definition)).box for each in history]
        return [*changed_problems(box, former), *unenforced_problems(box)]

    # --- serving ------------------------------------------------------------------------------------------------------

    async def _serve(self, name: str, history: Sequence[Revision]) -> str:
        """Start, restart or stop the controller of the parents of the box `name` (the objects of its kind).

        The controller reconciles with the revisions in `history` that compile and for which this process has all
        rights. If there is no such revision, the controller is stopped. Return "", or the reason why the controller
        cannot start.
        """
        boxes, compiled = {}, {}
        for revision in history:
            loaded = await self._definitions.of(name, revision.definition)
            if loaded.box is not None and not await self._lacking(name, access_of((loaded.box,))):
                boxes[revision.name], compiled[revision.name] = loaded.box, loaded.read
        return await self._serving.serve(name, boxes, compiled, history)

    def _parents_changed(self, name: str) -> None:
        if self._work is not None:
            self._work.enqueue(ObjectRef(OPERATOR_BOX, None, name), after=_COALESCED)

    async def _absent(self, key: ObjectRef) -> ReconcileResult:
        self._definitions.keep(key.name, ())
        self._requirements.forget(key.name)
        self._granted = {granted for granted in self._granted if granted[0] != key.name}
        await self._serving.stop(key.name)
        return ReconcileResult()


def _box_of(manifest: Manifest) -> Iterator[str]:
    name = get_path(manifest, "metadata", "labels", BOX_NAME)
    if isinstance(name, str):
        yield name


def _crd_of(manifest: Manifest) -> Iterator[str]:
    definition = get_path(manifest, "data", "spec")
    if isinstance(definition, Mapping):
        yield crd_name_of(definition)


def _keys(names: Iterator[str] | Sequence[str]) -> Iterator[ObjectRef]:
    return (ObjectRef(OPERATOR_BOX, None, name) for name in names)
