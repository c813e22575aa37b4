"""SEE-6: notices over HTTP as CloudEvents; nobody else gets the token, and no error holds a secret."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import anyio
import pytest

from purekube.apimachinery.errors import Invalid, OperatorError, Permanent, Unauthorized, Unavailable
from vworkspace_odoo import CLOUD_EVENT, JsonSender

TOKEN = "t0ken-that-nobody-knows"
EVENT = {"specversion": "1.0", "id": "1", "data": {"message": "größer"}}


@contextmanager
def receiver(status: int = 202, headers: tuple[tuple[str, str], ...] = (), body: bytes = b"") -> Iterator[Any]:
    """A server that answers every request in one way, and what it was asked."""
    asked: list[tuple[str, dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, dict(self.headers), content))
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hooks/s3cret-path", asked
        finally:
            server.shutdown()
            thread.join()


def send(url: str, token: str = "") -> OperatorError | None:
    """The error of a delivery, if there is one."""

    async def main() -> OperatorError | None:
        async with JsonSender(url, lambda: token, media_type=CLOUD_EVENT) as far:
            try:
                await far.send(EVENT)
            except OperatorError as error:
                return error
        return None

    return anyio.run(main)


def test_an_event_is_sent_in_the_structured_mode_with_the_token() -> None:
    with receiver() as (url, asked):
        assert send(url, TOKEN) is None
        ((path, headers, content),) = asked
    assert (path, content) == ("/hooks/s3cret-path", EVENT)
    assert headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert headers["Authorization"] == f"Bearer {TOKEN}"


def test_without_a_token_no_header_is_sent() -> None:
    with receiver() as (url, asked):
        assert send(url) is None
        assert "Authorization" not in asked[0][1]


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, Invalid), (422, Invalid), (401, Unauthorized), (404, Permanent), (429, Unavailable), (503, Unavailable)],
)
def test_an_error_says_what_it_is_and_neither_token_nor_path(status: int, error: type[OperatorError]) -> None:
    with receiver(status, body=f"no: {TOKEN}".encode()) as (url, _):
        found = send(url, TOKEN)
    assert type(found) is error
    assert found.message.startswith(f"POST http://127.0.0.1: {status}")
    assert TOKEN not in found.message
    assert "s3cret" not in found.message


def test_a_receiver_may_ask_for_a_pause() -> None:
    with receiver(429, (("Retry-After", "7"),)) as (url, _):
        found = send(url)
    assert isinstance(found, Unavailable)
    assert found.retry_after == 7


def test_a_redirect_is_not_followed() -> None:
    with receiver() as (elsewhere, asked), receiver(307, (("Location", elsewhere),)) as (url, _):
        assert isinstance(send(url, TOKEN), Permanent)
        assert asked == []


def test_the_token_goes_to_no_other_machine_in_the_clear() -> None:
    found = send("http://hooks.example.com/s3cret", TOKEN)
    assert isinstance(found, Permanent)
    assert (
        found.message
        == "POST http://hooks.example.com: over http:// whoever is on the way reads the token; use https://"
    )


def test_a_receiver_that_is_not_there_can_be_tried_again() -> None:
    with receiver() as (url, _):
        pass
    found = send(url)
    assert isinstance(found, Unavailable)
    assert "s3cret" not in found.message


def test_a_secret_in_the_query_of_the_receiver_is_in_no_error_SEE_6() -> None:
    """Hooks of several services are signed in the query, and a server may quote what it was asked."""
    with receiver(400, (("Content-Type", "text/plain"),), b"cannot POST /hooks/s3cret-path?v=1&sig=AbCdEf123") as (
        url,
        _,
    ):
        error = send(f"{url}?v=1&sig=AbCdEf123")
    assert error is not None
    assert "AbCdEf123" not in error.message
    assert "s3cret-path" not in error.message


@pytest.mark.parametrize(
    "url", ["https://hooks.example\u200b.com/x", "https://hooks.example.com/\x7f", "https://m\u00fcnchen..de"]
)
def test_an_address_to_which_no_request_can_be_made_is_refused_at_the_start_SEE_6(url: str) -> None:
    """Later it would be an error at each notice, and for traces the end of the operator."""
    with pytest.raises(ValueError, match="no URL to which a request can be made"):
        JsonSender(url)
