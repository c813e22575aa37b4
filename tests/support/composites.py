"""A description of a composite for tests: parents of the kind Shop, with children of built-in kinds."""

from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, NAMESPACE, SERVICE_ACCOUNT
from purekube.composites.composite import Composite
from purekube.composites.parent import Parent, kinds_annotation
from purekube.controller.decision import Decision
from purekube.graph.owner import Marks

SHOP: Final = Kind("example.com", "v1", "Shop", "shops")
PLANET: Final = Kind("example.com", "v1", "Planet", "planets", namespaced=False)
GADGET: Final = Kind("example.org", "v1beta1", "Gadget", "gadgets")
MANAGER: Final = "vworkspace-box.shop"
FINALIZER: Final = "box.example.com/shop"
MARKS: Final = Marks("box.example.com")
KINDS: Final = (CONFIG_MAP, DEPLOYMENT, NAMESPACE)


@attrs.frozen
class Read:
    """An object that a composite only reads."""

    kind: Kind
    watch: bool = True
    elsewhere: bool = False
    fields: tuple[tuple[str, ...], ...] = ()
    selector: dict[str, Any] = attrs.field(factory=dict)


def composite(**more: Any) -> Composite:
    """A composite that makes ConfigMaps and Deployments beside its parents, and Namespaces."""
    given: dict[str, Any] = {
        "name": "shop",
        "word": "box",
        "controller": "box-shop",
        "kind": SHOP,
        "manager": MANAGER,
        "finalizer": FINALIZER,
        "marks": MARKS,
        "labels": {"made-by": "shop"},
        "selector": "box=shop",
        "child_kinds": KINDS,
        "fields": ("ready",),
        "decide": lambda parent, observed, now: Decision(),
        "external_refs": lambda parent: (),
        "role_command": "vworkspace-operator box rbac shop.yaml",
    }
    return Composite(**{**given, **more})


def by_account(**more: Any) -> Composite:
    """The same, which works as a ServiceAccount of its parent's namespace."""
    return composite(account=lambda parent: ObjectRef(SERVICE_ACCOUNT, "team", "builder"), **more)


def shop(annotations: dict[str, str] | None = None, manager: str = MANAGER, **meta: Any) -> Manifest:
    """A parent whose annotations a manager wrote."""
    said = dict(annotations or {})
    entry = {
        "manager": manager,
        "operation": "Apply",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in said}}},
    }
    live = SHOP.manifest("corner", "team")
    more = {"uid": "u-1", "resourceVersion": "7", "generation": 3, "annotations": said, "managedFields": [entry]}
    return {**live, "metadata": {**live["metadata"], **more, **meta}}


def recording(*kinds: Kind, of: Composite | None = None, **meta: Any) -> Parent:
    """A parent whose record names kinds."""
    described = of or composite()
    return described.read(shop({described.kinds_annotation: kinds_annotation(kinds)}, **meta))
