"""The reads of the command `status`: all objects of the operator's kinds, or one with its children (SEE-1).

No running operator is needed. Objects that the user may not read are left out, and their kinds reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from purekube.apimachinery.definitions import BOX_NAME, BROUGHT_TO, CONTROLLER_NAME, OPERATOR_BOX
from purekube.apimachinery.errors import Forbidden, Unauthorized
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import (
    CORE_EVENT,
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    DEPLOYMENT,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    INGRESS,
    JOB,
    LEASE,
    OCI_REPOSITORY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    STATEFUL_SET,
)
from purekube.controller.decision import Snapshot
from purekube.controller.live_reads import LiveReads
from purekube.ports import KubeApi
from purekube_run.controller.lookups import all_of, find, leases_of
from vworkspace_app.install.deployed import lease_place, permitted_deployment
from vworkspace_app.install.names import NAME
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import INSTANCE_UID, OPERATION_UID
from vworkspace_core.overview.definitions import kind_of, words_of
from vworkspace_core.overview.pods import pod_selections
from vworkspace_core.overview.tree import RELEASE_NAME, RELEASE_NAMESPACE, Branch, refs_of, tree_of

if TYPE_CHECKING:
    from purekube.boxes.box import Box


FLEET: Final = (CLUSTER, APPLICATION_INSTANCE, OPERATION)
"""The operator's own kinds, in the order in which `status` lists them."""

_INSTALLED: Final = (
    DEPLOYMENT,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    INGRESS,
)
"""The kinds that `status` reads of all objects that a chart installed."""

_LAST_EVENTS: Final = 5


@attrs.frozen
class OwnObjects:
    """All objects of the operator's kinds.

    `unreadable` has the kinds that could not be listed, each with the reason.
    """

    objects: tuple[tuple[Kind, Manifest], ...]
    leases: tuple[Manifest, ...] = ()
    """The Leases of the operator's replicas: one, or one for each shard."""
    lease_name: str = NAME
    """The name of the first of these Leases."""
    unreadable: tuple[str, ...] = ()


@attrs.frozen
class ObjectContext:
    """An object, all objects created for it, and its latest Events, the oldest first.

    `unreadable` has the kinds that could not be read, each with the reason. `box` is the box (a declared operator) that
    reconciles the object, if one does.
    """

    kind: Kind
    manifest: Manifest
    objects: dict[ObjectRef, Manifest]
    events: tuple[Manifest, ...]
    unreadable: tuple[str, ...] = ()
    box: "Box | None" = None
    snapshot: Snapshot | None = None
    """The objects that the decision of the object's box (a declared operator) reads.

    It is None without a box, or if the user may not read all of them.
    """
    is_given: bool = False
    """True if the user passed the box as a file, so that the cluster may run another version of it."""

    def tree(self, now: datetime) -> Branch:
        """Return the object and all objects created for it, as a tree."""
        if self.box is not None and self.snapshot is not None:
            from vworkspace_core.overview.box_tree import tree_of_box  # only for a box: graphs are slow to import

            return tree_of_box(self.box, self.manifest, self.snapshot, now, is_given=self.is_given)
        if self.kind in FLEET:
            return tree_of(self.kind, self.manifest, self.objects)
        from vworkspace_core.overview.box_tree import tree_of_marked

        return tree_of_marked(self.kind, self.manifest, self.objects)


