"""Runs with faults: each fault happens, seeded defects are found by the law they break, and failing runs shrink."""

import json
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from kubelab.model.records import GroupResource, StoredChange
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import HELM_RELEASE
from purekube_run.simulation.laws import Laws
from purekube_run.simulation.run import SimulationOutcome
from purekube_run.simulation.script import Act, Incident, SimulationScript
from purekube_run.simulation.script_file import script_text
from purekube_run.simulation.shrinking import shrink
from tests.app.simulation.defects import DEFECTS, MOST_STEPS, QUICKLY_FOUND, SAVED, SEEDS, slug
from tests.support.effort import of_both
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.operator_faults import CRASH_POINTS, FAULTS
from vworkspace_app.simulation.operator_world import SimulatedWorld
from vworkspace_app.simulation.run import draw, perform, read_script
from vworkspace_core.api.labels import FIELD_MANAGER

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
    assert {("REC-6", "nothing is written at rest"), ("REC-1", "every instance converges")} <= outcome.laws
    assert outcome.acts > 0


@pytest.mark.slow
def test_what_the_server_shares_between_readers_is_never_changed() -> None:
    """SIM-3: the pipeline, watches, simulated controllers and laws read one decoded copy of each stored object."""
    compared = 0

    def compare(world: SimulatedWorld, laws: Laws) -> None:
        def is_unchanged(place: GroupResource, change: StoredChange) -> None:
            nonlocal compared
            if change.before is not None:
                assert change.before.shared() == change.before.object()
                compared += 1

        world.server.store.observe(is_unchanged)

    perform(draw(3, seconds=600, instances=3, replicas=2, faults=tuple(FAULTS)), compare)
    assert compared > 100


@pytest.mark.slow
def test_nothing_of_a_world_is_left_when_its_run_is_over() -> None:
    """SIM-1: memory stays flat over any number of runs, whatever struck in them."""
    worlds: list[weakref.ref[SimulatedWorld]] = []

    def remember(world: SimulatedWorld, laws: Laws) -> None:
        worlds.append(weakref.ref(world))

    happened = Counter[str]()
    for seed in (1, 2):
        outcome = perform(draw(seed, seconds=300, instances=2, replicas=2, faults=tuple(FAULTS)), remember)
        happened.update(outcome.happened)
    happened.update(perform(script(*LIFE, *_OF_REQUESTS), remember).happened)
    assert {incident.fault for incident in _OF_REQUESTS} <= set(happened)
    assert [world() for world in worlds] == [None] * 3


_OF_REQUESTS = tuple(
    Incident(25.0 + number, fault, choice=0.0)
    for number, fault in enumerate(
        ("api-error", "lost-answer", "too-many-requests", "write-conflict", "proxy-garbage", "crash-after-write")
    )
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 9, 62, 304, 319, 430, 525, 1013, 1025, 50016, 50039, 60025, 90151])
def test_a_law_knows_what_may_happen_and_what_is_still_to_come(seed: int) -> None:
    """REC-6, PULL-3, PULL-10, OPS-1: whole scripts in which a law once took what is right for a breach.

    In 7 a restore takes an object of others away, and a job makes its own; in 9 a newer job makes again what an older
    one deleted; in 62 a backup is queued after one that does not end; in 304 a release stalled in a fault and waits for
    a person's retry; in 319 a restore of etcd took the record of an acknowledged job and its process ended; in 430 the
    GitOps tool lets go of a HelmRelease before it exists; in 525 Flux judged a release before a fault ended that lied
    about it; in 1013 etcd is restored as watches end; in 1025 two equal jobs delete at the same time; in 90151 an
    object has had all the Events that it may have, and their last count is written at rest. In the others a standby
    finds what a leader left, watches notice a restore, and a repetition may end first.
    """
    outcome = perform(read_script(SEEDS.parent / "drawn" / f"{seed}.json"))
    assert outcome.broken == ()
    assert ("REC-6", "nothing is written at rest") in outcome.laws


@pytest.mark.slow
def test_a_source_that_a_cache_shows_unused_is_kept_while_the_release_reads_it() -> None:
    """REC-10: an Upgrade is taken back by a standby, whose watch of HelmReleases is half-open."""
    outcome = perform(read_script(SEEDS.parent / "drawn" / "takes-an-upgrade-back.json"))
    assert outcome.broken == ()
    assert ("REC-10", "nothing in use is deleted") in outcome.laws


