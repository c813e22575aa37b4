"""What real controllers were seen to do in scenarios, as data with the versions (RUN-9): a file for each scenario.

The folder `oldest` has the scenarios that end differently with the oldest promised versions.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from tests.support.flux_sequence import Sequences
from tools.cluster.up import Cluster

__all__ = ["Recordings"]

_CONFORMANCE: Final = Path(__file__).resolve().parents[1] / "conformance"


@attrs.frozen
class Recordings:
    """The recordings in a folder of `tests/conformance`."""

    place: str

    @property
    def folder(self) -> Path:
        """The folder of the newest versions."""
        return _CONFORMANCE / self.place

    def of(self, name: str, *, oldest: bool = False) -> Sequences:
        """Return what was recorded of a scenario; of the oldest versions what differs, or else the same."""
        file = self.folder / "oldest" / f"{name}.json"
        held: dict[str, Any] = json.loads(
            (file if oldest and file.exists() else self.folder / file.name).read_text(encoding="utf-8")
        )
        objects: Sequences = held["objects"]
        return objects

    def different(self) -> list[str]:
        """Return the scenarios that differ with the oldest versions."""
        return sorted(path.stem for path in (self.folder / "oldest").glob("*.json"))

    def write(self, name: str, objects: Sequences, cluster: Cluster, pins: Iterable[str]) -> None:
        """Write a recording with the versions of what took part; of the oldest versions only what differs."""
        file = self.folder / "oldest" / f"{name}.json" if cluster.oldest else self.folder / f"{name}.json"
        if cluster.oldest and objects == self.of(name):
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(exist_ok=True)
        versions = {pin: cluster.versions[pin] for pin in pins}
        held = {"versions": versions, "date": f"{datetime.now(UTC):%Y-%m-%d}", "objects": objects}
        file.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
