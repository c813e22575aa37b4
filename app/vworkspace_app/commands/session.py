"""The environment of commands: parameters that several share, the connection to a cluster, and the clock."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

import anyio

from purekube.apimachinery.errors import OperatorError
from purekube_http import KubeApiClient, load_config
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format
from vworkspace_app.arguments.signature import Parameter

Kubeconfig: TypeAlias = Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")]
SystemNamespace: TypeAlias = Annotated[str, Parameter(help="The operator's own namespace.")]
Output: TypeAlias = Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")]
Listen: TypeAlias = Annotated[str, Parameter(help="HOST:PORT; port 0 takes a free one.")]
DryRun: TypeAlias = Annotated[bool, Parameter(help="Only tell which objects.", negative="")]
Crds: TypeAlias = Annotated[
    list[Path] | None, Parameter(help="Folder or file with CRDs of the kinds that the box makes or reads; repeatable.")
]
Tenants: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        name="--namespace",
        help="Only where objects are made in this namespace: a Role there; repeatable. Without it, everywhere.",
    ),
]
Former: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        help="Instead: a role for pruning this kind, which is not made any more; as Job/jobs.v1.batch, repeatable."
    ),
]
LeaderElect: TypeAlias = Annotated[bool, Parameter(help="Grant the Leases of an election.")]
CertManager: TypeAlias = Annotated[bool, Parameter(help="The same, with a certificate by cert-manager.", negative="")]


def form_of(output: str) -> Format | None:
    """Return the data format that `--output` selects; None for `text` and `table`, which are for people."""
    return None if output in ("text", "table") else Format(output)


T = TypeVar("T")
Work = Callable[[KubeApiClient], Awaitable[T]]
"""A function that does the work of a command on a connection."""


class CommandContext(Protocol):
    """The environment in which commands run: the connection to a cluster, and the clock. Tests replace it."""

    def run(self, kubeconfig: Path | None, work: Work[T]) -> T:
        """Return the result of `work` on a connection to the kubeconfig's cluster.

        Raises the errors of the connection and of `work`.
        """
        ...

    def now(self) -> datetime:
        """Return the present time in UTC."""
        ...


class _Outside:
    """The environment outside tests: the cluster of a kubeconfig, and this machine's clock."""

    def run(self, kubeconfig: Path | None, work: Work[T]) -> T:
        async def main() -> T:
            async with KubeApiClient(load_config(kubeconfig)) as api:
                return await work(api)

        return anyio.run(main)

    def now(self) -> datetime:
        return datetime.now(UTC)


_OUTSIDE: Final = _Outside()
SITE: Final[ContextVar[CommandContext]] = ContextVar("site")
"""The environment of commands in the present context; if unset, the real one."""


def at_cluster(kubeconfig: Path | None, work: Work[T]) -> T:
    """Run `work` on a connection to the kubeconfig's cluster, and return its result.

    Raises CommandError for an error of the cluster, or if there is no cluster.
    """
    try:
        return SITE.get(_OUTSIDE).run(kubeconfig, work)
    except OperatorError as error:
        raise CommandError(error.message) from error


def now() -> datetime:
    """Return the present time, by the clock of the commands' environment."""
    return SITE.get(_OUTSIDE).now()
