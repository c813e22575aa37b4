"""Laws of Operations under arbitrary histories (OPS-1, OPS-3, OPS-5, OPS-7, OPS-8, OPS-10, OPS-11, OPS-12).

Any engines on one target, two workers with caches of any age, crashes before and after every write, objects that
vanish by TTL or by hand, strangers, cancellations, deletions, downstream statuses in any order.
"""

from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.names import engine_object_name
from purekube.apimachinery.resources import JOB, VELERO_BACKUP, VOLUME_SNAPSHOT
from tests.support.effort import effort
from tests.support.operation_simulation import COMPLETE, Cluster, Died, View, moment
from tests.support.operation_worlds import GOOD, approval_for
from vworkspace_core.api.labels import cancellation_requested
from vworkspace_core.api.operation import TERMINAL_PHASES, Operation, Phase
from vworkspace_core.operations.approvals import parameters_digest
from vworkspace_core.operations.conflicts import conflicting, is_running, order_of

_LINE = {"message": "", "lastTransitionTime": "2026-06-01T12:00:00Z"}


def condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {"conditions": [{**_LINE, "type": kind, "status": status, "reason": reason}]}


def _said(*kinds: str) -> dict[str, Any]:
    """Several conditions of a Job that failed."""
    line = {**_LINE, "status": "True", "reason": "BackoffLimitExceeded"}
    return {"conditions": [{**line, "type": kind} for kind in kinds]}


FAILED = {**_said("FailureTarget", "Failed"), "active": 0}


def _fails(live: Manifest) -> bool:
    """Whether it is a Job that has no way but to fail."""
    return any(one["type"] == "FailureTarget" for one in get_path(live, "status", "conditions") or ())


VELERO = [{"phase": phase} for phase in ("New", "InProgress", "Finalizing", "PartiallyFailed", "Failed", "Completed")]
SYNC = [
    condition("Synchronizing", "True", "SyncInProgress"),
    {**condition("Synchronizing", "False", "Error"), "latestMoverStatus": {"result": "Failed", "logs": "no space"}},
    {**condition("Synchronizing", "False", "WaitingForManual"), "lastManualSync": "of-another"},
    {"lastManualSync": "(trigger)", "latestMoverStatus": {"result": "Successful"}},
]
REPORTS: dict[str, list[dict[str, Any]]] = {
    "Backup": VELERO,
    "Restore": VELERO,
    "Workflow": [{"phase": phase} for phase in ("Pending", "Running", "Failed", "Error", "Succeeded")],
    "Job": [
        {"active": 1},
        condition("FailureTarget", "True", "BackoffLimitExceeded"),
        FAILED,
        dict(COMPLETE),
    ],
    "ReplicationSource": SYNC,
    "ReplicationDestination": SYNC,
    "VolumeSnapshot": [{"readyToUse": False}, {"error": {"message": "away"}}, {"readyToUse": True}],
    "PersistentVolumeClaim": [{"phase": "Pending"}, {"phase": "Lost"}, {"phase": "Bound"}],
}
"""What controllers write, the good end last. None of Velero's phases goes back once it is an end."""

ENDS = ("Completed", "Failed", "PartiallyFailed", "Succeeded", "Error", "Bound", "Lost")
HOLDS_DATA = (Phase.SUCCEEDED, ("Backup", "Restore", "VolumeSnapshot", "PersistentVolumeClaim"))
picks = st.integers(0, 7)
stores = st.sampled_from(["velero", "volsync", "snapshot"])


POD = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
STRANGERS: dict[Any, dict[str, Any]] = {
    JOB: {"template": {"spec": POD}},
    VELERO_BACKUP: {},
    VOLUME_SNAPSHOT: {"source": {"persistentVolumeClaimName": "of-somebody"}},
}
SPOT = {VELERO_BACKUP: "velero"}


