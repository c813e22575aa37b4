"""Access to a web page that is not open to everyone: each visitor needs a token that the API server knows (SEE-3).

The token is a bearer token, or the password of the browser's login dialog. A TokenReview returns the token's user, and
a SubjectAccessReview says whether that user may `get` the path `/page`, as for metrics of controller-runtime.
"""

import base64
import binascii
import hashlib
import re
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from hmac import compare_digest
from typing import Any, Final, Protocol, assert_never

import anyio
import attrs
import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.resources import ACCESS_REVIEW
from purekube_run.process.connection_limit import address_of
from vworkspace_app.page.loops import OtherLoop
from vworkspace_app.page.recent import Recent
from vworkspace_app.page.screens import Unanswered

# Tokens of service accounts take about a kilobyte; those of OIDC providers with many groups take several.
LONGEST: Final = 16 * 1024
BURST: Final = 10
"""The number of unknown tokens that a client address may try in quick succession."""
REFILL_SECONDS: Final = 5.0
"""The seconds after which a client address may try one more unknown token."""
# Bounded, since an attacker may use many addresses; forgetting one only gives it its first tries again.
_ADDRESSES: Final = 1024

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")


class _Claims(msgspec.Struct):
    exp: float | None = None


def may_be_token(text: str, now: float) -> bool:
    """Report whether `text` may be a token of the cluster: it has the form of RFC 6750, and is not an expired JWT.

    `now` is in seconds since the epoch.
    """
    if len(text) > LONGEST or not _TOKEN.match(text):
        return False
    expires = _expiry(text)
    return expires is None or expires > now


def _expiry(text: str) -> float | None:
    """Return the expiry time of a JWT in seconds since the epoch.

    Return None for a JWT that does not expire, and for other tokens.
    """
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
    """The limits on the number of tries with unknown tokens, for each client address.

    An address has a number of tries, and gets further ones as time passes. Only the most recent addresses are
    remembered.
    """

    def __init__(self) -> None:
        self._accounts = Recent[str, _Account](_ADDRESSES)

    def take(self, address: str, now: float) -> bool:
        """Count a try with an unknown token for the client's address. Return False if the address has no tries left.

        `now` is in seconds by the monotonic clock.
        """
        left = self._left(address, now)
        self._accounts[address] = _Account(max(0.0, left - 1) if left >= 1 else left, now)
        return left >= 1

    def give_back(self, address: str, now: float) -> None:
        """Undo `take` for the client's address, because the token was known."""
        self._accounts[address] = _Account(min(float(BURST), self._left(address, now) + 1), now)

    def _left(self, address: str, now: float) -> float:
        account = self._accounts.get(address, _Account(BURST, now))
        return min(float(BURST), account.left + (now - account.at) / REFILL_SECONDS)


TOKEN_REVIEW: Final = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
PATH: Final = "/page"
"""The URL path that a user must be allowed to `get`, by `nonResourceURLs` of a ClusterRole."""

VERDICT_SECONDS: Final = 10.0
"""The seconds for which the result of a token review is cached. A revoked right still works for that long."""
_REMEMBERED: Final = 256
_AT_ONCE: Final = 4
"""The maximum number of tokens that the API server reviews at once."""
_ASK: Final = {"www-authenticate": 'Basic realm="a token of the cluster as the password", charset="UTF-8"'}
_ASK_ADMIN: Final = {"www-authenticate": 'Basic realm="the admin token as the password", charset="UTF-8"'}


class AccessReviews(Protocol):
    """The interface to the part of an API client that the page needs: token and access reviews."""

    async def review(self, manifest: Manifest, *, kind: Kind) -> Manifest:
        """Send a TokenReview or SubjectAccessReview, and return it with its status. Raises OperatorError."""
        ...


@attrs.frozen
class PasswordAccess:
    """The access to a page by a shared secret: a bearer token, or the password in the browser's login dialog."""

    password: str = attrs.field(repr=False)

    async def refusal(self, request: Request) -> Response | None:
        """Return a 401 response for a request without the right secret. Return None for a request with the secret."""
        token = _token(request.headers.get("authorization", ""))
        if self.password and compare_digest(token.encode(), self.password.encode()):
            return None
        return PlainTextResponse("the admin token is required, as the password\n", 401, headers=_ASK_ADMIN)


class TokenReview(Enum):
    """The result of reviewing a token: whether the API server knows it, and whether its user may open the page."""

    ALLOWED = "it may look"
    UNKNOWN = "nobody's token"
    UNJUDGED = "the API server is not asked"
    FORBIDDEN = "it may not look"


