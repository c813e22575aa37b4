"""Two workers whose calls come in any order, each in the middle of its pass (OPS-1, OPS-5).

On one Operation without anything between them, as when an old process still runs beside the new one; and on several,
as the queue hands them out: one at a time on a target.
"""

from collections.abc import Coroutine, Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.controller.decision import Requeue, RequeuePace
from purekube.controller.queue.workqueue import WorkQueue
from purekube.controller.reconcile import ReconcileResult
from tests.support.effort import effort
from tests.support.operation_simulation import COMPLETE, Cluster, View, pausing
from tests.support.operation_worlds import GOOD, TARGET, target_manifest
from tests.support.simulation import OPERATOR
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.operation import TERMINAL_PHASES
from vworkspace_core.operations.conflicts import conflicting, is_running
from vworkspace_core.operations.identity import target_ref

workers = st.integers(0, 1)
picks = st.integers(0, 7)
Pass = Coroutine[Any, Any, ReconcileResult | None]
CANCEL = {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}}


def paused(world: Cluster) -> InProcessKube:
    return InProcessKube(world.server, caller=Caller(OPERATOR, agent="vworkspace-operator/1")).through(pausing)


class TwoProcesses(RuleBasedStateMachine):
    """One Operation in the hands of two workers that know nothing of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Cluster()
        self.api = paused(self.world)
        self.ref = self.world.submit("runCommand.job", "op-1", timeoutSeconds=600)
        self.passes: dict[int, Pass] = {}
        self.views: list[View] = []
        self.end: Any = None

    @rule(worker=workers, age=picks, steps=st.integers(1, 6))
    def work(self, worker: int, age: int, steps: int) -> None:
        """A worker makes some of its calls, or begins anew on caches of any age."""
        if worker not in self.passes:
            old = self.views[-1 - age % len(self.views)] if self.views and age else None
            self.passes[worker] = self.world.pass_over(self.ref, old, self.api)
        for _ in range(steps):
            try:
                self.passes[worker].send(None)
            except StopIteration:
                del self.passes[worker]
                break
        self.world.remember()

    @rule(worker=workers)
    def finish_the_pass(self, worker: int) -> None:
        self.work(worker, 0, 60)

    @rule(worker=workers, what=st.sampled_from(["die", "time", "much time", "remember", "cancel"]))
    def trouble(self, worker: int, what: str) -> None:
        if what == "die" and worker in self.passes:
            self.passes.pop(worker).close()
        elif what == "remember":
            view = self.world.view(self.ref)
            assert view is not None
            self.views.append(view)
        elif what == "cancel":
            self.world.edit(self.ref, CANCEL)
        else:
            self.world.pass_time(400 if what == "much time" else 1)

    @rule(ends=st.booleans(), vanishes=st.booleans())
    def job(self, ends: bool, vanishes: bool) -> None:
        for ref, _ in self.world.engine_objects():
            if ends:
                self.world.write_status(ref, COMPLETE)
            if vanishes:
                self.world.remove(ref)

    @invariant()
    def at_most_one_was_made(self) -> None:
        assert [len(made) for made in self.world.created.values()] in ([], [1])
        assert self.world.creations() == len(self.world.created)

    @invariant()
    def an_end_is_final(self) -> None:
        status = self.world.operation(self.ref).status
        if self.end is not None:
            assert status == self.end
        elif status.phase in TERMINAL_PHASES:
            self.end = status

    def teardown(self) -> None:
        for each in self.passes.values():
            each.close()
        self.world.settle(self.ref)
        self.job(True, False)
        self.world.settle(self.ref)
        self.at_most_one_was_made()
        self.an_end_is_final()
        assert self.world.phase(self.ref) in TERMINAL_PHASES


@pytest.mark.slow
def test_two_processes_never_make_two_objects_OPS_1() -> None:
    run_state_machine_as_test(TwoProcesses, settings=settings(stateful_step_count=30, deadline=None))


OTHER = "second"
OF: dict[str, Mapping[str, Any]] = {
    "migration.workflow": {"phase": "Succeeded"},
    "backup.velero": {"phase": "Completed"},
    "runCommand.job": COMPLETE,
}


class TwoWorkers(RuleBasedStateMachine):
    """Operations on two targets, in the hands of two workers of one queue, which a target has to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Cluster("backup.velero", migration="workflow", runcommand="job")
        self.make_second_target()
        self.api = paused(self.world)
        self.refs: list[ObjectRef] = []
        self.started: list[ObjectRef] = []
        self.queue: WorkQueue[ObjectRef] = WorkQueue(exclusion_key=self.target_of)
        self.passes: dict[int, tuple[ObjectRef, Pass]] = {}

    def make_second_target(self) -> None:
        manifest = target_manifest("backup.velero", {"migration": "workflow", "runcommand": "job"})
        meta = {key: manifest["metadata"][key] for key in ("namespace", "labels", "annotations")}
        release = {**manifest["spec"]["release"], "name": OTHER}
        spec = {**manifest["spec"], "release": release}
        self.world.make(APPLICATION_INSTANCE, {**manifest, "metadata": {**meta, "name": OTHER}, "spec": spec})
        self.world.write_status(ObjectRef(APPLICATION_INSTANCE, TARGET.namespace, OTHER), manifest["status"])

    def target_of(self, ref: ObjectRef) -> ObjectRef | None:
        return target_ref(self.world.operation(ref))

    @precondition(lambda self: len(self.refs) < 5)
    @rule(of=st.sampled_from(sorted(OF)), second=st.booleans(), later=st.booleans())
    def submit(self, of: str, second: bool, later: bool) -> None:
        self.world.pass_time(later)
        target = {"apiVersion": TARGET.kind.api_version, "kind": TARGET.kind.kind}
        target |= {"name": OTHER if second else TARGET.name}
        parameters = {} if of == "backup.velero" else GOOD[of]
        ref = self.world.submit(of, f"op-{len(self.refs)}", parameters=parameters, targetRef=target)
        self.refs.append(ref)
        self.queue.add(ref, 0.0)

    @precondition(lambda self: self.refs)
    @rule(number=picks)
    def something_changes(self, number: int) -> None:
        self.queue.add(self.refs[number % len(self.refs)], 0.0)

    @rule(ready=st.booleans(), second=st.booleans())
    def target_changes(self, ready: bool, second: bool) -> None:
        """A migration waits for a Ready target, a backup does not: who is ahead changes without a word of their own."""
        ref = ObjectRef(APPLICATION_INSTANCE, TARGET.namespace, OTHER if second else TARGET.name)
        self.world.write_status(ref, target_manifest("backup.velero", ready=ready)["status"])
        for object_ref in self.refs:
            self.queue.add(object_ref, 0.0)

    @rule(worker=workers, steps=st.integers(1, 12))
    def work(self, worker: int, steps: int) -> None:
        if worker not in self.passes:
            ref = self.queue.take(0.0)
            if ref is None:
                return
            self.passes[worker] = (ref, self.world.pass_over(ref, None, self.api))
        ref, running = self.passes[worker]
        try:
            for _ in range(steps):
                running.send(None)
        except StopIteration as done:
            self.finished(worker, ref, done.value)
        self.world.remember()

    def finished(self, worker: int, ref: ObjectRef, result: ReconcileResult | None) -> None:
        del self.passes[worker]
        self.queue.done(ref, 0.0, Requeue.NO)
        if result is not None and (result.writes or result.error or result.requeue.pace is not RequeuePace.NONE):
            self.queue.add(ref, 0.0)

    @rule(worker=workers)
    def the_process_dies(self, worker: int) -> None:
        """All of it: both workers and the queue; the next one looks at everything."""
        for _, running in self.passes.values():
            running.close()
        self.passes.clear()
        self.queue = WorkQueue(exclusion_key=self.target_of)
        for ref in self.refs:
            self.queue.add(ref, 0.0)

    @rule(number=picks)
    def controller_finishes(self, number: int) -> None:
        found = self.world.engine_objects()
        if found:
            self.finish(*found[number % len(found)])

    def finish(self, ref: ObjectRef, live: Manifest) -> None:
        status = {"Workflow": OF["migration.workflow"], "Backup": OF["backup.velero"]}.get(ref.kind.kind, COMPLETE)
        if live.get("status", {}).get("phase") != status.get("phase") or "phase" not in status:
            self.world.write_status(ref, status)

    @invariant()
    def of_conflicting_ones_never_two_run(self) -> None:
        running = [operation for operation in self.world.operations() if is_running(operation)]
        for i, operation in enumerate(running):
            for other in running[i + 1 :]:
                both = target_ref(operation) == target_ref(other) and conflicting(operation.spec.type, other.spec.type)
                assert not both, (operation.metadata.name, other.metadata.name)

    @invariant()
    def one_object_each(self) -> None:
        assert all(len(made) == 1 for made in self.world.created.values())
        assert self.world.creations() == len(self.world.created)

    def teardown(self) -> None:
        """Faults are over: no two wait for each other."""
        self.the_process_dies(0)
        for second in (False, True):
            self.target_changes(True, second)
        for _ in range(6 * (len(self.refs) + 1)):
            for ref in self.refs:
                self.queue.add(ref, 0.0)
            while self.passes or self.queue.next_wakeup(0.0) is not None:
                for worker in (0, 1):
                    self.work(worker, 5)
            self.of_conflicting_ones_never_two_run()
            for ref, live in self.world.engine_objects():
                self.finish(ref, live)
            if all(operation.status.phase in TERMINAL_PHASES for operation in self.world.operations()):
                break
        ended = self.world.operations()
        assert all(operation.status.phase in TERMINAL_PHASES for operation in ended), [
            operation.status for operation in ended
        ]


