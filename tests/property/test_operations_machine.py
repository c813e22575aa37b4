"""Laws of Operations under arbitrary histories (OPS-1, OPS-3, OPS-5, OPS-8, OPS-11).

Two workers with caches of any age, crashes before and after every write, objects that vanish by TTL or by hand,
strangers, cancellations, deletions, downstream statuses in any order.
"""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.effort import effort
from tests.property.operation_simulation import Cluster, Died, View
from vworkspace_core.kinds.operation import TERMINAL_PHASES, Operation
from vworkspace_core.known import JOB
from vworkspace_core.manifest import Manifest, ObjectRef, metadata
from vworkspace_core.operations.conflicts import conflicting, is_running

REPORTS: dict[str, list[dict[str, Any]]] = {
    "Backup": [
        {"phase": phase} for phase in ("New", "InProgress", "Finalizing", "PartiallyFailed", "Failed", "Completed")
    ],
    "Workflow": [{"phase": phase} for phase in ("Pending", "Running", "Failed", "Error", "Succeeded")],
    "Job": [
        {"active": 1},
        {"conditions": [{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}]},
        {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]},
        {"conditions": [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}]},
    ],
}
KINDS = ("backup.velero", "migration.workflow", "runCommand.job")
PARAMETERS: dict[str, dict[str, Any] | None] = {"backup.velero": {}, "migration.workflow": None, "runCommand.job": None}
picks = st.integers(0, 7)


