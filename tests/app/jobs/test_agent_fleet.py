"""A fleet comes back after an outage without a wave: twice the even spread at most (PULL-5, PULL-7)."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Unavailable
from tests.support.memory_job_store import MemoryJobStore
from tests.support.virtual_time import run
from vworkspace_app.jobs.agent import Agent
from vworkspace_core.control_plane.connection import Connectivity, RetryPace
from vworkspace_core.control_plane.port import Fetched
from vworkspace_core.jobs.scope import JobScope

pytestmark = pytest.mark.slow

AGENTS = 1000
OUTAGE = 600.0
LONGEST = 60
"""Seconds until the last one is back."""


def peak(times: Sequence[float], since: float, seconds: int) -> tuple[int, float]:
    """The busiest second of the window, and what an even spread would have in each."""
    window = Counter(int(at - since) for at in times if since <= at < since + seconds)
    return max(window.values()), sum(window.values()) / seconds


@pytest.mark.parametrize("seed", range(5))
def test_the_pace_alone_spreads_the_first_tries_after_an_outage(seed: int) -> None:
    chance = random.Random(seed)
    back = []
    for _ in range(AGENTS):
        pace, at = RetryPace(), chance.uniform(0, 30)  # when its long poll came back
        while at < OUTAGE:
            pace, delay = pace.failed(Unavailable("away"), chance.random())
            at += delay
        back.append(at)

    busiest, even = peak(back, OUTAGE, LONGEST)

    assert even == AGENTS / LONGEST, "everybody is back within a minute"
    assert busiest <= 2 * even


class Hub:
    """A control plane that counts; its answers are empty."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.away = False
        self.asked: list[float] = []

    async def call(self) -> None:
        self.asked.append(self.clock.monotonic())
        if self.away:
            raise Unavailable("away")

    async def fetch(self, _: str, wait_seconds: int) -> Fetched:
        await self.call()
        if wait_seconds:
            await self.clock.sleep(wait_seconds)
        return Fetched((), self.clock.now())

    async def events(self, _: Sequence[Mapping[str, Any]]) -> None:
        await self.call()


def test_a_thousand_agents_come_back_within_a_minute_and_without_a_wave() -> None:
    async def main() -> None:
        clock = VirtualClock()
        hub: Any = Hub(clock)
        kube, store = InProcessKube(ApiServer(now=clock.now)), MemoryJobStore()
        agents: list[Agent] = []
        async with anyio.create_task_group() as tasks:
            for number in range(AGENTS):
                agent = Agent(
                    control=hub,
                    kube=kube,
                    store=store,
                    clock=clock,
                    scope=JobScope(f"cluster-{number}"),
                    random=random.Random(number).random,
                    find=lambda ref: None,
                )
                agents.append(agent)
                tasks.start_soon(agent.run)
                await clock.sleep(60 / AGENTS)  # clusters do not start in step
            hub.away = True
            await clock.sleep(OUTAGE)
            assert {agent.connection_state.connectivity for agent in agents} == {Connectivity.UNREACHABLE}
            hub.away = False
            since = clock.monotonic()
            await clock.sleep(LONGEST + 1)

            busiest, even = peak(hub.asked, since, LONGEST)

            assert {agent.connection_state.connectivity for agent in agents} == {Connectivity.CONNECTED}
            assert busiest <= 2 * even, f"{busiest} requests in one second; {even:.1f} would be even"
            tasks.cancel_scope.cancel()

    structlog.reset_defaults()
    with capture_logs():
        run(main)
