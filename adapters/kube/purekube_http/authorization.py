"""The value of the Authorization header: fixed, from a file that the kubelet rotates, or from an exec plugin.

Client certificates are part of the TLS context (`authorities`). No error message contains a token.
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
"""The seconds after which token and authority files are read again, as in client-go; a 401 does it at once."""


_ANSWER = "the credential plugin's answer"


class AuthorizationSource(Protocol):
    """A source of the Authorization header. Raises ConfigError, whose message does not contain the token."""

    async def current(self) -> str:
        """Return the header's value, empty for none."""
        ...

    async def renewed(self, refused: str) -> str:
        """Return a new value after the server answered `refused` by 401; empty if there is none."""
        ...


def authorization_of(user: User, max_age: float = MAX_AGE) -> AuthorizationSource:
    """Return the source for a kubeconfig's user.

    If the user has several credentials, the first of these is used: token file, token, exec plugin, user name and
    password.
    """
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
    """A source of a value that does not change."""

    value: str = attrs.field(repr=False)

    async def current(self) -> str:
        """Return the value."""
        return self.value

    async def renewed(self, refused: str) -> str:
        """Return an empty text, since there is no other value."""
        return ""


class TokenFile:
    """A source that reads a bearer token from a file, which the kubelet rotates.

    lightkube reads the file again only after a 401. It would keep an old token for ever if a proxy still accepts it, or
    if a cluster with webhook authentication answers 403.
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
        """Return the token. The file is read again if the last read is more than `max_age` seconds ago."""
        if self._monotonic() - self._read_at > self._max_age:
            self._read()
        return self._bearer

    async def renewed(self, refused: str) -> str:
        """Read the file again and return its token."""
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
    """A source that runs a command which prints a token. It runs at the first request and after a 401."""

    def __init__(self, command: UserExec) -> None:
        self._auth = ExecAuth(command)

    async def current(self) -> str:
        """Return the token that the command printed last."""
        return await self._flow(refused=False)

    async def renewed(self, refused: str) -> str:
        """Run the command again and return its token."""
        return await self._flow(refused=True)

    async def _flow(self, *, refused: bool) -> str:
        """Run lightkube's authentication flow: it yields a request with the header, and after a 401 another one."""
        flow = self._auth.async_auth_flow(httpx2.Request("GET", "https://plugin"))
        try:
            request = await anext(flow)
            if refused:
                request = await flow.asend(httpx2.Response(401))
        except OSError as error:
            raise ConfigError(f"credential plugin {error.filename}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError):  # lightkube parses the plugin's output without checks
            raise ConfigError(f"{_ANSWER} holds no token") from None
        finally:
            await flow.aclose()
        bearer = str(request.headers["Authorization"])
        sendable(bearer.removeprefix("Bearer "), _ANSWER)
        return bearer


def sendable(token: str, origin: str) -> str:
    """Return `token` if a header can hold it; else raise a ConfigError that names `origin`, not the token.

    Without the check the HTTP layer refuses the header with an error that quotes it.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{origin} does not hold a token")
    return token
