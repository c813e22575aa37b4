"""The current credential, which is updated when its Secret or token file changes, without a restart (PULL-8)."""

import random as random_source
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.resources import SECRET
from purekube.ports import Clock
from purekube_run.controller.informer import InformerRunner
from purekube_run.process.command_line import CommandError
from vworkspace_app.credentials.source import CredentialsSource
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.credentials.secret import Credentials

T = TypeVar("T")
_log = structlog.get_logger("operator")


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
