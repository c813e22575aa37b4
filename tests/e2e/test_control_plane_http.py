"""The HTTP face and the HTTP adapter against each other, and against servers that misbehave (PULL-1, PULL-7)."""

import asyncio
import contextlib
import gzip
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from purekube.apimachinery.errors import (
    Forbidden,
    Invalid,
    NotFound,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from tests.support.control_planes import ADMIN_TOKEN, served
from tests.support.patience import PATIENCE
from tests.support.run_by import run_by
from tests.support.work import MIB, peak_of
from vworkspace_fake.controlplane import AgentCall, ControlPlaneServer, ScriptedFault
from vworkspace_fake.controlplane.http import LONGEST_WAIT, serve
from vworkspace_odoo import MEDIA_TYPE, ControlPlaneEndpoint, HttpControlPlane, JsonSender, ReloadingControlPlane
from vworkspace_odoo.decoding import LONGEST_BODY, MOST_JOBS, MOST_VALUES, decode
from vworkspace_odoo.tls import default_verify

CLUSTER = "cluster-prod-1"
TOKEN = "s3cr3t-t0ken"


def run(body: Callable[[ControlPlaneServer, str], Awaitable[None]], **fields: Any) -> None:
    """Run `body` with a server and its URL."""

    async def main() -> None:
        server = ControlPlaneServer(**fields)
        server.tokens.add(CLUSTER, TOKEN)
        with anyio.fail_after(PATIENCE):
            async with served(server) as url:
                await body(server, url)

    anyio.run(main)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come soon."""
    with anyio.fail_after(PATIENCE):
        while not holds():
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "url", ["http://odoo.example.com", "http://u:secret@10.0.0.7:8069", "http://localhost.evil.io"]
)
def test_the_token_goes_to_no_other_machine_in_the_clear_unless_it_is_asked_for_PULL_9(url: str) -> None:
    with pytest.raises(ValueError, match="use https://, or allow it with --allow-http-control-plane") as refused:
        client(url)
    assert "secret" not in str(refused.value)
    assert client(url, allow_http=True)

    async def main() -> None:
        async with ReloadingControlPlane(lambda: ControlPlaneEndpoint(url, TOKEN)) as control:
            error = await error_of(control.fetch(CLUSTER, 0))
        assert isinstance(error, Permanent), "told in the log and the Cluster's status, and tried again slowly"
        assert "--allow-http-control-plane" in error.message

    anyio.run(main)


@pytest.mark.parametrize("url", ["http://localhost:1", "http://a.localhost", "http://127.0.0.9", "http://[::1]:8069"])
def test_loopback_needs_no_leave(url: str) -> None:
    assert client(url)


def client(url: str, token: str = TOKEN, **options: Any) -> HttpControlPlane:
    return HttpControlPlane(url, lambda: token, **options)


async def error_of(call: Awaitable[Any]) -> OperatorError:
    try:
        await call
    except OperatorError as error:
        return error
    raise AssertionError("it went through")


# --- the face -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@run_by(run)
async def test_a_poll_is_woken_by_an_enqueue_and_does_nothing_before_it(server: ControlPlaneServer, url: str) -> None:
    """Rounds of the event loop are counted, not seconds; `make bench` says how long it takes."""
    async with client(url) as control:
        for at in range(5):

            async def later(at: int = at) -> None:
                await until(lambda: server.waiting == 1)
                with rounds_of_the_loop() as rounds:
                    await anyio.sleep(0.3)
                assert len(rounds) < 20, "waiting must be waiting"
                server.enqueue(CLUSTER, kind="apply", payload={}, idempotency_key=str(at))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(later)
                (job,) = (await control.fetch(CLUSTER, LONGEST_WAIT)).jobs
            await control.ack(job["id"])


@contextmanager
def rounds_of_the_loop() -> Iterator[list[None]]:
    """One entry for each time that the running event loop wakes up."""
    found: list[None] = []
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    whole = selector.select

    def counted(timeout: float | None = None) -> Any:
        found.append(None)
        return whole(timeout)

    selector.select = counted
    try:
        yield found
    finally:
        del selector.select


@run_by(run)
async def test_a_caller_who_hangs_up_takes_no_job_with_it(server: ControlPlaneServer, url: str) -> None:
    async with client(url) as control, anyio.create_task_group() as tasks:
        tasks.start_soon(control.fetch, CLUSTER, 30)
        await until(lambda: server.waiting == 1)
        tasks.cancel_scope.cancel()
    await until(lambda: server.waiting == 0)
    job = server.enqueue(CLUSTER, kind="apply", payload={}, idempotency_key="k")
    await anyio.sleep(0.1)

    assert job.offers == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": MEDIA_TYPE}, 401),
        ({"Accept": MEDIA_TYPE, "Authorization": "Basic abc"}, 401),
        ({"Accept": MEDIA_TYPE, "Authorization": "Bearer nobody"}, 401),
        ({"Accept": "text/html", "Authorization": f"Bearer {TOKEN}"}, 406),
        ({"Accept": MEDIA_TYPE, "Authorization": f"Bearer {TOKEN}"}, 200),
    ],
)
@run_by(run)
async def test_the_headers_of_PULL_1_are_asked_for(
    server: ControlPlaneServer, url: str, *, headers: dict[str, str], status: int
) -> None:
    async with httpx2.AsyncClient() as http:
        answer = await http.get(f"{url}/api/agent/jobs?cluster={CLUSTER}&wait=0", headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert "date" in answer.headers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{", MEDIA_TYPE, 400),
        (b"\xff", MEDIA_TYPE, 400),
        (b"[" * 100_000, MEDIA_TYPE, 400),
        (b"[]", MEDIA_TYPE, 400),
        (b"{}", "application/json", 415),
        (b" " * (16 * 1024 * 1024 + 1), MEDIA_TYPE, 413),
    ],
)
@run_by(run)
async def test_bodies_that_cannot_be_read_are_refused_and_the_server_lives_on(
    server: ControlPlaneServer, url: str, *, content: bytes, content_type: str, status: int
) -> None:
    headers = {"Accept": MEDIA_TYPE, "Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
    async with httpx2.AsyncClient() as http, client(url) as control:
        answer = await http.post(f"{url}/api/agent/events", headers=headers, content=content)
        assert answer.status_code == status
        assert (await control.fetch(CLUSTER, 0)).jobs == []


@pytest.mark.slow
@pytest.mark.parametrize("wait", ["-1", "301", "soon", "1e3", ""])
@run_by(run)
async def test_a_wait_out_of_bounds_is_refused(server: ControlPlaneServer, url: str, *, wait: str) -> None:
    headers = {"Accept": MEDIA_TYPE, "Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient() as http:
        answer = await http.get(f"{url}/api/agent/jobs?cluster={CLUSTER}&wait={wait}", headers=headers)
    assert answer.status_code == 400


@run_by(run)
async def test_the_admin_api_asks_for_its_own_token(server: ControlPlaneServer, url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        assert (await http.get("/api/admin/jobs")).status_code == 401
        for token in (TOKEN, "wrong"):
            answer = await http.get("/api/admin/jobs", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401
        admin = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        assert (await http.get("/api/admin/jobs", headers=admin)).json() == {"jobs": []}
        for bad in (b"{", b"[]", b"{}", b'{"clusterId": 5}'):
            assert (await http.post("/api/admin/jobs", headers=admin, content=bad)).status_code == 400


@run_by(run, now=lambda: datetime(2031, 5, 6, 7, 8, 9, 999, tzinfo=UTC))
async def test_the_dates_of_the_server_are_those_of_its_clock_PULL_12(server: ControlPlaneServer, url: str) -> None:
    async with client(url) as control:
        fetched = await control.fetch(CLUSTER, 0)
    assert fetched.server_time == datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


@run_by(anyio.run)
async def test_a_port_in_use_is_an_OSError_and_a_cancelled_server_leaves_no_connection() -> None:
    async with served() as url:
        with pytest.raises(OSError, match="in use"):
            await serve(ControlPlaneServer(), "127.0.0.1", int(url.rpartition(":")[2]), admin_token="a", ready=print)
        server = ControlPlaneServer()
        server.tokens.add(CLUSTER, TOKEN)
    ended: list[Any] = []
    async with anyio.create_task_group() as tasks, served(server) as url:
        control = client(url)

        async def poll() -> None:
            ended.append(await control.fetch(CLUSTER, LONGEST_WAIT))

        tasks.start_soon(poll)
        await until(lambda: server.waiting == 1)
    await control.aclose()
    assert [fetched.jobs for fetched in ended] == [[]], "an open poll ends with an empty answer"


def test_the_control_plane_needs_neither_anyio_nor_starlette_until_it_is_served() -> None:
    code = (
        "import sys; import vworkspace_fake.controlplane, kubelab.clock; "
        "sys.exit(any(name in sys.modules for name in ('anyio', 'starlette', 'uvicorn', 'httpx2')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the adapter ------------------------------------------------------------------------------------------------

# What a JSON-RPC route of Odoo answers to a call that failed, its traceback included.
RPC_ERROR = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {
            "code": 200,
            "message": "Odoo Server Error",
            "data": {"name": "odoo.exceptions.AccessDenied", "message": "Access Denied", "debug": "line\n" * 2000},
        },
    }
).encode()

STRANGE = [
    (ScriptedFault(status=500), Unavailable, "500 injected fault 500"),
    (ScriptedFault(status=503, retry_after=12), Unavailable, "503"),
    (ScriptedFault(status=429, retry_after=12), Unavailable, "429"),
    (ScriptedFault(status=0), Unavailable, "the connection broke"),
    (
        ScriptedFault(status=200, body=b"<html>login</html>", content_type="text/html"),
        Unavailable,
        "200 with text/html",
    ),
    (ScriptedFault(status=200, body=b'{"jobs":[{"id":'), Unavailable, "the body is not JSON"),
    (ScriptedFault(status=200, body=b'{"jobs":5}'), Unavailable, "no list of jobs"),
    (ScriptedFault(status=200, body=b"[]"), Unavailable, "not a JSON object"),
    (ScriptedFault(status=200, body=b'{"jobs":["\xff"]}'), Unavailable, "not UTF-8"),
    (ScriptedFault(status=200, body=b"{}", content_type="application/json"), Unavailable, "no list of jobs"),
    (ScriptedFault(status=200, body=b'{"jsonrpc": "2.0", "error": {}}'), Unavailable, "no list of jobs"),
    (ScriptedFault(status=200, body=RPC_ERROR), Unavailable, "200 with an error: Odoo Server Error: Access Denied"),
    (ScriptedFault(status=401), Unauthorized, "401"),
    (ScriptedFault(status=403, body=b"<html>waf", content_type="text/html"), Forbidden, "403 (an HTML page)"),
    (ScriptedFault(status=404), NotFound, "404"),
    (ScriptedFault(status=404, body=b"<html>", content_type="text/html"), Permanent, "is the base URL right?"),
    (
        ScriptedFault(status=404, body=b"default backend - 404", content_type="text/plain"),
        Permanent,
        "404 default backend - 404: is the base URL right?",
    ),
    (ScriptedFault(status=302), Permanent, "set the final URL"),
    (ScriptedFault(status=405), Permanent, "405"),
    (ScriptedFault(status=413), Invalid, "413"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "kind", "text"), STRANGE)
@run_by(run)
async def test_every_strange_answer_has_its_error_in_one_line_with_the_url(
    server: ControlPlaneServer, url: str, *, fault: ScriptedFault, kind: type[OperatorError], text: str
) -> None:
    async with client(url) as control:
        server.faults.inject(fault)
        error = await error_of(control.fetch(CLUSTER, 0))
        assert type(error) is kind
        assert text in error.message
        assert error.message.startswith(f"GET {url}/api/agent/jobs: ")
        assert "\n" not in error.message
        assert getattr(error, "retry_after", None) == fault.retry_after
        assert (await control.fetch(CLUSTER, 0)).jobs == [], "the next call is as good as ever"


@pytest.mark.parametrize(
    ("content", "content_type"),
    [(b"<html>welcome</html>", "text/html"), (RPC_ERROR, "application/json"), (b'{"error": "no"}', "application/json")],
    ids=["a page", "an error of JSON-RPC", "an error"],
)
@run_by(run)
async def test_a_page_or_an_error_is_no_answer_to_an_ack_status_or_result(
    server: ControlPlaneServer, url: str, *, content: bytes, content_type: str
) -> None:
    """An Odoo may answer an error with 200: the result would be forgotten here and unknown there."""
    job = server.enqueue(CLUSTER, kind="apply", payload={}, idempotency_key="k")
    page = ScriptedFault(status=200, body=content, content_type=content_type)
    async with client(url) as control:
        done = {"outcome": "noop", "timestamp": "2026-01-01T00:00:00Z"}
        calls: list[Callable[[], Awaitable[None]]] = [
            lambda: control.ack(job.id),
            lambda: control.status(job.id, {}),
            lambda: control.result(job.id, done),
        ]
        for call in calls:
            server.faults.inject(page)
            assert isinstance(await error_of(call()), Unavailable)
    assert (job.acked_at, job.statuses, job.result) == (None, [], None)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"<html>", "text/html"),
        (b"404 page not found\n", "text/plain; charset=utf-8"),
        (b" ", "text/plain"),
        (b'{"message":"no Route matched with those values"}', "application/json"),
    ],
    ids=["a page", "a router", "a mesh", "a gateway"],
)
@run_by(run)
async def test_a_404_of_something_else_drops_an_unacked_job_and_keeps_a_result(
    server: ControlPlaneServer, url: str, *, content: bytes, content_type: str
) -> None:
    """While Odoo is deployed anew, what stands before it knows no route; no other copy of the result exists."""
    async with client(url) as control:
        for call, kind in ((control.ack("j"), NotFound), (control.result("j", {}), Permanent)):
            server.faults.inject(ScriptedFault(status=404, body=content, content_type=content_type))
            assert type(await error_of(call)) is kind


@pytest.mark.parametrize("status", [400, 409, 410, 415, 422])
@pytest.mark.parametrize(
    ("content", "content_type"),
    [(b"<html>400 Bad Request</html>", "text/html"), (b'{"message":"blocked"}', "application/json")],
    ids=["a page", "a gateway"],
)
@run_by(run)
async def test_a_refusal_of_something_else_decides_about_no_message(
    server: ControlPlaneServer, url: str, *, status: int, content: bytes, content_type: str
) -> None:
    """A proxy that refuses everything for a while would use up all events, and results as `accepted before`."""
    refused = ScriptedFault(status=status, body=content, content_type=content_type)
    async with client(url) as control:
        for call in (control.ack("j"), control.status("j", {}), control.result("j", {}), control.events([{}])):
            server.faults.inject(refused)
            error = await error_of(call)
            assert type(error) is Permanent
            assert f": {status} " in error.message
            assert "not the control plane's own answer" in error.message


@run_by(run)
async def test_a_long_refusal_of_the_control_plane_still_decides(server: ControlPlaneServer, url: str) -> None:
    """One that names every malformed field of a batch is not cut off before it is read."""
    content = json.dumps({"message": "a field is wrong; " * 1000, "error": "Invalid"}).encode()
    async with client(url) as control:
        server.faults.inject(ScriptedFault(status=400, body=content, content_type="application/json"))
        error = await error_of(control.events([{}]))
        assert type(error) is Invalid
        assert len(error.message) < 500


@run_by(run)
async def test_one_hostile_job_does_not_hide_the_others(server: ControlPlaneServer, url: str) -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    hostile = b'{"jobs":[{"id":"deep","payload":%s},{"id":"odd","payload":["\\ud800",1e999,%s]},{"id":"good"}]}' % (
        deep,
        b"9" * 5000,
    )
    async with client(url) as control:
        server.faults.inject(ScriptedFault(status=200, body=hostile))
        jobs = (await control.fetch(CLUSTER, 0)).jobs
    assert [job["id"] for job in jobs] == ["deep", "odd", "good"]
    assert jobs[1]["payload"] == ["\ud800", float("inf"), float("inf")]


@pytest.mark.parametrize("token", ["", "two\nlines", "sp ace", "ümlaut", "tab\t"])
@run_by(anyio.run)
async def test_a_token_that_no_header_can_hold_is_refused_without_being_shown(*, token: str) -> None:
    async with client("http://127.0.0.1:9", token) as control:
        error = await error_of(control.fetch(CLUSTER, 0))
    assert isinstance(error, Unauthorized)
    assert not token or token not in error.message


def test_the_token_is_shown_nowhere_PULL_8(caplog: pytest.LogCaptureFixture) -> None:
    async def body(server: ControlPlaneServer, url: str) -> None:
        async with client(url) as control:
            echo = ScriptedFault(status=500, body=json.dumps({"message": f"who is Bearer {TOKEN}, {TOKEN}?"}).encode())
            server.faults.inject(echo)
            shown = [repr(control), str(await error_of(control.fetch(CLUSTER, 0)))]
            server.faults.inject(ScriptedFault(status=0))
            shown.append(repr(await error_of(control.fetch(CLUSTER, 0))))
        assert "500 who is Bearer ***" in shown[1]
        assert not any(TOKEN in text for text in shown)
        assert TOKEN not in caplog.text

    with caplog.at_level("DEBUG"):
        run(body)


@pytest.mark.parametrize(
    ("base", "shown"),
    [
        ("https://odoo.example.com", "https://odoo.example.com/api/agent/"),
        ("https://odoo.example.com/", "https://odoo.example.com/api/agent/"),
        ("https://odoo.example.com/tenant/a/", "https://odoo.example.com/tenant/a/api/agent/"),
        ("https://odoo.example.com/api/agent/", "https://odoo.example.com/api/agent/"),
        ("https://user:pass@odoo:8069?x=1#y", "https://odoo:8069/api/agent/"),
    ],
)
def test_the_base_url_of_PULL_1(base: str, shown: str) -> None:
    assert repr(client(base)) == f"HttpControlPlane({shown!r})"


@pytest.mark.anyio
async def test_a_user_in_the_url_never_takes_the_place_of_the_token_PULL_7() -> None:
    heads: list[bytes] = []

    async def talk(stream: SocketStream) -> None:
        heads.append(await stream.receive())
        await stream.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")

    async with peer(talk) as url, client(url.replace("://", "://user:pa55word@")) as control:
        error = await error_of(control.fetch("cluster-1", 0))

    assert b"authorization: bearer " + TOKEN.encode().lower() in heads[0].lower()
    assert "pa55word" not in f"{error.message} {control!r} {ControlPlaneEndpoint(f'https://u:pa55word@{url}', TOKEN)!r}"


@pytest.mark.parametrize(
    "base",
    [
        *("", "odoo.example.com", "ftp://odoo", "https://", "file:///etc/passwd"),
        *("https://odoo.example.com:80a", "https://odoo.example.com:99999", "https://[::1", "https://x\u00ad.com"),
    ],
)
def test_a_url_that_cannot_be_one_is_refused_at_once(base: str) -> None:
    with pytest.raises(ValueError, match=r"must be like https://odoo\.example\.com"):
        client(base)


@pytest.mark.parametrize("proxy", ["socks5://proxy:1080", "ftp://proxy", "http://u:pa55word@proxy:80a"])
def test_a_proxy_that_cannot_be_used_is_one_clear_line(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    for make in (client, JsonSender):
        with pytest.raises(ValueError, match="names a proxy that cannot be used") as error:
            make("https://odoo.example.com")
        assert "pa55word" not in str(error.value)


def test_a_port_on_which_nobody_listens_is_one_clear_line_naming_the_url() -> None:
    with socket.socket() as held:  # bound, so that nobody else takes the port and listens
        held.bind(("127.0.0.1", 0))
        names_the_url(f"http://127.0.0.1:{held.getsockname()[1]}", "cannot connect: Connection refused")


def test_a_host_that_there_is_not_is_one_clear_line_naming_the_url() -> None:
    names_the_url("https://no.invalid", "cannot connect: ")


def names_the_url(url: str, text: str) -> None:
    async def main() -> None:
        async with client(url) as control:
            error = await error_of(control.fetch(CLUSTER, 0))
        assert isinstance(error, Unavailable)
        assert error.message.startswith(f"GET {url}/api/agent/jobs: {text}")
        assert not error.may_have_happened

    anyio.run(main)


Peer = Callable[[SocketStream], Awaitable[None]]


@asynccontextmanager
async def peer(talk: Peer) -> AsyncIterator[str]:
    """A server that does `talk` with whoever connects."""

    async def serve_one(stream: SocketStream) -> None:
        async with stream:
            with contextlib.suppress(anyio.BrokenResourceError):  # the caller had enough
                await talk(stream)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve_one)
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()
    await listener.aclose()


def talk_to(talk: Peer, **options: Any) -> OperatorError:
    operator_errors: list[OperatorError] = []

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with peer(talk) as url, client(url, **options) as control:
                operator_errors.append(await error_of(control.fetch(CLUSTER, 0)))

    anyio.run(main)
    return operator_errors[0]


def test_no_session_of_the_server_is_kept_beside_the_token_PULL_8() -> None:
    """Odoo refuses a token of one user with the session of another, so that a new token would never work."""
    heads: list[bytes] = []

    async def with_session(stream: SocketStream) -> None:
        while True:
            heads.append(await stream.receive())
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: session_id=of-the-old; Path=/\r\n"
            await stream.send(head + b'Content-Length: 11\r\n\r\n{"jobs":[]}')

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with peer(with_session) as url, client(url) as control:
                for _ in range(2):
                    await control.fetch(CLUSTER, 0)

    anyio.run(main)
    assert [b"cookie" in head.lower() for head in heads] == [False, False]


@pytest.mark.slow
def test_a_half_open_connection_is_noticed_by_the_read_timeout() -> None:
    async def silent(stream: SocketStream) -> None:
        await stream.receive()
        await anyio.sleep(3600)

    error = talk_to(silent, margin=1)

    assert isinstance(error, Unavailable)
    assert "no answer in time" in error.message
    assert error.may_have_happened


@pytest.mark.slow
def test_a_server_that_drips_its_answer_is_given_up() -> None:
    async def drip(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n\r\n")
        for _ in range(36_000):
            await stream.send(b" ")
            await anyio.sleep(0.1)

    error = talk_to(drip, margin=2)

    assert isinstance(error, Unavailable)
    assert "the answer did not end in time" in error.message


@pytest.mark.parametrize("packed", [False, True])
def test_an_oversized_body_is_given_up_also_when_it_is_packed(packed: bool) -> None:
    content = b'{"jobs":[]' + b" " * 200_000 + b"}"
    sent = gzip.compress(content) if packed else content
    encoding = b"Content-Encoding: gzip\r\n" if packed else b""

    async def flood(stream: SocketStream) -> None:
        await stream.receive()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n"
        await stream.send(head % (len(sent), encoding) + sent)

    error = talk_to(flood, longest_body=100_000)

    assert isinstance(error, Unavailable)
    assert "more than 100000 bytes" in error.message


BULK = {"objects": b"{}", "lists": b"[]", "texts": b'"abcdef"', "pairs": b'{"a":1}'}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BULK)
def test_an_answer_of_sixteen_megabytes_of_nothing_costs_little_memory_RUN_11(kind: str) -> None:
    item = BULK[kind]
    body = b'{"jobs":[' + b",".join([item] * (LONGEST_BODY // (len(item) + 1) - 100)) + b"]}"

    def read() -> None:
        with pytest.raises(Unavailable, match="send fewer jobs at a time"):
            decode(body, "GET jobs")

    assert peak_of(read) < MIB


@pytest.mark.slow
@pytest.mark.parametrize("kind", BULK)
def test_what_is_just_taken_stays_below_what_an_object_may_cost_RUN_11(kind: str) -> None:
    item = BULK[kind]
    count = MOST_VALUES // (1 + item.count(b"{") + item.count(b"[")) - 10
    body = b'{"jobs":[' + b",".join([item] * count) + b"]}"

    assert len(decode(body, "GET jobs")["jobs"]) == count
    assert peak_of(lambda: decode(body, "GET jobs")) < 64 * MIB


@pytest.mark.slow
@run_by(anyio.run)
async def test_of_more_jobs_than_are_taken_at_once_the_others_come_with_the_next_polls() -> None:
    server = ControlPlaneServer(redelivery=timedelta(seconds=0))
    server.tokens.add(CLUSTER, TOKEN)
    for number in range(MOST_JOBS + 7):
        server.enqueue_raw(CLUSTER, {"id": number})
    async with served(server) as url, client(url) as control:
        first = [job["id"] for job in (await control.fetch(CLUSTER, 0)).jobs]
        for number in first[:50]:
            await control.ack(str(number))
        after = [job["id"] for job in (await control.fetch(CLUSTER, 0)).jobs]
    assert (len(first), after[-1]) == (MOST_JOBS, MOST_JOBS + 6)


@pytest.mark.slow
@run_by(anyio.run)
async def test_a_job_that_is_too_large_is_handed_over_as_such_and_those_before_it_as_ever() -> None:
    """The core answers it `failed`; then it is offered no more, and those behind it come."""
    server = ControlPlaneServer(redelivery=timedelta(seconds=0))
    server.tokens.add(CLUSTER, TOKEN)
    for job in ({"id": "1"}, {"id": "large", "payload": [1] * (MOST_VALUES + 1)}, {"id": "3"}):
        server.enqueue_raw(CLUSTER, job)
    async with served(server) as url, client(url) as control:
        first, large = (await control.fetch(CLUSTER, 0)).jobs
        assert (first, large.fields) == ({"id": "1"}, {"id": "large"})
        for done in ("1", "large"):
            await control.ack(done)
        assert (await control.fetch(CLUSTER, 0)).jobs == [{"id": "3"}]


def test_garbage_in_place_of_http_is_an_error_like_others() -> None:
    async def garbage(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"\x00\x01\x02 not http\r\n\r\n")

    assert isinstance(talk_to(garbage), Unavailable)


def test_retry_after_as_a_date_is_relative_to_the_server_s_clock() -> None:
    now = datetime(2031, 1, 1, tzinfo=UTC)

    async def busy(stream: SocketStream) -> None:
        await stream.receive()
        stamp = "%a, %d %b %Y %H:%M:%S GMT"
        lines = [
            "HTTP/1.1 429 Too Many Requests",
            f"Date: {now.strftime(stamp)}",
            f"Retry-After: {(now + timedelta(seconds=42)).strftime(stamp)}",
            "Content-Length: 0",
        ]
        await stream.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    error = talk_to(busy)

    assert isinstance(error, Unavailable)
    assert error.retry_after == 42.0


@run_by(run)
async def test_a_new_token_counts_from_the_next_request_on(server: ControlPlaneServer, url: str) -> None:
    held = ["old"]
    server.tokens.add(CLUSTER, "new")
    async with HttpControlPlane(url, lambda: held[0]) as control:
        assert isinstance(await error_of(control.fetch(CLUSTER, 0)), Unauthorized)
        held[0] = "new"
        assert (await control.fetch(CLUSTER, 0)).jobs == []


@run_by(run)
async def test_latency_is_waited_out(server: ControlPlaneServer, url: str) -> None:
    server.faults.inject(ScriptedFault(call=AgentCall.FETCH, status=None, latency=0.3))
    began = anyio.current_time()
    async with client(url) as control:
        assert (await control.fetch(CLUSTER, 0)).jobs == []
    assert anyio.current_time() - began >= 0.3


def test_without_tls_nobody_is_trusted_and_with_it_the_system_s_authorities_are() -> None:
    trust = default_verify("http://odoo.example.com")

    assert isinstance(trust, ssl.SSLContext)
    assert (trust.verify_mode, trust.check_hostname, trust.get_ca_certs()) == (ssl.CERT_REQUIRED, True, [])
    assert default_verify("HTTPS://odoo.example.com") is True


@pytest.mark.slow
@pytest.mark.parametrize(("exempt", "asked"), [("", True), ("odoo.example.invalid", False), (".invalid", False)])
def test_the_way_to_the_control_plane_is_the_proxy_of_the_environment_PULL_9(
    monkeypatch: pytest.MonkeyPatch, exempt: str, asked: bool
) -> None:
    """And what the proxy's own password is, no error tells."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    heard: list[bytes] = []

    async def proxy(stream: SocketStream) -> None:
        heard.append(await stream.receive())
        await stream.send(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    async def main() -> OperatorError:
        async with peer(proxy) as url:
            monkeypatch.setenv("HTTPS_PROXY", url.replace("//", "//user:s3cr3t@"))
            monkeypatch.setenv("NO_PROXY", exempt)
            async with client("https://odoo.example.invalid") as control:
                return await error_of(control.fetch(CLUSTER, 0))

    error = anyio.run(main)
    assert [line.split(b"\r\n")[0] for line in heard] == [b"CONNECT odoo.example.invalid:443 HTTP/1.1"] * asked
    assert isinstance(error, Unavailable)
    assert "s3cr3t" not in str(error)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_what_stays_on_this_machine_is_never_sent_to_a_proxy_PULL_9(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Loopback may be plain http:// only because nobody else reads it; a proxy would read the token."""
    for name in ("HTTPS_PROXY", "ALL_PROXY", "all_proxy", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    heard: list[bytes] = []

    async def proxy(stream: SocketStream) -> None:
        heard.append(await stream.receive())

    async def main() -> None:
        async with peer(proxy) as url:
            monkeypatch.setenv("HTTP_PROXY", url)
            async with client(f"http://{host}:1") as control:
                assert "Connection refused" in (await error_of(control.fetch(CLUSTER, 0))).message
            async with JsonSender(f"http://{host}:1") as sender:
                assert "Connection refused" in (await error_of(sender.send({}))).message

    anyio.run(main)
    assert heard == []
