"""The owner of a graph's objects, and the labels and annotations that mark an object as its own (PH-3, OPS-1)."""

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, content_hash, get_path, metadata
from purekube.apimachinery.meta import APPLIED_HASH, ObjectMeta
from purekube.apimachinery.names import is_label_value
from purekube.controller.decision import MergePatch, Snapshot
from purekube.controller.drift import stamp
from purekube.controller.ownership import controller_of, is_locked, owner_reference, owners_without, unlocked_finalizers
from purekube.graph.node import ApplyPolicy, GraphNode, Item, Removal


@attrs.frozen
class CreateRecord:
    """The owner's record of an object that is created only once in the owner's life.

    `node` is the graph node's id. `item` is the key that distinguishes the object from the others of its node. `uid` is
    empty until the object has been created, and then the uid of the created object.
    """

    node: str
    name: str
    namespace: str = ""
    item: str = ""
    uid: str = ""


_TEMPLATES: Final = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
"""The paths at which workloads have their pod template."""

_ORPHAN: Final = "Orphan"
_BY_LABEL: Final = "Label"


@lru_cache(maxsize=4096)
def label_text(text: str) -> str:
    """Return `text` if it is a valid label value. Return its hash if it is not."""
    return text if is_label_value(text) else content_hash(text)


@attrs.frozen
class Marks:
    """The names of the labels and annotations by which an owner's objects are identified.

    All begin with `domain`, except `applied_hash`, the name of the annotation with the hash of the content that was
    last applied. Prune and teardown read only these and the owner references.
    """

    domain: str
    applied_hash: str = APPLIED_HASH

    @cached_property
    def owner_uid(self) -> str:
        """The name of the label with the owner's uid."""
        return f"{self.domain}/owner-uid"

    @cached_property
    def node(self) -> str:
        """The name of the label with the id of the graph node to which the object belongs."""
        return f"{self.domain}/node"

    @cached_property
    def item(self) -> str:
        """The name of the label with the key that distinguishes the object from the others of its graph node, if the
        node has a list of objects.
        """
        return f"{self.domain}/item"

    @cached_property
    def wave(self) -> str:
        """The name of the annotation with the wave of an object: the depth in the graph at which it was applied."""
        return f"{self.domain}/wave"

    @cached_property
    def removal(self) -> str:
        """The name of the annotation that is `Orphan` on an object that must be orphaned instead of deleted."""
        return f"{self.domain}/on-delete"

    @cached_property
    def owner(self) -> str:
        """The name of the annotation that is `Label` on an object that by choice has no owner reference."""
        return f"{self.domain}/owner"

    @cached_property
    def peers(self) -> str:
        """The name of the annotation by which a namespace admits objects of owners in other namespaces (RUN-12). It
        lists the namespaces of these owners.
        """
        return f"{self.domain}/peers"

    @cached_property
    def roll(self) -> str:
        """The name of the annotation on a pod template with a hash of other objects, such as a ConfigMap.

        These are the objects of the nodes in `GraphNode.roll_on`. A change of the hash replaces the pods.
        """
        return f"{self.domain}/roll-hash"


