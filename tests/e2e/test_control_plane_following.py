"""The connection that follows the credentials: another URL, token, authority or client certificate (PULL-8)."""

import asyncio
import contextlib
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kubelab.http.authority import certificates_for
from kubelab.http.certificates import Certificates
from purekube.apimachinery.errors import JobClosed, NotFound, OperatorError, Permanent, Unauthorized, Unavailable
from tests.support.control_planes import served
from tests.support.patience import PATIENCE
from tests.support.run_by import run_by
from vworkspace_fake.controlplane import ControlPlaneServer
from vworkspace_odoo import ControlPlaneEndpoint, ReloadingControlPlane
from vworkspace_odoo.tls import tls_context

CLUSTER = "cluster-prod-1"
MARK = "m4rk-of-a-secret"
DAY = timedelta(days=1)


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            await body()

    anyio.run(main)


def certificates() -> Certificates:
    return certificates_for(["127.0.0.1", "localhost"], datetime.now(UTC))


def client_certificate() -> tuple[str, str]:
    """A self-signed certificate that a client may show, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), plain.decode()


def without_key_usage() -> Certificates:
    """A certificate for 127.0.0.1 that signed itself, as `openssl req -x509` makes it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "odoo")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(address, critical=False)
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    return Certificates(certificate, certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@asynccontextmanager
async def tls_server(own: Certificates, clients: str | None = None) -> AsyncIterator[str]:
    """Answers every request with an empty list of jobs; with `clients` only to who shows a certificate of theirs."""
    context = own.server_context()
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients)
    body = json.dumps({"jobs": []}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(head + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def test_a_changed_token_url_or_authority_counts_with_the_next_call_PULL_8() -> None:
    heard: list[tuple[str, bool]] = []

    async def body() -> None:
        first, second = ControlPlaneServer(), ControlPlaneServer()
        first.tokens.add(CLUSTER, "one")
        second.tokens.add(CLUSTER, "two")
        async with served(first) as url, served(second) as other:
            now = ControlPlaneEndpoint(url, "wrong")
            async with ReloadingControlPlane(lambda: now, lambda *found: heard.append(found)) as control:
                with pytest.raises(Unauthorized):
                    await control.fetch(CLUSTER, 0)
                now = ControlPlaneEndpoint(url, "one")
                await control.fetch(CLUSTER, 0)
                now = ControlPlaneEndpoint(other, "two")
                await control.fetch(CLUSTER, 0)
                with pytest.raises(NotFound):
                    await control.ack("unknown")
                job = second.enqueue_raw(CLUSTER, {"id": "job-1"})
                await control.ack(job.id)
                await control.result(job.id, {"outcome": "noop", "timestamp": "2026-01-01T00:00:00Z"})
                with pytest.raises(JobClosed):
                    await control.ack(job.id)
                token = second.tokens.offer_registration(CLUSTER)
                assert (await control.register({"registrationToken": token}))["clusterId"] == CLUSTER
        assert [len(server.requests) for server in (first, second)] == [2, 6]

    run(body)
    assert heard == [("wrong", False), ("one", True), *[("two", True)] * 5], "registration has its own token"


@run_by(run)
async def test_settings_that_change_twice_while_calls_begin_break_no_call_PULL_8() -> None:
    servers = [ControlPlaneServer() for _ in range(3)]
    for number, server in enumerate(servers):
        server.tokens.add(CLUSTER, f"token-{number}")
    async with served(servers[0]) as one, served(servers[1]) as two, served(servers[2]) as three:
        urls = (one, two, three)
        now = ControlPlaneEndpoint(one, "token-0")
        async with ReloadingControlPlane(lambda: now) as control:
            await control.fetch(CLUSTER, 0)

            async def fetch_from(number: int) -> None:
                nonlocal now
                now = ControlPlaneEndpoint(urls[number], f"token-{number}")
                await control.fetch(CLUSTER, 0)

            async with anyio.create_task_group() as group:
                group.start_soon(fetch_from, 1)
                group.start_soon(fetch_from, 2)
    assert [len(server.requests) for server in servers] == [1, 1, 1]


@run_by(run)
async def test_a_call_under_way_ends_on_the_connection_it_began_on() -> None:
    server = ControlPlaneServer()
    server.tokens.add(CLUSTER, "one")
    async with served(server) as url:
        now = ControlPlaneEndpoint(url, "one")
        async with ReloadingControlPlane(lambda: now) as control, anyio.create_task_group() as group:
            found: list[Any] = []

            async def poll() -> None:
                found.append((await control.fetch(CLUSTER, 20)).jobs)

            group.start_soon(poll)
            while not server.waiting:
                await anyio.sleep(0.01)
            now = ControlPlaneEndpoint(url + "/api/agent", "one")
            await control.fetch(CLUSTER, 0)
            server.enqueue(CLUSTER, kind="apply", payload={}, idempotency_key="a")
    assert [len(jobs) for jobs in found] == [1]


@run_by(run)
async def test_mutual_TLS_with_certificates_that_are_exchanged_while_running_PULL_8() -> None:
    ours, other = certificates(), certificates()
    (certificate, key), (strange, strange_key) = client_certificate(), client_certificate()
    async with tls_server(ours, certificate) as url:
        good = ControlPlaneEndpoint(url, MARK, ca=ours.authority.decode(), certificate=certificate, private_key=key)
        now = attrs.evolve(good, ca=other.authority.decode())
        async with ReloadingControlPlane(lambda: now, margin=2) as control:
            with pytest.raises(Unavailable, match="cannot connect: the server's certificate is not trusted: "):
                await control.fetch(CLUSTER, 0)
            now = good
            assert (await control.fetch(CLUSTER, 0)).jobs == []
            now = attrs.evolve(good, certificate=strange, private_key=strange_key)
            with pytest.raises(Unavailable):
                await control.fetch(CLUSTER, 0)
            now = good
            assert (await control.fetch(CLUSTER, 0)).jobs == []
            assert MARK not in repr(control) + repr(now)


def test_an_authority_is_trusted_whatever_stands_around_it_and_however_strict_python_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bundles of authorities have names in comments. Python 3.13 refuses authorities that have no key usage."""
    create = ssl.create_default_context

    def strict(**options: Any) -> ssl.SSLContext:
        context = create(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    ours = certificates()
    plain = without_key_usage()
    bundle = f"\ufeff# NetLock Arany (Class Gold) F\u0151tan\u00fas\u00edtv\u00e1ny\n{ours.authority.decode()}"

    async def body() -> None:
        for own, ca in ((ours, bundle), (ours, ours.certificate.decode()), (plain, plain.authority.decode())):
            async with tls_server(own) as url:
                endpoint = ControlPlaneEndpoint(url, MARK, ca=ca)
                async with ReloadingControlPlane(partial(attrs.evolve, endpoint), margin=2) as control:
                    assert (await control.fetch(CLUSTER, 0)).jobs == []

    run(body)


ONE, OTHER = certificates(), certificates()
OF_NO_USE = {
    "a certificate without its key": ("", ONE.certificate.decode(), "", "tls.crt without tls.key"),
    "a key without its certificate": ("", "", ONE.key.decode(), "tls.key without tls.crt"),
    "an authority that is none": (MARK, "", "", "ca.crt is no PEM"),
    "a key of another certificate": ("", ONE.certificate.decode(), OTHER.key.decode(), "no PEM certificate with its"),
    "no PEM": ("", MARK, MARK, "no PEM certificate with its"),
}


@pytest.mark.parametrize("name", OF_NO_USE)
def test_certificates_of_no_use_are_named_and_not_shown(name: str) -> None:
    *texts, told = OF_NO_USE[name]
    with pytest.raises(Permanent, match=told) as caught:
        tls_context(*texts)
    assert MARK not in str(caught.value)
    assert caught.value.__cause__ is None


@run_by(run)
async def test_an_endpoint_of_no_use_is_an_error_of_the_port_and_another_one_mends_it() -> None:
    server = ControlPlaneServer()
    server.tokens.add(CLUSTER, "one")
    async with served(server) as url:
        now = ControlPlaneEndpoint("odoo.example.com", "one")
        async with ReloadingControlPlane(lambda: now) as control:
            for bad in (now, ControlPlaneEndpoint(url, "one", ca=MARK)):
                now = bad
                with pytest.raises(OperatorError) as caught:
                    await control.fetch(CLUSTER, 0)
                assert MARK not in str(caught.value)
            now = ControlPlaneEndpoint(url, "one")
            await control.fetch(CLUSTER, 0)


def test_without_certificates_the_client_decides() -> None:
    assert tls_context("", "", "") is None
