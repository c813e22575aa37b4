"""Sending a request through a pool; each failure to get a response becomes an error of the core."""

import aiohttp
from lightkube.core.exceptions import ConfigError

from purekube.apimachinery.errors import OperatorError, Unauthorized
from purekube.apimachinery.secret_material import redact
from purekube_http.errors import RequestInfo, ServerResponse, error_of, transport_error
from purekube_http.requests import KubeRequest
from purekube_http.transport import ConnectionPool

_COMPLAINT = 500


async def dispatch(
    pool: ConnectionPool, request: KubeRequest, *, timeout: aiohttp.ClientTimeout | None = None, user: str = ""
) -> aiohttp.ClientResponse:
    """Send one request, impersonating `user` if any, and return its response, whatever its status.

    Raises Unavailable, Invalid, Unauthorized.
    """
    target, body = request.target, request.encoded()
    headers = {**({"Accept": request.accept} if request.accept else {}), **({"Impersonate-User": user} if user else {})}
    try:
        return await pool.send(
            request.method, target, body=body, media_type=request.media_type, headers=headers, timeout=timeout
        )
    except (aiohttp.ClientError, TimeoutError) as error:
        if isinstance(error.__cause__, OperatorError):
            raise error.__cause__ from None  # the fence stopped the request when its body was to be sent
        raise transport_error(request.info, error) from None  # the text may include our headers
    except ConfigError as error:
        said = str(redact(" ".join(str(error).split())))  # a plugin's message may have many lines
        raise Unauthorized(f"{request.info}: {said[:_COMPLAINT]}") from None


class TooLarge(Exception):
    """A successful response whose body exceeds the limit."""


async def at_most(info: RequestInfo, response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the body of a success, of at most `limit` bytes.

    Raises TooLarge, after closing the connection, and otherwise what `accepted` raises.
    """
    if response.status >= 300:
        return await accepted(info, response)
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > limit:
                response.close()
                raise TooLarge
    except (aiohttp.ClientError, TimeoutError) as error:
        raise transport_error(info, error) from None
    return bytes(body)


async def accepted(info: RequestInfo, response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a success; raise an error for any other status, and for an incomplete body."""
    try:
        body = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise transport_error(info, error) from None
    if response.status < 300:
        return body
    raise error_of(info, ServerResponse.read(response.status, response.headers, body))
