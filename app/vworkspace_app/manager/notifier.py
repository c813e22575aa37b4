"""The delivery of notices about objects of the operator that need a person's attention (SEE-6).

This module watches the objects and sends the notices; the module `notices` decides which notices are due. No other part
is delayed: recording a change does not block, and a task of its own sends the notices.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import anyio
import structlog

from purekube.apimachinery.errors import Invalid, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata, ref_of
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.shard import Shard
from purekube.ports import Clock
from purekube_run.controller.informers import Informers
from vworkspace_app.control_plane.deadlines import rest_at_most
from vworkspace_core.api.kinds import OWN_KINDS
from vworkspace_core.overview import notices
from vworkspace_core.overview.notices import Attention, Notice
from vworkspace_core.overview.page_paths import page_link
from vworkspace_core.overview.summary import summary_of

_log = structlog.get_logger("notices")


class DocumentReceiver(Protocol):
    """The interface of a receiver of JSON documents, such as notices (CloudEvents) or spans of traces."""

    async def send(self, document: Mapping[str, Any]) -> None:
        """Deliver one document.

        Raises Invalid if the receiver will never accept the document, else another OperatorError.
        """
        ...


class Notifier:
    """A sender of notices to `receiver`: each is about an object that needs a person's attention.

    It reports only on objects of this process's shard. Create it before the informers run. It sends nothing until `run`
    is called. `page_url` is the base URL of the links in notices; if it is empty, notices have no links.
    """

    def __init__(
        self,
        receiver: DocumentReceiver,
        informers: Informers,
        clock: Clock,
        random: Callable[[], float],
        *,
        cluster: str,
        shard: Shard,
        page_url: str = "",
    ) -> None:
        self._receiver, self._informers = receiver, informers
        self._clock, self._random = clock, random
        self._cluster, self._shard, self._page = cluster, shard, page_url
        self._state: Attention | None = None
        self._news = anyio.Event()
        for runner in informers.of(*OWN_KINDS):
            runner.subscribe(self._changed)

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Wait for `ready`, then send notices until cancelled.

        `ready` returns once the caches have synced and this process is the leader.
        """
        await ready()
        present = (
            (_uid_of(manifest), summary_of(runner.kind, manifest))
            for runner in self._informers.of(*OWN_KINDS)
            for manifest in runner.store.objects()
            if self._shard.owns(ref_of(manifest, runner.kind).namespace)
        )
        now = self._clock.now()
        self._state = notices.all_observed(Attention(now), present, now)
        while True:
            self._state = notices.due(self._state, self._clock.now())
            match notices.next_step(self._state, self._clock.now()):
                case notices.Send(notice):
                    await self._deliver(notice)
                case notices.WaitUntil(until):
                    with rest_at_most(None if until is None else (until - self._clock.now()).total_seconds()):
                        await self._news.wait()
                    self._news = anyio.Event()

    def _changed(self, change: CacheChange) -> None:
        if self._state is not None:
            gone = change.type is ChangeType.DELETED
            self._state = self._observed(self._state, change.ref, change.object, gone=gone)
            self._news.set()

    def _observed(self, state: Attention, ref: ObjectRef, manifest: Manifest, *, gone: bool = False) -> Attention:
        if not self._shard.owns(ref.namespace):
            return state
        summary = None if gone else summary_of(ref.kind, manifest)
        return notices.observed(state, _uid_of(manifest), summary, self._clock.now())

    async def _deliver(self, notice: Notice) -> None:
        link = page_link(self._page, notice.summary.ref)
        try:
            await self._receiver.send(notices.cloud_event(notice, self._cluster, link))
        except Invalid as error:
            self._end(notices.refused, notice)
            _log.warning("a notice is refused and lost", about=str(notice.summary.ref), error=error.message)
        except OperatorError as error:
            self._failed(error.message, error.retry_after if isinstance(error, Unavailable) else None)
        except Exception as error:
            # A defect: its traceback is logged, but the process goes on.
            _log.error("delivering a notice failed unexpectedly", exc_info=error)
            self._failed(type(error).__name__, None)
        else:
            if self._state is not None and self._state.attempts:
                _log.info("notices are delivered again", waiting=self._waiting, lost=notice.lost)
            self._end(notices.delivered, notice)

    def _failed(self, why: str, retry_after: float | None) -> None:
        assert self._state is not None
        if not self._state.attempts:
            _log.warning("notices are not delivered; trying again", error=why, waiting=self._waiting)
        self._state = notices.failed(self._state, self._clock.now(), self._random(), retry_after)

    def _end(self, end: Callable[[Attention, Notice], Attention], notice: Notice) -> None:
        assert self._state is not None
        self._state = end(self._state, notice)

    @property
    def _waiting(self) -> int:
        return 0 if self._state is None else len(self._state.waiting)


def _uid_of(manifest: Manifest) -> str:
    return str(metadata(manifest).get("uid") or "")
