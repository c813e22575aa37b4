"""The validity of X.509 certificates in PEM form, for warnings. Nothing is verified."""

import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

_EXPIRES_SOON: Final = timedelta(days=14)
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----")
_VERSION_TAG: Final = 0xA0
_TIME_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""The formats of UTCTime and GeneralizedTime in a certificate, by their tags (RFC 5280, section 4.1.2.5)."""


@attrs.frozen(order=True)
class Validity:
    """The time from which and until which a certificate is valid. The one that expires last is the greatest."""

    expires: datetime
    begins: datetime

    @property
    def overdue(self) -> datetime:
        """The time from which on users are warned of the expiry.

        It is 14 days before the expiry, and for a certificate with a short life a quarter of that life: cert-manager
        renews a certificate when a third of its life is left.
        """
        return self.expires - min(_EXPIRES_SOON, (self.expires - self.begins) / 4)


def validities(pem: bytes) -> tuple[Validity, ...]:
    """Return the validity of each certificate in `pem`, in order. Unreadable certificates are left out."""
    found = (_validity(match[1]) for match in _PEM.finditer(pem))
    return tuple(validity for validity in found if validity is not None)


def _validity(text: bytes) -> Validity | None:
    try:
        _, certificate, _ = _element(b64decode(text), 0)
        _, to_be_signed, _ = _element(certificate, 0)
        fields, at = list[bytes](), 0
        while len(fields) < 4:  # serial number, algorithm, issuer, validity; a version before them is optional
            tag, content, at = _element(to_be_signed, at)
            fields += [content] if tag != _VERSION_TAG else []
        begins, at = _time(fields[3], 0)
        expires, _ = _time(fields[3], at)
        return Validity(expires, begins)
    except (ValueError, LookupError):
        return None


def _time(der: bytes, at: int) -> tuple[datetime, int]:
    """Return the time that the DER encoding `der` has at `at`, and where it ends. Raises like `_element`."""
    tag, content, end = _element(der, at)
    return datetime.strptime(content.decode("ascii"), _TIME_FORMATS[tag]).replace(tzinfo=UTC), end


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
