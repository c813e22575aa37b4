"""What a box's decision looks at: which externals there are to read, and the children as they are at this moment."""

from collections.abc import Iterator

from vworkspace_core.apimachinery.errors import KindMissing
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.apimachinery.resources import NAMESPACE
from vworkspace_core.boxes.box import Box, ExternalNode
from vworkspace_core.boxes.box_object import BoxObject, child_kinds, recorded_kinds
from vworkspace_core.boxes.evaluation import Evaluation
from vworkspace_core.boxes.expressions import ExpressionFailure
from vworkspace_core.boxes.labels import MARKS
from vworkspace_core.boxes.model import OwnerMode
from vworkspace_core.boxes.nodes import external_name
from vworkspace_core.controller.decision import Snapshot
from vworkspace_core.controller.live_reads import LiveReads
from vworkspace_core.ports import KubeApi


def external_refs(box: Box, parent: BoxObject) -> Iterator[tuple[ExternalNode, ObjectRef]]:
    """The externals whose names are known, and where they are."""
    evaluation = Evaluation(box, parent.manifest)
    for external in box.externals:
        try:
            found = external_name(evaluation, external)
        except ExpressionFailure:
            continue
        if found is not None:
            yield external, ObjectRef(external.kind, *found)


def observed_kinds(box: Box, parent: BoxObject) -> tuple[Kind, ...]:
    """The kinds of which the parent may have children, those of an earlier box included."""
    return tuple(dict.fromkeys((*child_kinds(box), *recorded_kinds(parent))))


def namespace_of_children(box: Box, parent: BoxObject, kind: Kind) -> str | None:
    """Where all children of a kind are; None where they may be in any namespace, or in none."""
    nodes = (*box.nodes, *(node for phase in box.drains for node in phase))
    elsewhere = any(node.kind == kind and node.owner is OwnerMode.LABEL for node in nodes)
    return None if elsewhere or not kind.namespaced else parent.namespace


async def add_children(reading: LiveReads, box: Box, parent: BoxObject, kind: Kind) -> None:
    """Read the children of a kind live. Raises what `KubeApi.list` raises."""
    selector = f"{MARKS.owner_uid}={parent.metadata.uid}"
    namespace = namespace_of_children(box, parent, kind)
    try:
        page = await reading.api.list(kind, namespace=namespace, label_selector=selector)
    except KindMissing:
        reading.missing.add(kind)
        return
    reading.objects |= {ref_of(manifest, kind): manifest for manifest in page.items}


async def observe_live(api: KubeApi, box: Box, parent: BoxObject) -> Snapshot:
    """Everything as it is at this moment, without a cache. Raises what the calls of the port raise."""
    reading = LiveReads(api)
    for kind in observed_kinds(box, parent):
        await add_children(reading, box, parent, kind)
    for _, ref in external_refs(box, parent):
        await reading.add(ref)
    return Snapshot(await _namespace(reading, box, parent), reading.objects, frozenset(reading.missing))


async def _namespace(reading: LiveReads, box: Box, parent: BoxObject) -> Manifest | None:
    if not box.namespaces or parent.namespace is None:
        return None
    return await reading.get(ObjectRef(NAMESPACE, None, parent.namespace))
