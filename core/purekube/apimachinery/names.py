"""Names and label values that Kubernetes accepts, and the rule by which long ones are cut (RES-5)."""

import hashlib
import re
from typing import Final

from purekube.apimachinery.formats import LABEL_VALUE

LONGEST_LABEL: Final = 63
"""The longest label value or DNS label, in characters."""

LABEL_RULE: Final = f"at most {LONGEST_LABEL} letters, digits, -, _ and ., first and last a letter or digit"
"""The rule for a label value, in words for messages."""

_HASH_DIGITS: Final = 10

_LABEL_VALUE: Final = re.compile(LABEL_VALUE)

_TRAILING: Final = re.compile(r"(?<![^A-Za-z0-9])[^A-Za-z0-9]+\Z")

_UID_HEAD: Final = re.compile(r"[0-9a-f]{8}(?=-|\Z)")


def is_label_value(text: str) -> bool:
    """Report whether `text`, such as a cluster's id, can be a label's value unchanged. An empty string cannot."""
    return len(text) <= LONGEST_LABEL and _LABEL_VALUE.fullmatch(text) is not None


def bounded_name(name: str, limit: int = LONGEST_LABEL) -> str:
    """Return `name` if it fits into `limit` characters. Return a shortened name with a hash of the whole name if not.

    The hash is ten hex digits of the SHA-256. The shortened part loses trailing non-alphanumerics before the hash is
    joined to it. The result is the same in every process, and long names with an equal beginning stay distinct. Raises
    ValueError if `limit` leaves no room for the hash.
    """
    if len(name) <= limit:
        return name
    return closed_name(name, _digest(name, _HASH_DIGITS), limit)


def engine_object_name(operation_name: str, uid: str, limit: int = LONGEST_LABEL) -> str:
    """Return the name of the object that carries out an Operation, such as a Velero Backup (OPS-1).

    It is `<operation name>-<first 8 hex digits of the uid>`; only the Operation's name is shortened to fit the limit.

    A uid that is not a UUID contributes eight hex digits of its SHA-256 instead.
    """
    head = _UID_HEAD.match(uid)
    tail = head.group() if head else _digest(uid, 8)
    return closed_name(operation_name, tail, limit)


def closed_name(name: str, tail: str, limit: int = LONGEST_LABEL) -> str:
    """Return `<name>-<tail>`, with only `name` shortened to fit the limit; `tail` alone if nothing of `name` fits.

    Raises ValueError if `limit` is too small for `tail`.
    """
    if len(name) + 1 + len(tail) <= limit:
        return f"{name}-{tail}"
    if limit < len(tail):
        raise ValueError(f"a limit of {limit} leaves no room for {len(tail)} hash digits")
    head = _TRAILING.sub("", name[: max(limit - len(tail) - 1, 0)])
    return f"{head}-{tail}" if head else tail


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
