"""What all tests share: how hard they try, and what keeps `make test` short.

Nothing is random unless `--long` or `--hypothesis-seed` asks for it; then the seed is printed.
See `tests/support/effort.py`.
"""

import gc
import os
import random
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.support.effort import EFFORT, PROFILES, long_examples
from tests.support.forked_workers import ForkedWorkers
from tests.support.own_logging import own_logging
from tests.support.parts import PARTS, part_of
from tests.support.patience import TIMEOUT
from tests.support.server_use import note, uses_server

pytest.register_assert_rewrite("vworkspace_app.conformance.checks")  # before anything imports them

WAITING = "tests/e2e/"
"""Where tests wait for processes and for time to pass, more than they compute."""

BEGAN = time.monotonic()

SLOW = pytest.StashKey[bool]()
"""Whether this run takes the tests marked `slow`, too."""

gc.disable()  # until ten thousand tests are collected: nothing of them is garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--hypothesis-seed` is Hypothesis's own."""
    parser.addoption("--long", action="store_true", help="many more examples, drawn anew from a seed that is printed")
    parser.addoption("--everything", action="store_true", help="the tests marked slow, too (`make test-all`)")
    parser.addoption("--part", choices=PARTS, help="the tests of one part alone; tests/support/parts.py says which")
    parser.addoption(
        "--screenshots", action="store_true", help="write docs/screenshots anew, from the tests of the page"
    )
    parser.addoption(
        "--on-server", action="store_true", help="only tests that use the API server of KUBEBUILDER_ASSETS"
    )
    parser.addoption("--examples", type=int, help="how many examples a law gets that says nothing of it")
    parser.addoption("--sample", type=int, help="so many of the tests, others in each run")
    parser.addoption("--workers", type=int, default=0, help="how many processes run the tests; 0: the one of pytest")
    parser.addoption("--minutes", type=float, default=60, help="with --long: no test begins after so many minutes")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the modules of other parts, without importing them."""
    part = config.getoption("--part")
    is_module = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if part and is_module and part_of(collection_path) != part else None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Settle the effort before Hypothesis reads its seed, and before a test module asks."""
    EFFORT.long = config.getoption("--long")
    given = config.getoption("--hypothesis-seed")
    if given is None and EFFORT.long:
        given = random.SystemRandom().getrandbits(64)
    EFFORT.seed = None if given is None else int(given)
    config.option.hypothesis_seed = given
    config.stash[SLOW] = _takes_slow_ones(config)
    EFFORT.brief = not config.stash[SLOW]
    if EFFORT.long and not config.getoption("--examples"):
        processors = min(max(1, config.getoption("--workers")), os.cpu_count() or 1)
        config.option.examples = long_examples(config.getoption("--minutes"), processors)
    examples = config.getoption("--examples")
    for name, profile in PROFILES.items():
        settings.register_profile(name, settings(profile, max_examples=examples) if examples else profile)
    settings.load_profile(EFFORT.profile)
    if getattr(config.option, "timeout", 0.0) is None:
        config.option.timeout = TIMEOUT
    if config.getoption("--workers") > 1:
        config.pluginmanager.register(ForkedWorkers(config.getoption("--workers")))
    if EFFORT.long:
        config.pluginmanager.register(FailuresAtOnce(config))
    if EFFORT.seed is None:
        _draw_no_constants_of_modules()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, bool | None, bool | None]:
    """End with each test what it configured: a command that runs in process logs to a stream that ends with it.

    No fixture does this, since each test would pay for setting it up.
    """
    with own_logging():
        return (yield)


class FailuresAtOnce:
    """A printer of each failure when it happens: the summary of a long run is an hour away, and may never come."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a failure. Worker processes have no reporter of their own."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\n{report.nodeid}\n{report.longreprtext}")


def _takes_slow_ones(config: pytest.Config) -> bool:
    """Whoever names tests, by path, word or marker, gets all that they name; only a plain `make test` is kept short."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword
    chosen = config.option.markexpr != "not installs"  # what addopts of pyproject.toml says
    return bool(config.getoption("--everything") or EFFORT.long or named or chosen)


def _draw_no_constants_of_modules() -> None:
    """Hypothesis also draws constants of the modules that happen to be imported, which other tests decide."""
    assert hasattr(providers, "_get_local_constants"), "test_same_examples.py says what this is for"
    none = Constants()
    providers._get_local_constants = lambda: none


def pytest_report_header(config: pytest.Config) -> str:
    """The first line of a run says how to have it again."""
    if EFFORT.seed is None:
        return "examples: the same in every run"
    more = f" --long, no test begins after {config.getoption('--minutes'):g} minutes" if EFFORT.long else ""
    return f"examples: --hypothesis-seed={EFFORT.seed}{more}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last line, too: it is the one that people see.

    The same folders, with `-k` for one test: Hypothesis also draws constants of the modules that were collected.
    """
    if EFFORT.seed is not None:
        config = terminalreporter.config
        folders = " ".join([f"--examples={config.option.examples}", *config.args] if EFFORT.long else config.args)
        again = f'make test-long SEED={EFFORT.seed} PYTEST_ARGS="{folders} -k …"' if EFFORT.long else ""
        terminalreporter.write_line(f"examples drawn with --hypothesis-seed={EFFORT.seed} {again}".rstrip())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test leaves to chance (the jitter of drivers) is the same in every run, too."""
    if EFFORT.long and time.monotonic() - BEGAN > 60 * item.config.getoption("--minutes"):
        pytest.skip("the time of this long run is up (--minutes)")
    random.seed(f"{item.nodeid} {EFFORT.seed}")
    note(item)


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow where nobody asked for it, and begin with tests that wait.

    The other workers compute beside those that wait, and none is left alone at the end. Workers begin with equal shares
    of the tests as they are ordered here, and then take from each other. A long run takes them in an order of its own,
    so that each has its turn although time is limited: first the laws, of which the time allows so many examples
    (`long_examples`), then what is attacked for a minute at a time, then those that another seed does not change.
    """
    if not config.stash[SLOW]:
        _keep(config, items, lambda item: item.get_closest_marker("slow") is None)
    if config.getoption("--on-server"):
        _keep(config, items, uses_server)
    if (count := config.getoption("--sample")) is not None:
        sample = set(random.SystemRandom().sample(items, min(count, len(items))))
        _keep(config, items, sample.__contains__)
    if EFFORT.long:
        random.Random(EFFORT.seed).shuffle(items)
        items.sort(key=_turn)
    else:
        items.sort(key=lambda item: not item.nodeid.startswith(WAITING))


def _turn(item: pytest.Item) -> int:
    """Return when a test of a long run has its turn: 0 for a law, 1 if its module asks for the effort, and 2."""
    if is_hypothesis_test(getattr(item, "obj", None)):
        return 0
    return 1 if {"EFFORT", "attack", "of_both"} & vars(getattr(item, "module", None) or object).keys() else 2


def _keep(config: pytest.Config, items: list[pytest.Item], is_kept: Callable[[pytest.Item], bool]) -> None:
    omitted = [item for item in items if not is_kept(item)]
    if omitted:
        config.hook.pytest_deselected(items=omitted)
        items[:] = [item for item in items if is_kept(item)]


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not look through it again and again."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)
