"""The processor time that commands take to start: of this tree and, paired with it, of another one.

python -m bench.starting [OTHER_TREE]

OTHER_TREE is the root of a checkout of an earlier version. Each round runs every command once in both trees, so that a
busy machine slows both; the table has the smallest of all rounds. `status` and `check` call an address without a
server, so that nothing but starting is measured.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent.parent
FOLDERS: Final = ("core", "adapters/kube", "adapters/odoo", "adapters/fake", "app", "kit", "contrib")
COMMANDS: Final = (("--version",), ("--help",), ("manifests",), ("check",), ("status",))
ROUNDS: Final = 7
LIMITS: Final = {"--version": 0.15, "--help": 0.15, "manifests": 0.4, "check": 0.4, "status": 0.4}
"""The seconds that each may take on an idle machine."""
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


def main() -> None:
    trees = [HERE, *map(Path, sys.argv[1:2])]
    best: dict[tuple[Path, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.write_text(_NOWHERE, encoding="utf-8")
        for _ in range(ROUNDS):
            for words in COMMANDS:
                for tree in trees:
                    taken = seconds(tree, words, {"KUBECONFIG": str(kubeconfig)})
                    key = (tree, words[0])
                    best[key] = min(taken, best.get(key, taken))
    print(f"{'command':<12}{'limit':>8}{'this':>8}" + ("other".rjust(8) if len(trees) > 1 else ""))
    for (name,) in COMMANDS:
        print(f"{name:<12}{LIMITS[name]:>8.2f}" + "".join(f"{best[tree, name]:>8.3f}" for tree in trees))


if __name__ == "__main__":
    main()
