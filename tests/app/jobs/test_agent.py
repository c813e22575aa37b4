"""The agent's driver under virtual time: outages, rejections, pace and lanes (PULL-2, PULL-5, PULL-6, PULL-7)."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import anyio
import pytest

from kubelab.clock import VirtualClock
from purekube.apimachinery.errors import Forbidden, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from tests.support.agent_site import FAILED, READY, REF, Site, outcome, quiet, recent, simulate
from tests.support.builders import NAME, NAMESPACE, condition
from tests.support.jobs import CLUSTER_ID, instance
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.jobs.job_store import JobRecord, JobStore
from vworkspace_fake.controlplane import AgentCall, RateLimit, ScriptedFault, When


@run_by(simulate)
async def test_the_main_job_of_the_project_in_a_moment_PULL_2(site: Site) -> None:
    job = site.enqueue()
    await anyio.sleep(1)
    await site.report(condition("Ready", "False", "Installing"), condition("Reconciling", "True", "Installing"))
    await anyio.sleep(1)
    assert (job.statuses[-1]["phase"], job.result) == ("Reconciling", None)
    await site.report(READY)
    await anyio.sleep(1)
    assert outcome(job) == "succeeded"
    assert site.events("ConditionTransition") == []

    await site.report(FAILED)
    await anyio.sleep(2)
    (event,) = site.events("ConditionTransition")
    assert [told["reason"] for told in event["conditions"]] == ["HelmReleaseFailed"]
    assert event["previous"] == {"status": "True", "reason": "HelmReleaseReady"}


def test_an_hour_long_outage_costs_few_requests_and_loses_nothing_PULL_5() -> None:
    async def body(site: Site) -> None:
        job = site.enqueue()
        await anyio.sleep(5)
        site.server.faults.outage(ScriptedFault(status=502))
        began = site.clock.monotonic()
        await site.report(condition("Ready", "False", "Installing"))
        await anyio.sleep(1800)
        await site.report(READY)
        await anyio.sleep(1800)
        fetches = site.asked(AgentCall.FETCH, began + 60)
        results = site.asked(AgentCall.RESULT, began)

        assert 50 <= len(fetches) <= 400, "backoff between a second and a minute, in the end about one a minute"
        assert min(b - a for a, b in pairwise(fetches)) >= 1.0
        assert 25 <= len(results) <= 300, "one beside each poll"
        assert site.connectivity() is Connectivity.UNREACHABLE
        assert job.result is None
        assert site.store.records, "the result waits in its record"

        site.server.faults.outage(None)
        await anyio.sleep(61)
        assert site.connectivity() is Connectivity.CONNECTED
        assert outcome(job) == "succeeded"
        assert not site.store.records

    lines = quiet(body)

    told = [line["event"] for line in lines if "control plane is unreachable" in line["event"]]
    assert len(told) == 1, "once per change, not once per retry"
    assert len(lines) <= 8, lines


@run_by(simulate)
async def test_a_first_round_trip_hurries_everything_that_waited(site: Site) -> None:
    job = site.enqueue()
    await anyio.sleep(2)
    site.server.faults.outage(ScriptedFault(status=502))
    await site.report(READY)
    await anyio.sleep(600)
    site.server.faults.outage(None)
    since = site.clock.monotonic()
    while job.result is None:
        await anyio.sleep(0.5)
    first = min(at for call in AgentCall for at in site.asked(call, since))
    assert min(site.asked(AgentCall.RESULT, since)) - first <= 1.0


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_credential_is_tried_slowly_and_a_new_one_at_once_PULL_7(status: int) -> None:
    rereads: list[float] = []

    async def body(site: Site) -> None:
        await anyio.sleep(5)
        site.server.faults.outage(ScriptedFault(status=status))
        await anyio.sleep(60)
        since = site.clock.monotonic()
        await anyio.sleep(3600)
        assert 5 <= len(site.asked(AgentCall.FETCH, since)) <= 13
        assert site.connectivity() is Connectivity.REJECTED

        site.server.faults.outage(None)
        site.agent.retry_now()
        await anyio.sleep(1.1)
        assert site.connectivity() is Connectivity.CONNECTED

    def with_reread(site: Site) -> None:
        async def reread() -> bool:
            rereads.append(site.clock.monotonic())
            return False

        site.agent = site.new_agent(reread=reread)

    lines = quiet(body, with_reread)

    assert [line["event"] for line in lines if "rejects the credential" in line["event"]] != []
    assert len(rereads) == 1, "one refresh per rejection"


def test_a_token_that_changed_meanwhile_is_taken_without_a_pause() -> None:
    def with_reread(site: Site) -> None:
        async def reread() -> bool:
            site.server.tokens.add(CLUSTER_ID, "fresh")
            site.control.use_token("fresh")
            return True

        site.agent = site.new_agent(reread=reread)

    async def body(site: Site) -> None:
        await anyio.sleep(5)
        site.server.tokens.revoke("token")
        job = site.enqueue()
        await anyio.sleep(1)
        assert job.acked_at is not None
        assert site.connectivity() is Connectivity.CONNECTED

    simulate(body, with_reread)


def test_a_credential_that_cannot_be_read_again_does_not_stop_the_loop() -> None:
    def with_reread(site: Site) -> None:
        async def reread() -> bool:
            raise OSError("token=hunter2 is gone")

        site.agent = site.new_agent(reread=reread)

    async def body(site: Site) -> None:
        await anyio.sleep(5)
        site.server.faults.outage(ScriptedFault(status=401))
        await anyio.sleep(900)
        site.server.faults.outage(None)
        await anyio.sleep(601)
        assert site.connectivity() is Connectivity.CONNECTED

    assert "hunter2" not in str(quiet(body, with_reread))


@run_by(simulate)
async def test_results_do_not_wait_behind_statuses_or_events_PULL_5(site: Site) -> None:
    for call in (AgentCall.STATUS, AgentCall.EVENTS):
        site.server.faults.inject(ScriptedFault(call=call, status=500, times=10**6))
    job = site.enqueue()
    await anyio.sleep(2)
    for number in range(50):
        await site.report(condition("Ready", "False", f"Reason{number}"))
    await site.report(READY)
    await anyio.sleep(0.5)
    assert outcome(job) == "succeeded"
    assert len(site.asked(AgentCall.STATUS)) <= 4, "statuses collapse to the newest and wait out their failures"


PARTIAL = condition("Degraded", "True", "PartialFailure")


@pytest.mark.parametrize("fault", [500, 409, None])
@run_by(simulate)
async def test_what_no_status_told_before_the_result_is_told_by_events_PULL_6(site: Site, *, fault: int | None) -> None:
    """Otherwise a backup in part is `succeeded`, and the control plane never learns that it is Degraded."""
    job = site.enqueue()
    await anyio.sleep(2)
    if fault is not None:
        site.server.faults.inject(ScriptedFault(call=AgentCall.STATUS, status=fault, times=2))
    await site.report(READY, PARTIAL)
    await anyio.sleep(60)

    assert outcome(job) == "succeeded"
    by_status = [told["type"] for told in job.statuses[-1]["conditions"]] if job.statuses else []
    by_event = [told["type"] for event in site.events("ConditionTransition") for told in event["conditions"]]
    assert ("Degraded" in by_status) == (fault is None)
    assert sorted(by_event) == ([] if fault is None else ["Degraded", "Ready"]), "once, by the one or the other"


@run_by(simulate)
async def test_one_result_that_the_server_chokes_on_does_not_hold_up_the_others(site: Site) -> None:
    jobs = [site.enqueue(name=f"app-{number}") for number in range(5)]
    await anyio.sleep(2)
    site.server.faults.inject(ScriptedFault(call=AgentCall.RESULT, status=500, times=3))
    for number in range(5):
        await site.report(READY, name=f"app-{number}")
    await anyio.sleep(20)
    assert [outcome(job) for job in jobs] == ["succeeded"] * 5


@run_by(simulate)
async def test_a_lost_answer_of_a_result_ends_in_one_accepted_result_PULL_4(site: Site) -> None:
    site.server.faults.inject(ScriptedFault(call=AgentCall.ACK, status=0, when=When.AFTER))
    site.server.faults.inject(ScriptedFault(call=AgentCall.RESULT, status=0, when=When.AFTER))
    job = site.enqueue()
    await anyio.sleep(5)
    await site.report(READY)
    await anyio.sleep(5)
    assert outcome(job) == "succeeded"
    assert (job.acks, job.results_refused) == (2, 1)
    assert not site.store.records


def test_a_server_that_never_holds_a_poll_is_not_flooded() -> None:
    async def body(site: Site) -> None:
        site.server.faults.outage(ScriptedFault(status=None))
        await anyio.sleep(100)
        assert len(site.asked(AgentCall.FETCH)) <= 101

    def impatient(site: Site) -> None:
        site.agent = site.new_agent(settings=AgentSettings(wait_seconds=0))

    simulate(body, impatient)


@run_by(simulate, redelivery=timedelta(0))
async def test_a_job_that_cannot_be_acked_does_not_spin_the_loop(site: Site) -> None:
    site.server.faults.inject(ScriptedFault(call=AgentCall.ACK, status=500, times=10**6))
    site.enqueue()
    await anyio.sleep(120)
    assert len(site.asked(AgentCall.FETCH)) <= 130
    assert len(site.asked(AgentCall.ACK)) <= 70


@run_by(simulate)
async def test_429_is_waited_out_as_asked(site: Site) -> None:
    await anyio.sleep(1)
    site.server.faults.inject(ScriptedFault(call=AgentCall.FETCH, status=429, retry_after=120))
    site.enqueue()
    await anyio.sleep(40)
    (refused, *later) = site.asked(AgentCall.FETCH, 1.0)
    assert later == []
    await anyio.sleep(120)
    assert site.asked(AgentCall.FETCH, 1.0)[1] - refused == pytest.approx(120, abs=1.5)


@pytest.mark.slow
@run_by(simulate, rate_limit=RateLimit(10, 10.0))
async def test_a_rate_limit_slows_the_agent_down_and_stops_nothing(site: Site) -> None:
    jobs = [site.enqueue(name=f"app-{number}") for number in range(20)]
    for _ in range(120):
        await anyio.sleep(5)
        for number in range(20):
            if ObjectRef(APPLICATION_INSTANCE, NAMESPACE, f"app-{number}") in site.known:
                await site.report(READY, name=f"app-{number}")
    assert [outcome(job) for job in jobs] == ["succeeded"] * 20


@run_by(simulate)
async def test_events_go_in_batches_of_a_hundred_or_a_second_PULL_6(site: Site) -> None:
    await anyio.sleep(5)
    before = len(site.asked(AgentCall.EVENTS))
    for number in range(250):
        ref = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, f"app-{number}")
        live = {**instance(f"app-{number}"), "status": {"conditions": [recent(site, READY)]}}
        site.agent.on_object_changed(live, ref)
    await anyio.sleep(1.5)
    assert len(site.asked(AgentCall.EVENTS)) - before == 3
    assert len(site.events("ConditionTransition")) == 250


@pytest.mark.slow
def test_an_overflow_is_told_and_a_snapshot_makes_up_for_it_PULL_5() -> None:
    async def body(site: Site) -> None:
        site.enqueue()
        await anyio.sleep(1)
        await site.report(READY)
        await anyio.sleep(2)
        site.server.faults.outage(ScriptedFault(status=502))
        ref = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, "noisy")
        for number in range(1500):
            found = recent(site, condition("Ready", "True", f"Reason{number}"))
            site.agent.on_object_changed({**instance("noisy"), "status": {"conditions": [found]}}, ref)
        assert len(site.agent.outbox.events) == 1000
        assert site.agent.outbox.dropped >= 500
        await anyio.sleep(400)
        assert {**site.conditions(), "ControllersHealthy": None, "Hardened": None} == {
            "Hardened": None,
            "ControllersHealthy": None,
            "Connected": ("False", "ControlPlaneUnreachable"),
            "Disconnected": ("True", "NoRecentRoundTrip"),
            "BufferOverflow": ("True", "EventBufferFull"),
        }
        site.server.faults.outage(None)
        site.server.tokens.add(CLUSTER_ID, "token")
        await anyio.sleep(180)
        assert site.agent.outbox.dropped == 0
        told = {event["eventKey"] for event in site.events("ConditionTransition")}
        assert any(f"/{NAME}/" in key for key in told), "the snapshot tells of every owned object"

    lines = quiet(body)

    assert len([line for line in lines if "event buffer is full" in line["event"]]) == 1
    assert len([line for line in lines if "event buffer is drained" in line["event"]]) == 1


def test_a_bad_event_is_dropped_alone_PULL_6() -> None:
    async def body(site: Site) -> None:
        await anyio.sleep(5)
        for number in range(20):
            ref = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, f"app-{number}")
            found = recent(site, READY)
            site.agent.on_object_changed({**instance(f"app-{number}"), "status": {"conditions": [found]}}, ref)
        site.agent._events.put([{"kind": "Broken", "timestamp": "never"}])
        await anyio.sleep(30)
        assert len(site.events("ConditionTransition")) == 20

    lines = quiet(body)

    assert len([line for line in lines if "an event was refused" in line["event"]]) == 1


@run_by(simulate)
async def test_heartbeats_come_every_minute_and_one_stands_for_many_after_an_outage(site: Site) -> None:
    await anyio.sleep(301)
    assert len(site.events("ClusterHeartbeat")) in (5, 6)
    site.server.faults.outage(ScriptedFault(status=502))
    await anyio.sleep(3600)
    beats = [event for event in site.agent.outbox.events if event["kind"] == "ClusterHeartbeat"]
    assert len(beats) == 1


@run_by(simulate)
async def test_an_idle_hour_costs_long_polls_and_heartbeats_and_nothing_else(site: Site) -> None:
    await anyio.sleep(600)
    since = site.clock.monotonic()
    await anyio.sleep(3600)
    asked = {call: len(site.asked(call, since)) for call in AgentCall if site.asked(call, since)}
    assert asked.keys() == {AgentCall.FETCH, AgentCall.EVENTS}
    assert 119 <= asked[AgentCall.FETCH] <= 121, "long polls of half a minute"
    assert 59 <= asked[AgentCall.EVENTS] <= 61, "heartbeats, one a minute"


class Defect:
    """Any port that raises what no port may raise, a number of times, then works."""

    def __init__(self, port: Any, method: str, times: int) -> None:
        self._port, self._method, self._left = port, method, times

    def __getattr__(self, name: str) -> Any:
        if name == self._method and self._left > 0:
            self._left -= 1
            raise ZeroDivisionError("a defect of the adapter")
        return getattr(self._port, name)


@pytest.mark.parametrize(
    ("port", "method"),
    [
        ("control", "fetch"),
        ("control", "ack"),
        ("control", "result"),
        ("control", "status"),
        ("control", "events"),
        ("kube", "get"),
        ("kube", "apply"),
        ("store", "put"),
        ("store", "close"),
        ("store", "tombstone"),
    ],
)
def test_a_defect_of_an_adapter_never_stops_the_loop(port: str, method: str) -> None:
    def broken(site: Site) -> None:
        site.agent = site.new_agent(**{port: Defect(getattr(site, port), method, 3)})

    async def body(site: Site) -> None:
        job = site.enqueue()
        for _ in range(30):
            await anyio.sleep(2)
            if REF in site.known:
                await site.report(READY)
        assert outcome(job) == "succeeded"

    quiet(body, broken)


class FullQuota:
    """A job store whose reads or writes are refused until `room` is set."""

    def __init__(self, store: JobStore, method: str) -> None:
        self._store = store
        self._method = method
        self.room = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name) if self.room or name != self._method else self._refuse

    async def _refuse(self, *_: Any) -> None:
        raise Forbidden("exceeded quota: secrets, used: 10, limited: 10")


@pytest.mark.parametrize("method", ["load", "put", "close"])
def test_jobs_that_cannot_be_recorded_are_reported_until_they_can_PULL_4(method: str) -> None:
    changes: list[None] = []
    stores: list[FullQuota] = []

    def full(site: Site) -> None:
        stores.append(FullQuota(site.store, method))
        site.agent = site.new_agent(store=stores[0], on_change=lambda: changes.append(None))

    async def body(site: Site) -> None:
        site.enqueue()
        await anyio.sleep(1)
        if REF in site.known:
            await site.report(READY)
        await anyio.sleep(60)
        assert "exceeded quota" in site.agent.report().unrecorded
        assert site.conditions()["JobsBlocked"] == ("True", "RecordsNotStored")
        seen = len(changes)

        stores[0].room = True
        await anyio.sleep(900)
        assert site.agent.report().unrecorded == ""
        assert len(changes) > seen, "the Cluster's status is written again"

    quiet(body, full)


@run_by(run)
async def test_a_restarted_process_goes_on_with_its_jobs_PULL_4() -> None:
    site = Site()
    await site.prepare()
    job = site.enqueue()
    async with anyio.create_task_group() as first:
        first.start_soon(site.agent.run)
        await anyio.sleep(5)
        first.cancel_scope.cancel()
    assert job.acked_at is not None
    await site.report(READY)
    site.agent = site.new_agent()
    async with anyio.create_task_group() as second:
        second.start_soon(site.agent.run)
        second.start_soon(site.watch)
        await anyio.sleep(5)
        second.cancel_scope.cancel()
    assert outcome(job) == "succeeded"
    assert not site.store.records


@run_by(run)
async def test_what_comes_after_the_end_of_a_run_is_left_to_the_next_process() -> None:
    site = Site()
    await site.prepare()
    site.enqueue()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(site.agent.run)
        await anyio.sleep(5)
        tasks.cancel_scope.cancel()
    requests = len(site.server.requests)
    site.agent.on_object_changed(None, REF)
    await anyio.sleep(600)
    assert len(site.server.requests) == requests


def test_a_run_is_a_function_of_its_seed() -> None:
    def trace() -> list[Any]:
        found: list[Any] = []

        async def body(site: Site) -> None:
            for number in range(5):
                site.enqueue(name=f"app-{number}")
            site.server.faults.inject(ScriptedFault(status=500, times=7))
            await anyio.sleep(100)
            for number in range(5):
                await site.report(READY, name=f"app-{number}")
            await anyio.sleep(100)
            found.extend(site.server.requests)
            found.extend(job.as_json() for job in site.server.jobs)

        simulate(body)
        return found

    assert trace() == trace()


def test_a_result_that_is_refused_is_tried_on_slowly_and_its_record_kept_PULL_4() -> None:
    async def body(site: Site) -> None:
        job = site.enqueue()
        await anyio.sleep(1)
        site.server.faults.inject(ScriptedFault(AgentCall.RESULT, 413, times=3))
        await site.report(READY)
        await anyio.sleep(100)
        assert job.result is None
        assert site.store.records
        await anyio.sleep(500)
        assert outcome(job) == "succeeded"
        assert not site.store.records
        assert len(site.asked(AgentCall.RESULT)) == 4

    lines = quiet(body)

    assert any("a delivery was refused" in line["event"] for line in lines)


class SlowStatuses:
    """A control plane whose answers to statuses take three seconds, so that they come after that to the result."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    async def status(self, job_id: str, body: Any) -> None:
        await anyio.sleep(3)
        await self._control.status(job_id, body)


