"""Agent, cluster and control plane under every fault at once, then peace (PULL-4, PULL-5, PULL-7, PULL-12).

`make test` runs a sample; `make test-long` at least 2,000 runs of 50 steps (CHAOS_EXAMPLES=2000). A run that fails
prints the command that plays it again.
"""

from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purekube.apimachinery.manifest import ObjectRef, get_path
from tests.support.attack import attack, in_chunks
from tests.support.chaos_network import HTTP_FAULTS, KUBE_FAULTS, Fault, Trouble
from tests.support.chaos_world import SECRETS, ChaosWorld
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_fake.controlplane import JobEntry

NAMES = ("alpha", "beta")
CALLS = ("", "jobs", "ack", "status", "result", "events", "rotate")
VERBS = ("", "create", "update", "apply", "delete", "get", "list")
BAD_JOBS: list[Any] = [{"kind": "apply"}, {"id": "bad", "kind": "upgrade"}, {"id": "worse", "payload": [1]}, 7]
OUTAGES = (
    None,
    Trouble.LOST_REQUEST,
    Trouble.HALF_OPEN,
    Trouble.BROKEN,
    Trouble.HTML,
    Trouble.NO_SUCH_PAGE,
    Trouble.UNAUTHORIZED,
    Trouble.FORBIDDEN,
    Trouble.TOO_MANY,
    Trouble.LOST_RESPONSE,
)
PEACE = 4 * 3600.0
"""Virtual seconds within which everything must be settled once the faults have stopped."""


