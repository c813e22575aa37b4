"""The engine: what is to be done so that everything in a graph exists and is ready (PH-1, PH-2, PH-3)."""

from collections.abc import Mapping

import attrs

from vworkspace_core.controller.decision import Decision, Snapshot
from vworkspace_core.graph.build import Graph
from vworkspace_core.graph.once import CreateRecord
from vworkspace_core.graph.owner import Owner
from vworkspace_core.graph.scope import Scope
from vworkspace_core.graph.states import Observation


@attrs.frozen
class Plan:
    """What was found, and what follows.

    `observations` has an entry for each item, by node id, in the order of the graph. `effects` are all writes and when
    to look again, without finalizer, status and events: those are the caller's. `records` is what the owner's status
    is to say of objects that are created once; where it differs from `Owner.records` the status has to be written
    before anything is created. `scope` is whole: expressions of the status are evaluated in it.
    """

    observations: Mapping[str, tuple[Observation, ...]]
    effects: Decision
    scope: Scope
    records: tuple[CreateRecord, ...] = ()
    going: tuple[Observation, ...] = ()
    """What is not wanted any more and is still there: to be pruned, or held until all is ready."""

    @property
    def is_ready(self) -> bool:
        """Whether all that is wanted is ready."""
        return all(one.is_ready for items in self.observations.values() for one in items)


def plan(graph: Graph, owner: Owner, observed: Snapshot, scope: Scope) -> Plan:
    """What is to be done now. `observed.objects` holds everything that carries the owner's label, and every object of
    a name that the graph wants or looks at.
    """
    raise NotImplementedError
