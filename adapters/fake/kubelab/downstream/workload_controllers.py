"""Deployment, StatefulSet and DaemonSet: the statuses that their controllers write, without any pods.

The real controllers' habits are imitated: zero counts are omitted, a new generation is observed with a delay, and a
rollout takes a pod at a time. A Deployment without progress reports its missed deadline and continues to try.
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import attrs

from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import (
    NOTHING,
    Attempt,
    DownstreamController,
    ObjectView,
    PassResult,
    begin,
    change,
    earliest,
    released,
    with_condition,
)
from kubelab.simulation.effects import PassStep
from purekube.apimachinery.manifest import content_hash
from purekube.apimachinery.resources import DAEMON_SET, DEPLOYMENT, STATEFUL_SET


@attrs.frozen
class Pods:
    """The numbers of a workload's pods. `ready` are ready pods of the newest template, `left` are pods of earlier ones.

    `updated` are all pods of the newest template, `want` the desired number.
    """

    want: int
    updated: int
    ready: int
    left: int

    @property
    def done(self) -> bool:
        """True if the rollout is complete: all desired pods are ready, and no pods of earlier templates are left."""
        return self.ready == self.want and not self.left


@attrs.frozen
class Rollout:
    """The controller's memory of a workload: the observed generation, and the rollout of its pod template.

    `before` is the number of ready pods of earlier templates when the rollout began. New pods become ready one after
    the other, each after `seconds`, and each replaces an old one. Pods of an attempt that fails or stalls are created
    and never become ready.
    """

    generation: int
    template: str
    before: int
    want: int
    began: datetime
    seconds: float
    attempt: Attempt

    @property
    def works(self) -> bool:
        """True if the rollout's pods will become ready."""
        return self.attempt.outcome.ending is Ending.SUCCEED

    def at(self, now: datetime) -> Pods:
        """Return the counts of pods at the time `now`."""
        passed = (now - self.began).total_seconds()
        steps = self.want if self.seconds <= 0 else int((passed + 1e-6) / self.seconds)
        done = max(0, min(self.want, steps)) if self.works else 0
        left = self.before if done == 0 and self.want > 0 else max(0, self.before - done)
        if done == self.want:
            left = 0
        return Pods(self.want, min(self.want, done + 1), done, left)

    def next_step(self, now: datetime) -> datetime | None:
        """Return when the next pod becomes ready after the time `now`, or None if no more pods will."""
        pods = self.at(now)
        if pods.done or not self.works:
            return None
        return self.began + timedelta(seconds=self.seconds * (pods.ready + 1))


# These fields have no `omitempty` in apps/v1 (DaemonSetStatus), so they are written at zero too.
_DAEMON_COUNTS: Final = frozenset(
    ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
)
_LATE: Final = 600.0
"""The default of `progressDeadlineSeconds`, after which a Deployment without progress reports the missed deadline."""

StatusOf: TypeAlias = Callable[[ObjectView, Rollout, Pods], dict[str, Any]]


@attrs.frozen
class _Noticed:
    """A new generation of a workload that the simulated controller observes only at `until`.

    The delay imitates a real controller. `before` is the controller's rollout of the earlier generation, None if there
    was none.
    """

    generation: int
    until: datetime
    before: Rollout | None


def _reconciling(
    want_of: Callable[[ObjectView], int], status_of: StatusOf, always: frozenset[str] = frozenset()
) -> Callable[[ObjectView], PassStep[PassResult]]:
    """Return a reconcile function for one kind of workload.

    `want_of` returns the desired number of pods, `status_of` the status. Counts of zero are left out of the status,
    except for the fields in `always`.
    """

    def reconcile(view: ObjectView) -> PassStep[PassResult]:
        if view.live is None or view.deleting:
            return NOTHING
        noticed = _notice(view)
        if noticed is not None:
            return PassResult(memory=noticed, requeue_at=noticed.until)
        memory = _rollout(view, want_of(view))
        pods = memory.at(view.now)
        status = {key: value for key, value in status_of(view, memory, pods).items() if value != 0 or key in always}
        due = earliest(memory.next_step(view.now), _deadline(view, memory, pods))
        yield from change(view, {"status": status}, subresource="status")
        return PassResult(memory=memory, requeue_at=due)

    return reconcile


