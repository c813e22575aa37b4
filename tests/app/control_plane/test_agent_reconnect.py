"""What the agent sends once the control plane is back, in which order, and what it tries meanwhile (PULL-5)."""

import random
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef, ref_of
from tests.support.agent_site import FAILED, READY, REF, Site, outcome, quiet, recent, simulate
from tests.support.builders import NAME, condition
from tests.support.effort import effort
from tests.support.jobs import CLUSTER_ID, instance, operation, with_status
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_fake.controlplane import AgentCall, ScriptedFault

pytestmark = pytest.mark.slow

OUTAGES = [
    ScriptedFault(status=502),
    ScriptedFault(status=0),
    ScriptedFault(status=503, retry_after=20),
    ScriptedFault(status=404),
]


def calls(site: Site, since: float) -> list[AgentCall]:
    """The calls since then, repetitions in a row told once."""
    began = site.clock.now().timestamp() - site.clock.monotonic()
    late = [call for at, call in site.server.requests if at.timestamp() - began >= since]
    return [call for call, _ in groupby(late)]


def see(site: Site, name: str, *conditions: Any) -> None:
    """An informer tells of an object that belongs to no job."""
    ref = ObjectRef(REF.kind, REF.namespace, name)
    live = {**instance(name, uid=name), "status": {"conditions": [recent(site, one) for one in conditions]}}
    site.known[ref] = live
    site.agent.on_object_changed(live, ref)


def seeded(seed: int) -> Callable[[Site], None]:
    def prepare(site: Site) -> None:
        site.agent = site.new_agent(random=random.Random(seed).random)

    return prepare


async def through_an_outage(site: Site, fault: ScriptedFault, during: Callable[[], Awaitable[None]]) -> float:
    """Two open jobs, then an outage in which one settles and the other moves on; when it ended."""
    site.enqueue(name="moves-on")
    site.enqueue(name="settles")
    await anyio.sleep(6)
    site.server.faults.outage(fault)
    await anyio.sleep(40)
    await site.report(condition("Ready", "False", "Installing"), name="moves-on")
    await site.report(READY, name="settles")
    see(site, "free", FAILED)
    await during()
    site.enqueue(name="new")
    await anyio.sleep(600)
    assert site.connectivity() is Connectivity.UNREACHABLE
    site.server.faults.outage(None)
    since = site.clock.monotonic()
    await anyio.sleep(130)
    return since


@pytest.mark.parametrize("fault", OUTAGES, ids=lambda fault: f"{fault.status}")
@pytest.mark.parametrize("seed", range(5))
def test_statuses_then_results_then_events_then_new_jobs(fault: ScriptedFault, seed: int) -> None:
    async def body(site: Site) -> None:
        async def nothing() -> None:
            pass

        since = await through_an_outage(site, fault, nothing)
        (found, *waited), new = (
            calls(site, since)[:4],
            [call for call in calls(site, since)[4:] if call != AgentCall.FETCH],
        )
        assert (found, waited) == (AgentCall.FETCH, [AgentCall.STATUS, AgentCall.RESULT, AgentCall.EVENTS])
        assert new[0] is AgentCall.ACK
        jobs = {job.raw["payload"]["metadata"]["name"]: job for job in site.server.jobs}
        assert outcome(jobs["settles"]) == "succeeded"
        assert jobs["moves-on"].statuses[-1]["conditions"][0]["reason"] == "Installing"
        assert jobs["new"].acked_at is not None

    simulate(body, seeded(seed))


@pytest.mark.parametrize("seed", range(3))
def test_after_an_overflow_a_snapshot_of_every_object_comes_first_of_all(seed: int) -> None:
    async def body(site: Site) -> None:
        async def noise() -> None:
            for number in range(1200):
                see(site, "noisy", condition("Ready", "True", f"Reason{number}"))
            see(site, "quiet-one", READY)

        since = await through_an_outage(site, ScriptedFault(status=502), noise)
        sequence = calls(site, since)
        assert sequence[:3] == [AgentCall.FETCH, AgentCall.EVENTS, AgentCall.STATUS], "the snapshot and the statuses"
        assert sequence[3:5] == [AgentCall.RESULT, AgentCall.EVENTS]
        told = [event["eventKey"].split("/")[5:10] for event in site.events("ConditionTransition")]
        names = [name for name, _ in groupby(parts[0] for parts in told)]
        assert set(names[:5]) >= {"free", "noisy", "quiet-one", "settles", "moves-on"}, "each as it is now"
        reasons = [int(parts[4].split("@")[0].removeprefix("Reason")) for parts in told if parts[0] == "noisy"]
        assert reasons[0] == 1199, "its newest condition"
        assert reasons[1:] == sorted(reasons[1:]), "then what was kept, in order"
        assert site.agent.outbox.condition().reason == "BufferDrained"
        assert len(site.agent.outbox) == 0

    simulate(body, seeded(seed))


