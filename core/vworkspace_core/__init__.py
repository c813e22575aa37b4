"""The operator's core: pure decisions about ApplicationInstances, Operations and Clusters.

`reconcile` and `reconcile_operation` decide from what was observed; `purekube.run_pass` carries a decision out.
`operations` has the engines (adapters that carry out an Operation, such as Velero's) and their templates.
`docs/embedding.md` has an example of most uses.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from vworkspace_core.api.application_instance import ApplicationInstance
    from vworkspace_core.api.codec import read_application_instance, read_operation
    from vworkspace_core.api.crd import crd_manifests
    from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
    from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
    from vworkspace_core.api.operation import Operation
    from vworkspace_core.instances.context import Context, InstanceObserved, Settings
    from vworkspace_core.instances.observe import observe_live
    from vworkspace_core.instances.reconcile import reconcile
    from vworkspace_core.operations.context import OperationContext, OperationObserved, observe_operation_live
    from vworkspace_core.operations.reconcile import reconcile_operation
    from vworkspace_core.operations.settings import OperationSettings

__all__ = [
    "APPLICATION_INSTANCE",
    "FIELD_MANAGER",
    "FINALIZER",
    "OPERATION",
    "ApplicationInstance",
    "Context",
    "InstanceObserved",
    "Operation",
    "OperationContext",
    "OperationObserved",
    "OperationSettings",
    "Settings",
    "crd_manifests",
    "observe_live",
    "observe_operation_live",
    "read_application_instance",
    "read_operation",
    "reconcile",
    "reconcile_operation",
]

__getattr__, __dir__ = lazy_door(__name__)
