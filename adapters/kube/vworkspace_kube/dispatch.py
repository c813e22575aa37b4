"""Sending a request by a pool, and turning whatever prevents a response into an error of the core."""

import aiohttp
from lightkube.core.exceptions import ConfigError

from vworkspace_core.apimachinery.errors import OperatorError, Unauthorized
from vworkspace_core.apimachinery.secret_material import redact
from vworkspace_kube.errors import RequestInfo, ServerResponse, error_of, transport_error
from vworkspace_kube.requests import KubeRequest
from vworkspace_kube.transport import ConnectionPool

_COMPLAINT = 500


async def dispatch(
    pool: ConnectionPool, request: KubeRequest, *, timeout: aiohttp.ClientTimeout | None = None
) -> aiohttp.ClientResponse:
    """Send one request and return its answer, whatever it is. Raises Unavailable, Invalid, Unauthorized."""
    target, body = request.target, request.encoded()
    try:
        return await pool.send(
            request.method, target, body=body, media_type=request.media_type, accept=request.accept, timeout=timeout
        )
    except (aiohttp.ClientError, TimeoutError) as error:
        if isinstance(error.__cause__, OperatorError):
            raise error.__cause__ from None  # the fence, which was asked where the body was to leave
        raise transport_error(request.info, error) from None  # its text can hold our headers
    except ConfigError as error:
        said = str(redact(" ".join(str(error).split())))  # a plugin's complaint can have many lines
        raise Unauthorized(f"{request.info}: {said[:_COMPLAINT]}") from None


class TooLarge(Exception):
    """A success whose body is larger than was asked for."""


async def at_most(info: RequestInfo, response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body of a success, of `limit` bytes at most. Raises TooLarge, the connection closed; else like `accepted`."""
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
    """The body of a success; raises for anything else, and when no whole body comes."""
    try:
        body = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise transport_error(info, error) from None
    if response.status < 300:
        return body
    raise error_of(info, ServerResponse.read(response.status, response.headers, body))
