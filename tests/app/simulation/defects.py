"""Seeded defects of the operator, each with the laws that it breaks (SIM-4).

`python -m tests.app.simulation.defects [NAME…]` runs seeds until each is found, shrinks the run, saves it in
`tests/seeds`, and prints a table.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from purekube.apimachinery.manifest import get_path
from purekube.controller import execute
from purekube.controller.backoff import Backoff
from purekube.controller.decision import Decision, Finalizer
from purekube.controller.informer.changes import ChangeType
from purekube.controller.informer.store import ObjectStore
from purekube.controller.lease.machine import step
from purekube.controller.lease.messages import LeaseContext, LeaseEvent, LeaseState, LeaseWritten
from purekube.controller.queue import workqueue
from purekube.controller.queue.own_writes import OwnWrites
from purekube.controller.shard import Shard
from purekube.ports import KubeApi
from purekube_run.controller import election
from purekube_run.controller.election import Elector, Fence, LeaseLost
from purekube_run.simulation.laws import NOTE
from purekube_run.simulation.run import SimulationOutcome
from purekube_run.simulation.script import SimulationScript
from purekube_run.simulation.script_file import script_text
from purekube_run.simulation.shrinking import shrink
from tests.app.simulation import further_patches as further
from tests.app.simulation import outcome_patches as outcomes
from tests.app.simulation import reach_patches as reach
from tests.app.simulation import release_patches as releases
from tests.app.simulation import rollout_patches as rollouts
from tests.app.simulation import run_patches as runs
from vworkspace_app.instances import controller as instances
from vworkspace_app.instances.controller import InstanceReconciler
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.operations import controller as operations
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.operator_world import PASSWORD
from vworkspace_app.simulation.run import draw, drawn, perform
from vworkspace_core.api.labels import FINALIZER
from vworkspace_core.api.operation import TERMINAL_PHASES, OperationStatus, Phase
from vworkspace_core.clusters import decision as cluster_decisions
from vworkspace_core.instances import blocking_reasons, deletion, desired
from vworkspace_core.instances import reconcile as instance_decisions
from vworkspace_core.instances.reconcile import reconcile
from vworkspace_core.jobs import awaiting_status, payload_security, work_slot
from vworkspace_core.jobs import machine as job_machine
from vworkspace_core.jobs import result as job_results
from vworkspace_core.jobs import steps as job_steps
from vworkspace_core.jobs.job_store import Tombstone
from vworkspace_core.jobs.plan import plan
from vworkspace_core.jobs.result import SUCCEEDED
from vworkspace_core.jobs.state import JobState, tombstone_of
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.operations import approvals, conflicts, engine_run, lifecycle, preconditions
from vworkspace_core.operations.approvals import UsedApprovals
from vworkspace_core.operations.reconcile import reconcile_operation

MOST_RUNS = 500
"""The seeds after which a defect counts as not found."""
MOST_STEPS = 10
"""The most acts and faults of a shrunk run."""

Patch = Callable[[pytest.MonkeyPatch], None]


@attrs.frozen
class Defect:
    """A defect: how it is put in, the laws of which one finds it, and the worlds where it is sought.

    A script of `seconds` is drawn with the faults that can show the defect, and runs `pace` times as fast.
    """

    patch: Patch
    laws: frozenset[tuple[str, str]]
    seconds: float = 600.0
    instances: int = 4
    shards: int = 1
    faults: tuple[str, ...] = tuple(FAULTS)
    pace: float = 1.0
    box: str = ""
    """The file of a box whose roll-outs are simulated instead of the operator."""

    def drawn(self, seed: int) -> SimulationScript:
        """Return the script of a seed."""
        if self.box:
            script = SimulationScript(seed, 2, self.seconds, boxes=(self.box,), applied=True)
            return drawn(script, self.instances, self.faults)
        script = draw(
            seed,
            seconds=self.seconds,
            instances=self.instances,
            replicas=2,
            faults=self.faults,
            shards=self.shards,
        )
        acts = tuple(attrs.evolve(act, at=round(act.at / self.pace, 3)) for act in script.acts)
        incidents = tuple(attrs.evolve(each, at=round(each.at / self.pace, 3)) for each in script.incidents)
        return attrs.evolve(script, seconds=script.seconds / self.pace, acts=acts, incidents=incidents)


def deciding(change: Callable[[Any, Decision], Decision]) -> Patch:
    """Change every decision about an instance."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def defective(source: Any, observed: Any, context: Any) -> Decision:
            return change(source, reconcile(source, observed, context))

        monkeypatch.setattr(instances, "reconcile", defective)

    return patch


def decided(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, Decision], Decision]) -> None:
    """Change every decision about an instance, in one test."""
    deciding(change)(monkeypatch)


