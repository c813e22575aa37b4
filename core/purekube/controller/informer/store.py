"""The informer's store: every object of one kind as packed JSON, decoded when it is read (RUN-1).

JSON takes a tenth of the memory of dicts, and compressed JSON a tenth of that; every reader gets its own copy at no
extra cost. The newest objects stay unpacked for a while: they are read most, and likely to change next. managedFields
are dropped on arrival by default. Of an object that exceeds a limit only an outline (its small parts) is held. A relist
is buffered next to the live content and replaces it in one step; the difference yields the changes that were missed,
deletions included.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import msgspec

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.apimachinery.nesting import UNREADABLE
from purekube.controller.informer.changes import (
    CacheChange,
    ChangeType,
    Indexer,
    IndexKey,
    Name,
    SecondaryIndex,
    keys_of,
)
from purekube.controller.informer.outline import outline_of
from purekube.controller.managed_fields import without_managed_fields
from purekube.controller.ownership import owner_uids

_LEVEL = 1
_WINDOW = -13  # raw deflate, 8 KiB: most objects are smaller; a repetition from further back is stored twice
_MEMORY = 6  # enough for a window that small; zlib clears it for each object
_UNPACKED = 128 * 1024


def pack(raw: bytes, typical: bytes) -> bytes:
    """Compress `raw` by zlib with the dictionary `typical`; a dictionary similar to `raw` gives a smaller result."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zdict=typical)
    return packer.compress(raw) + packer.flush()


def unpack(packed: bytes, typical: bytes) -> bytes:
    """Decompress what `pack` compressed with the same dictionary `typical`.

    Raises zlib.error for input that is recognizably damaged; a different dictionary may go unnoticed.
    """
    return zlib.decompressobj(_WINDOW, zdict=typical).decompress(packed)


Raw: TypeAlias = bytes
"""An object as JSON."""

_IDENTITY = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
)

_NOT_TRANSFORMED = (RecursionError, TypeError, ValueError, LookupError, AttributeError)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def older(version: str, than: str) -> bool:
    """Report whether the resourceVersion `version` is a smaller number than `than`. Return False if either is not a
    number.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


@attrs.define(eq=False)
class _Entry:
    content: bytes
    """The object's JSON, packed or not."""
    typical: bytes
    """The compression dictionary with which it is packed; many entries share one."""
    uid: str
    version: str
    keys: tuple[IndexKey, ...]
    is_packed: bool = False

    @property
    def raw(self) -> bytes:
        return unpack(self.content, self.typical) if self.is_packed else self.content

    def pack(self) -> int:
        """Compress the object's JSON. Return the change of its size in bytes, usually a negative number."""
        before, self.content, self.is_packed = len(self.content), pack(self.content, self.typical), True
        return len(self.content) - before


@attrs.frozen
class _Difference:
    """The stored forms of one object before and after a change of the store; None where the object did not exist."""

    name: Name
    before: _Entry | None
    after: _Entry | None


