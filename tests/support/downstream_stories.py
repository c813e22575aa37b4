"""Stories of downstream objects: what is done to them, and what has to hold in each state they come to."""

from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import strategies as st

from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    Ending,
    VeleroBehaviour,
    WorkflowBehaviour,
    WorkflowStep,
)
from purekube.apimachinery.errors import AlreadyExists, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.resources import (
    JOB,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
    WORKFLOW,
)
from tests.support.downstream_world import (
    NS,
    VELERO_NS,
    DownstreamWorld,
    backup,
    conditions,
    destination,
    job,
    restore,
    snapshot,
    source,
    workflow,
)
from tests.support.resumed_workflows import resume_patch

Step: TypeAlias = tuple[str, Any]

SUBJECTS: dict[str, tuple[Kind, str, Callable[[], dict[str, Any]]]] = {
    "b": (VELERO_BACKUP, VELERO_NS, lambda: backup(ttl="100h")),
    "r": (VELERO_RESTORE, VELERO_NS, restore),
    "w": (WORKFLOW, NS, lambda: workflow(ttlStrategy={"secondsAfterCompletion": 200})),
    "j": (JOB, NS, lambda: job(backoffLimit=1, ttlSecondsAfterFinished=200, activeDeadlineSeconds=120)),
    "s": (REPLICATION_SOURCE, NS, source),
    "d": (REPLICATION_DESTINATION, NS, destination),
    "v": (VOLUME_SNAPSHOT, NS, snapshot),
}
_NAMES = st.sampled_from(sorted(SUBJECTS))
_STEP_LISTS = st.sampled_from(
    [(), (WorkflowStep("a"), WorkflowStep("ask", suspend=True)), (WorkflowStep("a", ending=Ending.ERROR),)]
)
_OUTCOMES = st.builds(
    DownstreamOutcome,
    ending=st.sampled_from(list(Ending)),
    message=st.sampled_from(["", "boom"]),
    seconds=st.sampled_from([None, 0.0, 40.0]),
    times=st.sampled_from([None, 1, 2]),
    steps=_STEP_LISTS,
    outputs=st.sampled_from([{}, {"rows": "1"}]),
)
_RULES = st.builds(
    DownstreamRule, _OUTCOMES, kind=st.sampled_from([None, *(kind.kind for kind, _, _ in SUBJECTS.values())])
)
BEHAVIOURS = st.builds(
    DownstreamBehaviour,
    rules=st.lists(_RULES, max_size=3).map(tuple),
    watch_latency_seconds=st.sampled_from([0.0, 5.0]),
    velero=st.builds(VeleroBehaviour, plugin_operations=st.sampled_from([0, 2]), queues=st.booleans()),
    workflow=st.builds(WorkflowBehaviour, compresses_nodes=st.booleans(), pending_seconds=st.sampled_from([0.0, 9.0])),
)
STEPS = st.one_of(
    st.tuples(st.just("create"), _NAMES),
    st.tuples(st.just("delete"), _NAMES),
    st.tuples(st.just("run"), st.sampled_from([0, 1, 3, 30, 300])),
    st.tuples(st.just("behave"), BEHAVIOURS),
    st.tuples(st.just("crash"), st.none()),
    st.tuples(st.just("suspend"), st.tuples(st.sampled_from(["j", "w"]), st.booleans())),
    st.tuples(st.just("shutdown"), st.sampled_from(["Stop", "Terminate"])),
    st.tuples(st.just("resume"), st.none()),
    st.tuples(st.just("trigger"), st.tuples(st.sampled_from(["s", "d"]), st.sampled_from(["two", "three"]))),
    st.tuples(st.just("pause"), st.tuples(st.sampled_from(["s", "d"]), st.booleans())),
)


