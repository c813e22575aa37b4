"""A TCP proxy between one replica and the API server: it can fall silent, and it knows when a write has been sent.

It runs in a thread of its own, so that a test can wait for processes meanwhile.
"""

import asyncio
import re
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import attrs

from kubelab.http.certificates import Certificates
from tests.support.patience import PATIENCE

_WRITE = re.compile(
    rb"^(POST|PUT|PATCH|DELETE) \S*/(applicationinstances|helmreleases|ocirepositories)/\S* HTTP/1\.1\r\n"
)


@attrs.define(eq=False)
class Middle:
    """Passes bytes on to `port`. `url` is what the replica is told to connect to.

    To a server that speaks TLS it speaks it as well (`trust`), and to the replica with a certificate of its own.
    """

    port: int
    trust: ssl.SSLContext | None = None
    shown: Certificates | None = None
    writes: int = 0
    """Requests passed on that write what a reconcile writes; Leases, Events and Secrets do not count."""
    caught: bool = False
    """Whether a write has come that waits for `let_go`."""
    _at: int = 0
    _then: Callable[[], None] = lambda: None
    _silent: bool = False
    _holds: bool = False
    _awaited: bytes = b""
    _url: str = ""
    _open: set[asyncio.StreamWriter] = attrs.field(factory=set)
    _loop: asyncio.AbstractEventLoop = attrs.field(init=False)
    _ended: asyncio.Event = attrs.field(init=False)
    _gone: asyncio.Event = attrs.field(init=False)
    _up: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread = attrs.field(init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._up.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE)

    @property
    def url(self) -> str:
        return self._url

    def fall_silent(self) -> None:
        """From now on nothing passes in either direction, and nobody is told: a partition."""
        self._silent = True

    def after_write(self, number: int, then: Callable[[], None], *, hold: bool = False) -> None:
        """Call `then` when the write of that number from now on has been passed on, before its answer is.

        With `hold` that answer waits for `let_go`.
        """
        self._at, self._then, self._holds = self.writes + number, then, hold

    def before_write(self, plural: str, then: Callable[[], None]) -> None:
        """Call `then` when the next write of such an object has come, which waits for `let_go`."""
        self._then, self._awaited = then, plural.encode()

    def let_go(self) -> None:
        """Pass on what is held."""
        self._loop.call_soon_threadsafe(self._gone.set)

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended, self._gone = asyncio.Event(), asyncio.Event()
        tls = None if self.shown is None else self.shown.server_context()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        scheme = "http" if tls is None else "https"
        self._url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._up.set()
        await self._ended.wait()
        server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            back, out = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(out)
        held = _Held()
        try:
            await asyncio.gather(self._pass_out(reader, out, held), self._pass_back(back, writer, held))
        except (OSError, asyncio.CancelledError):
            pass  # one side has gone: the other is told by the end of the connection
        finally:
            for one in (writer, out):
                one.transport.abort()
                self._open.discard(one)

    async def _pass_out(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: "_Held") -> None:
        while chunk := await reader.read(65536):
            if self._silent:
                await asyncio.Event().wait()
            if match := _WRITE.match(chunk):
                self.writes += 1
                held.here = self.writes == self._at
                await self._hold_request(match[2])
            writer.write(chunk)
            await writer.drain()
        raise ConnectionError("the replica has closed the connection")

    async def _hold_request(self, plural: bytes) -> None:
        if plural == self._awaited:
            self._awaited = b""
            self._then()
            self.caught = True
            await self._gone.wait()

    async def _pass_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: "_Held") -> None:
        while chunk := await reader.read(65536):
            if self._silent:
                await asyncio.Event().wait()
            if held.here:
                held.here = False
                self._then()
                if self._holds:
                    await self._gone.wait()
            writer.write(chunk)
            await writer.drain()
        raise ConnectionError("the server has closed the connection")


@attrs.define
class _Held:
    """Whether the answer that comes next is the one that is waited for."""

    here: bool = False
