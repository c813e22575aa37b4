"""An ApplicationInstance that cannot be read: it is said in its status, and it can still be deleted.

The CRD keeps such objects out; one that was stored under an older schema may be there all the same. Nothing is
applied for it, and what runs goes on.
"""

import attrs

from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ApplicationInstanceSpec,
    ApplicationInstanceStatus,
    AppRef,
)
from vworkspace_core.api.codec import read_meta, structure
from vworkspace_core.api.labels import FINALIZER, is_managed
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.apimachinery.meta import ObjectMeta
from vworkspace_core.apimachinery.problems import ValidationProblems
from vworkspace_core.controller.decision import Decision
from vworkspace_core.instances import conditions
from vworkspace_core.instances.context import Context, Observed
from vworkspace_core.instances.deletion import decide_deletion
from vworkspace_core.instances.status import StatusFields, own_conditions, with_status


@attrs.frozen
class Unreadable:
    """What can be known of an object whose spec makes no sense, and what is wrong with it."""

    stub: ApplicationInstance
    problems: str

    @classmethod
    def of(cls, manifest: Manifest, error: ValidationProblems) -> "Unreadable":
        """Metadata as it is; the status too, where that can be read."""
        try:
            status = structure(ApplicationInstanceStatus, manifest.get("status") or {})
        except ValidationProblems:
            status = ApplicationInstanceStatus()
        stub = ApplicationInstance(read_meta(manifest), ApplicationInstanceSpec(AppRef("unreadable")), status)
        return cls(stub, "; ".join(str(problem) for problem in error.problems))

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        return self.stub.metadata


def decide_unreadable(source: Unreadable, observed: Observed, context: Context) -> Decision:
    """Finalize it when it is being deleted, otherwise say what is wrong (REC-13)."""
    stub = source.stub
    if stub.metadata.deletion_timestamp is not None:
        return decide_deletion(stub, observed, context) if FINALIZER in stub.metadata.finalizers else Decision()
    if not is_managed(stub.metadata):
        return Decision()
    previous = {condition.type: condition for condition in own_conditions(stub.status)}
    wanted = conditions.blocked(Reason.VALIDATION_FAILED, source.problems, previous, stalled=True)
    return with_status(Decision(), stub, wanted, StatusFields.of(stub.status), context)
