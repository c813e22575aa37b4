"""Wiring of the in-cluster operator, from ports alone: the same for production, the demo and simulations.

Start order: informers, then reconciles once every cache is settled, then the agent: a job is applied only when
the operator can see what comes of it.
"""

import random as random_source
from collections.abc import Callable, Iterator, Mapping

import anyio
import attrs
import structlog

from vworkspace_app.operator.events import BackgroundEvents
from vworkspace_app.operator.instances import RELEASE_INDEX, InstanceController, release_names
from vworkspace_app.runtime.definitions import poke_when_served, slim_definition
from vworkspace_app.runtime.driver import Driver
from vworkspace_app.runtime.informer import InformerRunner
from vworkspace_app.runtime.informers import Informers
from vworkspace_app.runtime.observer import DriverObserver, LoggingObserver
from vworkspace_app.runtime.resync import resync
from vworkspace_core.kinds.labels import MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.known import (
    APPLICATION_INSTANCE,
    CLUSTER,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    NAMESPACE,
    OCI_REPOSITORY,
)
from vworkspace_core.manifest import Kind, ObjectRef
from vworkspace_core.ports import Clock, KubeApi
from vworkspace_core.reconcile import Settings
from vworkspace_core.runtime.changes import Change
from vworkspace_core.runtime.mapping import itself
from vworkspace_core.runtime.store import ObjectStore

__all__ = ["Operator", "OperatorSettings"]

_log = structlog.get_logger("operator")

_INSTALL = "vworkspace-operator manifests --crds-only | kubectl apply --server-side -f -"
FLUX_KINDS = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY, HELM_CHART)


@attrs.frozen
class OperatorSettings:
    """What the process is told, beside what shapes decisions."""

    decisions: Settings
    workers: int = 4
    identity: str = "vworkspace-operator"
    resync_seconds: float = 600.0
    """How often everything is looked at whether or not a watch event told of it (REC-8)."""
    namespace: str = "vworkspace-system"
    """The operator's own namespace: what it keeps for itself lies there."""


class Operator:
    """One operator process: caches, controller and events on `api`, under `clock`.

    `random` gives numbers in [0, 1) for jitter; `observer` says who is told of the reconciles of a controller.
    """

    def __init__(
        self,
        api: KubeApi,
        settings: OperatorSettings,
        clock: Clock,
        *,
        random: Callable[[], float] = random_source.random,
        observer: Callable[[str], DriverObserver] = lambda controller: LoggingObserver(),
    ) -> None:
        self._settings = settings
        self._clock = clock
        self.informers = Informers(_informers(api, clock, random))
        self.events = BackgroundEvents(api, clock, instance=settings.identity)
        self.controller = InstanceController(api, self.informers, settings.decisions, clock, self.events)
        self.driver = Driver(
            self.controller.reconcile,
            clock=clock,
            workers=settings.workers,
            has_seen=self.informers.has_seen,
            refresh=self.informers.refresh,
            observer=observer("applicationinstance"),
        )
        self._subscribe()

    def on_instances(self, handler: Callable[[Change], None]) -> None:
        """Tell `handler` of every change of an ApplicationInstance; call before `run`."""
        self._runner(APPLICATION_INSTANCE).subscribe(handler)

    @property
    def drivers(self) -> Mapping[str, Driver]:
        """The drivers by the name of their controller, as metrics and logs have it."""
        return {"applicationinstance": self.driver}

    async def wait_ready(self) -> None:
        """Wait until every cache is settled."""
        await self.informers.wait_settled()

    async def run(self) -> None:
        """Run until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.informers.run, name="informers")
            group.start_soon(self.events.run, name="events")
            await self.wait_ready()
            self._tell_settled()
            group.start_soon(self.driver.run, name="driver")
            await resync(self.driver, self.controller.keys, clock=self._clock, every=self._settings.resync_seconds)

    def _tell_settled(self) -> None:
        _log.info("caches are settled", kinds=len(self.informers.stats()))
        missing = [kind.crd_name for kind in (APPLICATION_INSTANCE, CLUSTER) if self._runner(kind).missing]
        if missing:
            _log.warning("definitions are not installed; waiting for them", missing=missing, install=_INSTALL)

    def _runner(self, kind: Kind) -> InformerRunner:
        runner = self.informers.find(kind)
        assert runner is not None, f"no informer of {kind.kind}"
        return runner

    def _subscribe(self) -> None:
        driver, controller = self.driver, self.controller
        self._runner(APPLICATION_INSTANCE).subscribe(driver.handler(itself))
        self._runner(NAMESPACE).subscribe(driver.handler(controller.keys_of_namespace))
        self._runner(CLUSTER).subscribe(driver.handler(controller.all_keys))
        for kind in (*FLUX_KINDS, CONFIG_MAP):
            self._runner(kind).subscribe(driver.handler(controller.keys_of_downstream))
        definitions = self._runner(CUSTOM_RESOURCE_DEFINITION)
        definitions.subscribe(poke_when_served(iter(self.informers)))
        definitions.subscribe(driver.handler(self._keys_of_definition))

    def _keys_of_definition(self, change: Change) -> Iterator[ObjectRef]:
        """Every instance, when one of Flux's kinds came or went."""
        if change.ref.name in {kind.crd_name for kind in FLUX_KINDS}:
            yield from self.controller.all_keys(change)


def _informers(api: KubeApi, clock: Clock, random: Callable[[], float]) -> Iterator[InformerRunner]:
    """One informer a kind. Instances without any selector: one with our finalizer is never lost sight of (RES-5)."""
    yield InformerRunner(
        api,
        APPLICATION_INSTANCE,
        clock=clock,
        random=random,
        store=ObjectStore(APPLICATION_INSTANCE, indexers={RELEASE_INDEX: release_names}),
    )
    for kind in (*FLUX_KINDS, NAMESPACE, CLUSTER):
        yield InformerRunner(api, kind, clock=clock, random=random)
    yield InformerRunner(api, CONFIG_MAP, clock=clock, random=random, label_selector=f"{MANAGED_BY}={MANAGED_BY_VALUE}")
    yield InformerRunner(
        api,
        CUSTOM_RESOURCE_DEFINITION,
        clock=clock,
        random=random,
        store=ObjectStore(CUSTOM_RESOURCE_DEFINITION, transform=slim_definition),
    )
