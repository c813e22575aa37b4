"""The current credential, which is updated when its Secret or token file changes, without a restart (PULL-8).

It comes from options, a token file, and the Secret in the operator's namespace. Options have precedence over the
Secret. With a token file the Secret may be missing; if it exists, its other keys are used.
"""

import random as random_source
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, TypeVar

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import Forbidden, NotFound, OperatorError, Unauthorized, Unavailable
from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube.apimachinery.resources import SECRET
from purekube.ports import Clock, KubeApi
from purekube_run.controller.informer import InformerRunner
from purekube_run.process.command_line import CommandError, read_text
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.credentials.secret import (
    CredentialKey,
    Credentials,
    StoredCredential,
    credentials_of,
    secret_ref,
)

T = TypeVar("T")
_log = structlog.get_logger("operator")


@attrs.frozen
class CredentialsSource:
    """The options, token file and Secret from which the agent's credential is read.

    If `agent` is False, no key of the Secret is required, and only the approval secret is read, the key with which
    approvals of Operations are verified (SEE-4). With `allow_http` the token may be sent to another machine over plain
    http:// (PULL-9).
    """

    api: KubeApi
    namespace: str
    url: str = ""
    cluster_id: str = ""
    token_file: Path | None = None
    agent: bool = True
    allow_http: bool = False

    async def read(self) -> Credentials:
        """Return the present credential from the options, the token file and the Secret.

        Raises CommandError if it is missing or incomplete, and Unavailable or Unauthorized if the Secret cannot be
        read.
        """
        credentials = await self.look()
        if not self.agent:
            secret = None if credentials is None else credentials.approval_secret
            return Credentials(cluster_id=self.cluster_id, approval_secret=secret)
        ref = secret_ref(self.namespace)
        if credentials is None:
            raise CommandError(f"{ref} does not exist")
        if absent := [key for key, value in _needed(credentials).items() if not value]:
            raise CommandError(f"{ref} lacks {', '.join(absent)}")
        return credentials

    async def look(self) -> Credentials | None:
        """Return the present credential, even if it is incomplete.

        Return None if there is neither a Secret nor a token file. Raises CommandError if the credential cannot be read
        or its cluster id is not a valid label value. Raises Unavailable and Unauthorized if the API server does not
        return the Secret.
        """
        token = None if self.token_file is None else read_text("--token-file", self.token_file)
        stored = await self._stored()
        if token is None:
            return None if stored is None else self._with_options(stored)
        # The Secret's notes about tokens concern its own token, not the file's.
        since = _since(self.token_file) if self.token_file else None
        return self._with_options(
            attrs.evolve(stored or Credentials(), token=token, since=since, stored=StoredCredential())
        )

    def _with_options(self, stored: Credentials) -> Credentials:
        cluster_id = self.cluster_id or stored.cluster_id
        if cluster_id and not is_label_value(cluster_id):
            key, ref = CredentialKey.CLUSTER_ID.value, secret_ref(self.namespace)
            raise CommandError(f"{ref}: {key} has to be the value of a label: {LABEL_RULE}")
        return attrs.evolve(stored, url=self.url or stored.url, cluster_id=cluster_id)

    async def _stored(self) -> Credentials | None:
        """Return the content of the Secret.

        Return None if it does not exist, or if the operator may not read it and does not need it. Raises CommandError
        if the Secret cannot be read, and Unavailable and Unauthorized from the API server.
        """
        ref = secret_ref(self.namespace)
        try:
            return credentials_of(await self.api.get(ref))
        except NotFound:
            return None
        except (Unavailable, Unauthorized):
            raise
        except OperatorError as error:
            if isinstance(error, Forbidden) and (self.token_file is not None or not self.agent):
                return None  # the Secret is not needed
            raise CommandError(f"{ref} cannot be read: {error.message}") from error


def _needed(credentials: Credentials) -> dict[str, str]:
    """Return the values without which there is no connection to the control plane, by their keys in the Secret."""
    return {
        CredentialKey.URL.value: credentials.url,
        CredentialKey.CLUSTER_ID.value: credentials.cluster_id,
        CredentialKey.TOKEN.value: credentials.token,
    }


def _since(file: Path) -> datetime | None:
    """Return the time at which the file was written, or None if that is unknown."""
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return None


