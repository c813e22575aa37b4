"""The core: pure decisions about our kinds, and the pass that carries one out through a `KubeApi`.

`reconcile` and `reconcile_operation` decide from what was observed; `run_pass` observes, decides and writes through the
port. The doors of the rooms: `ports` (what the core asks of the world, and the errors), `operations` (engines and
templates), `graph` (objects that depend on each other), `cel`, `regex`, `schema`, `readiness`. `docs/embedding.md` has
an example of most uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from purekube.apimachinery.errors import OperatorError
    from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
    from purekube.apimachinery.meta import Condition, ObjectMeta
    from purekube.apimachinery.problems import ValidationProblems
    from purekube.apimachinery.resources import APPLICATION_INSTANCE, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, OPERATION
    from purekube.apimachinery.structuring import read_meta
    from purekube.controller.decision import Apply, Create, Decision, Delete, Failure, Finalizer, MergePatch, Snapshot
    from purekube.controller.execute import PassRules
    from purekube.controller.reconcile import ReconcileResult, run_pass
    from purekube.controller.requeue import Requeue
    from vworkspace_core.api.application_instance import ApplicationInstance
    from vworkspace_core.api.codec import read_application_instance, read_operation
    from vworkspace_core.api.crd import crd_manifests
    from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
    from vworkspace_core.api.operation import Operation
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
    "APPLICATION_INSTANCE": "purekube.apimachinery.resources",
    "CUSTOM_RESOURCE_DEFINITION": "purekube.apimachinery.resources",
    "FIELD_MANAGER": "vworkspace_core.api.labels",
    "FINALIZER": "vworkspace_core.api.labels",
    "NAMESPACE": "purekube.apimachinery.resources",
    "OPERATION": "purekube.apimachinery.resources",
    "ApplicationInstance": "vworkspace_core.api.application_instance",
    "Apply": "purekube.controller.decision",
    "Condition": "purekube.apimachinery.meta",
    "Context": "vworkspace_core.instances.context",
    "Create": "purekube.controller.decision",
    "Decision": "purekube.controller.decision",
    "Delete": "purekube.controller.decision",
    "Failure": "purekube.controller.decision",
    "Finalizer": "purekube.controller.decision",
    "InstanceObserved": "vworkspace_core.instances.context",
    "Kind": "purekube.apimachinery.manifest",
    "Manifest": "purekube.apimachinery.manifest",
    "MergePatch": "purekube.controller.decision",
    "ObjectMeta": "purekube.apimachinery.meta",
    "ObjectRef": "purekube.apimachinery.manifest",
    "Operation": "vworkspace_core.api.operation",
    "OperationContext": "vworkspace_core.operations.context",
    "OperationObserved": "vworkspace_core.operations.context",
    "OperationSettings": "vworkspace_core.operations.settings",
    "OperatorError": "purekube.apimachinery.errors",
    "ReconcileResult": "purekube.controller.reconcile",
    "PassRules": "purekube.controller.execute",
    "Requeue": "purekube.controller.requeue",
    "Settings": "vworkspace_core.instances.context",
    "Snapshot": "purekube.controller.decision",
    "ValidationProblems": "purekube.apimachinery.problems",
    "crd_manifests": "vworkspace_core.api.crd",
    "observe_live": "vworkspace_core.instances.observe",
    "observe_operation_live": "vworkspace_core.operations.observe",
    "read_application_instance": "vworkspace_core.api.codec",
    "read_meta": "purekube.apimachinery.structuring",
    "read_operation": "vworkspace_core.api.codec",
    "reconcile": "vworkspace_core.instances.reconcile",
    "reconcile_operation": "vworkspace_core.operations.reconcile",
    "run_pass": "purekube.controller.reconcile",
}
"""The module of each name, loaded on first use, since most programs need few."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