def with_condition(source: Any, decision: Decision, **fields: Any) -> Decision:
    """Return the decision with other fields in its Ready condition."""
    if decision.status is None:
        return decision
    status = decision.status["status"]
    conditions = [{**each, **fields} if each["type"] == "Ready" else each for each in status["conditions"]]
    return attrs.evolve(decision, status={**decision.status, "status": {**status, "conditions": conditions}})


def _without_finalizer(source: Any, decision: Decision) -> Decision:
    return attrs.evolve(decision, finalizer=None) if decision.finalizer is Finalizer.ADD else decision


def _released_early(source: Any, decision: Decision) -> Decision:
    is_going = source.metadata.deletion_timestamp is not None
    return attrs.evolve(decision, finalizer=Finalizer.REMOVE) if is_going and decision.deletes else decision


def _never_pruned(source: Any, decision: Decision) -> Decision:
    is_going = source.metadata.deletion_timestamp is not None
    return decision if is_going else attrs.evolve(decision, deletes=())


def _restless(source: Any, decision: Decision) -> Decision:
    """Annotate the instance in every second pass that has nothing to do: its own write wakes it once."""
    if not decision.is_empty:
        return decision
    number = next(_PASSES.setdefault(source.metadata.uid, count()))
    return decision if number % 2 else attrs.evolve(decision, annotations={"example.com/passes": str(number)})


_PASSES: dict[str, Iterator[int]] = {}


def _older_generation(source: Any, decision: Decision) -> Decision:
    """Keep Ready=True with the new generation while Flux is at work on it."""
    ready = [each for each in source.status.conditions if each.type == "Ready" and each.status == "True"]
    if not ready:
        return decision
    since = ready[0].last_transition_time
    return with_condition(source, decision, status="True", reason="HelmReleaseReady", lastTransitionTime=since)


def _forced(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = KubeApi.apply

    async def forceful(self: KubeApi, manifest: Any, **named: Any) -> Any:
        return await correct(self, manifest, **{**named, "force": True})

    monkeypatch.setattr(KubeApi, "apply", forceful)


def _without_uids(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = KubeApi.delete

    async def careless(self: KubeApi, ref: Any, *, uid: str | None = None, **named: Any) -> Any:
        return await correct(self, ref, **named)

    monkeypatch.setattr(KubeApi, "delete", careless)


def _without_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the resourceVersion out of every status, so that no 409 says that it is outdated."""
    correct = KubeApi.apply_status

    async def careless(self: KubeApi, manifest: Any, **named: Any) -> Any:
        meta = {key: value for key, value in manifest["metadata"].items() if key != "resourceVersion"}
        return await correct(self, {**manifest, "metadata": meta}, **named)

    monkeypatch.setattr(KubeApi, "apply_status", careless)


def _forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = KubeJobStore.load

    async def load(self: KubeJobStore) -> Any:
        await correct(self)
        return ()

    monkeypatch.setattr(KubeJobStore, "load", load)


def _unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def put(self: KubeJobStore, record: Any) -> None:
        return None

    monkeypatch.setattr(KubeJobStore, "put", put)


def _without_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(self: KubeJobStore, key: str) -> None:
        return None

    monkeypatch.setattr(KubeJobStore, "tombstone", none)
    monkeypatch.setattr(KubeJobStore, "newest", none)


def _told_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting_status, "result_of", lambda live, generation, before=None: SUCCEEDED)


def _stale_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide a deletion from the caches."""

    async def cached(self: InstanceReconciler, key: Any, source: Any, stored: Any) -> Any:
        return await self._cached(source)

    monkeypatch.setattr(InstanceReconciler, "_observe", cached)


def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "delay", lambda self, attempt, jitter: 0.001)
    monkeypatch.setattr(Backoff, "full_jitter", lambda self, attempt, jitter: 0.001)


def _no_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "first_ahead", lambda operation, siblings: None)


def _unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_security, "_check_signature", lambda raw, security, cluster_id: None)


def _spent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Anyone(str):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    monkeypatch.setattr(UsedApprovals, "holder_of", lambda self, rid: _Anyone())


def _begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what an Operation did once its run has ended."""

    def defective(source: Any, observed: Any, context: Any) -> Decision:
        if getattr(source, "status", OperationStatus()).phase in TERMINAL_PHASES:
            source = attrs.evolve(source, status=OperationStatus())
        return reconcile_operation(source, observed, context)

    monkeypatch.setattr(operations, "reconcile_operation", defective)


def _stubborn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write on when the Lease is lost."""
    correct = Elector.run

    async def run(self: Elector) -> None:
        with suppress(LeaseLost):
            await correct(self)
        await anyio.sleep_forever()

    monkeypatch.setattr(Elector, "run", run)
    monkeypatch.setattr(Fence, "check", lambda self: None)


