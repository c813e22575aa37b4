"""The execution of DELETE requests for single objects and for collections, on the objects in the store."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import attrs

from kubelab.lifecycle.namespaces import NAMESPACES, undeletable
from kubelab.lifecycle.registry import DEFINITIONS, terminating_crd
from kubelab.model.calls import (
    FOREGROUND,
    ORPHAN,
    DeleteOptions,
    ListedPage,
    ObjectPage,
    Reply,
    RequestTarget,
    deleted_status,
)
from kubelab.model.failure import not_found
from kubelab.model.records import Record, encode, with_version
from kubelab.storage.listing import Selection
from kubelab.storage.store import Store
from kubelab.writes.deletion import check_preconditions, finalizers_for, gracefully_marked, marked, pends


class Remover:
    """The part of the in-memory API server that deletes objects, or marks them for deletion if finalizers keep them.

    Every method may raise ApiFailure.
    """

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now

    def delete(self, target: RequestTarget, options: DeleteOptions) -> Reply:
        """Delete one object. Return a Status if the object is gone, or the object if finalizers keep it (W-31)."""
        resource = target.resource
        record = self._store.get(resource.storage, target.key)
        if record is None:
            raise not_found(resource.group, resource.plural, target.name)
        refusal = undeletable(target)
        if refusal is not None:
            raise refusal
        # An object that cannot be converted cannot be deleted either, as on kube-apiserver.
        stored = resource.to_stored(resource.live(record)) if resource.converts else record.shared()
        check_preconditions(stored, options, resource)
        # A deleted CRD stays until its objects are gone: kube-apiserver gives it a finalizer at this moment.
        if resource.storage == DEFINITIONS and not record.deleting:
            return self._mark(target, record, terminating_crd(stored, self._now()), options)
        if pends(stored, options.grace):
            return Reply(200, resource.render(record))
        finalizers = finalizers_for(record.finalizers, options.propagation or _usual(target, record))
        if (grace := resource.definition.behaviour.grace) is not None:
            seconds = options.grace or 0 if record.deleting else grace(stored, options.grace)
            manifest = gracefully_marked(stored, finalizers, seconds, self._now())
            return self._delete_gracefully(target, record, manifest, options)
        is_held_by_spec = resource.storage == NAMESPACES and bool((stored.get("spec") or {}).get("finalizers"))
        if finalizers or is_held_by_spec:
            reply = self._mark(target, record, _ending(target, marked(stored, finalizers, self._now())), options)
            return attrs.evolve(reply, warnings=_warnings(target, options))
        return self._remove(target, record, options)

    def _delete_gracefully(
        self, target: RequestTarget, record: Record, manifest: Mapping[str, Any], options: DeleteOptions
    ) -> Reply:
        """Store `manifest`, an object such as a pod with its grace period, and delete it if nothing holds it."""
        reply = self._mark(target, record, manifest, options)
        meta = manifest["metadata"]
        if options.dry_run or meta.get("finalizers") or meta["deletionGracePeriodSeconds"]:
            return reply
        # A watch sees both: an object that is being deleted, and its removal.
        return self._remove(target, self._store.get(target.resource.storage, record.key) or record, options)

    def _remove(self, target: RequestTarget, record: Record, options: DeleteOptions) -> Reply:
        resource = target.resource
        if not options.dry_run:
            gone = self._store.remove(resource.storage, record.key)
            if resource.returns_deleted:
                return Reply(200, resource.render(with_version(record, gone.version)))
        elif resource.returns_deleted:
            return Reply(200, resource.render(record))
        return deleted_status(resource, record.key[1], record.uid)

    def delete_collection(self, target: RequestTarget, selection: Selection, options: DeleteOptions) -> ObjectPage:
        """Delete every object in `selection` as `delete` does.

        Return the objects in their state before the deletion.
        """
        records = tuple(self._store.scan(target.resource.storage, target.namespace))
        selected = tuple(selection.of(records))
        target.resource.require(selected)
        # apiserver: registry/generic/registry/store.go, DeleteCollection answers with the objects as it listed them.
        version = self._store.version
        for record in selected:
            namespace = record.key[0] or None
            self.delete(attrs.evolve(target, namespace=namespace, name=record.key[1]), options)
        return ObjectPage(target.resource, ListedPage(selected, version))

    def _mark(
        self, target: RequestTarget, record: Record, manifest: Mapping[str, Any], options: DeleteOptions
    ) -> Reply:
        resource = target.resource
        if manifest == record.shared():
            return Reply(200, resource.render(record))
        shown = resource.to_served(manifest)
        if options.dry_run:
            return Reply(200, encode(shown))
        return Reply(200, resource.render(self._store.put(resource.storage, manifest)))


def _usual(target: RequestTarget, record: Record) -> str:
    """Return the propagation policy of a DELETE that names none: `Orphan` for kinds that orphan by default.

    Return an empty string for all other kinds, and if an earlier DELETE of the object has set a policy.
    """
    # apiserver: registry/generic/registry/store.go, shouldOrphanDependents: a finalizer of an earlier DELETE overrides
    # the default of the kind, and a policy of this DELETE overrides both.
    decided = {ORPHAN, FOREGROUND} & set(record.finalizers)
    return "Orphan" if target.resource.definition.behaviour.orphans and not decided else ""


def _warnings(target: RequestTarget, options: DeleteOptions) -> tuple[str, ...]:
    if options.propagation or not target.resource.definition.behaviour.orphans:
        return ()
    return (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
        "or set propagationPolicy=Orphan to suppress this warning",
    )


def _ending(target: RequestTarget, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    if target.resource.storage != NAMESPACES:
        return manifest
    # kubernetes: registry/core/namespace/storage/storage.go, Delete sets the deletionTimestamp itself, without a grace
    # period.
    meta = {key: value for key, value in manifest["metadata"].items() if key != "deletionGracePeriodSeconds"}
    return {**manifest, "metadata": meta, "status": {**(manifest.get("status") or {}), "phase": "Terminating"}}
