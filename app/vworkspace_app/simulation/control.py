"""The connection of one replica to the control plane, in process, with latency."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final

from purekube.apimachinery.errors import Forbidden, Unauthorized
from purekube_run.simulation.connection import Link
from vworkspace_fake.controlplane.inprocess import InProcessControlPlane
from vworkspace_fake.controlplane.server import ControlPlaneServer
from vworkspace_odoo import ControlPlaneEndpoint

_FAR: Final = (0.01, 0.06)
"""Seconds between a replica and the control plane, at least and at most."""


class ControlConnection:
    """The `ControlPlane` of one replica. `on_token_used` is as with the connection over HTTP."""

    def __init__(
        self,
        server: ControlPlaneServer,
        link: Link,
        endpoint: Callable[[], ControlPlaneEndpoint],
        on_token_used: Callable[[str, bool], None],
    ) -> None:
        self._port = InProcessControlPlane(server, "")
        self._link = link
        self._endpoint = endpoint
        self._on_token_used = on_token_used

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, name)

        async def call(*args: Any) -> Any:
            await self._link.pass_pause()
            await self._link.travel(_FAR)
            token = self._endpoint().token
            self._port.use_token(token)
            try:
                answer = await method(*args)
            except (Unauthorized, Forbidden):
                self._link.must_live()
                self._heard(name, token, accepted=False)
                raise
            self._link.must_live()
            self._heard(name, token, accepted=True)
            return answer

        return call

    def _heard(self, name: str, token: str, *, accepted: bool) -> None:
        if name != "register":
            self._on_token_used(token, accepted)
