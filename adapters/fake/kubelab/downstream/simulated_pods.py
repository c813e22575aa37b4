"""The pods of a simulated Job. Each pod has a name and Events; only a pod that cannot start is stored as an object."""

import uuid
from typing import Any, Final

import attrs

from kubelab.downstream.controller import Attempt, ObjectView, uid_of
from kubelab.entropy import SUFFIX_ALPHABET
from kubelab.simulation.effects import PassStep, PostEvent, SimulatedCreate, SimulatedDelete, SimulatedPatch
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import POD

_UNSCHEDULABLE: Final = "Unschedulable"


@attrs.frozen
class JobPod:
    """A simulated pod of a Job. Its run, `attempt`, determines how and when the pod ends."""

    name: str
    attempt: Attempt

    @property
    def uid(self) -> str:
        """The pod's uid, which is derived from the pod's name."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, self.name))


def pod_name(view: ObjectView, number: int) -> str:
    """Return the name of the pod with this number of the Job in `view`.

    Its suffix looks like one that the API server generates.
    """
    drawn = uuid.uuid5(uuid.NAMESPACE_OID, f"{view.uid} {number}").int
    suffix = "".join(
        SUFFIX_ALPHABET[drawn // len(SUFFIX_ALPHABET) ** place % len(SUFFIX_ALPHABET)] for place in range(5)
    )
    # 63 characters less dash and suffix: a pod's name is also its host name (apiserver: pkg/storage/names,
    # GenerateName).
    return f"{view.ref.name[:57]}-{suffix}"


def job_event(view: ObjectView, type_: str, reason: str, message: str) -> PostEvent:
    """Return a request to post an Event about the Job in `view`, with this reason and message.

    Its type, `type_`, is Normal or Warning.
    """
    return PostEvent(view.ref, view.uid, type_, reason, message, view.timestamp())


def created(view: ObjectView, pod: JobPod) -> PassStep[None]:
    """Post an Event about the creation of `pod` for the Job in `view`.

    A pod that cannot start is also created as an object.
    """
    if pod.attempt.outcome.waiting:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": view.ref.name, "uid": view.uid, "controller": True}
        labels = {"batch.kubernetes.io/controller-uid": view.uid, "batch.kubernetes.io/job-name": view.ref.name[:63]}
        meta = {"name": pod.name, "namespace": view.ref.namespace, "labels": labels, "ownerReferences": [owner]}
        spec = dict(get_path(view.spec, "template", "spec") or {})
        yield SimulatedCreate(POD, {**POD.manifest(pod.name), "metadata": meta, "spec": spec})
    yield job_event(view, "Normal", "SuccessfulCreate", f"Created pod: {pod.name}")


def write_waiting_reason(view: ObjectView, pod: JobPod) -> PassStep[None]:
    """Write into the status of `pod` why it cannot start, such as a missing image. Do nothing if it can start."""
    if pod.attempt.outcome.waiting:
        body = {"status": {"phase": "Pending", **_waiting(pod)}}
        yield SimulatedPatch(ObjectRef(POD, view.ref.namespace, pod.name), "", body, "status")


def _waiting(pod: JobPod) -> dict[str, Any]:
    reason = {"reason": pod.attempt.outcome.waiting, "message": pod.attempt.outcome.message}
    if pod.attempt.outcome.waiting == _UNSCHEDULABLE:
        return {"conditions": [{"type": "PodScheduled", "status": "False", **reason}]}
    container = {"name": "run", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    return {"containerStatuses": [{**container, "state": {"waiting": reason}}]}


def deleted(view: ObjectView, pods: tuple[JobPod, ...]) -> PassStep[None]:
    """Post an Event about the deletion of each of `pods`, the pods of the Job in `view`.

    Every pod of the Job that exists as an object is also deleted.
    """
    for pod in pods:
        yield job_event(view, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
    for ref, manifest in view.all_of(POD, view.ref.namespace):
        if _is_of(view, manifest):
            yield SimulatedDelete(ref, uid_of(manifest))


def _is_of(view: ObjectView, pod: Manifest) -> bool:
    return any(get_path(owner, "uid") == view.uid for owner in metadata(pod).get("ownerReferences") or ())
