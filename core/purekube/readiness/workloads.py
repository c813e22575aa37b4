"""The readiness of workloads: Deployment, StatefulSet, DaemonSet, ReplicaSet, Pod, Job and CronJob."""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.result import Conditions, Readiness, count, failed, mapping, progressing, ready, text


def _has_observed_generation(manifest: Manifest) -> bool:
    return "observedGeneration" in mapping(manifest, "status")


def _unseen() -> Readiness:
    return progressing("GenerationNotObserved", "its controller has not observed it yet")


def _of(have: int, want: int, what: str) -> str:
    return f"{have} of {want} pods are {what}"


def deployment(manifest: Manifest) -> Readiness:
    """Return the readiness of a Deployment.

    It is ready if all desired pods have the newest template and are available, and no other pods exist.
    """
    status, want = mapping(manifest, "status"), count(mapping(manifest, "spec"), "replicas", 1)
    conditions = Conditions.of(manifest)
    # Not final: the controller goes on, and takes the condition back once a pod gets ready after all (kubernetes:
    # pkg/controller/deployment/progress.go, syncRolloutStatus).
    if conditions.reason("Progressing") == "ProgressDeadlineExceeded" and conditions.status("Progressing") == "False":
        return failed("ProgressDeadlineExceeded", conditions.message_or_reason("Progressing", "it makes no progress"))
    if conditions.holds("ReplicaFailure"):
        return conditions.progressing("ReplicaFailure", "pods cannot be made")
    if not _has_observed_generation(manifest):
        return _unseen()
    updated, total = count(status, "updatedReplicas"), count(status, "replicas")
    if updated < want:
        return progressing("Updating", _of(updated, want, "of the newest template"))
    # Pods of the former ReplicaSet still serve until they end, so the rollout is not over when the new ones are ready.
    if total > updated:
        return progressing("Terminating", f"{total - updated} pods of before are left")
    return _available(status, want)


def _available(status: Mapping[str, Any], want: int) -> Readiness:
    for key, word in (("readyReplicas", "ready"), ("availableReplicas", "available")):
        have = count(status, key)
        if have < want:
            return progressing("PodsNotReady", _of(have, want, word))
    return ready("Available", f"{want} pods are available")


def replica_set(manifest: Manifest) -> Readiness:
    """Return the readiness of a ReplicaSet. It is ready if it has the desired number of pods, all available."""
    status, want = mapping(manifest, "status"), count(mapping(manifest, "spec"), "replicas", 1)
    conditions = Conditions.of(manifest)
    if conditions.holds("ReplicaFailure"):
        return conditions.progressing("ReplicaFailure", "pods cannot be made")
    if not _has_observed_generation(manifest):
        return _unseen()
    total = count(status, "replicas")
    if total > want:
        return progressing("Terminating", f"{total - want} pods are too many")
    return _available(status, want)


def stateful_set(manifest: Manifest) -> Readiness:
    """Return the readiness of a StatefulSet. It is ready if it has the desired number of pods, all ready.

    With rolling updates, the pods above the partition must also have the newest revision.
    """
    spec, status = mapping(manifest, "spec"), mapping(manifest, "status")
    want = count(spec, "replicas", 1)
    if not _has_observed_generation(manifest):
        return _unseen()
    have = count(status, "readyReplicas")
    if have < want:
        return progressing("PodsNotReady", _of(have, want, "ready"))
    total = count(status, "replicas")
    if total > want:
        return progressing("Terminating", f"{total - want} pods are too many")
    return _updated(spec, status, want)


def _updated(spec: Mapping[str, Any], status: Mapping[str, Any], want: int) -> Readiness:
    strategy = mapping(spec, "updateStrategy")
    # Pods of the former revision stay until a user deletes them: waiting for them would never end.
    if text(strategy, "type") == "OnDelete":
        return ready("Available", f"{want} pods are ready")
    partition = count(mapping(strategy, "rollingUpdate"), "partition")
    updated, newest = count(status, "updatedReplicas"), text(status, "updateRevision")
    expected = max(0, want - partition)
    # After a rollout the controller may leave updatedReplicas at zero, but then both revisions are equal (kubernetes:
    # pkg/controller/statefulset/stateful_set_utils.go, completeRollingUpdate).
    if newest != text(status, "currentRevision") and updated < expected:
        return progressing("Updating", _of(updated, expected, "of the newest revision"))
    return ready("Available", f"{want} pods are ready")


