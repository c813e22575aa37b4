"""The execution of an informer's lists, watches and waits, on which a pure state machine decides (RUN-1).

No other module awaits lists and watches for an informer.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import NoReturn, TypedDict, assert_never

import anyio
import anyio.lowlevel

from purekube.apimachinery.errors import OperatorError, Permanent, Right
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.controller.health import InformerVitals
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.machine import step
from purekube.controller.informer.messages import (
    DEFAULT_POLICY,
    Advance,
    BufferPage,
    DiscardPages,
    InformerCommand,
    InformerEffect,
    InformerEvent,
    InformerPhase,
    InformerPolicy,
    InformerState,
    ListFailed,
    OpenStream,
    PageRead,
    PutObject,
    ReadPage,
    Relist,
    RemoveObject,
    Replace,
    ReportWatchError,
    Started,
    StreamEnded,
    StreamFailed,
    Wait,
    WaitElapsed,
    WakeRequested,
    WentQuiet,
)
from purekube.controller.informer.outline import PAGE_SIZE
from purekube.controller.informer.store import ObjectStore, older
from purekube.ports import Clock, KubeApi, WatchEvent
from purekube_run.controller.informer_stats import Heartbeat, InformerCounters, InformerStats, by_its_roles

_CLOSE_LIMIT = 5.0
"""The seconds after which a stream that does not close is abandoned."""


def as_operator_error(error: Exception) -> OperatorError:
    """Return an OperatorError unchanged. Any other exception is a defect, and is returned as a Permanent error."""
    if isinstance(error, OperatorError):
        return error
    defect = Permanent(f"{type(error).__name__} from the KubeApi port")
    defect.__cause__ = error
    return defect


async def close(stream: AsyncIterator[WatchEvent]) -> None:
    """Close a watch stream and its connection, even while the task is being cancelled."""
    if isinstance(stream, AsyncGenerator):
        # Without the shield the closing itself would be cancelled at its first await, and the connection would stay
        # open.
        with anyio.move_on_after(_CLOSE_LIMIT, shield=True):
            await stream.aclose()


_EVENTS_PER_YIELD = 64  # a burst that is already in memory must not hold up other tasks
_REARM = 1.0  # the watchdog's deadline is moved at most once a second: moving it costs more than an event


class _Selectors(TypedDict):
    """The namespace and selectors of a list or watch request, as keyword arguments."""

    namespace: str | None
    label_selector: str
    field_selector: str


class InformerRunner:
    """An informer: it keeps `store` equal to the API server's objects of one kind, and calls handlers for each change.

    Handlers are called synchronously, in the order of the changes. An exception of a handler is logged and counted, and
    the other handlers are still called. `label_selector` and `field_selector` restrict which objects are cached. With
    `metadata_only` the server sends only metadata. `random` returns numbers in [0, 1), which vary the delays of retries
    and the length of watches. `remedy` returns the command that grants a missing right.
    """

    def __init__(
        self,
        api: KubeApi,
        kind: Kind,
        *,
        clock: Clock,
        random: Callable[[], float],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        store: ObjectStore | None = None,
        policy: InformerPolicy = DEFAULT_POLICY,
        page_size: int = PAGE_SIZE,
        remedy: Callable[[Right], str] = by_its_roles,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.store = ObjectStore(kind) if store is None else store
        self._api = api
        self._clock = clock
        self._random = random
        self._selectors = _Selectors(namespace=namespace, label_selector=label_selector, field_selector=field_selector)
        self._metadata_only = metadata_only
        self._policy = policy
        self._page_size = page_size
        self._limit = page_size
        self._state = InformerState()
        self._handlers: list[Callable[[CacheChange], None]] = []
        self._wake_requested = anyio.Event()
        self._synced = anyio.Event()
        self._counters = InformerCounters(kind, namespace, remedy)
        self._heartbeat = Heartbeat(float("inf"))  # its time begins with `run`

    def subscribe(self, handler: Callable[[CacheChange], None]) -> None:
        """Call `handler` for every change from now on. Subscribe before `run` to receive all changes."""
        self._handlers.append(handler)

    def unsubscribe(self, handler: Callable[[CacheChange], None]) -> None:
        """Stop calling `handler`. Raises ValueError if `handler` is not subscribed."""
        self._handlers.remove(handler)

    @property
    def has_synced(self) -> bool:
        """Report whether the first list is in the store, or the API server is known not to serve the kind."""
        return self._state.has_synced

    @property
    def missing(self) -> bool:
        """Report whether the API server does not serve the kind."""
        return self._state.phase is InformerPhase.MISSING

    async def wait_for_sync(self) -> None:
        """Wait until the cache has synced, that is, until `has_synced` is True."""
        await self._synced.wait()

    def wake(self) -> None:
        """Check at once whether the API server serves the kind now, if it did not before."""
        self._wake_requested.set()

    def stats(self) -> InformerStats:
        """Return the informer's present statistics: the size of its store, and counts of relists and failures."""
        return self._counters.stats(self._state, self.store, self._clock.monotonic())

    def vitals(self) -> InformerVitals:
        """Return the informer's state for health checks: whether it has synced, and the age of its last answer."""
        return self._counters.vitals(self._state, self._heartbeat, self._clock.monotonic())

    def trouble(self) -> tuple[str, int]:
        """Return the error of the failing list or watch, without secrets, and the number of consecutive failures.

        The error is "" if lists and watches succeed.
        """
        return self._counters.current, self._state.failures

    async def refresh(self, ref: ObjectRef, *, overwrite: bool = False) -> None:
        """Read one object from the API server into the store. Raises the errors of `KubeApi.list`.

        With `overwrite`, the object that was read replaces the stored one even if it does not have a newer
        resourceVersion, so that a wrong copy in the store is corrected. An object that does not exist is removed from
        the store. Nothing changes if the watch is ahead of this read.
        """
        page = await self._api.list(self.kind, **self._named(ref), metadata_only=self._metadata_only)
        if older(page.resource_version, self.store.resource_version):
            return  # the watch is ahead of this list, and may have seen the object deleted
        take = self.store.correct if overwrite else self.store.put
        changes = [change for item in page.items for change in take(item)]
        self._notify(changes if page.items else self.store.forget(ref, page.resource_version))

    async def read(self, ref: ObjectRef) -> Manifest | None:
        """Return one object read from the API server, in the form in which the store keeps objects.

        Return None if the object does not exist. Raises the errors of `KubeApi.list`.
        """
        page = await self._api.list(self.kind, **self._named(ref), metadata_only=self._metadata_only)
        return self.store.as_read(page.items[0]) if page.items else None

    def _named(self, ref: ObjectRef) -> _Selectors:
        """Return the selectors of a list request for only the object `ref`.

        A list is used instead of a get, since it returns nothing if the informer's own selectors exclude the object.
        """
        fields = ",".join(part for part in (self._selectors["field_selector"], f"metadata.name={ref.name}") if part)
        return _Selectors(
            namespace=ref.namespace, label_selector=self._selectors["label_selector"], field_selector=fields
        )

    def observe_write(self, manifest: Manifest) -> None:
        """Store the object that the server returned for a write of this process, so that the cache shows it at once.

        The object is ignored if the watch has already delivered later changes: it may be deleted by now. It is also
        ignored if the informer has selectors, which might exclude it; then the watch delivers it.
        """
        selectors = self._selectors["label_selector"] or self._selectors["field_selector"]
        version = str(metadata(manifest).get("resourceVersion", ""))
        if not selectors and self.has_synced and older(self.store.resource_version, version):
            self._notify(self.store.put(manifest))

    async def run(self) -> NoReturn:
        """List and watch the kind until cancelled."""
        self._heartbeat = Heartbeat(self._clock.monotonic())
        command = self._step(Started())
        while True:
            match command:
                case ReadPage():
                    command = self._step(await self._read_page(command))
                case OpenStream():
                    command = await self._watch(command)
                case Wait(seconds):
                    command = self._step(await self._wait(seconds))
                case None:
                    raise AssertionError("the informer machine asked to read on without a stream")
                case _:
                    assert_never(command)

    async def _read_page(self, asked: ReadPage) -> InformerEvent:
        try:
            page = await self._api.list(
                self.kind,
                limit=asked.limit or self._limit,
                continue_token=asked.continue_token,
                metadata_only=self._metadata_only,
                **self._selectors,
            )
        except Exception as error:
            return ListFailed(self._operator_error(error))
        if asked.limit:
            return PageRead(page.items, page.resource_version, page.continue_token)
        # Fewer items than requested although more follow: the transport split a page whose bytes exceeded its limit.
        if page.continue_token and len(page.items) < self._limit:
            self._limit = max(1, len(page.items))  # as many as fit: these objects are large
        else:
            self._limit = min(self._page_size, 2 * self._limit)
        return PageRead(page.items, page.resource_version, page.continue_token)

    async def _watch(self, asked: OpenStream) -> InformerCommand:
        """Open the watch that `asked` describes, and read it until it ends. Return the state machine's next command."""
        stream = self._api.watch(
            self.kind,
            resource_version=asked.resource_version,
            timeout_seconds=asked.timeout_seconds,
            metadata_only=self._metadata_only,
            **self._selectors,
        )
        try:
            end = await self._read(stream, asked.quiet_limit)
        except Exception as error:
            end = StreamFailed(self._operator_error(error))
        finally:
            # An asynchronous generator that is left early is closed by the garbage collector otherwise (PEP 525).
            await close(stream)
        command = end if isinstance(end, InformerCommand) else self._step(end)
        assert command is not None
        return command

    async def _read(self, stream: AsyncIterator[WatchEvent], quiet_limit: float) -> InformerCommand | InformerEvent:
        """Pass the events of `stream` to the state machine until it returns a command, and return that command.

        If the stream ends before, or delivers nothing for `quiet_limit` seconds, return the corresponding event
        instead.
        """
        with anyio.move_on_after(quiet_limit) as watchdog:
            armed_at, unyielding = self._clock.monotonic(), 0
            async for event in stream:
                command = self._step(event)
                if command is not None:
                    return command
                unyielding += 1
                if unyielding >= _EVENTS_PER_YIELD:
                    # A stream whose data is already buffered never gives control back to the event loop.
                    await anyio.lowlevel.checkpoint()
                    unyielding = 0
                # Not at each event: to move a deadline anyio cancels a timer and sets another one.
                if (now := self._clock.monotonic()) - armed_at >= _REARM:
                    armed_at, watchdog.deadline = now, anyio.current_time() + quiet_limit
            return StreamEnded()
        return WentQuiet()

    def _operator_error(self, error: Exception) -> OperatorError:
        operator_error = as_operator_error(error)
        if operator_error is not error:
            self._counters.defect(operator_error.message, error)
        return operator_error

    async def _wait(self, seconds: float) -> InformerEvent:
        with anyio.move_on_after(seconds):
            await self._wake_requested.wait()
            self._wake_requested = anyio.Event()
            return WakeRequested()
        return WaitElapsed()

    def _step(self, event: InformerEvent) -> InformerCommand | None:
        """Pass an event to the informer's state machine, and execute its effects: update the store, call handlers.

        Return the next command, or None if the current stream is to be read on.
        """
        now = self._clock.monotonic()
        self._heartbeat.moved(event, now)
        self._state, effects = step(self._state, event, now, self._random(), self._policy)
        command: InformerCommand | None = None
        for effect in effects:
            if isinstance(effect, InformerCommand):
                command = effect
                self._heartbeat.begin(command)
            else:
                self._execute(effect)
        if self._counters.trouble_reason and isinstance(event, PageRead | WatchEvent) and not _has_trouble(effects):
            self._counters.recovered()
        if self._state.has_synced and not self._synced.is_set():
            self._synced.set()
        return command

    def _execute(self, effect: InformerEffect) -> None:
        match effect:
            case PutObject(manifest):
                self._notify(self.store.put(manifest))
            case Advance(version):
                self.store.advance(version)
            case RemoveObject(manifest):
                self._notify(self.store.remove(manifest))
            case BufferPage(items):
                self.store.buffer(items)
            case DiscardPages():
                self.store.discard_buffer()
            case Replace(version):
                self._notify(self.store.replace(version))
            case Relist(cause):
                self._counters.relist(cause)
            case ReportWatchError(reason, is_usual=True):
                self._counters.renewed(reason)
            case ReportWatchError(reason):
                self._counters.trouble(reason, self._state.failures, absent=self.missing)
            case ReadPage() | OpenStream() | Wait():
                raise AssertionError(f"{effect} is a command")
            case _:
                assert_never(effect)

    def _notify(self, changes: Iterable[CacheChange]) -> None:
        for change in changes:
            for handler in (*self._handlers,):
                try:
                    handler(change)
                except Exception as error:
                    self._counters.handler_failed(change, error)


def _has_trouble(effects: Iterable[InformerEffect]) -> bool:
    return any(isinstance(effect, ReportWatchError) for effect in effects)
