"""A stage with the simulated controllers of the engines on the embedded API server, under a clock set by hand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from kubelab.clock import ManualClock
from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    DownstreamSimulator,
    Ending,
    VeleroBehaviour,
    WorkflowBehaviour,
    WorkflowStep,
)
from kubelab.downstream.crds import downstream_crds
from kubelab.downstream.kinds import BACKUP_STORAGE_LOCATION, STORAGE_CLASS
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.names import engine_object_name
from purekube.apimachinery.resources import (
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE_ACCOUNT,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    WORKFLOW,
)
from tests.support.engine_stage import SEEN, SNAPSHOT_CLASS, STORAGE, EngineStage
from tests.support.furnished import furnish
from tests.support.kube_client import InProcessHands, InProcessRecord, Seen
from tests.support.passing_time import go_on, go_until
from vworkspace_core.operations.settings import RUNNER

_PLACE: Final = "stage-000000"
_UID: Final = "0badcafe-1111-4222-8333-444444444444"
_DRIVER: Final = "simulated.csi.example"
_PULL: Final = "Back-off pulling image"
_NO_NODE: Final = (
    "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, "
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
_ENDS: Final[Mapping[str, DownstreamOutcome]] = {
    "fails": DownstreamOutcome(Ending.FAIL),
    "hangs": DownstreamOutcome(Ending.STALL),
    "no-image": DownstreamOutcome(Ending.STALL, _PULL, waiting="ImagePullBackOff"),
    "unschedulable": DownstreamOutcome(Ending.STALL, _NO_NODE, waiting="Unschedulable"),
}


class SimulatedEngineStage(EngineStage):
    """What becomes of pods is told to the simulator by a rule."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        server = ApiServer(now=self._clock.now, collects=True)
        api = InProcessKube(server)
        furnish(api, downstream_crds(), _PLACE, "velero")
        account = SERVICE_ACCOUNT.manifest(RUNNER, _PLACE)
        run_sync(api.create(account, kind=SERVICE_ACCOUNT, field_manager="admin"))
        missing = WorkflowBehaviour(missing_templates=frozenset({f"{_PLACE}/nothing"}))
        velero = VeleroBehaviour(storage_locations=frozenset())
        behaviour = DownstreamBehaviour(workflow=missing, velero=velero)
        self._simulator = DownstreamSimulator(InProcessKube(server), behaviour)
        self._record = InProcessRecord.of(api, SEEN)
        self._seen: list[Seen] = []
        super().__init__(InProcessHands(api), _PLACE, _UID)

    def pods_end(self, kind: Kind, body: dict[str, Any], fate: str) -> None:
        """Tell the simulator."""
        if fate in _ENDS:
            self._rule(_ENDS[fate], kind)

    def _rule(self, outcome: DownstreamOutcome, kind: Kind) -> None:
        rules = (DownstreamRule(outcome, kind.kind),)
        self._simulator.behaviour = attrs.evolve(self._simulator.behaviour, rules=rules)

    def workflow_template(self, *, pods: str = "ready", retries: int = 0, before: str = "") -> None:
        """Tell the simulator; it knows no `retryStrategy`."""
        outcome = _ENDS.get(pods, DownstreamOutcome())
        if before:
            work = WorkflowStep("work", ending=outcome.ending)
            outcome = attrs.evolve(outcome, steps=(WorkflowStep(before, suspend=before == "suspended"), work))
        self._rule(outcome, WORKFLOW)

    def volume(self, *, bound: bool = True) -> None:
        """Create a claim; the simulator provisions it unless its class waits for a pod."""
        name = "late" if not bound else "soon"
        mode = "WaitForFirstConsumer" if not bound else "Immediate"
        classed = {**STORAGE_CLASS.manifest(name), "provisioner": _DRIVER, "volumeBindingMode": mode}
        self.create(classed, STORAGE_CLASS)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "2Gi"}},
        }
        manifest = PERSISTENT_VOLUME_CLAIM.manifest("data", self.namespace)
        self.create({**manifest, "spec": spec}, PERSISTENT_VOLUME_CLAIM)
        if bound:
            ref = ObjectRef(PERSISTENT_VOLUME_CLAIM, self.namespace, "data")
            self.until(lambda: get_path(self.find(ref), "status", "phase") == "Bound", "the claim is bound")

    def repository(self) -> None:
        """Create the Secret."""
        self.create(SECRET.manifest("restic", self.namespace), SECRET)

    def storage_is_unavailable(self) -> None:
        """Create it, and tell the simulator."""
        self._rule(DownstreamOutcome(Ending.FAIL), BACKUP_STORAGE_LOCATION)
        self._located("away", "Unavailable")

    def storage(self) -> None:
        """Create it."""
        self._located(STORAGE, "Available")

    def _located(self, name: str, phase: str) -> None:
        spec = {"provider": "velero.io/aws", "objectStorage": {"bucket": "shop"}}
        self.create({**BACKUP_STORAGE_LOCATION.manifest(name, "velero"), "spec": spec}, BACKUP_STORAGE_LOCATION)
        ref = ObjectRef(BACKUP_STORAGE_LOCATION, "velero", name)
        self.until(lambda: get_path(self.find(ref), "status", "phase") == phase, f"the storage is {phase}")

    def hook_fails(self) -> None:
        """Have the simulator count an error in the one pod."""
        self._rule(DownstreamOutcome(Ending.PARTIAL, items=1, errors=2, failed_hooks=1), VELERO_BACKUP)

    def snapshot_class(self) -> None:
        """Create it; until the driver cuts, nothing is cut."""
        self._rule(DownstreamOutcome(Ending.STALL), VOLUME_SNAPSHOT)
        manifest = VOLUME_SNAPSHOT_CLASS.manifest(SNAPSHOT_CLASS)
        self.create({**manifest, "driver": _DRIVER, "deletionPolicy": "Delete"}, VOLUME_SNAPSHOT_CLASS)

    def driver_cuts(self, error: str = "") -> None:
        """Tell the simulator."""
        ending = Ending.FAIL if error else Ending.SUCCEED
        self._rule(DownstreamOutcome(ending, error), VOLUME_SNAPSHOT)

    def driver_deletes(self, content: ObjectRef) -> None:
        """Leave it to the simulator."""

    def quota(self, pods: int | None) -> None:
        """Tell the simulator."""
        if pods is None:
            self._simulator.behaviour = attrs.evolve(self._simulator.behaviour, rules=())
        else:
            limits = f"exceeded quota: small, requested: pods=1, used: pods=0, limited: pods={pods}"
            refusal = f'pods "{engine_object_name("op-1", _UID)}-abcde" is forbidden: {limits}'
            self._rule(DownstreamOutcome(Ending.REFUSED, refusal), JOB)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Let time pass."""
        go_until(self._clock, self._simulator, holds, lambda: f"{what}; {self.standing()}")

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        go_on(self._clock, self._simulator, seconds)

    def seen(self) -> Sequence[Seen]:
        """Return everything, in the order of the server."""
        fresh = self._record.fresh()
        self._seen += sorted(fresh, key=lambda item: int(item[1].object["metadata"]["resourceVersion"]))
        return self._seen
