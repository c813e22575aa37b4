"""The embedded API server on a real socket, for tests that speak HTTP to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User

from kubelab.http.serving import serve
from kubelab.server import ApiServer
from tests.support.patience import PATIENCE


@asynccontextmanager
async def embedded(*, window: int = 10_000, bookmark_interval: float = 30.0) -> AsyncIterator[tuple[ApiServer, str]]:
    """A serving API server and its URL. `window` is how many changes it remembers."""
    server = ApiServer(now=lambda: datetime.now(UTC), window=window)
    url = ""
    ready = anyio.Event()

    def tell(served_at: str) -> None:
        nonlocal url
        url = served_at
        ready.set()

    async with anyio.create_task_group() as group:

        async def run() -> None:
            await serve(server, ready=tell, bookmark_interval=bookmark_interval)

        group.start_soon(run)
        with anyio.fail_after(PATIENCE):
            await ready.wait()
        try:
            yield server, url
        finally:
            group.cancel_scope.cancel()


def config_of(url: str) -> SingleConfig:
    """How to reach a server that asks for no credential."""
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User()).get()
    assert config is not None
    return config
