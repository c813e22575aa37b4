"""The environment of commands: the connection to a cluster, and the clock. Tests replace both."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio

from purekube.apimachinery.errors import OperatorError
from purekube_http import KubeApiClient, load_config
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format
from vworkspace_app import USER_AGENT


def form_of(output: str) -> Format | None:
    """Return the data format (YAML or JSON) that the value of `--output` selects; None for `text` and `table`."""
    return None if output in ("text", "table") else Format(output)


T = TypeVar("T")
Work = Callable[[KubeApiClient], Awaitable[T]]
"""A function that does the work of a command with a client of the API server."""


class CommandContext:
    """The environment of commands: the cluster of a kubeconfig, and this machine's clock. Tests replace it."""

    def run(self, kubeconfig: Path | None, work: Work[T]) -> T:
        """Call `work` with a client of the kubeconfig's cluster, and return its result.

        Raises the errors of the connection and of `work`.
        """

        async def main() -> T:
            async with KubeApiClient(load_config(kubeconfig), user_agent=USER_AGENT) as api:
                return await work(api)

        return anyio.run(main)

    def now(self) -> datetime:
        """Return the present time in UTC."""
        return datetime.now(UTC)


_OUTSIDE: Final = CommandContext()
SITE: Final[ContextVar[CommandContext]] = ContextVar("site")
"""The environment that commands use in the present context. If unset, they use the real cluster and clock."""


def client_of(config: Any, **options: Any) -> KubeApiClient:
    """Return a client for `config`, which is of `load_config`, with further options of KubeApiClient.

    Raises CommandError if the certificates of the context cannot be loaded.
    """
    try:
        return KubeApiClient(config, user_agent=USER_AGENT, **options)
    except OperatorError as error:
        raise CommandError(error.message) from error


def at_cluster(kubeconfig: Path | None, work: Work[T]) -> T:
    """Call `work` with a client of the kubeconfig's cluster, and return its result.

    Raises CommandError if no cluster is configured, and for any error of the API server.
    """
    try:
        return SITE.get(_OUTSIDE).run(kubeconfig, work)
    except OperatorError as error:
        # The message of the API server is this word, which does not say whose fault it is.
        hint = ": the credential in the kubeconfig is not accepted" if error.message.endswith(": Unauthorized") else ""
        raise CommandError(error.message + hint) from error


def now() -> datetime:
    """Return the present time in UTC, by the clock of the environment in which commands run.

    This is the clock of this machine, unless a test has replaced the environment (`SITE`).
    """
    return SITE.get(_OUTSIDE).now()