class Story:
    """One object of each kind, and what is done to them. Every state is checked as it comes."""

    def __init__(self, world: DownstreamWorld) -> None:
        self.world = world
        world.prepare()
        self.ended: dict[str, str] = {}
        self.interim: set[str] = set()

    def take(self, step: Step) -> None:
        """One step, and the check of what followed."""
        name, value = step
        steps: dict[str, Callable[[], None]] = {
            "create": lambda: self._create(value),
            "delete": lambda: self._delete(value),
            "run": lambda: self.world.run(value),
            "behave": lambda: self.world.behave(value),
            "crash": lambda: self.world.simulator.crash(),
            "suspend": lambda: self._patch(value[0], {"spec": {"suspend": value[1]}}),
            "shutdown": lambda: self._patch("w", {"spec": {"shutdown": value}}),
            "resume": self._resume,
            "trigger": lambda: self._patch(value[0], {"spec": {"trigger": {"manual": value[1]}}}),
            "pause": lambda: self._patch(value[0], {"spec": {"paused": value[1]}}),
        }
        steps[name]()
        self.check()

    def _create(self, name: str) -> None:
        kind, _, make = SUBJECTS[name]
        try:
            self.world.create(make(), kind)
        except AlreadyExists:
            return

    def _delete(self, name: str) -> None:
        kind, namespace, _ = SUBJECTS[name]
        try:
            self.world.delete(kind, name, namespace)
        except NotFound:
            return

    def _patch(self, name: str, body: dict[str, Any]) -> None:
        kind, namespace, _ = SUBJECTS[name]
        if self.world.find(kind, name, namespace) is not None:
            self.world.patch(kind, name, body, namespace=namespace)

    def _resume(self) -> None:
        live = self.world.find(WORKFLOW, "w")
        if live is not None:
            self.world.patch(WORKFLOW, "w", resume_patch(live))

    def heal(self) -> None:
        """Nothing goes wrong any more, and nothing is held up."""
        self.world.behave(DownstreamBehaviour())
        for name in ("s", "d"):
            self._patch(name, {"spec": {"paused": False}})
        for name in ("j", "w"):
            self._patch(name, {"spec": {"suspend": False}})
        for _ in range(3):
            self.world.settle()
            self._resume()
        self.world.settle()
        self.check()

    def check(self) -> None:
        """What holds in every state."""
        for name, (kind, _, _) in SUBJECTS.items():
            for state in self.world.states(kind):
                if state["metadata"]["name"] == name:
                    self._check_state(kind, state)

    def _check_state(self, kind: Kind, state: Manifest) -> None:
        status = state.get("status") or {}
        if kind in (VELERO_BACKUP, VELERO_RESTORE, WORKFLOW):
            self._check_end(state, str(status.get("phase", "")), _FINAL)
        elif kind == JOB:
            self._check_job(state, status)
        elif kind == VOLUME_SNAPSHOT:
            assert not (status.get("readyToUse") and "error" in status)
            assert not status.get("readyToUse") or status["boundVolumeSnapshotContentName"]
        else:
            _check_sync(state, status)

    def _check_job(self, state: Manifest, status: dict[str, Any]) -> None:
        held = {type_: value for type_, value in conditions(status).items() if value.startswith("True")}
        uid = state["metadata"]["uid"]
        for interim, final in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
            assert final not in held or uid in self.interim, "the interim condition comes in a write of its own"
            if interim in held:
                assert final in held or self.ended.get(uid) is None
                self.interim.add(uid)
        assert ("completionTime" in status) == ("Complete" in held)
        ends = {"Complete", "Failed"} & held.keys()
        assert len(ends) <= 1
        self._check_end(state, "".join(ends), ("Complete", "Failed"))

    def _check_end(self, state: Manifest, phase: str, final: tuple[str, ...]) -> None:
        """The end absorbs: whatever happens, an object that has ended stays as it ended."""
        uid = state["metadata"]["uid"]
        before = self.ended.get(uid)
        assert before in (None, phase) or phase == "Deleting", f"{state['kind']} went from {before} to {phase!r}"
        if phase in final:
            self.ended[uid] = phase


_FINAL = ("Completed", "PartiallyFailed", "Failed", "FailedValidation", "Succeeded", "Error")


def _check_sync(state: Manifest, status: dict[str, Any]) -> None:
    found = status.get("conditions") or ()
    assert len(found) <= 1
    if not found:
        return
    reason = found[0]["reason"]
    assert (found[0]["status"] == "True") == (reason == "SyncInProgress")
    if reason in ("CleaningUp", "WaitingForManual"):
        assert "lastSyncStartTime" not in status
        assert get_path(status, "latestMoverStatus", "result") == "Successful"
    if reason == "SyncInProgress":
        assert "lastSyncStartTime" in status
