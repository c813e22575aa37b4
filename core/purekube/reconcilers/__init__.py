"""Controllers in Python for kinds of your own: the definition of a kind, and the reconciliation of its objects (PH-7).

`resource` makes a kind from two attrs classes: its CRD, and the code that reads and writes its objects as fully typed
`Object`s. `pure_reconciler` makes a controller from a function that takes an object and its `Children`, and returns the
`Desired` state: `Node`s (objects that should exist) and a status. `Reconciler` (called until the cluster matches an
object) and `Watcher` (called for each change of an object) are for systems outside the cluster; `Request` and
`Result` are the input and output of a `Reconciler`.
"""

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.definitions import Column
from purekube.apimachinery.fields import CelRule, schema_field
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.problems import Problem
from purekube.controller.backoff import Backoff
from purekube.controller.decision import Fill
from purekube.graph.node import ApplyPolicy, OnImmutable, PruneTime, Removal, Until
from purekube.reconcilers.controllers import Controller, Feature, Reconciler, Watcher, controller_access
from purekube.reconcilers.desired import (
    Admission,
    AdmissionWarning,
    Children,
    Defaulter,
    Desired,
    Node,
    Object,
    UnreadableObject,
    Validator,
)
from purekube.reconcilers.kind_reviews import reviewed
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
    "Admission",
    "AdmissionWarning",
    "ApplyPolicy",
    "Backoff",
    "Cause",
    "CelRule",
    "Children",
    "Column",
    "ConditionStatus",
    "Constant",
    "Controller",
    "Defaulter",
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
    "Problem",
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
    "Validator",
    "Watch",
    "Watched",
    "Watcher",
    "controller_access",
    "conversion",
    "pure_reconciler",
    "resource",
    "reviewed",
    "rule",
    "schema_field",
    "versioned",
]
