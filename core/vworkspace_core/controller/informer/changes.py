"""What a store tells its readers: one object appeared, changed or went away."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

import attrs
import msgspec

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ChangeType(StrEnum):
    """Kind of a change, seen from the store."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


@attrs.frozen
class CacheChange:
    """One change of the store.

    `raw` is the object as it is now, for DELETED as it was last known; `version` is the resourceVersion of that,
    and `old_raw` what an UPDATED replaced. `initial` marks objects of the first list. A delete that was missed while
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
        """The object, decoded once for all who are told of the change: nobody alters it."""
        return _decode(self.raw)

    @property
    def old_object(self) -> Mapping[str, Any] | None:
        """What an UPDATED replaced, the caller's own copy; None for the others."""
        return None if self.old_raw is None else _decode(self.old_raw)
