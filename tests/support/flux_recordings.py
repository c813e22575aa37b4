"""What real Flux was seen to do in each scenario, as data with the versions (RUN-9): `tests/conformance/flux/*.json`.

`python -m tests.support.flux_recordings` records on the cluster of `make cluster`: all, or those that are named.
"""

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.support.flux_sequence import Sequences

__all__ = ["FOLDER", "recorded", "versions_recorded"]

FOLDER: Final = Path(__file__).resolve().parents[1] / "conformance" / "flux"
_PINS: Final = ("kubernetes", "source-controller", "helm-controller")


def recorded(name: str) -> Sequences:
    """Return what was recorded of a scenario."""
    objects: Sequences = _read(name)["objects"]
    return objects


def versions_recorded(name: str) -> dict[str, str]:
    """Return the versions of what was recorded."""
    return dict(_read(name)["versions"])


def _read(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def write(name: str, objects: Sequences, versions: dict[str, str]) -> None:
    """Write a recording."""
    held = {"versions": versions, "date": f"{datetime.now(UTC):%Y-%m-%d}", "objects": objects}
    (FOLDER / f"{name}.json").write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(names: Sequence[str]) -> None:
    """Record scenarios."""
    from tests.support.flux_real_stage import real_stage
    from tests.support.flux_scenarios import SCENARIOS, played
    from tools.cluster.pins import read_pins
    from tools.cluster.up import VARIABLE, Cluster

    cluster, pins = Cluster.load(Path(os.environ[VARIABLE])), read_pins()
    for name in names or SCENARIOS:
        with real_stage(cluster) as stage:
            write(name, played(name, stage), {pin: pins[pin].version for pin in _PINS})
            print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
