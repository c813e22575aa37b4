"""The state that a composite's decision needs, read from the API server: children, externals (objects that it only
reads), the namespace.
"""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.errors import Forbidden, KindMissing
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import selects_labels
from purekube.apimachinery.resources import NAMESPACE
from purekube.composites.composite import Composite, wants_metadata
from purekube.composites.parent import Parent
from purekube.controller.decision import Snapshot
from purekube.controller.live_reads import LiveReads
from purekube.ports import KubeApi


def selects(selector: Mapping[str, Any] | None, manifest: Manifest | None) -> bool:
    """Report whether the label selector matches the labels of an object.

    A selector that is None or empty matches every object. An object that is None counts as one without labels.
    """
    return selects_labels(selector or {}, get_path(manifest, "metadata", "labels") or {})


async def add_children(reading: LiveReads, composite: Composite, parent: Parent, kind: Kind) -> None:
    """Read a parent's children of one kind from the API server into `reading`. Raises the errors of `KubeApi.list`.

    If the API server does not serve the kind, this is recorded in `reading` and nothing is raised. A missing right is
    not raised but recorded if only an earlier definition used the kind. It then only delays the pruning of objects of
    that kind.
    """
    selector = f"{composite.marks.owner_uid}={parent.metadata.uid}"
    namespace = composite.namespace_of_children(parent, kind)
    try:
        slim = composite.wants_metadata_of(kind)
        page = await reading.api.list(kind, namespace=namespace, label_selector=selector, metadata_only=slim)
    except KindMissing:
        reading.missing.add(kind)
        return
    except Forbidden as error:
        if error.right is None or kind in composite.present_kinds(parent):
            raise
        reading.hidden[kind] = error.right
        return
    reading.objects |= {ref_of(manifest, kind): manifest for manifest in page.items}


async def observe_live(api: KubeApi, composite: Composite, parent: Parent) -> Snapshot:
    """Return a snapshot of everything on which the decision about `parent` depends: its children, the objects that the
    controller only reads, and its namespace.

    They are read from the API server without a cache. Raises the errors of `KubeApi`.
    """
    reading = LiveReads(api)
    for kind in composite.observed_kinds(parent):
        await add_children(reading, composite, parent, kind)
    for external, ref in composite.external_refs(parent):
        await reading.add(ref, metadata_only=wants_metadata(external))
    namespaces = (await api.list(NAMESPACE)).items if composite.asks_namespaces else ()
    return snapshot_of(reading, await _namespace(reading, composite, parent), composite.peers(namespaces, parent))


def snapshot_of(reading: LiveReads, namespace: Manifest | None, peers: frozenset[str]) -> Snapshot:
    """Return a snapshot (the input of a decision) with the objects that `reading` holds.

    `namespace` is the parent's Namespace. `peers` are the names of other namespaces that admit children of the parent.
    """
    return Snapshot(namespace, reading.objects, frozenset(reading.missing), hidden_kinds=reading.hidden, peers=peers)


async def _namespace(reading: LiveReads, composite: Composite, parent: Parent) -> Manifest | None:
    if not composite.namespaces or parent.namespace is None:
        return None
    return await reading.get(ObjectRef(NAMESPACE, None, parent.namespace))
