"""Every measurement in turn, each in a process of its own.

python bench/run.py [NAME…]
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
HELPERS = frozenset(
    {"kopf_operator", "kopf_webapp", "machine", "made_up", "neighbours", "operators", "player", "run"}
    | {"scale", "soak", "stage", "verdicts"}
)


def main() -> int:
    """Run the named measurements, or all; return the number of failed ones."""
    known = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)
    failed = 0
    for name in sys.argv[1:] or known:
        if name not in known:
            raise SystemExit(f"there is no measurement {name}; there are: {', '.join(known)}")
        print(f"\n== {name}", flush=True)
        failed += (
            subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=FOLDER.parent, check=False).returncode != 0
        )
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
