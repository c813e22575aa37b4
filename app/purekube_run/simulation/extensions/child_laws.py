"""The laws (required properties) of the children of a box, which follow from its definition (PH-1 to PH-3)."""

from typing import Final

from kubelab.model.records import Record
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.boxes.box import MARKS, Box, BoxNode
from purekube.boxes.model import ApplyMode
from purekube.graph.node import OnImmutable, Removal, Until
from purekube.graph.owner import label_text
from purekube.ports import KubeVerb
from purekube.readiness import State, readiness
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.laws import Laws

_OWNER: Final = MARKS.owner_uid


class ChildLaws:
    """The checks of the laws (required properties) of the children of `box`, in the order of its resources.

    A child waits until its dependencies were ready, is created once if the box says so, and stays if the box says so.
    """

    def __init__(self, laws: Laws, box: Box) -> None:
        self._laws = laws
        self._nodes = {label_text(node.id): node for node in box.nodes}
        self._manager = f'"manager":"{box.field_manager}"'.encode()
        self._born: dict[str, tuple[str, str]] = {}
        """The owner and the resource of each child that the box has created, by the child's uid."""
        self._once: set[tuple[str, str, str]] = set()
        self._ready: set[tuple[str, str]] = set()
        """The owners and resources of which a child was ready at some time."""
        laws.world.on_write.append(self._wrote)
        for kind in dict.fromkeys(node.kind for node in box.nodes):
            laws.observe(kind, self._child)

    def _child(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        node = None if after is None else self._nodes.get(after.labels.get(MARKS.node, ""))
        if after is None or node is None or _OWNER not in after.labels:
            return
        owner = after.labels[_OWNER]
        if readiness(after.shared(), node.schema).state is State.READY:
            self._ready.add((owner, node.id))
        if before is None and self._manager in after.raw and not self._laws.is_restored_now:
            self._born[after.uid] = owner, label_text(node.id)
            self._check_birth(ref, owner, node)

    def _check_birth(self, ref: ObjectRef, owner: str, node: BoxNode) -> None:
        for edge in node.edges:
            target = self._nodes.get(label_text(edge.to))
            if edge.declared and edge.until is Until.READY and target is not None and _is_checked(target):
                was_ready = (owner, target.id) in self._ready
                law = "a child waits for what it depends on"
                self._laws.check("PH-1", law, ref, was_ready, f"{target.id} was never ready")
        if node.apply is ApplyMode.ONCE:
            is_first = (owner, node.id, ref.name) not in self._once or self._laws.world.was_restored
            self._once.add((owner, node.id, ref.name))
            self._laws.check("PH-2", "what is created once is not created again", ref, is_first, "it was there before")

    def _wrote(self, write: ObservedWrite) -> None:
        """Check that no child is deleted that is to stay."""
        if write.request.verb is not KubeVerb.DELETE or write.error is not None:
            return
        uid = str(get_path(write.request.body, "preconditions", "uid") or "")
        node = self._nodes.get(self._born.get(uid, ("", ""))[1])
        if node is not None and node.on_immutable is not OnImmutable.RECREATE:
            goes = node.on_delete is not Removal.ORPHAN
            self._laws.check("PH-3", "what is to stay is not deleted", write.request.ref, goes, "it outlives its owner")


def _is_checked(target: BoxNode) -> bool:
    """Report whether a dependency has exactly one child, which its owner created. A child that is created only once may
    have been created by an earlier owner.
    """
    return target.iteration is None and target.apply is ApplyMode.ALWAYS
