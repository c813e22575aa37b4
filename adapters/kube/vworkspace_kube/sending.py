"""Handing a request to httpx2, and turning whatever prevents an answer into an error of the core."""

import httpx2
from lightkube.core.exceptions import ConfigError
from lightkube.core.generic_client import GenericAsyncClient

from vworkspace_core.errors import Unauthorized
from vworkspace_core.kinds.secrets import redact
from vworkspace_kube.errors import Answer, Asked, error_of, transport_error
from vworkspace_kube.requests import KubeRequest

__all__ = ["accepted", "dispatch"]

_COMPLAINT = 500


async def dispatch(
    client: GenericAsyncClient, request: KubeRequest, *, timeout: httpx2.Timeout | None = None, stream: bool = False
) -> httpx2.Response:
    """Send one request and return its answer, whatever it is. Raises Unavailable, Permanent, Unauthorized."""
    basic = request.build(client)
    basic.timeout = timeout
    outgoing = client.build_adapter_request(basic)
    try:
        return await client._client.send(outgoing, stream=stream)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise transport_error(request.asked, error) from error
    except OSError as error:  # sockets speak httpx2; this is an exec plugin that cannot be started
        raise Unauthorized(f"{request.asked}: credential plugin {error.filename}: {error.strerror}") from error
    except ConfigError as error:
        said = str(redact(" ".join(str(error).split())))  # a plugin's complaint can have many lines
        raise Unauthorized(f"{request.asked}: {said[:_COMPLAINT]}") from None
    except (ValueError, KeyError, TypeError):  # lightkube takes the plugin's output apart without checks
        raise Unauthorized(f"{request.asked}: the credential plugin's answer holds no token") from None


async def accepted(asked: Asked, response: httpx2.Response) -> bytes:
    """The body of a success; raises for anything else. The body of a refused stream is read here as well."""
    body = await response.aread()
    if response.is_success:
        return body
    raise error_of(asked, Answer.read(response.status_code, response.headers, body))
