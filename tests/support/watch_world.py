"""A strict little server of one kind, and a rig that lets an informer machine meet it, fault by fault.

Pure: the rig's time is a number, and a fault is whatever the test says happens next.
"""

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from purekube.apimachinery.errors import Expired, KindMissing, OperatorError, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.informer.machine import step
from purekube.controller.informer.messages import (
    Advance,
    BufferPage,
    DiscardPages,
    InformerCommand,
    InformerEffect,
    InformerEvent,
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
from purekube.controller.informer.store import ObjectStore
from purekube.ports import WatchEvent, WatchEventType

KIND = Kind("t.example.com", "v1", "Thing", "things")
PAGE = 2
"""Objects per page: small, so that few objects make several pages."""


@attrs.define
class World:
    """What the API server holds: objects, the changes it remembers, and pages of lists under way."""

    version: int = 100
    objects: dict[str, Manifest] = attrs.field(factory=dict)
    log: list[tuple[int, WatchEvent]] = attrs.field(factory=list)
    compacted: int = 0
    served: bool = True
    uids: int = 0
    snapshots: dict[str, tuple[int, list[Manifest]]] = attrs.field(factory=dict)
    past: dict[int, dict[str, Manifest]] = attrs.field(factory=lambda: {100: {}})
    edits: int = 0

    def write(self, name: str) -> None:
        """Create or change an object."""
        known = self.objects.get(name)
        if known is None:
            self.uids += 1
        uid = known["metadata"]["uid"] if known else f"uid-{self.uids}"
        kind = WatchEventType.ADDED if known is None else WatchEventType.MODIFIED
        self._happen(kind, name, uid)

    def delete(self, name: str) -> None:
        """Delete an object; the event carries a newer version than its last state (W-17)."""
        known = self.objects.pop(name, None)
        if known is not None:
            self._happen(WatchEventType.DELETED, name, known["metadata"]["uid"])

    def _happen(self, kind: WatchEventType, name: str, uid: str) -> None:
        self.version += 1
        meta = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(self.version)}
        self.edits += 1  # a version may be given again after a restore, to something else
        manifest = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": meta, "edit": self.edits}
        if kind is not WatchEventType.DELETED:
            self.objects[name] = manifest
        self.past[self.version] = dict(self.objects)
        self.log.append((self.version, WatchEvent(kind, manifest)))

    def compact(self) -> None:
        """Forget every change so far: older positions and tokens expire."""
        self.compacted = self.version
        self.log.clear()
        self.snapshots.clear()

    def remove_definition(self) -> None:
        """The CRD goes, and every object with it."""
        for name in list(self.objects):
            self.delete(name)
        self.served = False

    def restore(self, back: int) -> None:
        """The storage comes back from a snapshot: everything is as it was, and versions are given again."""
        self.version = max(100, self.version - back)
        self.past = {at: objects for at, objects in self.past.items() if at <= self.version}
        self.objects = dict(self.past[max(self.past)])
        self.log = [entry for entry in self.log if entry[0] <= self.version]
        self.compacted = min(self.compacted, self.version)
        self.snapshots.clear()

    def page(self, token: str) -> PageRead:
        """A page of a list. Raises Expired, KindMissing."""
        if not self.served:
            raise KindMissing("things are not served")
        if token and token.split("/")[0] not in self.snapshots:
            raise Expired("the token is too old")
        snapshot, _, offset = token.partition("/") if token else (f"s{len(self.snapshots)}-{self.version}", "", "0")
        at, items = self.snapshots.setdefault(snapshot, (self.version, list(self.objects.values())))
        end = int(offset) + PAGE
        more = f"{snapshot}/{end}" if end < len(items) else ""
        return PageRead(items[int(offset) : end], str(at), more)

    def next_after(self, version: str) -> WatchEvent | None:
        """The next change after a position, None when there is none yet. Raises Expired, KindMissing."""
        if not self.served and not [entry for entry in self.log if entry[0] > int(version)]:
            raise KindMissing("things are not served")
        if int(version) < self.compacted:
            raise Expired("too old resource version")
        return next((event for at, event in self.log if at > int(version)), None)

    def bookmark(self, position: str) -> WatchEvent | None:
        """A bookmark for a stream at `position`: never past a change it has not delivered, none before its start."""
        if self.version < int(position):
            return None
        waiting = any(at > int(position) for at, _ in self.log)
        meta = {"resourceVersion": position if waiting else str(self.version)}
        return WatchEvent(WatchEventType.BOOKMARK, {"kind": KIND.kind, "metadata": meta})


