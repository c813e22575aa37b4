"""What a box watches: its own kind whole, its children by their label, externals as far as they are read (RUN-1)."""

from collections.abc import Callable, Iterator
from typing import Final

from vworkspace_app.controller.definitions import slim_definition
from vworkspace_app.controller.informer import InformerRunner
from vworkspace_app.controller.projection import projected
from vworkspace_core.apimachinery.manifest import Kind, Manifest, get_path, metadata
from vworkspace_core.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from vworkspace_core.boxes.box import Box, ExternalNode
from vworkspace_core.boxes.box_object import child_kinds
from vworkspace_core.boxes.evaluation import Evaluation
from vworkspace_core.boxes.expressions import ExpressionFailure
from vworkspace_core.boxes.labels import MARKS, child_selector
from vworkspace_core.boxes.nodes import external_name
from vworkspace_core.boxes.reconciler import status_owner
from vworkspace_core.controller.informer.store import ObjectStore, without_managed_fields
from vworkspace_core.ports import Clock, KubeApi

OWNER: Final = "box-owner"
"""Index of children by the uid of their parent."""
UID: Final = "box-uid"
"""Index of parents by their uid."""
READS: Final = "box-reads"
"""Index of parents by the externals that they name."""

_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def own_uid(manifest: Manifest) -> Iterator[str]:
    """Index of a parent by itself: a child names it by its uid."""
    yield str(metadata(manifest).get("uid", ""))


def owner_uid(manifest: Manifest) -> Iterator[str]:
    """Index of a child by its parent."""
    uid = get_path(metadata(manifest), "labels", MARKS.owner_uid)
    if isinstance(uid, str):
        yield uid


def reads_of(box: Box) -> Callable[[Manifest], Iterator[str]]:
    """Index of a parent by its externals: a name is an expression of the parent alone, so it is known at ingest."""

    def keys(manifest: Manifest) -> Iterator[str]:
        evaluation = Evaluation(box, manifest)
        for external in box.externals:
            try:
                found = external_name(evaluation, external)
            except ExpressionFailure:
                continue
            if found is not None:
                yield read_key(external.kind, *found)

    return keys


def read_key(kind: Kind, namespace: str | None, name: str) -> str:
    """An external as the index of parents has it."""
    return f"{kind.crd_name}/{namespace or ''}/{name}"


def slim_child(manifest: Manifest) -> Manifest:
    """A child without what nothing reads: managedFields, and kubectl's copy of the whole."""
    plain = without_managed_fields(manifest)
    annotations = metadata(plain).get("annotations") or {}
    if _LAST_APPLIED not in annotations:
        return plain
    left = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    return {**plain, "metadata": {**metadata(plain), "annotations": left}}


def informers_of(api: KubeApi, clock: Clock, random: Callable[[], float], box: Box) -> Iterator[InformerRunner]:
    """One informer a kind: nothing is added while the box runs, since kinds are literals of its file."""

    def informer(store: ObjectStore, label_selector: str = "") -> InformerRunner:
        return InformerRunner(
            api,
            store.kind,
            clock=clock,
            random=random,
            label_selector=label_selector,
            store=store,
        )

    indexers = {UID: own_uid, READS: reads_of(box), OWNER: owner_uid}
    yield informer(ObjectStore(box.kind, transform=status_owner(box).with_holders, indexers=indexers))
    for kind in child_kinds(box):
        if kind != box.kind:
            yield informer(ObjectStore(kind, transform=slim_child, indexers={OWNER: owner_uid}), child_selector(box))


def shared_informers(
    api: KubeApi, clock: Clock, random: Callable[[], float], *, namespaces: bool
) -> Iterator[InformerRunner]:
    """What all boxes of a process look at together: which kinds are served, and labels of `namespaces`."""
    definitions = ObjectStore(CUSTOM_RESOURCE_DEFINITION, transform=slim_definition)
    yield InformerRunner(api, CUSTOM_RESOURCE_DEFINITION, clock=clock, random=random, store=definitions)
    if namespaces:
        yield InformerRunner(api, NAMESPACE, clock=clock, random=random)


def external_informers(api: KubeApi, clock: Clock, random: Callable[[], float], box: Box) -> Iterator[InformerRunner]:
    """The externals that are watched: several of one kind share an informer, which then sees what each of them asks."""
    watched: dict[Kind, list[ExternalNode]] = {}
    for external in box.externals:
        if external.watch:
            watched.setdefault(external.kind, []).append(external)
    for kind, externals in watched.items():
        selectors = {_selector_text(external) for external in externals}
        store = ObjectStore(kind, transform=projected((path for one in externals for path in one.fields), _IDENTITY))
        selector = selectors.pop() if len(selectors) == 1 else ""
        yield InformerRunner(api, kind, clock=clock, random=random, label_selector=selector, store=store)


def _selector_text(external: ExternalNode) -> str:
    labels = external.selector.get("matchLabels", external.selector)
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
