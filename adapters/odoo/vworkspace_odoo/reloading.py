"""A `ControlPlane` that reads the credentials before each request: a changed Secret needs no restart (PULL-8).

It is a client of the control plane, which is the Odoo server that sends jobs (units of work) to the cluster.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs

from purekube.apimachinery.errors import Forbidden, Invalid, JobClosed, NotFound, Permanent
from purekube.apimachinery.secret_material import redact
from vworkspace_core.control_plane.port import Fetched
from vworkspace_odoo.client import HttpControlPlane
from vworkspace_odoo.tls import tls_context


@attrs.frozen
class ControlPlaneEndpoint:
    """The URL of the control plane (the Odoo server that sends jobs), and the credentials for it.

    `ca`, `certificate` and `private_key` are PEM strings; empty means none. With `allow_http` the token may be sent
    over plain http:// to another machine.
    """

    url: str = attrs.field(repr=lambda url: repr(redact(url)))
    token: str = attrs.field(repr=False)
    ca: str = attrs.field(default="", repr=False)
    certificate: str = attrs.field(default="", repr=False)
    private_key: str = attrs.field(default="", repr=False)
    allow_http: bool = False


@attrs.define(eq=False)
class _Connections:
    """The connections to one endpoint.

    `made_for` are the settings for which they were made. `users` is the number of calls that use them now.
    """

    control: HttpControlPlane
    made_for: tuple[str, ...] = attrs.field(repr=False)
    users: int = 0


class ReloadingControlPlane:
    """A client of the control plane whose URL and credentials may change while it runs.

    The control plane is the Odoo server that sends jobs (units of work). `endpoint` is called before each request.
    Connections are kept while URL and certificates stay the same; a new token is used from the next request on.
    Connections to an earlier endpoint are closed when the last request on them ends. Its methods raise the errors of
    the port `ControlPlane`, and Permanent for unusable certificates. `on_token_used` is called with the token of each
    answered request, and with True if the server accepted the token, False if it answered 401 or 403. It is not called
    for registration, which has a token of its own. Use the client as an async context manager.
    """

    def __init__(
        self,
        endpoint: Callable[[], ControlPlaneEndpoint],
        on_token_used: Callable[[str, bool], None] | None = None,
        **options: Any,
    ) -> None:
        self._endpoint = endpoint
        self._on_token_used = on_token_used or (lambda _token, _accepted: None)
        self._options = options
        self._connections: _Connections | None = None

    def __repr__(self) -> str:
        return f"ReloadingControlPlane({redact(self._endpoint().url)!r})"

    async def __aenter__(self) -> "ReloadingControlPlane":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections to the control plane."""
        if self._connections is not None:
            await self._connections.control.aclose()

    async def fetch(self, cluster_id: str, wait_seconds: int) -> Fetched:
        """Return the jobs (units of work of the control plane) for the cluster.

        If there is none, wait at most `wait_seconds` for a job (long poll), then return a result without jobs.
        """
        async with self._current() as control:
            return await control.fetch(cluster_id, wait_seconds)

    async def ack(self, job_id: str) -> None:
        """Confirm to the control plane that a job was received."""
        async with self._current() as control:
            await control.ack(job_id)

    async def status(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Report progress of an open job, which has no final result yet. `body` is the JSON of the report."""
        async with self._current() as control:
            await control.status(job_id, body)

    async def result(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Report the final result of a job. `body` is the JSON of the report."""
        async with self._current() as control:
            await control.result(job_id, body)

    async def events(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Send a batch of events that belong to no open job (a job without a final result).

        Each event is a JSON object.
        """
        async with self._current() as control:
            await control.events(batch)

    async def register(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange the one-time token in `body` for a long-lived one, and return the answer that contains it."""
        async with self._connected() as control:
            return await control.register(body)

    async def rotate(self) -> Mapping[str, Any]:
        """Request a new credential to replace the present one, and return the answer that contains it."""
        async with self._current() as control:
            return await control.rotate()

    @asynccontextmanager
    async def _current(self) -> AsyncIterator[HttpControlPlane]:
        async with self._connected() as control:
            token = self._endpoint().token
            try:
                yield control
            except Forbidden:
                self._on_token_used(token, False)
                raise
            # The server judged the request itself, so it has accepted the token.
            except (NotFound, Invalid, JobClosed):
                self._on_token_used(token, True)
                raise
            self._on_token_used(token, True)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[HttpControlPlane]:
        used, retired = self._for(self._endpoint())
        idle = retired if retired is not None and retired.users == 0 else None
        used.users += 1
        try:
            # Nothing is awaited before the call: meanwhile the settings could change again, and another call would
            # close these connections, or the new token would be sent to the former address.
            yield used.control
        finally:
            used.users -= 1
            if idle is not None:
                await _close(idle)
            if used.users == 0 and used is not self._connections:
                await _close(used)

    def _for(self, endpoint: ControlPlaneEndpoint) -> tuple[_Connections, _Connections | None]:
        """Return two values: the connections for `endpoint`, and the earlier connections that they replace.

        The second value is None if no earlier connections are replaced.
        """
        desired = (endpoint.url, endpoint.ca, endpoint.certificate, endpoint.private_key)
        present = self._connections
        if present is not None and present.made_for == desired:
            return present, None
        self._connections = _Connections(self._connect(endpoint), desired)
        return self._connections, present

    def _connect(self, endpoint: ControlPlaneEndpoint) -> HttpControlPlane:
        context = tls_context(endpoint.ca, endpoint.certificate, endpoint.private_key)
        try:
            options = {"ssl_context": context, "allow_http": endpoint.allow_http, **self._options}
            return HttpControlPlane(endpoint.url, lambda: self._endpoint().token, **options)
        except ValueError as error:
            raise Permanent(str(error)) from None


async def _close(used: _Connections) -> None:
    with anyio.CancelScope(shield=True):
        await used.control.aclose()