class Operations(RuleBasedStateMachine):
    """Everything that can happen to a handful of operations on one target."""

    @initialize(backup=stores, restore=stores)
    def begin(self, backup: str, restore: str) -> None:
        """One target, prepared for one engine a capability."""
        engines = {"backup": backup, "restore": restore, "migration": "workflow", "runcommand": "job"}
        self.world = Cluster("runCommand.job", **engines)
        types = {"backup": "backup", "restore": "restore", "migration": "migration", "runcommand": "runCommand"}
        self.templates = [f"{types[capability]}.{engine}" for capability, engine in engines.items()]
        self.refs: list[ObjectRef] = []
        self.views: dict[tuple[int, ObjectRef], View] = {}
        self.ends: dict[str, Any] = {}
        self.made_by_the_end: dict[str, int] = {}
        self.data: set[ObjectRef] = set()
        self.unmanaged_objects: dict[ObjectRef, Manifest] = {}

    def pick(self, number: int) -> ObjectRef:
        return self.refs[number % len(self.refs)]

    @precondition(lambda self: len(self.refs) < 4)
    @rule(number=picks, timeout=st.sampled_from([None, 30, 600]))
    def submit(self, number: int, timeout: int | None) -> None:
        more: dict[str, Any] = {} if timeout is None else {"timeoutSeconds": timeout}
        self.refs.append(self.create(self.templates[number % len(self.templates)], f"op-{len(self.refs)}", **more))

    def create(self, of: str, name: str, **more: Any) -> ObjectRef:
        parameters = {} if of == "backup.velero" else GOOD[of]
        approvals = approval_for(name, days=365, params=parameters_digest(parameters))
        return self.world.submit(of, name, parameters=parameters, approvals=approvals, **more)

    @precondition(lambda self: self.refs)
    @rule(number=picks, other=picks)
    def recreate(self, number: int, other: int) -> None:
        ref = self.pick(number)
        if self.world.get(ref) is None:
            self.create(self.templates[other % len(self.templates)], ref.name)

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
        before = {operation.metadata.uid: operation for operation in self.world.operations()}
        try:
            self.world.reconcile(ref, view)
        except Died:
            self.views.clear()
        for operation in self.world.operations():
            if (
                operation.status.phase is Phase.RUNNING
                and before[operation.metadata.uid].status.phase is not Phase.RUNNING
            ):
                self.begins_in_turn(operation, before.values())

    def begins_in_turn(self, one: Operation, others: Any) -> None:
        """No earlier one that it conflicts with could have begun instead (OPS-5)."""
        for other in others:
            meta, status = other.metadata, other.status
            earlier = order_of(other) < order_of(one) and conflicting(one.spec.type, other.spec.type)
            leaving = meta.deletion_timestamp is not None or cancellation_requested(meta)
            if not earlier or leaving or status.phase in TERMINAL_PHASES:
                continue
            told = {condition.type: (condition.status, condition.reason) for condition in status.conditions}
            refused, blocked = told.get("Accepted", ("True",))[0] == "False", told.get("Blocked", ("False", ""))
            held = blocked[0] == "True" and blocked[1] != "ConflictingOperation"
            assert refused or held, f"{one.metadata.name} began before {meta.name}"

    @rule(number=picks, report=picks)
    def controller_reports(self, number: int, report: int) -> None:
        found = self.world.engine_objects()
        if found:
            ref, live = found[number % len(found)]
            reports = REPORTS[ref.kind.kind]
            if get_path(live, "status", "phase") not in ENDS and get_path(live, "status", "readyToUse") is not True:
                self.report(ref, live, reports[report % len(reports)])

    def report(self, ref: ObjectRef, live: Manifest, status: dict[str, Any]) -> None:
        """The controller writes it; a snapshot that is ready is bound both ways before."""
        if status.get("lastManualSync") == "(trigger)":
            status = {**status, "lastManualSync": get_path(live, "spec", "trigger", "manual")}
        if status.get("readyToUse"):
            status = {**status, "boundVolumeSnapshotContentName": self.world.bind(ref, live)}
        with suppress(Invalid):  # an API server refuses a Job's end that cannot be
            self.world.write_status(ref, status)

    @rule(number=picks)
    def object_is_removed(self, number: int) -> None:
        found = self.world.engine_objects()
        if found:
            ref = found[number % len(found)][0]
            self.world.remove(ref)
            self.data.discard(ref)

    @precondition(lambda self: self.refs)
    @rule(number=picks, what=st.sampled_from(["cancel", "uncancel", "delete", "orphan"]))
    def person_acts(self, number: int, what: str) -> None:
        ref = self.pick(number)
        if self.world.get(ref) is None:
            return
        if what == "delete":
            self.remember_data(self.world.operation(ref))
            self.world.remove(ref)
        elif what == "orphan":
            self.data |= self.not_yet_deleted(self.world.operation(ref).metadata.uid)
            self.world.orphan(ref)
        else:
            mark = "true" if what == "cancel" else None
            self.world.edit(ref, {"metadata": {"annotations": {"ops.vworkspace.io/cancel": mark}}})

    def remember_data(self, one: Operation) -> None:
        """What a finished one has made stays when it goes (OPS-6, OPS-7)."""
        phase, kinds = HOLDS_DATA
        if one.status.phase is phase:
            self.data |= {ref for ref in self.not_yet_deleted(one.metadata.uid) if ref.kind.kind in kinds}

    def not_yet_deleted(self, uid: str) -> set[ObjectRef]:
        """The objects of the Operation with that uid whose deletion has not begun."""
        return {ref for ref, live in self.world.engine_objects(uid) if "deletionTimestamp" not in metadata(live)}

    @precondition(lambda self: self.refs)
    @rule(number=picks)
    def stranger_takes_the_name(self, number: int) -> None:
        manifest = self.world.get(self.pick(number))
        if manifest is None or self.world.engine_objects(metadata(manifest)["uid"]):
            return
        meta = metadata(manifest)
        for kind, spec in STRANGERS.items():
            ref = ObjectRef(kind, SPOT.get(kind, meta["namespace"]), engine_object_name(meta["name"], meta["uid"]))
            if self.world.get(ref) is None:
                place = {"name": ref.name, "namespace": ref.namespace}
                self.unmanaged_objects[ref] = self.world.make(kind, {"metadata": place, "spec": spec})

    @rule(seconds=st.sampled_from([1, 29, 30, 700]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # --- the laws ---------------------------------------------------------------------------------------------------

    @invariant()
    def at_most_one_engine_object_was_ever_made_for_a_uid(self) -> None:
        if not hasattr(self, "world"):
            return
        for uid, made in self.world.created.items():
            assert len(made) == 1, uid
        assert self.world.creations() == len(self.world.created), "the server's log knows of no other"

    @invariant()
    def an_end_is_final(self) -> None:
        for operation in self.world.operations() if hasattr(self, "world") else ():
            status, uid = operation.status, operation.metadata.uid
            if uid in self.ends:
                assert status == self.ends[uid]
                assert len(self.world.created.get(uid, ())) == self.made_by_the_end[uid], "nothing more is created"
            elif status.phase in TERMINAL_PHASES:
                self.ends[uid] = status
                self.made_by_the_end[uid] = len(self.world.created.get(uid, ()))
                self.ended_in_time(operation)

    def ended_in_time(self, one: Operation) -> None:
        """A deadline never fires before its time (OPS-12)."""
        status = one.status
        assert status.finished_at is not None
        if any(condition.type == "Failed" and condition.reason == "Timeout" for condition in status.conditions):
            lasted = (moment(status.finished_at) - moment(status.started_at)).total_seconds()
            assert lasted >= (one.spec.timeout_seconds or 1800), one.metadata.name

    @invariant()
    def data_of_finished_ones_stays(self) -> None:
        """And so does all that an orphaned one has made (OPS-11)."""
        for ref in self.data if hasattr(self, "world") else ():
            live = self.world.get(ref)
            assert live is not None, ref
            assert "deletionTimestamp" not in metadata(live), ref

    @invariant()
    def no_two_that_conflict_run(self) -> None:
        if not hasattr(self, "world"):
            return
        running = [operation for operation in self.world.operations() if is_running(operation)]
        for i, operation in enumerate(running):
            for other in running[i + 1 :]:
                assert not conflicting(operation.spec.type, other.spec.type), (
                    operation.metadata.name,
                    other.metadata.name,
                )

    @invariant()
    def strangers_are_left_alone(self) -> None:
        for ref, before in self.unmanaged_objects.items() if hasattr(self, "world") else ():
            assert self.world.get(ref) == before

    def teardown(self) -> None:
        """Faults are over: strangers leave, controllers do their work, and everything comes to an end."""
        if not hasattr(self, "world"):
            return
        self.world.api.fatal = -10
        for ref in self.unmanaged_objects:
            self.world.remove(ref)
        for _ in range(4 * (len(self.refs) + 1)):
            if all(map(self._has_ended, self.world.operations())):
                break
            for ref in self.refs:
                self.world.settle(ref)
            self.world.collect()
            for ref, live in self.world.engine_objects():
                if "deletionTimestamp" in metadata(live):
                    self.world.let_go(ref)
                elif get_path(live, "status", "readyToUse") is not True:
                    self.report(ref, live, FAILED if _fails(live) else REPORTS[ref.kind.kind][-1])
        self.unmanaged_objects.clear()
        self.no_two_that_conflict_run()
        self.at_most_one_engine_object_was_ever_made_for_a_uid()
        self.an_end_is_final()
        self.data_of_finished_ones_stays()
        for operation in self.world.operations():
            assert self._has_ended(operation), (operation.metadata.name, operation.status)

    def _has_ended(self, one: Operation) -> bool:
        return one.status.phase in TERMINAL_PHASES and one.metadata.deletion_timestamp is None


def test_the_laws_hold_under_arbitrary_histories_OPS_1_OPS_5() -> None:
    run_state_machine_as_test(
        Operations, settings=settings(max_examples=effort(0.6), stateful_step_count=40, deadline=None)
    )


def test_what_an_orphaned_operation_has_made_stays_OPS_11() -> None:
    machine = Operations()
    machine.begin("velero", "velero")
    machine.submit(0, None)
    for _ in range(4):
        machine.reconcile(0)
    machine.look(0, 0)
    machine.person_acts(0, "orphan")
    assert machine.data, "it runs"
    machine.reconcile_on_old_caches(0, 0)
    machine.reconcile(0)
    machine.data_of_finished_ones_stays()
    machine.teardown()
