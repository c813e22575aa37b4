"""The simulations of the operator and of users' boxes and controllers, and functions that run scripts (SIM-1, SIM-5).

A box is an operator that a file declares. A script has the actions and faults of a run.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from purekube_run.boxes.load import further_crds, load_box, runnable
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.reconcilers.controller_loading import controllers_in, load_controllers
from purekube_run.simulation import script_file
from purekube_run.simulation.extensions.extension_world import Deed, ExtensionLaws, simulation_of
from purekube_run.simulation.extensions.rollout_world import RolloutDeed, applied_spec, rollout_simulation_of
from purekube_run.simulation.run import Simulation, SimulationOutcome
from purekube_run.simulation.script import SimulationScript
from vworkspace_app.simulation.acts import Do, lives
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.operator_laws import OperatorLaws
from vworkspace_app.simulation.operator_world import ENGINES, FLUX, SimulatedWorld, WorldSettings
from vworkspace_app.simulation.workload import SimulatedWorkload


def settings_of(script: SimulationScript) -> WorldSettings:
    """Return the settings of the simulated cluster in which a script (the actions and faults of a run) is carried out.

    Releases of one chart version fail there.
    """
    return WorldSettings(seed=script.seed, replicas=script.replicas, shards=script.shards, flux=FLUX, engines=ENGINES)


OPERATOR: Final = Simulation(
    world=lambda script: SimulatedWorld(settings_of(script)),
    laws=OperatorLaws,
    workload=SimulatedWorkload,
    lives=lives,
    deeds=tuple(Do),
    faults=FAULTS,
)
"""The simulation of the operator with users, jobs and faults."""
_DEEDS: Final = (*Do, *Deed, *RolloutDeed)


def simulation_for(script: SimulationScript) -> Simulation[Any, Any]:
    """Return the simulation that runs a script (the actions and faults of a run): of a user's boxes and controllers, or
    of the operator.

    Raises CommandError if a box or controller cannot be loaded.
    """
    if script.boxes or script.controllers:
        return extension_simulation(script.boxes, script.controllers, script.crds, script.applied)
    return OPERATOR


def perform(
    script: SimulationScript, prepare: Callable[[Any, Any], None] = lambda world, laws: None
) -> SimulationOutcome:
    """Run a script (the actions and faults of a run) in a new simulated cluster, and return the outcome.

    `prepare` is called before the start, with the cluster and its laws, and may change the cluster or add checks of
    laws (required properties).
    """
    return simulation_for(script).perform(script, prepare)


def draw(
    seed: int, *, seconds: float, instances: int, replicas: int, faults: Collection[str], shards: int = 1
) -> SimulationScript:
    """Return the random script for a simulation of the operator, which `seed` determines.

    It has users' actions on a number of `instances`, and the named `faults` at their rates, within `seconds`. The
    operator has `shards` shards with `replicas` processes each.
    """
    return OPERATOR.draw(seed, seconds=seconds, objects=instances, replicas=replicas, faults=faults, shards=shards)


def drawn(script: SimulationScript, objects: int, faults: Collection[str]) -> SimulationScript:
    """Return `script` with the random actions and faults that its seed determines for a number of `objects`.

    Raises CommandError if a box or controller of the script cannot be loaded.
    """
    simulation = simulation_for(script)
    steps = simulation.draw(
        script.seed,
        seconds=script.seconds,
        objects=objects,
        replicas=script.replicas,
        faults=faults,
        shards=script.shards,
    )
    return attrs.evolve(script, acts=steps.acts, incidents=steps.incidents)


def read_script(path: Path) -> SimulationScript:
    """Return the script (the actions and faults of a simulated run) in a file. Raises BadFile if the file has none."""
    return script_file.read_script(path, _DEEDS, FAULTS)


def script_in(path: Path, raw: bytes) -> SimulationScript:
    """Return the script (the actions and faults of a simulated run) in the content `raw` of a file.

    `path` is for messages. Raises BadFile if the content is not a script.
    """
    return script_file.script_in(path, raw, _DEEDS, FAULTS)


ExtensionSimulation: TypeAlias = Simulation[Any, ExtensionLaws]


@lru_cache(maxsize=8)
def extension_simulation(
    boxes: tuple[str, ...], controllers: tuple[str, ...], crds: tuple[str, ...], applied: bool = False
) -> ExtensionSimulation:
    """Return the simulation of `boxes`, given by their files, and of `controllers`, given by their Python modules.

    `crds` are paths of further CRDs, which the simulated cluster serves. If `applied` is True, the only box is an
    OperatorBox, whose definition users change. Raises CommandError if they cannot be found, read, or run together.
    """
    further = list(further_crds([Path(path) for path in crds]))
    loaded = load_controllers([name for given in controllers for name in controllers_in(given)])
    files = runnable([load_box(path, further) for path in boxes])
    own = {box.kind.crd_name for box in files}
    definitions = [crd.manifest for crd in further if crd.manifest["metadata"]["name"] not in own]
    if not (files or loaded.pure or loaded.given):
        raise CommandError("there is no box and no controller to simulate", status=USAGE)
    if applied:
        if len(files) != 1 or loaded.pure or loaded.given:
            raise CommandError("one box is applied, without others and without controllers", status=USAGE)
        return rollout_simulation_of(files[0], applied_spec(boxes[0], files[0]), definitions)
    return simulation_of(*files, *loaded.pure, *loaded.given, definitions=definitions)
