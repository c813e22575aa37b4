"""The graph engine: which objects exist for an owner, in which order they are applied, and their state (PH-1 to PH-3).

A node is a resource of the graph: it requires any number of child objects of one kind. `Graph.of(nodes)` orders the
nodes; `plan` decides what is written now, `teardown` how everything is removed, and `conditions_of` which conditions
the owner's status has. All are pure. Expressions are passed in as functions of a `Scope` (the values that they may
read): the engine depends on no particular kinds and on no expression language.
"""

from purekube.graph.account import GraphReason, conditions_of, conditions_of_teardown
from purekube.graph.node import (
    NOWHERE,
    ApplyPolicy,
    Child,
    Edge,
    GraphNode,
    Hold,
    HoldCause,
    Item,
    NodeChildren,
    NodeKnowledge,
    OnImmutable,
    PruneTime,
    Removal,
    Rendered,
    Scope,
    Until,
)
from purekube.graph.node_order import Cycle, DuplicateNode, Graph, GraphError, UnknownNode
from purekube.graph.owner import CreateRecord, Marks, Owner
from purekube.graph.plan import Plan, plan
from purekube.graph.states import NodeState, Observation
from purekube.graph.teardown import Hooks, Teardown, TeardownStep, teardown

__all__ = [
    "NOWHERE",
    "ApplyPolicy",
    "Child",
    "CreateRecord",
    "Cycle",
    "DuplicateNode",
    "Edge",
    "Graph",
    "GraphError",
    "GraphNode",
    "GraphReason",
    "Hold",
    "HoldCause",
    "Hooks",
    "Item",
    "Marks",
    "NodeChildren",
    "NodeKnowledge",
    "NodeState",
    "Observation",
    "OnImmutable",
    "Owner",
    "Plan",
    "PruneTime",
    "Removal",
    "Rendered",
    "Scope",
    "Teardown",
    "TeardownStep",
    "UnknownNode",
    "Until",
    "conditions_of",
    "conditions_of_teardown",
    "plan",
    "teardown",
]
