"""The demo on a user's cluster: real Flux, an embedded control plane, the operator, and the acts of the story.

The control plane is the server that offers jobs to the operator. The operator has the roles that the command
`manifests` prints. One Operation runs for each engine whose controller is installed in the cluster, before the
application is deleted in the last act.

The names of all objects that the demo creates are unique to one run, except those of CRDs: an existing CRD is used and
not deleted.
"""

import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import anyio
import attrs

from kubelab.downstream.kinds import WORKFLOW_TEMPLATE
from kubelab.flux.storage import release_document
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import NotFound, Unavailable
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    HELM_RELEASE,
    NAMESPACE,
    RBAC_KINDS,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE_ACCOUNT,
    VELERO_BACKUP,
    WORKFLOW,
    service_account_user,
)
from purekube.ports import PatchType
from purekube_http import KubeApiClient, load_config, with_token
from purekube_run.controller.lookups import all_of, find
from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app import USER_AGENT, VERSION
from vworkspace_app.arguments import Parameter
from vworkspace_app.demo.cluster_chart import CHART, NamedChart, named_chart, pushed, registry_of
from vworkspace_app.demo.demo_world import start_operator
from vworkspace_app.demo.narrator import PATIENCE, WATCHED, Spectator, TooSlow, phase_is
from vworkspace_app.demo.operations_scene import OperationRequest
from vworkspace_app.demo.scene import NAME, WANTED, Application
from vworkspace_app.demo.stage import Stage
from vworkspace_app.demo.story import PlayedWorld, StoryRunner
from vworkspace_app.install import InstallOptions, rights, tenant
from vworkspace_app.install.names import NAME as OPERATOR
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION, OWN_KINDS
from vworkspace_core.api.labels import CAPABILITY_PREFIX, NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.instances.context import Settings

T = TypeVar("T")
_KINDS: Final = {kind.kind: kind for kind in (*RBAC_KINDS, SERVICE_ACCOUNT)}
_MANAGER: Final = "vworkspace-demo"
_TOKEN_SECONDS: Final = 3600
_CLOCKS_DIFFER: Final = timedelta(seconds=1)
"""The maximum lag of the cluster's clock that is not an error: its timestamps are in whole seconds."""
_LOOK: Final = 0.2
_PATIENCE: Final = 120.0
"""The time limit in seconds for an object to appear or disappear."""
_MARKS: Final = {f"{CAPABILITY_PREFIX}upgrade": "helm", f"{CAPABILITY_PREFIX}runbook": "workflow"}
_PUSHED: Final = Application(
    chart=CHART,
    values={},
    annotations=_MARKS,
    broken="it has a Service, and the namespace has no room for one",
    failure="exceeded quota",
)
_CHECKUP: Final = "checkup"
_PAUSE: Final = {"entrypoint": "main", "templates": [{"name": "main", "suspend": {"duration": "1"}}]}
"""The spec of an Argo Workflow that only pauses for a second, and so needs no image."""
_ONE_VERSION: Final = "the chart is named with one version; with --registry the demo pushes several"


