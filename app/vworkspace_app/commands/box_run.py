"""`box run`: the operators of some files, and nothing else."""

import random
from collections.abc import Sequence

from vworkspace_app.commands.run_alone import MakeRunnable, Surroundings, run_alone
from vworkspace_app.composites.running import CompositeOptions, Composites
from vworkspace_app.settings import RunSettings
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.decide import composite_of
from vworkspace_core.composites.composite import Composite


def run_boxes(settings: RunSettings, boxes: Sequence[Box]) -> None:
    """Run until a signal. Raises CommandError for a cluster that cannot be named."""
    makers = [composites_in([*map(composite_of, boxes)], settings.workers)]
    run_alone(settings, makers, boxes=[box.name for box in boxes], kinds=[box.kind.crd_name for box in boxes])


def composites_in(composites: Sequence[Composite], workers: int) -> MakeRunnable:
    """Kinds with children, as they are run in a process."""

    def make(has: Surroundings) -> Composites:
        options = CompositeOptions(random.random, workers, has.run_id, has.telemetry.observer)
        return Composites(has.api, has.clock, composites, has.events, options)

    return make
