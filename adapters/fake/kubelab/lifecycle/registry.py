"""The served resources: the built-in resources, and those of each CRD from its creation until its end."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kubelab.model.calls import RequestTarget
from kubelab.model.conversion import Conversions
from kubelab.model.failure import ApiFailure, forbidden, no_route, not_served
from kubelab.model.records import GroupResource, ObjectKey, Record, StoredChange
from kubelab.model.resources import ServedResource, resources_of_crd
from kubelab.storage.store import Store
from kubelab.storage.streams import WatchStreams
from purekube.apimachinery.timestamps import format_time
from purekube.schema.node import SchemaError


class ResourceRegistry:
    """The served resources, found by URL path, kind or group.

    `generation` counts how often a resource was added or removed.
    """

    def __init__(self, resources: Iterable[ServedResource] = ()) -> None:
        self.generation = 0
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._by_kind: dict[tuple[str, str, str], ServedResource] = {}
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(self._by_path.values())

    def add(self, resource: ServedResource) -> None:
        """Serve a resource. It replaces an earlier resource at the same path."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.group, resource.version, resource.kind] = resource
        self.generation += 1

    def remove(self, resource: ServedResource) -> None:
        """Stop serving a resource."""
        self._by_path.pop((resource.group, resource.version, resource.plural), None)
        self._by_kind.pop((resource.group, resource.version, resource.kind), None)
        self.generation += 1

    def at(self, group: str, version: str, plural: str) -> ServedResource:
        """Return the resource of a URL path. Raises the failure of `missing` if it is not served."""
        resource = self._by_path.get((group, version, plural))
        if resource is None:
            raise self.missing(group)
        return resource

    def missing(self, group: str) -> ApiFailure:
        """Return the 404 for a version or resource of `group` that is not served (W-38).

        It is a Status for a group with built-in kinds, whose router answers, and otherwise plain text.
        """
        built_in = any(resource.group == group and not resource.custom for resource in self)
        return no_route() if built_in else not_served()

    def of_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource of a kind, or None if the kind is not served.

        `api_version` and `kind` are as in a manifest or an owner reference.
        """
        group, _, version = api_version.rpartition("/")
        return self._by_kind.get((group, version, kind))

    def of_group(self, group: str, plural: str) -> list[ServedResource]:
        """Return every served version of the resource `plural` of a group."""
        return [resource for resource in self if (resource.group, resource.plural) == (group, plural)]


DEFINITIONS: Final[GroupResource] = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that holds a CRD until its objects are gone."""


def admit(store: Store, target: RequestTarget) -> None:
    """Raise ApiFailure 403 if the CRD that defines the kind of `target` is being deleted.

    `target` is the object of a create, which is not allowed then. The CRD is read from `store`.
    """
    resource = target.resource
    record = store.get(DEFINITIONS, ("", f"{resource.plural}.{resource.group}"))
    if record is not None and record.deleting:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(resource.group, resource.plural, target.name, why)