@attrs.frozen
class Owner:
    """The object for which the objects of a graph exist. Its identity is the uid in `meta`, not its name.

    `manager` is the field manager of all writes. `labels` are put on every object in addition to the marks (labels and
    annotations that identify the owner). `records` are the owner's records of objects that are created once. Without
    `references` no object gets an owner reference, so the garbage collector deletes none of them.
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
        """The owner's uid as a label value."""
        return label_text(self.meta.uid)

    def may_refer(self, ref: ObjectRef) -> bool:
        """Report whether the object may have an owner reference to this owner.

        Kubernetes permits the reference if the owner is cluster-scoped or in the object's namespace.
        """
        return self.references and (not self.kind.namespaced or self.meta.namespace == ref.namespace)

    def is_ours(self, live: Manifest) -> bool:
        """Report whether this owner may write the object.

        The owner may if it controls the object, or if the object has no controller and its label names this owner.
        """
        controller = controller_of(live)
        if controller is not None:
            return bool(controller.get("uid") == self.meta.uid)
        return self._is_labelled(live)

    def holds(self, ref: ObjectRef, live: Manifest) -> bool:
        """Report whether the object belongs to this owner and may be deleted with it.

        The label must name the owner, and so must the owner reference where Kubernetes permits one: a user can keep an
        object by removing the reference. An annotation marks objects that were created without a reference.
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
        """Yield all observed objects that belong to the owner, sorted by kind, namespace and name.

        An object that was observed in two versions of its kind is yielded once.
        """
        seen = set[Any]()
        for ref in sorted(observed.objects, key=_by_name):
            if self.holds(ref, live := observed.objects[ref]) and (same := stored_identity(ref, live)) not in seen:
                seen.add(same)
                yield ref, live

    def lost_references(self, observed: Snapshot) -> bool:
        """Report whether all observed objects of the owner that were made with an owner reference have lost it.

        The garbage collector removes them all for `--cascade=orphan`. The result is False if there is no such object.
        """
        made_with = [
            live
            for ref, live in observed.objects.items()
            if self._is_labelled(live) and self.may_refer(ref) and self._refers(live)
        ]
        return bool(made_with) and all(controller_of(live) is None for live in made_with)

    def ref_of(self, kind: Kind, manifest: Manifest) -> ObjectRef:
        """Return the reference of a rendered object, in the owner's namespace unless the manifest names another."""
        meta = metadata(manifest)
        namespace = (meta.get("namespace") or self.meta.namespace) if kind.namespaced else None
        return ObjectRef(kind, namespace, str(meta.get("name") or ""))

    def node_of(self, live: Manifest) -> str:
        """Return the value of the object's label that identifies its graph node: the node's id in the form of
        `label_text`. Return "" if the object has no such label.
        """
        return str(get_path(live, "metadata", "labels", self.marks.node) or "")

    def wave_of(self, live: Manifest) -> int:
        """Return the wave (depth in the graph) recorded on an object. Without a record the result is 0, the wave that
        is removed last, in case other objects need this one.
        """
        text = get_path(live, "metadata", "annotations", self.marks.wave)
        return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 6 else 0

    def is_orphaned(self, live: Manifest) -> bool:
        """Report whether an annotation says that the object must be orphaned, not deleted."""
        return bool(get_path(live, "metadata", "annotations", self.marks.removal) == _ORPHAN)

    def rendered(self, node: GraphNode, item: Item, ref: ObjectRef, wave: int, roll: str = "") -> dict[str, Any]:
        """Return the manifest to send for the object `ref` of the graph node `node`.

        It is the manifest of `item`, with labels, wave (depth in the graph), owner reference and the hash of its
        content added. `roll` is the hash of other objects to put into its pod template, or "" for none.
        """
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
        """Return the patch that removes the owner's reference and label, so that the object outlives its owner."""
        meta = {
            "resourceVersion": metadata(live).get("resourceVersion"),
            "ownerReferences": owners_without(live, self.meta.uid),
            "labels": {self.marks.owner_uid: None},
            **({"finalizers": unlocked_finalizers(live)} if is_locked(live) else {}),
        }
        return MergePatch(ref, {"metadata": meta})


def stored_identity(ref: ObjectRef, live: Manifest) -> tuple[Any, ...]:
    """Return a key that is the same for a stored object in every version and group of its kind.

    An API server returns a stored object in each version of its kind, with the same uid. A box whose file changes the
    `apiVersion` of a resource thus observes the object twice.
    """
    return metadata(live).get("uid"), ref.kind.kind, ref.namespace, ref.name


def _by_name(ref: ObjectRef) -> tuple[str, ...]:
    # A key made once is cheaper: the ordering of ObjectRef builds tuples for each comparison.
    kind = ref.kind
    return (kind.group, kind.version, kind.kind, kind.plural, ref.namespace or "", ref.name)


def _rolled(manifest: dict[str, Any], annotation: str, value: str) -> dict[str, Any]:
    """Return the manifest with the annotation on its pod template; unchanged without a pod template."""
    for path in _TEMPLATES:
        if isinstance(get_path(manifest, *path), Mapping):
            return _with(manifest, (*path, "metadata", "annotations", annotation), value)
    return manifest


def _with(manifest: Mapping[str, Any], path: tuple[str, ...], value: str) -> dict[str, Any]:
    """Return a copy of the manifest with `value` at `path`; missing objects on the path are added."""
    key, *rest = path
    below = manifest.get(key)
    inner = _with(below if isinstance(below, Mapping) else {}, tuple(rest), value) if rest else value
    return {**manifest, key: inner}