def _every_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "owns", lambda self, namespace: True)


def _never_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = desired._release_spec

    def defective(*given: Any) -> dict[str, Any]:
        return {name: value for name, value in correct(*given).items() if name != "suspend"}

    monkeypatch.setattr(desired, "_release_spec", defective)


def _never_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "resuming", lambda ref, live: None)


def _pruned_early(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = instance_decisions._prunes
    monkeypatch.setattr(instance_decisions, "_prunes", lambda *given, in_use: correct(*given, in_use=True))


def _ungated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_reasons, "_managed_namespace", lambda *given: None)


def _run_told_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(live: Any, generation: int) -> Any:
        return SUCCEEDED if get_path(live, "status", "phase") == "Running" else None

    monkeypatch.setattr(job_results, "_judge_operation", defective)


def _one_sided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "conflicting", lambda kind, other: other in conflicts.EXCLUDES[kind])


def _never_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_run._Run, "is_cancelled", property(lambda self: False))


def _failure_as_success(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = engine_run._Run._ended

    def defective(self: Any, phase: Any, *told: Any) -> Decision:
        return correct(self, Phase.SUCCEEDED if phase is Phase.FAILED else phase, *told)

    monkeypatch.setattr(engine_run._Run, "_ended", defective)


def _few_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_decisions, "MOST_NAMESPACES", 3)


def _never_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(holder: Any, *given: Any) -> Any:
        return plan(attrs.evolve(holder, expired=False), *given)

    monkeypatch.setattr(work_slot, "plan", defective)


def _any_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "BINDINGS", approvals.BINDINGS - {"params"})


def _unapproved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for an approval only where the Operation itself does, whatever its template says."""

    def defective(case: Any) -> bool:
        approvals = case.operation.spec.approvals
        return approvals is not None and approvals.required

    monkeypatch.setattr(preconditions, "_needs_approval", defective)


def _any_write_is_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every later event of an object that a pass has written for that of its own write."""

    def defective(self: Any, key: Any, event: Any) -> bool:
        return any(ref == event.ref for ref, _ in self._own.get(key, ()))

    monkeypatch.setattr(OwnWrites, "_is_own", defective)


def _deletions_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report no object that has gone when everything is listed again."""
    correct = ObjectStore.replace

    def defective(self: Any, version: str) -> Any:
        return (change for change in correct(self, version) if change.type is not ChangeType.DELETED)

    monkeypatch.setattr(ObjectStore, "replace", defective)


def _from_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = Agent._offered
    monkeypatch.setattr(Agent, "_offered", lambda self, jobs: correct(self, [*jobs][::-1]))


def _by_arrival_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare no generations of jobs that are open together."""
    monkeypatch.setattr(job_machine, "_older", lambda job, than: job.arrival < than.arrival)
    monkeypatch.setattr(job_machine, "_with_open_jobs", lambda state, job, seen: seen)


def _later_wake_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the later of two times at which a key is due."""

    def later(self: Any, other: Any) -> Any:
        return self if other is None else attrs.evolve(self, ready_at=max(self.ready_at, other.ready_at))

    monkeypatch.setattr(workqueue._QueuedKey, "merged", later)


def _without_empty_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no tombstone of a deletion that found nothing."""

    def defective(job: JobState, closed_at: str = "") -> Tombstone | None:
        return tombstone_of(job, closed_at) if job.had_effect else None

    for module in (job_machine, job_steps):
        monkeypatch.setattr(module, "tombstone_of", defective)


def _right_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the right to write from the answer to a renewal of the Lease."""

    def defective(state: LeaseState, event: LeaseEvent, moment: LeaseContext) -> Any:
        is_answer = isinstance(event, LeaseWritten)
        return step(attrs.evolve(state, asked_at=moment.now) if is_answer else state, event, moment)

    monkeypatch.setattr(election, "step", defective)


def _without_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "deadline_of", lambda *given: None)


def _own_finalizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no finalizer but the operator's own."""
    correct = execute._patch_source

    async def careless(work: Any, changed: Any, what: str) -> None:
        own = {"finalizers": [name for name in changed["finalizers"] if name == FINALIZER]}
        await correct(work, {**changed, **own} if "finalizers" in changed else changed, what)

    monkeypatch.setattr(execute, "_patch_source", careless)