def terminating_crd(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the CRD as a DELETE leaves it, before any of its objects is deleted.

    The CRD gets a deletionTimestamp, the finalizer `customresourcecleanup.apiextensions.k8s.io`, and the condition
    Terminating with the reason InstanceDeletionPending.
    """
    finalizers = [name for name in crd["metadata"].get("finalizers") or () if name != CLEANUP]
    meta = {**crd["metadata"], "deletionTimestamp": format_time(now), "finalizers": [*finalizers, CLEANUP]}
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    return _terminating({**crd, "metadata": meta}, now, "InstanceDeletionPending", message)


def in_progress(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the CRD as it is while its objects are being deleted.

    The condition Terminating gets the reason InstanceDeletionInProgress.
    """
    return _terminating(crd, now, "InstanceDeletionInProgress", "CustomResource deletion is in progress")


def _terminating(
    crd: Mapping[str, Any], now: datetime, reason: str, message: str, *, status: str = "True"
) -> dict[str, Any]:
    state = crd.get("status") or {}
    conditions = state.get("conditions") or ()
    since = next(
        (
            condition["lastTransitionTime"]
            for condition in conditions
            if (condition["type"], condition["status"]) == ("Terminating", status)
        ),
        format_time(now),
    )
    termination = {
        "type": "Terminating",
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    others = [condition for condition in conditions if condition["type"] != "Terminating"]
    return {**crd, "status": {**state, "conditions": [*others, termination]}}


DeleteAll = Callable[[ServedResource], None]
"""A function that deletes every object of a resource, as a client would."""


class CustomDefinitions:
    """The part of the in-memory API server that serves the kinds of CRDs.

    It adds, replaces and removes served resources when CRDs are created, changed or deleted.
    """

    def __init__(
        self,
        store: Store,
        registry: ResourceRegistry,
        streams: WatchStreams,
        conversions: Conversions,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._registry = registry
        self._streams = streams
        self._conversions = conversions
        self._now = now
        self._generations: dict[str, tuple[str, int]] = {}
        self._touched: dict[str, None] = {}
        self._dying: dict[GroupResource, str] = {}
        store.observe(self._on_change)

    def settle(self, where: GroupResource, delete_all: DeleteAll) -> None:
        """Update the set of served resources after a write to the resource `where`.

        Only writes of CRDs, and of objects whose CRD is being deleted, have an effect. When the deletion of a CRD
        begins, `delete_all` is called with the resource that the CRD defines, and must delete all its objects.
        """
        while self._touched:
            name, _ = self._touched.popitem()
            self._sync(name, delete_all)
        if where in self._dying:
            self._finish(where)

    def _on_change(self, where: GroupResource, change: StoredChange) -> None:
        record = change.after or change.before
        if where == DEFINITIONS and record is not None:
            self._touched[record.key[1]] = None

    def _sync(self, name: str, delete_all: DeleteAll) -> None:
        record = self._store.get(DEFINITIONS, ("", name))
        if record is None:
            self._withdraw(name)
        elif record.deleting:
            self._bury(record, delete_all)
        else:
            self._serve(record)

    def _serve(self, record: Record) -> None:
        crd = record.object()
        generation = (record.uid, crd["metadata"].get("generation", 1))
        self._dying.pop((crd["spec"]["group"], crd["spec"]["names"]["plural"]), None)  # a snapshot may restore it
        # A change of the status, such as the write at the end of this function, leaves the generation alone, and
        # nothing has to be served again.
        if self._generations.get(record.key[1]) == generation:
            return
        known = record.key[1] in self._generations
        where = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        resources, problem = _compiled(crd, self._conversions)
        for resource in self._registry.of_group(*where):
            self._registry.remove(resource)
        for resource in resources:
            self._registry.add(resource)
        # apiextensions: apiserver/customresource_handler.go, removeDeadStorage and updateCustomResourceDefinition close
        # the watches of the old storage; clients list again (W-20).
        if known:
            self._streams.end(where)
        self._generations[record.key[1]] = generation
        self._store.put(DEFINITIONS, _established(crd, format_time(self._now()), problem))

    def _bury(self, record: Record, delete_all: DeleteAll) -> None:
        spec = record.object()["spec"]
        where = (spec["group"], spec["names"]["plural"])
        # Without the cleanup finalizer there is no work left, as in apiextensions:
        # controller/finalizer/crd_finalizer.go, sync. A CRD that another finalizer keeps would be buried again by the
        # write that ends the burial.
        if where in self._dying or CLEANUP not in record.finalizers:
            return
        self._dying[where] = record.key[1]
        self._store.put(DEFINITIONS, in_progress(record.object(), self._now()))
        # apiextensions: controller/finalizer/crd_finalizer.go goes to the storage instead of a version, since all
        # versions have the same objects. So no webhook has to convert them.
        for resource in self._registry.of_group(*where)[:1]:
            delete_all(resource.as_stored())
        if where in self._dying:  # the deletes call `settle`, too, and may have finished it
            self._finish(where)

    def _finish(self, where: GroupResource) -> None:
        """Finish the deletion of the CRD that defines the resource `where`, once its last object is gone.

        The cleanup finalizer is removed. If the CRD has no other finalizer, the CRD itself is removed as well.
        """
        key: ObjectKey = ("", self._dying[where])
        record = self._store.get(DEFINITIONS, key)
        if record is None or self._store.count(where):
            return
        del self._dying[where]
        left = [name for name in record.finalizers if name != CLEANUP]
        if left:
            # apiextensions: controller/finalizer/crd_finalizer.go, deleteInstances.
            now, reason = self._now(), "InstanceDeletionCompleted"
            manifest = _terminating(record.object(), now, reason, "removed all instances", status="False")
            self._store.put(DEFINITIONS, {**manifest, "metadata": {**manifest["metadata"], "finalizers": left}})
        else:
            self._store.remove(DEFINITIONS, key)
            self._withdraw(key[1])

    def _withdraw(self, name: str) -> None:
        """Stop serving the resources of a deleted CRD: their watches end, and their paths answer 404 (W-20)."""
        self._generations.pop(name, None)
        plural, _, group = name.partition(".")
        for resource in self._registry.of_group(group, plural):
            self._registry.remove(resource)
        for record in list(self._store.scan((group, plural))):
            self._store.remove((group, plural), record.key)
        self._streams.end((group, plural))
        self._store.drop((group, plural))


def _compiled(crd: Mapping[str, Any], conversions: Conversions) -> tuple[tuple[ServedResource, ...], str]:
    """Return two values: the resources that a CRD serves, and the reason why a schema of the CRD is unusable.

    The reason is an empty string if all schemas are usable; otherwise there are no resources. Even a schema
    that was accepted can be unusable, and must not crash the server.
    """
    try:
        return resources_of_crd(crd, conversions), ""
    except (SchemaError, KeyError, TypeError, ValueError, AttributeError) as error:
        return (), f"the schema cannot be used: {error}"


def _established(crd: Mapping[str, Any], now: str, problem: str) -> dict[str, Any]:
    """Return the CRD with the status that kube-apiserver's controllers write.

    The status has the condition NamesAccepted and, unless `problem` says that the schemas are unusable, Established.
    """
    spec, status = crd["spec"], crd.get("status") or {}
    storage = next(version["name"] for version in spec["versions"] if version["storage"])
    stored = status.get("storedVersions") or []
    return {
        **crd,
        "status": {
            **status,
            "acceptedNames": spec["names"],
            "conditions": _conditions(status.get("conditions") or (), now, problem),
            "storedVersions": [*stored, *([] if storage in stored else [storage])],
        },
    }


def _conditions(old: Sequence[Mapping[str, Any]], now: str, problem: str) -> list[dict[str, Any]]:
    """Return the current conditions of a CRD. A condition that stays the same keeps its transition time."""
    desired = [
        ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    if problem:
        desired = [
            desired[0],
            # A kube-apiserver refuses such a CRD. This one knows fewer keywords, so it keeps what it cannot compile and
            # says so in a condition that a kube-apiserver has for other reasons.
            ("Established", "False", "NotAccepted", "the definition is not served"),
            ("NonStructuralSchema", "True", "Violations", problem),
        ]
    times = {(condition.get("type"), condition.get("status")): condition.get("lastTransitionTime") for condition in old}
    return [
        {
            "type": kind,
            "status": status,
            "lastTransitionTime": times.get((kind, status)) or now,
            "reason": reason,
            "message": message,
        }
        for kind, status, reason, message in desired
    ]
