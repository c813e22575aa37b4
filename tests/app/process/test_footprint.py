"""The runtime's settings in a process of ours: what a TLS connection costs, and how often garbage is collected."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubelab.http.authority import certificates_for

CONNECTION = """
import asyncio, gc, ssl, sys, tracemalloc
from purekube_run.process.footprint import reduce_footprint

if sys.argv[1] == "reduced":
    reduce_footprint()
authority, certificate = sys.argv[2:]
BODY = b"x" * 1_000_000

async def answer(reader, writer):
    writer.write(BODY)
    await writer.drain()
    await reader.read()
    writer.close()

async def main():
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=authority)
    tracemalloc.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, limit=2**16)
    print(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert await reader.readexactly(len(BODY)) == BODY
    writer.close()
    server.close()

asyncio.run(main())
print(gc.get_threshold()[0], gc.get_freeze_count())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "least", "most"), [("reduced", 0, 250_000), ("python's", 512_000, 1_000_000)])
def test_both_ends_of_a_tls_connection_take_little_memory(settings: str, least: int, most: int, tmp_path: Path) -> None:
    made = certificates_for(["127.0.0.1"], datetime.now(UTC))
    authority, server = tmp_path / "ca.crt", tmp_path / "server.pem"
    authority.write_bytes(made.authority)
    server.write_bytes(made.certificate + made.key)
    told = subprocess.run(
        [sys.executable, "-c", CONNECTION, settings, str(authority), str(server)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    memory, threshold, frozen = map(int, told)
    assert least < memory < most
    assert (threshold, frozen > 10_000) == ((5000, True) if settings == "reduced" else (700, False))
