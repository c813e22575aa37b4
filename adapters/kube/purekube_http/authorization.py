"""Sources of the Authorization header: a fixed value, a file that the kubelet rotates, or an exec plugin.

Client certificates are part of the TLS context (`authorities`). No error message contains a token.
"""

import base64
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import anyio
import attrs
import msgspec
from anyio.abc import ByteReceiveStream
from lightkube.config.models import User, UserExec
from lightkube.core import exceptions

MAX_AGE = 60.0
"""The seconds after which token and CA files are read again; after a 401 it is done at once.

client-go waits as long (`transport/token_source.go`, `period`).
"""

PLUGIN_LIMIT = 60.0
"""The seconds after which a credential plugin is stopped."""

_ANSWER = "the credential plugin's answer"


class AuthorizationSource(Protocol):
    """A source of the Authorization header's value. Its methods raise ConfigError, whose message contains no token."""

    async def current(self) -> str:
        """Return the header's value. An empty string means that no header is sent."""
        ...

    async def renewed(self, refused: str) -> str:
        """Return a new value of the header after a 401 for the value `refused`, or an empty string if there is none."""
        ...


def authorization_of(user: User, max_age: float = MAX_AGE) -> AuthorizationSource:
    """Return the source of the Authorization header for `user` of a kubeconfig.

    If the user has several credentials, the first in this order is used: token file, token, exec plugin, user name with
    password. A token file is read again after `max_age` seconds.
    """
    # As in client-go, where the file wins over the token that is written next to it (transport/round_trippers.go,
    # NewBearerAuthWithRefreshRoundTripper).
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
    """A source of the same header value for every request: a static token, a user name with password, or no header."""

    value: str = attrs.field(repr=False)

    async def current(self) -> str:
        """Return the header's value. An empty string means that no header is sent."""
        return self.value

    async def renewed(self, refused: str) -> str:
        """Return an empty string: this source has no value other than `refused`, which the server answered with 401."""
        return ""


class TokenFile:
    """A source that reads a bearer token from a file, which the kubelet rotates.

    lightkube's own reader reads the file again only after a 401, so it keeps an old token forever if a proxy still
    accepts that token, or if a cluster with webhook authentication answers 403.
    """

    def __init__(self, path: Path, *, max_age: float = MAX_AGE) -> None:
        self._path = path
        self._max_age = max_age
        self._bearer = ""
        self._read_at = float("-inf")

    async def current(self) -> str:
        """Return the header's value. The file is read again if the last read is more than `max_age` seconds ago.

        If the file is then unusable, the former token is used, as in client-go: it is valid for longer than that, and
        the file may be just being written.
        """
        if time.monotonic() - self._read_at > self._max_age:
            try:
                self._read()
            except exceptions.ConfigError:
                if not self._bearer:
                    raise
        return self._bearer

    async def renewed(self, refused: str) -> str:
        """Read the token file again, and return the header's value with the token in it.

        `refused` is the value that the server refused. It is not used, because the file is read in any case.
        """
        self._read()
        return self._bearer

    def _read(self) -> None:
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise exceptions.ConfigError(f"token file {self._path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise exceptions.ConfigError(f"token file {self._path} does not hold a token") from None
        self._bearer = f"Bearer {sendable(token, f'token file {self._path}')}"
        self._read_at = time.monotonic()


class ExecPlugin:
    """A source that runs an exec credential plugin, which prints a token.

    The plugin runs at the first request and after a 401, but only once for requests that need a token together. It is
    stopped after `limit` seconds. lightkube would wait forever for a plugin that waits, such as for a login, and so
    would every later request.
    """

    def __init__(self, command: UserExec, *, limit: float = PLUGIN_LIMIT) -> None:
        self._command = command
        self._limit = limit
        self._bearer = ""
        self._running = anyio.Lock()

    async def current(self) -> str:
        """Return the header's value with the token that the plugin printed last.

        Run the plugin if it has not run yet.
        """
        async with self._running:
            return self._bearer or await self._run()

    async def renewed(self, refused: str) -> str:
        """Return the header's value with a new token. Run the plugin, unless it has replaced the token in `refused`
        already.
        """
        async with self._running:
            present = self._bearer or await self._run()
            return await self._run() if present == refused else present

    async def _run(self) -> str:
        """Run the plugin, and return the Authorization header with the token that it prints."""
        command = [self._command.command, *(self._command.args or ())]
        env = {**os.environ, **{variable.name: variable.value for variable in self._command.env or ()}}
        try:
            returncode, stdout, stderr = await self._ended(command, env)
        except OSError as error:
            hint = f"; {self._command.installHint}" if self._command.installHint else ""
            raise exceptions.ConfigError(f"credential plugin {error.filename}: {error.strerror}{hint}") from error
        said = stderr.decode(errors="replace").strip()
        if returncode is None:
            # A plugin that waits for a login says there what to do.
            waited = f"credential plugin {command[0]} gave no answer in {self._limit:g} s"
            raise exceptions.ConfigError(f"{waited}: {said}" if said else waited)
        if returncode:
            raise exceptions.ConfigError(f"credential plugin {command[0]} returned {returncode}: {said}")
        try:
            token = str(msgspec.json.decode(stdout)["status"]["token"])
        except (ValueError, KeyError, TypeError):
            raise exceptions.ConfigError(f"{_ANSWER} holds no token") from None
        self._bearer = f"Bearer {sendable(token, _ANSWER)}"
        return self._bearer

    async def _ended(self, command: list[str], env: Mapping[str, str]) -> tuple[int | None, bytes, bytes]:
        """Run the plugin, and return its exit status, standard output and standard error.

        The status is None if the plugin was stopped because the time was over.
        """
        stdout, stderr = bytearray(), bytearray()
        async with await anyio.open_process(command, env=env, stdin=subprocess.DEVNULL) as process:
            with anyio.move_on_after(self._limit) as waited:
                async with anyio.create_task_group() as group:
                    group.start_soon(_read, process.stdout, stdout)
                    group.start_soon(_read, process.stderr, stderr)
                await process.wait()
            if waited.cancelled_caught:
                process.kill()
        return None if waited.cancelled_caught else process.returncode, bytes(stdout), bytes(stderr)


async def _read(stream: ByteReceiveStream | None, into: bytearray) -> None:
    assert stream is not None  # both are pipes
    async for chunk in stream:
        into += chunk


def sendable(token: str, origin: str) -> str:
    """Return `token`. Raise ConfigError if the token cannot be sent in a header.

    The message of the error names the token's source, `origin`, but not the token. The HTTP layer's own error would
    quote the token.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise exceptions.ConfigError(f"{origin} does not hold a token")
    return token
