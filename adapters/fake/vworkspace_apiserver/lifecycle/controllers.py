"""The controllers that a bare API server lacks, run on demand: garbage collection and namespace deletion.

They act through the server like any client, under their own names, so that the audit log shows them.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from vworkspace_apiserver.lifecycle.garbage_collector import Collector, Node
from vworkspace_apiserver.lifecycle.namespaces import NAMESPACES, Namespaces
from vworkspace_apiserver.lifecycle.registry import Registry
from vworkspace_apiserver.model.calls import Caller, DeleteOptions, RequestTarget, WriteOptions
from vworkspace_apiserver.model.failure import ApiFailure
from vworkspace_apiserver.model.records import Record
from vworkspace_apiserver.model.replies import Reply
from vworkspace_apiserver.model.resources import Resource
from vworkspace_apiserver.storage.store import Store
from vworkspace_core.ports import PatchType

_AGENT: Final = "kube-controller-manager/v1.36.2"
_GROUPS: Final = ("system:masters", "system:serviceaccounts", "system:authenticated")
GARBAGE_COLLECTOR: Final = Caller("system:serviceaccount:kube-system:generic-garbage-collector", _GROUPS, _AGENT)
NAMESPACE_CONTROLLER: Final = Caller("system:serviceaccount:kube-system:namespace-controller", _GROUPS, _AGENT)


class Writes(Protocol):
    """The writes that controllers need of the server."""

    def delete(self, target: RequestTarget, options: DeleteOptions, caller: Caller) -> Reply:
        """DELETE of one object."""
        ...

    def patch(
        self, target: RequestTarget, patch: Any, patch_type: PatchType, options: WriteOptions, caller: Caller
    ) -> Reply:
        """PATCH of one object."""
        ...

    def update(self, target: RequestTarget, body: Any, options: WriteOptions, caller: Caller) -> Reply:
        """PUT of one object or subresource."""
        ...


class Controllers:
    """Runs the garbage collector and the namespace controller until both are idle."""

    def __init__(self, store: Store, registry: Registry, namespaces: Namespaces, server: Writes) -> None:
        self._store = store
        self._registry = registry
        self._namespaces = namespaces
        self._server = server
        self._collector = Collector(store)

    @property
    def idle(self) -> bool:
        """Whether a run would do nothing."""
        return self._collector.idle and self._namespaces.idle

    def run(self) -> int:
        """Work until nothing is left; returns how many objects and namespaces were looked at."""
        looked = 0
        while not self.idle:
            looked += self._collector.run(self)
            for namespace in self._namespaces.take_suspects():
                looked += 1
                self._empty(namespace)
        return looked

    def locate(self, reference: Mapping[str, Any], dependent: Node) -> Node | None:
        """Where an owner would live: in the dependent's namespace, or in none for a cluster-scoped kind."""
        resource = self._registry.of_kind(reference["apiVersion"], reference["kind"])
        namespace = dependent[1][0]
        if resource is None or (resource.namespaced and not namespace):
            return None
        return (resource.storage, (namespace if resource.namespaced else "", reference["name"]))

    def delete(self, node: Node, record: Record, propagation: str) -> None:
        """Delete garbage as it was seen."""
        options = DeleteOptions(uid=record.uid, resource_version=str(record.version), propagation=propagation)
        self._try(lambda target: self._server.delete(target, options, GARBAGE_COLLECTOR), node)

    def merge(self, node: Node, record: Record, metadata: Mapping[str, Any]) -> None:
        """Take owner references or finalizers off an object."""
        patch = {"metadata": {"uid": record.uid, "resourceVersion": str(record.version), **metadata}}
        self._try(
            lambda target: self._server.patch(target, patch, PatchType.MERGE, WriteOptions(), GARBAGE_COLLECTOR), node
        )

    def _try(self, act: Callable[[RequestTarget], Reply], node: Node) -> None:
        """Act on a node. What admission or validation refuses stays as it is; the audit log has the refusal."""
        where, (namespace, name) = node
        with suppress(ApiFailure):
            act(RequestTarget(self._registry.of_group(*where)[0].as_stored(), namespace or None, name))

    def _empty(self, namespace: str) -> None:
        """Delete what is in a terminating namespace; when nothing is left, let the namespace go."""
        empty = True
        for resource in self._namespaced():
            for record in list(self._store.scan(resource.storage, namespace)):
                empty = False
                if not record.deleting:
                    target = RequestTarget(resource, namespace, record.key[1])
                    self._server.delete(target, DeleteOptions(propagation="Background"), NAMESPACE_CONTROLLER)
        if empty:
            target = RequestTarget(self._registry.of_group(*NAMESPACES)[0], name=namespace, subresource="finalize")
            self._server.update(target, {"spec": {}}, WriteOptions(), NAMESPACE_CONTROLLER)

    def _namespaced(self) -> list[Resource]:
        """One resource for every table of namespaced objects."""
        return [
            resource.as_stored() for resource in {one.storage: one for one in self._registry if one.namespaced}.values()
        ]
