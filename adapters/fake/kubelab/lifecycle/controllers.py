"""The garbage collector and the namespace controller, which a real cluster runs in kube-controller-manager.

Here the API server runs them on demand. They write through the server like any client, with the user names that they
have in a cluster, so that the audit log shows them.
"""

from typing import Final

from kubelab.lifecycle.garbage_collector import AGENT, GROUPS, Collector, Writes
from kubelab.lifecycle.namespaces import NAMESPACES, Namespaces
from kubelab.lifecycle.registry import ResourceRegistry
from kubelab.model.calls import Caller, DeleteOptions, RequestTarget, WriteOptions
from kubelab.model.resources import ServedResource
from kubelab.storage.store import Store

NAMESPACE_CONTROLLER: Final = Caller("system:serviceaccount:kube-system:namespace-controller", GROUPS, AGENT)


class BuiltinControllers:
    """The garbage collector and the namespace controller. They work only within `run`, until both have no work left."""

    def __init__(self, store: Store, registry: ResourceRegistry, namespaces: Namespaces, server: Writes) -> None:
        self._store = store
        self._registry = registry
        self._namespaces = namespaces
        self._server = server
        self._collector = Collector(store, registry, server)

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
            looked += self._collector.run()
            for namespace in self._namespaces.take_suspects():
                looked += 1
                self._empty(namespace)
        return looked

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
