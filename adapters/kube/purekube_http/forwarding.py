"""A forwarder of another client's requests to the API server of a kubeconfig, with the kubeconfig's credentials.

Nothing is decoded: method, path and body pass unchanged, and so does the answer's body. Only some headers are passed
on.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import aiohttp
import attrs
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core import exceptions

from purekube_http.authorization import MAX_AGE
from purekube_http.dispatch import complaint_of
from purekube_http.transport import ConnectionPool

_PASSED_ON: Final = ("accept", "user-agent", "kubectl-command")
"""The request headers that are passed on in addition to the media type: an API server uses or records them."""


class NoAnswer(Exception):
    """The error raised when the API server did not answer, or its answer was interrupted."""


@attrs.frozen(eq=False)
class ForwardedAnswer:
    """The API server's answer to a forwarded request. Its body has not been read yet. `close` ends its connection."""

    _response: aiohttp.ClientResponse

    @property
    def status(self) -> int:
        """The HTTP status code of the answer."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers for content type, retry, warnings and auditing, with names in lower case; no other headers."""
        known = ("content-type", "retry-after", "warning", "audit-id")
        return {name.lower(): value for name, value in self._response.headers.items() if name.lower() in known}

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces as they arrive. Raises NoAnswer if the answer is interrupted."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NoAnswer(type(error).__name__) from error

    async def body(self) -> bytes:
        """Return the whole body. Raises NoAnswer if the answer is interrupted."""
        return b"".join([chunk async for chunk in self.chunks()])

    def close(self) -> None:
        """Close the connection, even in the middle of the body."""
        self._response.close()


class Forwarder:
    """A forwarder of other clients' requests to the API server in `config`, with the credentials in `config`."""

    def __init__(self, config: SingleConfig) -> None:
        self._pool = ConnectionPool(
            config,
            connections=0,
            keep=True,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0),
            credential_max_age=MAX_AGE,
            observe=lambda method, code, seconds: None,
            before_write=lambda: None,
        )

    async def open(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ForwardedAnswer:
        """Send a request and return its answer, whose body has not been read yet. The caller closes the answer.

        `target` is the URL's path and query. Only a few of `headers`, which have names in lower case, are sent on.
        Raises NoAnswer if no answer comes, or there is no credential.
        """
        try:
            response = await self._pool.send(
                method,
                target,
                body=body or None,
                media_type=headers.get("content-type", "application/json"),
                headers={name: headers[name] for name in _PASSED_ON if name in headers},
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NoAnswer(type(error).__name__) from error
        except exceptions.ConfigError as error:
            raise NoAnswer(complaint_of(error)) from None
        return ForwardedAnswer(response)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()
