"""RUN-5: what informers and drivers show of themselves turns health red within its bound, and for real reasons only."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Forbidden, OperatorError, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE
from purekube.controller.health import HealthReport, Vitals, healthy, ready
from purekube.controller.informer.messages import InformerPolicy
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import KubeApi, KubeRequest, Send, Watch, WatchEvent
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.worker_pool import WorkerPool
from tests.support.virtual_time import run
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

CLOCK = VirtualClock()
KEY = ObjectRef(APPLICATION_INSTANCE, "org-a", "app")


class Network(KubeApi):
    """A `KubeApi` for reading behind a network that can be cut, or whose watches can fall silent.

    A watch that is `deaf` does not even end when it is cancelled, as a defect would have it.
    """

    def __init__(self, inner: InProcessKube, *, silent: bool = False, deaf: bool = False) -> None:
        super().__init__(inner.through(self._send, self._watch).transport)
        self.error: OperatorError | None = None
        self.silent = silent
        self.deaf = deaf

    async def _send(self, request: KubeRequest, proceed: Send) -> Manifest:
        if self.error:
            raise self.error
        return await proceed(request)

    async def _watch(self, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        if self.error:
            raise self.error
        with anyio.CancelScope(shield=self.deaf):
            if self.silent:
                await anyio.sleep(86_400)
        async for event in proceed(request):
            yield event


def reports(kind: Kind, seconds: float, **broken: Any) -> tuple[float, HealthReport, HealthReport]:
    """How long health stayed green after the network broke, and both reports after `seconds`."""

    async def main() -> tuple[float, HealthReport, HealthReport]:  # type: ignore[return]
        network = Network(InProcessKube(ApiServer(now=CLOCK.now)))
        informer = InformerRunner(network, kind, clock=CLOCK, random=lambda: 0.5)

        def vitals() -> Vitals:
            return Vitals(started=True, informers=(informer.vitals(),))

        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            await informer.wait_for_sync()
            for name, value in broken.items():
                setattr(network, name, value)
            began, green = CLOCK.monotonic(), 0.0
            while CLOCK.monotonic() - began < seconds:
                if healthy(vitals(), 0.0).ok:
                    green = CLOCK.monotonic() - began
                await CLOCK.sleep(10.0)
            group.cancel_scope.cancel()
            return green, healthy(vitals(), 0.0), ready(vitals(), 0.0)

    return run(main)


def test_a_watch_that_stalls_on_every_try_is_made_up_for_by_lists() -> None:
    """After each silent stream everything is listed, so what the process knows is never older than minutes."""
    green, health, readiness = reports(CONFIG_MAP, 3600, silent=True)

    assert green >= 3600 - 10
    assert health.ok
    assert readiness.ok


def test_an_informer_that_hangs_turns_health_red_soon_after_its_own_time_limit() -> None:
    async def main() -> tuple[float, str]:  # type: ignore[return]
        network = Network(InProcessKube(ApiServer(now=CLOCK.now)), silent=True, deaf=True)
        informer = InformerRunner(network, CONFIG_MAP, clock=CLOCK, random=lambda: 0.5)
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            await informer.wait_for_sync()
            began = CLOCK.monotonic()
            while (report := healthy(Vitals(informers=(informer.vitals(),)), 0.0)).ok:
                await CLOCK.sleep(1.0)
            group.cancel_scope.cancel()
            return CLOCK.monotonic() - began, report.text()

    seconds, told = run(main)

    assert 85 + 30 <= seconds <= 85 + 32  # when the next bookmark is overdue, and health's slack
    assert "[-]informer ConfigMap failed: stuck: it did nothing for" in told


@pytest.mark.parametrize("error", [Forbidden("no"), Unavailable("busy", status=429, retry_after=600)])
def test_a_server_that_refuses_is_no_reason_to_restart_but_the_picture_grows_old(error: OperatorError) -> None:
    _, health, readiness = reports(CONFIG_MAP, 3600, error=error)

    assert health.ok
    assert f"; last trouble: {error}" in readiness.text()
    assert not readiness.ok


def test_an_outage_of_the_server_turns_health_red_after_a_quarter_of_an_hour_only() -> None:
    green, health, _ = reports(CONFIG_MAP, 3600, error=Unavailable("no route to host"))

    assert 900 < green <= 900 + 450
    assert "last trouble: no route to host" in health.text()


@pytest.mark.slow
def test_a_kind_that_is_not_installed_never_makes_a_pod_restart() -> None:
    green, health, readiness = reports(HELM_RELEASE, 24 * 3600)

    assert green >= 24 * 3600 - 20
    assert health.ok
    assert readiness.ok


def test_a_driver_that_does_not_cancel_its_reconcile_turns_health_red() -> None:
    async def main() -> tuple[float, str]:  # type: ignore[return]
        release = anyio.Event()

        async def hang(key: ObjectRef) -> ReconcileResult:
            with anyio.CancelScope(shield=True):
                await release.wait()
            return ReconcileResult()

        driver = WorkerPool(hang, clock=CLOCK)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            driver.enqueue(KEY)
            began = CLOCK.monotonic()
            while (report := healthy(Vitals(worker_pools=(driver.vitals("instance"),)), 0.0)).ok:
                await CLOCK.sleep(1.0)
            release.set()
            group.cancel_scope.cancel()
            return CLOCK.monotonic() - began, report.text()

    seconds, told = run(main)

    assert 90 <= seconds <= 92
    assert "[-]driver instance failed: stuck: a reconcile runs for" in told


def test_a_driver_that_has_not_begun_is_a_standby_and_healthy() -> None:
    async def main() -> HealthReport:
        driver = WorkerPool(lambda key: anyio.sleep(0), clock=CLOCK)  # type: ignore[arg-type,return-value]
        driver.enqueue(KEY)
        await CLOCK.sleep(86_400)
        return healthy(Vitals(worker_pools=(driver.vitals("instance"),)), 0.0)

    assert run(main).ok


@pytest.mark.parametrize("optional", [True, False])
def test_a_kind_that_may_not_be_listed_and_is_not_needed_keeps_nobody_unready(optional: bool) -> None:
    async def main() -> None:
        network = Network(InProcessKube(ApiServer(now=CLOCK.now)))
        network.error = Forbidden('User "sa" cannot list resource "configmaps" in API group "" at the cluster scope')
        policy = InformerPolicy(optional=optional)
        informer = InformerRunner(network, CONFIG_MAP, clock=CLOCK, random=lambda: 0.5, policy=policy)
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            await CLOCK.sleep(2000.0)
            assert ready(Vitals(started=True, informers=(informer.vitals(),)), 0.0).ok is optional
            group.cancel_scope.cancel()

    run(main)
