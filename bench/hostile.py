"""A crowd that holds connections to a port, each at one stage, and opens again what is closed after a pause.

    python -m bench.hostile URL STAGE SECONDS CONNECTIONS ADDRESSES [AUTHORITY]

comes from that many addresses of this machine, and prints a line `holding` when all connections were opened once. It is
a process of its own, so that the measuring one does not wait for it.
"""

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from vworkspace_app.webhooks.intake import LARGEST
from vworkspace_core.webhook.admission import GATED_PATH

PAUSE: Final = 5.0
"""The seconds after which a closed connection is opened again."""
_TOGETHER: Final = 100
"""The number of connections that are opened at one time."""

_HEAD: Final = b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_SLOW: Final = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"object":[' + (
    b"{}," * 900_000 + b"{}]}}"
)
"""A review that takes long to read, and is refused in the end."""

Say: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def _nothing(writer: asyncio.StreamWriter) -> None:
    """Send nothing: the stage is TCP, or TLS if the port speaks it."""


def _saying(*parts: bytes) -> Say:
    async def say(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return say


PATH: Final = GATED_PATH.encode()
STAGES: Final[dict[str, Say]] = {
    "TCP": _nothing,
    "TLS": _nothing,
    "half a head": _saying(b"GET / HTTP/1.1\r\nhost: h\r\nx: "),
    "half a body": _saying(_HEAD % (PATH, LARGEST), b" " * 200_000),
    "an unread answer": _saying(*[b"GET /metrics HTTP/1.1\r\nhost: h\r\n\r\n"] * 20),
    "a slow review": _saying(_HEAD % (PATH, len(_SLOW)), _SLOW),
}


async def hold(url: str, stage: str, trust: ssl.SSLContext | None, source: str, opening: asyncio.Semaphore) -> None:
    """Open one connection, send what the stage sends, and wait for its end; answers are not read."""
    parts = urlsplit(url)
    use = None if stage == "TCP" else trust
    async with opening:
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port, ssl=use, local_addr=(source, 0), limit=1024
        )
        await STAGES[stage](writer)
    while await reader.read(1):
        if stage == "an unread answer":
            await asyncio.sleep(3600)
    writer.close()


async def again(url: str, stage: str, trust: ssl.SSLContext | None, source: str, opening: asyncio.Semaphore) -> None:
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            await hold(url, stage, trust, source, opening)
        await asyncio.sleep(PAUSE)


async def crowd(url: str, stage: str, seconds: float, count: int, addresses: int, authority: str) -> None:
    trust = ssl.create_default_context(cadata=authority) if authority else None
    if trust is not None:
        trust.check_hostname = False
    opening = asyncio.Semaphore(_TOGETHER)
    sources = [f"127.0.{1 + at // 200}.{1 + at % 200}" for at in range(addresses)]
    tasks = [asyncio.create_task(again(url, stage, trust, sources[at % addresses], opening)) for at in range(count)]
    await asyncio.sleep(1.0)
    print("holding", flush=True)
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()


def main() -> None:
    url, stage, seconds, count, addresses, *authority = sys.argv[1:]
    asyncio.run(crowd(url, stage, float(seconds), int(count), int(addresses), authority[0] if authority else ""))


if __name__ == "__main__":
    main()
