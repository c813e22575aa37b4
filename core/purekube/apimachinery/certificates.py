"""The expiry of X.509 certificates in PEM form, for warnings. Nothing is verified."""

import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Final

EXPIRES_SOON: Final = timedelta(days=14)
"""The time before the expiry of a certificate from which on it is warned of: by then cert-manager has renewed it."""
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----")
_VERSION_TAG: Final = 0xA0
_TIME_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""The formats of UTCTime and GeneralizedTime in a certificate, by their tags (RFC 5280, section 4.1.2.5)."""


def expiries(pem: bytes) -> tuple[datetime, ...]:
    """Return the time of expiry of each certificate in `pem`, in order. Unreadable certificates are left out."""
    found = (_expiry(match[1]) for match in _PEM.finditer(pem))
    return tuple(at for at in found if at is not None)


def _expiry(text: bytes) -> datetime | None:
    try:
        _, certificate, _ = _element(b64decode(text), 0)
        _, to_be_signed, _ = _element(certificate, 0)
        fields, at = list[bytes](), 0
        while len(fields) < 4:  # serial number, algorithm, issuer, validity; a version before them is optional
            tag, content, at = _element(to_be_signed, at)
            fields += [content] if tag != _VERSION_TAG else []
        _, _, at = _element(fields[3], 0)
        tag, content, _ = _element(fields[3], at)
        return datetime.strptime(content.decode("ascii"), _TIME_FORMATS[tag]).replace(tzinfo=UTC)
    except (ValueError, LookupError):
        return None


def _element(der: bytes, at: int) -> tuple[int, bytes, int]:
    """Return the element of the DER encoding `der` that begins at `at`: its tag, its content, and where it ends.

    Raises LookupError or ValueError if there is none.
    """
    tag, length, start = der[at], der[at + 1], at + 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[at + 2 : start], "big")
    if start + length > len(der):
        raise ValueError("an element is longer than the certificate")
    return tag, der[start : start + length], start + length