@pytest.mark.slow
def test_workers_of_one_queue_never_let_two_that_conflict_run_OPS_5() -> None:
    run_state_machine_as_test(
        TwoWorkers, settings=settings(max_examples=effort(0.5), stateful_step_count=30, deadline=None)
    )


def test_why_a_target_is_worked_on_by_one_at_a_time_OPS_5() -> None:
    """Two that begin at the same moment cannot see each other: without the queue both run, with it one waits."""
    machine = TwoWorkers()
    world = machine.world
    machine.target_changes(False, False)
    machine.submit("migration.workflow", False, False)
    first = machine.refs[0]
    world.settle(first)
    assert world.condition(first, "Blocked") == ("True", "TargetNotReady")
    machine.submit("backup.velero", False, True)
    machine.target_changes(True, False)
    ahead, behind = (world.pass_over(ref, None, machine.api) for ref in machine.refs)

    assert machine.queue.take(0.0) == first
    assert machine.queue.take(0.0) is None, "the other one's target is in hand"

    left = [ahead, behind]
    while left:  # call by call in turns, as without the queue
        left = [one for one in left if goes_on(one)]
    with pytest.raises(AssertionError, match="op-0"):
        machine.of_conflicting_ones_never_two_run()


def goes_on(one: Pass) -> bool:
    """Lets it make its next call; whether there are more."""
    try:
        one.send(None)
    except StopIteration:
        return False
    return True
