"""Controllers in Python for kinds of your own: what a kind is, and how its objects are reconciled (PH-7).

`resource` makes a kind of two attrs classes: its CRD, and the code that reads and writes its objects as `Object`s,
typed from end to end. `pure_reconciler` makes a controller of a function from an object and its `Children` to what is
`Desired`: `Node`s and a status. `Reconciler` and `Watcher` manage things outside the cluster; `Request` and `Result`
are their input and output.
"""

from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.definitions import Column
from vworkspace_core.apimachinery.fields import CelRule, schema_field
from vworkspace_core.apimachinery.manifest import Kind, ObjectRef
from vworkspace_core.apimachinery.meta import ConditionStatus
from vworkspace_core.controller.backoff import Backoff
from vworkspace_core.controller.decision import Fill
from vworkspace_core.graph import ApplyPolicy, OnImmutable, PruneTime, Removal, Until
from vworkspace_core.reconcilers.access import controller_access
from vworkspace_core.reconcilers.controllers import Controller, Promise, Reconciler, Watcher
from vworkspace_core.reconcilers.desired import Children, Desired, Node
from vworkspace_core.reconcilers.object import Object, UnreadableObject
from vworkspace_core.reconcilers.pure import PureReconciler, Read, pure_reconciler
from vworkspace_core.reconcilers.request import Cause, Request, Result, Terminal
from vworkspace_core.reconcilers.resource import Resource, resource, rule
from vworkspace_core.reconcilers.retries import EXPONENTIAL, Constant, Never, RetryPolicy
from vworkspace_core.reconcilers.versions import KindConversion, conversion, versioned
from vworkspace_core.reconcilers.watching import METADATA_ONLY, Filters, Watch, Watched

__all__ = [
    "EXPONENTIAL",
    "METADATA_ONLY",
    "ApplyPolicy",
    "Backoff",
    "Cause",
    "CelRule",
    "Children",
    "Column",
    "ConditionStatus",
    "Constant",
    "Controller",
    "Desired",
    "Fill",
    "Filters",
    "Kind",
    "KindConversion",
    "Never",
    "Node",
    "Object",
    "ObjectRef",
    "OnImmutable",
    "Promise",
    "PruneTime",
    "PureReconciler",
    "Read",
    "Reconciler",
    "Removal",
    "Request",
    "Resource",
    "Result",
    "RetryPolicy",
    "Terminal",
    "UnreadableObject",
    "Until",
    "Wanted",
    "Watch",
    "Watched",
    "Watcher",
    "controller_access",
    "conversion",
    "pure_reconciler",
    "resource",
    "rule",
    "schema_field",
    "versioned",
]
