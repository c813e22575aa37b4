"""RUN-4: after SIGTERM a process that serves webhooks works on until its Service has let go of it."""

import os
import signal

import anyio
import pytest

from purekube_run.process.signals import run_until_stopped
from tests.support.patience import PATIENCE


@pytest.mark.parametrize(("drain", "told"), [(0.0, True), (PATIENCE, False)])
def test_work_is_told_to_stop_when_the_drain_is_over_and_not_before(drain: float, told: bool) -> None:
    seen: list[object] = []

    async def work(stop: anyio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        while not seen:
            await anyio.sleep(0)
        for _ in range(10):
            await anyio.sleep(0)
        seen.append(stop.is_set())

    run_until_stopped(work, grace=PATIENCE, drain=drain, stopping=lambda: seen.append("not ready"))

    assert seen == ["not ready", told]
