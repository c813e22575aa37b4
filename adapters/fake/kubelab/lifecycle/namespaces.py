"""Namespaces: the objects that may be created in them, and their deletion (NamespaceLifecycle, S-19)."""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.lifecycle.garbage_collector import AGENT, GROUPS, Writes
from kubelab.lifecycle.registry import ResourceRegistry
from kubelab.model.calls import Caller, DeleteOptions, RequestTarget, WriteOptions, WriteOutcome
from kubelab.model.failure import ApiFailure, forbidden, namespace_terminating, not_found
from kubelab.model.records import GroupResource, StoredChange
from kubelab.model.resources import ServedResource
from kubelab.storage.store import Store
from purekube.apimachinery.manifest import get_path

NAMESPACE_CONTROLLER: Final = Caller("system:serviceaccount:kube-system:namespace-controller", GROUPS, AGENT)
NAMESPACES: Final[GroupResource] = ("", "namespaces")
# kubernetes: controlplane/controller/systemnamespaces creates them.
SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every API server creates."""
# apiserver: admission/plugin/namespace/lifecycle/admission.go, init; kube-node-lease may be deleted.
_IMMORTAL: Final = frozenset({"default", "kube-public", "kube-system"})


def undeletable(target: RequestTarget) -> ApiFailure | None:
    """Return the 403 failure if `target` is a namespace that may not be deleted, such as `default`; otherwise None."""
    if target.resource.storage == NAMESPACES and target.name in _IMMORTAL:
        return forbidden("", "namespaces", target.name, "this namespace may not be deleted")
    return None


def finalized(live: Mapping[str, Any], body: Any) -> WriteOutcome:
    """Return the outcome of a PUT on a namespace's `/finalize`: the namespace `live` with the finalizers in `body`.

    Only `spec.finalizers` is taken from `body`.
    """
    finalizers = get_path(body, "spec", "finalizers")
    spec = {key: value for key, value in (live.get("spec") or {}).items() if key != "finalizers"}
    if finalizers:
        spec["finalizers"] = finalizers
    return WriteOutcome({**live, "spec": spec}, changed=spec != live.get("spec"))


class Namespaces:
    """The part of the in-memory API server that refuses creates in missing and terminating namespaces.

    It is the namespace controller as well, which a real cluster runs in kube-controller-manager: it records which
    terminating namespaces are to be examined, and empties them in `run`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._terminating: dict[str, None] = {}
        self._suspects: dict[str, None] = {}
        store.observe(self._on_change)

    def admit(self, target: RequestTarget) -> None:
        """Raise ApiFailure if an object may not be created in its namespace. `target` is the object of the create.

        The status is 404 if the namespace does not exist, and 403 if it is terminating.
        """
        namespace = target.namespace
        if not target.resource.namespaced or namespace is None:
            return
        record = self._store.get(NAMESPACES, ("", namespace))
        if record is None:
            raise not_found("", "namespaces", namespace)
        # The real plugin looks at the phase in the status, which a DELETE sets in the same write as the
        # deletionTimestamp.
        if record.deleting:
            raise namespace_terminating(target.resource.group, target.resource.plural, target.name, namespace)

    def run(self, registry: ResourceRegistry, server: Writes) -> int:
        """Empty the terminating namespaces that have changed since the last call, or finalize them if they are empty.

        Return how many namespaces were examined. Like any client, the namespace controller writes through `server`,
        with the user name that it has in a cluster, so that the audit log shows it.
        """
        suspects = [name for name in self._suspects if name in self._terminating]
        self._suspects.clear()
        for namespace in suspects:
            self._empty(namespace, registry, server)
        return len(suspects)

    def _empty(self, namespace: str, registry: ResourceRegistry, server: Writes) -> None:
        """Delete the objects in a terminating namespace; when none are left, finalize the namespace."""
        empty = True
        for resource in _namespaced(registry):
            for record in list(self._store.scan(resource.storage, namespace)):
                empty = False
                # kubernetes: controller/namespace/deletion/namespaced_resources_deleter.go, deleteCollection uses
                # Background, too; objects with finalizers are waited for.
                if not record.deleting:
                    target = RequestTarget(resource, namespace, record.key[1])
                    server.delete(target, DeleteOptions(propagation="Background"), NAMESPACE_CONTROLLER)
        if empty:
            target = RequestTarget(registry.of_group(*NAMESPACES)[0], name=namespace, subresource="finalize")
            server.update(target, {"spec": {}}, WriteOptions(), NAMESPACE_CONTROLLER)

    @property
    def idle(self) -> bool:
        """True if the namespace controller has no terminating namespace to examine."""
        return not self._suspects

    def _on_change(self, where: GroupResource, change: StoredChange) -> None:
        record = change.after or change.before
        assert record is not None, "a change has a state before or after it"
        if where == NAMESPACES:
            name = record.key[1]
            if change.after is None:
                self._terminating.pop(name, None)
            elif record.deleting:
                self._terminating[name] = None
                self._suspects[name] = None
        elif record.key[0] in self._terminating:
            self._suspects[record.key[0]] = None


def _namespaced(registry: ResourceRegistry) -> list[ServedResource]:
    """Return each namespaced resource once, although it may be served in several versions.

    Its objects are read in their stored version, so no conversion is needed.
    """
    return [resource.as_stored() for resource in {one.storage: one for one in registry if one.namespaced}.values()]
