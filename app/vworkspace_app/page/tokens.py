"""Limits on which tokens the API server reviews, and how many per address (SEE-3, RUN-11).

Pure. Any client that reaches the port may send any text as a token, and each review costs the API server work.
"""

import base64
import binascii
import re
from collections import OrderedDict
from typing import Final

import attrs
import msgspec

LONGEST: Final = 16 * 1024
BURST: Final = 10
"""The number of unknown tokens that one address may show at once."""
REFILL_SECONDS: Final = 5.0
"""The seconds after which an address may show one more."""
_ADDRESSES: Final = 1024

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")


class _Claims(msgspec.Struct):
    exp: float | None = None


def may_be_token(text: str, now: float) -> bool:
    """Return whether `text` could be a token of the cluster: it has the form of RFC 6750 and is no expired JWT.

    `now` is the time in seconds since 1970.
    """
    if len(text) > LONGEST or not _TOKEN.match(text):
        return False
    expires = _expiry(text)
    return expires is None or expires > now


def _expiry(text: str) -> float | None:
    """Return the expiry time of a JWT; None if it has none, and for other tokens."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims).exp
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        return None


@attrs.frozen
class _Account:
    left: float
    at: float


class Allowances:
    """The number of unknown tokens that each address may still show; kept only for the addresses seen last."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def take(self, address: str, now: float) -> bool:
        """Use one allowance up, at `now` by the monotonic clock; return False if none is left."""
        left = self._left(address, now)
        self._set(address, max(0.0, left - 1) if left >= 1 else left, now)
        return left >= 1

    def give_back(self, address: str, now: float) -> None:
        """Give one allowance back, since the token was known."""
        self._set(address, min(float(BURST), self._left(address, now) + 1), now)

    def _left(self, address: str, now: float) -> float:
        account = self._accounts.get(address, _Account(BURST, now))
        return min(float(BURST), account.left + (now - account.at) / REFILL_SECONDS)

    def _set(self, address: str, left: float, now: float) -> None:
        self._accounts[address] = _Account(left, now)
        self._accounts.move_to_end(address)
        while len(self._accounts) > _ADDRESSES:
            self._accounts.popitem(last=False)
