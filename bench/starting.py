"""The processor time that commands take to start: of this tree and, paired with it, of another one.

python -m bench.starting [OTHER_TREE]

OTHER_TREE is the root of a checkout of an earlier version. Each round runs every command once in both trees, so that a
busy machine slows both; the table has the median of all rounds, and the smallest. `status` and `check` call an address
without a server, so that nothing but starting is measured. The bytecode of each tree is in a temporary folder, as
installed packages have theirs; the first round, which writes it, does not count.
"""

import os
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
_NOWHERE: Final = """apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: a, user: {}}]
"""


def seconds(tree: Path, words: Sequence[str], environment: Mapping[str, str]) -> float:
    """Return the processor time of one run, of user and system."""
    paths = os.pathsep.join(str(tree / folder) for folder in FOLDERS)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "vworkspace_app", *words],
        env={**os.environ, **environment, "PYTHONPATH": paths},
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(trees: Sequence[Path], folder: Path) -> dict[tuple[Path, str], list[float]]:
    """Return the times of each command in each tree."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_NOWHERE, encoding="utf-8")
    taken: dict[tuple[Path, str], list[float]] = {(tree, command): [] for command in LIMITS for tree in trees}
    for number in range(ROUNDS + 1):
        for (tree, command), times in taken.items():
            bytecode = str(folder / f"bytecode-{trees.index(tree)}")
            environment = {
                "KUBECONFIG": str(kubeconfig),
                "PYTHONPYCACHEPREFIX": bytecode,
                "PYTHONDONTWRITEBYTECODE": "",
            }
            time = seconds(tree, command.split(), environment)
            if number:
                times.append(time)
    return taken


def main() -> None:
    trees = [HERE, *(Path(tree).resolve() for tree in sys.argv[1:2])]
    with tempfile.TemporaryDirectory() as folder:
        taken = measured(trees, Path(folder))
    names = ["this", "other"][: len(trees)]
    print(f"{'command':<16}{'limit':>8}" + "".join(f"{name:>8}{'least':>8}" for name in names))
    for command, limit in LIMITS.items():
        times = [taken[tree, command] for tree in trees]
        shown = "".join(f"{statistics.median(each):>8.3f}{min(each):>8.3f}" for each in times)
        print(f"{command:<16}{limit:>8.2f}{shown}")


if __name__ == "__main__":
    main()