def daemon_set(manifest: Manifest) -> Readiness:
    """Return the readiness of a DaemonSet.

    It is ready if each node that needs a pod has an available pod of the newest template.
    """
    status = mapping(manifest, "status")
    if not _has_observed_generation(manifest):
        return _unseen()
    want = count(status, "desiredNumberScheduled")
    on_delete = text(mapping(manifest, "spec", "updateStrategy"), "type") == "OnDelete"
    desired = [("currentNumberScheduled", "scheduled"), ("numberReady", "ready"), ("numberAvailable", "available")]
    if not on_delete:
        desired.insert(1, ("updatedNumberScheduled", "of the newest template"))
    for key, word in desired:
        have = count(status, key)
        if have < want:
            return progressing("PodsNotReady", _of(have, want, word))
    return ready("Available", f"{want} pods are available")


def pod(manifest: Manifest) -> Readiness:
    """Return the readiness of a Pod. It is ready if its condition Ready is True, or if it succeeded."""
    status = mapping(manifest, "status")
    conditions = Conditions.of(manifest)
    match text(status, "phase"):
        case "Succeeded":
            return ready("PodCompleted", "it has ended well")
        case "Failed":
            return failed(
                text(status, "reason") or "PodFailed", text(status, "message") or "its containers have failed"
            )
        case _ if conditions.holds("Ready"):
            return ready("PodReady")
        case _:
            return progressing(*_of_containers(status, conditions))


def _of_containers(status: Mapping[str, Any], conditions: Conditions) -> tuple[str, str]:
    """Return reason and message why a pod is not ready, from a container's waiting state such as `CrashLoopBackOff`."""
    for key in ("initContainerStatuses", "containerStatuses"):
        listed = status.get(key)
        for container in listed if isinstance(listed, list) else ():
            waiting = mapping(container, "state", "waiting")
            if text(waiting, "reason") not in ("", "ContainerCreating", "PodInitializing"):
                name = text(mapping(container), "name")
                return text(
                    waiting, "reason"
                ), f"container {name}: {text(waiting, 'message') or text(waiting, 'reason')}"
    if conditions.status("PodScheduled") == "False":
        return conditions.reason("PodScheduled") or "Unscheduled", conditions.message_or_reason(
            "PodScheduled", "no node takes it"
        )
    return "PodNotReady", conditions.message_or_reason("Ready", "its containers are not ready")


def job(manifest: Manifest) -> Readiness:
    """Return the readiness of a Job by its conditions Complete and Failed, which are the only final conditions.
    `FailureTarget` and `SuccessCriteriaMet` precede these and are ignored.
    """
    conditions, status = Conditions.of(manifest), mapping(manifest, "status")
    # kstatus calls a Job that has merely started Current; here it counts once it has ended (fluxcd/cli-utils:
    # pkg/kstatus/status/core.go, jobConditions).
    if conditions.holds("Failed"):
        return conditions.failed("Failed", "the Job has failed", "JobFailed")
    if conditions.holds("Complete"):
        return ready("JobCompleted", "the Job has ended well")
    if conditions.holds("Suspended"):
        return progressing("JobSuspended", "the Job is suspended")
    want = count(mapping(manifest, "spec"), "completions", 1)
    active, done = count(status, "active"), count(status, "succeeded")
    if not active and not done:
        return progressing("JobPending", "no pod of the Job is active yet")
    return progressing("JobRunning", f"{done} of {want} completions, {active} pods are active")


def cron_job(manifest: Manifest) -> Readiness:
    """Return the readiness of a CronJob. It is ready once it exists; the readiness of its Jobs is separate."""
    suspended = mapping(manifest, "spec").get("suspend") is True
    return ready("Suspended" if suspended else "Scheduled")
