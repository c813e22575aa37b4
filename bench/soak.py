"""A long day in ten minutes: 50 changes a second against the embedded server, and an operator that does not grow.

    python -m bench.soak [--seconds 600] [--rate 50] [--instances 60]

Of 50 changes, 40 touch an instance (an event and a reconcile without a write), 8 change its version (an apply, an
upgrade by the simulated Flux, the statuses), one creates an instance and one deletes the oldest. Memory and file
descriptors of the operator are read from /proc. Exit status 1 when they are not flat, when the rate was not kept, when
the operator logged an error or ended, or when not every instance is Ready in the end.
"""

import argparse
import itertools
import json
import os
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import msgspec

from bench.machine import describe, line
from bench.operators import Program, Stage, ours, stage, started
from bench.reaching import Client
from bench.side_by_side import PATIENCE, instance, is_ready, space_of
from purekube.apimachinery.manifest import Kind
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

LEAST_RATE = 0.9
MOST_GROWTH = 0.03
MOST_MEGABYTES = 3.0
MOST_DESCRIPTORS = 3


@attrs.frozen
class Sample:
    """The operator at one moment: seconds since the start, resident megabytes, open file descriptors."""

    at: float
    megabytes: float
    descriptors: int

    @classmethod
    def of(cls, program: Program, at: float) -> "Sample":
        pid = program.process.pid
        rows = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        resident = int(next(row for row in rows if row.startswith("VmRSS")).split()[1]) / 1024
        return cls(at, resident, len(os.listdir(f"/proc/{pid}/fd")))


def complaints(samples: Sequence[Sample]) -> Iterator[str]:
    """Yield the reasons why the samples are not flat.

    The first third is warming up; the last is compared with the second.
    """
    third = len(samples) // 3
    second, last = samples[third : 2 * third], samples[2 * third :]
    if not second:
        yield "too few samples"
        return
    before, after = (statistics.median(one.megabytes for one in part) for part in (second, last))
    if after - before > max(MOST_MEGABYTES, MOST_GROWTH * before):
        yield f"memory grows: {before:.1f} MB, then {after:.1f} MB"
    opened, now = (statistics.median(one.descriptors for one in part) for part in (second, last))
    if now - opened > MOST_DESCRIPTORS:
        yield f"file descriptors grow: {opened:g}, then {now:g}"


@attrs.define
class Changes:
    """A sequence of changes. `alive` are the existing instances, oldest first."""

    client: Client
    alive: deque[str] = attrs.field(factory=deque)
    numbers: Iterator[int] = attrs.field(factory=itertools.count)
    made: int = 0

    def create(self) -> None:
        name = f"soak-{next(self.numbers)}"
        self._apply(name, "1.0.0")
        self.alive.append(name)

    def make(self) -> None:
        """Make the next change."""
        turn, self.made = self.made % 50, self.made + 1
        name = self.alive[self.made * 7 % len(self.alive)]
        if turn == 0:
            self.create()
        elif turn == 25:
            self.client.send("DELETE", _path(APPLICATION_INSTANCE, self.alive.popleft()))
        elif turn % 6 == 1 and turn < 48:
            self._apply(name, f"1.0.{self.made}")
        else:
            self._touch(name)

    def _apply(self, name: str, version: str) -> None:
        path = _path(APPLICATION_INSTANCE, name) + "?fieldManager=odoo&force=true"
        self.client.send("PATCH", path, instance(name, version), "application/apply-patch+yaml")

    def _touch(self, name: str) -> None:
        body = json.dumps({"metadata": {"annotations": {"example.com/touched": str(self.made)}}}).encode()
        self.client.send("PATCH", _path(APPLICATION_INSTANCE, name), body, "application/merge-patch+json")

    def ready(self) -> bool:
        """Report whether exactly the instances in `alive` exist, all Ready at their current generation."""
        kind = APPLICATION_INSTANCE
        items = msgspec.json.decode(self.client.send("GET", f"/apis/{kind.api_version}/{kind.plural}"))["items"]
        current = [
            item
            for item in items
            if is_ready(item) and item["status"].get("observedGeneration") == item["metadata"]["generation"]
        ]
        return len(items) == len(current) == len(self.alive)


def _path(kind: Kind, name: str) -> str:
    return f"/apis/{kind.api_version}/namespaces/{space_of(name)}/{kind.plural}/{name}"


def soak(seconds: float, rate: float, instances: int) -> list[str]:
    """Run the changes, print the numbers, and return what is wrong."""
    with stage() as on, started(ours, on) as program:
        changes = Changes(Client(on.access))
        for _ in range(instances):
            changes.create()
        _until_ready(changes)
        before, samples = program.processor_seconds(), list[Sample]()
        took = _steadily(changes, program, seconds, rate, samples)
        used = program.processor_seconds() - before
        problems = [*complaints(samples), *_afterwards(changes, program, on)]
        if changes.made / took < LEAST_RATE * rate:
            problems.append(f"the rate was not kept: {changes.made / took:.1f} changes a second")
    _report(changes.made, took, used, samples)
    return problems


def _steadily(changes: Changes, program: Program, seconds: float, rate: float, samples: list[Sample]) -> float:
    """Make changes at an even rate; return how long it took."""
    began, sampled, every = time.perf_counter(), 0.0, max(seconds / 120, 0.05)
    for number in range(round(seconds * rate)):
        if time.perf_counter() - began > seconds:
            break
        ahead = began + number / rate - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        changes.make()
        if (now := time.perf_counter() - began) >= sampled:
            samples.append(Sample.of(program, now))
            sampled = now + every
    return time.perf_counter() - began


def _afterwards(changes: Changes, program: Program, on: Stage) -> Iterator[str]:
    try:
        _until_ready(changes)
    except TimeoutError as error:
        yield str(error)
    if program.process.poll() is not None:
        yield f"the operator ended with status {program.process.returncode}"
    rows = (on.folder / "ours.log").read_text(encoding="utf-8").splitlines()
    errors = [row for row in rows if not row.startswith("{") or json.loads(row)["level"] in ("error", "critical")]
    if errors:
        yield f"the operator logged {len(errors)} errors, {errors[0]} among them"


def _until_ready(changes: Changes) -> None:
    limit = time.perf_counter() + PATIENCE
    while not changes.ready():
        if time.perf_counter() > limit:
            raise TimeoutError("not every instance is Ready")
        time.sleep(0.5)


def _report(made: int, took: float, used: float, samples: Sequence[Sample]) -> None:
    third = len(samples) // 3
    print(describe())
    print(f"{made:,} changes in {took:.0f} s, {made / took:.1f} a second; the operator used {used:.0f} s of processor")
    for what, part in (("first", samples[:third]), ("second", samples[third : 2 * third]), ("last", samples[-third:])):
        print(line(f"memory, {what} third", [one.megabytes for one in part], "MB"))
        print(line(f"file descriptors, {what} third", [one.descriptors for one in part], ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--instances", type=int, default=60, help="how many there are at any time")
    options = parser.parse_args()
    problems = soak(options.seconds, options.rate, options.instances)
    for problem in problems:
        print(f"not as it should be: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
