"""Live reads of the input of a decision about an instance, and the check for a release of another owner (REC-4).

Helm may already have a release of the desired name that another owner installed.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.names import bounded_name, is_label_value
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, NAMESPACE, SECRET
from purekube.controller.live_reads import LiveReads
from purekube.ports import KubeApi
from vworkspace_core.api.application_instance import ApplicationInstance, Mode, ReleaseOverride
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import (
    INSTANCE_UID,
    cluster_id_of,
    is_managed,
    namespace_is_managed,
    namespace_is_terminating,
)
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS, read_refs, watched_refs
from vworkspace_core.instances.ownership import is_ours, own_labels

RELEASE_LABEL: Final = "name"
"""The label with the name of the release on each Secret in which Helm stores a release."""
_ANY_VERSION: Final = "0"
"""The resourceVersion for reads of Helm's release records, which permits an answer from the API server's cache.

A slightly old answer is enough, since Helm could also change the records just after the read.
"""

_WHOSE: Final = ("name", "namespace", "labels", "ownerReferences")

RecordReader: TypeAlias = Callable[[str, str], Awaitable[Iterable[Manifest]]]
"""A function that reads the metadata of the Secrets in which Helm stores a release, by its namespace and name."""


async def release_records(
    read: RecordReader, instance: ApplicationInstance, observed: InstanceObserved
) -> Mapping[ObjectRef, Manifest]:
    """Return the metadata of the Secrets in which Helm stores the instance's release, by their references.

    They are read only in a managed namespace, before the operator first creates the HelmRelease, to find a release that
    another owner installed. Otherwise the result is empty. `observed` has the live objects so far. Raises the errors of
    `read`.
    """
    if observed.namespace is None or not namespace_is_managed(observed.namespace) or not _is_first(instance, observed):
        return {}
    records = await read(instance.metadata.namespace, _release(instance))
    return {ref_of(record, SECRET): _record_parts(record) for record in records}


async def list_records(api: KubeApi, namespace: str, *releases: str) -> tuple[Manifest, ...]:
    """Return the metadata of the Secrets in which Helm stores these releases. Raises the errors of `KubeApi.list`."""
    page = await api.list(
        SECRET,
        namespace=namespace,
        label_selector=f"owner=helm,{RELEASE_LABEL} in ({','.join(sorted(set(releases)))})",
        resource_version=_ANY_VERSION,
        metadata_only=True,
    )
    return tuple(page.items)


def _is_first(instance: ApplicationInstance, observed: InstanceObserved) -> bool:
    meta, release = instance.metadata, instance.spec.release
    if release is None or instance.spec.mode is not Mode.MANAGED or meta.deletion_timestamp is not None:
        return False
    if not is_label_value(release.name):
        return False  # no release can have the name: the instance is refused for it
    if not is_managed(meta) or not cluster_id_of(meta) or instance.status.helm_release_ref is not None:
        return False
    return ObjectRef(HELM_RELEASE, meta.namespace, release.name) not in observed.objects


def _release(instance: ApplicationInstance) -> str:
    return instance.spec.release.name if instance.spec.release is not None else ""


def _record_parts(record: Manifest) -> dict[str, Any]:
    """Return the metadata of `record`, a Secret of Helm, that identifies its owner: name, namespace, labels and owner
    references.
    """
    return {"metadata": {key: metadata(record).get(key) for key in _WHOSE}}


def _records(instance: ApplicationInstance, observed: InstanceObserved) -> Iterator[ObjectRef]:
    """Yield references to the Secrets in which Helm stores the instance's release, the newest revision first.

    Only observed objects are searched.
    """
    place = instance.metadata.namespace
    records = (ref for ref in observed.objects if ref.kind == SECRET and ref.namespace == place)
    return iter(sorted(records, key=lambda ref: (len(ref.name), ref.name), reverse=True))


def foreign_release(instance: ApplicationInstance, observed: InstanceObserved) -> str:
    """Return a message if Helm already has a release of the instance's release name that another owner installed, or an
    empty string otherwise.
    """
    if not _is_first(instance, observed):
        return ""
    foreign = [ref for ref in _records(instance, observed) if not is_ours(observed.objects[ref], instance)]
    return _conflict_message(instance, foreign[0], [observed.objects[ref] for ref in foreign]) if foreign else ""


def _conflict_message(instance: ApplicationInstance, record: ObjectRef, records: Iterable[Manifest]) -> str:
    name, namespace = _release(instance), record.namespace
    return (
        f"Helm has a release {name} in namespace {namespace} already ({record}), which no HelmRelease of this instance "
        f"has made. If nobody needs it, uninstall it with Helm. To let this instance take it over: "
        f"kubectl label secrets -n {namespace} -l owner=helm,name={name} {own_labels(instance, *records)}"
    )


async def observe_live(
    api: KubeApi, source: ApplicationInstance, override: ReleaseOverride | None = None
) -> InstanceObserved:
    """Read everything that a decision about `source` needs from the API server, without a cache.

    `override` is the change that a helm Operation requests; the chart source that it needs is read too. Raises the
    errors of `KubeApi.get` and `KubeApi.list`.
    """
    meta = source.metadata
    reading = LiveReads(api)
    namespace = await reading.get(ObjectRef(NAMESPACE, None, meta.namespace))
    reading.lenient = namespace_is_terminating(namespace)
    selector = f"{INSTANCE_UID}={bounded_name(meta.uid)}"
    for kind in DOWNSTREAM_KINDS:
        await reading.add_labelled(kind, meta.namespace, selector)
    for ref in watched_refs(source, override):
        await reading.add_full(ref)
    for ref in read_refs(source, reading.objects):
        await reading.add_full(ref)
    # Read live too: the instances are deleted right after their definition, and their events may arrive before its
    # event.
    definition = await reading.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, APPLICATION_INSTANCE.crd_name))
    ending = bool(get_path(definition, "metadata", "deletionTimestamp"))
    missing = frozenset(reading.missing)
    observed = InstanceObserved(namespace, reading.objects, missing, definition_ending=ending, override=override)
    reading.objects |= await release_records(partial(list_records, api), source, observed)
    return observed
