"""Namespaces: the objects that may be created in them, and their deletion (NamespaceLifecycle, S-19)."""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.model.calls import RequestTarget, WriteOutcome
from kubelab.model.failure import ApiFailure, forbidden, namespace_terminating, not_found
from kubelab.model.records import GroupResource, StoredChange
from kubelab.storage.store import Store
from purekube.apimachinery.manifest import get_path

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

    It also records which terminating namespaces the namespace controller has to examine.
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

    def take_suspects(self) -> list[str]:
        """Return the names of terminating namespaces that may be empty now, for the namespace controller to examine.

        An object in each of them, or the namespace itself, has changed since the last call.
        """
        suspects = [name for name in self._suspects if name in self._terminating]
        self._suspects.clear()
        return suspects

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