class ObjectStore:
    """The cached objects of `kind`. Only the informer writes; any number of tasks read between awaits.

    `transform` is applied to every incoming object and must not change its argument; `indexers` maps the names of
    further indexes, in addition to `namespace` and `owner`, to functions from an object, as it came in, to its values
    there. `wanted` selects the namespaces whose objects are kept; changes in other namespaces are not reported. An
    object whose JSON is longer than `whole` bytes is held as an outline, its small parts (None: never); to act on one,
    read it live (`Informers.whole`). The newest objects, up to `unpacked` bytes of JSON, are held uncompressed.
    `resource_version` is the version that the store has seen last, "" before the first list.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        transform: Callable[[Manifest], Manifest] = without_managed_fields,
        indexers: Mapping[str, Indexer] | None = None,
        wanted: Callable[[str], bool] | None = None,
        whole: int | None = None,
        unpacked: int = _UNPACKED,
    ) -> None:
        self.kind = kind
        self.resource_version = ""
        self._transform = transform
        self._wanted = wanted if kind.namespaced else None
        self._indexers = {"owner": owner_uids, **(indexers or {})}
        self._index = SecondaryIndex()
        self._entries: dict[Name, _Entry] = {}
        self._buffer: dict[Name, _Entry] = {}
        self._whole = whole
        self._most_unpacked = unpacked
        self._unpacked: dict[Name, tuple[_Entry, int]] = {}  # in order of arrival, with their bytes
        self._unpacked_bytes = 0
        self._typical = b""
        self._bytes = 0
        self._listed = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes(self) -> int:
        """The number of bytes that the JSON of all stored objects takes in memory, most of it compressed. The
        dictionary for compression, which all objects share, is not counted.
        """
        return self._bytes

    def get(self, namespace: str | None, name: str) -> dict[str, Any] | None:
        """Return one object as a copy that the caller may modify; None if it is not in the store."""
        entry = self._entries.get((namespace or "", name))
        return None if entry is None else _decode(entry.raw)

    def raw(self, namespace: str | None, name: str) -> Raw | None:
        """Return one object as JSON; None if it is not in the store.

        The same bytes object is returned until the object changes.
        """
        entry = self._entries.get((namespace or "", name))
        return None if entry is None else entry.raw

    def names(self, namespace: str | None = None) -> list[Name]:
        """Return namespace and name of all objects, or of the objects in one namespace, sorted."""
        return sorted(self._entries if namespace is None else self._index.find("namespace", namespace))

    def objects(self, namespace: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield copies of all objects, or of the objects in one namespace, sorted by name."""
        return (_decode(self._entries[name].raw) for name in self.names(namespace))

    def owned_by(self, uid: str) -> list[dict[str, Any]]:
        """Return copies of the objects with an owner reference to `uid`, sorted by name."""
        return self.indexed("owner", uid)

    def indexed(self, index: str, value: str) -> list[dict[str, Any]]:
        """Return copies of the objects that have `value` in the index named `index`, sorted by name.

        Indexes are `namespace`, `owner` (the uids of owners), and those that the store was given.
        """
        return [_decode(self._entries[name].raw) for name in self.indexed_names(index, value)]

    def indexed_names(self, index: str, value: str) -> list[Name]:
        """Return namespace and name of the objects that have `value` in the index named `index`, sorted.

        Indexes are `namespace`, `owner` (the uids of owners), and those that the store was given.
        """
        return sorted(self._index.find(index, value))

    def has_seen(self, ref: ObjectRef, version: str) -> bool:
        """Report whether the store has received the write of `ref` that produced the resourceVersion `version`.

        The watch delivers in order, so a newer resourceVersion of the whole store is proof for every object. A newer
        copy of the object itself, from a live read, is proof too.
        """
        entry = self._entries.get(_name(ref))
        seen = {self.resource_version, entry.version if entry else ""} - {""}
        return any(version == known or older(version, known) for known in seen)

    def put(self, manifest: Manifest) -> tuple[CacheChange, ...]:
        """Store one object that the watch delivered, and return the changes.

        A copy that is not newer than the stored object is ignored. A new uid is reported as a deletion and an addition.
        """
        if not self._keeps(manifest):
            return ()
        name, entry = self._admit(manifest)
        held = self._entries.get(name)
        if held is not None and (entry.version == held.version or older(entry.version, held.version)):
            return ()
        return self._changes(_Difference(name, self._replace(name, entry), entry), not self._listed)

    def correct(self, manifest: Manifest) -> tuple[CacheChange, ...]:
        """Store one object from a live read in place of the cached object, even if both have the same version.

        Return the change of the cache; nothing if the two are equal.
        """
        if not self._keeps(manifest):
            return ()
        name, entry = self._admit(manifest)
        held = self._entries.get(name)
        if held is not None and held.version == entry.version and held.raw == entry.raw:
            return ()
        return self._changes(_Difference(name, self._replace(name, entry), entry), not self._listed)

    def remove(self, manifest: Manifest) -> tuple[CacheChange, ...]:
        """Remove an object whose last state is `manifest`, and return the change of the cache.

        An object of that name with another uid stays.
        """
        if not self._keeps(manifest):
            return ()
        name, entry = self._admit(manifest)
        held = self._entries.get(name)
        if held is None or held.uid != entry.uid:
            return ()
        self._drop(name)
        return self._changes(_Difference(name, entry, None))

    def forget(self, ref: ObjectRef, resource_version: str) -> tuple[CacheChange, ...]:
        """Remove an object that a live read did not find, and return the change of the cache.

        A cached object newer than `resource_version`, at which the read was made, is kept.
        """
        held = self._entries.get(_name(ref))
        if held is None or older(resource_version, held.version):
            return ()
        return self._changes(_Difference(_name(ref), self._drop(_name(ref)), None))

    def advance(self, resource_version: str) -> None:
        """Record that the watch has delivered all changes up to `resource_version`."""
        self.resource_version = resource_version

    def buffer(self, manifests: Iterable[Manifest]) -> None:
        """Add a page of a list to the buffer; readers see the old content until `replace`."""
        if not self._buffer:
            self._typical = b""  # taken from the first object of the new list: objects change over the months
        for name, entry in (self._admit(manifest) for manifest in manifests if self._keeps(manifest)):
            self._buffer[name] = entry
            self._leave_unpacked(name, entry)

    def discard_buffer(self) -> None:
        """Discard the buffered pages of a list, since the list begins again."""
        for name, entry in self._buffer.items():
            self._forget(name, entry)
        self._buffer = {}

    def replace(self, resource_version: str) -> Iterator[CacheChange]:
        """Replace the content by the buffered objects in one step; yield every difference, missed deletions first.

        `resource_version` is the version of the list. Contents are compared even if versions are equal, because storage
        restored from a snapshot issues the same versions again.
        """
        buffered, self._buffer = self._buffer, {}
        first = not self._listed
        differences = [
            _Difference(name, self._drop(name), None) for name in sorted(self._entries.keys() - buffered.keys())
        ]
        for name, entry in buffered.items():
            held = self._hold(name, entry)
            if held is None or (held.version, held.uid, held.raw) != (entry.version, entry.uid, entry.raw):
                differences.append(_Difference(name, held, entry))
        self.resource_version, self._listed = resource_version, True
        return (change for difference in differences for change in self._changes(difference, first))

    def as_read(self, manifest: Manifest) -> Manifest:
        """Return an object that was read live in the form of the objects in the store: with `transform` applied."""
        try:
            transformed = self._transform(manifest)
            _encode(transformed)
        except _NOT_TRANSFORMED:
            return _unreadable(manifest)
        return transformed

    def _keeps(self, manifest: Manifest) -> bool:
        return self._wanted is None or self._wanted(str(metadata(manifest).get("namespace") or ""))

    def _admit(self, manifest: Manifest) -> tuple[Name, _Entry]:
        try:
            return self._packed(self._transform(manifest), manifest)
        except _NOT_TRANSFORMED:
            # An object must not stop the informer, whatever its content: its neighbours are readable.
            stub = _unreadable(manifest)
            return self._packed(stub, stub)

    def _packed(self, manifest: Manifest, received: Manifest) -> tuple[Name, _Entry]:
        meta = metadata(manifest)
        namespace = str(meta.get("namespace") or "") if self.kind.namespaced else ""
        raw = _encode(manifest)
        if self._whole is not None and len(raw) > self._whole:
            raw = _encode(outline_of(manifest, raw))
        # After the encoding, since the index functions of users may modify what they get.
        keys = (("namespace", namespace), *keys_of(received, self._indexers))
        self._typical = self._typical or raw
        entry = _Entry(raw, self._typical, str(meta.get("uid", "")), str(meta.get("resourceVersion", "")), keys)
        return (namespace, str(meta.get("name", ""))), entry

    def _leave_unpacked(self, name: Name, entry: _Entry) -> None:
        """Keep the new object `entry` uncompressed; compress the oldest objects if there are now too many bytes."""
        self._pack_if_held(name, *self._unpacked.pop(name, (None, 0)))
        self._unpacked[name] = (entry, len(entry.content))
        self._unpacked_bytes += len(entry.content)
        while self._unpacked_bytes > self._most_unpacked:
            oldest = next(iter(self._unpacked))
            self._pack_if_held(oldest, *self._unpacked.pop(oldest))

    def _pack_if_held(self, name: Name, entry: _Entry | None, size: int) -> None:
        self._unpacked_bytes -= size
        if entry is not None and self._entries.get(name) is entry:
            self._bytes += entry.pack()
        elif entry is not None and self._buffer.get(name) is entry:
            entry.pack()

    def _forget(self, name: Name, entry: _Entry) -> None:
        if (held := self._unpacked.get(name)) is not None and held[0] is entry:
            self._unpacked_bytes -= self._unpacked.pop(name)[1]

    def _replace(self, name: Name, entry: _Entry) -> _Entry | None:
        """Store `entry` in place of the stored object of that name, and return the former entry."""
        held = self._hold(name, entry)
        self._leave_unpacked(name, entry)
        return held

    def _hold(self, name: Name, entry: _Entry) -> _Entry | None:
        held = self._entries.get(name)
        if held is not None and held.keys == entry.keys:
            self._bytes -= len(held.content)
        elif held is not None:
            self._drop(name)
        self._entries[name] = entry
        if held is None or held.keys != entry.keys:
            self._index.insert(name, entry.keys)
        self._bytes += len(entry.content)
        return held

    def _changes(self, difference: _Difference, initial: bool = False) -> tuple[CacheChange, ...]:
        """Return the changes to report to readers. A new uid is reported as a deletion and an addition.

        `initial` says that the object comes from the first list.
        """
        ref, before, after = self._ref(difference.name), difference.before, difference.after
        if before is not None and after is not None and before.uid == after.uid:
            return (CacheChange(ChangeType.UPDATED, ref, after.raw, before.raw, version=after.version),)
        deleted = () if before is None else (CacheChange(ChangeType.DELETED, ref, before.raw, version=before.version),)
        if after is None:
            return deleted
        initial = initial and not deleted
        return (*deleted, CacheChange(ChangeType.ADDED, ref, after.raw, initial=initial, version=after.version))

    def _drop(self, name: Name) -> _Entry:
        entry = self._entries.pop(name)
        self._forget(name, entry)
        self._index.remove(name, entry.keys)
        self._bytes -= len(entry.content)
        return entry

    def _ref(self, name: Name) -> ObjectRef:
        return ObjectRef(self.kind, name[0] if self.kind.namespaced else None, name[1])


def _unreadable(manifest: Manifest) -> Manifest:
    """Return a stub for an object that cannot be transformed or encoded, with the names of its unreadable parts.

    The stub has kind, identity and, if the status can be encoded, the status.
    """
    meta = metadata(manifest)
    identity = {name: meta[name] for name in _IDENTITY if isinstance(meta.get(name), str | int | dict | list)}
    status = manifest.get("status")
    stub = {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind"), "metadata": identity}
    try:
        _encode(status)
    except (RecursionError, TypeError, ValueError):
        return {**stub, UNREADABLE: ["spec", "status"]}
    return {**stub, "status": status, UNREADABLE: ["spec"]}


def _name(ref: ObjectRef) -> Name:
    return (ref.namespace or "", ref.name)