def _laws(*laws: tuple[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(laws)


def _rolling(patch: Patch, *laws: tuple[str, str]) -> Defect:
    """A defect of the roll-out of an applied box."""
    return Defect(patch, _laws(*laws), faults=(), box=SETTINGS)


def _of_runs(patch: Patch, *laws: tuple[str, str], **where: Any) -> Defect:
    """A defect that Operations show: hours of them pass in minutes."""
    return Defect(patch, _laws(*laws), **{"seconds": 14400.0, "faults": (), "pace": 24.0, **where})


def _calm(patch: Patch, *laws: tuple[str, str], **where: Any) -> Defect:
    """A defect that shows without faults."""
    return Defect(patch, _laws(*laws), **{"seconds": 7200.0, "faults": (), "pace": 12.0, **where})


def _of_flux(patch: Patch, *laws: tuple[str, str]) -> Defect:
    """A defect in what is told of a release whose objects people change, and which fails."""
    return Defect(patch, _laws(*laws), seconds=3600.0, faults=("flux-drifts", "flux-fails"))


SETTINGS = "tests/app/simulation/settings.yaml"
"""A box with two children that are ready at once. Its path in a saved run is that of the repository."""
DEFECTS = {
    "Ready before Flux confirmed": Defect(
        deciding(lambda source, decision: with_condition(source, decision, status="True", reason="HelmReleaseReady")),
        _laws(("REC-7", "Ready only when Flux confirmed")),
    ),
    "Ready for an older generation": Defect(
        deciding(_older_generation), _laws(("REC-7", "Ready only when Flux confirmed"))
    ),
    "forgets the finalizer": Defect(
        deciding(_without_finalizer), _laws(("RES-5", "the finalizer precedes the first child"))
    ),
    "releases the finalizer too early": Defect(
        deciding(_released_early), _laws(("REC-10", "the finalizer outlives the release"))
    ),
    "copies a secret into a status": Defect(
        deciding(lambda source, decision: with_condition(source, decision, message=f"with {PASSWORD}")),
        _laws(("RES-7", "no secret in a status"), ("RES-7", "no secret in a log")),
    ),
    "removes an annotation of others": Defect(
        deciding(lambda source, decision: attrs.evolve(decision, annotations={NOTE: None})),
        _laws(("REC-8", "annotations of others stay")),
    ),
    "writes when nothing changed": Defect(deciding(_restless), _laws(("REC-6", "nothing is written at rest"))),
    "never prunes": Defect(deciding(_never_pruned), _laws(("REC-14", "an older source goes"))),
    "forces ownership": Defect(_forced, _laws(("REC-8", "nothing is forced"))),
    "ignores uids": Defect(_without_uids, _laws(("REC-10", "a delete names the uid"))),
    "ignores 409": Defect(_without_versions, _laws(("REC-6", "a write names its version"))),
    "loses acknowledged jobs": Defect(
        _forgetful,
        _laws(("PULL-4", "an acknowledged job has a result")),
        faults=("replica-killed", "crash-before-write", "crash-after-write", "crash-at-write-point"),
    ),
    "acknowledges before it records": Defect(_unrecorded, _laws(("PULL-4", "the record precedes the ack"))),
    "replays an answered job as new": Defect(
        _without_tombstones,
        _laws(("PULL-4", "one effect per job"), ("PULL-3", "a repeated job does nothing")),
        seconds=3600.0,
        faults=("control-plane-repeats",),
        pace=6.0,
    ),
    "tells success early": Defect(
        _told_early, _laws(("PULL-3", "succeeded is never told early"), ("PULL-3", "deleted is never told early"))
    ),
    "takes unsigned jobs": Defect(
        _unverified,
        _laws(("PULL-9", "a forged job has no effect"), ("PULL-9", "a forged job fails")),
        seconds=7200.0,
        instances=6,
        faults=(),
        pace=24.0,
    ),
    "believes a stale cache at a delete": Defect(
        _stale_delete,
        _laws(("REC-10", "the finalizer outlives the release"), ("REC-10", "nothing in use is deleted")),
        seconds=9600.0,
        instances=12,  # one is made before a leader is killed, deleted before the standby leads, and unknown to it
        faults=("stale-cache", "replica-killed", "replica-killed"),
        pace=48.0,
    ),
    "retries at once for ever": Defect(
        _at_once,
        _laws(("RUN-2", "no hot loop"), ("RUN-2", "time passes")),
        seconds=14400.0,
        faults=("right-removed",),
        pace=48.0,
    ),
    "runs what conflicts": Defect(
        _no_conflicts,
        _laws(("OPS-5", "what conflicts never runs together")),
        seconds=14400.0,
        instances=5,
        faults=("engines-stall",),
        pace=48.0,
    ),
    "spends an approval twice": Defect(
        _spent_twice,
        _laws(("OPS-4", "an approval starts one run")),
        seconds=14400.0,
        instances=5,
        faults=(),
        pace=24.0,
    ),
    "runs an ended Operation again": Defect(
        _begins_again,
        _laws(("OPS-1", "an Operation makes one engine object"), ("OPS-1", "a terminal phase stays")),
        seconds=14400.0,
        faults=(),
        pace=24.0,
    ),
    "writes without the Lease": Defect(
        _stubborn,
        _laws(
            ("RUN-4", "only the holder of the Lease writes"), ("RUN-4", "nothing is written after the renew deadline")
        ),
        faults=("lease-lost", "partition", "replica-paused"),
    ),
    "works in another shard's namespaces": Defect(
        _every_namespace, _laws(("RUN-13", "one shard acts on an object")), seconds=300.0, shards=2, faults=()
    ),
    "keeps a suspension to itself": Defect(_never_suspended, _laws(("REC-1", "every instance converges"))),
    "deletes a suspended release": Defect(
        _never_resumed,
        _laws(("REC-10", "a release is resumed before it goes")),
        seconds=14400.0,
        faults=(),
        pace=24.0,
    ),
    "prunes before the new source is in use": Defect(
        _pruned_early, _laws(("REC-14", "an older source waits for the new one"))
    ),
    "acts in a closed namespace": Defect(_ungated, _laws(("REC-1", "every instance converges")), faults=()),
    "tells the success of a run early": Defect(
        _run_told_early,
        _laws(("PULL-3", "an Operation's end is never told early")),
        seconds=14400.0,
        faults=(),
        pace=24.0,
    ),
    "sees conflicts from one side": Defect(
        _one_sided,
        _laws(("OPS-5", "what conflicts never runs together")),
        seconds=14400.0,
        faults=("engines-stall",),
        pace=24.0,
    ),
    "ignores a cancellation": Defect(
        _never_cancelled,
        _laws(("OPS-11", "a cancelled Operation ends")),
        seconds=14400.0,
        faults=(),
        pace=24.0,
    ),
    "takes a failed engine for a success": Defect(
        _failure_as_success,
        _laws(("OPS-6", "an Operation succeeds as its engine did")),
        seconds=14400.0,
        faults=("engines-fail",),
        pace=24.0,
    ),
    "takes changes of others for its own": Defect(
        _any_write_is_own,
        _laws(("REC-1", "an edit at rest is acted on at once"), ("REC-1", "a change is looked at at once")),
        faults=(),
    ),
    "misses deletions when it lists again": Defect(
        _deletions_missed, _laws(("REC-1", "a deletion that no watch shows is acted on at once")), faults=()
    ),
    "leaves a namespace out": Defect(
        _few_namespaces, _laws(("RES-3", "the Cluster names the managed namespaces")), faults=()
    ),
    "misses what happens to a namespace": Defect(
        further.misses_namespaces,
        _laws(
            ("REC-1", "a closed namespace is noticed at once"),
            ("REC-1", "a namespace that becomes managed is noticed at once"),
        ),
        faults=(),
    ),
    "uninstalls what is abandoned": Defect(
        further.uninstalls_what_is_abandoned, _laws(("REC-10", "what is abandoned stays")), faults=()
    ),
    "allows every version": Defect(
        further.allows_every_version, _laws(("RES-3", "what the policy forbids is blocked")), faults=()
    ),
    "uses a token early": Defect(
        further.uses_a_token_early, _laws(("PULL-8", "a token is used once the Secret holds it")), faults=()
    ),
    "drops the old token": Defect(
        further.drops_the_old_token, _laws(("PULL-8", "the old token stays until the new one works")), faults=()
    ),
    "forgets what it rotated": Defect(
        further.forgets_what_it_rotated,
        _laws(("PULL-8", "a rotation ends"), ("PULL-4", "an acknowledged job has a result")),
        faults=(),
    ),
    "makes a deleted Cluster again": Defect(
        further.remakes_the_cluster, _laws(("RES-3", "a deleted Cluster stays away")), faults=()
    ),
    "deletes what is not managed": Defect(
        further.deletes_what_is_not_managed, _laws(("PULL-10", "a job deletes only what is managed")), faults=()
    ),
    "takes an expired approval": Defect(
        further.takes_an_expired_approval, _laws(("OPS-4", "an expired approval starts nothing")), faults=()
    ),
    "writes no Events": Defect(
        further.writes_no_events, _laws(("REC-1", "a transition at rest has an Event")), faults=()
    ),
    "reports nothing": Defect(
        further.reports_nothing,
        _laws(("PULL-6", "the end of an Operation is reported"), ("PULL-6", "a transition at rest is reported")),
        faults=(),
    ),
    "keeps a failed upgrade": Defect(
        further.keeps_a_failed_upgrade,
        _laws(("REC-9", "a failed upgrade is taken back"), ("REC-1", "every instance converges")),
        faults=(),
    ),
    "tells a cancellation early": Defect(
        further.tells_a_cancellation_early,
        _laws(("OPS-11", "a cancelled run has ended")),
        seconds=14400.0,
        faults=("engines-stall",),
        pace=24.0,
    ),
    "deletes a backup with its Operation": Defect(
        further.deletes_a_backup, _laws(("OPS-11", "what succeeded is kept")), seconds=14400.0, faults=(), pace=24.0
    ),
    "does expired jobs": Defect(_never_expired, _laws(("PULL-3", "an expired job does nothing")), faults=()),
    "takes an approval of other parameters": Defect(
        _any_parameters,
        _laws(("OPS-4", "an approval is for this run")),
        seconds=14400.0,
        faults=(),
        pace=24.0,
    ),
    "starts without an approval": Defect(
        _unapproved,
        _laws(("OPS-4", "nothing starts without its approval")),
        seconds=14400.0,
        faults=(),
        pace=24.0,
    ),
    "applies the jobs of an offer from the last": Defect(
        _from_the_last,
        _laws(("PULL-4", "jobs of one offer have their effects in order")),
        seconds=7200.0,
        instances=6,
        faults=(),
        pace=24.0,
    ),
    "compares no generations within an offer": Defect(
        _by_arrival_alone,
        # In the saved run the deletion of an offer is answered `deleted` while the application of the other job exists.
        _laws(("PULL-4", "no older job over a newer one"), ("PULL-3", "deleted is never told early")),
        seconds=7200.0,
        instances=6,
        faults=(),
        pace=12.0,
    ),
    "forgets a wake when a later one comes": Defect(
        _later_wake_counts,
        _laws(("REC-1", "a change is looked at at once")),
        seconds=7200.0,
        faults=(),
        pace=12.0,
    ),
    "acts before its ack is confirmed": Defect(
        further.acts_before_the_ack,
        _laws(("PULL-1", "the ack precedes the effect")),
        faults=("control-plane-error", "control-plane-lost-answer"),
    ),
    "forgets a deletion that found nothing": Defect(
        _without_empty_deletions,
        _laws(("PULL-4", "no older job over a newer one"), ("PULL-3", "deleted is never told early")),
        seconds=7200.0,
        instances=6,
        faults=(),
        pace=24.0,
    ),
    "counts its right to write from the answer": Defect(
        _right_from_the_answer,
        _laws(("RUN-4", "nothing is written after the renew deadline")),
        seconds=1800.0,
        instances=8,
        faults=("lease-lost", "lease-lost", "lease-lost"),
    ),
    "never ends an Operation at its deadline": Defect(
        _without_deadlines,
        _laws(("OPS-12", "an Operation ends by its deadline")),
        seconds=14400.0,
        faults=(),
        pace=24.0,
    ),
    "moves more than may be unavailable": _rolling(
        rollouts.moves_more, ("PH-10", "at most maxUnavailable moved objects are not Ready")
    ),
    "goes on after an object has failed": _rolling(rollouts.goes_on, ("PH-10", "a roll-out ends")),
    "keeps what it should undo": _rolling(
        rollouts.undoes_nothing, ("PH-10", "a roll-out that fails is undone if the box says so")
    ),
    "moves objects unjudged": _rolling(
        rollouts.judges_nothing, ("PH-10", "a revision is judged before objects move to it")
    ),
    "moves the newest object first": _rolling(rollouts.moves_the_newest, ("PH-10", "objects move in their order")),
    "decides every object by the newest revision": _rolling(
        rollouts.decides_by_the_newest, ("PH-10", "a definition changes what it was rolled out to")
    ),
    "removes finalizers of others": Defect(_own_finalizers, _laws(("REC-8", "finalizers of others stay")), faults=()),
    "takes any signature of an approval": _of_runs(
        runs.takes_any_signature, ("OPS-4", "a forged approval starts nothing")
    ),
    "takes an approval of another namespace": _of_runs(
        runs.takes_an_approval_of_another_namespace, ("OPS-4", "an approval is for this run")
    ),
    "ignores capabilities": _of_runs(runs.ignores_capabilities, ("OPS-3", "what may not start stays as it is")),
    "takes any parameters": _of_runs(runs.takes_any_parameters, ("OPS-3", "what may not start stays as it is")),
    "runs for every cluster": _of_runs(runs.runs_for_every_cluster, ("OPS-3", "what may not start stays as it is")),
    "ignores the target": _of_runs(
        runs.ignores_the_target,
        ("OPS-3", "a run waits until its target is Ready"),
        ("OPS-9", "nothing suspended is upgraded"),
    ),
    "runs in closed namespaces": _of_runs(
        runs.runs_in_closed_namespaces, ("OPS-3", "a run starts in a managed namespace")
    ),
    "creates before the intent": _of_runs(
        runs.creates_before_the_intent, ("OPS-1", "the intent precedes the engine object")
    ),
    "starts without a finalizer": _of_runs(
        runs.starts_without_a_finalizer, ("RES-5", "the finalizer precedes the engine object")
    ),
    "unlocks before it records": _of_runs(
        runs.unlocks_before_it_records, ("OPS-1", "an engine object is locked until it is recorded")
    ),
    "starts the youngest first": _of_runs(
        runs.starts_the_youngest_first,
        ("OPS-5", "the earliest of those that conflict runs first"),
        faults=("engines-stall",),
    ),
    "fails at what it does not know": _of_runs(
        runs.fails_at_what_it_does_not_know,
        ("OPS-6", "an Operation fails as its engine did"),
        faults=("engine-garbage",) * 4,
    ),
    "leaves a run behind": _of_runs(
        runs.leaves_a_run_behind, ("OPS-11", "a run ends with its Operation"), faults=("engines-stall",)
    ),
    "stops nothing at the deadline": _of_runs(
        runs.stops_nothing_at_the_deadline, ("OPS-12", "a run that was stopped is gone")
    ),
    "counts a deadline from the creation": _of_runs(
        runs.counts_a_deadline_from_the_creation, ("OPS-12", "no run ends before its deadline")
    ),
    "ignores a later retry": _calm(releases.ignores_a_later_retry, ("REC-14", "a retry reaches Flux")),
    "confuses retries": _calm(releases.confuses_retries, ("REC-14", "a retry is sent once")),
    "looks only at the spec": _calm(
        releases.looks_only_at_the_spec,
        ("REC-1", "a change is looked at at once"),
        ("REC-14", "a retry reaches Flux"),
    ),
    "takes over what others made": _calm(
        releases.takes_over_what_others_made, ("REC-4", "what others made is not taken over")
    ),
    "releases without an account": _calm(
        releases.releases_without_an_account, ("REC-4", "a release stays in its namespace, with its account")
    ),
    "manages what is not labelled": _calm(
        releases.manages_what_is_not_labelled, ("RES-5", "what is not managed is left alone")
    ),
    "works for every cluster": _calm(
        releases.works_for_every_cluster, ("RES-5", "only what is this cluster's is managed")
    ),
    "calls deployed what was tried": _calm(
        releases.calls_deployed_what_was_tried, ("RES-1", "the deployed chart is one that Flux deployed")
    ),
    "stays blocked": _calm(releases.stays_blocked, ("REC-1", "every instance converges")),
    "tells a suspension early": _calm(releases.tells_a_suspension_early, ("REC-5", "a suspension is not told early")),
    "takes older events for news": _calm(
        releases.takes_older_events_for_news,
        ("REC-1", "every instance converges"),
        ("REC-1", "a change is looked at at once"),
        ("REC-1", "an edit at rest is acted on at once"),
        ("REC-5", "a confirmed release is told at once"),
        ("REC-10", "a deleted instance goes"),
        ("RES-3", "the Cluster names the managed namespaces"),
        faults=("watch-reordered",) * 6,
    ),
    "keeps an upgrade for ever": _of_runs(
        releases.keeps_an_upgrade_for_ever, ("REC-9", "a newer spec ends an upgrade")
    ),
    "undoes an upgrade at its end": _of_runs(
        releases.undoes_an_upgrade_at_its_end, ("REC-9", "a succeeded upgrade stays")
    ),
    "sees no drift": _calm(releases.sees_no_drift, ("REC-9", "a Ready release is as its instance asks")),
    "takes what exists for done": _calm(outcomes.takes_what_exists_for_done, ("PULL-3", "noop is for what repeats")),
    "fails at the first trouble": _calm(outcomes.fails_at_the_first_trouble, ("PULL-3", "failed is never told early")),
    "names no object": _calm(outcomes.names_no_object, ("PULL-2", "a result names its object")),
    "reports no progress": _calm(outcomes.reports_no_progress, ("PULL-2", "progress is reported")),
    "drops a record early": _calm(outcomes.drops_a_record_early, ("PULL-4", "a record outlives its job")),
    "lets jobs into every namespace": _calm(
        outcomes.lets_jobs_into_every_namespace, ("PULL-10", "a job stays within its scope")
    ),
    "lets jobs expire early": _calm(outcomes.lets_jobs_expire_early, ("PULL-3", "no job expires early")),
    "sends no heartbeats": _calm(outcomes.sends_no_heartbeats, ("PULL-6", "a heartbeat comes every minute")),
    "asks without a pause": _calm(
        outcomes.asks_without_a_pause,
        ("PULL-7", "the control plane is spared"),
        faults=("control-plane-away",) * 3,
    ),
    "lists without a pause": _calm(
        releases.lists_without_a_pause,
        ("RUN-2", "the API server is spared"),
        faults=(*("right-to-read-removed",) * 6, *("server-restarted",) * 6),
    ),
    "forgets that its machine slept": _calm(
        releases.forgets_that_its_machine_slept,
        ("RUN-4", "nothing is written after the renew deadline"),
        seconds=1800.0,
        pace=1.0,
        instances=8,
        faults=("machine-suspended",) * 6,
    ),
    "drops events in an outage": _calm(
        outcomes.drops_events_in_an_outage,
        ("PULL-6", "the last transition is reported"),
        ("PULL-6", "the end of an Operation is reported"),
        faults=("control-plane-away",) * 3,
    ),
    "makes a deleted run again": _of_runs(
        reach.makes_a_deleted_run_again, ("OPS-1", "an Operation makes one engine object")
    ),
    "does withdrawn jobs": _calm(reach.does_withdrawn_jobs, ("PULL-1", "the ack precedes the effect")),
    "makes up for no event": Defect(
        reach.makes_up_for_no_event,
        _laws(
            ("PULL-6", "the last transition is reported"),
            ("PULL-6", "the end of an Operation is reported"),
            ("PULL-6", "a transition at rest is reported"),
        ),
        faults=("control-plane-away",) * 6,
    ),
    "keeps the last page of a list": Defect(
        reach.keeps_the_last_page,
        _laws(
            ("REC-1", "every instance converges"),
            ("REC-1", "a change is looked at at once"),
            ("REC-1", "an edit at rest is acted on at once"),
            ("REC-10", "a deleted instance goes"),
            ("RES-3", "the Cluster names the managed namespaces"),
        ),
        faults=(*("short-pages",) * 6, *("server-restarted",) * 6),
    ),
    "reads one page of its records": Defect(
        reach.reads_one_page_of_its_records,
        _laws(("PULL-4", "an acknowledged job has a result")),
        faults=(*("short-pages",) * 6, *("replica-killed",) * 12),
    ),
    "never renews its token": _calm(reach.never_renews_its_token, ("PULL-8", "a token is renewed before it ends")),
    "keeps the time of a transition": _calm(
        reach.keeps_the_time_of_a_transition, ("RES-4", "lastTransitionTime moves with status")
    ),
    "tells no drift": _of_flux(releases.tells_no_drift, ("REC-5", "drift is told at once")),
    "tells old trouble": _of_flux(releases.tells_old_trouble, ("REC-5", "trouble that is over is not told")),
    "gives up silently": _of_flux(releases.gives_up_silently, ("REC-5", "a release that Flux gave up is told at once")),
}
"""Every defect by its name."""


QUICKLY_FOUND = (
    *("Ready before Flux confirmed", "forgets the finalizer", "releases the finalizer too early"),
    *("copies a secret into a status", "removes an annotation of others", "ignores uids", "ignores 409"),
)
"""Defects that the life of one instance without faults shows."""
SEEDS = Path(__file__).parents[2] / "seeds" / "defects"
"""The folder of saved runs."""


def slug(name: str) -> str:
    """The name of a defect's file."""
    return name.lower().replace(" ", "-").replace("'", "")


SAVED = tuple(name for name in DEFECTS if (SEEDS / f"{slug(name)}.json").exists())
"""Defects of which a search has saved a run."""


@attrs.frozen
class Found:
    """How a defect was found: the runs it took, the law, and the acts and faults of the shrunk run."""

    runs: int
    law: tuple[str, str]
    steps: int
    outcome: SimulationOutcome


def search(defect: Defect, most_runs: int = MOST_RUNS) -> Found | None:
    """Run seeds until a law of the defect breaks, and make that run smaller; None if none breaks."""
    for seed in range(1, most_runs + 1):
        outcome = perform(defect.drawn(seed))
        own = [law for law in outcome.broken if (law.clause, law.law) in defect.laws]
        if own:
            smaller = shrink(attrs.evolve(outcome, broken=tuple(own)), perform)
            law = next(law for law in smaller.broken if (law.clause, law.law) in defect.laws)
            smaller = attrs.evolve(smaller, broken=(law,))
            return Found(seed, (law.clause, law.law), len(smaller.script.steps), smaller)
    return None


def main(names: list[str]) -> int:
    """Print a line for each defect; return 1 if one was not found or is not small."""
    missed = 0
    print(f"{'defect':38} {'law':48} {'runs':>5} {'acts':>5}")
    for name in names or DEFECTS:
        with pytest.MonkeyPatch.context() as monkeypatch:
            DEFECTS[name].patch(monkeypatch)
            found = search(DEFECTS[name])
        missed += found is None or found.steps > MOST_STEPS
        if found is not None:
            SEEDS.mkdir(parents=True, exist_ok=True)
            text = script_text(found.outcome.script, attrs.asdict(found.outcome.broken[0]))
            (SEEDS / f"{slug(name)}.json").write_text(text)
        law = f'{found.law[0]} "{found.law[1]}"' if found else "NOT FOUND"
        print(f"{name:38} {law:48} {found.runs if found else MOST_RUNS:5} {found.steps if found else 0:5}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
