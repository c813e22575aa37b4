"""The speed of simulations in processor time: `python -m bench.simulate`.

An hour of fifty instances, many runs of ten minutes and five instances with their mean and slowest, and the memory of a
process after each quarter of them.
"""

import argparse
import resource
import statistics
import time

from bench.machine import describe
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.run import draw, perform

_HOUR_LIMIT = 5.0
_RUN_LIMIT = 0.2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(describe())
    perform(draw(0, seconds=60, instances=1, replicas=1, faults=()))  # imports and compiled schemas
    hour = perform(draw(asked.seed, seconds=3600, instances=50, replicas=2, faults=tuple(FAULTS)))
    print(f"an hour of 50 instances, 2 replicas, all faults: {hour.cost:.2f} s (aim: {_HOUR_LIMIT:g} s)")
    costs, began = [], time.monotonic()
    for number in range(asked.runs):
        script = draw(asked.seed + number, seconds=600, instances=5, replicas=2, faults=tuple(FAULTS))
        costs.append(perform(script).cost)
        if (number + 1) % max(1, asked.runs // 4) == 0:
            print(f"  after {number + 1:5,} runs: {_megabytes():,.0f} MB at most")
    print(
        f"{asked.runs:,} runs of 10 minutes, 5 instances: {statistics.mean(costs):.2f} s each"
        f" (aim: {_RUN_LIMIT:g} s), slowest {max(costs):.2f} s, {time.monotonic() - began:,.0f} s by the clock"
    )


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
