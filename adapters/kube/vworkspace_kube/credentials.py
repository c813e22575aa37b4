"""Credentials and trust that change while the process runs, and the check that keeps tokens out of error texts."""

import ssl
import time
from collections.abc import Callable, Generator
from pathlib import Path

import httpx2
from lightkube.core.exceptions import ConfigError

__all__ = ["MAX_AGE", "AuthorityFile", "TokenFileAuth", "sendable"]

MAX_AGE = 60.0
"""Seconds after which token and authority files are looked at again, as client-go does; a 401 does it at once."""


class TokenFileAuth(httpx2.Auth):
    """Bearer token from a file that the kubelet rotates.

    lightkube reads the file again only after a 401; a revoked token that a proxy still lets through, or a
    webhook-authenticated cluster that answers 403, would keep the old one for ever.
    """

    def __init__(
        self, path: Path, *, max_age: float = MAX_AGE, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._max_age = max_age
        self._monotonic = monotonic
        self._bearer = ""
        self._read_at = float("-inf")

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send with the current token; once more with a fresh one when the server says 401."""
        if self._monotonic() - self._read_at > self._max_age:
            self._read()
        sent = self._bearer
        request.headers["Authorization"] = sent
        response = yield request
        if response.status_code != 401:
            return
        self._read()
        if self._bearer != sent:
            request.headers["Authorization"] = self._bearer
            yield request

    def _read(self) -> None:
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise ConfigError(f"token file {self._path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ConfigError(f"token file {self._path} does not hold a token") from None
        self._bearer = f"Bearer {sendable(token, f'token file {self._path}')}"
        self._read_at = self._monotonic()


class AuthorityFile:
    """The file of certificate authorities behind a TLS context: when it changes, what it holds is trusted as well.

    What was trusted before stays trusted until the process ends, which bridges a rotation. lightkube reads
    the file once.
    """

    def __init__(
        self,
        path: Path,
        context: ssl.SSLContext,
        *,
        max_age: float = MAX_AGE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._context = context
        self._max_age = max_age
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._stamp = self._modified()

    def refresh(self) -> None:
        """Trust what the file holds now. A file that is being written is left for the next look."""
        if self._monotonic() - self._looked_at < self._max_age:
            return
        self._looked_at = self._monotonic()
        stamp = self._modified()
        if stamp in (None, self._stamp):
            return
        try:
            self._context.load_verify_locations(self._path)
        except (OSError, ssl.SSLError):
            return  # half written: the stamp stays as it was, so the next look tries again
        self._stamp = stamp

    def _modified(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino


def sendable(token: str, origin: str) -> str:
    """`token` when it can stand in a header; else a ConfigError that names `origin`, not the token.

    Without the check the HTTP layer refuses the header and quotes it.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{origin} does not hold a token")
    return token