class PermittedReader:
    """A reader of objects for `status`, which skips objects that the user may not read, and remembers their kinds.

    If the user may not list a kind in all namespaces, its objects in the namespace `home` are read. Where the API
    server does not accept the user's credential, nothing can be read, and each method raises Unauthorized.
    """

    def __init__(self, api: KubeApi, home: str | None = None) -> None:
        self._api = api
        self._home = home
        self._unreadable: dict[str, str] = {}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The kinds that could not be read, each with the reason."""
        return tuple(self._unreadable.values())

    async def all(self, kind: Kind, *, namespace: str | None = None, selector: str = "") -> tuple[Manifest, ...]:
        """Return all objects of a kind; empty if the kind is not served or may not be listed.

        Only objects in `namespace` that the label selector `selector` matches are returned; None and "" do not limit
        them.
        """
        where = namespace if kind.namespaced else None
        try:
            return await all_of(self._api, kind, selector=selector, namespace=where)
        except Forbidden as error:
            self._missing_right(kind.plural, error)
        if where is not None or self._home is None or not kind.namespaced:
            return ()
        return await self.all(kind, namespace=self._home, selector=selector)

    async def one(self, ref: ObjectRef) -> Manifest | None:
        """Return one object; None if the object does not exist or may not be read."""
        try:
            return await find(self._api, ref)
        except Forbidden as error:
            self._missing_right(ref.kind.plural, error)
            return None

    async def seen_by(self, box: "Box", manifest: Manifest, now: datetime) -> Snapshot | None:
        """Return all objects that `box` (a declared operator) reads to decide on the object `manifest`, as a snapshot.

        An object that belongs to another owner is included if it has the kind and name of a child that the box would
        write. Return None if the user may not read all of them.
        """
        from purekube.boxes.decision.decide import composite_of, explanation_of  # only for a box: half of the start
        from purekube.composites.observe import observe_live

        composite = composite_of(box)
        parent, reading = composite.read(manifest), LiveReads(self._api)
        try:
            observed = await observe_live(self._api, composite, parent)
            for one in explanation_of(box, parent, observed, now).plan.everything:
                if one.ref is not None and one.is_written and one.ref not in observed.objects:
                    await reading.add(one.ref, metadata_only=True)
            return attrs.evolve(observed, objects={**observed.objects, **reading.objects})
        except Forbidden as error:
            self._missing_right(f"the nodes of box {box.name}", error)
            return None

    async def applied_box_of(self, manifest: Manifest) -> "Box | None":
        """Return the box that reconciles an object, from the OperatorBox in the cluster.

        An annotation of the object names the revision of its box. Return None if there is no such annotation, if the
        OperatorBox is missing or has another revision, or if the user may not read it.
        """
        revision = str(get_path(manifest, "metadata", "annotations", BROUGHT_TO) or "").partition(" ")[0]
        if not revision:
            return None
        from purekube.boxes.rollouts.revisions import (  # only for a box: it is half of the start
            definition_of,
            revision_name,
        )
        from purekube_run.boxes.applied_load import load_definition

        name = revision.rpartition("-")[0]
        spec = get_path(await self.one(ObjectRef(OPERATOR_BOX, None, name)), "spec")
        if not isinstance(spec, Mapping) or revision_name(name, definition_of(spec)) != revision:
            return None
        try:
            return (await load_definition(self._api, name, spec)).box
        except Forbidden as error:
            self._missing_right(f"the nodes of box {name}", error)
            return None

    async def leases(self, namespace: str) -> tuple[str, tuple[Manifest, ...]]:
        """Return the name of the Lease of the operator in `namespace`, and the Leases of its replicas.

        There are none if the user may not list them.
        """
        deployment, refused = await permitted_deployment(self._api, namespace)
        place = lease_place(deployment, namespace)
        try:
            leases = await leases_of(self._api, place.namespace, place.name)
        except Forbidden as error:
            self._missing_right(LEASE.plural, error)
            return place.name, ()
        if refused is not None and not leases:  # the Deployment would say where else they are
            self._missing_right(f"{LEASE.plural} other than {namespace}/{NAME}", refused)
        return place.name, leases

    def _missing_right(self, what: str, error: Forbidden) -> None:
        """Remember why `what` could not be read. Raises Unauthorized if that is the error."""
        if isinstance(error, Unauthorized):
            raise error
        self._unreadable.setdefault(what, f"{what}: {error.message}")


async def read_own_objects(
    api: KubeApi, *, namespace: str | None, system_namespace: str, boxes: Sequence[Kind] = ()
) -> OwnObjects:
    """Return all objects of the operator's own kinds and of `boxes`, which are kinds that boxes define.

    Only objects in `namespace` are returned, or objects in all namespaces if it is None. The Leases of the operator's
    replicas are read where its Deployment in `system_namespace` has them. Raises the errors of `KubeApi.list` except
    Forbidden.
    """
    reader = PermittedReader(api)
    objects = [
        (kind, manifest) for kind in (*FLEET, *boxes) for manifest in await reader.all(kind, namespace=namespace)
    ]
    name, leases = await reader.leases(system_namespace)
    return OwnObjects(tuple(objects), leases, name, reader.unreadable)


async def read_object_context(
    api: KubeApi, kind: Kind, manifest: Manifest, box: "Box | None" = None, *, now: datetime
) -> ObjectContext:
    """Return the object with the objects created for it.

    With a `box`, all objects that the box's decision reads are included. Without a `box`, an object of an applied box
    is read with the OperatorBox in the cluster. Raises the errors of `KubeApi.list` except Forbidden.
    """
    namespace = get_path(manifest, "metadata", "namespace")
    reader, is_given = PermittedReader(api, home=namespace), box is not None
    uid = bounded_name(str(get_path(manifest, "metadata", "uid") or ""))
    objects: dict[ObjectRef, Manifest] = {}
    if kind == APPLICATION_INSTANCE:
        await _read_children(reader, f"{INSTANCE_UID}={uid}", namespace, objects)
        await _installed(reader, objects)
        await _runs(reader, manifest, objects)
    elif kind == OPERATION:
        await _read_children(reader, f"{OPERATION_UID}={uid}", namespace, objects)
        await _pods(reader, objects, objects)
    else:
        await _marked(reader, manifest, objects)
        box = box or await reader.applied_box_of(manifest)
    snapshot = None if box is None else await reader.seen_by(box, manifest, now)
    events = await _events(reader, manifest)
    return ObjectContext(kind, manifest, objects, events, reader.unreadable, box, snapshot, is_given)


async def _marked(reader: PermittedReader, manifest: Manifest, into: dict[ObjectRef, Manifest]) -> None:
    """Add the children of an object of a box or pure reconciler to `into`.

    An annotation of the object names the children's kinds, and a label of each child has the object's uid.
    """
    from purekube.composites.parent import recorded_kinds  # only for a box: graphs are slow to import
    from vworkspace_core.overview.box_tree import MARKS_OF_PARENTS

    uid = get_path(manifest, "metadata", "uid")
    for marks in MARKS_OF_PARENTS:
        recorded = get_path(manifest, "metadata", "annotations", f"{marks.domain}/kinds")
        for kind in recorded_kinds(str(recorded or "")):
            into |= refs_of(kind, await reader.all(kind, selector=f"{marks.owner_uid}={uid}"))


def made_kinds() -> tuple[Kind, ...]:
    """Return the kinds of the objects that the operator creates."""
    from vworkspace_core.operations.engines import engine_kinds  # only for one object: lists need no engine

    return (HELM_REPOSITORY, OCI_REPOSITORY, HELM_CHART, HELM_RELEASE, *engine_kinds())


async def _read_children(
    reader: PermittedReader, selector: str, namespace: str | None, into: dict[ObjectRef, Manifest]
) -> None:
    from vworkspace_core.operations.engines import KINDS_ELSEWHERE  # as in `made_kinds`

    for kind in made_kinds():
        where = None if kind in KINDS_ELSEWHERE else namespace
        into |= refs_of(kind, await reader.all(kind, namespace=where, selector=selector))


async def _installed(reader: PermittedReader, into: dict[ObjectRef, Manifest]) -> None:
    """Add to `into` the objects that Flux installed for each HelmRelease in `into`, and the pods of these releases."""
    for release in [ref for ref in into if ref.kind == HELM_RELEASE]:
        selector = f"{RELEASE_NAME}={release.name},{RELEASE_NAMESPACE}={release.namespace}"
        for kind in _INSTALLED:
            into |= refs_of(kind, await reader.all(kind, selector=selector))
    await _pods(reader, {ref: live for ref, live in into.items() if ref.kind == HELM_RELEASE}, into)


async def _runs(reader: PermittedReader, instance: Manifest, into: dict[ObjectRef, Manifest]) -> None:
    """Add the Operations on the instance to `into`."""
    name, namespace = (get_path(instance, "metadata", field) for field in ("name", "namespace"))
    operations = [
        operation
        for operation in await reader.all(OPERATION, namespace=namespace)
        if get_path(operation, "spec", "targetRef", "name") == name
    ]
    into |= refs_of(OPERATION, operations)


async def _pods(reader: PermittedReader, owners: Mapping[ObjectRef, Manifest], into: dict[ObjectRef, Manifest]) -> None:
    """Add to `into` the pods of the HelmReleases and Jobs among `owners`."""
    for selection in list(pod_selections(owners)):
        pods = await reader.all(POD, namespace=selection.namespace, selector=selection.selector)
        into |= refs_of(POD, pods)


async def _events(reader: PermittedReader, manifest: Manifest) -> tuple[Manifest, ...]:
    """Return the latest Events about the object. The API server keeps Events for an hour by default."""
    uid = get_path(manifest, "metadata", "uid")
    about = [
        event
        for event in await reader.all(CORE_EVENT, namespace=get_path(manifest, "metadata", "namespace"))
        if get_path(event, "involvedObject", "uid") == uid
    ]
    return tuple(sorted(about, key=event_time)[-_LAST_EVENTS:])


def event_time(event: Manifest) -> str:
    """Return the time of an Event's last occurrence, as text. Return an empty string if the Event has no time."""
    # An Event written through events.k8s.io/v1 has an eventTime, and no lastTimestamp; a repeated one has a series.
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp")):
        if isinstance(text := get_path(event, *path), str) and text:
            return text
    return ""


