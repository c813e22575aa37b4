"""Recording of the events in a world, moment by moment, for the page (SEE-3)."""

from datetime import timedelta

import attrs

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.secret_material import safe
from purekube.boxes.decide import composite_of
from purekube.composites.observe import observe_live
from purekube_run.simulation.world import BoxWorld
from vworkspace_core.overview.object_graph import ObjectGraph, graph_of_parent
from vworkspace_core.overview.trace import MOST_MOMENTS, Moment


@attrs.define
class Recorder:
    """The moments of one object of a box, in `world`. `name` precedes the object's own."""

    world: BoxWorld
    subject: ObjectRef
    name: str
    moments: list[Moment] = attrs.field(factory=list)
    _lines: int = 0

    def note(self, *told: str) -> None:
        """Record the present state, with the lines given and those of the timeline since the last moment."""
        if len(self.moments) >= MOST_MOMENTS:
            return
        said = [line.partition(" s  ")[2] for line in self.world.timeline[self._lines :]]
        self._lines = len(self.world.timeline)
        facts = {
            "virtual time": _span(self.world.seconds),
            "writes": str(self.world.writes),
            "looks again": _span(wait) if (wait := self.world.waits(self.subject)) is not None else "when woken",
        }
        told_all = tuple(safe(line) for line in (*said, *told))
        self.moments.append(
            Moment(self.world.now, safe(f"{self.name}: {self.subject}"), self._picture(), told_all, facts)
        )

    def _picture(self) -> ObjectGraph:
        manifest = self.world.get(self.subject)
        if manifest is None:
            return ObjectGraph((), ())
        composite = composite_of(self.world.box)
        observed = run_sync(observe_live(self.world.admin, composite, composite.read(manifest)))
        return graph_of_parent(composite, manifest, observed, self.world.now)


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds, 1))).removesuffix("00000")
