"""The reasons why a Job's pods do not run, found in Events and pods, since the Job's own status lacks them (OPS-8).

If the API server refuses a pod (missing service account, quota, Pod Security, admission webhook), an Event about the
Job says so. A pod that exists and does not start shows the reason in its status. Both are read while no pod is ready.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube.apimachinery.resources import CORE_EVENT, POD, Access
from purekube.controller.ownership import owner_uids
from vworkspace_core.api.operation import LogsRef, Operation
from vworkspace_core.api.remedies import account_remedy
from vworkspace_core.operations.contract import OBJECT_UID, EngineObject, EngineStatus, Listing, Objects, Progress, Row
from vworkspace_core.operations.settings import RUNNER, OperationSettings

_RUNNING, _FAILED = Progress.RUNNING, Progress.FAILED


def _event(text: str) -> tuple[EngineObject, ...]:
    """Return a sample of the Event by which the Job controller reports that a pod could not be created.

    The sample has `text` as its message.
    """
    body: dict[str, Any] = {"involvedObject": {"uid": OBJECT_UID}, "reason": "FailedCreate", "message": text}
    return (EngineObject(CORE_EVENT, CORE_EVENT.manifest("run.1", "org-myteam", **body)),)


def _refused(reason: str, meaning: str, text: str) -> Row:
    return Row(f"Event FailedCreate: {text}", _RUNNING, reason, meaning, {"status": {}}, _event(f"pods is {text}"))


def _pod(**status: Any) -> tuple[EngineObject, ...]:
    owned = {"ownerReferences": [{"uid": OBJECT_UID}]}
    return (EngineObject(POD, POD.manifest("run-1", "org-myteam", owned, status=status)),)


def _waits(reason: str, meaning: str, why: str) -> Row:
    beside = _pod(containerStatuses=[{"state": {"waiting": {"reason": why}}}])
    return Row(f"pod waits: {why}", _RUNNING, reason, meaning, {"status": {"active": 1}}, beside)


_ACCOUNT: Final = _refused(
    "JobServiceAccountMissing",
    "the pods' service account does not exist",
    "forbidden: error looking up service account",
)
_QUOTA: Final = _refused("JobQuotaExceeded", "a quota of the namespace leaves no room", "forbidden: exceeded quota")
_SECURITY: Final = _refused("JobPodSecurityDenied", "Pod Security refuses the pod", "forbidden: violates PodSecurity")
_ADMISSION: Final = _refused("JobAdmissionDenied", "an admission webhook refuses the pod", "denied: admission webhook")
_REFUSED: Final = _refused("JobPodNotCreated", "the API server refuses the pod", "anything else")
_IMAGE: Final = _waits("JobImagePullFailed", "the image cannot be pulled", "ImagePullBackOff")
_CONTAINER: Final = _waits("JobContainerNotStarted", "the container cannot be started", "CreateContainerConfigError")
_PLACE: Final = Row(
    "pod: PodScheduled=False",
    _RUNNING,
    "JobPodUnschedulable",
    "no node can take the pod",
    {"status": {"active": 1}},
    _pod(conditions=[{"type": "PodScheduled", "status": "False"}]),
)

TROUBLES: Final = (_ACCOUNT, _QUOTA, _SECURITY, _ADMISSION, _REFUSED, _IMAGE, _CONTAINER, _PLACE)
"""The obstacles that can keep a Job's pods from running, as rows of the engine's table."""

# The Event of a controller whose pod was refused (pkg/controller/controller_utils.go, FailedCreatePodReason).
_CREATION: Final = "FailedCreate"
# The Event repeats the text of the admission plugin that refused the pod (plugin/pkg/admission: serviceaccount,
# resourcequota, security/podsecurity); no field has the cause.
_BY_TEXT: Final = (
    (re.compile(r"looking up service account|serviceaccounts? \"[^\"]*\" not found"), _ACCOUNT),
    (re.compile(r"exceeded quota|failed quota"), _QUOTA),
    (re.compile(r"violates PodSecurity"), _SECURITY),
    (re.compile(r"admission webhook"), _ADMISSION),
)
# Reasons of the kubelet (pkg/kubelet/images/types.go); a container that waits otherwise is merely starting.
_PULLING: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
# pkg/kubelet/kuberuntime/kuberuntime_container.go and pkg/kubelet/container/sync_result.go.
_STARTING: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_ENDS: Final = {
    # pkg/controller/job/job_controller.go: a failed Job's Event has the reason of its condition Failed.
    "Completed": (Progress.SUCCEEDED, "JobComplete"),
    **{reason: (_FAILED, reason) for reason in ("BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy")},
}
_MOST: Final = 50

EVENTS_ACCESS: Final = Access(CORE_EVENT, ("list",))
PODS_ACCESS: Final = (EVENTS_ACCESS, Access(POD, ("list",)))
"""The rights in managed namespaces to list Events and pods, which show why a Job's pods do not start (OPS-8)."""