@pytest.mark.parametrize("seed", range(3))
def test_a_400_to_everything_is_an_outage_that_drops_no_event(seed: int) -> None:
    """As of a web server in front that misses the client certificate: it says nothing about the events."""

    async def body(site: Site) -> None:
        async def news() -> None:
            for number in range(5):
                see(site, f"changed-{number}", READY)

        await through_an_outage(site, ScriptedFault(status=400), news)
        told = {event["resourceRef"]["name"] for event in site.events("ConditionTransition")}
        assert told >= {"free", *(f"changed-{number}" for number in range(5))}

    simulate(body, seeded(seed))


@run_by(simulate, seeded(1))
async def test_a_status_that_the_server_chokes_on_keeps_no_result_waiting(site: Site) -> None:
    async def choke() -> None:
        pass

    site.server.faults.inject(ScriptedFault(call=AgentCall.STATUS, status=500, times=10**6))
    since = await through_an_outage(site, ScriptedFault(status=502), choke)
    first = min(at for call in AgentCall for at in site.asked(call, since))
    assert min(site.asked(AgentCall.RESULT, since)) - first < 1.0


@run_by(simulate, seeded(1))
async def test_a_call_that_hangs_holds_up_the_next_ones_for_its_head_start_only(site: Site) -> None:
    async def hang() -> None:
        pass

    site.server.faults.inject(ScriptedFault(call=AgentCall.STATUS, status=0, latency=30, times=10**6))
    since = await through_an_outage(site, ScriptedFault(status=502), hang)
    first = min(at for call in AgentCall for at in site.asked(call, since))
    assert 4.9 <= min(site.asked(AgentCall.RESULT, since)) - first <= 5.1


@run_by(simulate)
async def test_a_poll_that_alone_is_broken_stops_no_delivery(site: Site) -> None:
    job = site.enqueue()
    await anyio.sleep(6)
    site.server.faults.inject(ScriptedFault(call=AgentCall.FETCH, status=500, times=10**6))
    await anyio.sleep(40)
    await site.report(condition("Ready", "False", "Installing"))
    await anyio.sleep(200)
    await site.report(READY)
    see(site, "free", FAILED)
    await anyio.sleep(200)
    assert site.connectivity() is Connectivity.UNREACHABLE
    assert outcome(job) == "succeeded"
    assert [status["phase"] for status in job.statuses][-1:] != []
    assert any("/free/" in event["eventKey"] for event in site.events("ConditionTransition"))
    assert site.conditions()["Disconnected"][0] == "False", "calls do come through"


@run_by(simulate)
async def test_while_the_credential_is_rejected_nothing_but_the_slow_poll_is_sent_PULL_7(site: Site) -> None:
    site.enqueue()
    await anyio.sleep(6)
    site.server.faults.outage(ScriptedFault(status=403))
    await anyio.sleep(60)
    since = site.clock.monotonic()
    await site.report(READY)
    await anyio.sleep(3600)
    assert set(calls(site, since)) == {AgentCall.FETCH}
    assert len(site.asked(AgentCall.FETCH, since)) <= 12


@run_by(simulate)
async def test_a_429_ends_an_outage_too(site: Site) -> None:
    job = site.enqueue()
    await anyio.sleep(6)
    site.server.faults.outage(ScriptedFault(status=502))
    await anyio.sleep(60)
    await site.report(READY)
    await anyio.sleep(60)
    site.server.faults.outage(None)
    site.server.faults.inject(ScriptedFault(call=AgentCall.FETCH, status=429, retry_after=600))
    await anyio.sleep(61)
    assert site.connectivity() is Connectivity.CONNECTED
    assert outcome(job) == "succeeded", "the poll is to wait, the result is not"


def test_an_outage_from_the_start_is_an_outage_like_others() -> None:
    async def body(site: Site) -> None:
        see(site, NAME, FAILED)
        await anyio.sleep(300)
        assert site.server.events_of(CLUSTER_ID) == []
        site.server.faults.outage(None)
        await anyio.sleep(61)
        assert any(NAME in event["eventKey"] for event in site.events("ConditionTransition"))

    def away(site: Site) -> None:
        site.server.faults.outage(ScriptedFault(status=502))

    lines = quiet(body, away)

    assert [line["event"] for line in lines if "connected" in line["event"]] == ["connected to the control plane"]


