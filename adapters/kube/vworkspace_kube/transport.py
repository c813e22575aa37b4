"""Two connection pools to one API server: one for requests, one for watches.

lightkube's single pool holds 100 connections, and a watch keeps one for minutes: with many watches every
later request fails with a pool timeout (its edge 13). A watch pool of its own cannot starve requests.
"""

import socket
import ssl
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2
from lightkube import AsyncClient
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError
from lightkube.core.generic_client import GenericAsyncClient

from vworkspace_core.errors import Permanent
from vworkspace_kube.credentials import AuthorityFile, TokenFileAuth

__all__ = ["BeforeWrite", "Observe", "Pool", "open_pool"]

Observe = Callable[[str, str], None]
"""Told of each request: method, and the status code or `<error>` (rest_client_requests_total, RUN-5)."""

BeforeWrite = Callable[[], None]
"""Called each time that bytes of a writing request are about to go to its connection; raises to stop it (the
leader's fence, RUN-4)."""

# What audit logs show; without a fieldManager the server would name the writer after it too (S-53).
_USER_AGENT = f"vworkspace-operator/{version('vworkspace-operator')}"

_READS = ("GET", "HEAD", "OPTIONS")

# The moments at which a connection is about to write: after waiting for the pool, connecting and TLS. A server acts
# on a request when it is complete, so one that is stopped before its body has not happened.
_SENDING = (".send_request_headers.started", ".send_request_body.started")


class Pool(httpx2.AsyncHTTPTransport):
    """A connection pool that is watched (metrics) and fenced (leader election)."""

    def __init__(
        self,
        context: ssl.SSLContext,
        limits: httpx2.Limits,
        *,
        authorities: AuthorityFile | None,
        observe: Observe,
        before_write: BeforeWrite,
    ) -> None:
        super().__init__(verify=context, limits=limits, socket_options=_keepalive())
        self._authorities = authorities
        self._observe = observe
        self._before_write = before_write

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request. The fence is asked first, so as not to wait for nothing, and when bytes are to leave."""
        if self._authorities is not None:
            self._authorities.refresh()
        if request.method not in _READS:
            self._before_write()
            request.extensions["trace"] = self._guard
        try:
            response = await super().handle_async_request(request)
        except httpx2.HTTPError:
            self._observe(request.method, "<error>")
            raise
        self._observe(request.method, str(response.status_code))
        return response

    async def _guard(self, moment: str, _info: Any) -> None:
        if moment.endswith(_SENDING):
            self._before_write()


def open_pool(
    config: SingleConfig,
    *,
    connections: int | None,
    keepalive: int,
    timeout: httpx2.Timeout,
    credential_max_age: float,
    observe: Observe,
    before_write: BeforeWrite,
) -> tuple[AsyncClient, GenericAsyncClient]:
    """A lightkube client with a pool of its own, and its inner client whose prepare step we use.

    Raises Permanent when certificates or keys of the configuration cannot be loaded.
    """
    config = _without_tls(config)
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=keepalive, keepalive_expiry=30.0)
    context = _tls(config)
    authorities = _authorities(config, context, credential_max_age)
    pool = Pool(context, limits, authorities=authorities, observe=observe, before_write=before_write)
    client = AsyncClient(config=config, timeout=timeout, transport=pool, trust_env=False)
    inner = client._client
    inner._client.headers.update({"User-Agent": _USER_AGENT, "Accept": "application/json"})
    if config.user and config.user.token_file:
        inner._client.auth = TokenFileAuth(Path(config.user.token_file), max_age=credential_max_age)
    return client, inner


def _without_tls(config: SingleConfig) -> SingleConfig:
    """For a plain http:// server: no trust store is read, which is most of a client's start."""
    if not config.cluster.server.lower().startswith("http://"):
        return config
    return config._replace(cluster=Cluster(server=config.cluster.server, insecure=True))


def _tls(config: SingleConfig) -> ssl.SSLContext:
    try:
        return verify_cluster(config.cluster, config.user or User(), config.abs_file, trust_env=False)
    except (OSError, ValueError, ConfigError) as error:  # ssl.SSLError is an OSError; ValueError: broken base64
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise Permanent(f"certificates of context {config.context_name} cannot be loaded: {reason}") from error


def _authorities(config: SingleConfig, context: ssl.SSLContext, max_age: float) -> AuthorityFile | None:
    path = config.cluster.certificate_auth
    return AuthorityFile(Path(config.abs_file(path)), context, max_age=max_age) if path else None


def _keepalive() -> list[tuple[int, int, int]]:
    """TCP keepalive, so that the kernel too notices a peer that vanished (30 s idle, then three probes 10 s apart)."""
    wanted = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    fine = [(socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in wanted if hasattr(socket, name)]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *fine]