class Rig:
    """An informer machine with its store in front of a `World`, driven one happening at a time."""

    def __init__(self, policy: InformerPolicy, jitter: Callable[[], float]) -> None:
        self.world = World()
        self.store = ObjectStore(KIND)
        self.policy = policy
        self.jitter = jitter
        self.now = 5000.0
        self.state = InformerState()
        self.command: InformerCommand = Wait(0)
        self.position = ""
        self.is_away = False
        self.is_half_open = False
        self.told: dict[ObjectRef, str] = {}
        self.changes: list[CacheChange] = []
        self.asked: list[float] = []
        self.relists: list[str] = []
        self.feed(Started())

    def feed(self, event: InformerEvent) -> None:
        """Let something happen to the machine, and do what it asks of the store."""
        self.state, effects = step(self.state, event, self.now, self.jitter(), self.policy)
        commands = [effect for effect in effects if isinstance(effect, ReadPage | OpenStream | Wait)]
        assert len(commands) <= 1
        assert commands == list(effects[-1:]) or not commands
        for effect in effects:
            self._perform(effect)
        if commands:
            self._turn_to(commands[0])
        assert self.watching or not isinstance(event, WatchEvent) or commands

    def _turn_to(self, command: InformerCommand) -> None:
        self.command = command
        self.is_half_open = False
        if isinstance(command, OpenStream):
            self.position = command.resource_version
        if isinstance(command, OpenStream) or (isinstance(command, ReadPage) and not command.continue_token):
            self.asked.append(self.now)

    @property
    def watching(self) -> bool:
        """A stream is open."""
        return isinstance(self.command, OpenStream)

    def serve(self) -> bool:
        """Let the server answer as it should, or let time pass. False when an open stream has nothing to say."""
        match self.command:
            case Wait(seconds):
                self.now += seconds
                self.feed(WaitElapsed())
            case ReadPage(token):
                self.feed(self._answer(lambda: self.world.page(token), ListFailed))
            case OpenStream() if self.is_half_open:
                return False
            case OpenStream():
                event = self._answer(lambda: self.world.next_after(self.position), StreamFailed)
                if event is None:
                    return False
                self.deliver(event)
        return True

    def deliver(self, event: Any) -> None:
        """Bring something over the open stream, and remember how far it has come."""
        if isinstance(event, WatchEvent):
            at = event.object["metadata"]["resourceVersion"]
            self.position = str(max(int(at), int(self.position)))
        self.feed(event)

    def fail(self, error: OperatorError) -> None:
        """Let what is under way fail."""
        match self.command:
            case ReadPage():
                self.feed(ListFailed(error))
            case OpenStream():
                self.feed(StreamFailed(error))
            case Wait():
                pass

    def bookmark(self) -> bool:
        """Let the server say where it is; False where no stream is open or it has nothing to say on it."""
        bookmark = self.world.bookmark(self.position) if self.watching and not self.is_half_open else None
        if bookmark is not None:
            self.deliver(bookmark)
        return bookmark is not None

    def over_stream(self, event: InformerEvent) -> None:
        """Let something happen to the stream, if one is open."""
        if self.watching:
            if isinstance(event, WentQuiet):
                assert isinstance(self.command, OpenStream)
                self.now += self.command.quiet_limit
            self.deliver(event)

    def wake(self) -> None:
        """Wake a waiting informer, as an established CRD does."""
        if isinstance(self.command, Wait):
            self.feed(WakeRequested())

    def stay_away(self, seconds: float) -> None:
        """Let the server answer nothing for so long; streams that are not half open have ended before."""
        until, self.is_away = self.now + seconds, True
        while not self.is_half_open and not (
            isinstance(self.command, Wait) and self.now + self.command.seconds > until
        ):
            self.serve()
        if isinstance(self.command, Wait):
            self.command = Wait(self.now + self.command.seconds - until)
        self.now, self.is_away = max(self.now, until), False

    def _answer(self, ask: Callable[[], Any], failed: Callable[[OperatorError], InformerEvent]) -> Any:
        if self.is_away:
            return failed(Unavailable("connection refused"))
        try:
            return ask()
        except OperatorError as error:
            return failed(error)

    def _perform(self, effect: InformerEffect) -> None:
        match effect:
            case PutObject(manifest):
                self._tell(self.store.put(manifest))
            case RemoveObject(manifest):
                self._tell(self.store.remove(manifest))
            case Advance(version):
                self.store.advance(version)
            case BufferPage(items):
                self.store.buffer(items)
            case DiscardPages():
                self.store.discard_buffer()
            case Replace(version):
                self._tell(self.store.replace(version))
            case Relist(cause):
                self.relists.append(cause.value)
            case ReportWatchError():
                pass

    def _tell(self, changes: Iterable[CacheChange]) -> None:
        """A reader that believes nothing: adds must be new, updates and deletes must be of something known."""
        for change in changes:
            uid = change.object["metadata"]["uid"]
            match change.type:
                case ChangeType.ADDED:
                    assert change.ref not in self.told
                    self.told[change.ref] = uid
                case ChangeType.UPDATED:
                    assert self.told[change.ref] == uid
                case ChangeType.DELETED:
                    assert self.told.pop(change.ref) == uid
            self.changes.append(change)

    def heal(self, *, for_seconds: float) -> None:
        """No more faults for so long: bookmarks every minute, streams end at their timeout."""
        until, opened = self.now + for_seconds, self.now
        while self.now < until:
            command = self.command
            if not self.serve():
                assert isinstance(command, OpenStream)
                self._pass_a_minute(command, opened)
            if self.command is not command:
                opened = self.now
        while self.serve():
            pass

    def _pass_a_minute(self, stream: OpenStream, opened: float) -> None:
        """A minute of an idle stream, at whose end comes a bookmark; without one it is given up before its time."""
        self.now += 60.0
        if self.now - opened >= stream.timeout_seconds and not self.is_half_open:
            self.feed(StreamEnded())
        elif not self.bookmark() and self.now - opened >= stream.quiet_limit - 60.0:
            self.now = max(self.now, opened + stream.quiet_limit)
            self.feed(WentQuiet())


def server_state(world: World) -> dict[str, Manifest]:
    """What a reader should see."""
    return dict(world.objects)


def store_state(store: ObjectStore) -> dict[str, Manifest]:
    """What a reader sees."""
    return {obj["metadata"]["name"]: obj for obj in store.objects()}
