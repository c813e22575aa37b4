"""Credentials that change while the process runs, and the check that keeps tokens out of error texts."""

import time
from collections.abc import Callable, Generator
from pathlib import Path

import httpx2
from lightkube.core.exceptions import ConfigError

__all__ = ["TOKEN_MAX_AGE", "TokenFileAuth", "sendable"]

TOKEN_MAX_AGE = 60.0
"""Seconds after which the token file is read again, as client-go does; a 401 reads it at once."""


class TokenFileAuth(httpx2.Auth):
    """Bearer token from a file that the kubelet rotates.

    lightkube reads the file again only after a 401; a revoked token that a proxy still lets through, or a
    webhook-authenticated cluster that answers 403, would keep the old one for ever.
    """

    def __init__(self, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._bearer = ""
        self._read_at = float("-inf")

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send with the current token; once more with a fresh one when the server says 401."""
        if self._monotonic() - self._read_at > TOKEN_MAX_AGE:
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


def sendable(token: str, origin: str) -> str:
    """`token` when it can stand in a header; else a ConfigError that names `origin`, not the token.

    Without the check the HTTP layer refuses the header and quotes it.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{origin} does not hold a token")
    return token
