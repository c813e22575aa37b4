"""The condition types that the operator owns, and how it treats objects that it ignores or cannot read.

See RES-4, RES-5 and REC-13.
"""

from typing import Final, Generic, Protocol, TypeVar

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.structuring import structure
from purekube.controller.managed_fields import StatusOwner
from purekube.ports import KubernetesEvent
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.api.reasons import ClusterConditionType, InstanceConditionType, OperationConditionType

OWN_STATUS: Final = StatusOwner(
    FIELD_MANAGER,
    {
        APPLICATION_INSTANCE: frozenset(InstanceConditionType),
        OPERATION: frozenset(OperationConditionType),
        CLUSTER: frozenset(ClusterConditionType),
    },
)


def unmanaged(ref: ObjectRef, manifest: Manifest) -> KubernetesEvent | None:
    """Return the Event which says that the operator ignores the object, because the object lacks the managed-by label.

    Return None if the object has that label, or is being deleted.
    """
    value = get_path(manifest, "metadata", "labels", MANAGED_BY)
    if value == MANAGED_BY_VALUE or metadata(manifest).get("deletionTimestamp"):
        return None
    where = f" -n {ref.namespace}" if ref.namespace else ""
    present, overwrite = (f', but {MANAGED_BY}="{value}"', " --overwrite") if value is not None else ("", "")
    label = f"{MANAGED_BY}={MANAGED_BY_VALUE}"
    note = (
        f"the operator leaves this object alone: it does not carry the label {label}{present}. "
        f"To hand it over: kubectl label {ref.kind.crd_name} {ref.name}{where} {label}{overwrite}"
    )
    return KubernetesEvent(ref, str(metadata(manifest).get("uid", "")), "Warning", "NotManaged", "Reconcile", note)


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


S = TypeVar("S", bound=_Object)
T = TypeVar("T")


@attrs.frozen
class Unreadable(Generic[S]):
    """A malformed object: its readable part (`stub`) and a message with its problems.

    `has_spec` says that the stub has the type and the engine of an Operation, which are needed to stop a run that the
    Operation has started. `has_status` says that the status is known; an unknown status must not be overwritten.
    """

    stub: S
    problems: str
    has_spec: bool = False
    has_status: bool = True

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        return self.stub.metadata


def read_status(cls: type[T], manifest: Manifest) -> T | None:
    """Return only the status of the object `manifest`, or None if the status is malformed.

    `cls` is the attrs class of the status, such as OperationStatus. An absent status is read like an empty one.
    """
    try:
        return structure(cls, manifest.get("status") or {})
    except ValidationProblems:
        return None


def problem_text(error: ValidationProblems) -> str:
    """Return all problems in `error` as one text for a message, separated by semicolons."""
    return "; ".join(str(problem) for problem in error.problems)


def readable(source: S | Unreadable[S]) -> S:
    """Return `source` itself, or its readable part (`stub`) if it is a malformed object."""
    if not isinstance(source, Unreadable):
        return source
    stub: S = source.stub
    return stub
