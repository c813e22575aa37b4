"""The Job controller: pods that run, fail and are replaced, and the conditions that tell of them (facts 7.3).

Pods are not objects here, only counts in the status and the controller's memory of them, but for those that cannot
start: what is in their way is said nowhere else. What becomes of a Job is told by Events, as the real one tells it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, dig, metadata
from vworkspace_core.apimachinery.resources import JOB, POD
from vworkspace_core.ports import Propagation
from vworkspace_fake.downstream.accounts import account_refusal
from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import Ending, Rule
from vworkspace_fake.downstream.kinds import SERVICE_ACCOUNT
from vworkspace_fake.downstream.turns import (
    NOTHING,
    Controller,
    Look,
    Turn,
    change,
    earliest,
    moment_of,
    uid_of,
    with_condition,
)
from vworkspace_fake.simulation.effects import CreateObject, DeleteObject, Effect, PatchObject, PostEvent
from vworkspace_fake.simulation.queue import FailureBackoff

_OURS: Final = "kubernetes.io/job-controller"
_FINAL: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@attrs.frozen
class _Memory:
    """The pods of one Job. `retry_at` is when a failed one may be replaced, `gone_at` when the last ones have ended."""

    pods: tuple[Attempt, ...] = ()
    used: tuple[Rule, ...] = ()
    retry_at: datetime | None = None
    refused: str = ""
    gone_at: datetime | None = None


@attrs.frozen
class _Verdict:
    """How the Job is going to end: the interim condition and its reason."""

    type: str
    reason: str
    message: str


def _look(look: Look) -> Turn:
    if look.live is None or look.deleting or look.spec.get("managedBy") not in (None, _OURS):
        return NOTHING
    memory = look.memory or _Memory()
    if (end := _condition(look.live, "Complete", "Failed")) is not None:
        return _finished(look, end)
    if (interim := _condition(look.live, *_FINAL)) is not None:
        return _finish(look, memory, interim)
    if look.spec.get("suspend"):
        return _suspend(look)
    return _run(look, memory)


def _condition(job: Manifest, *types: str) -> Mapping[str, Any] | None:
    """The first condition of one of these types that is True."""
    for item in dig(job, "status", "conditions") or ():
        if item.get("type") in types and item.get("status") == "True":
            return dict(item)
    return None


def _finished(look: Look, end: Mapping[str, Any]) -> Turn:
    """A finished Job only waits for its removal, from the moment it finished."""
    ttl, since = look.spec.get("ttlSecondsAfterFinished"), moment_of(end.get("lastTransitionTime"))
    if ttl is None or since is None:
        return NOTHING
    due = since + timedelta(seconds=ttl)
    if look.now < due:
        return Turn(due=due, regular=True)
    return Turn((DeleteObject(look.ref, look.uid, Propagation.FOREGROUND),))


def _finish(look: Look, memory: _Memory, interim: Mapping[str, Any]) -> Turn:
    """The final condition repeats the interim one once no pod is left."""
    if memory.gone_at is not None and look.now < memory.gone_at:
        return Turn(memory=memory, due=memory.gone_at)
    status = {**look.status, "terminating": 0, "ready": 0}
    final = _FINAL[interim["type"]]
    _mark(look, status, final, "True", interim["reason"], interim["message"])
    told: tuple[Effect, ...] = ()
    if final == "Complete":
        status["completionTime"] = look.timestamp()
        told = (_event(look, "Normal", "Completed", "Job completed"),)
    return Turn((*change(look, {"status": status}, subresource="status"), *told))


def _suspend(look: Look) -> Turn:
    """Pods are taken away, the clock of `activeDeadlineSeconds` too."""
    status = {**look.status, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    status.pop("startTime", None)
    status.pop("active", None)
    _mark(look, status, "Suspended", "True", "JobSuspended", "Job suspended")
    return Turn(change(look, {"status": status}, subresource="status"))


def _mark(look: Look, status: dict[str, Any], type_: str, value: str, reason: str, message: str) -> None:
    new = {"type": type_, "status": value, "reason": reason, "message": message}
    status["conditions"] = with_condition(status.get("conditions") or (), new, look.now, lastProbeTime=look.timestamp())


def _run(look: Look, memory: _Memory) -> Turn:
    status = dict(look.status)
    if any(item.get("type") == "Suspended" for item in status.get("conditions") or ()):
        _mark(look, status, "Suspended", "False", "JobResumed", "Job resumed")
    status.setdefault("startTime", look.timestamp())
    memory, verdict = _collect(look, memory, status)
    verdict = verdict or _deadline(look, status) or _exhausted(look, status)
    before = memory
    memory = _start(look, memory, status) if verdict is None else _stop(look, memory, status, verdict)
    _count(look, memory, status)
    due = memory.gone_at if verdict is not None else _next(look, memory, status)
    told = tuple(_told(look, before, memory, verdict))
    return Turn((*change(look, {"status": status}, subresource="status"), *told), memory, due)


def _told(look: Look, before: _Memory, after: _Memory, verdict: _Verdict | None) -> Iterator[Effect]:
    """Events, and the pods that are there and cannot start."""
    if verdict is not None and verdict.type == "FailureTarget":
        yield _event(look, "Warning", verdict.reason, verdict.message)
    if after.refused and not after.pods:
        yield _event(look, "Warning", "FailedCreate", f"Error creating: {after.refused}")
    for pod in after.pods:
        if pod not in before.pods and pod.outcome.waiting:
            yield from _waiting_pod(look, pod)
        elif pod not in before.pods:
            yield _event(look, "Normal", "SuccessfulCreate", f"Created pod: {look.ref.name}-pod")
    if after.gone_at is not None:
        yield from (
            DeleteObject(ref, uid_of(pod)) for ref, pod in look.all_of(POD, look.ref.namespace) if _is_of(look, pod)
        )


def _is_of(look: Look, pod: Manifest) -> bool:
    return any(dig(owner, "uid") == look.uid for owner in metadata(pod).get("ownerReferences") or ())


def _event(look: Look, type_: str, reason: str, message: str) -> PostEvent:
    return PostEvent(look.ref, look.uid, type_, reason, message, look.timestamp())


def _waiting_pod(look: Look, pod: Attempt) -> Iterator[Effect]:
    """A pod whose container waits: the image is not there, a Secret is missing, the image would run as root."""
    name = f"{look.ref.name[:57]}-{look.uid[:5]}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": look.ref.name, "uid": look.uid, "controller": True}
    labels = {"batch.kubernetes.io/controller-uid": look.uid, "batch.kubernetes.io/job-name": look.ref.name[:63]}
    meta = {"name": name, "namespace": look.ref.namespace, "labels": labels, "ownerReferences": [owner]}
    yield CreateObject(
        POD, {**POD.manifest(name), "metadata": meta, "spec": dict(dig(look.spec, "template", "spec") or {})}
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
    told = {"status": {"phase": "Pending", "containerStatuses": [status]}}
    yield PatchObject(ObjectRef(POD, look.ref.namespace, name), "", told, "status")


def _collect(look: Look, memory: _Memory, status: dict[str, Any]) -> tuple[_Memory, _Verdict | None]:
    """Count the pods that have ended."""
    left, verdict, failures = [], None, 0
    for pod in memory.pods:
        if released(look, pod):
            pod = begin(look, memory.used, look.behaviour.job.pod_seconds)
            memory = _using(memory, pod)
        if pod.until is None or look.now < pod.until:
            left.append(pod)
        elif pod.outcome.ending is Ending.SUCCEED:
            status["succeeded"] = status.get("succeeded", 0) + 1
        else:
            failures += 1
            verdict = verdict or _failed_by_policy(look, pod)
    if failures:
        status["failed"] = status.get("failed", 0) + failures
        backoff = FailureBackoff(look.behaviour.job.backoff_seconds, look.behaviour.job.max_backoff_seconds)
        memory = attrs.evolve(memory, retry_at=look.at(backoff.delay(status["failed"])))
    return attrs.evolve(memory, pods=tuple(left)), verdict


def _using(memory: _Memory, pod: Attempt) -> _Memory:
    return attrs.evolve(memory, used=pod.used_up(memory.used))


def _failed_by_policy(look: Look, pod: Attempt) -> _Verdict | None:
    """`podFailurePolicy`: an exit code that ends the Job whatever its backoff limit is."""
    code = pod.outcome.exit_code
    for index, rule in enumerate(dig(look.spec, "podFailurePolicy", "rules") or ()):
        codes = rule.get("onExitCodes") or {}
        listed = code in (codes.get("values") or ())
        if rule.get("action") == "FailJob" and codes and listed == (codes.get("operator") == "In"):
            where = f"{look.ref.namespace}/{look.ref.name}"
            message = f"Container for pod {where} failed with exit code {code} matching FailJob rule at index {index}"
            return _Verdict("FailureTarget", "PodFailurePolicy", message)
    return None


def _deadline(look: Look, status: Mapping[str, Any]) -> _Verdict | None:
    end = _deadline_at(look, status)
    if end is None or look.now < end or _is_complete(look, status):
        return None
    return _Verdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")


def _deadline_at(look: Look, status: Mapping[str, Any]) -> datetime | None:
    seconds, started = look.spec.get("activeDeadlineSeconds"), moment_of(status.get("startTime"))
    return None if seconds is None or started is None else started + timedelta(seconds=seconds)


def _exhausted(look: Look, status: Mapping[str, Any]) -> _Verdict | None:
    if _is_complete(look, status):
        return _Verdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
    if status.get("failed", 0) > look.spec.get("backoffLimit", 6):
        return _Verdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    return None


def _completions(look: Look) -> int:
    return int(look.spec.get("completions") or look.spec.get("parallelism") or 1)


def _is_complete(look: Look, status: Mapping[str, Any]) -> bool:
    return int(status.get("succeeded", 0)) >= _completions(look)


def _start(look: Look, memory: _Memory, status: Mapping[str, Any]) -> _Memory:
    """As many pods as are missing, unless a failure was too recent."""
    if memory.retry_at is not None and look.now < memory.retry_at:
        return memory
    memory = attrs.evolve(memory, refused="", retry_at=None)
    for _ in range(_missing(look, memory, status)):
        pod = begin(look, memory.used, look.behaviour.job.pod_seconds)
        account = dig(look.spec, "template", "spec", "serviceAccountName")
        refused = account_refusal(look, account) or (
            pod.outcome.message if pod.outcome.ending is Ending.REFUSED else ""
        )
        if refused:
            retry_at = look.at(look.behaviour.job.backoff_seconds)
            return attrs.evolve(memory, refused=refused, retry_at=retry_at)
        memory = _using(attrs.evolve(memory, pods=(*memory.pods, pod)), pod)
    return memory


def _wakes(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
    """Jobs of a namespace, when a service account comes."""
    if ref.kind != SERVICE_ACCOUNT:
        return []
    return [other for other in world if other.kind == JOB and other.namespace == ref.namespace]


def _missing(look: Look, memory: _Memory, status: Mapping[str, Any]) -> int:
    left = _completions(look) - int(status.get("succeeded", 0))
    return min(int(look.spec.get("parallelism", 1)), left) - len(memory.pods)


def _stop(look: Look, memory: _Memory, status: dict[str, Any], verdict: _Verdict) -> _Memory:
    """Say how it ends and end what still runs; pods that are stopped count as failed."""
    if memory.pods:
        status["failed"] = status.get("failed", 0) + len(memory.pods)
    status["terminating"] = len(memory.pods)
    _mark(look, status, verdict.type, "True", verdict.reason, verdict.message)
    return attrs.evolve(memory, pods=(), gone_at=look.at(look.behaviour.job.terminating_seconds))


def _count(look: Look, memory: _Memory, status: dict[str, Any]) -> None:
    status.pop("active", None)
    if memory.pods:
        status["active"] = len(memory.pods)
    status["ready"] = sum(1 for pod in memory.pods if not pod.outcome.waiting and _ready_at(look, pod) <= look.now)
    status.setdefault("terminating", 0)
    status.setdefault("uncountedTerminatedPods", {})


def _ready_at(look: Look, pod: Attempt) -> datetime:
    return pod.began + timedelta(seconds=look.behaviour.job.ready_seconds)


def _next(look: Look, memory: _Memory, status: Mapping[str, Any]) -> datetime | None:
    ready: Sequence[datetime] = [_ready_at(look, pod) for pod in memory.pods]
    waits = memory.retry_at if _missing(look, memory, status) > 0 else None
    ends = (pod.until for pod in memory.pods)
    return earliest(*ends, *(moment for moment in ready if moment > look.now), waits, _deadline_at(look, status))


JOB_CONTROLLER: Final = Controller(
    "kube-controller-manager", (JOB,), _look, watches=(SERVICE_ACCOUNT, POD), wakes=_wakes
)
"""Its name is the field manager of what it writes."""
