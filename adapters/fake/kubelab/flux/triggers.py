"""The objects that must be reconciled after a change of an object, as one pure function.

It imitates the predicates and watch mappings of source-controller and helm-controller. Status writes trigger no
reconciliation, with one exception: a source's new artifact triggers the HelmReleases and HelmCharts that use the
source. Only in this way a new tag reaches a HelmRelease, whose generation stays the same.
"""

from collections.abc import Iterator, Mapping

from kubelab.flux.conditions import is_ready, is_reconciling
from kubelab.flux.draft import FINALIZER, REQUESTED_AT
from kubelab.simulation.simulator import ObservedObjects
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    OCI_REPOSITORY,
    SECRET,
)

RECONCILED_KINDS = (OCI_REPOSITORY, HELM_REPOSITORY, HELM_CHART, HELM_RELEASE)
"""The kinds that the simulated controllers reconcile."""

CONFIG_KINDS = (SECRET, CONFIG_MAP)
"""The kinds that `valuesFrom` of a HelmRelease can name.

An object of these kinds triggers the HelmReleases that use it as soon as it changes, if it has `WATCH_LABEL`.
"""

WATCH_LABEL = "reconcile.fluxcd.io/watch=Enabled"


class FluxObjects(ObservedObjects):
    """All objects that the simulated Flux controllers observe, by reference.

    An index leads from each chart source to the HelmCharts and HelmReleases that use it.
    """

    def __init__(self, objects: Mapping[ObjectRef, Manifest] | None = None) -> None:
        super().__init__()
        self._users: dict[ObjectRef, dict[ObjectRef, None]] = {}
        for ref, manifest in (objects or {}).items():
            self.put(ref, manifest)

    def put(self, ref: ObjectRef, manifest: Manifest) -> None:
        """Store `manifest`, the present state of the object `ref`."""
        self.drop(ref)
        self[ref] = manifest
        source = _source(ref.kind, manifest)
        if source is not None:
            self._users.setdefault(source, {})[ref] = None

    def drop(self, ref: ObjectRef) -> Manifest | None:
        """Remove the object `ref`. Return its last state, or None if the object was not known."""
        old = super().drop(ref)
        source = None if old is None else _source(ref.kind, old)
        if source is not None:
            users = self._users[source]
            del users[ref]
            if not users:
                del self._users[source]
        return old

    def clear(self) -> None:
        """Remove all objects."""
        super().clear()
        self._users.clear()

    def users_of(self, source: ObjectRef) -> Iterator[tuple[ObjectRef, Manifest]]:
        """Yield the HelmCharts and HelmReleases that use `source`, each with its reference and manifest."""
        return ((user, self[user]) for user in tuple(self._users.get(source, ())))


def _source(kind: Kind, manifest: Manifest) -> ObjectRef | None:
    if kind == HELM_CHART:
        return _chart_source(manifest)
    return source_of(manifest) if kind == HELM_RELEASE else None


def triggered(kind: Kind, old: Manifest | None, new: Manifest | None, world: FluxObjects) -> Iterator[ObjectRef]:
    """Yield the objects to reconcile after an object of `kind` changed from `old` to `new`.

    `old` or `new` is None if the object did not exist before or does not exist now. `world` has all observed objects
    in their state after the change.
    """
    current = new if new is not None else old
    if current is None:
        return
    ref = ref_of(current, kind)
    if kind in RECONCILED_KINDS and new is not None and _own(kind, old, new):
        yield ref
    if kind in CONFIG_KINDS:
        yield from _users_of_config(ref, world)
    elif old is not None and new is not None:
        yield from _users_of_source(ref, old, new, world)


def _own(kind: Kind, old: Manifest | None, new: Manifest) -> bool:
    # One of type `oci` is never reconciled, except to remove what an earlier version left in it.
    if kind == HELM_REPOSITORY and get_path(new, "spec", "type") == "oci" and not _needs_emptying(new):
        return False
    # GenerationChangedPredicate or ReconcileRequestedPredicate; a deletion timestamp moves the generation too.
    return old is None or any(
        get_path(old, "metadata", *path) != get_path(new, "metadata", *path)
        for path in (("uid",), ("generation",), ("deletionTimestamp",), ("annotations", REQUESTED_AT))
    )


def _needs_emptying(repository: Manifest) -> bool:
    return bool(repository.get("status")) or FINALIZER in (metadata(repository).get("finalizers") or ())


def _users_of_source(ref: ObjectRef, old: Manifest, new: Manifest, world: FluxObjects) -> Iterator[ObjectRef]:
    before, after = (get_path(state, "status", "artifact", "revision") for state in (old, new))
    # predicates/source_predicate.go. That the source is Ready again counts too, or releases that failed meanwhile would
    # wait for their backoff.
    if after is None:
        return
    if ref.kind == HELM_REPOSITORY and before != after:
        for user, chart in world.users_of(ref):
            if get_path(chart, "status", "observedSourceArtifactRevision") != after:
                yield user
    elif ref.kind in (OCI_REPOSITORY, HELM_CHART) and (before != after or (not is_ready(old) and is_ready(new))):
        yield from (user for user, release in world.users_of(ref) if not _has(release, ref.kind, after))


def _chart_source(chart: Manifest) -> ObjectRef | None:
    if get_path(chart, "spec", "sourceRef", "kind") != "HelmRepository":
        return None
    namespace = metadata(chart).get("namespace")
    return ObjectRef(HELM_REPOSITORY, namespace, str(get_path(chart, "spec", "sourceRef", "name")))


def _has(release: Manifest, kind: Kind, revision: str) -> bool:
    """Report whether the HelmRelease needs no pass for `revision` of its source, an object of `kind`.

    That is so if the HelmRelease last attempted this revision, and is ready or reconciling.
    """
    status = release.get("status") or {}
    # An OCI source is compared by its digest: the attempted version contains only a part of it
    # (controller/helmrelease_indexers.go, requestsForOCIRepositoryChange).
    attempted = (
        status.get("lastAttemptedRevisionDigest") == revision.rpartition("@")[2]
        if kind == OCI_REPOSITORY
        else status.get("lastAttemptedRevision") == revision
    )
    return attempted and (is_ready(release) or is_reconciling(release))


def source_of(release: Manifest) -> ObjectRef | None:
    """Return the OCIRepository or HelmChart with the chart of the HelmRelease `release`, or None if it names none."""
    meta = metadata(release)
    namespace, name = str(meta.get("namespace")), str(meta.get("name"))
    reference = get_path(release, "spec", "chartRef")
    if reference:
        kind = OCI_REPOSITORY if reference.get("kind") == "OCIRepository" else HELM_CHART
        return ObjectRef(kind, str(reference.get("namespace") or namespace), str(reference.get("name")))
    source = get_path(release, "spec", "chart", "spec", "sourceRef")
    if source is None:
        return None
    return ObjectRef(HELM_CHART, str(source.get("namespace") or namespace), f"{namespace}-{name}")


def _users_of_config(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> Iterator[ObjectRef]:
    for user, release in world.items():
        if user.kind != HELM_RELEASE or user.namespace != ref.namespace:
            continue
        used = get_path(release, "spec", "valuesFrom") or ()
        if any((item.get("kind"), item.get("name")) == (ref.kind.kind, ref.name) for item in used):
            yield user
