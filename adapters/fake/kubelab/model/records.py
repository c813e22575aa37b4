"""The records of the store: each object as JSON bytes, and each change as the records before and after it.

An object is encoded once, when it is written. The HTTP handler sends the bytes unchanged, and the history shares them.
Clients get copies of their own; readers that change nothing (the functions that compute the result of a write, watches,
tests) share one decoded copy. A record also has the few facts that selectors, paging and garbage collection need of
every object, so that they never decode.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import attrs
import msgspec

from purekube.ports import WatchEventType
from purekube.schema.node import Schema

GroupResource = tuple[str, str]
"""The (group, plural) of a resource. The store keeps objects by it, so all versions of a kind are stored together."""

ObjectKey = tuple[str, str]
"""The (namespace, name) of an object; the namespace is empty if it is cluster-scoped. Lists are sorted by this key."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder()
_NOTHING: Final[Mapping[str, str]] = {}

encode = _encoder.encode
decode = _decoder.decode


@lru_cache(maxsize=512)
def decode_shared(raw: bytes) -> Mapping[str, Any]:
    """Return the object in `raw`, decoded from JSON. Callers share the result, so they must not change it.

    Results are cached: the same bytes give the same Python object while it is in the cache.
    """
    manifest: Mapping[str, Any] = decode(raw)
    return manifest


@attrs.frozen(eq=False)
class Record:
    """One stored version of one object.

    `owners` maps the uid of each owner reference to whether it blocks the owner's foreground deletion. `lacks_status`
    means that readers see a default status that no write has stored yet. `schema` is the schema by which the object was
    found valid, None if it was not validated. `api_version` is the version in which the object is stored.
    """

    key: ObjectKey
    uid: str
    version: int
    labels: Mapping[str, str]
    owners: Mapping[str, bool]
    finalizers: tuple[str, ...]
    deleting: bool
    raw: bytes
    lacks_status: bool = False
    schema: Schema | None = attrs.field(default=None, repr=False)
    api_version: str = ""

    def object(self) -> dict[str, Any]:
        """Return the object as a decoded copy, which the caller may change."""
        copy: dict[str, Any] = decode(self.raw)
        return copy

    def shared(self) -> Mapping[str, Any]:
        """Return the decoded object that all readers of the record share; callers must not change it."""
        return decode_shared(self.raw)


def record_of(
    manifest: Mapping[str, Any], version: int, *, lacks_status: bool = False, schema: Schema | None = None
) -> Record:
    """Return the record of `manifest`, encoded as the state written at resourceVersion `version`.

    `lacks_status` means that the status in `manifest` is a default that no write has set yet. `schema` is the schema by
    which the object was found valid, None if it was not validated.
    """
    meta = {**manifest["metadata"], "resourceVersion": str(version)}
    return Record(
        key=(meta.get("namespace", ""), meta["name"]),
        uid=meta["uid"],
        version=version,
        labels=meta.get("labels") or _NOTHING,
        owners=owners_of(meta),
        finalizers=tuple(meta.get("finalizers") or ()),
        deleting="deletionTimestamp" in meta,
        raw=encode({**manifest, "metadata": meta}),
        lacks_status=lacks_status,
        schema=schema,
        api_version=manifest["apiVersion"],
    )


def owners_of(meta: Mapping[str, Any]) -> Mapping[str, bool]:
    """Return the owner references in `meta`, an object's metadata: each owner's uid with its `blockOwnerDeletion`."""
    references = meta.get("ownerReferences")
    if not references:
        return {}
    # An absent blockOwnerDeletion does not block (kubernetes: controller/garbagecollector/graph.go,
    # blockingDependents).
    return {ref["uid"]: bool(ref.get("blockOwnerDeletion")) for ref in references}


def with_version(record: Record, version: int) -> Record:
    """Return `record` with the resourceVersion `version`.

    A deletion has a resourceVersion of its own. The last state of the deleted object is shown with that version (W-17).
    """
    manifest = record.object()
    manifest["metadata"]["resourceVersion"] = str(version)
    return attrs.evolve(record, raw=encode(manifest))


@attrs.frozen(eq=False)
class StoredChange:
    """One write to the store. `before` is None for a create, `after` is None for a delete."""

    version: int
    before: Record | None
    after: Record | None


def seen(change: StoredChange, was: bool, now: bool) -> tuple[WatchEventType, Record] | None:
    """Return the event that a watch shows for `change`, as its type and its object, or None if it shows none (W-18).

    `was` and `now` say whether the watch's selector matches the object before and after the change.
    """
    match (was, now):
        case (False, True) if change.after is not None:
            return WatchEventType.ADDED, change.after
        case (True, True) if change.after is not None:
            return WatchEventType.MODIFIED, change.after
        case (True, False) if change.before is not None:
            # apiserver: storage/cacher/cache_watcher.go, convertToWatchEvent: the last matching state, with the version
            # of the change.
            return WatchEventType.DELETED, with_version(change.before, change.version)
        case _:
            return None
