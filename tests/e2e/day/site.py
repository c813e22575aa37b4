"""A cluster under virtual time that the commands reach as they are: Flux is there, the operator once it is installed.

Commands run in a thread of their own, one at a time. What they do in the cluster is done in the loop of the story, so
that time passes there while they wait, and nowhere else: every run tells the same.
"""

import contextvars
import os
import queue
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import anyio
import attrs
from anyio.abc import TaskGroup

from kubelab.clock import VirtualClock
from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.http.discovery import version_info
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE
from purekube.ports import PatchType
from purekube_run.controller.election import Elector, Fence
from purekube_run.controller.manager import Election
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.shared.session import SITE, CommandContext, Work
from vworkspace_app.install.names import NAME
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import operator_settings
from vworkspace_app.settings import load
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.operations.templates import Templates

T = TypeVar("T")

SYSTEM = "vworkspace-system"
DEPLOYED = ObjectRef(DEPLOYMENT, SYSTEM, NAME)
POD = f"{NAME}-7d9f8c6b5d-x2kqp"
_ACCOUNT = f"system:serviceaccount:{SYSTEM}:{NAME}"
_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated")


class Desk(InProcessKube):
    """An administrator's connection, with the questions that only people ask."""

    async def review(self, manifest: Manifest, *, kind: Kind) -> Manifest:
        """May somebody do something?"""
        return await self.create(manifest, kind=kind, field_manager="kubectl")

    async def server_version(self) -> str:
        """Of the embedded server."""
        return str(version_info()["gitVersion"])


@attrs.define
class Day:
    """The cluster of a day, and whoever works there."""

    clock: VirtualClock
    server: ApiServer
    desk: Desk
    flux: FluxSimulator
    group: TaskGroup
    operator: anyio.CancelScope | None = None

    @classmethod
    def begun(cls, group: TaskGroup, behaviour: FluxBehaviour) -> "Day":
        """A cluster with Flux in it, and nothing of ours."""
        clock = VirtualClock()
        server = ApiServer(now=clock.now, collects=True, rbac=True)
        desk = Desk(server)
        for definition in flux_crds():
            run_sync(desk.create(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="flux"))
        controllers = InProcessKube(server)
        day = cls(clock, server, desk, FluxSimulator(controllers, behaviour), group)
        group.start_soon(run_simulator, controllers, clock, day.flux)
        group.start_soon(day._deploy)
        return day

    # --- the operator, which a played Deployment controller runs -----------------------------------------------------

    async def _deploy(self) -> None:
        """A pod as long as there is the Deployment; namespaces end, once everything in them has."""
        while True:
            await self.clock.sleep(0.5)
            deployment = await self._found(DEPLOYED)
            if deployment is not None and self.operator is None:
                await self._start(deployment)
            elif deployment is None and self.operator is not None:
                self.operator.cancel()
                self.operator = None
            await self._end_namespace()

    async def _found(self, ref: ObjectRef) -> Manifest | None:
        try:
            return await self.desk.get(ref)
        except NotFound:
            return None

    async def _start(self, deployment: Manifest) -> None:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        flags = dict(flag.removeprefix("--").split("=", 1) for flag in container["args"] if "=" in flag)
        on = [flag.removeprefix("--") for flag in container["args"][1:] if "=" not in flag]
        said = {**flags, **{flag.removeprefix("no-"): not flag.startswith("no-") for flag in on}}
        loaded = load({name.replace("-", "_"): value for name, value in said.items()}, {})
        settings = operator_settings(loaded.settings, loaded.settings.cluster_id, Templates())
        api = InProcessKube(self.server, caller=Caller(_ACCOUNT, _GROUPS, NAME))
        elector = Elector(
            api,
            Fence(monotonic=self.clock.monotonic),
            namespace=SYSTEM,
            name=NAME,
            identity=POD,
            field_manager=FIELD_MANAGER,
            wall=self.clock.now,
            random=lambda: 0.5,
        )
        election = Election(elector.wait_leading, lambda: ((elector.name, elector.is_leader),))
        settings = attrs.evolve(settings, identity=POD)
        manager = Manager(api, self.clock, settings, election=election, random=lambda: 0.5)
        self.operator = anyio.CancelScope()
        self.group.start_soon(self._work, self.operator, elector, manager)
        await manager.ready.wait()
        status = {"status": {"replicas": 2, "availableReplicas": 2, "readyReplicas": 2}}
        await self.desk.patch(
            DEPLOYED, status, patch_type=PatchType.MERGE, field_manager="deployment-controller", subresource="status"
        )

    @staticmethod
    async def _work(scope: anyio.CancelScope, elector: Elector, manager: Manager) -> None:
        with scope:
            async with anyio.create_task_group() as group:
                group.start_soon(elector.run)
                group.start_soon(manager.run)

    async def _end_namespace(self) -> None:
        """What a namespace controller does once nothing is left in it: a server in memory does it when it is asked."""
        namespace = await self._found(ObjectRef(NAMESPACE, None, SYSTEM))
        if get_path(namespace, "metadata", "deletionTimestamp"):
            self.server.run_gc()

    # --- commands ----------------------------------------------------------------------------------------------------

    async def command(self, words: Sequence[str], given: str, environment: Mapping[str, str]) -> tuple[int, str, str]:
        """Exit status, standard output and standard error of one command."""
        asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        session = _Session(self.desk, self.clock.now, asked)
        context = contextvars.copy_context()
        out, err = StringIO(), StringIO()

        def work() -> None:
            SITE.set(session)
            asked.put(run_command(words))

        thread = threading.Thread(target=context.run, args=(work,))
        token = SITE.set(session)
        try:
            with redirect_stdout(out), redirect_stderr(err), _as_if(environment, given):
                thread.start()
                while not isinstance(desired := asked.get(timeout=60), int):
                    await desired.done()
                thread.join()
        finally:
            SITE.reset(token)
        return desired, out.getvalue(), err.getvalue()


@attrs.frozen
class _Wanted:
    """Something that a command does in the cluster, and what came of it."""

    work: Callable[[], Awaitable[Any]]
    answer: "queue.SimpleQueue[tuple[Any, BaseException | None]]" = attrs.field(factory=queue.SimpleQueue)

    async def done(self) -> None:
        """Do it here, and tell the command."""
        try:
            self.answer.put((await self.work(), None))
        except Exception as error:
            self.answer.put((None, error))


@attrs.frozen
class _Session(CommandContext):
    """What a command stands on: its work goes to the loop of the story."""

    desk: Desk
    time: Callable[[], datetime]
    asked: "queue.SimpleQueue[Any]"

    def run(self, kubeconfig: Path | None, work: Work[T]) -> T:
        """The result, once the story has done it."""
        desired = _Wanted(lambda: work(self.desk))  # type: ignore[arg-type]
        self.asked.put(desired)
        result, error = desired.answer.get(timeout=60)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def now(self) -> datetime:
        """The time of the cluster."""
        return self.time().astimezone(UTC)


@contextmanager
def _as_if(environment: Mapping[str, str], given: str) -> Iterator[None]:
    """With these variables, and something to read."""
    before, stdin = dict(os.environ), sys.stdin
    os.environ.update(environment)
    sys.stdin = StringIO(given)
    try:
        yield
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(before)
