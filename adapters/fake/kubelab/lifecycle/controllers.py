"""The garbage collector and the namespace controller, which a real cluster runs in kube-controller-manager.

Here the API server runs them on demand. They write through the server like any client, with the user names that they
have in a cluster, so that the audit log shows them.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from kubelab.lifecycle.garbage_collector import Collector, Node
from kubelab.lifecycle.namespaces import NAMESPACES, Namespaces
from kubelab.lifecycle.registry import ResourceRegistry
from kubelab.model.calls import Caller, DeleteOptions, Reply, RequestTarget, WriteOptions
from kubelab.model.failure import ApiFailure
from kubelab.model.records import Record
from kubelab.model.resources import ServedResource
from kubelab.storage.store import Store
from purekube.ports import PatchType

_AGENT: Final = "kube-controller-manager/v1.36.3"
# Both controllers have narrow cluster roles in a real cluster. Here they are masters, because no bootstrap roles exist.
_GROUPS: Final = ("system:masters", "system:serviceaccounts", "system:authenticated")
GARBAGE_COLLECTOR: Final = Caller("system:serviceaccount:kube-system:generic-garbage-collector", _GROUPS, _AGENT)
NAMESPACE_CONTROLLER: Final = Caller("system:serviceaccount:kube-system:namespace-controller", _GROUPS, _AGENT)


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


class BuiltinControllers:
    """The garbage collector and the namespace controller. They work only within `run`, until both have no work left."""

    def __init__(self, store: Store, registry: ResourceRegistry, namespaces: Namespaces, server: Writes) -> None:
        self._store = store
        self._registry = registry
        self._namespaces = namespaces
        self._server = server
        self._collector = Collector(store)

    @property
    def idle(self) -> bool:
        """True if no object waits for the garbage collector, and no namespace for the namespace controller."""
        return self._collector.idle and self._namespaces.idle

    def run(self) -> int:
        """Collect garbage and empty terminating namespaces until no such work is left.

        Return how many objects and namespaces were examined.
        """
        looked = 0
        while not self.idle:
            looked += self._collector.run(self)
            for namespace in self._namespaces.take_suspects():
                looked += 1
                self._empty(namespace)
        return looked

    def locate(self, reference: Mapping[str, Any], dependent: Node) -> Node | None:
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

    def delete(self, node: Node, record: Record, propagation: str) -> None:
        """Delete the object stored at `node` (its resource and its key).

        Nothing happens if the object has changed since its state `record` was read. `propagation` is the policy for the
        object's own dependents.
        """
        # kubernetes: controller/garbagecollector/operations.go, deleteObject has the same two preconditions, so that an
        # object that has changed its owners meanwhile is not deleted.
        options = DeleteOptions(uid=record.uid, resource_version=str(record.version), propagation=propagation)
        self._try(lambda target: self._server.delete(target, options, GARBAGE_COLLECTOR), node)

    def merge(self, node: Node, record: Record, metadata: Mapping[str, Any]) -> None:
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

    def _empty(self, namespace: str) -> None:
        """Delete the objects in a terminating namespace; when none are left, finalize the namespace."""
        empty = True
        for resource in self._namespaced():
            for record in list(self._store.scan(resource.storage, namespace)):
                empty = False
                # kubernetes: controller/namespace/deletion/namespaced_resources_deleter.go, deleteCollection uses
                # Background, too; objects with finalizers are waited for.
                if not record.deleting:
                    target = RequestTarget(resource, namespace, record.key[1])
                    self._server.delete(target, DeleteOptions(propagation="Background"), NAMESPACE_CONTROLLER)
        if empty:
            target = RequestTarget(self._registry.of_group(*NAMESPACES)[0], name=namespace, subresource="finalize")
            self._server.update(target, {"spec": {}}, WriteOptions(), NAMESPACE_CONTROLLER)

    def _namespaced(self) -> list[ServedResource]:
        """Return each namespaced resource once, although it may be served in several versions.

        Its objects are read in their stored version, so no conversion is needed.
        """
        return [
            resource.as_stored() for resource in {one.storage: one for one in self._registry if one.namespaced}.values()
        ]
