"""The causes of a server-side apply conflict, read into managers and fields (S-77 to S-80, REC-8)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vworkspace_core.apimachinery.errors import FieldConflict

# conflict with "M"[ with subresource "S"][ using V][ at T]: only the manager is needed apart, quoted as Go's
# %q quotes. The time is in the server's code but never appeared in measured answers (S-79): both are read.
_CAUSE = re.compile(r'^conflict with ("(?:[^"\\]|\\.)*")')


def field_conflicts(causes: Iterable[Mapping[str, Any]]) -> tuple[FieldConflict, ...]:
    """The field conflicts among the causes of a 409; empty when it is about a stale object (S-77)."""
    return tuple(
        FieldConflict(
            _manager(str(cause.get("message", ""))), str(cause.get("field", "")), str(cause.get("message", ""))
        )
        for cause in causes
        if cause.get("reason") == "FieldManagerConflict"
    )


def _manager(message: str) -> str:
    match = _CAUSE.match(message)
    if match is None:
        return ""
    try:
        return str(msgspec.json.decode(match[1]))
    except msgspec.DecodeError:  # Go escapes (\x00, \a) that JSON does not know
        return match[1][1:-1]
