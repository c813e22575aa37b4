"""A page to look at: the embedded API server, an operator on it, and the page over real HTTP.

Everything but the page's own server runs on one event loop in a thread; a test acts on it by `do`.
"""

import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

import anyio
import attrs
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette

from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.cluster.simulators import simulate
from kubelab.flux import FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule
from kubelab.inprocess import InProcessKube, run_sync
from purekube.apimachinery.errors import AlreadyExists
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.ports import KubeApi, PatchType
from purekube_run.controller.manager import Election
from purekube_run.process.http import ConnectionLimits
from purekube_run.process.machine import SystemClock
from purekube_run.process.terminal import SecretMask
from tests.support.builders import instance_manifest, operation_manifest
from tests.support.patience import PATIENCE
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import LogOnly
from vworkspace_app.observability import serving_in_thread
from vworkspace_app.page.operator_page import OperatorPage
from vworkspace_app.page.screens import STREAMS, CombinedSource, ScreenSource
from vworkspace_app.page.serving import PageTelemetry
from vworkspace_app.page.site import Site, ViewerRule
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.instances.context import Settings
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_fake.controlplane.inprocess_control_plane import InProcessControlPlane
from vworkspace_fake.controlplane.server import ControlPlaneServer

T = TypeVar("T")

NS: Final = "org-myteam"
OWN_NS: Final = "vworkspace-system"
CLUSTER: Final = "cluster-prod-1"
TOKEN: Final = "agent-token-of-this-test"
BROKEN: Final = "6.7.0"
QUICK: Final = FluxBehaviour(
    source_fetch_seconds=0.05,
    install_seconds=0.1,
    upgrade_seconds=0.1,
    rollback_seconds=0.1,
    uninstall_seconds=0.1,
    release_rules=(
        ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "context deadline exceeded: 0 of 2 pods are ready"), version=BROKEN),
    ),
)
"""A Flux that takes tenths of a second, and for which one version does not install."""


@attrs.define
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str


@attrs.define
class Event:
    """A server-sent event."""

    name: str
    data: Any