async def boxes_of(api: KubeApi, files: Sequence[str]) -> "list[Box]":
    """Load boxes (operators that YAML files declare) from the files.

    CRDs that are not in the files are read from the cluster. Raises CommandError if a box cannot be loaded.
    """
    if not files:
        return []
    from purekube_run.boxes.installed import installed_definitions, missing_definitions
    from purekube_run.boxes.load import load_boxes, runnable

    loaded = load_boxes(files)
    if names := missing_definitions(loaded):
        loaded = load_boxes(files, installed=await installed_definitions(api, names))
    return runnable(loaded)


async def kinds_of_boxes(reader: PermittedReader) -> tuple[Kind, ...]:
    """Return the kinds that boxes (declared operators) and controllers define, and OperatorBox if it is installed.

    They are found by a label of their CRDs, which the commands `box init`, `box manifests --crds-only` and `controllers
    crds` set.
    """
    applied = await reader.one(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, OPERATOR_BOX.crd_name))
    labels = (BOX_NAME, CONTROLLER_NAME)
    found = [each for label in labels for each in await reader.all(CUSTOM_RESOURCE_DEFINITION, selector=label)]
    return _kinds([*([] if applied is None else [applied]), *found])


async def kinds_by_word(reader: PermittedReader, word: str) -> Mapping[str, Kind]:
    """Return a mapping with the one kind that kubectl understands by `word`, such as a plural; `word` is its key.

    The mapping is empty if there is no such kind.
    """
    definitions = await reader.all(CUSTOM_RESOURCE_DEFINITION)
    found = _kinds(each for each in definitions if word in words_of(each))
    return {word: found[0]} if found else {}


def _kinds(definitions: Iterable[Manifest]) -> tuple[Kind, ...]:
    return tuple(kind for each in definitions if (kind := kind_of(each)) is not None)
