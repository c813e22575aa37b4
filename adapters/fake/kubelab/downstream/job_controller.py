"""The Job controller: pods that run, fail and are replaced, and the conditions that report them (batch/v1 types).

The model is kube-controller-manager 1.36.3, whose files below `pkg/controller` comments name; functions without a file
are in `job/job_controller.go`. Pods are counts in the status and the controller's memory. Only pods that cannot start
are stored as objects, because only their own status has the reason, which the operator reads there. A pod that ended is
first listed in `uncountedTerminatedPods` and counted by the next write, as recorded from the real controller.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from kubelab.downstream.behaviour import DownstreamRule, Ending
from kubelab.downstream.controller import (
    NOTHING,
    DownstreamController,
    ObjectView,
    PassResult,
    account_refusal,
    begin,
    change,
    earliest,
    released,
    waiting_for,
    with_condition,
)
from kubelab.downstream.simulated_pods import JobPod, created, deleted, job_event, pod_name, write_waiting_reason
from kubelab.simulation.effects import PassStep, SimulatedDelete
from kubelab.simulation.queue import FailureBackoff
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.resources import JOB, POD, SERVICE_ACCOUNT
from purekube.apimachinery.timestamps import time_or_none
from purekube.ports import Propagation

_OURS: Final = "kubernetes.io/job-controller"
_FINAL: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@attrs.frozen
class _Memory:
    """The controller's memory of one Job: its pods, and the number of pods begun so far.

    A failed pod may be replaced at `retry_at`; `failures` are those since the last success. The last pods have ended at
    `gone_at`.
    """

    pods: tuple[JobPod, ...] = ()
    begun: int = 0
    used: tuple[DownstreamRule, ...] = ()
    retry_at: datetime | None = None
    failures: int = 0
    refused: str = ""
    gone_at: datetime | None = None


@attrs.frozen
class _Verdict:
    """The decision that a Job ends: the condition SuccessCriteriaMet or FailureTarget, which announces the end."""

    type: str
    reason: str
    message: str


def _reconcile(view: ObjectView) -> PassStep[PassResult]:
    # KEP-4368: a Job with another managedBy, as of Kueue, is left to that controller (managedByExternalController).
    if view.live is None or view.deleting or view.spec.get("managedBy") not in (None, _OURS):
        return NOTHING
    memory = view.memory or _Memory()
    if (end := _condition(view.live, "Complete", "Failed")) is not None:
        return (yield from _finished(view, end))
    if (interim := _condition(view.live, *_FINAL)) is not None:
        return (yield from _finish(view, memory, interim))
    if view.spec.get("suspend"):
        return (yield from _suspend(view, memory))
    return (yield from _run(view, memory))


def _condition(job: Manifest, *types: str) -> Mapping[str, Any] | None:
    """Return the first condition of `job` that is True and has one of the types `types`, or None if there is none."""
    for item in get_path(job, "status", "conditions") or ():
        if item.get("type") in types and item.get("status") == "True":
            return dict(item)
    return None


def _finished(view: ObjectView, end: Mapping[str, Any]) -> PassStep[PassResult]:
    """Delete a finished Job if its TTL has passed. `end` is the Job's final condition."""
    ttl, since = view.spec.get("ttlSecondsAfterFinished"), time_or_none(end.get("lastTransitionTime"))
    if ttl is None or since is None:
        return NOTHING
    due = since + timedelta(seconds=ttl)
    if view.now < due:
        return PassResult(requeue_at=due, interval=True)
    # The TTL controller deletes in the foreground, so the pods go before their Job
    # (ttlafterfinished/ttlafterfinished_controller.go, processJob).
    yield SimulatedDelete(view.ref, view.uid, Propagation.FOREGROUND)
    return NOTHING


def _finish(view: ObjectView, memory: _Memory, interim: Mapping[str, Any]) -> PassStep[PassResult]:
    """Write the final condition of a Job once no pod is left, with the reason and message of the condition `interim`.

    If pods were stopped, an earlier write counts them as failed.
    """
    if memory.gone_at is not None and view.now < memory.gone_at:
        return PassResult(memory=memory, requeue_at=memory.gone_at)
    status = {**view.status, "ready": 0, "terminating": 0}
    # FailureTarget and SuccessCriteriaMet are interim: the final condition waits until no pod is terminating or
    # uncounted (enactJobFinished, delayTerminalCondition).
    if stopped := view.status.get("terminating", 0):
        status["failed"] = status.get("failed", 0) + stopped
        view = yield from _written(view, status)
    _count_ended(status)
    final = _FINAL[interim["type"]]
    _mark(view, status, final, "True", interim["reason"], interim["message"])
    if final == "Complete":
        # Only a success has a completionTime (enactJobFinished).
        status["completionTime"] = view.timestamp()
    yield from change(view, {"status": status}, subresource="status")
    if final == "Complete":
        yield job_event(view, "Normal", "Completed", "Job completed")
    return NOTHING


