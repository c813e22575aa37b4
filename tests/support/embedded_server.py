"""The embedded API server on a real socket, for tests that speak HTTP to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskStatus
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User

from kubelab.http.serving import serve_forever
from kubelab.server import ApiServer


@asynccontextmanager
async def embedded(*, window: int = 10_000, bookmark_interval: float = 30.0) -> AsyncIterator[tuple[ApiServer, str]]:
    """A serving API server and its URL. `window` is how many changes it remembers."""
    server = ApiServer(now=lambda: datetime.now(UTC), window=window)

    async def run(*, task_status: TaskStatus[str]) -> None:
        await serve_forever(server, ready=task_status.started, bookmark_interval=bookmark_interval)

    async with anyio.create_task_group() as group:
        try:
            yield server, await group.start(run)
        finally:
            group.cancel_scope.cancel()


def config_of(url: str) -> SingleConfig:
    """How to reach a server that asks for no credential."""
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User()).get()
    assert config is not None
    return config
