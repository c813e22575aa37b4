"""The core: pure decisions about our kinds, and the pass that carries one out through a `KubeApi`.

`reconcile` and `reconcile_operation` decide from what was observed; `run_pass` observes, decides and writes through the
port. The doors of the rooms: `ports` (what the core asks of the world, and the errors), `operations` (engines and
templates), `graph` (objects that depend on each other), `cel`, `regex`, `schema`, `readiness`. `docs/embedding.md` has
an example of most uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from vworkspace_core.api.application_instance import ApplicationInstance
    from vworkspace_core.api.codec import read_application_instance, read_operation
    from vworkspace_core.api.crd import crd_manifests
    from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
    from vworkspace_core.api.operation import Operation
    from vworkspace_core.apimachinery.errors import OperatorError
    from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef
    from vworkspace_core.apimachinery.meta import Condition, ObjectMeta
    from vworkspace_core.apimachinery.problems import ValidationProblems
    from vworkspace_core.apimachinery.resources import (
        APPLICATION_INSTANCE,
        CUSTOM_RESOURCE_DEFINITION,
        NAMESPACE,
        OPERATION,
    )
    from vworkspace_core.apimachinery.structuring import read_meta
    from vworkspace_core.controller.decision import (
        Apply,
        Create,
        Decision,
        Delete,
        Failure,
        Finalizer,
        MergePatch,
        Snapshot,
    )
    from vworkspace_core.controller.execute import PassRules
    from vworkspace_core.controller.reconcile import ReconcileResult, run_pass
    from vworkspace_core.controller.requeue import Requeue
    from vworkspace_core.instances.context import Context, InstanceObserved, Settings
    from vworkspace_core.instances.observe import observe_live
    from vworkspace_core.instances.reconcile import reconcile
    from vworkspace_core.operations.context import OperationContext, OperationObserved
    from vworkspace_core.operations.observe import observe_operation_live
    from vworkspace_core.operations.reconcile import reconcile_operation
    from vworkspace_core.operations.settings import OperationSettings

__all__ = [
    "APPLICATION_INSTANCE",
    "CUSTOM_RESOURCE_DEFINITION",
    "FIELD_MANAGER",
    "FINALIZER",
    "NAMESPACE",
    "OPERATION",
    "ApplicationInstance",
    "Apply",
    "Condition",
    "Context",
    "Create",
    "Decision",
    "Delete",
    "Failure",
    "Finalizer",
    "InstanceObserved",
    "Kind",
    "Manifest",
    "MergePatch",
    "ObjectMeta",
    "ObjectRef",
    "Operation",
    "OperationContext",
    "OperationObserved",
    "OperationSettings",
    "OperatorError",
    "PassRules",
    "ReconcileResult",
    "Requeue",
    "Settings",
    "Snapshot",
    "ValidationProblems",
    "crd_manifests",
    "observe_live",
    "observe_operation_live",
    "read_application_instance",
    "read_meta",
    "read_operation",
    "reconcile",
    "reconcile_operation",
    "run_pass",
]

_MODULES: Final = {
    "APPLICATION_INSTANCE": "vworkspace_core.apimachinery.resources",
    "CUSTOM_RESOURCE_DEFINITION": "vworkspace_core.apimachinery.resources",
    "FIELD_MANAGER": "vworkspace_core.api.labels",
    "FINALIZER": "vworkspace_core.api.labels",
    "NAMESPACE": "vworkspace_core.apimachinery.resources",
    "OPERATION": "vworkspace_core.apimachinery.resources",
    "ApplicationInstance": "vworkspace_core.api.application_instance",
    "Apply": "vworkspace_core.controller.decision",
    "Condition": "vworkspace_core.apimachinery.meta",
    "Context": "vworkspace_core.instances.context",
    "Create": "vworkspace_core.controller.decision",
    "Decision": "vworkspace_core.controller.decision",
    "Delete": "vworkspace_core.controller.decision",
    "Failure": "vworkspace_core.controller.decision",
    "Finalizer": "vworkspace_core.controller.decision",
    "InstanceObserved": "vworkspace_core.instances.context",
    "Kind": "vworkspace_core.apimachinery.manifest",
    "Manifest": "vworkspace_core.apimachinery.manifest",
    "MergePatch": "vworkspace_core.controller.decision",
    "ObjectMeta": "vworkspace_core.apimachinery.meta",
    "ObjectRef": "vworkspace_core.apimachinery.manifest",
    "Operation": "vworkspace_core.api.operation",
    "OperationContext": "vworkspace_core.operations.context",
    "OperationObserved": "vworkspace_core.operations.context",
    "OperationSettings": "vworkspace_core.operations.settings",
    "OperatorError": "vworkspace_core.apimachinery.errors",
    "ReconcileResult": "vworkspace_core.controller.reconcile",
    "PassRules": "vworkspace_core.controller.execute",
    "Requeue": "vworkspace_core.controller.requeue",
    "Settings": "vworkspace_core.instances.context",
    "Snapshot": "vworkspace_core.controller.decision",
    "ValidationProblems": "vworkspace_core.apimachinery.problems",
    "crd_manifests": "vworkspace_core.api.crd",
    "observe_live": "vworkspace_core.instances.observe",
    "observe_operation_live": "vworkspace_core.operations.observe",
    "read_application_instance": "vworkspace_core.api.codec",
    "read_meta": "vworkspace_core.apimachinery.structuring",
    "read_operation": "vworkspace_core.api.codec",
    "reconcile": "vworkspace_core.instances.reconcile",
    "reconcile_operation": "vworkspace_core.operations.reconcile",
    "run_pass": "vworkspace_core.controller.reconcile",
}
"""The module of each name, loaded on first use, since most programs need few."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
