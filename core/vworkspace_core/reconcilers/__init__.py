"""Controllers in Python for kinds of your own: what a kind is, and what is done with its objects (PH-7).

`resource` makes a kind of two attrs classes: its CRD, and what reads and writes its objects as `Object`s, typed from
end to end.
`Reconciler` and `Watcher` are what people write; `Request` and `Result` what goes in and comes out.
"""

from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.definitions import Column
from vworkspace_core.apimachinery.fields import CelRule, schema_field
from vworkspace_core.controller.backoff import Backoff
from vworkspace_core.reconcilers.access import controller_access
from vworkspace_core.reconcilers.controllers import Controller, Promise, Reconciler, Watcher
from vworkspace_core.reconcilers.object import Object, UnreadableObject
from vworkspace_core.reconcilers.request import Cause, Request, Result, Terminal
from vworkspace_core.reconcilers.resource import Resource, resource, rule
from vworkspace_core.reconcilers.retries import EXPONENTIAL, Constant, Never, RetryPolicy
from vworkspace_core.reconcilers.watching import METADATA_ONLY, Filters, Watch, Watched

__all__ = [
    "EXPONENTIAL",
    "METADATA_ONLY",
    "Backoff",
    "Cause",
    "CelRule",
    "Column",
    "Constant",
    "Controller",
    "Filters",
    "Never",
    "Object",
    "Promise",
    "Reconciler",
    "Request",
    "Resource",
    "Result",
    "RetryPolicy",
    "Terminal",
    "UnreadableObject",
    "Wanted",
    "Watch",
    "Watched",
    "Watcher",
    "controller_access",
    "resource",
    "rule",
    "schema_field",
]
