"""Reads of the Secrets in which Helm stores releases, which reconciles that wait at the same time share.

When many instances of a namespace come at once, as after a Kustomization of Flux, one request reads for all of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import attrs

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.ports import KubeApi
from vworkspace_core.instances.observe import RELEASE_LABEL, list_records

MOST_NAMES: Final = 50
"""The maximum number of releases in one request. Their names, of at most 53 characters each, then take less than the
8 KiB to which proxies limit a request line.
"""


@attrs.define
class _Batch:
    """The names of releases that one request reads, and its answer; None until the request has succeeded."""

    names: list[str] = attrs.field(factory=list)
    records: tuple[Manifest, ...] | None = None


@attrs.define
class _Lane:
    """The reads of one namespace, one request at a time; `batch` is the next request, and `readers` wait or read."""

    turn: anyio.Lock = attrs.field(factory=anyio.Lock)
    batch: _Batch = attrs.field(factory=_Batch)
    readers: int = 0


@attrs.define
class SharedRecords:
    """A reader of Helm's records whose requests include all releases that were asked for during the last request.

    Every answer is as new as if it had been asked for alone: its request begins after the call of `read`.
    """

    _api: KubeApi
    _lanes: dict[str, _Lane] = attrs.field(factory=dict)

    async def read(self, namespace: str, release: str) -> list[Manifest]:
        """Return the metadata of the Secrets in which Helm stores `release`. Raises the errors of `KubeApi.list`."""
        with self._lane(namespace) as lane:
            if len(lane.batch.names) >= MOST_NAMES:
                lane.batch = _Batch()
            batch = lane.batch
            batch.names.append(release)
            async with lane.turn:
                if lane.batch is batch:
                    lane.batch = _Batch()
                if batch.records is None:  # no reader has asked yet, or the request failed
                    batch.records = await list_records(self._api, namespace, *batch.names)
        return [record for record in batch.records if get_path(record, "metadata", "labels", RELEASE_LABEL) == release]

    @contextmanager
    def _lane(self, namespace: str) -> Iterator[_Lane]:
        lane = self._lanes.setdefault(namespace, _Lane())
        lane.readers += 1
        try:
            yield lane
        finally:
            lane.readers -= 1
            if not lane.readers:
                del self._lanes[namespace]
