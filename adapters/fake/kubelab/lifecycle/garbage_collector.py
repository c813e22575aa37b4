"""The garbage collector, which deletes objects that no owner keeps (W-32, W-32b).

An owner keeps its dependents unless it no longer exists, or waits until its dependents are deleted. Each write updates
an index of owner references and a list of objects that may have become garbage; a run examines these objects only. The
collector writes through the server like any client, with the user name that it has in a cluster.
`decide_dependent` is the pure decision for one dependent.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final, Protocol

import attrs

from kubelab.lifecycle.registry import ResourceRegistry
from kubelab.model.calls import FOREGROUND, ORPHAN, Caller, DeleteOptions, Reply, RequestTarget, WriteOptions
from kubelab.model.failure import ApiFailure
from kubelab.model.records import GroupResource, ObjectKey, Record, StoredChange
from kubelab.storage.store import Store
from purekube.ports import PatchType

Node = tuple[GroupResource, ObjectKey]
"""The place of a stored object: its resource (group and plural) and its key (namespace and name)."""


# kubernetes: controller/garbagecollector/graph_builder.go, DefaultIgnoredResources: Events are never garbage, whatever
# their owner references say.
_EVENTS: Final[GroupResource] = ("events.k8s.io", "events")


class OwnerState(Enum):
    """The states of an owner, which is the object that an owner reference names, as the garbage collector sees it.

    An owner stays (SOLID), is being deleted and waits until its dependents are deleted (WAITING), or does not exist
    (GONE).
    """

    SOLID = "solid"
    """The owner exists and does not wait for its dependents, or its kind is unknown. The dependent is kept."""
    WAITING = "waiting"
    """The owner is being deleted in the foreground and waits for its dependents."""
    GONE = "gone"
    """The owner does not exist: there is no object of its name, or only one with another uid."""


@attrs.frozen
class DropReferences:
    """The decision to keep a dependent, but to remove its references to the owners with these uids."""

    uids: frozenset[str]


@attrs.frozen
class DeleteDependent:
    """The decision to delete a dependent. `propagation` is the policy for the dependents of this dependent."""

    propagation: str


Verdict = DropReferences | DeleteDependent | None


def decide_dependent(owners: Mapping[str, OwnerState], finalizers: tuple[str, ...], has_dependents: bool) -> Verdict:
    """Return what to do with a dependent (an object with owner references), given the state of each owner by uid.

    The result is to delete it, to drop some of its references, or None if it stays unchanged. `finalizers` are the
    dependent's finalizers; `has_dependents` says whether the dependent is an owner itself.
    """
    lost = frozenset(uid for uid, state in owners.items() if state is not OwnerState.SOLID)
    if not lost:
        return None
    # One remaining owner keeps the dependent; only the references to lost owners are removed (W-32b).
    if len(lost) < len(owners):
        return DropReferences(lost)
    # kubernetes: controller/garbagecollector/garbagecollector.go, attemptToDeleteItem: foreground deletion goes down
    # the tree, and a policy that a finalizer of the dependent names counts only otherwise.
    if OwnerState.WAITING in owners.values() and has_dependents:
        return DeleteDependent("Foreground")
    if ORPHAN in finalizers:
        return DeleteDependent("Orphan")
    return DeleteDependent("Foreground" if FOREGROUND in finalizers else "Background")


AGENT: Final = "kube-controller-manager/v1.36.3"
# Both controllers have narrow cluster roles in a real cluster. Here they are masters, because no bootstrap roles exist.
GROUPS: Final = ("system:masters", "system:serviceaccounts", "system:authenticated")
GARBAGE_COLLECTOR: Final = Caller("system:serviceaccount:kube-system:generic-garbage-collector", GROUPS, AGENT)


class Writes(Protocol):
    """The methods of the API server by which the garbage collector and the namespace controller write."""

    def delete(self, target: RequestTarget, options: DeleteOptions, caller: Caller) -> Reply:
        """Delete one object, and return the answer."""
        ...

    def patch(
        self, target: RequestTarget, patch: Any, patch_type: PatchType, options: WriteOptions, caller: Caller
    ) -> Reply:
        """Patch one object, and return the answer with the patched object."""
        ...

    def update(self, target: RequestTarget, body: Any, options: WriteOptions, caller: Caller) -> Reply:
        """Replace one object or subresource (PUT), and return the answer with the new object."""
        ...


class Collector:
    """A garbage collector: an index of each owner's dependents, and a queue of objects that may be garbage."""

    def __init__(self, store: Store, registry: ResourceRegistry, server: Writes) -> None:
        self._store = store
        self._registry = registry
        self._server = server
        self._alive: dict[str, Node] = {}
        self._dependents: dict[str, dict[Node, bool]] = {}
        self._suspects: dict[Node, None] = {}
        store.observe(self._on_change)

    @property
    def idle(self) -> bool:
        """True if no object waits to be examined."""
        return not self._suspects

    def suspect(self, node: Node) -> None:
        """Queue the object stored at `node`, which may have become garbage. The next call of `run` examines it."""
        self._suspects[node] = None

    def run(self) -> int:
        """Examine the queued objects until the queue is empty. Return how many objects were examined."""
        looked = 0
        while self._suspects:
            node = next(iter(self._suspects))
            del self._suspects[node]
            record = self._store.get(*node)
            looked += 1
            if record is None:
                continue
            if record.deleting:
                self._finish_deletion(node, record)
            elif record.owners:
                self._attend(node, record)
        return looked

    def _on_change(self, where: GroupResource, change: StoredChange) -> None:
        if where == _EVENTS:
            return
        record = change.after or change.before
        assert record is not None, "a change has a state before or after it"
        node = (where, record.key)
        old = change.before.owners if change.before else {}
        new = change.after.owners if change.after else {}
        if old is not new:
            self._relink(node, old, new)
        if change.after is None:
            self._alive.pop(record.uid, None)
            self._suspects.update(dict.fromkeys(self._dependents.get(record.uid, ())))
        else:
            self._alive[record.uid] = node
            self._note_write(node, change.after, old != new)

    def _relink(self, node: Node, old: Mapping[str, bool], new: Mapping[str, bool]) -> None:
        for uid in old.keys() - new.keys():
            dependents = self._dependents[uid]
            del dependents[node]
            if not dependents:
                del self._dependents[uid]
        for uid, blocks in new.items():
            self._dependents.setdefault(uid, {})[node] = blocks
        for uid in old:
            if uid in self._alive:
                self.suspect(self._alive[uid])

    def _note_write(self, node: Node, record: Record, owners_changed: bool) -> None:
        if owners_changed or (record.deleting and (FOREGROUND in record.finalizers or ORPHAN in record.finalizers)):
            self.suspect(node)
        if record.deleting and FOREGROUND in record.finalizers:
            self._suspects.update(dict.fromkeys(self._dependents.get(record.uid, ())))

    def _attend(self, node: Node, record: Record) -> None:
        references = record.shared()["metadata"]["ownerReferences"]
        states = {ref["uid"]: self._state(ref, node) for ref in references}
        match decide_dependent(states, record.finalizers, record.uid in self._dependents):
            case DropReferences(uids):
                self._merge(node, record, _without_owner(references, uids))
            case DeleteDependent(propagation):
                if propagation == "Foreground" and self._in_circle(record):
                    # attemptToDeleteItem does this on the same suspicion, which has false positives: a dependent in
                    # foreground deletion need not lead back to the object.
                    unblocked = [{**ref, "blockOwnerDeletion": False} for ref in references]
                    self._merge(node, record, {"ownerReferences": unblocked})
                    record = self._store.get(*node) or record
                self._delete(node, record, propagation)
            case None:
                pass

    def _in_circle(self, record: Record) -> bool:
        """Report whether a dependent of the object in `record` is being deleted in the foreground.

        If so, the object and the dependent could wait for each other's deletion forever.
        """
        dependents = (self._store.get(*node) for node in self._dependents.get(record.uid, ()))
        return any(
            dependent is not None and dependent.deleting and FOREGROUND in dependent.finalizers
            for dependent in dependents
        )

    def _state(self, reference: Mapping[str, Any], dependent: Node) -> OwnerState:
        owner = self._locate(reference, dependent)
        if owner is None:
            return OwnerState.SOLID
        record = self._store.get(*owner)
        if record is None or record.uid != reference["uid"]:
            return OwnerState.GONE
        # An owner that waits for anything else, such as a foreign finalizer, still exists and keeps its dependents.
        waiting = record.deleting and FOREGROUND in record.finalizers
        return OwnerState.WAITING if waiting else OwnerState.SOLID

    def _finish_deletion(self, node: Node, record: Record) -> None:
        dependents = self._dependents.get(record.uid, {})
        if ORPHAN in record.finalizers:
            self._orphan(record.uid, list(dependents))
            self._merge(node, record, _finalizers_without(record, ORPHAN))
        # kubernetes: controller/garbagecollector/garbagecollector.go, processDeletingDependentsItem: only dependents
        # with blockOwnerDeletion are waited for.
        elif FOREGROUND in record.finalizers and not any(dependents.values()):
            self._merge(node, record, _finalizers_without(record, FOREGROUND))

    def _orphan(self, uid: str, dependents: list[Node]) -> None:
        for node in dependents:
            record = self._store.get(*node)
            assert record is not None, "the index of dependents follows every write"
            self._merge(node, record, _without_owner(record.shared()["metadata"]["ownerReferences"], frozenset({uid})))

    def _locate(self, reference: Mapping[str, Any], dependent: Node) -> Node | None:
        """Return the place in the store of the owner that `reference` names: its resource and its key.

        The owner may not exist: this is not checked. It is in the namespace of `dependent`, or in no namespace if it is
        cluster-scoped. Return None if the owner's kind is unknown, or if the owner is namespaced and the dependent is
        not.
        """
        resource = self._registry.of_kind(reference["apiVersion"], reference["kind"])
        namespace = dependent[1][0]
        # kubernetes: controller/garbagecollector/garbagecollector.go, isDangling: an unknown kind is an error that is
        # retried, and a namespaced owner of a cluster-scoped object is given up. Either way nothing is deleted.
        if resource is None or (resource.namespaced and not namespace):
            return None
        return (resource.storage, (namespace if resource.namespaced else "", reference["name"]))

    def _delete(self, node: Node, record: Record, propagation: str) -> None:
        """Delete the object stored at `node` (its resource and its key).

        Nothing happens if the object has changed since its state `record` was read. `propagation` is the policy for the
        object's own dependents.
        """
        # kubernetes: controller/garbagecollector/operations.go, deleteObject has the same two preconditions, so that an
        # object that has changed its owners meanwhile is not deleted.
        options = DeleteOptions(uid=record.uid, resource_version=str(record.version), propagation=propagation)
        self._try(lambda target: self._server.delete(target, options, GARBAGE_COLLECTOR), node)

    def _merge(self, node: Node, record: Record, metadata: Mapping[str, Any]) -> None:
        """Merge the patch `metadata` into the metadata of the object stored at `node` (its resource and its key).

        Nothing happens if the object has changed since its state `record` was read.
        """
        patch = {"metadata": {"uid": record.uid, "resourceVersion": str(record.version), **metadata}}
        self._try(
            lambda target: self._server.patch(target, patch, PatchType.MERGE, WriteOptions(), GARBAGE_COLLECTOR), node
        )

    def _try(self, act: Callable[[RequestTarget], Reply], node: Node) -> None:
        """Run the write `act` on the object at `node`, the place where an object is stored.

        A refused write is skipped; the audit log has the refusal.
        """
        where, (namespace, name) = node
        with suppress(ApiFailure):
            act(RequestTarget(self._registry.of_group(*where)[0].as_stored(), namespace or None, name))


def _without_owner(references: list[Mapping[str, Any]], uids: frozenset[str]) -> dict[str, Any]:
    return {"ownerReferences": [ref for ref in references if ref["uid"] not in uids] or None}


def _finalizers_without(record: Record, finalizer: str) -> dict[str, Any]:
    return {"finalizers": [name for name in record.finalizers if name != finalizer] or None}