@attrs.frozen
class ClusterFixture:
    """The objects that one run of the demo creates in a user's cluster, and deletes at the end.

    Their names begin with `name`, which is unique to the run. `defined` has the names of the CRDs that the run created
    because they did not exist.
    """

    api: KubeApiClient
    name: str
    defined: list[str] = attrs.field(factory=list)

    @property
    def namespace(self) -> str:
        """The operator's own namespace in this run of the demo."""
        return self.name

    @property
    def applications(self) -> str:
        """The managed namespace in which the operator works in this run."""
        return f"{self.name}-apps"

    async def token(self) -> str:
        """Return a token of the operator's ServiceAccount."""
        return await self.api.token_of(ObjectRef(SERVICE_ACCOUNT, self.namespace, OPERATOR), _TOKEN_SECONDS)

    # --- making ------------------------------------------------------------------------------------------------------

    async def make(self) -> None:
        """Create all objects of the demo's run in the cluster."""
        await self._define()
        gate = {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}
        for name, labels in ((self.namespace, {}), (self.applications, gate)):
            manifest = NAMESPACE.manifest(name, metadata={"labels": labels})
            await self.api.create(manifest, kind=NAMESPACE, field_manager=_MANAGER)
        account = SERVICE_ACCOUNT.manifest(OPERATOR, self.namespace)
        await self.api.create(account, kind=SERVICE_ACCOUNT, field_manager=_MANAGER)
        for manifest in self._printed():
            await self.api.apply(manifest, kind=_KINDS[manifest["kind"]], field_manager=_MANAGER, force=False)

    def _printed(self) -> Iterator[dict[str, Any]]:
        """Yield the roles and accounts that the command `manifests` prints, for the ServiceAccount of this run's
        operator.
        """
        options = InstallOptions(namespace=self.namespace, user=service_account_user(self.namespace, OPERATOR))
        yield from rights(options)
        yield from tenant(self.applications, options)

    async def _define(self) -> None:
        for crd in crd_manifests():
            ref = ref_of(crd, CUSTOM_RESOURCE_DEFINITION)
            if await find(self.api, ref) is None:
                await self.api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager=_MANAGER)
                self.defined.append(ref.name)
        for kind in OWN_KINDS:
            if not await _until(partial(self._is_served, kind)):
                raise CommandError(f"{kind.crd_name} is defined, and the API server does not serve it")

    async def _is_served(self, kind: Kind) -> bool:
        with suppress(NotFound):  # KindMissing is one, too
            await self.api.list(kind, limit=1)
            return True
        return False

    async def forbid_services(self) -> None:
        """Forbid Services in the managed namespace by a quota, and wait until the quota is in force.

        Raises CommandError if the quota is not in force within the time limit.
        """
        ref = ObjectRef(RESOURCE_QUOTA, self.applications, _MANAGER)
        manifest = RESOURCE_QUOTA.manifest(ref.name, ref.namespace, spec={"hard": {"services": "0"}})
        await self.api.create(manifest, kind=RESOURCE_QUOTA, field_manager=_MANAGER)
        if not await _until(partial(self._is_in_force, ref)):
            raise CommandError(
                f"ResourceQuota {ref.namespace}/{ref.name} is not in force: does kube-controller-manager run?"
            )

    async def _is_in_force(self, quota: ObjectRef) -> bool:
        return get_path(await self.api.get(quota), "status", "hard") is not None

    async def make_room(self) -> None:
        """Delete the quota that forbids Services in the managed namespace, so that the failed upgrade can succeed."""
        await self.api.delete(ObjectRef(RESOURCE_QUOTA, self.applications, _MANAGER))

    # --- taking away -------------------------------------------------------------------------------------------------

    async def remove_applications(self) -> None:
        """Delete all Operations and instances, and wait until they are gone. The operator has to run meanwhile."""
        for kind in (OPERATION, APPLICATION_INSTANCE):
            await self._remove_all(kind)

    async def _remove_all(self, kind: Kind) -> bool:
        return await _until(partial(_retry_unavailable, partial(self._ask_to_go, kind)))

    async def _ask_to_go(self, kind: Kind) -> bool:
        """Request the deletion of the objects of a kind in the managed namespace. Return True if there is none left."""
        items = await all_of(self.api, kind, namespace=self.applications)
        for item in items:
            if "deletionTimestamp" not in metadata(item):
                await self._delete(ref_of(item, kind))
        return not items

    async def remove(self) -> list[str]:
        """Delete all objects of the run. Return the names of objects that could not be deleted."""
        return await _retry_unavailable(self._remove)

    async def _remove(self) -> list[str]:
        for kind in (OPERATION, APPLICATION_INSTANCE):  # the operator has ended: no controller will remove them
            await self._let_go(kind)
        if not await self._remove_all(HELM_RELEASE):
            await self._let_go(HELM_RELEASE)
        for manifest in self._printed():
            if not _KINDS[manifest["kind"]].namespaced:
                await self._delete(ref_of(manifest, _KINDS[manifest["kind"]]))
        await self._delete(ObjectRef(CLUSTER, None, self.name))
        for event in await all_of(self.api, EVENT, namespace="default"):
            if get_path(event, "regarding", "name") == self.name:
                await self._delete(ref_of(event, EVENT))
        refs = [ObjectRef(NAMESPACE, None, name) for name in (self.applications, self.namespace)]
        refs += [ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name) for name in self.defined]
        for ref in refs:
            if not await self._is_used(ref):
                await self._delete(ref)
        return [f"{ref.kind.kind} {ref.name}" for ref in refs if not await _until(partial(self._has_gone, ref))]

    async def _let_go(self, kind: Kind) -> None:
        """Delete the remaining objects of a kind in the managed namespace, even without the operator: remove their
        finalizers.
        """
        bare = {"metadata": {"finalizers": None}}
        for item in await all_of(self.api, kind, namespace=self.applications):
            ref = ref_of(item, kind)
            await self._delete(ref)
            with suppress(NotFound):
                await self.api.patch(ref, bare, patch_type=PatchType.MERGE, field_manager=_MANAGER)

    async def _is_used(self, ref: ObjectRef) -> bool:
        """Report whether `ref` is a CRD with objects outside the managed namespace, so that it must not be deleted."""
        kind = next((kind for kind in OWN_KINDS if kind.crd_name == ref.name), None)
        if kind is None:
            return False
        others = (get_path(item, "metadata", "namespace") for item in await all_of(self.api, kind))
        return any(namespace != self.applications for namespace in others)

    async def _delete(self, ref: ObjectRef) -> None:
        with suppress(NotFound):
            await self.api.delete(ref)

    async def _has_gone(self, ref: ObjectRef) -> bool:
        return await find(self.api, ref) is None