class Follower:
    """Whoever follows a view, event by event."""

    def __init__(self, url: str, view: str, have: str = "", headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        self._connection.request("GET", f"/events?{urlencode({'view': view, 'have': have})}", headers=headers or {})
        self.answer = self._connection.getresponse()

    def next(self) -> Event:
        """The next event."""
        name, data = "", ""
        while line := self.answer.readline().decode().rstrip("\n"):
            field, _, value = line.partition(": ")
            name, data = (value, data) if field == "event" else (name, value)
        return Event(name, json.loads(data))

    def until(self, holds: Callable[[Event], bool]) -> Event:
        """The first event of which that holds."""
        while not holds(event := self.next()):
            pass
        return event

    def close(self) -> None:
        """Go away."""
        self.answer.close()
        self._connection.close()

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def get(url: str, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
    """One request to a page."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, named, answer.read().decode())
    finally:
        connection.close()


@attrs.define(eq=False)
class PageSite:
    """Both ends. `works` is False for an operator that stands by: its caches are full, and nothing is reconciled."""

    cluster: EmbeddedCluster
    control: ControlPlaneServer
    portal: BlockingPortal
    works: bool
    boxes: Sequence[Box]
    further: Callable[[], Sequence[ScreenSource]]
    access: ViewerRule | None = None
    controllers: Sequence[Any] = ()
    settings: OperatorSettings = attrs.field(
        factory=lambda: OperatorSettings(Settings(cluster_id=CLUSTER), namespace=OWN_NS)
    )
    mask: SecretMask = attrs.field(factory=SecretMask)
    through: Callable[[KubeApi], KubeApi] = lambda api: api
    url: str = ""
    page: OperatorPage = attrs.field(factory=OperatorPage)
    site: Site | None = None
    _running: ExitStack = attrs.field(factory=ExitStack)

    def do(self, work: Callable[[InProcessKube], Any]) -> Any:
        """Act on the API server as an administrator, on its loop."""
        admin = InProcessKube(self.cluster.server)
        return self.portal.call(lambda: run_sync(work(admin)))

    def create(self, kind: Kind, manifest: Manifest, status: Manifest | None = None) -> None:
        """An object, with a status where one is given."""
        self.do(lambda api: api.create(manifest, kind=kind, field_manager="somebody"))
        if status is not None:
            self.tell(ref_of(manifest, kind), status)

    def tell(self, ref: ObjectRef, status: Manifest) -> None:
        """What the operator would say of an object."""
        patch = {"status": status}
        self.do(
            lambda api: api.patch(
                ref, patch, patch_type=PatchType.MERGE, field_manager="operator", subresource="status"
            )
        )

    def change(self, ref: ObjectRef, patch: Manifest) -> None:
        """Somebody edits an object."""
        self.do(lambda api: api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="somebody"))

    def get(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
        """One request to the page."""
        return get(self.url, path, method, headers)

    def start(self, listen: str = "127.0.0.1:0") -> None:
        """Start an operator, and serve its page; returns once its caches are full."""
        self.page = OperatorPage()
        future, manager = self.portal.start_task(self._operate)
        self._running.callback(future.cancel)
        self.portal.call(manager.wait_ready)
        sources = [self.page, *self.further()]
        self.site = Site(CombinedSource(*sources), "vworkspace-operator", self.access, self.mask.mask)
        app = Starlette(routes=self.site.routes())
        self.url = self._running.enter_context(serving_in_thread(app, listen, limits=ConnectionLimits(streams=STREAMS)))

    def stop(self) -> None:
        """End the operator and its page; the API server goes on."""
        self._running.close()

    def restart(self) -> None:
        """Another operator at the same address, as after an upgrade."""
        self.stop()
        self.start(self.url.removeprefix("http://"))

    async def _operate(self, *, task_status: TaskStatus[Manager] = anyio.TASK_STATUS_IGNORED) -> None:
        api = self.through(InProcessKube(self.cluster.server))
        clock = SystemClock()
        store = KubeJobStore(api, OWN_NS, lock=anyio.Lock(), report=lambda message: None)
        agent = AgentOptions(InProcessControlPlane(self.control, TOKEN), store)
        manager = Manager(
            api,
            clock,
            self.settings,
            agent=agent if self.works else None,
            election=Election() if self.works else Election(elected=anyio.sleep_forever),
            telemetry=PageTelemetry(LogOnly(), self.page, clock),
            composites=[composite_of(box) for box in self.boxes],
            controllers=self.controllers,
        )
        task_status.started(manager)
        await manager.run()


@contextmanager
def page_site(
    *,
    works: bool = False,
    boxes: Sequence[Box] = (),
    further: Callable[[PageSite], Sequence[ScreenSource]] = lambda site: (),
    access: ViewerRule | None = None,
    controllers: Sequence[Any] = (),
    crds: Sequence[Manifest] = (),
    through: Callable[[KubeApi], KubeApi] = lambda api: api,
    **settings: Any,
) -> Iterator[PageSite]:
    """An API server with our kinds, Flux's and those of `boxes`, and an operator whose page is served.

    `controllers` are reconcilers in Python, of kinds whose `crds` are installed. `settings` are the operator's. Its
    requests go `through` a function, which may add faults.
    """
    installed = [*crd_manifests(), *(box.crd for box in boxes if box.crd), *crds]
    cluster = EmbeddedCluster.start(installed, ("flux", "workloads") if boxes else ("flux",))
    assert cluster.flux is not None
    cluster.flux.behaviour = QUICK
    control = ControlPlaneServer()
    control.tokens.add(CLUSTER, TOKEN)
    admin = InProcessKube(cluster.server)
    for name in (NS, OWN_NS):
        labels = {"managed-by": "vworkspace"} if name == NS else {}
        manifest = {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": labels}}
        with suppress(AlreadyExists):
            run_sync(admin.create(manifest, kind=NAMESPACE, field_manager="setup"))
    with start_blocking_portal() as portal, ExitStack() as stack:
        for simulator in (cluster.flux, cluster.downstream) if works else ():
            if simulator is not None:
                stack.callback(portal.start_task_soon(simulate, cluster.server, simulator).cancel)
        site = PageSite(
            cluster, control, portal, works, boxes, lambda: further(site), access, controllers, through=through
        )
        site.settings = attrs.evolve(site.settings, **settings)
        site.start()
        try:
            yield site
        finally:
            site.stop()


def instance(name: str, namespace: str = NS, **spec: Any) -> dict[str, Any]:
    """An ApplicationInstance that is ours."""
    labels = {MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: CLUSTER}
    return instance_manifest(name, namespace, metadata={"labels": labels}, **spec)


def operation(name: str, target: str, namespace: str = NS, **spec: Any) -> dict[str, Any]:
    """An Operation that is ours."""
    made = operation_manifest(name, namespace, target=target, **spec)
    labels = {MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: CLUSTER}
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def instance_ref(name: str, namespace: str = NS) -> ObjectRef:
    """Where it lives."""
    return ObjectRef(APPLICATION_INSTANCE, namespace, name)


def condition(type_: str, status: str, reason: str, message: str = "", at: str = "2026-01-01T12:00:00Z") -> Manifest:
    """A condition as the operator writes it."""
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def ready(at: str = "2026-01-01T12:00:00Z", message: str = "Helm install succeeded") -> Manifest:
    """The status of an instance that runs."""
    return {"conditions": [condition("Ready", "True", "HelmReleaseReady", message, at)]}


def degraded(message: str, at: str = "2026-01-01T12:00:00Z") -> Manifest:
    """The status of one that failed."""
    return {
        "conditions": [
            condition("Ready", "False", "HelmReleaseFailed", message, at),
            condition("Degraded", "True", "HelmReleaseFailed", message, at),
        ]
    }
