"""Controllers in Python for kinds of your own: what a kind is, and what is done with its objects (PH-7).

`resource` makes a kind of two attrs classes: its CRD, and what reads and writes its objects as `Object`s, typed from
end to end.
"""

from vworkspace_core.apimachinery.definitions import Column
from vworkspace_core.apimachinery.fields import CelRule, schema_field
from vworkspace_core.reconcilers.object import Object, UnreadableObject
from vworkspace_core.reconcilers.resource import Resource, resource, rule

__all__ = [
    "CelRule",
    "Column",
    "Object",
    "Resource",
    "UnreadableObject",
    "resource",
    "rule",
    "schema_field",
]
