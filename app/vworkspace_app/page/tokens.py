"""Which tokens the API server is asked about, and how many of one address (SEE-3, RUN-11).

Pure. Anybody who reaches the port may show any text as a token, and each question costs the API server work.
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
"""Unknown tokens that one address may show at once."""
REFILL_SECONDS: Final = 5.0
"""After which it may show one more."""
_ADDRESSES: Final = 1024

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")


class _Claims(msgspec.Struct):
    exp: float | None = None


def may_be_token(text: str, now: float) -> bool:
    """Return whether an API server can know `text`: it is written as RFC 6750 has it and, as a JWT, has not expired.

    `now` is the time in seconds since 1970.
    """
    if len(text) > LONGEST or not _TOKEN.match(text):
        return False
    expires = _expiry(text)
    return expires is None or expires > now


def _expiry(text: str) -> float | None:
    """When a JWT says that it expires; None where it does not, and for other tokens."""
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
    """How many unknown tokens each address may still show; of the addresses that were seen last only."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def take(self, address: str, now: float) -> bool:
        """Use one up, at `now` by the monotonic clock; return False where none is left."""
        left = self._left(address, now)
        self._set(address, max(0.0, left - 1) if left >= 1 else left, now)
        return left >= 1

    def give_back(self, address: str, now: float) -> None:
        """The token was known: it costs nothing."""
        self._set(address, min(float(BURST), self._left(address, now) + 1), now)

    def _left(self, address: str, now: float) -> float:
        account = self._accounts.get(address, _Account(BURST, now))
        return min(float(BURST), account.left + (now - account.at) / REFILL_SECONDS)

    def _set(self, address: str, left: float, now: float) -> None:
        self._accounts[address] = _Account(left, now)
        self._accounts.move_to_end(address)
        while len(self._accounts) > _ADDRESSES:
            self._accounts.popitem(last=False)
