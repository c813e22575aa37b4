"""The sites that each test reaches, and how long it takes: measured once for a tree, and kept in `.mutants/`.

Tests are run one by one in forks of a process that has only collected them, with probes in the core and with empty
caches, so that a test reaches what it would reach alone.
"""

import hashlib
import pickle
import subprocess
import time
import zlib
from functools import partial, reduce
from operator import or_
from typing import Final

import attrs
import pytest
from _pytest.runner import runtestprotocol

from tools.mutants.forks import Fork
from tools.mutants.sites import ROOT
from tools.mutants.swapping import Inventory

KEPT: Final = ROOT / ".mutants"


@attrs.frozen
class Reach:
    """The processor time of each test that passed, and the sites that it reached, one byte each."""

    seconds: dict[str, float]
    sites: dict[str, bytes]

    def tests_of(self, number: int) -> list[str]:
        """Return the tests that reach a site, the fastest first."""
        return sorted((test for test, sites in self.sites.items() if sites[number]), key=self.seconds.__getitem__)

    def reached(self) -> bytes:
        """Return for each site whether any test reaches it."""
        length = len(next(iter(self.sites.values())))
        together = reduce(or_, (int.from_bytes(sites) for sites in self.sites.values()))
        return together.to_bytes(length)


def tree_hash() -> str:
    """Return the hash of everything that decides what a test reaches."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.yaml", "*.json", "*.toml"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().splitlines()
    digest = hashlib.sha256()
    for name in sorted(set(names)):
        if (ROOT / name).is_file() and name != "tests/mutants.toml":
            digest.update(name.encode() + b"\\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()[:16]


def kept() -> Reach | None:
    """Return what was measured of this tree before."""
    path = KEPT / f"reach-{tree_hash()}"
    return Reach(*pickle.loads(zlib.decompress(path.read_bytes()))) if path.is_file() else None


def measured(items: list[pytest.Item], inventory: Inventory, processes: int) -> Reach:
    """Measure what each test reaches, and keep it instead of what was kept before."""
    tree = tree_hash()  # before anything takes its time, while the files are those that were imported
    seconds: dict[str, float] = {}
    sites: dict[str, bytes] = {}
    parts = [Fork(partial(_measure, items[part::processes], inventory)) for part in range(processes)]
    for part in parts:
        for test, spent, reached in part.result():
            seconds[test], sites[test] = spent, reached
    KEPT.mkdir(exist_ok=True)
    for former in KEPT.glob("reach-*"):
        former.unlink()
    (KEPT / f"reach-{tree}").write_bytes(zlib.compress(pickle.dumps((seconds, sites)), 1))
    return Reach(seconds, sites)


def _measure(items: list[pytest.Item], inventory: Inventory) -> list[tuple[str, float, bytes]]:
    reached = inventory.put_probes()
    nothing, rows = bytes(len(reached)), []
    for item, following in zip(items, [*items[1:], None], strict=True):
        inventory.forget()
        reached[:] = nothing
        began = time.process_time()
        if not failure_of(item, following):
            rows.append((item.nodeid, time.process_time() - began, bytes(reached)))
    return rows


def failure_of(item: pytest.Item, following: pytest.Item | None) -> str:
    """Run a test; return its phase and error if it failed."""
    for report in runtestprotocol(item, log=False, nextitem=following):
        if report.failed:
            return f"{report.when}: {report.longreprtext[-300:]}"
    return ""