@pytest.mark.slow
@pytest.mark.parametrize("seed", of_both(range(100, 106), range(100, 1000)))
def test_every_law_holds_through_half_an_hour(seed: int) -> None:
    """SIM-2, SIM-4."""
    outcome = perform(draw(seed, seconds=1800, instances=6, replicas=2, faults=tuple(FAULTS)))
    assert outcome.broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [400, 401])
def test_every_law_holds_in_two_shards(seed: int) -> None:
    """SIM-2, SIM-4, RUN-13."""
    outcome = perform(draw(seed, seconds=900, instances=6, replicas=2, shards=2, faults=tuple(FAULTS)))
    assert outcome.broken == ()
    assert ("RUN-13", "one shard acts on an object") in outcome.laws


def test_shards_that_lead_are_not_awaited() -> None:
    """SIM-4, RUN-13: the holder of a shard's Lease is known as such, so changes count and the run ends when at rest."""
    outcome = perform(draw(1, seconds=60, instances=2, replicas=1, shards=2, faults=()))
    assert outcome.broken == ()
    assert outcome.seconds < 3600
    assert ("REC-1", "a change is looked at at once") in outcome.laws


@pytest.mark.slow
def test_people_retry_what_a_fault_stalled() -> None:
    """SIM-4, REC-1, REC-14: Flux gives up while every action fails, and the spec wants a person's retry then."""
    acts = (Act(20.0, Do.CREATE, "app-0"), Act(80.0, Do.UPGRADE, "app-0", 3))
    outcome = perform(script(*acts, Incident(75.0, "flux-fails", seconds=25.0), seconds=110.0))
    assert outcome.broken == ()
    assert outcome.happened["flux-fails"] == 1
    assert any("retry app-0" in line for line in outcome.trace)


def test_a_flux_that_flaps_keeps_what_it_has_reported() -> None:
    """SIM-2: an upgrade between two flaps stays reported. No law is checked on a status that Flux never has."""
    reported: dict[str, list[tuple[int, str]]] = {}

    def watch(world: SimulatedWorld, laws: Laws) -> None:
        def note(place: GroupResource, change: StoredChange) -> None:
            if place == (HELM_RELEASE.group, HELM_RELEASE.plural) and change.after is not None:
                live = change.after.shared()
                status = int(get_path(live, "status", "observedGeneration") or 0)
                released = str(condition_of(live, "Released").get("reason", ""))
                reported.setdefault(change.after.uid, []).append((status, released))

        world.server.store.observe(note)

    outcome = perform(script(*LIFE, Incident(70.0, "flux-flaps", seconds=60.0, choice=0.5)), watch)
    assert outcome.broken == ()
    assert outcome.happened["flux-flaps"] == 1
    first, *_ = reported.values()
    assert first[-1][1] == "UninstallSucceeded"
    generations = [generation for generation, _ in first]
    assert generations == sorted(generations)
    told = [reason for _, reason in first[:-1]]
    assert "InstallSucceeded" not in told[told.index("UpgradeSucceeded") :]


@pytest.mark.slow
def test_the_end_of_a_run_is_that_of_a_world_with_the_last_intents_alone() -> None:
    """SIM-4: one seed in ten is compared."""
    outcome = perform(attrs.evolve(script(*LIFE, Incident(30.0, "replica-killed")), seed=10))
    assert outcome.broken == ()
    assert ("SIM-4", "state of history is state of intents") in outcome.laws