@settings(max_examples=effort(0.15))
@given(
    moving=st.integers(0, 4),
    settling=st.integers(0, 4),
    noise=st.sampled_from([0, 1, 250, 1100]),
    outage=st.floats(60, 2000),
    fault=st.sampled_from(OUTAGES),
    seed=st.integers(0, 1000),
)
def test_the_order_holds_whatever_waits_and_nothing_is_lost(
    moving: int, settling: int, noise: int, outage: float, fault: ScriptedFault, seed: int
) -> None:
    async def body(site: Site) -> None:
        old = [site.enqueue(name=f"app-{number}") for number in range(moving + settling)]
        await anyio.sleep(6)
        site.server.faults.outage(fault)
        await anyio.sleep(40)
        for number in range(moving):
            await site.report(condition("Ready", "False", "Installing"), name=f"app-{number}")
        for number in range(moving, moving + settling):
            await site.report(READY, name=f"app-{number}")
        for number in range(noise):
            see(site, "noisy", condition("Ready", "True", f"Reason{number}"))
        new = site.enqueue(name="new")
        await anyio.sleep(outage)
        waiting = [event for event in site.agent.outbox.events if event["kind"] == "ConditionTransition"]
        kept = [event["eventKey"] for event in waiting]
        site.server.faults.outage(None)
        since = site.clock.monotonic()
        await anyio.sleep(130)

        sequence = [call for call in calls(site, since) if call is not AgentCall.FETCH]
        dropped = noise > 1000
        desired = [
            *([AgentCall.EVENTS] if dropped else []),
            *([AgentCall.STATUS] if old else []),
            *([AgentCall.RESULT] if settling else []),
        ]
        assert sequence[: len(desired)] == desired
        assert sequence.index(AgentCall.ACK) > max(len(desired) - 1, 0), "new jobs come last"
        assert [outcome(job) for job in old] == ["none"] * moving + ["succeeded"] * settling
        assert new.acked_at is not None
        told = [event["eventKey"] for event in site.server.events_of(CLUSTER_ID)]
        assert set(kept) <= set(told)
        in_order = [key for key in told if key in set(kept)]
        assert in_order == kept or dropped, "a snapshot may have told the newest of them before"

    simulate(body, seeded(seed))


@run_by(run)
async def test_what_happened_in_an_outage_is_told_by_the_next_process_PULL_5() -> None:
    """Twenty minutes away, an instance fails, an Operation ends, and the operator's pod is restarted in between."""
    site = Site()
    await site.prepare()
    site.enqueue()
    async with anyio.create_task_group() as first:
        first.start_soon(site.agent.run)
        first.start_soon(site.watch)
        await anyio.sleep(5)
        await site.report(READY)
        await anyio.sleep(5)
        site.server.faults.outage(ScriptedFault(status=502))
        await anyio.sleep(60)
        await site.report(FAILED)
        await anyio.sleep(1200)
        first.cancel_scope.cancel()
    asked = operation()
    ended = with_status(
        {**asked, "metadata": {**asked["metadata"], "uid": "u-op"}},
        condition("Succeeded", "True", "VeleroBackupCompleted"),
        phase="Succeeded",
        startedAt="2026-01-01T00:02:00Z",
        finishedAt="2026-01-01T00:03:00Z",
    )
    site.known[ref_of(ended, OPERATION)] = ended
    site.agent = site.new_agent(objects=lambda: list(site.known.values()))
    async with anyio.create_task_group() as second:
        second.start_soon(site.agent.run)
        second.start_soon(site.watch)
        await anyio.sleep(30)
        site.server.faults.outage(None)
        await anyio.sleep(90)
        second.cancel_scope.cancel()
    told = [event["conditions"][0]["reason"] for event in site.events("ConditionTransition")]
    assert told[-2:] == ["HelmReleaseFailed", "VeleroBackupCompleted"]
    assert site.events("OperationSucceeded")


@run_by(run)
async def test_what_was_told_already_is_told_again_under_the_same_keys_PULL_6() -> None:
    site = Site()
    await site.prepare()
    site.enqueue()
    for number in range(3):
        async with anyio.create_task_group() as process:
            process.start_soon(site.agent.run)
            process.start_soon(site.watch)
            await anyio.sleep(5)
            if number == 0:
                await site.report(READY)
            await anyio.sleep(5)
            process.cancel_scope.cancel()
        site.agent = site.new_agent()
    assert len(site.events("ConditionTransition")) == 1
    assert site.server.events_repeated >= 1
