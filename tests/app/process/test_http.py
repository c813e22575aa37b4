"""RUN-11, M1, M2: ports that anybody can reach have deadlines and limits, and nobody keeps a probe from its answer.

Real sockets. Nothing here asserts how quick a machine is: what has to end is waited for, what has to stay does.
"""

import resource
import select
import socket
import ssl
import threading
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kubelab.http.authority import certificates_for
from purekube_run.process.http import ConnectionLimits, bind
from tests.support.patience import PATIENCE
from tests.support.sockets import LONG, ask, connect, context, ends, served, status, wait_for
from vworkspace_app.webhooks.intake import BUDGET, LARGEST, SMALL
from vworkspace_app.webhooks.webhook_answers import application
from vworkspace_core.webhook.admission import GATED_PATH, WebhookSettings


def app(begun: list[int] | None = None) -> Starlette:
    async def whole(request: Request) -> Response:
        (begun if begun is not None else []).append(1)
        return PlainTextResponse(str(len(await request.body())))

    async def much(_: Request) -> Response:
        return PlainTextResponse("x" * 64_000_000)

    return Starlette(routes=[Route("/", whole, methods=["GET", "POST"]), Route("/much", much)])


def _has(begun: list[int], number: int) -> bool:
    return len(begun) == number


def test_a_flood_that_says_half_a_request_keeps_no_probe_waiting() -> None:
    with served(app(), LONG) as address, ExitStack() as stack:
        flood = []
        for _ in range(5 * LONG.connections):
            flood.append(connect(stack, address))
            flood[-1].sendall(b"GET / HTTP/1.1\r\nhost: h\r\nx: ")
        probe = connect(stack, address)
        ask(probe)
        assert status(probe) == 200
        assert all(ends(one) for one in flood[: -LONG.connections]), "the oldest made room"


def test_more_connections_than_the_limit_are_never_open() -> None:
    """Half a request holds no place against a newcomer: the oldest half leaves, and is asked to come again."""
    limits = attrs.evolve(LONG, connections=3)
    begun: list[int] = []
    with served(app(begun), limits) as address, ExitStack() as stack:
        halves = [connect(stack, address) for _ in range(limits.connections)]
        for number, half in enumerate(halves, 1):
            ask(half, length=10)
            half.sendall(b"12345")
            wait_for(partial(_has, begun, number))
        late = connect(stack, address)
        assert status(halves[0]) == 503
        assert ends(halves[0])
        ask(late)
        assert status(late) == 200
        halves[1].sendall(b"67890")
        assert status(halves[1]) == 200


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (attrs.evolve(LONG, head=0.1), b""),
        (attrs.evolve(LONG, head=0.1), b"GET / HTTP/1.1\r\nx: y"),
        (attrs.evolve(LONG, body=0.1), b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nfive!"),
        (attrs.evolve(LONG, idle=0.1), b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"),
    ],
    ids=["nothing", "half a head", "half a body", "idle"],
)
def test_whoever_dawdles_is_shown_out_RUN_11(limits: ConnectionLimits, said: bytes) -> None:
    with served(app(), limits) as address, ExitStack() as stack:
        slow = connect(stack, address)
        slow.sendall(said)
        assert ends(slow)
        again = connect(stack, address)
        ask(again)
        assert status(again) == 200


@pytest.mark.slow
def test_whoever_does_not_read_the_answer_is_shown_out_RUN_11() -> None:
    with served(app(), attrs.evolve(LONG, whole=0.1)) as address, ExitStack() as stack:
        slow = connect(stack, address)
        ask(slow, "/much")
        cut = select.poll()
        cut.register(slow, 0)  # nothing but its end
        assert cut.poll(PATIENCE * 1000)


def everything(connection: socket.socket) -> bytes:
    """What comes until the other end leaves."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def streaming(gone: threading.Event) -> Starlette:
    """An answer in two pieces with a pause, and one without an end."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await anyio.sleep(0.5)
        yield b"last"

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 1_000_000
                await anyio.lowlevel.checkpoint()
        finally:
            gone.set()

    return Starlette(
        routes=[
            Route("/pieces", lambda _: StreamingResponse(pieces())),
            Route("/endless", lambda _: StreamingResponse(endless())),
        ]
    )


def test_a_stream_outlives_the_deadline_of_an_answer_and_nothing_else_does_SEE_3() -> None:
    limits = attrs.evolve(LONG, whole=0.1)
    with served(streaming(threading.Event()), limits) as address, ExitStack() as stack:
        ask(cut := connect(stack, address), "/pieces")
        assert b"last" not in everything(cut)
    limits = attrs.evolve(limits, streams=frozenset({"/pieces"}))
    with served(streaming(threading.Event()), limits) as address, ExitStack() as stack:
        ask(whole := connect(stack, address), "/pieces")
        received = b""
        while b"last" not in received:
            received += whole.recv(4096)


def test_whoever_does_not_read_a_stream_is_shown_out_SEE_3() -> None:
    gone = threading.Event()
    limits = attrs.evolve(LONG, whole=0.1, streams=frozenset({"/endless"}))
    with served(streaming(gone), limits) as address, ExitStack() as stack:
        ask(connect(stack, address), "/endless")
        assert gone.wait(PATIENCE)