@pytest.mark.parametrize("refused", [404, 409, 405])
def test_a_status_that_is_refused_after_the_result_is_not_repeated(refused: int) -> None:
    async def body(site: Site) -> None:
        site.server.faults.inject(ScriptedFault(call=AgentCall.STATUS, status=refused, times=10**6))
        job = site.enqueue()
        await anyio.sleep(2)
        await site.report(READY)
        await anyio.sleep(3600)
        assert outcome(job) == "succeeded"
        assert len(site.asked(AgentCall.STATUS)) <= 2, "nobody needs it any more"

    def slow(site: Site) -> None:
        site.agent = site.new_agent(control=SlowStatuses(site.control))

    simulate(body, slow)


def test_what_a_status_in_flight_failed_to_tell_is_told_by_events_PULL_6() -> None:
    async def body(site: Site) -> None:
        site.server.faults.inject(ScriptedFault(call=AgentCall.STATUS, status=500, times=10**6))
        job = site.enqueue()
        await anyio.sleep(2)
        await site.report(READY, PARTIAL)
        await anyio.sleep(60)

        assert outcome(job) == "succeeded"
        by_event = [told["type"] for event in site.events("ConditionTransition") for told in event["conditions"]]
        assert sorted(by_event) == ["Degraded", "Ready"]

    def slow(site: Site) -> None:
        site.agent = site.new_agent(control=SlowStatuses(site.control))

    simulate(body, slow)