def listings(namespace: str, uid: str, *, pods: bool = True) -> tuple[Listing, ...]:
    """Return the requests to list the Events in `namespace` about the Job with `uid` and, with `pods`, its pods."""
    events = Listing(CORE_EVENT, namespace, field_selector=f"involvedObject.uid={uid}", limit=_MOST)
    if not pods:
        return (events,)
    # The Job controller labels its pods so since Kubernetes 1.27 (batch/v1: ControllerUidLabel).
    return (events, Listing(POD, namespace, label_selector=f"batch.kubernetes.io/controller-uid={uid}", limit=_MOST))


def remedy_of_pods(operation: Operation, status: EngineStatus, settings: OperationSettings) -> str:
    """Return the remedy to show if `status`, the engine's report, says that the service account of the pods is missing.

    The remedy is a sentence with the command that creates the account `RUNNER`. Return an empty text for any other
    obstacle.
    """
    if status.reason != _ACCOUNT.reason:
        return ""
    help_ = account_remedy(operation.metadata.namespace, RUNNER, settings.installation)
    return f"If it is {RUNNER}, to fix: {help_}"


def trouble_of(live: Manifest, objects: Objects) -> tuple[Row, str] | None:
    """Return the obstacle that keeps the pods of the Job `live` from running, or None if no obstacle is known.

    The obstacle is given by its row in the table `TROUBLES`, and a message. `objects` are the observed objects, among
    them the Job's pods and the Events about the Job.
    """
    trouble = next(_pod_troubles(live, objects), None)
    if trouble is not None or get_path(live, "status", "active"):
        return trouble
    events = [event for event in events_of(str(metadata(live).get("uid", "")), objects) if _reason(event) == _CREATION]
    if not events:
        return None
    text = str(max(events, key=time_of_event).get("message") or "")
    return next((row for pattern, row in _BY_TEXT if pattern.search(text)), _REFUSED), text


def _pod_troubles(live: Manifest, objects: Objects) -> Iterator[tuple[Row, str]]:
    uid = str(metadata(live).get("uid"))
    for ref in sorted(ref for ref in objects if ref.kind == POD):
        status = objects[ref].get("status")
        if uid in owner_uids(objects[ref]):
            yield from _of_pod(ref.name, status if isinstance(status, Mapping) else {})


def _of_pod(name: str, status: Mapping[str, Any]) -> Iterator[tuple[Row, str]]:
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            waiting = get_path(container, "state", "waiting")
            reason = str(get_path(waiting, "reason") or "")
            row = _IMAGE if reason in _PULLING else _CONTAINER if reason in _STARTING else None
            if row is not None:
                yield row, f"pod {name}: {reason}: {get_path(waiting, 'message') or row.meaning}"
    for condition in status.get("conditions") or ():
        if (get_path(condition, "type"), get_path(condition, "status")) == ("PodScheduled", "False"):
            yield _PLACE, f"pod {name}: {get_path(condition, 'message') or _PLACE.meaning}"


def events_of(uid: str, objects: Objects) -> list[Manifest]:
    """Return the Events in `objects` about the object with `uid`; none for an empty uid."""
    events = (live for ref, live in objects.items() if ref.kind == CORE_EVENT)
    return [event for event in events if uid and get_path(event, "involvedObject", "uid") == uid]


def _reason(event: Manifest) -> str:
    return str(event.get("reason") or "")


def time_of_event(event: Manifest) -> tuple[str, str]:
    """Return the key by which Events are sorted: the time of the last occurrence, then the name."""
    # An Event of events.k8s.io/v1 has eventTime and series, one of client-go's older recorder lastTimestamp; an absent
    # time comes as null.
    times = (get_path(event, "series", "lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((time for time in times if time), "")), str(metadata(event).get("name", ""))


def end_from_events(
    operation: Operation, objects: Objects, ends: Mapping[str, tuple[Progress, str]] = _ENDS
) -> EngineStatus | None:
    """Return the final status of a run whose object (such as a Job) was removed before its end was seen.

    It follows from the last Event in `objects` that reports the end of that object. Return None if there is no such
    Event. `ends` maps the reason of an Event that reports an end to the run's result and its reason; the default is for
    Jobs.
    """
    known = operation.status.engine_ref
    ended = [event for event in events_of(known.uid, objects) if _reason(event) in ends] if known is not None else []
    if known is None or not ended:
        return None
    last = max(ended, key=time_of_event)
    progress, reason = ends[_reason(last)]
    message = (
        f"{known.kind} {known.name} was removed before its end was seen; its Event says"
        f" {_reason(last)}: {last.get('message') or ''}"
    )
    logs = LogsRef(known.kind, known.name, known.namespace)
    return EngineStatus(progress, reason, message, {f"{known.kind.lower()}Name": known.name}, logs)