@attrs.frozen
class _Remembered:
    verdict: TokenReview
    until: float


class TokenAccess:
    """The access to a page by tokens of the cluster. The API server reviews each token at most once every `seconds`."""

    def __init__(self, seconds: float = VERDICT_SECONDS, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._reviews: AccessReviews | None = None
        self._ask: OtherLoop | None = None
        # Apart, so that unknown tokens do not evict known ones.
        self._known = Recent[bytes, _Remembered](_REMEMBERED)
        self._unknown = Recent[bytes, _Remembered](_REMEMBERED)
        self._allowances = Allowances()
        self._limit: anyio.CapacityLimiter | None = None

    def attach(self, reviews: AccessReviews) -> None:
        """Review tokens by `reviews`, a client of the API server, from now on. Call this on the client's event loop."""
        self._reviews, self._ask = reviews, OtherLoop()

    async def refusal(self, request: Request) -> Response | None:
        """Return the response that refuses a request, or None if the request's token may open the page.

        The response is 401 for an unknown token, 403 for a missing right, 429 after too many tries, and 503 if the API
        server does not answer.
        """
        token = _token(request.headers.get("authorization", ""))
        if not may_be_token(token, time.time()):
            return PlainTextResponse("show a token of the cluster\n", 401, headers=_ASK)
        try:
            verdict = await self._verdict(token, address_of(request.client))
        except (OperatorError, Unanswered):
            return PlainTextResponse("the API server cannot be asked who you are\n", 503)
        match verdict:
            case TokenReview.ALLOWED:
                return None
            case TokenReview.UNKNOWN:
                return PlainTextResponse("the API server does not know this token\n", 401, headers=_ASK)
            case TokenReview.UNJUDGED:
                text = "too many unknown tokens come from your address: try again in a moment\n"
                return PlainTextResponse(text, 429, headers={"retry-after": f"{REFILL_SECONDS:.0f}"})
            case TokenReview.FORBIDDEN:
                return PlainTextResponse(f"you may not get {PATH}: a ClusterRole has to allow it\n", 403)
            case _:
                assert_never(verdict)

    async def _verdict(self, token: str, address: str) -> TokenReview:
        """Return the review's result for a token, from the cache or the API server.

        An address that has tried too many unknown tokens gets UNJUDGED. Raises Unanswered.
        """
        key, now = hashlib.sha256(token.encode()).digest(), self._monotonic()
        for memory in (self._known, self._unknown):
            if (remembered := memory.get(key)) is not None and now < remembered.until:
                return remembered.verdict
        if self._ask is None or self._reviews is None:
            raise Unanswered("the operator starts")
        if not self._allowances.take(address, now):
            return TokenReview.UNJUDGED
        self._limit = self._limit or anyio.CapacityLimiter(_AT_ONCE)
        async with self._limit:
            verdict = await self._ask(partial(judged, self._reviews, token))
        memory = self._unknown if verdict is TokenReview.UNKNOWN else self._known
        memory[key] = _Remembered(verdict, self._monotonic() + self._seconds)
        if verdict is not TokenReview.UNKNOWN:
            self._allowances.give_back(address, self._monotonic())
        return verdict


async def judged(reviews: AccessReviews, token: str) -> TokenReview:
    """Review a token by the API server, and return the result: unknown, allowed, or forbidden to open the page.

    Raises OperatorError.
    """
    known = await reviews.review(_review_manifest(TOKEN_REVIEW, {"token": token}), kind=TOKEN_REVIEW)
    if get_path(known, "status", "authenticated") is not True:
        return TokenReview.UNKNOWN
    user = get_path(known, "status", "user") or {}
    spec = {
        "user": user.get("username"),
        "uid": user.get("uid"),
        "groups": user.get("groups"),
        "extra": user.get("extra"),
        "nonResourceAttributes": {"path": PATH, "verb": "get"},
    }
    spec = {name: value for name, value in spec.items() if value}
    allowed = await reviews.review(_review_manifest(ACCESS_REVIEW, spec), kind=ACCESS_REVIEW)
    return TokenReview.ALLOWED if get_path(allowed, "status", "allowed") is True else TokenReview.FORBIDDEN


def _review_manifest(kind: Kind, spec: dict[str, Any]) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}


def _token(header: str) -> str:
    """Return the token in the value of the header `Authorization`, or an empty string if the header has no token."""
    scheme, _, value = header.partition(" ")
    value = value.strip()
    if len(value) > 2 * LONGEST:
        return ""
    match scheme.lower():
        case "bearer":
            return value
        case "basic":
            try:
                return base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return ""
        case _:
            return ""
