"""The causes of a server-side apply conflict, parsed into managers and fields (S-77 to S-80, REC-8)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from purekube.apimachinery.errors import FieldConflict

# conflict with "M"[ with subresource "S"][ using V][ at T]: only the manager is parsed, which is quoted as Go's %q
# does. The time is in kube-apiserver's code but never appeared in measured answers (S-79); both forms are accepted.
_CAUSE = re.compile(r'^conflict with ("(?:[^"\\]|\\.)*")')


def field_conflicts(causes: Iterable[Mapping[str, Any]]) -> tuple[FieldConflict, ...]:
    """Return the field conflicts among the causes of a 409. A 409 about a stale resourceVersion has none (S-77)."""
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
    except msgspec.DecodeError:  # Go escapes (\x00, \a) that are invalid in JSON
        return match[1][1:-1]
