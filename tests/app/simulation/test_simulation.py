"""Runs with faults: each fault happens, seeded defects are found by the law they break, and failing runs shrink."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from purekube.controller.decision import Decision, Finalizer
from purekube.ports import KubeApi
from purekube_run.controller.election import Elector, Fence, LeaseLost
from purekube_run.simulation.laws import NOTE, Laws
from purekube_run.simulation.run import SimulationOutcome
from purekube_run.simulation.script import Act, Incident, SimulationScript
from purekube_run.simulation.script_file import script_text
from purekube_run.simulation.shrinking import shrink
from vworkspace_app.instances import controller as instances
from vworkspace_app.simulation.faults import FAULTS
from vworkspace_app.simulation.run import draw, perform, read_script
from vworkspace_app.simulation.script import Do
from vworkspace_app.simulation.workload import PASSWORD
from vworkspace_app.simulation.world import SimulatedWorld
from vworkspace_core.instances.reconcile import reconcile
from vworkspace_core.jobs.store import KubeJobStore

LIFE = (Act(20.0, Do.CREATE, "app-0"), Act(80.0, Do.UPGRADE, "app-0", 2))
DELETED = (*LIFE, Act(130.0, Do.DELETE, "app-0"))


def script(*steps: Act | Incident, seconds: float = 200.0, replicas: int = 1) -> SimulationScript:
    return SimulationScript(7, replicas, seconds).with_steps(steps)


def broken_by(outcome: SimulationOutcome) -> set[tuple[str, str]]:
    return {(law.clause, law.law) for law in outcome.broken}


# --- the correct operator --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_every_law_holds_through_all_faults(seed: int) -> None:
    """SIM-2, SIM-4: ten minutes of people, jobs and faults, then convergence and silence."""
    outcome = perform(draw(seed, seconds=600, instances=3, replicas=2, faults=tuple(FAULTS)))
    assert outcome.broken == ()
    assert outcome.checks["REC-6"] == outcome.checks["REC-1"] == 1
    assert outcome.acts > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_every_law_holds_through_hours(seed: int) -> None:
    """SIM-2, SIM-4."""
    outcome = perform(draw(seed, seconds=3600, instances=6, replicas=2, faults=tuple(FAULTS)))
    assert outcome.broken == ()


@pytest.mark.slow
def test_each_fault_happens() -> None:
    """SIM-2: no fault is named that does not strike. Requests and watches are needed for some."""
    acts = [Act(10.0 + number, Do.JOB if number % 2 else Do.CREATE, f"app-{number}") for number in range(4)]
    edits = [Act(40.0 + 7 * number, Do.VALUES, f"app-{2 * (number % 2)}", number) for number in range(90)]
    incidents = [
        Incident(30.0 + 20 * number, name, seconds=min(FAULTS[name].lasts[1], 8.0), choice=0.01)
        for number, name in enumerate(FAULTS)
    ]
    asked = Act(next(each.at for each in incidents if each.fault == "control-plane-forgets") - 0.5, Do.JOB, "app-5")
    stalled = Incident(asked.at - 0.5, "registry-away", seconds=8.0)  # the job stays open meanwhile
    outcome = perform(script(*acts, *edits, *incidents, asked, stalled, seconds=700.0))
    assert {name for name in FAULTS if not outcome.happened[name]} == set()
    assert outcome.broken == ()


@pytest.mark.slow
def test_faults_do_not_change_the_end() -> None:
    """SIM-3: equal scripts have equal traces, faults included."""
    run = draw(3, seconds=300, instances=2, replicas=2, faults=tuple(FAULTS))
    assert perform(run).digest == perform(run).digest


# --- seeded defects --------------------------------------------------------------------------------------------------


def decided(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, Decision], Decision]) -> None:
    """Change every decision about an instance."""
    correct = reconcile

    def defective(source: Any, observed: Any, context: Any) -> Decision:
        return change(source, correct(source, observed, context))

    monkeypatch.setattr(instances, "reconcile", defective)


def with_condition(source: Any, decision: Decision, **fields: Any) -> Decision:
    """Return the decision with other fields in its Ready condition."""
    if decision.status is None:
        return decision
    status = decision.status["status"]
    conditions = [{**each, **fields} if each["type"] == "Ready" else each for each in status["conditions"]]
    return attrs.evolve(decision, status={**decision.status, "status": {**status, "conditions": conditions}})


def test_ready_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, REC-7."""
    decided(monkeypatch, lambda source, decision: with_condition(source, decision, status="True", reason="Defect"))
    assert ("REC-7", "Ready only when Flux confirmed") in broken_by(perform(script(*LIFE)))


def test_a_forgotten_finalizer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, RES-5."""

    def without(source: Any, decision: Decision) -> Decision:
        return attrs.evolve(decision, finalizer=None) if decision.finalizer is Finalizer.ADD else decision

    decided(monkeypatch, without)
    assert ("RES-5", "the finalizer precedes the first child") in broken_by(perform(script(*LIFE)))


def test_a_secret_in_a_status_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, RES-7."""
    decided(monkeypatch, lambda source, decision: with_condition(source, decision, message=f"with {PASSWORD}"))
    assert ("RES-7", "no secret in a status") in broken_by(perform(script(*LIFE)))


