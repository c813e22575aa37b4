"""Who owns the objects of a graph, and how that is written on them (PH-3, L8).

What is written there is all that prune and teardown go by: labels and annotations, and the owner reference where one is
legal.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, content_hash, get_path, metadata
from vworkspace_core.apimachinery.meta import ObjectMeta
from vworkspace_core.apimachinery.names import is_label_value
from vworkspace_core.controller.decision import MergePatch, Snapshot
from vworkspace_core.controller.drift import stamp
from vworkspace_core.controller.ownership import controller_of, owner_reference, owners_without
from vworkspace_core.graph.node import ApplyPolicy, GraphNode, Removal
from vworkspace_core.graph.once import CreateRecord, is_locked, unlocked_finalizers
from vworkspace_core.graph.scope import Item

_TEMPLATES: Final = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
"""Where a workload has the template of its pods."""

_ORPHAN: Final = "Orphan"
_BY_LABEL: Final = "Label"


@lru_cache(maxsize=4096)
def label_text(text: str) -> str:
    """`text` where it can be a label's value; otherwise its hash."""
    return text if is_label_value(text) else content_hash(text)


@attrs.frozen
class Marks:
    """Names of the labels and annotations by which objects are told again; all but one lie below `domain`.

    Prune and teardown read nothing else.
    """

    domain: str
    applied_hash: str = "vworkspace.io/applied-hash"

    @cached_property
    def owner_uid(self) -> str:
        """Label: uid of the owner."""
        return f"{self.domain}/owner-uid"

    @cached_property
    def node(self) -> str:
        """Label: id of the node."""
        return f"{self.domain}/node"

    @cached_property
    def item(self) -> str:
        """Label: key of the item, where the node has a list of them."""
        return f"{self.domain}/item"

    @cached_property
    def wave(self) -> str:
        """Annotation: the wave in which it was applied."""
        return f"{self.domain}/wave"

    @cached_property
    def removal(self) -> str:
        """Annotation: `Orphan` on what is let go of instead of deleted."""
        return f"{self.domain}/on-delete"

    @cached_property
    def owner(self) -> str:
        """Annotation: `Label` on what has no owner reference by the author's choice."""
        return f"{self.domain}/owner"

    @cached_property
    def roll(self) -> str:
        """Annotation of a pod template: hash of what it is to be rolled on."""
        return f"{self.domain}/roll-hash"


