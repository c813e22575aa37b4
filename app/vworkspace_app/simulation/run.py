"""The simulation of the operator: scripts of its world, and the run of one script."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import attrs

from purekube_run.simulation import script_file
from purekube_run.simulation.extension_world import Deed
from purekube_run.simulation.run import Simulation, SimulationOutcome
from purekube_run.simulation.script import SimulationScript
from vworkspace_app.simulation.extensions import extension_simulation
from vworkspace_app.simulation.faults import FAULTS
from vworkspace_app.simulation.laws import OperatorLaws
from vworkspace_app.simulation.script import Do, lives
from vworkspace_app.simulation.surroundings import FLUX
from vworkspace_app.simulation.workload import SimulatedWorkload
from vworkspace_app.simulation.world import SimulatedWorld, WorldSettings


def settings_of(script: SimulationScript) -> WorldSettings:
    """Return the settings of a script's world, in which one version cannot be released."""
    return WorldSettings(seed=script.seed, replicas=script.replicas, shards=script.shards, flux=FLUX)


OPERATOR: Final = Simulation(
    world=lambda script: SimulatedWorld(settings_of(script)),
    laws=OperatorLaws,
    workload=SimulatedWorkload,
    lives=lives,
    deeds=tuple(Do),
    faults=FAULTS,
)
"""The operator with people, jobs and faults."""
_DEEDS: Final = (*Do, *Deed)


def simulation_for(script: SimulationScript) -> Simulation[Any, Any]:
    """Return what a script simulates: a user's boxes and controllers, or the operator. Raises CommandError."""
    if script.boxes or script.controllers:
        return extension_simulation(script.boxes, script.controllers, script.crds)
    return OPERATOR


def perform(
    script: SimulationScript, prepare: Callable[[Any, Any], None] = lambda world, laws: None
) -> SimulationOutcome:
    """Run a script in a new world. `prepare` may add laws, or defects."""
    return simulation_for(script).perform(script, prepare)


def draw(
    seed: int, *, seconds: float, instances: int, replicas: int, faults: Collection[str], shards: int = 1
) -> SimulationScript:
    """Return the script of a seed: users' acts on the instances, and faults at their rates."""
    return OPERATOR.draw(seed, seconds=seconds, objects=instances, replicas=replicas, faults=faults, shards=shards)


def drawn(script: SimulationScript, objects: int, faults: Collection[str]) -> SimulationScript:
    """Return a script with the acts on so many objects, and the faults, that its seed draws. Raises CommandError."""
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
    """Return the run in a file. Raises BadFile."""
    return script_file.read_script(path, _DEEDS, FAULTS)


def script_in(path: Path, raw: bytes) -> SimulationScript:
    """Return the run in the content of a file; `path` is for messages. Raises BadFile."""
    return script_file.script_in(path, raw, _DEEDS, FAULTS)
