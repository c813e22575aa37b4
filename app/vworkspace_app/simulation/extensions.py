"""The simulation of a user's boxes and controllers: files of boxes, names of controllers, further CRDs (SIM-5)."""

from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from purekube_run.boxes.load import further_crds, load_box, runnable
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.reconcilers.loading import controllers_in, load_controllers
from purekube_run.simulation.extension_world import ExtensionLaws, ExtensionWorld, simulation_of
from purekube_run.simulation.run import Simulation

ExtensionSimulation: TypeAlias = Simulation[ExtensionWorld, ExtensionLaws]


@lru_cache(maxsize=8)
def extension_simulation(
    boxes: tuple[str, ...], controllers: tuple[str, ...], crds: tuple[str, ...]
) -> ExtensionSimulation:
    """Return the simulation of these. Raises CommandError for what cannot be found, read, or run together."""
    further = list(further_crds([Path(path) for path in crds]))
    loaded = load_controllers([name for given in controllers for name in controllers_in(given)])
    files = runnable([load_box(path, further) for path in boxes])
    own = {box.kind.crd_name for box in files}
    definitions = [crd.manifest for crd in further if crd.manifest["metadata"]["name"] not in own]
    if not (files or loaded.pure or loaded.given):
        raise CommandError("there is no box and no controller to simulate", status=USAGE)
    return simulation_of(*files, *loaded.pure, *loaded.given, definitions=definitions)