class Chaos(RuleBasedStateMachine):
    """Safety at every step, convergence at the end."""

    @initialize()
    def begin(self) -> None:
        self.world = ChaosWorld()
        self.results: dict[str, Any] = {}

    # --- what is asked for ------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), generation=st.integers(1, 6))
    def ask(self, name: str, generation: int) -> None:
        self.world.ask(name, generation)

    @rule(name=st.sampled_from(NAMES), number=st.integers(1, 3), delete=st.booleans())
    def ask_with_a_hash(self, name: str, number: int, delete: bool) -> None:
        self.world.ask_with_a_hash(name, number, delete=delete)

    @rule()
    def ask_for_a_rotation(self) -> None:
        payload = {"intent": "rotate-operator-credentials"}
        key = f"rotate-{len(list(self.world.server.jobs))}"
        self.world.server.enqueue("cluster-prod-1", kind="intent", payload=payload, idempotency_key=key)

    @rule(raw=st.sampled_from(BAD_JOBS))
    def ask_badly(self, raw: Any) -> None:
        known = {job.id for job in self.world.server.jobs}
        if not isinstance(raw, dict) or raw.get("id") not in known:
            self.world.server.enqueue_raw("cluster-prod-1", raw)

    @precondition(lambda self: any(job.result for job in self.world.server.jobs))
    @rule(which=st.integers(0, 5))
    def offer_again(self, which: int) -> None:
        closed = [job for job in self.world.server.jobs if job.result is not None]
        job = closed[which % len(closed)]
        self.results.pop(job.id, None)
        self.world.offer_again(job)

    # --- what goes wrong --------------------------------------------------------------------------------------

    @rule(trouble=st.sampled_from(HTTP_FAULTS), where=st.sampled_from(CALLS), skip=st.integers(0, 4))
    def trouble_with_the_control_plane(self, trouble: Trouble, where: str, skip: int) -> None:
        self._order(Fault(trouble, f"/{where}" if where else "/api/agent/", skip))

    @rule(trouble=st.sampled_from(KUBE_FAULTS), where=st.sampled_from(VERBS), skip=st.integers(0, 8))
    def trouble_with_the_api_server(self, trouble: Trouble, where: str, skip: int) -> None:
        self._order(Fault(trouble, f"kube {where}", skip))

    def _order(self, fault: Fault) -> None:
        if len(self.world.process.network.faults) < 12:
            self.world.process.network.faults.append(fault)

    @rule(trouble=st.sampled_from(OUTAGES))
    def outage(self, trouble: Trouble | None) -> None:
        self.world.outage = trouble

    @rule()
    def crash(self) -> None:
        self.world.process.die()
        self.world.run(self.world.pass_time(1))

    @rule(after=st.sampled_from([0.0, 0.004, 0.011]))
    def change_of_leaders(self, after: float) -> None:
        self.world.run(self.world.pass_time(after))
        self.world.run(self.world.restart())

    @rule(hours=st.sampled_from([-24, 24]))
    def clock_step(self, hours: int) -> None:
        self.world.clock.offset += timedelta(hours=hours)

    @rule(grace=st.booleans())
    def new_credential(self, grace: bool) -> None:
        self.world.rotate(grace=grace)

    @rule(name=st.sampled_from(NAMES), fails=st.booleans())
    def releases_fail(self, name: str, fails: bool) -> None:
        (self.world.failing.add if fails else self.world.failing.discard)(name)

    # --- time ---------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.004, 0.02, 0.5, 3.0, 3.0, 20.0, 20.0, 400.0]))
    def time(self, seconds: float) -> None:
        self.world.run(self.world.pass_time(seconds))

    # --- the laws -----------------------------------------------------------------------------------------------

    @invariant()
    def no_acknowledged_job_is_lost(self) -> None:
        for job in self._jobs():
            if job.acked_at is not None and job.result is None:
                assert self.world.has_record(job.id), job.id

    @invariant()
    def a_key_has_at_most_one_effect(self) -> None:
        counted = Counter(deed.key for deed in self.world.deeds)
        assert max(counted.values(), default=0) <= 1, self.world.deeds

    @invariant()
    def an_older_generation_never_overwrites_a_newer_one(self) -> None:
        newest: dict[str, int] = defaultdict(int)
        for deed in self.world.deeds:
            if deed.generation:
                assert deed.generation >= max(newest[deed.name], deed.on_generation), self.world.deeds
                newest[deed.name] = deed.generation

    @invariant()
    def one_result_is_accepted_per_job_and_stays(self) -> None:
        for job in self._jobs():
            if job.result is not None:
                assert self.results.setdefault(job.id, job.result) == job.result

    @invariant()
    def results_are_true(self) -> None:
        for job in self._jobs():
            if job.result is not None and isinstance(job.raw, dict):
                self._check_truth(job)

    def _check_truth(self, job: JobEntry) -> None:
        outcome, error = job.result["outcome"], job.result.get("error", "")
        key, kind = job.raw.get("idempotencyKey"), job.raw.get("kind")
        uid = get_path(job.result, "appliedRef", "uid")
        mine = [deed for deed in self.world.deeds if deed.key == key]
        if outcome == "succeeded" and kind == "apply":
            assert (uid, get_path(job.result, "appliedRef", "generation")) in self.world.ready, "it was Ready"
            assert mine, "success needs an effect"
        if outcome == "succeeded" and kind == "delete" and uid:
            assert uid in self.world.gone, "it is gone"
        if outcome == "noop" and not error:
            others = [other for other in self._jobs() if isinstance(other.raw, dict)]
            same = [other for other in others if other.raw.get("idempotencyKey") == key]
            assert mine or kind == "delete" or len(same) > 1 or job.offers > 1, "a replay has something it replays"

    @invariant()
    def no_secret_is_told(self) -> None:
        told = [str(line) for line in self.world.logs.entries] + self.world.reports
        told += [str([job.statuses, job.result]) for job in self._jobs()]
        told += [str(event) for event in self.world.server.events_of("cluster-prod-1")]
        assert not [text for text in told if any(secret in text for secret in SECRETS)]

    @invariant()
    def memory_stays_within_bounds(self) -> None:
        agent = self.world.process.agent
        jobs = len(list(self._jobs()))
        assert len(agent.state.jobs) <= jobs
        assert len(agent.outbox.events) <= agent.outbox.capacity
        assert len(agent._urgent) <= 2 * jobs
        assert len(agent._statuses) <= jobs

    def _jobs(self) -> list[JobEntry]:
        return list(self.world.server.jobs) if hasattr(self, "world") else []

    # --- peace ----------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self._converge()
        finally:
            self.world.close()

    def _converge(self) -> None:
        world = self.world
        world.outage = None
        world.process.network.faults.clear()
        limit = world.loop.time() + PEACE
        while not self._is_settled():
            assert world.loop.time() < limit, f"not settled: {[job for job in self._jobs() if job.open]}"
            world.run(world.pass_time(5))
            world.process.network.faults.clear()
            for law in (self.a_key_has_at_most_one_effect, self.an_older_generation_never_overwrites_a_newer_one):
                law()
        self.results_are_true()
        self.no_secret_is_told()
        self._the_newest_generation_stands()
        deeds = list(world.deeds)
        world.run(world.pass_time(5))  # the reconciler may have something to say yet
        before = [instance["metadata"]["resourceVersion"] for instance in world.instances()]
        world.run(world.pass_time(400))
        assert [instance["metadata"]["resourceVersion"] for instance in world.instances()] == before, (
            "and then all is quiet"
        )
        assert world.deeds == deeds, "the operator has done all it will do"

    def _is_settled(self) -> bool:
        world = self.world
        usable = [job for job in self._jobs() if not job.id.startswith("unnamed-")]
        return (
            all(job.result is not None for job in usable)
            and not world.open_records()
            and not world.process.network.dead
            and not world.process.agent.state.jobs
            and not world.process.agent.outbox.events
            and world.process.agent.connection_state.connectivity is Connectivity.CONNECTED
        )

    def _the_newest_generation_stands(self) -> None:
        """Where only numbered keys touched an object, it is as the highest generation that had its effect wants it."""
        for name in NAMES:
            mine = [deed for deed in self.world.deeds if deed.name == name]
            if not mine or any(not deed.generation for deed in mine):
                continue
            live = self.world.find(ObjectRef(APPLICATION_INSTANCE, "org-myteam", name))
            newest = max(deed.generation for deed in mine)
            assert (live is not None) == (newest % 2 == 1), (newest, mine)


@pytest.mark.slow
@in_chunks(6)
def test_every_fault_of_both_wires_then_peace_PULL_4(chunk: int, runs: int) -> None:
    attack(Chaos, chunk, runs)
