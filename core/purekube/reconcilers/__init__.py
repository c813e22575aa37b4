"""Controllers in Python for kinds of your own: what a kind is, and how its objects are reconciled (PH-7).

`resource` makes a kind of two attrs classes: its CRD, and the code that reads and writes its objects as `Object`s,
typed from end to end. `pure_reconciler` makes a controller of a function from an object and its `Children` to what is
`Desired`: `Node`s and a status. `Reconciler` and `Watcher` manage things outside the cluster; `Request` and `Result`
are their input and output.
"""

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.definitions import Column
from purekube.apimachinery.fields import CelRule, schema_field
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.meta import ConditionStatus
from purekube.controller.backoff import Backoff
from purekube.controller.decision import Fill
from purekube.graph import ApplyPolicy, OnImmutable, PruneTime, Removal, Until
from purekube.reconcilers.controllers import Controller, Feature, Reconciler, Watcher, controller_access
from purekube.reconcilers.desired import Children, Desired, Node, Object, UnreadableObject
from purekube.reconcilers.kind_versions import KindConversion, conversion, versioned
from purekube.reconcilers.pure import PureReconciler, Read, pure_reconciler
from purekube.reconcilers.request import (
    EXPONENTIAL,
    Cause,
    Constant,
    Event,
    Never,
    Request,
    Result,
    RetryPolicy,
    Terminal,
)
from purekube.reconcilers.resource import Resource, resource, rule
from purekube.reconcilers.watching import METADATA_ONLY, Filters, Watch, Watched

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
    "DesiredCondition",
    "Event",
    "Feature",
    "Fill",
    "Filters",
    "Kind",
    "KindConversion",
    "Never",
    "Node",
    "Object",
    "ObjectRef",
    "OnImmutable",
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
