"""Changes that a store reports to its readers: an object appeared, changed or was deleted."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, ObjectRef

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ChangeType(StrEnum):
    """The kind of a change, seen from the store."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


@attrs.frozen
class CacheChange:
    """One change of the store.

    `raw` is the present object, for DELETED its last known state; `version` is its resourceVersion, and `old_raw` the
    object that an UPDATED replaced. `initial` marks objects of the first list. A deletion that was missed while
    disconnected is a DELETED like any other.
    """

    type: ChangeType
    ref: ObjectRef
    raw: bytes
    old_raw: bytes | None = None
    initial: bool = False
    version: str = ""

    @cached_property
    def object(self) -> Manifest:
        """The object, decoded once for all readers; no reader may alter it."""
        return _decode(self.raw)

    @property
    def old_object(self) -> Mapping[str, Any] | None:
        """The object that an UPDATED replaced, as the caller's own copy; None for other changes."""
        return None if self.old_raw is None else _decode(self.old_raw)
