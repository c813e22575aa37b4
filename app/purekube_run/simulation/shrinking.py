"""The shrinking of a failing script: actions and faults are left out while the same law is still broken (SIM-3).

A script has the users' actions and the faults of a simulated run; a law is a required property. The method is Zeller's
delta debugging. Each try is a whole run, so the number of tries is limited.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from purekube_run.simulation.laws import LawViolation
from purekube_run.simulation.run import SimulationOutcome
from purekube_run.simulation.script import Act, Incident, SimulationScript

MOST_RUNS: Final = 150

Step = Act | Incident
Perform = Callable[[SimulationScript], SimulationOutcome]


@attrs.define
class _Search:
    """The search for a smaller script that breaks the same law.

    `best` is the outcome of the smallest script found so far. `left` is the number of runs that may still be made.
    """

    perform: Perform
    law: LawViolation
    best: SimulationOutcome
    left: int

    def breaks(self, script: SimulationScript) -> bool:
        """Run a script if runs are left, and report whether it breaks the law.

        If so, its outcome becomes the best one.
        """
        if self.left <= 0:
            return False
        self.left -= 1
        outcome = self.perform(script)
        same = [law for law in outcome.broken if (law.clause, law.law) == (self.law.clause, self.law.law)]
        if same:
            self.best, self.law = outcome, same[0]
        return bool(same)


def shrink(outcome: SimulationOutcome, perform: Perform, most_runs: int = MOST_RUNS) -> SimulationOutcome:
    """Search for the smallest script (the actions and faults of a simulated run) that breaks the first broken law
    (required property) of `outcome`, and return the outcome of that script.

    `perform` runs a script; it is called at most `most_runs` times.
    """
    search = _Search(perform, outcome.broken[0], outcome, most_runs)
    script = outcome.script
    search.breaks(script.with_steps([step for step in script.steps if step.at <= search.law.at]))
    _minimize(search)
    one = attrs.evolve(search.best.script, replicas=1)
    if search.best.script.replicas > 1:
        search.breaks(one)
    return search.best


def _minimize(search: _Search) -> None:
    """Leave groups of steps out of the best script, as long as the same law breaks without them.

    Groups are halves of the script at first, and become smaller when no group of the present size can be left out.
    """
    parts = 2
    while search.left > 0 and len(search.best.script.steps) > 1:
        script = search.best.script
        steps = script.steps
        size = max(1, len(steps) // parts)
        without = ([*steps[:at], *steps[at + size :]] for at in range(0, len(steps), size))
        if _any(search, script, without):
            parts = max(2, parts - 1)
        elif size == 1:
            return
        else:
            parts = min(len(steps), 2 * parts)


def _any(search: _Search, script: SimulationScript, tries: Iterable[list[Step]]) -> bool:
    return any(search.breaks(script.with_steps(steps)) for steps in tries)
