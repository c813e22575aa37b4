"""The moments of a box's scenario, each with the drawing of its object, for the page (SEE-3)."""

from datetime import timedelta

import attrs

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.secret_material import safe
from purekube.boxes.decide import composite_of
from purekube.composites.observe import observe_live
from purekube_run.simulation.box_world import BoxWorld
from vworkspace_core.overview.object_graph import ObjectGraph, graph_of_parent
from vworkspace_core.overview.trace import MOST_MOMENTS, Moment


@attrs.define
class Recorder:
    """The recorded moments of a scenario. `note` is the callback of `run_scenario`."""

    moments: list[Moment] = attrs.field(factory=list)
    _world: BoxWorld | None = None
    _lines: int = 0

    def note(self, world: BoxWorld, name: str, subject: ObjectRef, messages: tuple[str, ...]) -> None:
        """Record the present state, with these messages and the lines of the timeline since the last moment."""
        if world is not self._world:
            self._world, self._lines = world, 0
        if len(self.moments) >= MOST_MOMENTS:
            return
        lines = [line.partition(" s  ")[2] for line in world.timeline[self._lines :]]
        self._lines = len(world.timeline)
        wait = world.waits(subject)
        facts = {
            "virtual time": _span(world.seconds),
            "writes": str(world.writes),
            "looks again": "when woken" if wait is None else _span(wait),
        }
        text = tuple(safe(line) for line in (*lines, *messages))
        self.moments.append(Moment(world.now(), safe(f"{name}: {subject}"), _picture(world, subject), text, facts))


def _picture(world: BoxWorld, subject: ObjectRef) -> ObjectGraph:
    manifest = world.get(subject)
    if manifest is None:
        return ObjectGraph((), ())
    composite = composite_of(world.box)
    observed = run_sync(observe_live(world.admin, composite, composite.read(manifest)))
    return graph_of_parent(composite, manifest, observed, world.now())


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds, 1))).removesuffix("00000")
