"""One mutant: where it is, what it changes, and what the tests say of it."""

import ast
import resource
import signal
from enum import Enum
from pathlib import Path
from random import Random

import attrs
import pytest

from tools.mutants.mutations import mutated_text, mutations_of
from tools.mutants.reach import Reach, failure_of
from tools.mutants.sites import ROOT, Site, modules, own_nodes, parsed, room_of, sites_of
from tools.mutants.swapping import Inventory

_MEMORY = 6 * 2**30
"""Bytes of address space: a mutant that never ends a list fails, and leaves the machine alone."""


class Verdict(Enum):
    """The end of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@attrs.frozen
class Place:
    """A site of the core; `number` counts those of its module, `reach` those of all modules, of the statement."""

    path: Path
    number: int
    reach: int
    site: Site = attrs.field(eq=False)

    @property
    def room(self) -> str:
        """The room of the core."""
        return room_of(self.path)

    @property
    def name(self) -> str:
        """The path, line and function, as a person looks it up."""
        return f"{self.path.relative_to(ROOT)}:{self.site.line} {self.site.function}"


@attrs.frozen
class Mutant:
    """A place and one of its mutations."""

    place: Place
    number: int

    @property
    def after(self) -> str:
        """The head as the mutant has it."""
        return mutated_text(self.place.site, self.number)

    def tree(self) -> ast.Module:
        """Return the module with the mutation."""
        tree = parsed(self.place.path)
        site = sites_of(tree)[self.place.number]
        names = _names_read(site)
        mutations_of(site)[self.number]()
        # A closure can only be given code with the same free variables: what never runs names those of the original.
        block = site.block[0].body if isinstance(site.node, ast.match_case) else site.block
        block.insert(0, ast.If(ast.Constant(False), [ast.Pass(), *map(ast.Expr, names)], []))
        return tree


def _names_read(site: Site) -> list[ast.Name]:
    """Return the names that a head reads, except those that it binds itself."""
    names = [part for part in own_nodes(site.node) if isinstance(part, ast.Name)]
    bound = {name.id for name in names if not isinstance(name.ctx, ast.Load)}
    return [ast.Name(name.id, ast.Load()) for name in names if name.id not in bound]


def places() -> list[Place]:
    """Return all places of the core, in order."""
    found: list[Place] = []
    for path in modules():
        offset = len(found)
        for number, site in enumerate(sites_of(parsed(path))):
            found.append(Place(path, number, offset + site.probe, site))
    return found


def mutants_of(place: Place) -> list[Mutant]:
    """Return the mutants of a place that change its text, each text once."""
    mutants = [Mutant(place, number) for number in range(len(mutations_of(place.site)))]
    different = {mutant.after: mutant for mutant in reversed(mutants)}
    different.pop(place.site.text, None)
    return sorted(different.values(), key=lambda mutant: mutant.number)


def drawn(candidates: list[Place], count: int, seed: int) -> list[Mutant]:
    """Draw mutants, evenly by statement: at most one of each place."""
    random = Random(seed)
    mutants: list[Mutant] = []
    for place in random.sample(candidates, len(candidates)):
        if len(mutants) == count:
            break
        if of_place := mutants_of(place):
            mutants.append(random.choice(of_place))
    return mutants


def judged(mutant: Mutant, tests: list[pytest.Item], reach: Reach, inventory: Inventory) -> tuple[Verdict, str]:
    """Run the tests on the mutant until one fails, in a process of its own; return the verdict and the test.

    A test that takes ten times its processor time ends the process by SIGPROF.
    """
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    inventory.swap(mutant.place.path, mutant.tree())
    for item, following in zip(tests, [*tests[1:], None], strict=True):
        inventory.forget()
        signal.setitimer(signal.ITIMER_PROF, 1 + 10 * reach.seconds[item.nodeid])
        if failure_of(item, following):
            return Verdict.KILLED, item.nodeid
    return Verdict.SURVIVED, ""


def longest(tests: list[str], reach: Reach) -> float:
    """Return for how many seconds on the clock the tests may run on a mutant: they share the machine, or wait."""
    return 120 + 40 * sum(reach.seconds[test] for test in tests)
