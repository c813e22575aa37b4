"""Since when the present token lies in its Secret, as the Secret itself tells (RUN-5)."""

from datetime import datetime

from vworkspace_core.agent.times import parse_time
from vworkspace_core.manifest import Json, Manifest, dig

__all__ = ["token_since"]


def token_since(secret: Manifest) -> datetime | None:
    """When whoever holds the key `token` last wrote; else when the Secret was made. None where neither is told.

    The API server keeps a time for all that one manager wrote, so a token may be older than this says: by as long as
    its manager changed other keys only.
    """
    entries = dig(secret, "metadata", "managedFields")
    owned = [entry for entry in entries if _holds_token(entry)] if isinstance(entries, list) else []
    told = [found for entry in owned if (found := _instant(dig(entry, "time"))) is not None]
    return max(told, default=None) or _instant(dig(secret, "metadata", "creationTimestamp"))


def _holds_token(entry: Json) -> bool:
    return dig(entry, "fieldsV1", "f:data", "f:token") is not None


def _instant(text: Json) -> datetime | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None
