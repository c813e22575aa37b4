"""The lines of the core that a change touches."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Final

from tools.mutants.sites import ROOT

_HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(base: str) -> dict[Path, set[int]]:
    """Return the lines of each module that differ from where this branch left `base`, uncommitted ones too."""
    fork = _git("merge-base", base, "HEAD").strip()
    lines: dict[Path, set[int]] = defaultdict(set)
    path = ROOT
    for line in _git("diff", "--unified=0", "--no-renames", fork, "--", "core").splitlines():
        if line.startswith("+++ b/"):
            path = ROOT / line.removeprefix("+++ b/")
        elif match := _HUNK.match(line):
            start, count = int(match[1]), int(match[2] or 1)
            lines[path].update(range(start, start + count))
    return lines


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True, text=True).stdout