@attrs.frozen
class Owner:
    """The object that a graph is for. `meta` holds its uid: another object of that name is another owner.

    `manager` is the field manager of all writes. `labels` are put on every object beside the marks. `records` is what
    the owner's status says of objects that are created once. Without `references` no object gets an owner reference:
    the garbage collector then takes nothing down out of order, and nothing at all.
    """

    kind: Kind
    meta: ObjectMeta
    manager: str
    marks: Marks
    labels: Mapping[str, str] = attrs.field(factory=dict)
    records: tuple[CreateRecord, ...] = ()
    references: bool = True

    @property
    def label(self) -> str:
        """Its uid, as it stands in the label."""
        return label_text(self.meta.uid)

    def may_refer(self, ref: ObjectRef) -> bool:
        """Whether the object may have an owner reference to it: the owner is in its namespace, or in none."""
        return self.references and (not self.kind.namespaced or self.meta.namespace == ref.namespace)

    def is_ours(self, live: Manifest) -> bool:
        """Whether we may write it: this incarnation controls it, or nobody does and its label says this owner."""
        controller = controller_of(live)
        if controller is not None:
            return bool(controller.get("uid") == self.meta.uid)
        return self._is_labelled(live)

    def holds(self, ref: ObjectRef, live: Manifest) -> bool:
        """Whether it may be deleted with its owner: by the label, and by the reference where one is legal.

        Who takes the reference off by hand keeps the object; what was made without one says so in an annotation.
        """
        controller = controller_of(live)
        if controller is None:
            return self._is_labelled(live) and not (self.may_refer(ref) and self._refers(live))
        return self._is_labelled(live) and bool(controller.get("uid") == self.meta.uid)

    def _is_labelled(self, live: Manifest) -> bool:
        return bool(get_path(live, "metadata", "labels", self.marks.owner_uid) == self.label)

    def _refers(self, live: Manifest) -> bool:
        return bool(get_path(live, "metadata", "annotations", self.marks.owner) != _BY_LABEL)

    def held(self, observed: Snapshot) -> Iterator[tuple[ObjectRef, Manifest]]:
        """All that it has, in an order that depends on names alone."""
        for ref in sorted(observed.objects, key=_by_name):
            if self.holds(ref, live := observed.objects[ref]):
                yield ref, live

    def ref_of(self, kind: Kind, manifest: Manifest) -> ObjectRef:
        """Where a rendered object lives: in the owner's namespace where it names none."""
        meta = metadata(manifest)
        namespace = (meta.get("namespace") or self.meta.namespace) if kind.namespaced else None
        return ObjectRef(kind, namespace, str(meta.get("name") or ""))

    def node_of(self, live: Manifest) -> str:
        """The label that tells the node of an object; empty where somebody took it off."""
        return str(get_path(live, "metadata", "labels", self.marks.node) or "")

    def wave_of(self, live: Manifest) -> int:
        """The wave that is recorded on an object. Without one it goes last: others may need it."""
        text = get_path(live, "metadata", "annotations", self.marks.wave)
        return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 6 else 0

    def is_orphaned(self, live: Manifest) -> bool:
        """Whether it is let go of instead of deleted."""
        return bool(get_path(live, "metadata", "annotations", self.marks.removal) == _ORPHAN)

    def dressed(self, node: GraphNode, item: Item, ref: ObjectRef, wave: int, roll: str = "") -> dict[str, Any]:
        """The whole manifest of an item, which lives at `ref`, as it is sent: with its hash where it is applied."""
        meta = {**metadata(item.manifest), **({"namespace": ref.namespace} if ref.namespace else {})}
        item_label = {self.marks.item: label_text(item.key)} if item.key else {}
        mine = {self.marks.owner_uid: self.label, self.marks.node: label_text(node.id), **item_label}
        meta["labels"] = {**(meta.get("labels") or {}), **self.labels, **mine}
        orphan = {self.marks.removal: _ORPHAN} if node.removal is Removal.ORPHAN else {}
        by_label = {} if node.refers else {self.marks.owner: _BY_LABEL}
        meta["annotations"] = {**(meta.get("annotations") or {}), self.marks.wave: str(wave), **orphan, **by_label}
        if node.refers and self.may_refer(ref):
            meta["ownerReferences"] = [*(meta.get("ownerReferences") or ()), owner_reference(self.kind, self.meta)]
        manifest = {**item.manifest, "metadata": meta}
        manifest = _rolled(manifest, self.marks.roll, roll) if roll else manifest
        return stamp(manifest, self.marks.applied_hash) if node.policy is ApplyPolicy.ALWAYS else manifest

    def disowning(self, ref: ObjectRef, live: Manifest) -> MergePatch:
        """What makes it nobody's, so that it stays when its owner goes."""
        meta = {
            "resourceVersion": metadata(live).get("resourceVersion"),
            "ownerReferences": owners_without(live, self.meta.uid),
            "labels": {self.marks.owner_uid: None},
            **({"finalizers": unlocked_finalizers(live)} if is_locked(live) else {}),
        }
        return MergePatch(ref, {"metadata": meta})


def _by_name(ref: ObjectRef) -> tuple[str, ...]:
    # The order of the class itself builds tuples for each comparison.
    kind = ref.kind
    return (kind.group, kind.version, kind.kind, kind.plural, ref.namespace or "", ref.name)


def _rolled(manifest: dict[str, Any], annotation: str, value: str) -> dict[str, Any]:
    """With an annotation on the template of its pods, where it has one."""
    for path in _TEMPLATES:
        if isinstance(get_path(manifest, *path), Mapping):
            return _with(manifest, (*path, "metadata", "annotations", annotation), value)
    return manifest


def _with(manifest: Mapping[str, Any], path: tuple[str, ...], value: str) -> dict[str, Any]:
    """A copy with `value` at `path`."""
    key, *rest = path
    below = manifest.get(key)
    inner = _with(below if isinstance(below, Mapping) else {}, tuple(rest), value) if rest else value
    return {**manifest, key: inner}
