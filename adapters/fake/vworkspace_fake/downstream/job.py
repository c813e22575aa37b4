"""The Job controller: pods that run, fail and are replaced, and the conditions that tell of them (facts 7.3).

Pods are not objects here, only counts in the status and the controller's memory of them, but for those that cannot
start: what is in their way is said nowhere else. What becomes of a Job is told by Events, as the real one tells it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from vworkspace_core.apimachinery.resources import JOB, POD
from vworkspace_core.ports import Propagation
from vworkspace_fake.downstream.accounts import account_refusal
from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import DownstreamRule, Ending
from vworkspace_fake.downstream.controller import (
    NOTHING,
    DownstreamController,
    ObjectView,
    PassResult,
    change,
    earliest,
    moment_of,
    uid_of,
    with_condition,
)
from vworkspace_fake.downstream.kinds import SERVICE_ACCOUNT
from vworkspace_fake.simulation.effects import PassStep, PostEvent, SimulatedCreate, SimulatedDelete, SimulatedPatch
from vworkspace_fake.simulation.queue import FailureBackoff

_OURS: Final = "kubernetes.io/job-controller"
_FINAL: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@attrs.frozen
class _Memory:
    """The pods of one Job. `retry_at` is when a failed one may be replaced, `gone_at` when the last ones have ended."""

    pods: tuple[Attempt, ...] = ()
    used: tuple[DownstreamRule, ...] = ()
    retry_at: datetime | None = None
    refused: str = ""
    gone_at: datetime | None = None


@attrs.frozen
class _Verdict:
    """How the Job is going to end: the interim condition and its reason."""

    type: str
    reason: str
    message: str


def _reconcile(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or view.deleting or view.spec.get("managedBy") not in (None, _OURS):
        return NOTHING
    memory = view.memory or _Memory()
    if (end := _condition(view.live, "Complete", "Failed")) is not None:
        return (yield from _finished(view, end))
    if (interim := _condition(view.live, *_FINAL)) is not None:
        return (yield from _finish(view, memory, interim))
    if view.spec.get("suspend"):
        return (yield from _suspend(view))
    return (yield from _run(view, memory))


def _condition(job: Manifest, *types: str) -> Mapping[str, Any] | None:
    """The first condition of one of these types that is True."""
    for item in get_path(job, "status", "conditions") or ():
        if item.get("type") in types and item.get("status") == "True":
            return dict(item)
    return None


def _finished(view: ObjectView, end: Mapping[str, Any]) -> PassStep[PassResult]:
    """A finished Job only waits for its removal, from the moment it finished."""
    ttl, since = view.spec.get("ttlSecondsAfterFinished"), moment_of(end.get("lastTransitionTime"))
    if ttl is None or since is None:
        return NOTHING
    due = since + timedelta(seconds=ttl)
    if view.now < due:
        return PassResult(requeue_at=due, interval=True)
    yield SimulatedDelete(view.ref, view.uid, Propagation.FOREGROUND)
    return NOTHING


def _finish(view: ObjectView, memory: _Memory, interim: Mapping[str, Any]) -> PassStep[PassResult]:
    """The final condition repeats the interim one once no pod is left."""
    if memory.gone_at is not None and view.now < memory.gone_at:
        return PassResult(memory=memory, requeue_at=memory.gone_at)
    status = {**view.status, "terminating": 0, "ready": 0}
    final = _FINAL[interim["type"]]
    _mark(view, status, final, "True", interim["reason"], interim["message"])
    if final == "Complete":
        status["completionTime"] = view.timestamp()
    yield from change(view, {"status": status}, subresource="status")
    if final == "Complete":
        yield _event(view, "Normal", "Completed", "Job completed")
    return NOTHING


def _suspend(view: ObjectView) -> PassStep[PassResult]:
    """Pods are taken away, the clock of `activeDeadlineSeconds` too."""
    status = {**view.status, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    status.pop("startTime", None)
    status.pop("active", None)
    _mark(view, status, "Suspended", "True", "JobSuspended", "Job suspended")
    yield from change(view, {"status": status}, subresource="status")
    return NOTHING


def _mark(view: ObjectView, status: dict[str, Any], type_: str, value: str, reason: str, message: str) -> None:
    new = {"type": type_, "status": value, "reason": reason, "message": message}
    status["conditions"] = with_condition(status.get("conditions") or (), new, view.now, lastProbeTime=view.timestamp())


def _run(view: ObjectView, memory: _Memory) -> PassStep[PassResult]:
    status = dict(view.status)
    if any(item.get("type") == "Suspended" for item in status.get("conditions") or ()):
        _mark(view, status, "Suspended", "False", "JobResumed", "Job resumed")
    status.setdefault("startTime", view.timestamp())
    memory, verdict = _collect(view, memory, status)
    verdict = verdict or _deadline(view, status) or _exhausted(view, status)
    before = memory
    memory = _start(view, memory, status) if verdict is None else _stop(view, memory, status, verdict)
    _count(view, memory, status)
    due = memory.gone_at if verdict is not None else _next(view, memory, status)
    yield from change(view, {"status": status}, subresource="status")
    yield from _tell_of_pods(view, before, memory, verdict)
    return PassResult(memory=memory, requeue_at=due)


def _tell_of_pods(view: ObjectView, before: _Memory, after: _Memory, verdict: _Verdict | None) -> PassStep[None]:
    """Events, and the pods that are there and cannot start."""
    if verdict is not None and verdict.type == "FailureTarget":
        yield _event(view, "Warning", verdict.reason, verdict.message)
    if after.refused and not after.pods:
        yield _event(view, "Warning", "FailedCreate", f"Error creating: {after.refused}")
    for pod in after.pods:
        if pod not in before.pods and pod.outcome.waiting:
            yield from _waiting_pod(view, pod)
        elif pod not in before.pods:
            yield _event(view, "Normal", "SuccessfulCreate", f"Created pod: {view.ref.name}-pod")
    if after.gone_at is not None:
        for ref, manifest in view.all_of(POD, view.ref.namespace):
            if _is_of(view, manifest):
                yield SimulatedDelete(ref, uid_of(manifest))


def _is_of(view: ObjectView, pod: Manifest) -> bool:
    return any(get_path(owner, "uid") == view.uid for owner in metadata(pod).get("ownerReferences") or ())


def _event(view: ObjectView, type_: str, reason: str, message: str) -> PostEvent:
    return PostEvent(view.ref, view.uid, type_, reason, message, view.timestamp())


def _waiting_pod(view: ObjectView, pod: Attempt) -> PassStep[None]:
    """A pod whose container waits: the image is not there, a Secret is missing, the image would run as root."""
    name = f"{view.ref.name[:57]}-{view.uid[:5]}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": view.ref.name, "uid": view.uid, "controller": True}
    labels = {"batch.kubernetes.io/controller-uid": view.uid, "batch.kubernetes.io/job-name": view.ref.name[:63]}
    meta = {"name": name, "namespace": view.ref.namespace, "labels": labels, "ownerReferences": [owner]}
    yield SimulatedCreate(
        POD, {**POD.manifest(name), "metadata": meta, "spec": dict(get_path(view.spec, "template", "spec") or {})}
    )
    waiting = {"reason": pod.outcome.waiting, "message": pod.outcome.message}
    status = {
        "name": "run",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": waiting},
    }
    body = {"status": {"phase": "Pending", "containerStatuses": [status]}}
    yield SimulatedPatch(ObjectRef(POD, view.ref.namespace, name), "", body, "status")


def _collect(view: ObjectView, memory: _Memory, status: dict[str, Any]) -> tuple[_Memory, _Verdict | None]:
    """Count the pods that have ended."""
    left, verdict, failures = [], None, 0
    for pod in memory.pods:
        if released(view, pod):
            pod = begin(view, memory.used, view.behaviour.job.pod_seconds)
            memory = _using(memory, pod)
        if pod.until is None or view.now < pod.until:
            left.append(pod)
        elif pod.outcome.ending is Ending.SUCCEED:
            status["succeeded"] = status.get("succeeded", 0) + 1
        else:
            failures += 1
            verdict = verdict or _failed_by_policy(view, pod)
    if failures:
        status["failed"] = status.get("failed", 0) + failures
        backoff = FailureBackoff(view.behaviour.job.backoff_seconds, view.behaviour.job.max_backoff_seconds)
        memory = attrs.evolve(memory, retry_at=view.at(backoff.delay(status["failed"])))
    return attrs.evolve(memory, pods=tuple(left)), verdict


def _using(memory: _Memory, pod: Attempt) -> _Memory:
    return attrs.evolve(memory, used=pod.used_up(memory.used))


def _failed_by_policy(view: ObjectView, pod: Attempt) -> _Verdict | None:
    """`podFailurePolicy`: an exit code that ends the Job whatever its backoff limit is."""
    code = pod.outcome.exit_code
    for index, rule in enumerate(get_path(view.spec, "podFailurePolicy", "rules") or ()):
        codes = rule.get("onExitCodes") or {}
        listed = code in (codes.get("values") or ())
        if rule.get("action") == "FailJob" and codes and listed == (codes.get("operator") == "In"):
            where = f"{view.ref.namespace}/{view.ref.name}"
            message = f"Container for pod {where} failed with exit code {code} matching FailJob rule at index {index}"
            return _Verdict("FailureTarget", "PodFailurePolicy", message)
    return None


def _deadline(view: ObjectView, status: Mapping[str, Any]) -> _Verdict | None:
    end = _deadline_at(view, status)
    if end is None or view.now < end or _is_complete(view, status):
        return None
    return _Verdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")


def _deadline_at(view: ObjectView, status: Mapping[str, Any]) -> datetime | None:
    seconds, started = view.spec.get("activeDeadlineSeconds"), moment_of(status.get("startTime"))
    return None if seconds is None or started is None else started + timedelta(seconds=seconds)


def _exhausted(view: ObjectView, status: Mapping[str, Any]) -> _Verdict | None:
    if _is_complete(view, status):
        return _Verdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
    if status.get("failed", 0) > view.spec.get("backoffLimit", 6):
        return _Verdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    return None


def _completions(view: ObjectView) -> int:
    return int(view.spec.get("completions") or view.spec.get("parallelism") or 1)


def _is_complete(view: ObjectView, status: Mapping[str, Any]) -> bool:
    return int(status.get("succeeded", 0)) >= _completions(view)


def _start(view: ObjectView, memory: _Memory, status: Mapping[str, Any]) -> _Memory:
    """As many pods as are missing, unless a failure was too recent."""
    if memory.retry_at is not None and view.now < memory.retry_at:
        return memory
    memory = attrs.evolve(memory, refused="", retry_at=None)
    for _ in range(_missing(view, memory, status)):
        pod = begin(view, memory.used, view.behaviour.job.pod_seconds)
        account = get_path(view.spec, "template", "spec", "serviceAccountName")
        refused = account_refusal(view, account) or (
            pod.outcome.message if pod.outcome.ending is Ending.REFUSED else ""
        )
        if refused:
            retry_at = view.at(view.behaviour.job.backoff_seconds)
            return attrs.evolve(memory, refused=refused, retry_at=retry_at)
        memory = _using(attrs.evolve(memory, pods=(*memory.pods, pod)), pod)
    return memory


def _wakes(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
    """Jobs of a namespace, when a service account comes."""
    if ref.kind != SERVICE_ACCOUNT:
        return []
    return [other for other in world if other.kind == JOB and other.namespace == ref.namespace]


def _missing(view: ObjectView, memory: _Memory, status: Mapping[str, Any]) -> int:
    left = _completions(view) - int(status.get("succeeded", 0))
    return min(int(view.spec.get("parallelism", 1)), left) - len(memory.pods)


def _stop(view: ObjectView, memory: _Memory, status: dict[str, Any], verdict: _Verdict) -> _Memory:
    """Say how it ends and end what still runs; pods that are stopped count as failed."""
    if memory.pods:
        status["failed"] = status.get("failed", 0) + len(memory.pods)
    status["terminating"] = len(memory.pods)
    _mark(view, status, verdict.type, "True", verdict.reason, verdict.message)
    return attrs.evolve(memory, pods=(), gone_at=view.at(view.behaviour.job.terminating_seconds))


def _count(view: ObjectView, memory: _Memory, status: dict[str, Any]) -> None:
    status.pop("active", None)
    if memory.pods:
        status["active"] = len(memory.pods)
    status["ready"] = sum(1 for pod in memory.pods if not pod.outcome.waiting and _ready_at(view, pod) <= view.now)
    status.setdefault("terminating", 0)
    status.setdefault("uncountedTerminatedPods", {})


def _ready_at(view: ObjectView, pod: Attempt) -> datetime:
    return pod.began + timedelta(seconds=view.behaviour.job.ready_seconds)


def _next(view: ObjectView, memory: _Memory, status: Mapping[str, Any]) -> datetime | None:
    ready: Sequence[datetime] = [_ready_at(view, pod) for pod in memory.pods]
    waits = memory.retry_at if _missing(view, memory, status) > 0 else None
    ends = (pod.until for pod in memory.pods)
    return earliest(*ends, *(moment for moment in ready if moment > view.now), waits, _deadline_at(view, status))


JOB_CONTROLLER: Final = DownstreamController(
    "kube-controller-manager", (JOB,), _reconcile, watches=(SERVICE_ACCOUNT, POD), wakes=_wakes
)
"""Its name is the field manager of what it writes."""
