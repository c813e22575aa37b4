"""A client that posts JSON documents: notifications as CloudEvents (SEE-6), and traces to a collector (SEE-7)."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx2

from purekube.apimachinery.errors import Permanent, Unauthorized, Unavailable
from vworkspace_odoo.client import TOKEN_TEXT, http_client, without_token
from vworkspace_odoo.failures import refusal, transport_failure
from vworkspace_odoo.tls import cleartext_problem, default_verify

CLOUD_EVENT: Final = "application/cloudevents+json; charset=utf-8"
"""The media type of the structured mode of CloudEvents 1.0."""
_LONGEST_ANSWER: Final = 4096


class JsonSender:
    """A client of a receiver of JSON documents: it posts documents of `media_type` to `url`.

    `token` is called before each request; an empty token is not sent. A token is sent to another machine only over
    https://.

    Errors name only the host of the URL, because many URLs of receivers contain a secret in their path. Use the client
    as an async context manager. Raises ValueError if no request can be made to the URL, or if the environment names a
    proxy that cannot be used.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str] = lambda: "",
        *,
        media_type: str = "application/json",
        timeout: float = 10.0,
    ) -> None:
        _check_url(url)
        self._url, self._token, self._timeout = url, token, timeout
        self._media_type = media_type
        self._where = f"POST {urlsplit(url).scheme}://{urlsplit(url).hostname}"
        self._client = http_client(
            url, verify=default_verify(url), headers={"User-Agent": "vworkspace-operator"}, timeout=timeout
        )

    def __repr__(self) -> str:
        return f"JsonSender({self._where})"

    async def __aenter__(self) -> "JsonSender":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def send(self, document: Mapping[str, Any]) -> None:
        """Post one document to the receiver.

        Raises Invalid if the receiver will never accept the document, and another OperatorError if it was not delivered
        for another reason.
        """
        headers = {"Content-Type": self._media_type}
        if token := self._token():
            if not TOKEN_TEXT.fullmatch(token):
                raise Unauthorized(f"{self._where}: the token has characters that no header can hold")
            if cleartext_problem(self._url, allow_http=False):
                raise Permanent(f"{self._where}: over http:// whoever is on the way reads the token; use https://")
            headers["Authorization"] = f"Bearer {token}"
        try:
            with anyio.fail_after(2 * self._timeout):
                await self._exchange(json.dumps(document, ensure_ascii=False).encode(), headers, token)
        except TimeoutError:
            raise Unavailable(f"{self._where}: the answer did not end in time") from None
        except httpx2.HTTPError as error:
            raise transport_failure(error, self._where) from error

    async def _exchange(self, body: bytes, headers: Mapping[str, str], token: str) -> None:
        async with self._client.stream("POST", self._url, content=body, headers=dict(headers)) as answer:
            if answer.is_success:
                return
            if answer.is_redirect:
                raise Permanent(f"{self._where}: {answer.status_code} redirects: set the final URL")
            said = bytearray()
            async for chunk in answer.aiter_bytes():
                said += chunk
                if len(said) > _LONGEST_ANSWER:
                    break
            error = refusal(answer.status_code, answer.headers, bytes(said[:_LONGEST_ANSWER]), self._where)
            parts = urlsplit(self._url)
            for secret in filter(None, (token, parts.query, parts.path.strip("/"))):
                error = without_token(error, secret)
            raise error


def _check_url(url: str) -> None:
    """Raise ValueError if no request can be made to the URL, such as one with an invisible character in its host."""
    try:
        usable = bool(httpx2.URL(url).host)
    except (httpx2.InvalidURL, ValueError):
        usable = False
    if not usable:
        raise ValueError("is no URL to which a request can be made; look for characters that are not visible")