def _suspend(view: ObjectView, memory: _Memory) -> PassStep[PassResult]:
    """Remove the pods of a suspended Job, and its `startTime`, from which `activeDeadlineSeconds` counts."""
    # The pods of a suspended Job are deleted, not paused. They are not counted, as deleteJobPods removes their
    # finalizers first.
    status = {**view.status, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    # As kube-controller-manager 1.36, with its gate MutableSchedulingDirectivesForSuspendedJobs: 1.34 keeps the start
    # time of a Job that is suspended again (docs/flux.md, "With helm-controller 1.4").
    status.pop("startTime", None)
    status.pop("active", None)
    known = _condition(view.live or {}, "Suspended")
    _mark(view, status, "Suspended", "True", "JobSuspended", "Job suspended")
    yield from deleted(view, memory.pods)
    yield from change(view, {"status": status}, subresource="status")
    if known is None:
        yield job_event(view, "Normal", "Suspended", "Job suspended")
    return NOTHING


def _mark(view: ObjectView, status: dict[str, Any], type_: str, value: str, reason: str, message: str) -> None:
    new = {"type": type_, "status": value, "reason": reason, "message": message}
    status["conditions"] = with_condition(status.get("conditions") or (), new, view.now, lastProbeTime=view.timestamp())


def _run(view: ObjectView, memory: _Memory) -> PassStep[PassResult]:
    status = dict(view.status)
    yield from _resume(view, status)
    status.setdefault("startTime", view.timestamp())
    memory, verdict = _collect(view, memory, status)
    # syncJob judges in this order, and at failures before successes: a Job may meet several criteria in one pass.
    verdict = verdict or _exhausted(view, status) or _deadline(view, status) or _completed(view, memory, status)
    before = memory
    memory = _start(view, memory, status) if verdict is None else _stop(view, memory, status, verdict)
    fresh = [pod for pod in memory.pods if pod not in before.pods]
    for pod in fresh:
        yield from created(view, pod)
    yield from _write(view, memory, status, verdict)
    for pod in fresh:
        yield from write_waiting_reason(view, pod)
    if memory.refused and not memory.pods:
        yield job_event(view, "Warning", "FailedCreate", f"Error creating: {memory.refused}")
    if verdict is not None:
        yield from deleted(view, before.pods)
    due = memory.gone_at if verdict is not None else _next(view, memory, status)
    return PassResult(memory=memory, requeue_at=due)


def _resume(view: ObjectView, status: dict[str, Any]) -> PassStep[None]:
    """Report that a suspended Job resumed: post an Event, and set the condition Suspended to False in `status`.

    `status` is modified in place. Nothing happens if the Job was not suspended.
    """
    if any(item.get("type") == "Suspended" for item in status.get("conditions") or ()):
        _mark(view, status, "Suspended", "False", "JobResumed", "Job resumed")
    if _condition(view.live or {}, "Suspended") is not None:
        yield job_event(view, "Normal", "Resumed", "Job resumed")


def _write(view: ObjectView, memory: _Memory, status: dict[str, Any], verdict: _Verdict | None) -> PassStep[None]:
    """Write the Job's status. The field `uncountedTerminatedPods` lists the pods that have ended.

    A second write moves these pods to the counts `succeeded` and `failed`. If `verdict` says that the Job ends, there
    is no second write here: the later write of the final condition moves them.
    """
    _count(view, memory, status)
    view = yield from _written(view, status)
    # Two writes, so that a restart in between counts no pod twice: first the uids, then, without finalizers, the counts
    # (flushUncountedAndRemoveFinalizers; KEP-2307).
    if verdict is None and any(status["uncountedTerminatedPods"].values()):
        _count_ended(status)
        yield from change(view, {"status": status}, subresource="status")
    if verdict is not None and verdict.type == "FailureTarget":
        yield job_event(view, "Warning", verdict.reason, verdict.message)


def _written(view: ObjectView, status: Mapping[str, Any]) -> PassStep[ObjectView]:
    """Write the status, and return a view of the object with that status."""
    yield from change(view, {"status": status}, subresource="status")
    return attrs.evolve(view, live={**(view.live or {}), "status": dict(status)})


def _collect(view: ObjectView, memory: _Memory, status: dict[str, Any]) -> tuple[_Memory, _Verdict | None]:
    """Return two values: `memory` without the pods that have ended, and the decision of the Job's `podFailurePolicy`.

    The decision is None if the policy does not end the Job. `status` is modified in place: the ended pods are added.
    """
    left: list[JobPod] = []
    ended: list[tuple[datetime, JobPod]] = []
    for pod in memory.pods:
        if released(view, pod.attempt):
            pod = attrs.evolve(pod, attempt=begin(view, memory.used, view.behaviour.job.pod_seconds))
            memory = attrs.evolve(memory, used=pod.attempt.used)
        until = pod.attempt.until
        if until is None or view.now < until:
            left.append(pod)
        else:
            ended.append((until, pod))
    verdict = None
    for until, pod in sorted(ended, key=lambda item: item[0]):
        if pod.attempt.outcome.ending is Ending.SUCCEED:
            _list_ended(status, "succeeded", pod)
            memory = attrs.evolve(memory, failures=0, retry_at=None)
            continue
        action, message = _policy_action(view, pod)
        # An ignored failure is not counted against the limit, but the next pod waits for it too.
        memory = _after_failure(view, memory, until)
        if action != "Ignore":
            _list_ended(status, "failed", pod)
        if action == "FailJob":
            verdict = verdict or _Verdict("FailureTarget", "PodFailurePolicy", message)
    return attrs.evolve(memory, pods=tuple(left)), verdict


def _after_failure(view: ObjectView, memory: _Memory, ended: datetime) -> _Memory:
    """Return `memory` with the time of the next pod, after one has failed at `ended`.

    The delay doubles with each failure in a row, and begins again after a success (job/backoff_utils.go).
    """
    backoff = FailureBackoff(view.behaviour.job.backoff_seconds, view.behaviour.job.max_backoff_seconds)
    failures = memory.failures + 1
    return attrs.evolve(memory, failures=failures, retry_at=ended + timedelta(seconds=backoff.delay(failures)))


def _list_ended(status: dict[str, Any], end: str, pod: JobPod) -> None:
    listed = status.get("uncountedTerminatedPods") or {}
    status["uncountedTerminatedPods"] = {**listed, end: [*listed.get(end, ()), pod.uid]}


def _number(status: Mapping[str, Any], end: str) -> int:
    """Return the number of pods that ended as `end` says (`succeeded` or `failed`), whether counted or uncounted."""
    listed = get_path(status, "uncountedTerminatedPods", end) or ()
    return int(status.get(end, 0)) + len(listed)


def _count_ended(status: dict[str, Any]) -> None:
    for end in ("succeeded", "failed"):
        if number := _number(status, end):
            status[end] = number
    status["uncountedTerminatedPods"] = {}


def _policy_action(view: ObjectView, pod: JobPod) -> tuple[str, str]:
    """Return the action of the Job's `podFailurePolicy` for `pod`, which failed, and a message about it.

    The first rule that matches decides (job/pod_failure_policy.go, matchPodFailurePolicy). Without such a rule the
    action is `Count`. Rules for conditions of pods never match, because no pod is disrupted here.
    """
    code, container = pod.attempt.outcome.exit_code, get_path(view.spec, "template", "spec", "containers", 0, "name")
    for index, rule in enumerate(get_path(view.spec, "podFailurePolicy", "rules") or ()):
        codes = rule.get("onExitCodes") or {}
        listed = code in (codes.get("values") or ())
        if codes.get("containerName") in (None, container) and codes and listed == (codes.get("operator") == "In"):
            failed = f"Container {container} for pod {view.ref.namespace}/{pod.name} failed with exit code {code}"
            return str(rule["action"]), f"{failed} matching {rule['action']} rule at index {index}"
    return "Count", ""


def _deadline(view: ObjectView, status: Mapping[str, Any]) -> _Verdict | None:
    # It counts even if the last pod succeeds at the same moment: syncJob looks for failures before successes.
    end = _deadline_at(view, status)
    if end is None or view.now < end:
        return None
    return _Verdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")


def _deadline_at(view: ObjectView, status: Mapping[str, Any]) -> datetime | None:
    seconds, started = view.spec.get("activeDeadlineSeconds"), time_or_none(status.get("startTime"))
    return None if seconds is None or started is None else started + timedelta(seconds=seconds)


def _exhausted(view: ObjectView, status: Mapping[str, Any]) -> _Verdict | None:
    # 6 is the API's default; the limit counts retries, so one failure more ends the Job.
    if _number(status, "failed") > view.spec.get("backoffLimit", 6):
        return _Verdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    return None


def _completed(view: ObjectView, memory: _Memory, status: Mapping[str, Any]) -> _Verdict | None:
    succeeded, completions = _number(status, "succeeded"), view.spec.get("completions")
    # Without `completions` one success is enough, but pods that run may end as they like (syncJob).
    if memory.pods or succeeded < (1 if completions is None else completions):
        return None
    return _Verdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


def _start(view: ObjectView, memory: _Memory, status: Mapping[str, Any]) -> _Memory:
    """Return `memory` with as many new pods as the Job lacks. During the backoff after a failure no pods are added."""
    if memory.retry_at is not None and view.now < memory.retry_at:
        return memory
    memory = attrs.evolve(memory, refused="", retry_at=None)
    for _ in range(_missing(view, memory, status)):
        attempt = begin(view, memory.used, view.behaviour.job.pod_seconds)
        account = get_path(view.spec, "template", "spec", "serviceAccountName")
        refused = account_refusal(view, account, f"{view.ref.name}-") or (
            attempt.outcome.message if attempt.outcome.ending is Ending.REFUSED else ""
        )
        if refused:
            retry_at = view.at(view.behaviour.job.backoff_seconds)
            return attrs.evolve(memory, refused=refused, retry_at=retry_at)
        pod = JobPod(pod_name(view, memory.begun), attempt)
        memory = attrs.evolve(memory, pods=(*memory.pods, pod), begun=memory.begun + 1, used=attempt.used)
    return memory


def _missing(view: ObjectView, memory: _Memory, status: Mapping[str, Any]) -> int:
    succeeded, completions = _number(status, "succeeded"), view.spec.get("completions")
    wanted = int(view.spec.get("parallelism", 1))
    if completions is None:
        return 0 if succeeded else wanted - len(memory.pods)
    return min(wanted, int(completions) - succeeded) - len(memory.pods)


def _stop(view: ObjectView, memory: _Memory, status: dict[str, Any], verdict: _Verdict) -> _Memory:
    """Stop all running pods of a Job that ends. Return `memory` without them.

    `status` is modified in place: it gets the condition in `verdict` and the number of stopped pods.
    """
    # KEP-3939: stopped pods are terminating, no longer active, until they have ended; later they count as failed.
    status["terminating"] = len(memory.pods)
    _mark(view, status, verdict.type, "True", verdict.reason, verdict.message)
    return attrs.evolve(memory, pods=(), gone_at=view.at(view.behaviour.job.terminating_seconds))


def _count(view: ObjectView, memory: _Memory, status: dict[str, Any]) -> None:
    status.pop("active", None)
    if memory.pods:
        status["active"] = len(memory.pods)
    # KEP-2879: `ready` counts Running pods that are Ready; a pod that cannot start is active all the same.
    ready = (pod for pod in memory.pods if not pod.attempt.outcome.waiting and _ready_at(view, pod) <= view.now)
    status["ready"] = sum(1 for _ in ready)
    # Both are always written, even if empty or zero, while `active` is omitted at zero (recorded: job_succeeds.json).
    status.setdefault("terminating", 0)
    status.setdefault("uncountedTerminatedPods", {})


def _ready_at(view: ObjectView, pod: JobPod) -> datetime:
    return pod.attempt.began + timedelta(seconds=view.behaviour.job.ready_seconds)


def _next(view: ObjectView, memory: _Memory, status: Mapping[str, Any]) -> datetime | None:
    ready: Sequence[datetime] = [_ready_at(view, pod) for pod in memory.pods]
    waits = memory.retry_at if _missing(view, memory, status) > 0 else None
    ends = (pod.attempt.until for pod in memory.pods)
    return earliest(*ends, *(moment for moment in ready if moment > view.now), waits, _deadline_at(view, status))


JOB_CONTROLLER: Final = DownstreamController(
    "kube-controller-manager",
    (JOB,),
    _reconcile,
    watches=(SERVICE_ACCOUNT, POD),
    # The pods of a Job may wait for their account.
    wakes=waiting_for((SERVICE_ACCOUNT,), (JOB,)),
)
"""The Job controller; its name is the field manager of its writes."""
