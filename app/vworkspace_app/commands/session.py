"""What a command that looks at a cluster stands on: the connection to it, and the time there.

Both are one object, so that a day can be replayed in virtual time by the commands as they are.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio

from vworkspace_app.process.errors import FAILURE, CommandError
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_kube import KubeApiClient, load_config

T = TypeVar("T")
Work = Callable[[KubeApiClient], Awaitable[T]]
"""What is done with a connection."""


class Site(Protocol):
    """Where commands do their work."""

    def run(self, kubeconfig: Path | None, work: Work[T]) -> T:
        """The result of `work` on a connection. Raises what the connection and the work raise."""
        ...

    def now(self) -> datetime:
        """The time, in UTC."""
        ...


class _Outside:
    """The cluster of a kubeconfig, and the time of this machine."""

    def run(self, kubeconfig: Path | None, work: Work[T]) -> T:
        async def main() -> T:
            async with KubeApiClient(load_config(kubeconfig)) as api:
                return await work(api)

        return anyio.run(main)

    def now(self) -> datetime:
        return datetime.now(UTC)


_OUTSIDE: Final = _Outside()
SITE: Final[ContextVar[Site]] = ContextVar("site")
"""Where the commands of this context do their work, where it is not outside."""


def at_cluster(kubeconfig: Path | None, work: Work[T], *, status: int = FAILURE) -> T:
    """Do it on a connection. Raises CommandError with `status` for what the cluster says and for no cluster."""
    try:
        return SITE.get(_OUTSIDE).run(kubeconfig, work)
    except OperatorError as error:
        raise CommandError(error.message, status=status) from error


def now() -> datetime:
    """The time that a command goes by."""
    return SITE.get(_OUTSIDE).now()