def _notice(view: ObjectView) -> _Noticed | None:
    """Return the workload's generation if the controller is to observe it only later, and None if it observes it now.

    A real controller takes some time to observe a change. Until then the caller must leave the status as it is.
    """
    memory, generation = view.memory, view.generation
    if isinstance(memory, Rollout) and memory.generation == generation:
        return None
    if isinstance(memory, _Noticed) and memory.generation == generation:
        return memory if view.now < memory.until else None
    seconds = view.behaviour.workloads.observe_seconds
    return _Noticed(generation, view.at(seconds), _known(memory)) if seconds > 0 else None


def _known(memory: Any) -> Rollout | None:
    match memory:
        case Rollout():
            return memory
        case _Noticed(before=before):
            return before
        case _:
            return None


def _rollout(view: ObjectView, want: int) -> Rollout:
    """Return the rollout in progress, or a new one if the pod template or the number of pods has changed.

    A new rollout also begins when the rule that stalled the present one has been removed.
    """
    generation, template = view.generation, content_hash(view.spec.get("template"))
    known = _known(view.memory)
    if known is not None and (known.template, known.want) == (template, want) and not released(view, known.attempt):
        return attrs.evolve(known, generation=generation)
    behaviour = view.behaviour.workloads
    attempt = begin(view, () if known is None else known.attempt.used, behaviour.ready_seconds)
    seconds = attempt.outcome.seconds if attempt.outcome.seconds is not None else behaviour.ready_seconds
    before = 0 if known is None else _ready_before(known, view.now)
    same = known is not None and known.template == template
    began = view.now - timedelta(seconds=seconds * min(before, want) if same else 0)
    return Rollout(generation, template, 0 if same else before, want, began, seconds, attempt)


def _ready_before(known: Rollout, now: datetime) -> int:
    pods = known.at(now)
    return pods.ready + pods.left


def _deadline(view: ObjectView, memory: Rollout, pods: Pods) -> datetime | None:
    """Return when the Deployment will miss its progress deadline.

    None means that the Deployment is complete, or has missed the deadline already.
    """
    if view.ref.kind != DEPLOYMENT or pods.done:
        return None
    late = memory.began + timedelta(seconds=memory.seconds * pods.ready + _progress_deadline(view))
    return late if view.now < late else None


def _progress_deadline(view: ObjectView) -> float:
    return float(view.spec.get("progressDeadlineSeconds") or _LATE)


# --- Deployment ------------------------------------------------------------------------------------------------------


def _replicas(view: ObjectView) -> int:
    return int(view.spec.get("replicas", 1))


def _deployment(view: ObjectView, memory: Rollout, pods: Pods) -> dict[str, Any]:
    total, available = pods.updated + pods.left, pods.ready + pods.left
    conditions = view.status.get("conditions") or []
    for condition in (_available(view, available, memory), _progressing(view, memory, pods)):
        conditions = with_condition(conditions, condition, view.now, lastUpdateTime=view.timestamp())
    return {
        "observedGeneration": memory.generation,
        "replicas": total,
        "updatedReplicas": pods.updated,
        "readyReplicas": available,
        "availableReplicas": available,
        # Of the pods that exist, not of those wanted (deployment/sync.go, calculateStatus).
        "unavailableReplicas": max(0, total - available),
        "conditions": conditions,
    }


def _available(view: ObjectView, available: int, memory: Rollout) -> dict[str, Any]:
    enough = available >= memory.want - _most_unavailable(view.spec.get("strategy") or {}, memory.want)
    return {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }


