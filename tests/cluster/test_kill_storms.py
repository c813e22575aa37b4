"""Operator, helm-controller and kube-apiserver are killed while applications install and upgrade (PULL-4, RUN-8).

Every kill comes at a moment that is counted in changes of instances, sources and releases, never by a clock.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
import attrs
import pytest

from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import HELM_RELEASE, SECRET
from tests.support.real_site import RealSite, real_site
from tests.support.servers import alone
from tools.cluster.up import Cluster
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import JOB_STORE
from vworkspace_fake.controlplane import JobEntry

FIRST, SECOND = "1.0.0", "1.1.0"
VICTIMS: Final = ("operator", "helm-controller", "kube-apiserver", "operator", "helm-controller")


def on_site(cluster: Cluster, story: Callable[[RealSite], Awaitable[None]]) -> None:
    """Play a story on a site of its own."""

    async def main() -> None:
        async with real_site(cluster, (FIRST, SECOND)) as site:
            await story(site)

    try:
        anyio.run(main)
    except BaseExceptionGroup as group:
        raise alone(group) from None


@attrs.define
class Storm:
    """Kills of one victim after another, each `every` changes after the one before; the operator is started again."""

    site: RealSite
    victims: Sequence[str]
    every: int
    killed: list[str] = attrs.field(factory=list)

    async def run(self) -> None:
        """Kill each victim once in its turn."""
        for victim in self.victims:
            mark = self.site.changes() + self.every
            while self.site.changes() < mark:
                await anyio.sleep(0.005)
            await self._kill(victim)
            self.killed.append(victim)

    async def _kill(self, victim: str) -> None:
        if victim == "operator":
            assert self.site.operator is not None
            self.site.operator.send(signal.SIGKILL)
            await self.site.start_operator()
        else:
            os.kill(self.site.cluster.process(victim), signal.SIGKILL)


async def through(site: RealSite, victims: Sequence[str], every: int, jobs: Callable[[], list[JobEntry]]) -> list[str]:
    """Have jobs done in a storm; return the victims once every job has its result."""
    storm = Storm(site, victims, every)
    if site.operator is None:
        await site.start_operator()
    async with anyio.create_task_group() as group:
        group.start_soon(storm.run)
        asked = jobs()
        await site.until(lambda: len(storm.killed) == len(victims), "every kill")
        await site.until(lambda: all(job.result is not None for job in asked), "a result of every job")
        group.cancel_scope.cancel()
    return storm.killed


async def holds(site: RealSite, jobs: Sequence[JobEntry], version: str) -> None:
    """Every job has one result, which is true; every instance is itself, and runs once at that version."""
    outcomes = {job.id: (job.result["outcome"], job.result.get("error"), job.results_refused) for job in jobs}
    assert outcomes == {job.id: ("succeeded", None, 0) for job in jobs}
    instances = {item["metadata"]["name"]: item for item in await site.objects(APPLICATION_INSTANCE)}
    names = {job.raw["payload"]["metadata"]["name"] for job in jobs}
    assert names <= instances.keys()
    for job in jobs:
        live = instances[job.raw["payload"]["metadata"]["name"]]
        assert job.result["appliedRef"]["uid"] == live["metadata"]["uid"]
    deployed = await site.deployed()
    assert {name: deployed.get(name) for name in names} == {name: [version] for name in names}
    for kind in (APPLICATION_INSTANCE, HELM_RELEASE):
        assert {name: len(uids) for name, uids in site.uids(kind).items() if name in names} == dict.fromkeys(names, 1)


async def has_nothing_open(site: RealSite) -> None:
    """The job store holds no record of a job that is done."""
    records = ["?"]
    while records:
        page = await site.ground.api.list(SECRET, namespace=site.ground.namespace, label_selector=f"{JOB_STORE}=record")
        records = [item["metadata"]["name"] for item in page.items]
        await anyio.sleep(0.1)


def _names(count: int) -> list[str]:
    return [f"app-{number}" for number in range(count)]


@pytest.mark.lone
def test_installs_and_upgrades_in_a_storm_of_kills_are_done_once_and_reported_as_promised_PULL_4(
    cluster: Cluster,
) -> None:
    async def story(site: RealSite) -> None:
        names = _names(12)
        installs: list[JobEntry] = []
        upgrades: list[JobEntry] = []

        def install() -> list[JobEntry]:
            installs.extend(site.apply(name, FIRST, 1) for name in names)
            return installs

        def upgrade() -> list[JobEntry]:
            upgrades.extend(site.apply(name, SECOND, 2) for name in names)
            return upgrades

        killed = await through(site, VICTIMS, 17, install)
        assert killed == list(VICTIMS)
        await holds(site, installs, FIRST)
        killed = await through(site, VICTIMS, 13, upgrade)
        assert killed == list(VICTIMS)
        await holds(site, upgrades, SECOND)
        releases = {
            item["metadata"]["name"]: item["metadata"]["generation"] for item in await site.objects(HELM_RELEASE)
        }
        assert releases == dict.fromkeys(names, 2), "one install and one upgrade were asked of Flux, no more"
        with anyio.fail_after(60):
            await has_nothing_open(site)

    on_site(cluster, story)


@pytest.mark.operator
def test_another_process_takes_over_while_applications_install_and_nothing_is_done_twice_PULL_4(
    cluster: Cluster,
) -> None:
    """An upgrade of the operator under load: the old process is told to end, the new one starts meanwhile."""

    async def story(site: RealSite) -> None:
        names = _names(20)
        old = await site.start_operator("--leader-elect")
        await site.until(lambda: site.control.waiting > 0, "a long poll")
        jobs = [site.apply(name, FIRST, 1) for name in names]
        await site.until(lambda: site.changes() >= 30, "work in progress")
        new = await site.start_operator("--leader-elect")
        old.send(signal.SIGTERM)
        await site.until(lambda: all(job.result is not None for job in jobs), "a result of every job")
        ended = old.end()

        assert ended.status == 0, ended.err[-2000:]
        assert new.is_running
        await holds(site, jobs, FIRST)
        releases = {get_path(item, "metadata", "generation") for item in await site.objects(HELM_RELEASE)}
        assert releases == {1}
        with anyio.fail_after(60):
            await has_nothing_open(site)

    on_site(cluster, story)