def test_requests_that_follow_one_another_are_answered_in_turn() -> None:
    with served(app(), LONG) as address, ExitStack() as stack:
        one = connect(stack, address)
        for body in (b"", b"abc", b"x" * 300_000):
            ask(one, body=body)
            answer = one.makefile("rb")
            assert b"200" in answer.readline()
            while (line := answer.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length"):
                    length = int(line.split(b":")[1])
            assert int(answer.read(length)) == len(body)


def test_a_flood_without_a_handshake_keeps_no_review_waiting() -> None:
    made = certificates_for(("localhost",), datetime.now(UTC))
    with ExitStack() as stack:
        server = context(stack, made)
        address = stack.enter_context(served(application(WebhookSettings("c")), LONG, server))
        flood = [connect(stack, address) for _ in range(3 * LONG.connections)]
        trust = ssl.create_default_context(cadata=made.authority.decode())
        for _ in range(2):
            with trust.wrap_socket(connect(stack, address), server_hostname="localhost") as review:
                ask(review, GATED_PATH, b"{}")
                assert status(review) == 400
        assert all(ends(one) for one in flood[: -LONG.connections])


def test_the_limit_leaves_descriptors_to_everybody_else() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert ConnectionLimits().connections <= max(8, soft // 4)
    assert ConnectionLimits().head <= 5
    assert ConnectionLimits().body <= 5


# --- reviews ------------------------------------------------------------------------------------------------------


def review(**request: Any) -> bytes:
    asked = {"uid": "u", "operation": "CREATE", "namespace": "n", "name": "a", **request}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    return msgspec.json.encode(body)


BOMB = b'{"a":[' + b"{}," * 900_000 + b"{}]}"
"""Less than 3 MiB, and 60 MB where it is built."""


def test_a_body_that_is_too_large_is_refused_before_it_is_held() -> None:
    with served(application(WebhookSettings("c")), LONG) as address, ExitStack() as stack:
        large = connect(stack, address)
        ask(large, GATED_PATH, b"x" * 70_000, length=16 * 1024 * 1024)
        tracemalloc.start()
        try:
            for _ in range(400):
                large.sendall(b"x" * 40_000)
        except ConnectionError:
            pass
        assert status(large) in (413, 0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < LARGEST + 4 * 1024 * 1024


@pytest.mark.parametrize("body", [BOMB, review()[:-1] + b',"a":[' + b"{}," * 900_000 + b"{}]}"], ids=["bomb", "beside"])
def test_nothing_is_built_of_what_is_not_looked_at(body: bytes) -> None:
    """One anonymous POST cost 510 MB."""
    assert len(body) < LARGEST
    with served(application(WebhookSettings("c")), LONG) as address, ExitStack() as stack:
        connection = connect(stack, address)
        tracemalloc.start()
        ask(connection, GATED_PATH, body)
        assert status(connection) in (200, 400)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * len(body), "the body, while it is put together, and no object of it"


@pytest.mark.slow
def test_reviews_beyond_the_budget_are_asked_to_come_again() -> None:
    limits = attrs.evolve(LONG, connections=64)
    size, fit = 2_900_000, BUDGET // (2_900_000 - SMALL)
    with served(application(WebhookSettings("c")), limits) as address, ExitStack() as stack:
        held = [connect(stack, address) for _ in range(fit + 4)]
        for one in held:
            ask(one, GATED_PATH, b" " * (size - 1), length=size)
        wait_for(lambda: len(select.select(held, [], [], 0)[0]) >= 4)
        refused = select.select(held, [], [], 0)[0]
        assert [status(one) for one in refused] == [503] * len(refused)
        small = connect(stack, address)
        ask(small, GATED_PATH, b"{}")
        assert status(small) == 400, "what is small always has room"
        whole = connect(stack, address)
        ask(whole, GATED_PATH, b" " * size)
        assert status(whole) == 400, "halves give way to what comes at once"
        for one in held:
            if one not in refused:
                try:
                    one.sendall(b" ")
                except ConnectionError:
                    continue
                assert status(one) in (400, 503, 0)
        last = connect(stack, address)
        ask(last, GATED_PATH, b" " * size)
        assert status(last) == 400, "what was held is let go of"


@pytest.mark.parametrize("levels", [1_200, 9_000])
def test_an_object_that_is_too_deep_is_refused_and_its_finalizer_comes_off(levels: int) -> None:
    from vworkspace_core.api.kinds import APPLICATION_INSTANCE

    meta = {"name": "a", "namespace": "n", "labels": {"app.vworkspace.io/managed-by": "control-plane"}}
    bad = {**APPLICATION_INSTANCE.manifest("a", "n"), "metadata": meta, "spec": {"values": "DEEP"}}
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    with served(application(WebhookSettings("c")), LONG) as address, ExitStack() as stack:
        for more, allowed in (({"object": bad}, False), ({"object": bad, "oldObject": bad}, True)):
            connection = connect(stack, address)
            body = review(operation="UPDATE" if "oldObject" in more else "CREATE", **more).replace(b'"DEEP"', deep)
            ask(connection, GATED_PATH, body)
            answer = connection.makefile("rb")
            assert b"200" in answer.readline()
            while answer.readline() != b"\r\n":
                pass
            connection.shutdown(socket.SHUT_WR)
            response = msgspec.json.decode(answer.read())["response"]
            assert response["allowed"] is allowed
            assert allowed or "spec.values: is nested too deeply" in response["status"]["message"]


@pytest.mark.parametrize("has_both", [True, False])
def test_every_address_is_one_of_either_family_RUN_7(has_both: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_both and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: has_both)

    with bind("::", 0) as listener:
        for host in ("127.0.0.1", "::1") if has_both else ("127.0.0.1",):
            socket.create_connection((host, listener.getsockname()[1]), PATIENCE).close()
