"""The Job controller: pods that run, fail and are replaced, and the conditions that tell of them (facts 7.3).

Pods are not objects here, only counts in the status and the controller's memory of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.known import JOB
from vworkspace_core.manifest import Manifest, dig
from vworkspace_core.ports import Propagation
from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import Ending, Rule
from vworkspace_fake.downstream.turns import (
    NOTHING,
    Controller,
    Delete,
    Look,
    Turn,
    change,
    earliest,
    moment_of,
    with_condition,
)

__all__ = ["JOB_CONTROLLER"]

_OURS: Final = "kubernetes.io/job-controller"
_FINAL: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@attrs.frozen
class _Memory:
    """The pods of one Job. `retry_at` is when a failed one may be replaced, `gone_at` when the last ones have ended."""

    pods: tuple[Attempt, ...] = ()
    used: tuple[Rule, ...] = ()
    retry_at: datetime | None = None
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
    return Turn((Delete(look.ref, look.uid, Propagation.FOREGROUND),))


def _finish(look: Look, memory: _Memory, interim: Mapping[str, Any]) -> Turn:
    """The final condition repeats the interim one once no pod is left."""
    if memory.gone_at is not None and look.now < memory.gone_at:
        return Turn(memory=memory, due=memory.gone_at)
    status = {**look.status, "terminating": 0, "ready": 0}
    final = _FINAL[interim["type"]]
    _mark(look, status, final, "True", interim["reason"], interim["message"])
    if final == "Complete":
        status["completionTime"] = look.timestamp()
    return Turn(change(look, {"status": status}, subresource="status"))


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
    memory = _start(look, memory, status) if verdict is None else _stop(look, memory, status, verdict)
    _count(look, memory, status)
    due = memory.gone_at if verdict is not None else _next(look, memory, status)
    return Turn(change(look, {"status": status}, subresource="status"), memory, due)


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
        wait = look.behaviour.job.backoff_seconds * 2 ** min(status["failed"] - 1, 16)
        memory = attrs.evolve(memory, retry_at=look.at(min(wait, look.behaviour.job.max_backoff_seconds)))
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
    missing = _missing(look, memory, status)
    for _ in range(missing):
        pod = begin(look, memory.used, look.behaviour.job.pod_seconds)
        memory = _using(attrs.evolve(memory, pods=(*memory.pods, pod)), pod)
    return memory


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
    status["ready"] = sum(1 for pod in memory.pods if _ready_at(look, pod) <= look.now)
    status.setdefault("terminating", 0)
    status.setdefault("uncountedTerminatedPods", {})


def _ready_at(look: Look, pod: Attempt) -> datetime:
    return pod.began + timedelta(seconds=look.behaviour.job.ready_seconds)


def _next(look: Look, memory: _Memory, status: Mapping[str, Any]) -> datetime | None:
    ready: Sequence[datetime] = [_ready_at(look, pod) for pod in memory.pods]
    waits = memory.retry_at if _missing(look, memory, status) > 0 else None
    ends = (pod.until for pod in memory.pods)
    return earliest(*ends, *(moment for moment in ready if moment > look.now), waits, _deadline_at(look, status))


JOB_CONTROLLER: Final = Controller("kube-controller-manager", (JOB,), _look)
"""Its name is the field manager of what it writes."""
