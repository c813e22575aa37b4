"""An unmodified kubectl, with a kubeconfig and a home of its own (RUN-9)."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.support.patience import PATIENCE

OLDEST = (1, 30)


def why_not() -> str:
    """Why these tests cannot run here; empty when they can."""
    found = shutil.which("kubectl")
    if found is None:
        return "kubectl is not installed"
    told = subprocess.run([found, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    match = re.search(r'"gitVersion": "v(\d+)\.(\d+)', told.stdout)
    if match is None:
        return f"kubectl does not tell its version: {told.stderr.strip()}"
    version = (int(match[1]), int(match[2]))
    return "" if version >= OLDEST else f"kubectl {match[1]}.{match[2]} is older than 1.30"


@attrs.frozen
class Kubectl:
    """kubectl with a kubeconfig and a home of its own."""

    home: Path

    def run(self, *arguments: str, given: str = "", status: int | None = 0) -> str:
        """Run it; what it prints, when it ends with `status`; None for any."""
        done = subprocess.run(
            ["kubectl", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self._environment,
            check=False,
        )
        assert status in (None, done.returncode), f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def watching(self, *arguments: str) -> Iterator[Path]:
        """The file that `get -w` writes to while the block lasts."""
        shown = self.home / "watched"
        with shown.open("wb") as out:
            command = ["kubectl", "get", "-w", *arguments]
            running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, env=self._environment)
        try:
            yield shown
        finally:
            running.terminate()
            running.wait(PATIENCE)

    def until(self, shown: Path, last: str) -> list[str]:
        """The words in a file, when the last of them is this one."""
        limit = time.monotonic() + PATIENCE
        while (words := shown.read_text(encoding="utf-8").split())[-1:] != [last]:
            assert time.monotonic() < limit, words
            time.sleep(0.05)
        return words

    @property
    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "KUBECONFIG": str(self.home / "config"), "PATH": os.environ["PATH"]}

    def json(self, *arguments: str) -> Any:
        """What `-o json` says."""
        return json.loads(self.run(*arguments, "-o", "json"))
