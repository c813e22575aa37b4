"""The graph engine: which objects exist for an owner, in which order they are applied, and their state (PH-1 to PH-3).

A node is a resource of the graph: it requires any number of child objects of one kind. `Graph.of(nodes)` orders the
nodes; `plan` decides what is written now, `teardown` how everything is removed, and `conditions_of` which conditions
the owner's status has. All are pure. Expressions are passed in as functions of a `Scope` (the values that they may
read): the engine depends on no particular kinds and on no expression language.
"""
