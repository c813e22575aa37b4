"""A release that somebody has installed with Helm alone: nobody's release is taken over (REC-4).

Without a HelmRelease only Helm's own records tell of it, Secrets `sh.helm.release.v1.<release>.v<revision>`. A tenant's
Role lets the operator get Secrets by name and not list them, so some revisions are asked for: the first, and those
that one of Helm's usual ten records is always among.
"""

from collections.abc import Iterator
from typing import Any, Final

from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.labels import cluster_id_of, is_managed, namespace_is_gated
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, metadata
from vworkspace_core.apimachinery.resources import HELM_RELEASE, SECRET
from vworkspace_core.controller.requeue import Requeue
from vworkspace_core.instances.blocker import Blocker
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.ownership import is_ours, own_labels

ANY_VERSION: Final = "0"
"""resourceVersion of a read of these records: the API server's cache will do. What Helm does in the moment that it may
be behind, Helm could as well do in the moment after the read."""

_REVISIONS: Final = (1, 10, 20, 30)


def record_refs(instance: ApplicationInstance, observed: InstanceObserved) -> tuple[ObjectRef, ...]:
    """The records to look for before the first HelmRelease of the instance is made; none at any other time."""
    if observed.namespace is None or not namespace_is_gated(observed.namespace) or not _is_first(instance, observed):
        return ()
    return tuple(_records(instance))


def _is_first(instance: ApplicationInstance, observed: InstanceObserved) -> bool:
    meta, release = instance.metadata, instance.spec.release
    if release is None or instance.spec.mode is not Mode.MANAGED or meta.deletion_timestamp is not None:
        return False
    if not is_managed(meta) or not cluster_id_of(meta) or instance.status.helm_release_ref is not None:
        return False
    return ObjectRef(HELM_RELEASE, meta.namespace, release.name) not in observed.objects


def _records(instance: ApplicationInstance) -> Iterator[ObjectRef]:
    if instance.spec.release is not None:
        for revision in _REVISIONS:
            name = f"sh.helm.release.v1.{instance.spec.release.name}.v{revision}"
            yield ObjectRef(SECRET, instance.metadata.namespace, name)


def without_content(secret: Manifest) -> dict[str, Any]:
    """A record as far as it is looked at: whose it is, and not what is in it."""
    return {"metadata": {key: metadata(secret).get(key) for key in ("name", "namespace", "labels", "ownerReferences")}}


def foreign_release(instance: ApplicationInstance, observed: InstanceObserved) -> Blocker | None:
    """Helm knows a release of that name which no HelmRelease of this instance has made."""
    if not _is_first(instance, observed):
        return None
    for ref in _records(instance):
        live = observed.objects.get(ref)
        if live is not None and not is_ours(live, instance):
            return Blocker(Reason.NAME_TAKEN, _told(instance, ref), requeue=Requeue.SLOW)
    return None


def _told(instance: ApplicationInstance, record: ObjectRef) -> str:
    name = instance.spec.release.name if instance.spec.release is not None else ""
    namespace = record.namespace
    return (
        f"Helm has a release {name} in namespace {namespace} already ({record}), which no HelmRelease of this instance "
        f"has made. If nobody needs it: helm uninstall {name} -n {namespace}. To let this instance take it over: "
        f"kubectl label secrets -n {namespace} -l owner=helm,name={name} {own_labels(instance)}"
    )