class Operations(RuleBasedStateMachine):
    """Everything that can happen to a handful of operations on one target."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Cluster("backup.velero", migration="workflow", runcommand="job")
        self.refs: list[ObjectRef] = []
        self.views: dict[tuple[int, ObjectRef], View] = {}
        self.ends: dict[str, Any] = {}
        self.strangers: dict[ObjectRef, Manifest] = {}

    def pick(self, number: int) -> ObjectRef:
        return self.refs[number % len(self.refs)]

    @precondition(lambda self: len(self.refs) < 4)
    @rule(of=st.sampled_from(KINDS), timeout=st.sampled_from([None, 30, 600]))
    def submit(self, of: str, timeout: int | None) -> None:
        more: dict[str, Any] = {} if timeout is None else {"timeoutSeconds": timeout}
        self.refs.append(self.world.submit(of, f"op-{len(self.refs)}", parameters=PARAMETERS[of], **more))

    @precondition(lambda self: self.refs)
    @rule(number=picks)
    def recreate(self, number: int) -> None:
        ref = self.pick(number)
        if self.world.get(ref) is None:
            self.world.submit("runCommand.job", ref.name)

    @precondition(lambda self: self.refs)
    @rule(number=picks, worker=st.integers(0, 1))
    def look(self, number: int, worker: int) -> None:
        """A worker's caches catch up on one operation."""
        view = self.world.view(self.pick(number))
        if view is not None:
            self.views[worker, self.pick(number)] = view

    @precondition(lambda self: self.refs)
    @rule(number=picks, worker=st.integers(0, 1))
    def reconcile_on_old_caches(self, number: int, worker: int) -> None:
        self.attempt(self.pick(number), self.views.get((worker, self.pick(number))))

    @precondition(lambda self: self.refs)
    @rule(number=picks, fatal=st.integers(0, 4), after=st.booleans(), passes=st.integers(1, 4))
    def reconcile_and_perhaps_die(self, number: int, fatal: int, after: bool, passes: int) -> None:
        self.world.api.fatal, self.world.api.after = fatal, after
        for _ in range(passes):
            self.attempt(self.pick(number), None)
        self.world.api.fatal = -10

    @precondition(lambda self: self.refs)
    @rule(number=picks)
    def reconcile(self, number: int) -> None:
        self.attempt(self.pick(number), None)

    def attempt(self, ref: ObjectRef, view: View | None) -> None:
        try:
            self.world.reconcile(ref, view)
        except Died:
            self.views.clear()

    @rule(number=picks, report=picks)
    def controller_reports(self, number: int, report: int) -> None:
        found = self.world.engine_objects()
        if found:
            ref, live = found[number % len(found)]
            reports = REPORTS[ref.kind.kind]
            status = reports[report % len(reports)]
            if dict(live.get("status") or {}).get("phase") not in ("Completed", "Failed"):
                self.world.write_status(ref, status)

    @rule(number=picks)
    def object_is_removed(self, number: int) -> None:
        found = self.world.engine_objects()
        if found:
            self.world.remove(found[number % len(found)][0])

    @precondition(lambda self: self.refs)
    @rule(number=picks, what=st.sampled_from(["cancel", "uncancel", "delete"]))
    def person_acts(self, number: int, what: str) -> None:
        ref = self.pick(number)
        if self.world.get(ref) is None:
            return
        if what == "delete":
            self.world.remove(ref)
        else:
            mark = "true" if what == "cancel" else None
            self.world.edit(ref, {"metadata": {"annotations": {"ops.vworkspace.io/cancel": mark}}})

    @precondition(lambda self: self.refs)
    @rule(number=picks)
    def stranger_takes_the_name(self, number: int) -> None:
        manifest = self.world.get(self.pick(number))
        if manifest is None or manifest["spec"]["engine"] != "job":
            return
        name = f"{metadata(manifest)['name']}-{metadata(manifest)['uid'][:8]}"
        ref = ObjectRef(JOB, metadata(manifest)["namespace"], name)
        if self.world.get(ref) is None:
            pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
            meta = {"name": name, "namespace": ref.namespace}
            self.strangers[ref] = self.world.make(JOB, {"metadata": meta, "spec": {"template": {"spec": pod}}})

    @rule(seconds=st.sampled_from([1, 29, 30, 700]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # --- the laws ---------------------------------------------------------------------------------------------------

    @invariant()
    def at_most_one_engine_object_was_ever_made_for_a_uid(self) -> None:
        for uid, made in self.world.created.items():
            assert len(made) == 1, uid

    @invariant()
    def an_end_is_final(self) -> None:
        for one in self.world.operations():
            status = one.status
            if one.metadata.uid in self.ends:
                assert status == self.ends[one.metadata.uid]
            elif status.phase in TERMINAL_PHASES:
                self.ends[one.metadata.uid] = status
                assert status.finished_at is not None

    @invariant()
    def no_two_that_conflict_run(self) -> None:
        running = [one for one in self.world.operations() if is_running(one)]
        for i, one in enumerate(running):
            for other in running[i + 1 :]:
                assert not conflicting(one.spec.type, other.spec.type), (one.metadata.name, other.metadata.name)

    @invariant()
    def strangers_are_left_alone(self) -> None:
        for ref, before in self.strangers.items():
            assert self.world.get(ref) == before

    def teardown(self) -> None:
        """Faults are over: strangers leave, controllers do their work, and everything comes to an end."""
        self.world.api.fatal = -10
        for ref in self.strangers:
            self.world.remove(ref)
        for _ in range(4 * (len(self.refs) + 1)):
            if all(map(self._has_ended, self.world.operations())):
                break
            for ref in self.refs:
                self.world.settle(ref)
            for ref, _ in self.world.engine_objects():
                self.world.write_status(ref, REPORTS[ref.kind.kind][-1])
        self.strangers.clear()
        self.no_two_that_conflict_run()
        self.at_most_one_engine_object_was_ever_made_for_a_uid()
        self.an_end_is_final()
        for one in self.world.operations():
            assert self._has_ended(one), (one.metadata.name, one.status)

    def _has_ended(self, one: Operation) -> bool:
        return one.status.phase in TERMINAL_PHASES and one.metadata.deletion_timestamp is None


def test_the_laws_hold_under_arbitrary_histories_OPS_1_OPS_5() -> None:
    run_state_machine_as_test(
        Operations, settings=settings(max_examples=effort(1), stateful_step_count=40, deadline=None)
    )