def _most_unavailable(strategy: Mapping[str, Any], want: int) -> int:
    """Return how many of `want` pods an update may take away, so that the Deployment still counts as available.

    Percentages are rounded down, and those of `maxSurge` up. If nothing is left of both, it is one pod
    (deployment/util/deployment_util.go, MaxUnavailable and ResolveFenceposts).
    """
    if strategy.get("type", "RollingUpdate") != "RollingUpdate" or not want:
        return 0
    update = strategy.get("rollingUpdate") or {}
    surge = share_of(update.get("maxSurge", "25%"), want, math.ceil)
    unavailable = share_of(update.get("maxUnavailable", "25%"), want, math.floor)
    return min(want, unavailable or (0 if surge else 1))


def share_of(value: Any, pods: int, rounded: Callable[[float], int] = math.ceil) -> int:
    """Return a number of pods that is given as such or as a percentage of all `pods`."""
    text = str(value)
    return rounded(pods * float(text[:-1]) / 100) if text.endswith("%") else int(value)


def _progressing(view: ObjectView, memory: Rollout, pods: Pods) -> dict[str, Any]:
    name = f"{view.ref.name}-{memory.template[:10]}"
    # The deadline counts from the last progress, here the last pod that became ready, not from the begin of the rollout
    # (deployment/util/deployment_util.go, DeploymentTimedOut).
    late = memory.began + timedelta(seconds=memory.seconds * pods.ready + _progress_deadline(view))
    if pods.done:
        status, reason, said = "True", "NewReplicaSetAvailable", "has successfully progressed."
    elif view.now >= late:
        status, reason, said = "False", "ProgressDeadlineExceeded", "has timed out progressing."
    else:
        status, reason, said = "True", "ReplicaSetUpdated", "is progressing."
    return {"type": "Progressing", "status": status, "reason": reason, "message": f'ReplicaSet "{name}" {said}'}


# --- StatefulSet and DaemonSet ---------------------------------------------------------------------------------------


def _remaining_pods(memory: Rollout, pods: Pods) -> int:
    """Return the number of pods of earlier templates that still exist during the rollout `memory`.

    These pods are removed before their replacements start, so there are never too many pods.
    """
    return max(0, min(pods.left, memory.want - pods.updated))


def _stateful_set(view: ObjectView, memory: Rollout, pods: Pods) -> dict[str, Any]:
    newest = f"{view.ref.name}-{memory.template[:10]}"
    current = view.status.get("currentRevision") or newest
    left = _remaining_pods(memory, pods)
    ready = pods.ready + left
    return {
        "observedGeneration": memory.generation,
        "replicas": pods.updated + left,
        "readyReplicas": ready,
        "availableReplicas": ready,
        # After a rollout the updated pods become the current ones (statefulset/stateful_set_utils.go,
        # completeRollingUpdate).
        "currentReplicas": left or (pods.ready if pods.done or current == newest else 0),
        "updatedReplicas": pods.updated,
        "currentRevision": newest if pods.done else current,
        "updateRevision": newest,
    }


def _daemon_set(view: ObjectView, memory: Rollout, pods: Pods) -> dict[str, Any]:
    left = _remaining_pods(memory, pods)
    ready = pods.ready + left
    return {
        "observedGeneration": memory.generation,
        "desiredNumberScheduled": memory.want,
        "currentNumberScheduled": memory.want,
        "updatedNumberScheduled": pods.updated,
        "numberReady": ready,
        "numberMisscheduled": 0,
        "numberAvailable": ready,
        "numberUnavailable": memory.want - ready,
    }


WORKLOADS: Final = (
    DownstreamController("deployment-controller", (DEPLOYMENT,), _reconciling(_replicas, _deployment)),
    DownstreamController(
        "statefulset-controller",
        (STATEFUL_SET,),
        _reconciling(_replicas, _stateful_set, frozenset(("replicas", "availableReplicas"))),
    ),
    DownstreamController(
        "daemonset-controller",
        (DAEMON_SET,),
        _reconciling(lambda view: view.behaviour.workloads.nodes, _daemon_set, _DAEMON_COUNTS),
    ),
)
"""The controllers of workloads; their names are the field managers of their writes."""
