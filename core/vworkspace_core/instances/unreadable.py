"""An ApplicationInstance that cannot be read (REC-13): nothing is applied for it, and its release keeps running."""

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.structuring import read_meta
from purekube.controller.decision import Decision
from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ApplicationInstanceSpec,
    ApplicationInstanceStatus,
    AppRef,
)
from vworkspace_core.api.labels import FINALIZER, is_managed
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.unreadable import Unreadable, problem_text, read_status
from vworkspace_core.instances import conditions
from vworkspace_core.instances.context import Context, InstanceObserved
from vworkspace_core.instances.deletion import decide_deletion
from vworkspace_core.instances.status import StatusFields, own_conditions, with_status


def unreadable_instance(manifest: Manifest, error: ValidationProblems) -> Unreadable[ApplicationInstance]:
    """Make a stub of an unreadable instance: its metadata, and its status if that can be read."""
    status = read_status(ApplicationInstanceStatus, manifest) or ApplicationInstanceStatus()
    stub = ApplicationInstance(read_meta(manifest), ApplicationInstanceSpec(AppRef("unreadable")), status)
    return Unreadable(stub, problem_text(error))


def decide_unreadable(
    source: Unreadable[ApplicationInstance], observed: InstanceObserved, context: Context
) -> Decision:
    """Finalize an unreadable instance that is being deleted; otherwise report its problems (REC-13)."""
    stub = source.stub
    if stub.metadata.deletion_timestamp is not None:
        return decide_deletion(stub, observed, context) if FINALIZER in stub.metadata.finalizers else Decision()
    if not is_managed(stub.metadata):
        return Decision()
    previous = {condition.type: condition for condition in own_conditions(stub.status)}
    desired = conditions.blocked(Reason.VALIDATION_FAILED, source.problems, previous, stalled=True)
    return with_status(Decision(), stub, desired, StatusFields.of(stub.status), context)
