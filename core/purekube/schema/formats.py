"""String formats of OpenAPI as the API server checks them.

Names are compared without dashes (`date-time` is `datetime`). A format that the server does not know is no restriction.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from typing import Final

from purekube.apimachinery.durations import is_duration
from purekube.cel.library.network import is_url

_TIME: Final = re.compile(r"(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|[+-]\d{2}:\d{2})", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)  # Python also takes weeks, such as 2026-W05-4
_HOST_LABEL: Final = re.compile(r"[^\W_]([\w-]*[^\W_])?")
_SHORT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONG_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Go's `\d` and letters are those of ASCII (strfmt's duration.go): without re.ASCII, U+017F would be a second.
_WORDY_DURATION: Final = re.compile(
    r"\d+\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)", re.IGNORECASE | re.ASCII
)


def matches_format(name: str, value: str) -> bool:
    """Report whether `value` has the format `name`; True for a format that the API server does not check."""
    check = _FORMATS.get(name.replace("-", ""))
    return check is None or check(value)


@lru_cache(maxsize=1024)
def is_date_time(value: str) -> bool:
    """Report whether a text is RFC 3339 with a zone: `2026-01-01T00:00:00Z`."""
    day, separator, clock = value.lower().partition("t")
    match = _TIME.fullmatch(clock)
    if not separator or match is None or not _is_date(day):
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_micro_time(value: str) -> bool:
    """Report whether a text is a MicroTime, as in Leases and Events: RFC 3339 with exactly six decimals of a second."""
    match = _TIME.fullmatch(value.lower().partition("t")[2])
    return is_date_time(value) and match is not None and len(match[4] or "") == 7


def _is_date(value: str) -> bool:
    if not _DAY.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_uri(value: str) -> bool:
    return is_url(value)


def _is_email(value: str) -> bool:
    local, at, domain = value.rpartition("@")
    return bool(local and at and domain) and not any(character.isspace() for character in value)


def _is_hostname(value: str) -> bool:
    labels = value.removesuffix(".").split(".")
    return len(value) <= 255 and all(len(label) <= 63 and _HOST_LABEL.fullmatch(label) for label in labels)


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_address(value: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(value).version == version
    except ValueError:
        return False


def _is_cidr(value: str) -> bool:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return "/" in value


def _is_isbn(value: str, length: int) -> bool:
    digits = value.replace("-", "").replace(" ", "")
    if len(digits) != length or not re.fullmatch(r"\d+[\dX]", digits):
        return False
    if length == 10:
        total = sum((10 - i) * (10 if c == "X" else int(c)) for i, c in enumerate(digits))
        return total % 11 == 0
    return digits.isdigit() and sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(digits)) % 10 == 0


def _uuid(version: str) -> Callable[[str], bool]:
    third = f"{version}[0-9a-f]{{3}}" if version else "[0-9a-f]{4}"
    fourth = "[89ab][0-9a-f]{3}" if version in ("4", "5") else "[0-9a-f]{4}"
    pattern = re.compile(f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}", re.IGNORECASE)
    return lambda value: pattern.fullmatch(value) is not None


def _like(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda value: compiled.fullmatch(value) is not None


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _like(r"[0-9a-fA-F]{24}"),
    "byte": _is_base64,
    "cidr": _is_cidr,
    "creditcard": lambda value: 12 <= len(re.sub(r"\D", "", value)) <= 19,
    "date": _is_date,
    "datetime": is_date_time,
    "duration": lambda value: is_duration(value) or _WORDY_DURATION.search(value) is not None,
    "email": _is_email,
    "microtime": _is_micro_time,
    "hexcolor": _like(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": lambda value: _is_address(value, 4),
    "ipv6": lambda value: _is_address(value, 6),
    "isbn": lambda value: _is_isbn(value, 10) or _is_isbn(value, 13),
    "isbn10": lambda value: _is_isbn(value, 10),
    "isbn13": lambda value: _is_isbn(value, 13),
    "k8slongname": lambda value: len(value) <= 253 and _LONG_NAME.fullmatch(value) is not None,
    "k8sshortname": lambda value: len(value) <= 63 and _SHORT_NAME.fullmatch(value) is not None,
    "mac": _like(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{4}(\.[0-9A-Fa-f]{4}){2}"),
    "password": lambda value: True,
    "rgbcolor": _like(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)"),
    "ssn": _like(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
