"""The mutants that `make mutants` makes, and its list."""

import ast
import random
import subprocess
import sys
import types
from pathlib import Path

import pytest

from purekube.cel.library import network
from tools.mutants import swapping
from tools.mutants.listed import listed, module_of
from tools.mutants.mutants import Place, drawn, mutants_of, places
from tools.mutants.reach import kept
from tools.mutants.sites import REACHED, ROOT, Site, parsed, sites_of, with_probes

SOURCE = """
LIMIT = 3

def judged(value, *, strict=False):
    '''Say what a value is.'''
    if value > LIMIT and not strict:
        return "large"
    match value:
        case 1 | 2 if strict:
            return "small"
        case _ if strict:
            return "strict"
        case _:
            pass
    for number in [1, 2]:
        value += number
    return min(value, LIMIT)
"""


@pytest.fixture(scope="module")
def everywhere() -> list[Place]:
    return places()


def made(tree: ast.Module) -> types.ModuleType:
    """The module that a tree is of."""
    module = types.ModuleType("made")
    exec(compile(ast.fix_missing_locations(tree), "made.py", "exec"), vars(module))
    return module


def texts(line: str) -> set[str]:
    sites = sites_of(ast.parse(SOURCE))
    (site,) = [site for site in sites if site.text == line]
    return {mutant.after for mutant in mutants_of(Place(Path("made.py"), sites.index(site), site.probe, site))}


@pytest.mark.parametrize(
    ("line", "mutants"),
    [
        ("if value > LIMIT and (not strict):", {
            "if value >= LIMIT and (not strict):", "if value > LIMIT or not strict:", "if not strict:",
            "if value > LIMIT:", "if value > LIMIT and strict:"}),
        ("return 'large'", {"return", "return '~large'"}),
        ("case 1 | 2 if strict:", {"", "case 1 | 2:", "case 2 if strict:", "case 1 if strict:", "case 2 | 2 if strict:",
                                   "case 1 | 3 if strict:"}),
        ("case _ if strict:", {""}),
        ("for number in [1, 2]:", {"for number in [2]:", "for number in [1]:", "for number in [2, 2]:",
                                   "for number in [1, 3]:"}),
        ("value += number", {"pass"}),
        ("return min(value, LIMIT)", {"return", "return max(value, LIMIT)", "return min(LIMIT, value)"}),
    ],
)  # fmt: skip
def test_the_mutants_of_a_statement_are_its_slips_of_the_hand(line: str, mutants: set[str]) -> None:
    assert texts(line) == mutants


def test_a_probe_is_set_by_its_statement_and_by_no_other() -> None:
    tree, sites = ast.parse(SOURCE), sites_of(ast.parse(SOURCE))
    module, reached = made(with_probes(tree, 5)), bytearray(5 + len(sites))
    vars(module)[REACHED] = reached

    assert module.judged(9) == "large"

    assert [site.text for number, site in enumerate(sites) if reached[5 + number]] == [
        "if value > LIMIT and (not strict):", "return 'large'"]  # fmt: skip
    assert module.judged.__doc__ == "Say what a value is."


@pytest.mark.slow
def test_mutants_of_the_core_compile_and_leave_the_original_as_it_is(everywhere: list[Place]) -> None:
    for place in random.Random(1).sample(everywhere, 40):
        before = place.site.text
        for mutant in mutants_of(place):
            compile(ast.fix_missing_locations(mutant.tree()), str(place.path), "exec")
            assert mutant.after != before
        assert place.site.text == before


@pytest.mark.slow
def test_a_swapped_function_is_the_mutant_for_everybody_who_imported_it(everywhere: list[Place]) -> None:
    from purekube.controller.backoff import Backoff

    delay, path = Backoff.delay, ROOT / "core" / "purekube" / "controller" / "backoff.py"
    code = delay.__code__
    place = next(place for place in everywhere if place.path == path and place.site.text.startswith("return"))
    inventory = swapping.Inventory.taken()
    try:
        assert inventory.swap(path, mutants_of(place)[0].tree()) == 1
        assert Backoff.delay is delay
        assert Backoff(1.0, 8.0).delay(1, 0.0) is None
    finally:
        delay.__code__ = code
    assert inventory.swap(path, parsed(path)) == 0, "the same code is no other one"


@pytest.mark.slow
def test_a_closure_may_become_a_mutant_that_reads_less(everywhere: list[Place]) -> None:
    path = Path(network.__file__)
    inventory = swapping.Inventory.taken()
    (place,) = [place for place in everywhere if place.path == path and place.site.text == "return run(value)"]
    (mutant,) = [mutant for mutant in mutants_of(place) if mutant.after == "return"]
    codes = [(function, function.__code__) for function in inventory.functions[str(path)]]
    try:
        assert inventory.swap(path, mutant.tree()) > 1
    finally:
        for function, code in codes:
            function.__code__ = code


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants_at_most_one_of_each_statement(everywhere: list[Place]) -> None:
    first, again = (drawn(everywhere, 60, 7) for _ in range(2))

    assert first == again
    assert len({mutant.place for mutant in first}) == 60
    assert drawn(everywhere, 60, 8) != first


@pytest.mark.slow
def test_every_entry_of_the_list_is_of_a_statement_that_exists_and_says_why(everywhere: list[Place]) -> None:
    for entry in listed().equivalent:
        at = [
            place for place in everywhere if (module_of(place), place.site.function) == (entry.module, entry.function)
        ]
        found = [mutant for place in at if place.site.text == entry.statement for mutant in mutants_of(place)]
        assert entry.mutant in {mutant.after for mutant in found}, entry
        assert len(entry.reason) > 20
    rooms = {place.room for place in everywhere}
    for room in listed().unreached:
        assert room.room in rooms, room
        assert len(room.reason) > 20


@pytest.mark.slow
def test_no_room_has_more_statements_that_only_other_tests_reach_than_are_listed_with_the_reason() -> None:
    """By a test of tests/property (not security) or tests/unit, or at import, as `make mutants` has measured it."""
    if kept() is None:
        pytest.skip("nothing was measured of this tree: make mutants MUTANTS=0")
    command = [sys.executable, "-m", "tools.mutants", "--unreached"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]


def test_a_site_is_the_head_of_a_statement_and_not_its_block() -> None:
    sites: dict[str, Site] = {site.text: site for site in sites_of(ast.parse(SOURCE))}

    assert list(sites["for number in [1, 2]:"].lines) == [15]
    assert "def judged(value, *, strict=False):" not in sites, "what runs at import is none"
