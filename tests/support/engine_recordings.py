"""What real controllers of the engines were seen to do, as data with the versions (RUN-9): `tests/conformance/engines`.

`python -m tests.support.engine_recordings` records on the cluster of `make cluster`: all, or those that are named.
"""

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.support.engine_scenarios import SCENARIOS
from tests.support.engine_sequence import sequences_of
from tests.support.flux_sequence import Sequences
from tools.cluster.components import COMPONENTS
from tools.cluster.pins import read_pins
from tools.cluster.up import VARIABLE, Cluster

__all__ = ["FOLDER", "recorded"]

FOLDER: Final = Path(__file__).resolve().parents[1] / "conformance" / "engines"


def recorded(name: str) -> Sequences:
    """Return what was recorded of a scenario."""
    held: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    objects: Sequences = held["objects"]
    return objects


def _write(name: str, objects: Sequences) -> None:
    """Write a recording with the versions of what took part."""
    pins, component = read_pins(), SCENARIOS[name].component
    took_part = ("kubernetes", *(COMPONENTS[component].pins if component else ()))
    versions = {pin: pins[pin].version for pin in took_part}
    held = {"versions": versions, "date": f"{datetime.now(UTC):%Y-%m-%d}", "objects": objects}
    (FOLDER / f"{name}.json").write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(names: Sequence[str]) -> None:
    """Record scenarios."""
    from tests.support.engine_real_stage import real_stage

    cluster = Cluster.load(Path(os.environ[VARIABLE]))
    for name in names or SCENARIOS:
        if SCENARIOS[name].component in ("", *cluster.components):
            with real_stage(cluster) as stage:
                SCENARIOS[name].play(stage)
                _write(name, sequences_of(stage))
                print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
