"""What stands in the Authorization header: a fixed value, a file that the kubelet rotates, or an exec plugin's token.

Client certificates are part of the TLS context (`authorities`). No error text holds a token.
"""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import attrs
import httpx2
from lightkube.config.client_adapter import ExecAuth
from lightkube.config.models import User, UserExec
from lightkube.core.exceptions import ConfigError

MAX_AGE = 60.0
"""Seconds after which token and authority files are looked at again, as client-go does; a 401 does it at once."""


_ANSWER = "the credential plugin's answer"


class AuthorizationSource(Protocol):
    """Where a request's Authorization comes from. Raises ConfigError with what is wrong, and no token."""

    async def current(self) -> str:
        """The header's value, empty for none."""
        ...

    async def renewed(self, refused: str) -> str:
        """Another value after the server answered 401 to `refused`; empty when there is none."""
        ...


def authorization_of(user: User, max_age: float = MAX_AGE) -> AuthorizationSource:
    """What a kubeconfig's user has to show, in the order in which its fields count."""
    if user.token_file:
        return TokenFile(Path(user.token_file), max_age=max_age)
    if user.token:
        return FixedAuthorization(f"Bearer {user.token}")
    if user.exec:
        return ExecPlugin(user.exec)
    if user.username and user.password:
        pair = f"{user.username}:{user.password}".encode()
        return FixedAuthorization(f"Basic {base64.b64encode(pair).decode()}")
    return FixedAuthorization("")


@attrs.frozen
class FixedAuthorization:
    """A value that does not change."""

    value: str = attrs.field(repr=False)

    async def current(self) -> str:
        """Always the same."""
        return self.value

    async def renewed(self, refused: str) -> str:
        """There is no other."""
        return ""


class TokenFile:
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

    async def current(self) -> str:
        """What the file held when it was last looked at, `max_age` seconds ago at most."""
        if self._monotonic() - self._read_at > self._max_age:
            self._read()
        return self._bearer

    async def renewed(self, refused: str) -> str:
        """What the file holds now."""
        self._read()
        return self._bearer

    def _read(self) -> None:
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise ConfigError(f"token file {self._path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ConfigError(f"token file {self._path} does not hold a token") from None
        self._bearer = f"Bearer {sendable(token, f'token file {self._path}')}"
        self._read_at = self._monotonic()


class ExecPlugin:
    """A token that a command prints; lightkube runs it, at first and after a 401."""

    def __init__(self, command: UserExec) -> None:
        self._auth = ExecAuth(command)

    async def current(self) -> str:
        """The token of the last run."""
        return await self._flow(refused=False)

    async def renewed(self, refused: str) -> str:
        """The token of another run."""
        return await self._flow(refused=True)

    async def _flow(self, *, refused: bool) -> str:
        """lightkube's conversation: it yields a request with a header, and another one after a 401."""
        flow = self._auth.async_auth_flow(httpx2.Request("GET", "https://plugin"))
        try:
            request = await anext(flow)
            if refused:
                request = await flow.asend(httpx2.Response(401))
        except OSError as error:
            raise ConfigError(f"credential plugin {error.filename}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError):  # lightkube takes the plugin's output apart without checks
            raise ConfigError(f"{_ANSWER} holds no token") from None
        finally:
            await flow.aclose()
        bearer = str(request.headers["Authorization"])
        sendable(bearer.removeprefix("Bearer "), _ANSWER)
        return bearer


def sendable(token: str, origin: str) -> str:
    """`token` when it can stand in a header; else a ConfigError that names `origin`, not the token.

    Without the check the HTTP layer refuses the header and quotes it.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{origin} does not hold a token")
    return token
