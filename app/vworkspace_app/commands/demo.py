"""The command `demo`, which plays a story of the package `vworkspace_app.demo` and checks everything that it shows."""

import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Final

import anyio
import attrs
from starlette.applications import Starlette

from purekube.apimachinery.errors import OperatorError, unwrap_group
from purekube_http import KubeApiClient
from purekube_run.process import logs
from purekube_run.process.command_line import FAILURE, INTERRUPTED, USAGE, CommandError
from purekube_run.process.http import ConnectionLimits
from purekube_run.process.machine import SystemClock
from purekube_run.process.signals import run_unless_stopped, run_until_signal, run_until_stopped
from vworkspace_app import VERSION
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.servers import jobs_page
from vworkspace_app.demo.board import box_table, instance_table, operations_table
from vworkspace_app.demo.box_story import create_example_object, lines, open_box_scene, run_box_story
from vworkspace_app.demo.cluster_story import DemoClusterOptions, open_cluster_world, run_cluster_story
from vworkspace_app.demo.demo_world import DemoWorld, open_world, playground_lines, prepare_playground
from vworkspace_app.demo.narrator import Narrator, TooSlow
from vworkspace_app.demo.operations_scene import ENGINES, FLUX
from vworkspace_app.demo.operations_story import run_operations_story
from vworkspace_app.demo.scene import QUICK
from vworkspace_app.demo.stage import Stage
from vworkspace_app.demo.story import run_story
from vworkspace_app.manager.telemetry import LogOnly
from vworkspace_app.observability import serving_in_thread
from vworkspace_app.overview.checking import before_installing
from vworkspace_app.page.operator_page import OperatorPage
from vworkspace_app.page.screens import STREAMS, CombinedSource, ScreenSource
from vworkspace_app.page.serving import PageTelemetry
from vworkspace_app.page.site import Site
from vworkspace_core.overview.checkup import CheckResult

_HERE: Final = "127.0.0.1:0"
_OWN_CLUSTER: Final = DemoClusterOptions()
_GRACE: Final = 600.0
"""The seconds that an interrupted demo has to delete its objects from the cluster."""


async def _require(api: KubeApiClient) -> None:
    """Raise CommandError unless Flux is installed and the user has the rights to install the operator."""
    async for finding in before_installing(api):
        if finding.verdict is CheckResult.FAILED:
            raise CommandError(f"{finding.point}: {finding.told}. To fix: {finding.remedy}")


def _run_on_cluster(work: Callable[[anyio.Event], Awaitable[None]]) -> None:
    """Run the demo until its end or a signal.

    Raises CommandError if the demo fails or the API server refuses a request.
    """
    try:
        run_until_stopped(work, grace=_GRACE)
    except (OperatorError, BaseExceptionGroup) as group:
        error = unwrap_group(group)
        if isinstance(error, CommandError):
            raise error from None
        if isinstance(error, OperatorError):
            raise CommandError(error.message) from error
        raise


