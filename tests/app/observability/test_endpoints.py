"""RUN-5: `/metrics`, `/healthz` and `/readyz` over real HTTP, also while the event loop they speak of is blocked."""

import http.client
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import attrs
import pytest

from purekube.controller.health import InformerVitals, Vitals
from purekube_run.process.command_line import CommandError
from purekube_run.process.machine import SystemClock
from tests.support.patience import PATIENCE
from vworkspace_app.observability import (
    LatestStats,
    Metrics,
    MetricsTelemetry,
    ProcessStats,
    application,
    serving_in_thread,
)

CACHE = InformerVitals("HelmRelease", has_synced=True, answered_ago=0, heard_ago=0, moved_ago=0, patience=100)


@attrs.define
class Site:
    """A served application whose snapshot and clock the test sets."""

    url: str
    latest: LatestStats
    now: float = 0.0

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def site(snapshot: ProcessStats, listen: str = "127.0.0.1:0") -> Iterator[Site]:
    latest = LatestStats(snapshot)
    found = Site("", latest)

    def now() -> float:
        return found.now

    with serving_in_thread(application(latest, Metrics(latest, now), now), listen) as url:
        found.url = url
        yield found


def test_probes_say_what_is_wrong_and_metrics_are_scraped() -> None:
    with site(ProcessStats(0.0)) as here:
        assert here.get("/healthz") == (200, "[+]event loop ok\ncheck passed\n")
        status, told = here.get("/readyz")
        assert (status, "[-]started failed: waiting for the API server and the credential\n" in told) == (503, True)

        here.latest.replace(ProcessStats(0.0, Vitals(started=True, informers=(CACHE,))))
        assert here.get("/readyz")[0] == 200
        here.latest.replace(ProcessStats(0.0, Vitals(started=True, informers=(attrs.evolve(CACHE, has_synced=False),))))
        lines = "[+]started ok\n[+]shutdown ok\n[-]cache HelmRelease failed: not listed yet\ncheck failed\n"
        assert here.get("/readyz") == (503, "[+]event loop ok\n" + lines)
        here.now = 11.0
        assert here.get("/healthz")[0] == 503
        status, text = here.get("/metrics")
        assert (status, "vworkspace_operator_event_loop_silence_seconds 11.0\n" in text) == (200, True)
        assert here.get("/nothing")[0] == 404
        assert here.get("/metrics", "POST")[0] == 405


def test_a_process_that_ends_is_not_ready_from_the_signal_on_and_healthy_to_the_end() -> None:
    clock = SystemClock()
    latest = LatestStats(ProcessStats(clock.monotonic()))
    telemetry = MetricsTelemetry(clock, latest, Metrics(latest, clock.monotonic))
    telemetry.stop()

    with serving_in_thread(
        application(latest, Metrics(latest, clock.monotonic), clock.monotonic), "127.0.0.1:0"
    ) as url:
        status, told = Site(url, latest).get("/readyz")
        assert (status, "[-]shutdown failed: the process is shutting down\n" in told) == (503, True)
        assert Site(url, latest).get("/healthz")[0] == 200


def test_an_address_that_is_taken_is_told_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CommandError, match=f"{listen} is in use"), site(ProcessStats(0.0), listen):
            pass


@pytest.mark.slow
def test_a_blocked_event_loop_turns_health_red_while_it_is_blocked_and_green_again_after() -> None:
    clock = SystemClock()
    latest = LatestStats(ProcessStats(clock.monotonic()))
    metrics = Metrics(latest, clock.monotonic)
    telemetry = MetricsTelemetry(clock, latest, metrics)
    seen: list[tuple[int, str]] = []

    ahead = 0.0

    def later() -> float:
        # Ahead once the loop is blocked, so that the test need not block it for ten seconds.
        return clock.monotonic() + ahead

    async def main(here: Site) -> None:
        async with anyio.create_task_group() as group:
            nonlocal ahead
            group.start_soon(telemetry.run)
            await until(lambda: here.get("/healthz")[0] == 200)
            ahead, deadline = 9.0, time.monotonic() + PATIENCE
            while not seen or seen[-1][0] == 200:  # never yields: the loop is blocked
                assert time.monotonic() < deadline
                seen.append(here.get("/healthz"))
            ahead = 0.0
            await until(lambda: here.get("/healthz")[0] == 200)
            group.cancel_scope.cancel()

    with serving_in_thread(application(latest, metrics, later), "127.0.0.1:0") as url:
        anyio.run(main, Site(url, latest))

    assert seen[-1][0] == 503
    silent = re.search(
        r"^\[-\]event loop failed: blocked: it gave no sign of life for (\d+) s$", seen[-1][1], re.MULTILINE
    )
    assert silent is not None
    assert int(silent[1]) >= 10, "the machine may take longer than that"


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not await anyio.to_thread.run_sync(holds):
            await anyio.sleep(0.01)
