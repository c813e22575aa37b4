"""The start of `run`: wait for the API server, for a credential, and for the election's Lease (PULL-8, RUN-4)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import OperatorError, Unauthorized, Unavailable
from purekube.apimachinery.secret_material import without_user
from purekube.ports import Clock, KubeApi
from purekube_run.controller.candidacy import Candidacy, Connect, candidate
from purekube_run.controller.manager import Election
from purekube_run.process.command_line import CommandError
from purekube_run.process.machine import Machine
from vworkspace_app.credentials.live_credential import CredentialsSource
from vworkspace_app.credentials.registration import bootstrap, can_bootstrap
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.loading import find_installation
from vworkspace_app.settings.table import lease_policy, shard_in
from vworkspace_core.api.installation import Installation
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.credentials.secret import Credentials


@asynccontextmanager
async def leader_election(
    settings: RunSettings, connect: Connect, machine: Machine | None = None
) -> AsyncIterator[Election]:
    """Take part in leader election while the block runs, if the settings enable it, and release the Lease afterwards.

    Yield the functions that wait until this process is the leader, and check it before each write. `connect` connects
    to the API server for the Lease; `machine` has the clocks, None for this machine's. Raises LeaseLost if the Lease is
    lost during the block.
    """
    if not settings.leader_elect:
        yield Election()
        return
    candidacy = Candidacy(
        settings.leader_elect_resource_namespace or settings.namespace,
        settings.leader_elect_resource_name,
        FIELD_MANAGER,
        lease_policy(settings),
        settings.leader_elect_identity,
        shard_in(settings),
    )
    async with candidate(candidacy, connect, machine or Machine()) as election:
        yield election


_log = structlog.get_logger("operator")
_RETRY_SECONDS: Final = 2.0
_CREATE: Final = (
    "kubectl -n {namespace} create secret generic vworkspace-agent-credentials"
    " --from-literal=control-plane-base-url=https://odoo.example.com --from-literal=cluster-id=ID"
    " --from-file=token=./token (or: vworkspace-operator register; without a control plane: run --no-agent)"
)


_TROUBLE = (
    "the API server is away; trying again",
    "the API server's certificate is not trusted: is this its authority? Trying again",
)


async def first_credentials(
    api: KubeApi, source: CredentialsSource, server: str, elected: Callable[[], Awaitable[None]], clock: Clock
) -> tuple[Credentials, Installation]:
    """Return the credential for the control plane, and how the operator was installed, once both can be read.

    Wait until the API server answers and `source` has a credential. The reason for waiting is logged, and again when it
    changes. If only a one-time token exists, register with it at the control plane. Only the leader registers, so
    `elected` waits until this process is the leader. `server` is the URL of the API server, for messages. Raises
    CommandError if the API server rejects the operator's token, and if the credential comes from a token file that
    cannot be used.
    """
    last_error = ""
    waiting = _Waiting(clock)
    while True:
        try:
            credentials = await _read_or_register(api, source, waiting, elected)
            installation = await find_installation(api, source.namespace, agent=source.agent)
        except Unavailable as error:
            if error.message != last_error:
                _log.warning(_TROUBLE["certificate" in error.message], server=server, error=error.message)
            last_error = error.message
            await clock.sleep(_RETRY_SECONDS)
        except Unauthorized as error:
            raise CommandError(
                f"the API server {without_user(server)} rejected the operator's token (401): {error.message}"
            ) from error
        else:
            if last_error:
                _log.info("the API server answers", server=server)
            return credentials, installation


@attrs.define
class _Waiting:
    """The wait for a missing or incomplete credential. Each obstacle is logged once until it changes."""

    clock: Clock
    _told: str = attrs.field(default="", init=False)

    async def once(self, namespace: str, problem: str) -> None:
        """Log `problem` unless it was logged last, then wait until the next attempt."""
        if problem != self._told:
            _log.warning("waiting for the credential", missing=problem, create=_CREATE.format(namespace=namespace))
        self._told = problem
        await self.clock.sleep(_RETRY_SECONDS)


async def _can_enrol(api: KubeApi, source: CredentialsSource) -> bool:
    """Report whether the cluster can register with a one-time token. The result is False if that may not be read."""
    try:
        return await can_bootstrap(api, source)
    except (Unavailable, Unauthorized):
        raise
    except OperatorError:
        return False


async def _read_or_register(
    api: KubeApi, source: CredentialsSource, waiting: _Waiting, elected: Callable[[], Awaitable[None]]
) -> Credentials:
    """Return the credential once it exists: created by a user, or obtained by registration with a one-time token."""
    while True:
        try:
            return await source.read()
        except CommandError as error:
            if source.token_file is not None:
                raise
            if not await _can_enrol(api, source):
                await waiting.once(source.namespace, error.message)
                continue
        # Only the leader registers: two would take the credential from each other. The others wait for the Secret.
        with anyio.move_on_after(_RETRY_SECONDS) as waited:
            await elected()
        if not waited.cancelled_caught:
            await bootstrap(api, source, waiting.clock)