_CROWD = (
    *(Act(8.0 + number, Do.CREATE, f"app-{number}") for number in (0, 1, 3)),
    *(Act(40.0 + 9 * number, Do.VALUES, f"app-{(0, 1, 3)[number % 3]}", number) for number in range(14)),
    *(Act(41.0 + 9 * number, Do.OPERATE, "app-0", number) for number in range(14)),
    *(Act(42.0 + 12 * number, Do.JOB, f"job-{2 + 3 * (number % 3)}", number) for number in range(10)),
    *(Act(45.0 + 20 * number, Do.DELETE, f"app-{(1, 3)[number % 2]}", number) for number in range(4)),
    *(Act(58.0 + 20 * number, Do.CREATE, f"app-{(1, 3)[number % 2]}", number) for number in range(4)),
)
"""A busy world, in which every fault finds something to befall."""
_FOURS = [tuple(FAULTS)[first :: len(FAULTS) // 4] for first in range(len(FAULTS) // 4)]
"""All faults, four unlike ones a run, which costs as much with four as with one."""


@pytest.mark.slow
@pytest.mark.parametrize("faults", _FOURS, ids=" ".join)
def test_each_fault_happens(faults: Sequence[str]) -> None:
    """SIM-2: no fault is named that does not strike, and the laws hold through it. Some find nothing at first."""
    first = dict.fromkeys(faults, 50.0) | {"stale-cache": 40.0}  # something is deleted before the first crash
    strikes = [
        Incident(
            first[fault] + 13 * number + 3 * place,
            fault,
            number % 2,
            min(FAULTS[fault].lasts[1], 25.0),
            (0.02 + 0.1 * number) % 1.0,
        )
        for number in range(9)
        for place, fault in enumerate(faults)
    ]
    outcome = perform(script(*_CROWD, *strikes, seconds=200.0, replicas=2))
    assert [fault for fault in faults if not outcome.happened[fault]] == []
    assert outcome.broken == ()


def test_crashes_go_through_all_write_points_in_turn() -> None:
    """SIM-2: two sides of each right to write that the operator uses, over neighbouring seeds."""
    points = {
        int(incident.choice * len(CRASH_POINTS))
        for seed in range(len(CRASH_POINTS) // 3 + 1)
        for incident in draw(seed, seconds=3600, instances=1, replicas=1, faults=("crash-at-write-point",)).incidents
    }
    assert points == set(range(len(CRASH_POINTS)))


@pytest.mark.slow
def test_a_crash_at_a_write_point_is_before_or_after_that_write() -> None:
    """SIM-2."""
    for side in ("before", "after"):
        point = f"{side} create helmreleases"
        choice = (CRASH_POINTS.index(point) + 0.5) / len(CRASH_POINTS)
        outcome = perform(script(*LIFE, Incident(5.0, "crash-at-write-point", choice=choice)))
        assert outcome.crashed_at == {point}
        assert outcome.broken == ()


def test_an_approval_may_be_replaced_once_its_run_has_begun() -> None:
    """OPS-4: the process ends before it creates the Workflow, and a user gives another approval meanwhile."""
    point = (CRASH_POINTS.index("before create workflows") + 0.5) / len(CRASH_POINTS)
    outcome = perform(
        script(
            Act(20.0, Do.CREATE, "app-0"),
            Incident(50.0, "crash-at-write-point", choice=point),
            Act(60.0, Do.APPROVED, "app-0", 3),
            Act(62.0, Do.APPROVE, "app-0", 6),  # for other parameters
            seconds=100.0,
        )
    )
    assert outcome.broken == ()
    assert outcome.crashed_at == {"before create workflows"}
    assert ("OPS-4", "an approval is for this run") in outcome.laws


@pytest.mark.slow
def test_equal_scripts_have_equal_traces() -> None:
    """SIM-3: faults included."""
    run = draw(3, seconds=300, instances=4, replicas=2, faults=tuple(FAULTS))
    assert perform(run).digest == perform(run).digest


# --- seeded defects --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICKLY_FOUND)
def test_a_defect_is_found_in_the_life_of_one_instance(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4."""
    DEFECTS[name].patch(monkeypatch)
    assert broken_by(perform(script(*DELETED, Act(60.0, Do.ANNOTATE, "app-0", 5)))) & DEFECTS[name].laws


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_a_defect_is_found_by_its_law_in_at_most_ten_acts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4: in the shrunk run that a search among seeds saved, and without the defect every law holds in that run."""
    saved = read_script(SEEDS / f"{slug(name)}.json")
    monkeypatch.chdir(SEEDS.parents[2])  # a run names the file of its box by its path from there
    assert len(saved.steps) <= MOST_STEPS
    assert perform(saved).broken == ()
    DEFECTS[name].patch(monkeypatch)
    assert broken_by(perform(saved)) & DEFECTS[name].laws


@pytest.mark.slow
@pytest.mark.parametrize(("manager", "broken"), [("velero-server", set()), (FIELD_MANAGER, {"REC-10"})])
def test_a_release_that_velero_restores_as_the_finalizer_goes_is_not_the_operators(
    manager: str, broken: set[str]
) -> None:
    """REC-10: the operator has not seen it yet, and the garbage collector ends it. One of the operator's is judged."""

    def restore(world: SimulatedWorld, laws: Laws) -> None:
        gone: dict[str, Any] = {}
        kept = ("name", "namespace", "labels", "ownerReferences")

        def observe(where: GroupResource, change: StoredChange) -> None:
            if change.before is not None and change.after is None:
                live = change.before.object()
                gone[live["kind"]] = live
                if live["kind"] == "OCIRepository" and "HelmRelease" in gone:
                    world.loop.call_later(0.03, again)  # in flight to the operator

        def again() -> None:
            meta = {name: gone["HelmRelease"]["metadata"][name] for name in kept}
            world.create({**gone["HelmRelease"], "metadata": meta}, HELM_RELEASE, manager)

        world.server.store.observe(observe)

    assert {law.clause for law in perform(script(*DELETED), restore).broken} == broken


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


def _fails(*told: object) -> None:
    raise KeyError("a defect of the law")


@pytest.mark.parametrize(
    "prepare",
    [
        lambda world, laws: world.on_write.append(_fails),
        lambda world, laws: world.on_note.append(_fails),
        lambda world, laws: world.on_decision.append(_fails),
        lambda world, laws: world.on_reconciled.append(_fails),
        lambda world, laws: laws.observe(HELM_RELEASE, _fails),
    ],
    ids=["write", "note", "decision", "reconcile", "object"],
)
def test_a_law_that_fails_is_no_law_that_holds(prepare: Callable[[SimulatedWorld, Laws], None]) -> None:
    """SIM-4: its error was taken for the answer of the API server, the run went on, and the law counted as kept."""
    with pytest.raises(KeyError, match="a defect of the law"):
        perform(script(*LIFE, seconds=90.0), prepare)


def test_a_broken_law_names_clause_object_moment_write_and_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3."""
    DEFECTS["Ready before Flux confirmed"].patch(monkeypatch)
    law = perform(script(*LIFE)).broken[0]
    assert timedelta(seconds=20) < timedelta(seconds=law.at) < timedelta(seconds=30)
    assert (law.clause, law.object) == ("REC-7", "ApplicationInstance team-a/app-0")
    assert "by replica-1 at 0:00:2" in law.write
    assert law.decision.startswith("[REC-5 row 1 Pending] writes the status Ready=")


@pytest.mark.parametrize(
    ("defect", "clause", "decision"),
    [
        ("forgets the finalizer", "RES-5", "[REC-5 row 1 Pending] applies OCIRepository team-a/app-0-"),
        ("releases the finalizer too early", "REC-10", "[REC-10 Uninstalling] removes the finalizer, "),
    ],
)
def test_the_decision_of_a_broken_law_is_the_one_that_its_pass_carries_out(
    monkeypatch: pytest.MonkeyPatch, defect: str, clause: str, decision: str
) -> None:
    """SIM-3: the pass has not ended when its write breaks the law, so its log line is still to come."""
    DEFECTS[defect].patch(monkeypatch)
    law = perform(script(*DELETED)).broken[0]
    assert law.clause == clause
    assert law.decision.startswith(decision)


def test_the_decision_of_a_law_that_a_job_breaks_is_the_step_of_that_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3: a job has no pass; the task that carries out its step names it."""
    DEFECTS["applies the jobs of an offer from the last"].patch(monkeypatch)
    acts = (
        Act(10.0, Do.JOB, "job-2"),
        *(Act(21.0 + 10 * number, Do.JOBS, "job-2", 3 * number + 1) for number in range(4)),
    )
    law = perform(script(*acts, seconds=70.0)).broken[0]
    assert law.law == "jobs of one offer have their effects in order"
    ref = "ApplicationInstance team-c/job-2"
    assert law.decision.startswith("[PULL-4 acting] job job-")
    assert law.decision.endswith(f" applies {ref}")
