"""String formats of OpenAPI as the API server checks them.

Names are compared without dashes (`date-time` is `datetime`). A format that the server does not know is no restriction.
What a format accepts is often not what its name says: it is what kube-openapi of Kubernetes 1.36 accepts
(`pkg/validation/strfmt`, and `govalidator` in its `internal/third_party`), with which the tests' texts were compared.
"""

import base64
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from typing import Final

from purekube.apimachinery.durations import is_duration
from purekube.cel.library.network import is_url

_TIME: Final = re.compile(r"(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|[+-]\d{2}:\d{2})", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)  # Python also takes weeks, such as 2026-W05-4
_SHORT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONG_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LARGEST_FACTOR: Final = 2**63 - 1
_UNITS: Final = frozenset(("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"))
_UNIT_PREFIXES: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
# Go's `\d` and letters are those of ASCII (strfmt's duration.go): without re.ASCII, U+0660 would be a digit.
_WORDY_DURATION: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_ATOM: Final = r"[^\x00-\x20\x7f()<>\[\]:;@\\,.\"]+"
_DOTTED: Final = rf"{_ATOM}(?:\.{_ATOM})*"
_QUOTED: Final = r"\"(?:[^\x00-\x08\x0a-\x1f\x7f\"\\]|\\[\x20-\x7e\t])*\""
_NAME_PART: Final = re.compile(rf"(?:{_DOTTED}|{_QUOTED})[ \t]*")
_MAILBOX: Final = re.compile(rf"(?:{_DOTTED}|{_QUOTED})@[ \t]*(?:{_DOTTED}|\[([0-9A-Fa-f:.]+)\])")
_COMMENT: Final = re.compile(r"[ \t]*(?:\([^()\\]*\))?")
_MAC: Final = re.compile(
    "|".join(
        rf"[0-9A-Fa-f]{{{digits}}}(?:{sign}[0-9A-Fa-f]{{{digits}}}){{{length * 2 // digits - 1}}}"
        for sign, digits in ((":", 2), ("-", 2), (r"\.", 4), ("", 2))  # Go 1.26 takes addresses without a sign, too
        for length in (6, 8, 20)
    )
)
_CARD: Final = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:2131|1800|35\d{3})\d{11}",
    re.ASCII,
)
_COLOUR: Final = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", re.ASCII)


def matches_format(name: str, value: str) -> bool:
    """Report whether `value` has the format `name`; True for a format that the API server does not check."""
    check = _FORMATS.get(name.replace("-", ""))
    return check is None or check(value)


@lru_cache(maxsize=1024)
def is_date_time(value: str) -> bool:
    """Report whether a string is RFC 3339 with a zone: `2026-01-01T00:00:00Z`."""
    # Go splits at each `t` and does not look at what follows a second one.
    day, *clock = value.lower().split("t")
    match = _TIME.fullmatch(clock[0]) if clock else None
    if match is None or not _is_date(day):
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_micro_time(value: str) -> bool:
    """Report whether a string is a MicroTime, as in Leases and Events: RFC 3339 with exactly six decimals."""
    match = _TIME.fullmatch(value.lower().partition("t")[2])
    return is_date_time(value) and match is not None and len(match[4] or "") == 7


def _is_date(value: str) -> bool:
    if not _DAY.fullmatch(value):
        return False
    try:
        # Go has a year 0, which is a leap year, as 400 is.
        date.fromisoformat(value.replace("0000-", "0400-", 1))
    except ValueError:
        return False
    return True


def _is_email(value: str) -> bool:
    # net/mail's ParseAddress takes a display name and a comment, too; without re.ASCII all other scripts are atoms. One
    # pattern for all of it would try each way to part a name: its time would double with each character.
    text, at = value.strip(" \t"), 0
    while (part := _NAME_PART.match(text, at)) is not None:
        at = part.end()
    is_named = text.startswith("<", at)
    mailbox = _MAILBOX.match(text, at + 1 if is_named else 0)
    if mailbox is None or (is_named and not text.startswith(">", mailbox.end())):
        return False
    is_host = mailbox[1] is None or _strict_address(mailbox[1]) is not None
    return is_host and _COMMENT.fullmatch(text, mailbox.end() + is_named) is not None


