"""Every benchmark, one after the other, each in a process of its own; the machine first.

    python -m bench.run [NAME…]

NAME is a module of this folder without its suffix, such as `decisions`; none means all. Close other programs first.
"""

import subprocess
import sys
from pathlib import Path

from bench.machine import describe

FOLDER = Path(__file__).parent
BENCHMARKS = sorted({path.stem for path in FOLDER.glob("*.py")} - {"__init__", "machine", "run"})


def run(name: str, machine: str) -> int:
    """Run one, and pass on what it prints but for the machine; its exit status."""
    print(f"\n{name}", flush=True)
    command = [sys.executable, "-m", f"bench.{name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=FOLDER.parent) as process:
        assert process.stdout is not None
        for row in process.stdout:
            if row.rstrip() != machine:
                print(f"  {row}", end="", flush=True)
    return process.returncode


def main() -> None:
    """Run what is asked for. Exits with 1 when a benchmark failed, with 2 for a name that is none."""
    wanted = sys.argv[1:] or BENCHMARKS
    if unknown := [name for name in wanted if name not in BENCHMARKS]:
        print(f"error: no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        sys.exit(2)
    machine = describe()
    print(machine)
    failed = [name for name in wanted if run(name, machine) != 0]
    if failed:
        print(f"error: failed: {', '.join(failed)}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