class Live(Generic[T]):
    """A holder of a value that may change while the process runs.

    A reader of the value reads `current` each time, or subscribes to changes.
    """

    def __init__(self, first: T) -> None:
        self._current = first
        self._handlers: list[Callable[[T], None]] = []

    def __repr__(self) -> str:
        return f"Live({self._current!r})"

    @property
    def current(self) -> T:
        """The present value. Do not keep it, since it may change while the process runs."""
        return self._current

    def subscribe(self, handler: Callable[[T], None]) -> None:
        """Call `handler` synchronously with every new value from now on.

        An exception in a handler does not affect other handlers.
        """
        self._handlers.append(handler)

    def set(self, value: T) -> bool:
        """Replace the value. If it differs from the present one, call the subscribed handlers and return True.

        Return False if the values are equal; then no handler is called.
        """
        if value == self._current:
            return False
        self._current = value
        for handler in self._handlers:
            try:
                handler(value)
            except Exception as error:
                # Only the type: the value may be a credential, and the error may quote it.
                _log.error("a listener failed on a new value", kind=type(value).__name__, error=type(error).__name__)
        return True


FILE_SECONDS: Final = 2.0
"""The interval in seconds at which a token file is checked: unlike a Secret, it cannot be watched."""
RETRY_SECONDS: Final = 5.0


@attrs.define
class CredentialWatch:
    """A watcher of the Secret and the token file of the agent's credential.

    After a change, the new credential becomes the value of `live`, from which its users read it. If a credential cannot
    be read or is incomplete, the last valid credential stays in use, and this is logged once. `random` returns numbers
    in [0, 1), which vary the waits before repeated requests to the API server.
    """

    source: CredentialsSource
    live: Live[Credentials]
    clock: Clock
    random: Callable[[], float] = random_source.random
    _changed: anyio.Event = attrs.field(factory=anyio.Event, init=False)
    _reported: str = attrs.field(default="", init=False)

    async def run(self) -> None:
        """Watch the Secret and the token file until cancelled."""
        secret = InformerRunner(
            self.source.api,
            SECRET,
            clock=self.clock,
            random=self.random,
            namespace=self.source.namespace,
            field_selector=f"metadata.name={CREDENTIALS_SECRET}",
        )
        secret.subscribe(lambda _: self._changed.set())
        async with anyio.create_task_group() as group:
            group.start_soon(secret.run, name="informer of the credentials")
            if self.source.token_file is not None:
                group.start_soon(self._watch_file, self.source.token_file)
            while True:
                await self._changed.wait()
                self._changed = anyio.Event()
                if not await self._read():
                    group.start_soon(self._read_later)

    async def refresh(self) -> bool:
        """Read the credential now, for example after a rejection. Return True if its token has changed."""
        before = self.live.current.token
        await self._read()
        return self.live.current.token != before

    async def _read(self) -> bool:
        """Read the credential and update `live`.

        Return False if the API server did not answer, so that the caller must try again soon, even without a change.
        """
        try:
            fresh = await self.source.read()
        except (CommandError, OperatorError) as error:
            self._report(error.message)
            return isinstance(error, CommandError)
        self._report("")
        known = self.live.current
        if fresh.cluster_id != known.cluster_id:
            _log.error(
                "the cluster id changed: restart the operator to become another cluster",
                cluster_id=known.cluster_id,
                found=fresh.cluster_id,
            )
            return True
        if self.live.set(fresh) and (changed := _differences(known, fresh)):
            _log.info("the credentials changed", changed=changed)
        return True

    def _report(self, problem: str) -> None:
        if problem and problem != self._reported:
            _log.warning("the credentials cannot be read; the last ones stay in use", error=problem)
        self._reported = problem

    async def _watch_file(self, file: Path) -> None:
        seen = _stamp(file)
        while True:
            await self.clock.sleep(FILE_SECONDS)
            if (stamp := _stamp(file)) != seen:
                seen = stamp
                self._changed.set()

    async def _read_later(self) -> None:
        await self.clock.sleep(RETRY_SECONDS)
        self._changed.set()


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Return a value that changes when the file is written, or replaced as kubelet does with mounted Secrets.

    Return None if the file cannot be read.
    """
    try:
        stamp = file.stat()
    except OSError:
        return None
    return (stamp.st_mtime_ns, stamp.st_size, stamp.st_ino)


def _differences(before: Credentials, after: Credentials) -> list[str]:
    """Return the names of the fields in which the credentials differ, without their values, for the log.

    The field `stored`, the operator's own record, is ignored.
    """
    names = (field.name for field in attrs.fields(Credentials) if field.name != "stored")
    return [name for name in names if getattr(before, name) != getattr(after, name)]
