"""The surroundings of a command that looks at a cluster: the connection to it, and the time.

Both come from one object, so that the same commands can be replayed in virtual time.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio

from purekube.apimachinery.errors import OperatorError
from purekube_http import KubeApiClient, load_config
from purekube_run.process.errors import FAILURE, CommandError

T = TypeVar("T")
Work = Callable[[KubeApiClient], Awaitable[T]]
"""A function that does the work of a command on a connection."""


class CommandContext(Protocol):
    """The surroundings in which commands run."""

    def run(self, kubeconfig: Path | None, work: Work[T]) -> T:
        """Return the result of `work` on a connection. Raises what the connection and the work raise."""
        ...

    def now(self) -> datetime:
        """Return the time, in UTC."""
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
SITE: Final[ContextVar[CommandContext]] = ContextVar("site")
"""The surroundings of the commands in this context; by default the real cluster and time."""


def at_cluster(kubeconfig: Path | None, work: Work[T], *, status: int = FAILURE) -> T:
    """Run `work` on a connection.

    Raises CommandError with `status` for an error of the cluster, or if there is no cluster.
    """
    try:
        return SITE.get(_OUTSIDE).run(kubeconfig, work)
    except OperatorError as error:
        raise CommandError(error.message, status=status) from error


def now() -> datetime:
    """Return the present time of the surroundings."""
    return SITE.get(_OUTSIDE).now()
