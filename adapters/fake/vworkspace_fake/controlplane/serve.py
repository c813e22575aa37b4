"""The embedded control plane served by uvicorn, in the running asyncio task."""

from collections.abc import Callable, Sequence

import uvicorn
from starlette.routing import BaseRoute

from kubelab.http.listener import bind, serve_until_cancelled, url_of
from vworkspace_fake.controlplane.http import control_plane_app
from vworkspace_fake.controlplane.server import ControlPlaneServer
from vworkspace_fake.controlplane.waiting import LongPolls


async def serve(
    server: ControlPlaneServer,
    host: str,
    port: int,
    *,
    admin_token: str,
    ready: Callable[[str], None],
    further: Sequence[BaseRoute] = (),
) -> None:
    """Serve the control plane until cancelled. `ready` is called with the base URL once connections are accepted.

    `further` routes are served as well. Port 0 takes a free port. Raises OSError if the address is unavailable. On
    cancellation open polls are ended with an empty answer and connections are closed.
    """
    polls = LongPolls(server)
    app = control_plane_app(server, polls, admin_token=admin_token, further=further)
    listener = bind(host, port)
    url = url_of(host, listener)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, date_header=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    await serve_until_cancelled(config, listener, ready=lambda: ready(url), ending=polls.close)
