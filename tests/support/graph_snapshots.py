"""Plans of one or two graph nodes from a snapshot that is given as data, without a server.

A node is a ConfigMap of its id's name in the namespace of the owner. What exists is made from what would be applied.
"""

from typing import Any, Final

import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Failure, Snapshot
from purekube.graph.node import ApplyPolicy, Edge, GraphNode, Item, Rendered, Scope
from purekube.graph.node_order import Graph
from purekube.graph.owner import Marks, Owner
from purekube.graph.plan import Plan, plan
from purekube.graph.states import Observation

SHOP: Final = Kind("tests.example", "v1", "Shop", "shops")
MARKS: Final = Marks("box.example")
OWNER: Final = Owner(SHOP, ObjectMeta("shop", "team", "u-1"), "box.shop", MARKS, {"made-by": "box"})
REFERENCE: Final = {
    "apiVersion": "tests.example/v1",
    "kind": "Shop",
    "name": "shop",
    "uid": "u-1",
    "controller": True,
    "blockOwnerDeletion": True,
}
LINE: Final = Place("resources.a", "box.yaml", 7)
"""The place of node `a`; others have none."""


def named(name: str) -> ObjectRef:
    """Return the reference of a ConfigMap next to the owner."""
    return ObjectRef(CONFIG_MAP, "team", name)


def written(name: str = "a") -> dict[str, Any]:
    """Return what the author of a node writes."""
    return {**CONFIG_MAP.manifest(name), "data": {"size": "1"}}


def node(node_id: str = "a", *edges: Edge, **more: Any) -> GraphNode:
    """Return a node of one ConfigMap, changed by `more`."""
    usual = {
        "kind": CONFIG_MAP,
        "render": lambda scope: Rendered((Item("", written(node_id)),)),
        "place": LINE if node_id == "a" else Place(),
    }
    return GraphNode(node_id, edges=edges, **{**usual, **more})


def planned(*nodes: GraphNode, owner: Owner = OWNER, **observed: Any) -> Plan:
    """Return the plan of these nodes; `observed` are fields of the snapshot."""
    return plan(Graph.of(nodes), owner, Snapshot(**observed), Scope())


def of(result: Plan, node_id: str = "a") -> Observation:
    """Return the state of the only object of a node."""
    (observation,) = result.observations[node_id]
    return observation


def live(one: GraphNode, uid: str = "u-a", owner: Owner = OWNER, **meta: Any) -> dict[str, Any]:
    """Return the object of a node as it exists once it is as desired."""
    (apply,) = planned(attrs.evolve(one, edges=(), policy=ApplyPolicy.ALWAYS), owner=owner).effects.applies
    return {
        **apply.manifest,
        "metadata": {**apply.manifest["metadata"], "uid": uid, "resourceVersion": "5", **meta},
    }


def refused(error: OperatorError, verb: str = "apply", name: str = "a", **more: Any) -> tuple[Failure, ...]:
    """Return the one write that was refused in this pass."""
    return (Failure(named(name), verb, error, **more),)
