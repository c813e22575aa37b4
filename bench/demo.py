"""The main job in numbers: time of `demo` to its eighth step, writes from creation to Ready, writes when settled.

    python -m bench.demo

The time is a user's: from starting the command to reading the line of the eighth step, with whatever else the machine
does. The writes are counted in the API server's audit log: all of the operator's, including refused and empty ones,
except Events and the agent's own apply of the instance.
"""

import subprocess
import sys
import time
from pathlib import Path

from bench.machine import describe, line
from tests.support.e2e_world import World
from tests.support.servers import IN_PROCESS, OVER_HTTP, Face

COMMAND = Path(sys.executable).with_name("vworkspace-operator")
EIGHTH = " ms  8  "


def to_the_eighth_step() -> float:
    """Return the seconds from starting `demo` to reading its eighth step."""
    began = time.perf_counter()
    with subprocess.Popen([COMMAND, "demo", "--no-payloads"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reached = next((time.perf_counter() for row in process.stdout if EIGHTH in row), None)
        process.stdout.read()
    assert reached is not None
    assert process.returncode == 0, "the demo's own checks do not hold"
    return reached - began


def to_ready(face: Face) -> int:
    """Return the writes from the instance's creation to its Ready."""
    counts = []

    async def story(world: World) -> None:
        await world.ready()
        counts.append(sum("/events" not in entry.path for entry in world.writes()) - 1)

    face.run(story)
    return counts[0]


def when_settled(seconds: float = 3600.0) -> tuple[int, int]:
    """Return the writes of the operator and of Flux in an hour of virtual time over a settled instance."""
    counts = []

    async def story(world: World) -> None:
        await world.ready()
        await world.until(lambda: world.events("ReleaseReady") and world.events("Stable"), "the last Events")
        world.forget_writes()
        await world.clock.sleep(seconds)
        counts.append((len(world.writes()), len(world.flux_writes())))

    IN_PROCESS.run(story)
    return counts[0]


def main() -> None:
    """Measure and print."""
    print(describe())
    print(line("demo, start to eighth step", [to_the_eighth_step() for _ in range(5)], "s", "below 3"), flush=True)
    for face in (IN_PROCESS, OVER_HTTP):
        writes = [to_ready(face) for _ in range(5)]
        print(line(f"writes from creation to Ready, {face.name}", writes, "writes", "at most 5"), flush=True)
    ours, flux = when_settled()
    print(f"writes in an hour when settled: {ours} (Flux itself: {flux}); aim: 0")


if __name__ == "__main__":
    main()
