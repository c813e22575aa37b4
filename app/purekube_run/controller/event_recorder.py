"""Kubernetes Events of the operator, written in the background (RUN-5).

A reconcile never waits for an Event. While objects wait for a worker that reconciles them, Events wait, too, since
reconciles need the API server more. `EventSeries` decides which Events are written and which are repetitions. Events
that are dropped or refused are counted.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import AlreadyExists, NotFound, OperatorError
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import EVENT
from purekube.controller.event_series import CreateEvent, EventSeries, Observed, Write, note_with_link
from purekube.ports import Clock, KubeApi, KubernetesEvent, PatchType

_log = structlog.get_logger("events")

_LAST_SECONDS = 2.0
"""The maximum seconds for writing the remaining Events when the process ends."""
LONGEST_HOLD: Final = timedelta(seconds=10)
"""The longest time that an Event waits while the operator is backlogged."""
MOST_HELD: Final = 200
"""The maximum number of Events that wait while the operator is backlogged: as many as can be written when the process
ends.
"""
LOOK_SECONDS: Final = 0.25
"""The interval in seconds at which waiting Events check whether the backlog has ended."""


class BackgroundEvents:
    """An EventSink that accepts Events at once, and writes them through `api` in the background while `run` runs.

    An Event that reports progress waits for two seconds, and is not written if the Event about the result comes
    meanwhile. While `is_backlogged` returns True, which means that objects wait to be reconciled, up to 200 Events wait
    for up to ten seconds. New warnings never wait. Events that are not yet written are lost when the process is killed.
    `instance` names this process in each Event. `link` returns the URL of a page about an object, or "". The URL is
    appended to the note of warnings about the object.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        *,
        instance: str,
        field_manager: str,
        is_backlogged: Callable[[], bool] = lambda: False,
        link: Callable[[ObjectRef], str] = lambda ref: "",
    ) -> None:
        self._api = api
        self._link = link
        self._field_manager = field_manager
        self._clock = clock
        self._is_backlogged = is_backlogged
        self._series = EventSeries(instance)
        self._under_way: Write | None = None
        self._news = anyio.Event()
        self.counts: Counter[Observed] = Counter(dict.fromkeys(Observed, 0))

    async def emit(self, event: KubernetesEvent) -> None:
        """Accept an Event, which `run` writes later. Returns at once and never raises."""
        if event.type == "Warning" and (link := self._link(event.regarding)):
            event = attrs.evolve(event, note=note_with_link(event.note, link))
        outcome = self._series.observe(event, self._clock.now())
        self.counts[Observed.SUPERSEDED] = self._series.superseded
        if outcome is Observed.DROPPED:
            self._drop(event, "too many about this object, or too many that wait")
            return
        if outcome is Observed.REPEATED:
            self.counts[outcome] += 1
        self._news.set()

    async def run(self) -> None:
        """Write Events until cancelled; then write the remaining Events within a short time limit."""
        try:
            while True:
                await self._write_due()
                if self._hold:
                    await self._clock.sleep(LOOK_SECONDS)
                    continue
                self._news = anyio.Event()
                wait = self._series.next_look(self._clock.now())
                with anyio.move_on_after(None if wait is None else wait.total_seconds()):
                    await self._news.wait()
        finally:
            with anyio.move_on_after(_LAST_SECONDS, shield=True):
                if self._under_way is not None:
                    await self._write(self._under_way)  # an earlier try may have succeeded; then the server says so
                while (write := self._series.take(self._clock.now(), waited=None)) is not None:
                    await self._write(write)

    async def _write_due(self) -> None:
        while (write := self._series.take(self._clock.now(), waited=self._hold)) is not None:
            await self._write(write)

    @property
    def _hold(self) -> timedelta:
        """The minimum age of an Event before it is written: zero, or ten seconds while the operator is backlogged."""
        held = 0 < self._series.waiting <= MOST_HELD and self._is_backlogged()
        return LONGEST_HOLD if held else timedelta(0)

    async def _write(self, write: Write) -> None:
        self._under_way = write
        try:
            await self._send(write)
        except OperatorError as error:
            self._failed(write, error.message, gone=isinstance(error, NotFound))
        except Exception as error:
            # A defect: its traceback is logged, but the process goes on.
            _log.error("writing an event failed unexpectedly", exc_info=error)
            self._failed(write, type(error).__name__)
        else:
            self.counts[Observed.NEW] += isinstance(write, CreateEvent)
            self._series.wrote(write)
        self._under_way = None

    async def _send(self, write: Write) -> None:
        if isinstance(write, CreateEvent):
            with suppress(AlreadyExists):  # an earlier try whose answer was lost: the name is unique to this Event
                await self._api.create(write.manifest, kind=EVENT, field_manager=self._field_manager)
        else:
            await self._api.patch(write.ref, write.patch, patch_type=PatchType.MERGE, field_manager=self._field_manager)

    def _failed(self, write: Write, why: str, *, gone: bool = False) -> None:
        if self._series.failed(write, self._clock.now(), gone=gone) is Observed.DROPPED:
            self._drop(write.event, why)

    def _drop(self, event: KubernetesEvent, why: str) -> None:
        self.counts[Observed.DROPPED] += 1
        dropped = self.counts[Observed.DROPPED]
        if dropped & (dropped - 1) == 0:  # log the first, second, fourth, …: a flood of events is no flood of lines
            _log.warning("event dropped", object=str(event.regarding), reason=event.reason, why=why, dropped=dropped)
