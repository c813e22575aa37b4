"""RUN-11: nobody who reaches a port can starve it, at whatever stage their connections are.

Real sockets from several addresses of this machine. What holds for how long is measured by `bench.worst`; here a crowd
holds every place that there is for as long as the test runs, and honest requests are answered all the same.
"""

import ssl
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kubelab.http.authority import certificates_for
from purekube_run.process.command_line import CommandError
from tests.support.sockets import LONG, ask, connect, context, served, status
from vworkspace_app.webhooks.intake import LARGEST, Turns
from vworkspace_app.webhooks.serving import CertificateFiles, has_common_name
from vworkspace_app.webhooks.webhook_answers import application
from vworkspace_core.webhook.admission import GATED_PATH, WebhookSettings

CROWD = 5 * LONG.connections
SOURCES = ("127.0.0.1", "127.0.0.2")
"""Of the crowd: the honest client's own address, and another one."""


def slow_app() -> Starlette:
    """What is asked for is there at once, never, or is more than anybody reads."""

    async def answer(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def never(_: Request) -> Response:
        await anyio.sleep_forever()
        return Response()

    async def much(_: Request) -> Response:
        return PlainTextResponse("x" * 8_000_000)

    return Starlette(
        routes=[
            Route("/", answer, methods=["GET", "POST"]),
            Route("/healthz", answer),
            Route("/never", never),
            Route("/much", much),
        ]
    )


HOSTILE: dict[str, Callable[[Any], object]] = {
    "TCP": lambda connection: None,
    "half a head": lambda connection: connection.sendall(b"GET / HTTP/1.1\r\nhost: h\r\nx: "),
    "half a body": lambda connection: ask(connection, body=b"12345", length=10),
    "an unread answer": lambda connection: ask(connection, "/much"),
    "a slow request": lambda connection: ask(connection, "/never"),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("stage", HOSTILE)
def test_no_crowd_can_starve_a_probe_or_a_request_RUN_11(stage: str, source: str) -> None:
    limits = attrs.evolve(LONG, probes=frozenset({"/healthz"}))
    with served(slow_app(), limits) as address, ExitStack() as stack:
        for path in ("/healthz", "/"):
            for _ in range(CROWD):
                HOSTILE[stage](connect(stack, address, source))
            ask(honest := connect(stack, address, "127.0.0.3"), path)
            assert status(honest) == 200


@pytest.mark.slow
def test_a_crowd_of_half_bodies_cannot_starve_reviews_RUN_11() -> None:
    """It takes neither the places nor the memory that reviews are read into."""
    made = certificates_for(("localhost",), datetime.now(UTC))
    trust = ssl.create_default_context(cadata=made.authority.decode())
    with ExitStack() as stack:
        address = stack.enter_context(served(application(WebhookSettings("c")), LONG, context(stack, made)))
        for _ in range(2 * LONG.connections):
            hostile = trust.wrap_socket(connect(stack, address, "127.0.0.2"), server_hostname="localhost")
            stack.enter_context(hostile)
            ask(hostile, GATED_PATH, b" " * 500_000, length=LARGEST)
        for size in (2, 1_000_000):
            with trust.wrap_socket(connect(stack, address), server_hostname="localhost") as honest:
                ask(honest, GATED_PATH, b" " * size)
                assert status(honest) == 400


def test_large_reviews_cannot_starve_a_small_one_nor_small_ones_a_large_one_RUN_11() -> None:
    """The smallest goes first, and every eighth turn is that of the oldest."""
    order: list[int] = []

    async def review(turns: Turns, size: int) -> None:
        async with turns.taken(size):
            order.append(size)
            await anyio.sleep(0)

    async def main() -> None:
        turns = Turns(lambda: 0.0)
        async with anyio.create_task_group() as group:
            for size in (50, 100, *range(20, 40), 1):
                group.start_soon(review, turns, size)

    anyio.run(main)
    assert order[:2] == [50, 1], "the first one found nobody"
    assert order.index(100) == 8
    assert sorted(order) == sorted([50, 100, *range(20, 40), 1])


def test_a_review_that_is_given_up_passes_its_turn_on_RUN_11() -> None:
    order: list[str] = []

    async def main() -> None:
        turns = Turns(lambda: 0.0)
        async with anyio.create_task_group() as group:

            async def review(name: str, scope: anyio.CancelScope) -> None:
                with scope:
                    async with turns.taken(1):
                        order.append(name)
                        await anyio.sleep(0.01)

            scopes = [anyio.CancelScope() for _ in range(4)]
            for name, scope in zip("abcd", scopes, strict=True):
                group.start_soon(review, name, scope)
            await anyio.sleep(0)
            await anyio.sleep(0)
            scopes[1].cancel()
            scopes[0].cancel()

    anyio.run(main)
    assert order in (["a", "c", "d"], ["a", "d", "c"])


# --- the certificate of the API server -------------------------------------------------------------------------------


@attrs.frozen
class Signer:
    """An authority of the API server's client certificate."""

    key: ec.EllipticCurvePrivateKey = attrs.field(factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def certificate(self, name: str, key: ec.EllipticCurvePrivateKey) -> bytes:
        now = datetime.now(UTC)
        is_own = key is self.key
        return (
            x509.CertificateBuilder()
            .subject_name(_named("front-ca" if is_own else name))
            .issuer_name(_named("front-ca"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_own, path_length=None), critical=True)
            .sign(self.key, SHA256())
            .public_bytes(Encoding.PEM)
        )

    def client(self, folder: Path, name: str) -> Path:
        """A file with a certificate of that common name, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file = folder / f"{name}.pem"
        file.write_bytes(self.certificate(name, key) + private)
        return file


def _named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def test_with_an_authority_only_its_clients_of_a_given_name_are_heard_RUN_6(tmp_path: Path) -> None:
    """The API server's certificate, where it has one: everybody else can starve nothing, however much they ask."""
    made, front, other = certificates_for(("localhost",), datetime.now(UTC)), Signer(), Signer()
    for name, content in (("tls.crt", made.certificate), ("tls.key", made.key)):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "ca.crt").write_bytes(front.certificate("", front.key))
    files = CertificateFiles(tmp_path, tmp_path / "ca.crt")
    knows = partial(has_common_name, names=("kube-apiserver",))

    def answer(certificate: Path | None) -> int:
        trust = ssl.create_default_context(cadata=made.authority.decode())
        if certificate is not None:
            trust.load_cert_chain(certificate)
        with ExitStack() as stack:
            try:
                asking = stack.enter_context(trust.wrap_socket(connect(stack, address), server_hostname="localhost"))
                ask(asking, GATED_PATH, b"{}")
            except OSError:
                return 0
            return status(asking)

    reviews = application(WebhookSettings("c"))
    with served(reviews, LONG, files.context(), knows) as address:
        assert answer(None) == 0
        assert answer(other.client(tmp_path, "kube-apiserver")) == 0
        assert answer(front.client(tmp_path, "somebody")) == 0
        assert answer(front.client(tmp_path, "kube-apiserver")) == 400
        (tmp_path / "ca.crt").write_bytes(other.certificate("", other.key))
        assert files.reload()
        assert answer(front.client(tmp_path, "kube-apiserver")) == 0, "another authority counts from now on"
        assert answer(other.client(tmp_path, "kube-apiserver")) == 400


def test_a_file_that_holds_no_authority_is_refused_at_the_start(tmp_path: Path) -> None:
    made = certificates_for(("localhost",), datetime.now(UTC))
    for name, content in (("tls.crt", made.certificate), ("tls.key", made.key), ("ca.crt", b"")):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError, match=r"ca\.crt no certificates of authorities"):
        CertificateFiles(tmp_path, tmp_path / "ca.crt")
