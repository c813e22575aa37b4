"""What real controllers were seen to do in scenarios, as data with the versions (RUN-9): a file for each scenario.

With the oldest promised versions a scenario goes as with the newest, or as the folder `oldest` has it.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from tests.support.flux_sequence import Sequences, differences
from tools.cluster.up import Cluster

_CONFORMANCE: Final = Path(__file__).resolve().parents[1] / "conformance"


def _as_it_is(objects: Sequences) -> Sequences:
    return objects


def _objects(file: Path) -> Sequences:
    held: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    objects: Sequences = held["objects"]
    return objects


@attrs.frozen
class Recordings:
    """The recordings in a folder of `tests/conformance`; `as_older` leaves out what older controllers do not report."""

    place: str
    as_older: Callable[[Sequences], Sequences] = _as_it_is

    @property
    def folder(self) -> Path:
        """The folder of the newest versions."""
        return _CONFORMANCE / self.place

    def of(self, name: str) -> Sequences:
        """Return what was recorded of a scenario."""
        return _objects(self.folder / f"{name}.json")

    def differences(self, name: str, objects: Sequences, cluster: Cluster) -> Sequence[str]:
        """Return the differences between the recording of a scenario and what a cluster did."""
        if not cluster.oldest:
            return differences(self.of(name), objects)
        file = self.folder / "oldest" / f"{name}.json"
        return differences(_objects(file) if file.exists() else self.as_older(self.of(name)), self.as_older(objects))

    def write(self, name: str, objects: Sequences, cluster: Cluster, pins: Iterable[str]) -> None:
        """Write a recording with the versions of what took part; of the oldest versions only what differs."""
        file = self.folder / f"{name}.json"
        if cluster.oldest:
            objects, file = self.as_older(objects), self.folder / "oldest" / file.name
            if objects == self.as_older(self.of(name)):
                file.unlink(missing_ok=True)
                return
        file.parent.mkdir(exist_ok=True)
        versions = {pin: cluster.versions[pin] for pin in pins}
        held = {"versions": versions, "date": f"{datetime.now(UTC):%Y-%m-%d}", "objects": objects}
        file.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
