"""The processor time that commands take to start: of this tree and, paired with it, of another one.

python -m bench.starting [OTHER_TREE] [--instructions]

OTHER_TREE is the root of a checkout of an earlier version. Each round runs every command once in both trees, so that a
busy machine slows both; the table has the median of all rounds, and the smallest. `status` and `check` call an address
without a server, so that nothing but starting is measured. The bytecode of each tree is in a temporary folder, as
installed packages have theirs; the first round, which writes it, does not count.

With `--instructions` valgrind counts the instructions of one more run, in millions, which no load changes.
"""

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent.parent
FOLDERS: Final = ("core", "adapters/kube", "adapters/odoo", "adapters/fake", "app", "kit", "contrib")
LIMITS: Final = {
    "--version": 0.15,
    "--help": 0.15,
    "completion bash": 0.15,
    "manifests": 0.4,
    "check": 0.4,
    "status": 0.4,
}
"""The seconds that each command may take on an idle machine."""
ROUNDS: Final = 15
_COUNT: Final = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_NOWHERE: Final = """apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: a, user: {}}]
"""


def run(tree: Path, words: Sequence[str], environment: Mapping[str, str], *, below: Sequence[str] = ()) -> str:
    """Run a command of a tree, `below` another one, and return what was printed on standard error."""
    paths = os.pathsep.join(str(tree / folder) for folder in FOLDERS)
    ended = subprocess.run(
        [*below, sys.executable, "-m", "vworkspace_app", *words],
        env={**os.environ, **environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stderr


def seconds(tree: Path, words: Sequence[str], environment: Mapping[str, str]) -> float:
    """Return the processor time of one run, of user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(tree, words, environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def millions(tree: Path, words: Sequence[str], environment: Mapping[str, str]) -> float:
    """Return the instructions of one run in millions. Raises ValueError if valgrind did not count them."""
    printed = run(tree, words, {**environment, "PYTHONHASHSEED": "0"}, below=_COUNT)
    counted = re.search(r"I +refs: +([\d,]+)", printed)
    if counted is None:
        raise ValueError(f"valgrind counted nothing: {printed[-500:]}")
    return int(counted[1].replace(",", "")) / 1e6


def surroundings(trees: Sequence[Path], folder: Path) -> dict[Path, dict[str, str]]:
    """Return the environment of each tree: bytecode of its own, and a kubeconfig that leads nowhere."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_NOWHERE, encoding="utf-8")
    return {
        tree: {
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPYCACHEPREFIX": str(folder / f"bytecode-{number}"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        for number, tree in enumerate(trees)
    }


def measured(environments: Mapping[Path, Mapping[str, str]]) -> dict[tuple[Path, str], list[float]]:
    """Return the times of each command in each tree."""
    taken: dict[tuple[Path, str], list[float]] = {(tree, command): [] for command in LIMITS for tree in environments}
    for number in range(ROUNDS + 1):
        for (tree, command), times in taken.items():
            time = seconds(tree, command.split(), environments[tree])
            if number:
                times.append(time)
    return taken


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--instructions"]
    trees = [HERE, *(Path(tree).resolve() for tree in arguments[:1])]
    names = ["this", "other"][: len(trees)]
    with tempfile.TemporaryDirectory() as folder:
        environments = surroundings(trees, Path(folder))
        taken = measured(environments)
        print(f"{'command':<16}{'limit':>8}" + "".join(f"{name:>8}{'least':>8}" for name in names))
        for command, limit in LIMITS.items():
            times = [taken[tree, command] for tree in trees]
            shown = "".join(f"{statistics.median(each):>8.3f}{min(each):>8.3f}" for each in times)
            print(f"{command:<16}{limit:>8.2f}{shown}")
        if "--instructions" in sys.argv:
            print(f"\n{'millions':<16}" + "".join(f"{name:>8}" for name in names))
            for command in LIMITS:
                counts = [millions(tree, command.split(), environments[tree]) for tree in trees]
                print(f"{command:<16}" + "".join(f"{count:>8.0f}" for count in counts))


if __name__ == "__main__":
    main()
