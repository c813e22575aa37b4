"""The parts of the demo on a user's cluster: real Flux, an embedded control plane, and the operator.

The control plane is the server that offers jobs to the operator. The operator has the roles that the command
`manifests` prints.
"""

import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import attrs

from kubelab.flux.storage import release_document
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, SECRET
from purekube_http import KubeApiClient, load_config, with_token
from purekube_run.controller.lookups import all_of, find
from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app import VERSION
from vworkspace_app.arguments.signature import Parameter
from vworkspace_app.demo.cluster_chart import CHART, NamedChart, named_chart, pushed, registry_of
from vworkspace_app.demo.cluster_ground import ClusterFixture, prepared
from vworkspace_app.demo.demo_world import start_operator
from vworkspace_app.demo.scene import NAME, Application
from vworkspace_app.demo.spectator import PATIENCE, WATCHED, Spectator
from vworkspace_app.demo.stage import Stage
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import CAPABILITY_PREFIX
from vworkspace_core.instances.context import Settings
from vworkspace_fake.controlplane.server import ControlPlaneServer

_MARKS: Final = {f"{CAPABILITY_PREFIX}upgrade": "helm", f"{CAPABILITY_PREFIX}runbook": "workflow"}
_PUSHED: Final = Application(
    chart=CHART,
    values={},
    annotations=_MARKS,
    broken="it has a Service, and the namespace has no room for one",
    failure="exceeded quota",
)


@attrs.frozen
class ClusterWorld:
    """The parts of the demo on a user's cluster: the cluster, the control plane, and the recorder of changes to
    objects.
    """

    ground: ClusterFixture
    control: ControlPlaneServer
    spectator: Spectator
    application: Application
    control_url: str
    clocks_differ: timedelta = timedelta(seconds=1)
    """The maximum lag of the cluster's clock that is not an error: its timestamps are in whole seconds."""

    @property
    def admin(self) -> KubeApiClient:
        """The API connection of the kubeconfig's user."""
        return self.ground.api

    async def running(self) -> list[str]:
        """Return the chart versions that are deployed now, from the release records that Helm keeps in Secrets."""
        selector = f"owner=helm,status=deployed,name={NAME}"
        records = await all_of(self.admin, SECRET, selector=selector, namespace=self.application.namespace)
        charts = (release_document(record)["chart"]["metadata"] for record in records)
        return [str(chart["version"]).partition("+")[0] for chart in charts]

    async def repair(self) -> None:
        """Delete the quota for Services, because of which the upgrade to one chart version fails, so that a retry of
        this upgrade succeeds.
        """
        await self.ground.make_room()

    async def serves(self, kind: Kind) -> bool:
        """Report whether the cluster has the CRD of a kind, which the demo takes as a sign that the kind's controller
        runs.
        """
        return await find(self.admin, ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name)) is not None


@attrs.frozen
class DemoClusterOptions:
    """The options of the demo on a cluster: a kubeconfig, and a registry to push charts to or a published chart.

    With a kubeconfig, either `registry` or `chart` with `chart_version` must be given. `timeout` is the time limit of
    each step in seconds. Without a kubeconfig, the demo has a cluster of its own.
    """

    kubeconfig: Annotated[
        Path | None,
        Parameter(help="Tell the main story on this cluster with its own Flux, and take everything away again."),
    ] = None
    registry: Annotated[
        str, Parameter(help="With --kubeconfig: oci://HOST[/PATH], where the demo pushes a chart of its own.")
    ] = ""
    chart: Annotated[str, Parameter(help="With --kubeconfig: oci://HOST/PATH/NAME of a chart that is there.")] = ""
    chart_version: Annotated[str, Parameter(help="The version of --chart.")] = ""
    timeout: Annotated[float, Parameter(help="With --kubeconfig: seconds that each step is waited for.")] = PATIENCE

    def named(self) -> NamedChart | None:
        """Return the published chart that the options name, or None if charts are to be pushed to a registry instead.

        Raises CommandError for options that contradict each other or are invalid.
        """
        if bool(self.registry) == bool(self.chart):
            message = "--kubeconfig needs a chart: give --registry to push one, or --chart and --chart-version"
            raise CommandError(message, status=USAGE)
        if self.chart:
            return named_chart(self.chart, self.chart_version)
        registry_of(self.registry, "")
        return None


@asynccontextmanager
async def open_cluster_world(
    options: DemoClusterOptions, stage: Stage, require: Callable[[KubeApiClient], Awaitable[None]]
) -> AsyncIterator[ClusterWorld]:
    """Create the demo's objects in the user's cluster, start the operator, and yield both as a `ClusterWorld`.

    All created objects are deleted after the block. `stage` prints what happens. `require` is called first, and raises
    an error if the cluster lacks something that the demo needs. The block must not be cancelled, because the operator
    must run while its application is deleted. Raises CommandError for invalid options, if the chart cannot be pushed,
    and if objects could not be deleted.
    """
    started, named = time.monotonic(), options.named()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-demo-")))
        config = load_config(options.kubeconfig)
        api = await stack.enter_async_context(KubeApiClient(config))
        await require(api)
        ground = ClusterFixture(api, f"vworkspace-demo-{secrets.token_hex(3)}")
        application = _application(stack, options, named, ground)
        stage.say(f"namespaces     {ground.namespace}, {ground.applications}")
        await stack.enter_async_context(prepared(ground, stage))
        if named is None:
            await ground.forbid_services()
        operator = await stack.enter_async_context(KubeApiClient(with_token(config, await ground.token())))
        spectator = Spectator(api, started, (*WATCHED, OPERATION), ground.applications, options.timeout)
        settings = OperatorSettings(
            Settings(cluster_id=ground.name), identity="demo", namespace=ground.namespace, version=VERSION
        )
        control, control_url = await start_operator(stack, folder, operator, spectator, settings)
        stack.push_async_callback(ground.remove_applications)
        yield ClusterWorld(ground, control, spectator, application, control_url)


def _application(
    stack: AsyncExitStack, options: DemoClusterOptions, named: NamedChart | None, ground: ClusterFixture
) -> Application:
    here = attrs.evolve(_PUSHED, cluster=ground.name, namespace=ground.applications)
    if named is not None:
        return attrs.evolve(here, url=named.url, chart=named.name, first=named.version, broken="")
    registry = registry_of(options.registry, ground.name)
    stack.enter_context(pushed(registry))
    return attrs.evolve(here, url=registry.oci)
