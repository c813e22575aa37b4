"""The pure part of the framework, without I/O of its own: decisions about objects of any kind, and the reconcile pass
that executes a decision through the interface `KubeApi`.

Its public packages: `ports` (interfaces to the API server, clock and so on, and the errors), `graph` (objects that
depend on others), `composites`, `boxes` and `reconcilers` (three ways to write an operator), `cel`, `regex`, `schema`,
`readiness`.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from purekube.apimachinery.errors import OperatorError
    from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
    from purekube.apimachinery.meta import Condition, ObjectMeta
    from purekube.apimachinery.problems import ValidationProblems
    from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
    from purekube.apimachinery.structuring import read_meta
    from purekube.controller.decision import (
        Apply,
        Create,
        Decision,
        Delete,
        Failure,
        Finalizer,
        MergePatch,
        Requeue,
        Snapshot,
    )
    from purekube.controller.execute import PassRules
    from purekube.controller.reconcile import ReconcileResult, run_pass

__all__ = [
    "CUSTOM_RESOURCE_DEFINITION",
    "NAMESPACE",
    "Apply",
    "Condition",
    "Create",
    "Decision",
    "Delete",
    "Failure",
    "Finalizer",
    "Kind",
    "Manifest",
    "MergePatch",
    "ObjectMeta",
    "ObjectRef",
    "OperatorError",
    "PassRules",
    "ReconcileResult",
    "Requeue",
    "Snapshot",
    "ValidationProblems",
    "read_meta",
    "run_pass",
]

__getattr__, __dir__ = lazy_door(__name__)