def test_the_removal_of_an_annotation_of_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, REC-8."""
    decided(monkeypatch, lambda source, decision: attrs.evolve(decision, annotations={NOTE: None}))
    run = script(*LIFE, Act(60.0, Do.ANNOTATE, "app-0", 5))
    assert ("REC-8", "annotations of others stay") in broken_by(perform(run))


def test_writes_at_rest_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, REC-6: an annotation with the number of the pass is written in every resync."""
    passes = iter(range(10**6))

    def restless(source: Any, decision: Decision) -> Decision:
        mark = {"example.com/passes": str(next(passes))} if decision.is_empty else {}
        return attrs.evolve(decision, annotations={**decision.annotations, **mark})

    decided(monkeypatch, restless)
    broken = broken_by(perform(script(*LIFE)))
    assert broken & {("REC-6", "nothing is written at rest"), ("RUN-2", "no hot loop")}


def test_a_delete_without_the_uid_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, REC-10."""
    correct = KubeApi.delete

    async def careless(self: KubeApi, ref: Any, *, uid: str | None = None, **named: Any) -> Any:
        return await correct(self, ref, **named)

    monkeypatch.setattr(KubeApi, "delete", careless)
    assert ("REC-10", "a delete names the uid") in broken_by(perform(script(*DELETED)))


@pytest.mark.slow
def test_a_fence_that_never_closes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, RUN-4: a leader behind a partition goes on to write when another one has taken the Lease."""
    correct = Elector.run

    async def stubborn(self: Elector) -> None:
        with suppress(LeaseLost):
            await correct(self)
        await anyio.sleep_forever()

    monkeypatch.setattr(Elector, "run", stubborn)
    monkeypatch.setattr(Fence, "check", lambda self: None)
    edits = [Act(40.0 + number, Do.VALUES, f"app-{number % 3}", number) for number in range(130)]
    creates = [Act(20.0, Do.CREATE, f"app-{number}") for number in range(3)]
    partitions = [Incident(40.0, "lease-lost", replica, seconds=100.0) for replica in range(2)]
    for partition in partitions:
        outcome = perform(script(*creates, *edits, partition, seconds=300.0, replicas=2))
        if outcome.broken:
            break
    assert ("RUN-4", "only the holder of the Lease writes") in broken_by(outcome)


@pytest.mark.slow
def test_jobs_that_are_lost_in_a_crash_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, PULL-4: the store remembers nothing, and the process is killed while a job is open."""
    correct = KubeJobStore.load

    async def forgetful(self: KubeJobStore) -> Any:
        await correct(self)
        return ()

    monkeypatch.setattr(KubeJobStore, "load", forgetful)
    run = script(
        Act(20.0, Do.JOB, "job-2"),
        Incident(15.0, "registry-away", seconds=60.0),
        Incident(30.0, "replica-killed"),
        seconds=120.0,
    )
    assert ("PULL-4", "an acknowledged job has a result") in broken_by(perform(run))


# --- failing runs ----------------------------------------------------------------------------------------------------


def no_upgrade(world: SimulatedWorld, laws: Laws) -> None:
    """Break a law of the test: no instance may be upgraded to version 1.2.0."""

    def observe(write: Any) -> None:
        version = ((write.request.body or {}).get("status") or {}).get("deployedChart", {}).get("version")
        laws.check("SIM-4", "no second version", write.request.ref, version != "1.2.0", "it was upgraded")

    world.on_write.append(observe)


@pytest.mark.slow
def test_a_failing_run_is_shrunk_and_saved_and_breaks_the_same_law_again(tmp_path: Path) -> None:
    """SIM-3: of a dozen acts and faults two are left, in a file that reproduces the run."""
    noise = [Act(30.0 + 5 * number, Do.VALUES, "app-3", number) for number in range(4)]
    faults = [
        Incident(25.0 + 20 * number, name) for number, name in enumerate(("api-error", "watch-cut", "flux-crashed"))
    ]
    failing = perform(
        script(*LIFE, Act(20.0, Do.CREATE, "app-3"), *noise, *faults, seconds=100.0, replicas=2), no_upgrade
    )
    smaller = shrink(failing, lambda each: perform(each, no_upgrade), most_runs=30)
    assert [step.at for step in smaller.script.steps] == [20.0, 80.0]
    assert smaller.script.replicas == 1

    path = tmp_path / "broken.json"
    path.write_text(script_text(smaller.script, {"clause": "SIM-4"}))
    assert json.loads(path.read_text())["broken"] == {"clause": "SIM-4"}
    again = perform(read_script(path), no_upgrade)
    assert (again.broken, again.digest) == (smaller.broken, smaller.digest)


def test_a_broken_law_names_clause_object_moment_write_and_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3."""
    decided(monkeypatch, lambda source, decision: with_condition(source, decision, status="True", reason="Defect"))
    law = perform(script(*LIFE)).broken[0]
    assert timedelta(seconds=20) < timedelta(seconds=law.at) < timedelta(seconds=30)
    assert (law.clause, law.object) == ("REC-7", "ApplicationInstance team-a/app-0")
    assert "by replica-1 at 0:00:2" in law.write
    assert law.decision.startswith("status changed conditions=")
