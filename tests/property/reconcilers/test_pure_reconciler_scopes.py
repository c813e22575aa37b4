"""A pure reconciler of a kind without a namespace, and one whose nodes are in other namespaces (PH-3, PH-7)."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from kubelab.inprocess import run_sync
from kubelab.model.calls import RequestTarget
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.composites.rights import composite_access
from purekube.reconcilers import Children, Desired, Node, Object, PureReconciler, pure_reconciler, resource
from purekube.reconcilers.decide_pure import composite_of
from tests.support.composite_world import NS, CompositeWorld
from tests.support.shop import SHOP, ShopSpec, config


@attrs.frozen
class TenantSpec:
    """Somebody who gets a namespace."""

    owner: str = ""


@attrs.frozen
class TenantStatus:
    """Which one."""

    namespace: str = ""


TENANT: Final = resource("example.com", "v1", "Tenant", TenantSpec, TenantStatus, namespaced=False)


@pure_reconciler(TENANT, owns=["v1/Namespace", "v1/ConfigMap"])
def tenant(self: Object[TenantSpec, TenantStatus], children: Children) -> Desired[TenantStatus]:
    name = f"t-{self.metadata.name}"
    home = Node("home", NAMESPACE.manifest(name))
    about = config("about", owner=self.spec.owner)
    inside = Node("about", {**about, "metadata": {"name": "about", "namespace": name}}, depends_on=[home])
    return Desired([home, inside], TenantStatus(name if children.is_ready(home) else ""))


def test_a_kind_without_a_namespace_has_children_in_namespaces() -> None:
    world = CompositeWorld(composite_of(tenant), TENANT.crd(), {"owner": "me"})
    world.settle()

    home, about = ObjectRef(NAMESPACE, None, "t-shop"), ObjectRef(CONFIG_MAP, "t-shop", "about")
    assert world.condition()["status"] == "True"
    assert get_path(world.get(world.ref), "status", "namespace") == "t-shop"
    assert get_path(world.get(about), "metadata", "ownerReferences", 0, "kind") == "Tenant"
    assert [
        access.kind.kind for access in composite_access(world.composite).everywhere if "delete" in access.verbs
    ] == [
        "Namespace",
        "ConfigMap",
    ]

    world.server.delete(RequestTarget(world.server.resource(TENANT.kind), None, "shop"))
    world.settle()
    assert world.get(world.ref) is None
    assert (world.get(about), is_gone(world.get(home))) == (None, True)


def is_gone(manifest: Mapping[str, Any] | None) -> bool:
    """A namespace goes when its controller has emptied it, which is not simulated here."""
    return manifest is None or get_path(manifest, "metadata", "deletionTimestamp") is not None


def elsewhere(**more: Any) -> PureReconciler[Any, Any]:
    def shop(self: Object[Any, Any], children: Children) -> Desired[Any]:
        away = {**config("away"), "metadata": {"name": "away", "namespace": "other"}}
        return Desired([Node("here", config("here")), Node("away", away)], SHOP.status())

    return pure_reconciler(SHOP, owns=["v1/ConfigMap"], **more)(shop)


def test_nodes_in_other_namespaces_are_taken_down_by_their_labels() -> None:
    world = CompositeWorld(composite_of(elsewhere(across_namespaces=True)), SHOP.crd(), SHOP.spec_json(ShopSpec()))
    world.make(NAMESPACE.manifest("other"), NAMESPACE)
    world.settle()
    away = ObjectRef(CONFIG_MAP, "other", "away")
    assert get_path(world.get(away), "metadata", "ownerReferences") is None
    assert world.condition()["status"] == "True"

    world.server.delete(RequestTarget(world.server.resource(SHOP.kind), NS, "shop"))
    world.settle()
    assert (world.get(world.ref), world.get(away)) == (None, None)


def test_a_node_in_another_namespace_is_refused_where_that_was_not_said() -> None:
    """Nobody would look for it there when the object goes."""
    world = CompositeWorld(composite_of(elsewhere()), SHOP.crd(), SHOP.spec_json(ShopSpec()))
    world.make(NAMESPACE.manifest("other"), NAMESPACE)
    world.reconcile()

    assert world.condition("Stalled")["reason"] == "DesiredInvalid"
    assert "node away is in namespace other: give across_namespaces=True" in world.condition()["message"]
    assert world.children() == {}


@pure_reconciler(SHOP, owns=[TENANT])
def landlord(self: Object[Any, Any], children: Children) -> Desired[Any]:
    inside = Node("inside", {**TENANT.manifest(TENANT.new("inside", TenantSpec("me")))})
    return Desired([inside], SHOP.status(ready=int(children.is_ready(inside))))


def test_a_child_of_a_known_kind_is_ready_once_its_controller_says_so() -> None:
    """Before that it has no status, though its kind has one: that is progress, and not ready."""
    world = CompositeWorld(composite_of(landlord), SHOP.crd(), SHOP.spec_json(ShopSpec()))
    world.make(TENANT.crd(), CUSTOM_RESOURCE_DEFINITION)
    world.settle()
    assert (world.condition()["status"], ready_of(world)) == ("False", None)

    inside = ObjectRef(TENANT.kind, None, "inside")
    ready = {"type": "Ready", "status": "True", "reason": "Made", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"observedGeneration": 1, "conditions": [ready]}
    manifest = {**TENANT.kind.manifest("inside"), "status": status}
    run_sync(world.admin.apply_status(manifest, kind=TENANT.kind, field_manager="tenants"))
    world.settle()
    assert (world.condition()["status"], ready_of(world)) == ("True", 1)
    assert world.get(inside) is not None


def ready_of(world: CompositeWorld) -> Any:
    return get_path(world.get(world.ref), "status", "ready") or None
