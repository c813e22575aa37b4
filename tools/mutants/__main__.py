"""Change statements of the core, and see whether a test of `tests/property` or `tests/unit` fails: `make mutants`.

    python -m tools.mutants                   100 mutants, drawn evenly by statement
    python -m tools.mutants --mutants 320 --seed 7
    python -m tools.mutants --changed main    statements that differ from main
    python -m tools.mutants --minutes 5       as many as begin within five minutes
    python -m tools.mutants --at core/purekube/graph/owner.py:31    every mutant of a line
    python -m tools.mutants --at core/purekube/graph                 one of each statement, those with few tests first
    python -m tools.mutants --unreached       statements that no test reaches

Exits with 1 where a mutant survives that tests/mutants.toml does not list, or where a statement that it does not list
is unreached.
"""

import argparse
import math
import os
import sys
import time
from collections import defaultdict
from functools import partial
from itertools import takewhile
from operator import or_
from pathlib import Path

import attrs
import pytest
from hypothesis import Phase, settings

from tests.support.effort import PROFILES
from tools.mutants import listed, reach, report
from tools.mutants.at_import import reached_at_import
from tools.mutants.changed import changed_lines
from tools.mutants.forks import Task, in_forks
from tools.mutants.mutants import Mutant, Place, Verdict, drawn, judged, longest, mutants_of, places
from tools.mutants.sites import ROOT
from tools.mutants.swapping import Inventory

TESTS = ["tests/property", "tests/unit", "--ignore=tests/property/security", "-m", "not installs"]


@attrs.frozen
class Options:
    """The options of the command line."""

    mutants: int
    minutes: float
    seed: int
    changed: str
    at: str
    unreached: bool
    processes: int


class Examination:
    """A plugin of pytest that collects as usual, and runs tests on mutants instead of once each."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure, draw, judge and print."""
        items = {item.nodeid: item for item in session.items}
        inventory, everywhere = Inventory.taken(), places()
        known = reach.kept() or reach.measured(session.items, inventory, self.options.processes)
        reached = known.reached()
        if self.options.unreached:
            at_import = reached_at_import()
            either = bytes(map(or_, reached, at_import))
            self.failed = _print_unreached(report.unreached(everywhere, either))
            return True
        mutants = self._mutants([place for place in everywhere if reached[place.reach]], known)
        began, results = time.monotonic(), dict[Mutant, tuple[Verdict, str]]()
        in_time = takewhile(lambda _: time.monotonic() - began < 60 * self.options.minutes, mutants)
        tasks = (_task(mutant, items, known, inventory) for mutant in in_time)
        for mutant, result in in_forks(tasks, self.options.processes):
            results[mutant] = result or (Verdict.TIMED_OUT, "")
            _print_result(mutant, results[mutant], known)
        seconds = time.monotonic() - began
        print(f"\n{report.table(everywhere, reached, results)}\n")
        print(f"{len(results)} of {len(mutants)} mutants in {seconds:.0f} s")
        self.failed = any(verdict is Verdict.SURVIVED for verdict, _ in results.values())
        return True

    def _mutants(self, candidates: list[Place], known: reach.Reach) -> list[Mutant]:
        options = self.options
        if options.at:
            path, _, line = options.at.partition(":")
            at = [place for place in candidates if place.path.is_relative_to(ROOT / path)]
            if line:
                return [mutant for place in at if str(place.site.line) == line for mutant in mutants_of(place)]
            return sorted(_not_listed(drawn(at, len(at), options.seed)), key=partial(_longest, known))
        if options.changed:
            lines = changed_lines(options.changed)
            candidates = [place for place in candidates if lines[place.path].intersection(place.site.lines)]
        return _not_listed(drawn(candidates, options.mutants, options.seed))


def _not_listed(mutants: list[Mutant]) -> list[Mutant]:
    allowed = listed.listed()
    return [mutant for mutant in mutants if not allowed.allows(mutant)]


def _longest(known: reach.Reach, mutant: Mutant) -> float:
    return longest(known.tests_of(mutant.place.reach), known)


def _task(mutant: Mutant, items: dict[str, pytest.Item], known: reach.Reach, inventory: Inventory) -> Task:
    tests = [test for test in known.tests_of(mutant.place.reach) if test in items]
    run = partial(judged, mutant, [items[test] for test in tests], known, inventory)
    return Task(mutant, run, longest(tests, known))


def _print_result(mutant: Mutant, result: tuple[Verdict, str], known: reach.Reach) -> None:
    verdict, test = result
    place = mutant.place
    if verdict is not Verdict.SURVIVED:
        print(f"{verdict.value:10} {place.name}: {test}", flush=True)
        return
    tests = len(known.tests_of(place.reach))
    print(f"SURVIVED   {place.name}: {tests} tests reach it\n{listed.entry_of(mutant)}", flush=True)


def _print_unreached(found: dict[tuple[str, str], list[Place]]) -> bool:
    """Print the functions of each room that has more such statements than are listed; return whether there is one."""
    by_room: dict[str, list[list[Place]]] = defaultdict(list)
    for at in found.values():
        by_room[at[0].room].append(at)
    most = {entry.room: entry.most for entry in listed.listed().unreached}
    too_many = False
    for room, functions in sorted(by_room.items()):
        count = sum(map(len, functions))
        print(f"{room}: {count} statements, {most.get(room, 0)} are listed")
        if count > most.get(room, 0):
            too_many = True
            for at in functions:
                lines = ", ".join(str(place.site.line) for place in at)
                print(f"    core/{listed.module_of(at[0])} {at[0].site.function}: {lines}")
    return too_many


def options() -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--changed", default="", metavar="COMMIT")
    parser.add_argument("--at", default="", metavar="PATH[:LINE]")
    parser.add_argument("--unreached", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return Options(**vars(parser.parse_args()))


def main() -> int:
    """Collect the tests once, without shrinking, and examine them."""
    sys.path.insert(0, str(Path.cwd()))
    for name, profile in PROFILES.items():
        PROFILES[name] = settings(profile, phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False)
    examination = Examination(options())
    arguments = [*TESTS, "--quiet", "--no-header", "--capture=sys", "-p", "no:cacheprovider", "--no-summary"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # Hypothesis is imported above
    status = pytest.main(arguments, plugins=[examination])
    return int(status) if status not in (0, 5) else int(examination.failed)


if __name__ == "__main__":
    sys.exit(main())