@run_by(simulate)
async def test_the_end_of_the_process_does_not_wait_for_a_result_that_is_refused_RUN_4(site: Site) -> None:
    job = site.enqueue()
    await anyio.sleep(1)
    site.server.faults.inject(ScriptedFault(AgentCall.RESULT, 413, times=10**6))
    await site.report(READY)
    await anyio.sleep(1)
    with anyio.fail_after(5):
        await site.agent.finish()
    assert len(site.asked(AgentCall.RESULT)) == 2, "once more, at the end"
    assert outcome(job) == "none"
    assert site.store.records, "it is left to the next process"


class SteppedClock:
    """The clock of a machine whose wall clock is set."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self.by = clock, timedelta(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def now(self) -> datetime:
        return self._clock.now() + self.by


class FullStore:
    """A job store that cannot be written for a while."""

    def __init__(self, store: JobStore) -> None:
        self._store, self.is_full = store, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, record: JobRecord) -> None:
        if self.is_full:
            raise Unavailable("etcd has no space")
        await self._store.put(record)


@run_by(run)
async def test_a_clock_that_is_set_back_does_not_hold_up_a_job() -> None:
    site = Site()
    await site.prepare()
    clock, store = SteppedClock(site.clock), FullStore(site.store)
    site.agent = site.new_agent(clock=clock, store=store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(site.agent.run)
        job = site.enqueue()
        await anyio.sleep(20)
        clock.by = timedelta(hours=-2)
        store.is_full = False
        await anyio.sleep(61)
        tasks.cancel_scope.cancel()
    assert job.acked_at is not None


@pytest.mark.parametrize("call", [AgentCall.ACK, AgentCall.RESULT])
def test_a_403_for_one_job_does_not_hold_up_the_others_PULL_7(call: AgentCall) -> None:
    """The polls are answered with the same credential: the control plane does not let this cluster have that job."""

    async def body(site: Site) -> None:
        site.server.faults.inject(ScriptedFault(call, 403, times=2))  # also when the credential was read anew
        refused = site.enqueue()
        await anyio.sleep(3)
        if call is AgentCall.RESULT:
            await site.report(READY)
            await anyio.sleep(1)
        good = site.enqueue(name="other")
        await anyio.sleep(3)
        await site.report(READY, name="other")
        await anyio.sleep(3)
        assert (outcome(refused), outcome(good)) == ("none", "succeeded")
        await anyio.sleep(600)
        await site.report(READY)
        await anyio.sleep(3)
        assert outcome(refused) == "succeeded"

    def rereading(site: Site) -> None:
        async def reread() -> bool:
            return True

        site.agent = site.new_agent(reread=reread)

    simulate(body, rereading)