@attrs.define
class _Play:
    """A run of the demo. `is_told` becomes true when the story has ended, whether it succeeded or failed."""

    stage: Stage
    keep: bool
    operations: bool
    box: bool
    listen: str
    show: bool
    page: OperatorPage = attrs.field(factory=OperatorPage, init=False)
    is_told: bool = attrs.field(default=False, init=False)

    async def run(self) -> None:
        await (self._box() if self.box else self._operator())

    async def _operator(self) -> None:
        flux = FLUX if self.operations else QUICK
        engines = ENGINES if self.operations or self.keep else None
        draw, story = (operations_table, run_operations_story) if self.operations else (instance_table, run_story)
        telemetry = PageTelemetry(LogOnly(), self.page, SystemClock())
        async with open_world(flux, engines, telemetry) as world:
            self.stage.say(f"API server     {world.place.url}")
            self.stage.say(f"control plane  {world.control_url}")
            jobs = jobs_page(world.control, "/jobs")
            with self._served("page           ", self.page, jobs):
                with self.stage.live(lambda waiting_for: draw(world.spectator, world.control, waiting_for)):
                    await self._tell(lambda: story(world, self.stage))
                self._end()
                if self.keep:
                    await self._linger(world)

    async def on_cluster(self, options: DemoClusterOptions, stop: anyio.Event) -> None:
        """Run the demo's story in the cluster until its end or until `stop` is set.

        All objects of the demo are deleted before the function returns.
        """
        async with open_cluster_world(options, self.stage, _require) as world:
            self.stage.say(f"control plane  {world.control_url}")
            with self.stage.live(lambda waiting_for: instance_table(world.spectator, world.control, waiting_for)):
                await run_unless_stopped(stop, self._tell(lambda: run_cluster_story(world, self.stage)))
            if not stop.is_set():
                self._end()

    async def _box(self) -> None:
        async with open_box_scene(lambda components: self.page.attach(components, SystemClock())) as scene:
            self.stage.say(f"API server  {scene.place.url}")
            self.stage.say(f"box         {scene.box.name}: {scene.box.kind.crd_name}")
            with self._served("page        ", self.page):
                with self.stage.live(lambda waiting_for: box_table(scene.spectator, scene.kinds, waiting_for)):
                    await self._tell(lambda: run_box_story(scene, self.stage))
                self._end()
                if self.keep:
                    self.stage.act("A playground")
                    await create_example_object(scene)
                    for line in lines(scene):
                        self.stage.say(line)
                    await anyio.sleep_forever()

    @contextmanager
    def _served(self, label: str, *sources: ScreenSource) -> Iterator[None]:
        """Serve the demo's page while the block runs, and print its address. Do nothing if no page was requested."""
        if not self.listen:
            yield
            return
        site = Site(CombinedSource(*sources), "vworkspace-operator demo")
        limits = ConnectionLimits(streams=STREAMS)
        with serving_in_thread(Starlette(routes=site.routes()), self.listen, limits=limits) as url:
            self.stage.say(f"{label}{url}/")
            if self.show and not webbrowser.open(f"{url}/"):
                self.stage.say("no browser could be opened: open that address yourself")
            yield

    async def _tell(self, story: Callable[[], Awaitable[None]]) -> None:
        try:
            await story()
        except TooSlow as error:
            self.stage.verdicts.failures.append(str(error))

    def _end(self) -> None:
        self.is_told = True
        self.stage.verdict()

    async def _linger(self, world: DemoWorld) -> None:
        """Prepare the playground, print commands to try, and wait until a signal cancels the demo.

        If an object of the playground is not created in time, the existing objects are left running.
        """
        self.stage.act("A playground")
        with suppress(TooSlow):
            await prepare_playground(Narrator(world, self.stage))
        for line in playground_lines(world):
            self.stage.say(line)
        await anyio.sleep_forever()


def demo(
    *,
    keep: Annotated[
        bool, Parameter(help="Then leave an application running, and print commands to try on it.", negative="")
    ] = False,
    plain: Annotated[bool, Parameter(help="Plain lines, also on a terminal.", negative="")] = False,
    payloads: Annotated[
        bool, Parameter(name=("--payloads", "-v"), negative="--no-payloads", help="Show what was sent and stored.")
    ] = False,
    operations: Annotated[
        bool, Parameter(help="Day-2 operations instead: every engine, and what can go wrong.", negative="")
    ] = False,
    box: Annotated[
        bool, Parameter(help="An operator from a file instead: three phases, gates on children.", negative="")
    ] = False,
    listen: Annotated[
        str, Parameter(help="HOST:PORT of a page that shows what happens; with --keep any free port.")
    ] = "",
    show: Annotated[
        bool, Parameter(name="--open", help="Open the page in a browser, and leave everything running.", negative="")
    ] = False,
    cluster: Annotated[DemoClusterOptions, Parameter(name="*")] = _OWN_CLUSTER,
) -> int:
    """Show how a job of the control plane becomes a release of Flux, and how its result is reported, over real HTTP.

    Exit status 0 says that everything shown was also checked. With --kubeconfig the demo runs in two namespaces of its
    own with the roles that `manifests` prints; it needs Flux and the rights of an administrator. Examples:

        vworkspace-operator demo
        vworkspace-operator demo -v
        vworkspace-operator demo --operations
        vworkspace-operator demo --box
        vworkspace-operator demo --keep
        vworkspace-operator demo --open
        vworkspace-operator demo --kubeconfig kc --registry oci://registry.example.com/scratch
        vworkspace-operator demo --kubeconfig kc --chart oci://ghcr.io/stefanprodan/charts/podinfo --chart-version 6.7.0
    """
    on_cluster = cluster.kubeconfig is not None
    if not on_cluster and (cluster.registry or cluster.chart or cluster.chart_version):
        raise CommandError("--registry and --chart are for a cluster: name it with --kubeconfig", status=USAGE)
    if box and operations:
        raise CommandError("--box and --operations tell different stories: give one of them", status=USAGE)
    if on_cluster and (box or operations or keep or show or listen):
        message = (
            "--kubeconfig tells the main story and leaves nothing: of the other options give --plain or --payloads"
        )
        raise CommandError(message, status=USAGE)
    logs.configure(level="error", operator_version=VERSION)
    stage = Stage(plain=plain, payloads=payloads)
    keep = keep or show
    play = _Play(stage, keep, operations, box, listen or (_HERE if keep else ""), show)
    if on_cluster:
        cluster.named()
        _run_on_cluster(partial(play.on_cluster, cluster))
    else:
        run_until_signal(play.run)
    if not play.is_told:
        raise CommandError("interrupted", status=INTERRUPTED)
    return FAILURE if stage.verdicts.failures else 0