def _is_hostname(value: str) -> bool:
    """Report whether a string is a hostname as kube-openapi's pattern has it.

    A name without a dot may have a dash as its second character only, so `my-host` is not a hostname. The last part of
    a name with dots has letters only, at least two: neither `a.b1` nor a name that ends with a dot is one.
    """
    *labels, last = value.split(".")
    if len(_bytes(value)) > 255 or any(len(_bytes(part)) > 63 for part in (*labels, last)):
        return False
    if not labels:
        head, rest = last[:1], last[1:].removeprefix("-")
        return head != "" and len(rest) <= 62 and all(map(_in_hostname, head + rest))
    top = len(last) >= 2 and all(unicodedata.category(character)[0] == "L" for character in last)
    return top and all(map(_is_host_label, labels))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_host_label(label: str) -> bool:
    ends = label[:1] + label[-1:]
    return label != "" and all(map(_in_hostname, ends)) and all(map(_in_hostname, label.replace("-", "")))


def _in_hostname(character: str) -> bool:
    return character in "0123456789" or unicodedata.category(character)[0] in "LS"


def _is_base64(value: str) -> bool:
    # kube-openapi refuses an empty text here, but built-in kinds, which a server decodes without formats, may have one.
    try:
        return len(value) % 4 == 0 and base64.b64decode(value, validate=True) is not None
    except ValueError:
        return False


def _address(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in a string, which may have leading zeros in decimal parts and no zone; None if it is not one.

    The API server parses such addresses as Go did before 1.17 (k8s.io/utils: net/parse.go, ParseIPSloppy).
    """
    head, colon, tail = value.rpartition(":")
    if "." in tail:
        tail = ".".join(part.lstrip("0") or part[:1] for part in tail.split("."))
    return None if "%" in value else _strict_address(head + colon + tail)


def _strict_address(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def _is_cidr(value: str) -> bool:
    address, _, prefix = value.partition("/")
    found = _address(address)
    return found is not None and re.fullmatch(r"[0-9]+", prefix) is not None and int(prefix) <= found.max_prefixlen


def _is_card(value: str) -> bool:
    digits = re.sub(r"[^0-9]", "", value)
    doubled = (int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits)))
    return _CARD.fullmatch(digits) is not None and sum(number // 10 + number % 10 for number in doubled) % 10 == 0


def _is_rgb_colour(value: str) -> bool:
    match = _COLOUR.fullmatch(value)
    return match is not None and all(int(part) <= 255 and str(int(part)) == part for part in match.groups())


def _is_wordy_duration(value: str) -> bool:
    """Report whether a string has a number with a unit, such as `3 days`, anywhere in it.

    The long units may have any ending (`secs`, `minutes`), the short ones none. A number that does not fit into 64 bits
    makes the whole text invalid.
    """
    parts = [(int(number), unit.lower()) for number, unit in _WORDY_DURATION.findall(value)]
    known = any(unit in _UNITS or unit.startswith(_UNIT_PREFIXES) for _, unit in parts)
    return known and all(number <= _LARGEST_FACTOR for number, _ in parts)


def _is_isbn(value: str, length: int) -> bool:
    digits = re.sub(r"[-\s]", "", value)
    if len(digits) != length or not re.fullmatch(r"[0-9]+[0-9X]", digits):
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
    "creditcard": _is_card,
    "date": _is_date,
    "datetime": is_date_time,
    "duration": lambda value: is_duration(value) or _is_wordy_duration(value),
    "email": _is_email,
    "microtime": _is_micro_time,
    "hexcolor": _like(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": lambda value: "." in value and _address(value) is not None,  # also IPv6 that ends in the form of IPv4
    "ipv6": lambda value: ":" in value and "%" not in value and _strict_address(value) is not None,
    "isbn": lambda value: _is_isbn(value, 10) or _is_isbn(value, 13),
    "isbn10": lambda value: _is_isbn(value, 10),
    "isbn13": lambda value: _is_isbn(value, 13),
    "k8slongname": lambda value: len(value) <= 253 and _LONG_NAME.fullmatch(value) is not None,
    "k8sshortname": lambda value: len(value) <= 63 and _SHORT_NAME.fullmatch(value) is not None,
    "mac": lambda value: _MAC.fullmatch(value) is not None,
    "password": lambda value: True,
    "rgbcolor": _is_rgb_colour,
    "ssn": _like(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "uri": is_url,
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
