"""One object of a user's kind: metadata, spec and status as values of its classes (PH-7)."""

from typing import Generic, TypeVar

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import Condition, ObjectMeta

Spec = TypeVar("Spec")
Status = TypeVar("Status")


@attrs.frozen
class Object(Generic[Spec, Status]):
    """An object in its current state: `status` has no values if none was written yet.

    `manifest` is all that the API server sent, including fields that the classes do not know. It does not count for
    equality: two objects are equal when all else is.
    """

    kind: Kind
    metadata: ObjectMeta
    spec: Spec
    status: Status
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    manifest: Manifest = attrs.field(factory=dict, eq=False, repr=False)

    @property
    def ref(self) -> ObjectRef:
        """The reference of the object."""
        return ObjectRef(self.kind, self.metadata.namespace or None, self.metadata.name)

    @property
    def is_deleting(self) -> bool:
        """Report whether it is being deleted: finalizers still hold it."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, condition_type: str) -> Condition | None:
        """Return the condition of a type."""
        return next((condition for condition in self.conditions if condition.type == condition_type), None)


@attrs.frozen
class UnreadableObject:
    """An object whose spec or status does not fit its classes: what is known of it, and everything that is wrong.

    The CRD refuses such objects, but one that was stored under an older schema may still exist.
    """

    kind: Kind
    metadata: ObjectMeta
    problems: str
    conditions: tuple[Condition, ...] = ()
    manifest: Manifest = attrs.field(factory=dict, eq=False, repr=False)

    @property
    def ref(self) -> ObjectRef:
        """The reference of the object."""
        return ObjectRef(self.kind, self.metadata.namespace or None, self.metadata.name)

    @property
    def is_deleting(self) -> bool:
        """Report whether it is being deleted: finalizers still hold it."""
        return self.metadata.deletion_timestamp is not None