async def _until(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Call `holds` repeatedly until it returns True. Return False if that takes longer than the time limit."""
    with anyio.move_on_after(_PATIENCE):
        while not await holds():
            await anyio.sleep(_LOOK)
        return True
    return False


async def _retry_unavailable(act: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `act`. Retry while the API server is unavailable, up to the time limit."""
    limit = anyio.current_time() + _PATIENCE
    while True:
        try:
            return await act()
        except Unavailable:
            if anyio.current_time() > limit:
                raise
            await anyio.sleep(1)


@asynccontextmanager
async def prepared(ground: ClusterFixture, stage: Stage) -> AsyncIterator[None]:
    """Create the demo's objects (`ground`) before the block, and delete them after it, even after an error.

    `stage` prints what happens. Raises CommandError if an object cannot be deleted.
    """
    try:
        await ground.make()
        yield
    finally:
        stage.say("")
        stage.say("taking everything away again")
        with anyio.CancelScope(shield=True):
            left = await ground.remove()
        if left:
            raise CommandError(f"this stays in the cluster, delete it: {', '.join(left)}")


@attrs.frozen
class ClusterWorld(PlayedWorld):
    """The parts of the demo on a user's cluster: the cluster, the control plane, and the recorder of changes to
    objects.

    `admin` is the API connection of the kubeconfig's user.
    """

    ground: ClusterFixture

    async def running(self) -> list[str]:
        """Return the chart versions that are deployed now, from the release records that Helm keeps in Secrets."""
        selector = f"owner=helm,status=deployed,name={NAME}"
        records = await all_of(self.admin, SECRET, selector=selector, namespace=self.application.namespace)
        charts = (release_document(record)["chart"]["metadata"] for record in records)
        return [str(chart["version"]).partition("+")[0] for chart in charts]

    async def repair(self) -> None:
        """Delete the quota for Services, because of which the upgrade to one chart version fails."""
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
        api = await stack.enter_async_context(KubeApiClient(config, user_agent=USER_AGENT))
        await require(api)
        ground = ClusterFixture(api, f"vworkspace-demo-{secrets.token_hex(3)}")
        application = _application(stack, options, named, ground)
        stage.say(f"namespaces     {ground.namespace}, {ground.applications}")
        await stack.enter_async_context(prepared(ground, stage))
        if named is None:
            await ground.forbid_services()
        credential = with_token(config, await ground.token())
        operator = await stack.enter_async_context(KubeApiClient(credential, user_agent=USER_AGENT))
        spectator = Spectator(api, started, (*WATCHED, OPERATION), ground.applications, options.timeout)
        settings = OperatorSettings(
            Settings(cluster_id=ground.name), identity="demo", namespace=ground.namespace, version=VERSION
        )
        control, control_url = await start_operator(stack, folder, operator, spectator, settings)
        stack.push_async_callback(ground.remove_applications)
        yield ClusterWorld(api, spectator, control, control_url, application, _CLOCKS_DIFFER, ground)


def _application(
    stack: AsyncExitStack, options: DemoClusterOptions, named: NamedChart | None, ground: ClusterFixture
) -> Application:
    here = attrs.evolve(_PUSHED, cluster=ground.name, namespace=ground.applications)
    if named is not None:
        return attrs.evolve(here, url=named.url, chart=named.name, first=named.version, broken="")
    registry = registry_of(options.registry, ground.name)
    stack.enter_context(pushed(registry))
    return attrs.evolve(here, url=registry.oci)


async def run_cluster_story(world: ClusterWorld, stage: Stage) -> None:
    """Play all acts of the demo's story on a user's cluster, one after the other; `stage` prints each step.

    Raises TooSlow if a step takes too long; the error includes the condition Ready of the story's instance.
    """
    try:
        await _run_story(StoryRunner(world, stage), world)
    except TooSlow as error:
        raise TooSlow(f"{error}; {await _obstacle(world)}") from error


async def _obstacle(world: ClusterWorld) -> str:
    """Return the instance's Ready condition in words, to explain why a step took too long."""
    instance = await find(world.admin, world.application.ref())
    if instance is None:
        return "the instance is not there"
    ready = condition_of(instance, "Ready")
    return f"the instance says Ready={ready.get('status')}, {ready.get('reason')}: {ready.get('message')}"


async def _run_story(teller: StoryRunner, world: ClusterWorld) -> None:
    stage, application = teller.stage, world.application
    await teller.eight_steps()
    if application.broken:
        await teller.play(teller.failing_upgrade, teller.recovery, teller.replay, teller.conflict)
    else:
        await teller.replay(application.first, 7)
        for what in ("an upgrade that fails", "its recovery", "a human editor"):
            stage.passed_over(what, _ONE_VERSION)
    await _operations(teller, world)
    await teller.deletion()


async def _operations(teller: StoryRunner, world: ClusterWorld) -> None:
    """Run an Operation for each engine whose controller is installed.

    An engine is skipped if it needs objects that the cluster lacks.
    """
    stage = teller.stage
    stage.act("Operations", "as far as their controllers are in this cluster")
    if world.application.broken:
        await _run(teller, OperationRequest("upgrade", "Upgrade", "helm", {"targetVersion": WANTED}))
        stage.check("the version that it names runs", wanted=[WANTED], actual=await world.running())
    else:
        stage.passed_over("engine helm", _ONE_VERSION)
    if await world.serves(WORKFLOW):
        template = WORKFLOW_TEMPLATE.manifest(_CHECKUP, world.application.namespace, spec=_PAUSE)
        await world.admin.create(template, kind=WORKFLOW_TEMPLATE, field_manager="vworkspace-demo")
        await _run(teller, OperationRequest(_CHECKUP, "Runbook", "workflow", {"workflowTemplate": _CHECKUP}))
    else:
        stage.passed_over("engine workflow", f"Argo Workflows is not in this cluster ({WORKFLOW.crd_name})")
    why = "its backups go to a storage location of yours, which the demo leaves alone"
    is_there = await world.serves(VELERO_BACKUP)
    stage.passed_over("engine velero", why if is_there else f"Velero is not in this cluster ({VELERO_BACKUP.crd_name})")


async def _run(teller: StoryRunner, request: OperationRequest) -> None:
    stage, application, since = teller.stage, teller.application, teller.mark
    stage.step("·", teller.now, f"{request.engine}: {request.type} {request.name}")
    job = request.job_in(application.namespace)
    entry = teller.world.control.enqueue(application.cluster, job_id=f"job-{request.name}", **job)
    ended = await teller.see(phase_is(request.name, "Succeeded"), f"{request.name} Succeeded", since)
    teller.show("·", ended, "Succeeded")
    result = await teller.result(entry)
    teller.posted("·", result)
    stage.check(f"{entry.id} succeeded", wanted="succeeded", actual=get_path(result, "outcome"))
