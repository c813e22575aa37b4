"""A fleet in memory with a fault and a law of your own: a broken law is found, shrunk and printed.

python examples/simulation.py
"""

from functools import partial

from purekube.apimachinery.resources import HELM_RELEASE
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.laws import Laws
from purekube_run.simulation.run import SimulationOutcome
from purekube_run.simulation.shrinking import shrink
from vworkspace_app.simulation.operator_world import SimulatedWorld
from vworkspace_app.simulation.run import draw, perform

SEED = 12


def my_world(world: SimulatedWorld, laws: Laws) -> None:
    """Add a fault, each replica is killed after 100 s; and a law, no release is written after 5 minutes."""
    for replica in world.replicas:
        world.loop.call_later(100, replica.kill, "my fault")

    def freeze(write: ObservedWrite) -> None:
        late = write.request.kind == HELM_RELEASE and write.at > 300
        laws.check("FREEZE", "no release after five minutes", write.request.ref, not late, "it was written")

    world.on_write.append(freeze)


def main() -> SimulationOutcome:
    """Run ten minutes of three instances, and make the failing run as small as it gets."""
    run = partial(perform, prepare=my_world)
    failing = run(draw(SEED, seconds=600, instances=3, replicas=2, faults=("watch-cut", "api-error")))
    return shrink(failing, run, most_runs=20)


if __name__ == "__main__":
    smallest = main()
    print(*smallest.script.steps, *smallest.broken, sep="\n")
