"""The sending of a request through a connection pool. Each failure to get a response becomes an OperatorError."""

import aiohttp
from lightkube.core import exceptions

from purekube.apimachinery.errors import OperatorError, Unauthorized
from purekube.apimachinery.secret_material import redact
from purekube.ports import KubeRequest
from purekube_http.errors import ServerResponse, error_of, transport_error
from purekube_http.requests import METHODS, encoded, headers_of, media_type_of, url_of
from purekube_http.transport import ConnectionPool

_COMPLAINT = 500


async def dispatch(
    pool: ConnectionPool, request: KubeRequest, *, timeout: aiohttp.ClientTimeout | None = None, url: str = ""
) -> aiohttp.ClientResponse:
    """Send one request and return its response, whatever its status.

    A `url` that is not empty replaces the resource's path. Raises Invalid for a body that cannot be encoded as JSON,
    Unauthorized if the credentials cannot be read, and Unavailable if there is no response. Before a
    write, the pool checks that this process is still the leader; an error of that check is raised as it is.
    """
    body = encoded(request)
    try:
        return await pool.send(
            METHODS[request.verb],
            url or url_of(request),
            body=body,
            media_type=media_type_of(request),
            headers=headers_of(request),
            timeout=timeout,
        )
    except (aiohttp.ClientError, TimeoutError) as error:
        if isinstance(error.__cause__, OperatorError):
            raise error.__cause__ from None  # the fence stopped the request when its body was to be sent
        raise transport_error(request, error) from None  # the text may include our headers
    except exceptions.ConfigError as error:
        raise Unauthorized(f"{request}: {complaint_of(error)}") from None


def complaint_of(error: "exceptions.ConfigError") -> str:
    """Return why there is no credential, in one line without secrets. A plugin's own message may have many lines."""
    return str(redact(" ".join(str(error).split())))[:_COMPLAINT]


class TooLarge(Exception):
    """The error that `at_most` raises for a successful response whose body has more bytes than allowed."""


async def at_most(request: KubeRequest, response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the body of a successful response. Raises TooLarge if the body has more than `limit` bytes.

    For a response that is not successful, raises the OperatorError for its status.
    """
    if response.status >= 300:
        return await accepted(request, response)
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > limit:
                response.close()
                raise TooLarge
    except (aiohttp.ClientError, TimeoutError) as error:
        raise transport_error(request, error) from None
    return bytes(body)


async def accepted(request: KubeRequest, response: aiohttp.ClientResponse) -> bytes:
    """Return the body of `response` if its status is a success.

    Otherwise raises the OperatorError for its status, such as NotFound for 404. If the body breaks off, raises
    Unavailable.
    """
    try:
        body = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise transport_error(request, error) from None
    if response.status < 300:
        return body
    raise error_of(request, ServerResponse.read(response.status, response.headers, body))
