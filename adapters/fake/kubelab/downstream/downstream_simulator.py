"""The simulator that runs all or some of the simulated downstream controllers, by their names, on any API server.

These are the controllers that act on objects of the operator, such as Velero and the Job controller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.downstream.controller import DownstreamController, ObjectView, PassResult, WipeMemories, earliest, uid_of
from kubelab.downstream.job_controller import JOB_CONTROLLER
from kubelab.downstream.pod_counters import POD_COUNTERS
from kubelab.downstream.provisioners import ADDRESSES, VOLUME_PROVISIONER
from kubelab.downstream.snapshot_controller import SNAPSHOT_CONTROLLER
from kubelab.downstream.velero.velero_controller import VELERO
from kubelab.downstream.volsync_controller import VOLSYNC
from kubelab.downstream.workflow_controller import WORKFLOW_CONTROLLER
from kubelab.downstream.workload_controllers import WORKLOADS
from kubelab.simulation.effects import ControllerResult, PassStep, Question, get_object
from kubelab.simulation.queue import FailureBackoff
from kubelab.simulation.simulator import ControllerPass, Simulator
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.ports import KubeApi

CONTROLLERS: Final[Mapping[str, tuple[DownstreamController, ...]]] = MappingProxyType(
    {
        "velero": (VELERO,),
        "workflow": (WORKFLOW_CONTROLLER,),
        "job": (JOB_CONTROLLER,),
        "volsync": (VOLSYNC,),
        "snapshot": (SNAPSHOT_CONTROLLER, VOLUME_PROVISIONER),
        "workloads": (*WORKLOADS, *ADDRESSES, *POD_COUNTERS),
    }
)
"""The controllers by name.

`snapshot` includes the provisioner: a snapshot needs a bound claim, and a restore makes one.
"""


class DownstreamSimulator(Simulator):
    """All simulated controllers downstream of the operator (Jobs, Velero and others), with what they remember of
    objects.

    `names` are the chosen controllers of `kubelab.downstream.CONTROLLERS`, by default all. `behaviour` may be replaced
    at any time. `crash()` restarts every controller in the middle of its work.
    """

    title = "the simulated downstream controllers"

    def __init__(
        self, api: KubeApi, behaviour: DownstreamBehaviour | None = None, *, names: Iterable[str] | None = None
    ) -> None:
        super().__init__(api)
        self._behaviour = behaviour or DownstreamBehaviour()
        self.controllers: Sequence[DownstreamController] = tuple(
            item for name in (CONTROLLERS if names is None else names) for item in CONTROLLERS[name]
        )
        self._by_kind = {kind: controller for controller in self.controllers for kind in controller.subjects}
        self._memories: dict[ObjectRef, dict[str, Any]] = {}

    @property
    def watched(self) -> Sequence[tuple[Kind, str]]:
        """The kinds that are listed and watched, each with its label selector, which is always empty here."""
        kinds = (kind for item in self.controllers for kind in (*item.subjects, *item.watches))
        return tuple((kind, "") for kind in dict.fromkeys(kinds))

    @property
    def backoff(self) -> FailureBackoff:
        """The delay before a failed pass is repeated, which is always the same."""
        return FailureBackoff(self._behaviour.retry_seconds, self._behaviour.retry_seconds)

    @property
    def watch_latency_seconds(self) -> float:
        """The seconds for which a new object exists before any controller sees it."""
        return self._behaviour.watch_latency_seconds

    @property
    def behaviour(self) -> DownstreamBehaviour:
        """The present settings of the simulation: which attempts of the controllers fail, and how long they take."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: DownstreamBehaviour) -> None:
        """Set the behaviour; attempts that a removed rule stalled continue in a pass that starts at once."""
        self._behaviour = behaviour
        if self._now is not None:
            self._trigger(tuple(self._memories), self._now)
        self._wake()

    def crash(self) -> None:
        """Restart every controller. What the controllers' processes remember is lost; pods and stored data remain."""
        super().crash()
        for ref, memories in list(self._memories.items()):
            restarted = self._by_kind[ref.kind].restarted
            self._remember(ref, {uid: restarted(memory) for uid, memory in memories.items()})
        if self._now is not None:
            self._trigger(tuple(self._memories), self._now)

    def _affected(self, ref: ObjectRef, old: Manifest | None, new: Manifest | None) -> Iterator[ObjectRef]:
        if ref in self._memories if new is None else ref.kind in self._by_kind:
            yield ref
        for controller in self.controllers:
            yield from controller.wakes(ref, self._objects)

    def _begin(self, ref: ObjectRef, now: datetime) -> ControllerPass:
        return ControllerPass(self._by_kind[ref.kind].name, self._reconcile(ref, now))

    def _reconcile(self, ref: ObjectRef, now: datetime) -> PassStep[ControllerResult]:
        """Run a pass over the object `ref`, and over each earlier object of this name that a controller remembers."""
        live = yield from get_object(ref)
        uid = "" if live is None else uid_of(live)
        results: list[PassResult] = []
        for gone in [known for known in self._memories.get(ref, {}) if known != uid]:
            results.append((yield from self._pass(ref, gone, None, now)))
        if live is not None:
            results.append((yield from self._pass(ref, uid, live, now)))
        return _joined(results, now)

    def _pass(self, ref: ObjectRef, uid: str, live: Manifest | None, now: datetime) -> PassStep[PassResult]:
        """Run the controller's pass over the object with this name and uid, and store what it remembers of the object.

        `live` is None if this object no longer exists.
        """
        memory = self._memories.get(ref, {}).get(uid)
        view = ObjectView(ref, uid, live, memory, now, self._behaviour, self._objects, self._memories)
        result = yield from self._by_kind[ref.kind].reconcile(view)
        self._remember(ref, {**self._memories.get(ref, {}), uid: result.memory})
        return result

    def _remember(self, ref: ObjectRef, memories: Mapping[str, Any]) -> None:
        entries = {uid: memory for uid, memory in memories.items() if memory is not None}
        if entries:
            self._memories[ref] = entries
        else:
            self._memories.pop(ref, None)

    async def _answer(self, question: Question[Any]) -> None:
        match question:
            case WipeMemories(ref):
                self._remember(ref, {})
            case _:
                raise AssertionError(f"nobody answers {question}")


def _joined(results: Sequence[PassResult], now: datetime) -> ControllerResult:
    """Return one result for `results`, the results of the passes over all objects that have had the same name.

    The next pass is when the first of them has work to do. If none has any, it is when the first of their periodic
    passes is due.
    """
    work = earliest(*(result.requeue_at for result in results if not result.interval))
    due = work or earliest(*(result.requeue_at for result in results if result.interval))
    error = next((result.error for result in reversed(results) if result.error), "")
    seconds = None if due is None else (due - now).total_seconds()
    return ControllerResult(requeue_after=seconds, interval=work is None, error=error)
