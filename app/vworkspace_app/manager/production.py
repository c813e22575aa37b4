"""The manager with its production adapters: HTTP to the API server and to the control plane.

The commands `run` and `demo` both start this manager, so that the demo shows what runs in a cluster.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import structlog

from purekube.apimachinery.errors import OperatorError, Unauthorized
from purekube.ports import KubeApi
from purekube_run.controller.manager import Election
from purekube_run.process.command_line import CommandError
from purekube_run.process.machine import Machine
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_app.credentials.live_credential import CredentialsSource, CredentialWatch, Live
from vworkspace_app.credentials.registration import find_bootstrap
from vworkspace_app.credentials.rotation import RotationManager
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import Telemetry
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.credentials.performer import CredentialPerformer
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_odoo import CLOUD_EVENT, ControlPlaneEndpoint, JosePayloads, JsonSender, ReloadingControlPlane

if TYPE_CHECKING:
    from purekube.composites.composite import Composite
    from purekube.composites.status_writers import StatusWriter
    from purekube_run.reconcilers.controllers import GivenController

_log = structlog.get_logger("operator")

ConnectControl: TypeAlias = Callable[
    [Callable[[], ControlPlaneEndpoint], Callable[[str, bool], None]], AbstractAsyncContextManager[ControlPlane]
]
"""A function that connects to the control plane while a block runs.

Its arguments are a function that returns the present endpoint, and a callback that is called with each token that was
used, and with True if the control plane accepted it.
"""


@asynccontextmanager
async def production_manager(
    api: KubeApi,
    settings: OperatorSettings,
    source: CredentialsSource,
    credentials: Live[Credentials],
    *,
    agent: AgentSettings | None,
    election: Election | None = None,
    telemetry: Telemetry | None = None,
    composites: "Sequence[Composite]" = (),
    controllers: "Sequence[GivenController]" = (),
    writers: "Sequence[StatusWriter]" = (),
    machine: Machine | None = None,
    connect: ConnectControl = ReloadingControlPlane,
) -> AsyncIterator[Manager]:
    """Yield a manager on `api` with the production adapters.

    It pulls jobs through `connect` if `agent` is given. `credentials` has the first result of `source`, and is updated
    while the block runs whenever `source` has others. `machine` has the clock and the random numbers; None means those
    of this machine. The other parameters are passed to `Manager`, which describes them.
    """
    machine, used = machine or Machine(), credentials
    watch = CredentialWatch(source, credentials, machine.clock, machine.random)
    async with AsyncExitStack() as stack:
        options = None
        if agent is not None:
            opened = _agent_options(api, machine, connect, settings, agent, source, watch)
            options, used = await stack.enter_async_context(opened)
        receiver = _receiver("notify", settings.notify_url, settings.notify_token_file, CLOUD_EVENT)
        collector = _receiver("traces", settings.traces_url, settings.traces_token_file, "application/json")
        for client in filter(None, (receiver, collector)):
            await stack.enter_async_context(client)
        group = await stack.enter_async_context(anyio.create_task_group())
        group.start_soon(watch.run, name="credentials")
        yield Manager(
            api,
            machine.clock,
            settings,
            agent=options,
            credentials=used,
            election=election,
            telemetry=telemetry,
            receiver=receiver,
            collector=collector,
            composites=composites,
            controllers=controllers,
            writers=writers,
            random=machine.random,
        )
        group.cancel_scope.cancel()


def _receiver(way: str, url: str, file: Path | None, media_type: str) -> JsonSender | None:
    """Return a client of the receiver at `url`, or None for an empty URL.

    `file` has the receiver's token, and is read at each request. `way` is the first word of the options' names in error
    messages, such as `notify`. Raises CommandError if the environment names a proxy that cannot be used.
    """

    def token() -> str:
        try:
            return "" if file is None else file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthorized(f"--{way}-token-file {file}: cannot be read ({type(error).__name__})") from None

    try:
        return JsonSender(url, token, media_type=media_type) if url else None
    except ValueError as error:
        raise CommandError(f"--{way}-url: {error}") from None


@asynccontextmanager
async def _agent_options(
    api: KubeApi,
    machine: Machine,
    connect: ConnectControl,
    settings: OperatorSettings,
    agent: AgentSettings,
    source: CredentialsSource,
    watch: CredentialWatch,
) -> AsyncIterator[tuple[AgentOptions, Live[Credentials]]]:
    """Yield the options of the job agent with production adapters, and the credentials with the token in use."""
    async with (
        connect(
            lambda: endpoint_of(rotation.live.current, source.allow_http), lambda *heard: rotation.token_used(*heard)
        ) as control,
        anyio.create_task_group() as group,
    ):
        first = watch.live.current
        performer = CredentialPerformer(api, control, source.namespace, first.url, first.cluster_id)

        def locked_out() -> None:
            group.start_soon(_find_registration_token, api, source.namespace, rotation)

        async def reread() -> bool:
            await watch.refresh()
            return rotation.token_changed()

        rotation = RotationManager(
            performer, watch.live, machine.clock, jitter=machine.random(), on_locked_out=locked_out
        )
        options = AgentOptions(
            control,
            KubeJobStore(api, settings.namespace, lock=anyio.Lock(), report=_log_store_error),
            agent,
            None if source.token_file else rotation,
            reread,
            lambda credentials: JosePayloads(credentials.signing_key, credentials.decryption_key),
        )
        yield options, rotation.live
        group.cancel_scope.cancel()


async def _find_registration_token(api: KubeApi, namespace: str, rotation: RotationManager) -> None:
    """Look for a registration token in the cluster, and pass it to `rotation`, which can then register the cluster
    again.
    """
    present = rotation.live.current
    try:
        way = await find_bootstrap(api, namespace, cluster_id=present.cluster_id, url=present.url)
    except OperatorError as error:
        _log.warning("no token is accepted, and no registration token can be looked for", error=error.message)
        return
    if way is not None:
        rotation.set_bootstrap_token(way.bootstrap_token)


def _log_store_error(message: str) -> None:
    _log.error("the job store: " + message)


def endpoint_of(credentials: Credentials, allow_http: bool = False) -> ControlPlaneEndpoint:
    """Return the endpoint for requests to the control plane: its URL, with the token and certificates in `credentials`.

    `allow_http` permits a URL without TLS.
    """
    return ControlPlaneEndpoint(
        credentials.url,
        credentials.token,
        credentials.ca,
        credentials.certificate,
        credentials.private_key,
        allow_http,
    )
