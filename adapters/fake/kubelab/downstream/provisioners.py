"""Simulated platforms: they provide volumes for claims, and addresses for load balancers and ingresses."""

from typing import Any, Final

from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import (
    NOTHING,
    Attempt,
    DownstreamController,
    ObjectView,
    PassResult,
    Trying,
    begin,
    change,
    released,
    uid_of,
    waiting_for,
    without_finalizers,
)
from kubelab.downstream.kinds import PERSISTENT_VOLUME, STORAGE_CLASS
from kubelab.simulation.effects import PassStep, SimulatedCreate, SimulatedDelete
from purekube.apimachinery.manifest import ObjectRef, get_path, metadata
from purekube.apimachinery.resources import INGRESS, PERSISTENT_VOLUME_CLAIM, SERVICE, VOLUME_SNAPSHOT


def _assign_address(view: ObjectView) -> PassStep[PassResult]:
    """Give the pass's object, a Service or Ingress, a permanent IP address that is derived from its uid.

    The address is from a range that is reserved for documentation. It gets `ipMode: VIP` if the Service has ports.
    """
    if view.live is None or view.deleting or get_path(view.status, "loadBalancer", "ingress"):
        return NOTHING
    if view.ref.kind == SERVICE and view.spec.get("type") != "LoadBalancer":
        return NOTHING
    attempt = view.memory if isinstance(view.memory, Attempt) and not released(view, view.memory) else None
    attempt = attempt or begin(view, (), view.behaviour.workloads.address_seconds)
    if attempt.until is None or view.now < attempt.until:
        return PassResult(memory=attempt, requeue_at=attempt.until)
    if attempt.outcome.ending is not Ending.SUCCEED:  # the only report of this failure is an Event
        text = attempt.outcome.message or "no load balancer can be had"
        return PassResult(requeue_at=view.at(view.behaviour.retry_seconds), error=text)
    address: dict[str, Any] = {"ip": f"192.0.2.{sum(view.uid.encode()) % 254 + 1}"}
    if view.spec.get("ports"):
        address["ipMode"] = "VIP"
    yield from change(view, {"status": {"loadBalancer": {"ingress": [address]}}}, subresource="status")
    return NOTHING


ADDRESSES: Final = (
    DownstreamController("cloud-controller-manager", (SERVICE,), _assign_address),
    DownstreamController("ingress-controller", (INGRESS,), _assign_address),
)
"""The controllers that assign addresses; their names are the field managers of their writes."""


# Added by the admission plugin StorageObjectInUseProtection; only pvc-protection-controller removes it.
_PROTECTION: Final = "kubernetes.io/pvc-protection"
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_BINDING: Final = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


def _reconcile(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or not view.behaviour.snapshot.binds_claims:
        return NOTHING
    if view.deleting:
        return (yield from _delete(view))
    if view.status.get("phase") == "Bound":
        return NOTHING
    memory = view.memory or Trying()
    if _waits_for_a_pod(view) or not _source_is_ready(view):
        return PassResult(memory=memory)
    return (yield from _provision(view, memory))


def _waits_for_a_pod(view: ObjectView) -> bool:
    """Report whether the claim's storage class waits for a pod that uses the claim (WaitForFirstConsumer).

    No pod exists here, so such a claim is never bound.
    """
    name = view.spec.get("storageClassName")
    storage_class = view.world.get(ObjectRef(STORAGE_CLASS, None, str(name)))
    return bool(get_path(storage_class, "volumeBindingMode") == "WaitForFirstConsumer")


def _source_is_ready(view: ObjectView) -> bool:
    source = view.spec.get("dataSource") or view.spec.get("dataSourceRef") or {}
    if source.get("kind") != VOLUME_SNAPSHOT.kind or not view.behaviour.snapshot.checks_references:
        return True
    snapshot = view.world.get(ObjectRef(VOLUME_SNAPSHOT, view.ref.namespace, str(source.get("name"))))
    return get_path(snapshot, "status", "readyToUse") is True


def _provision(view: ObjectView, memory: Trying) -> PassStep[PassResult]:
    if memory.retry_at is not None and view.now < memory.retry_at:
        return PassResult(memory=memory, requeue_at=memory.retry_at)
    memory, attempt = memory.going_on(view, view.behaviour.snapshot.bind_seconds)
    if attempt.until is None or view.now < attempt.until:
        return PassResult(memory=memory, requeue_at=attempt.until)
    if attempt.outcome.ending is not Ending.SUCCEED:  # the claim stays Pending, and only an Event reports the failure
        retry = view.at(view.behaviour.snapshot.retry_seconds)
        text = attempt.outcome.message or "failed to provision volume"
        return PassResult(memory=Trying(None, memory.used, retry), requeue_at=retry, error=text)
    yield from _bind(view)
    return NOTHING


def _volume_name(view: ObjectView) -> str:
    return view.spec.get("volumeName") or f"pvc-{view.uid}"


def _bind(view: ObjectView) -> PassStep[None]:
    meta, name = metadata(view.live or {}), _volume_name(view)
    size = get_path(view.spec, "resources", "requests", "storage")
    marks = {**_BINDING, _PROVISIONER: view.behaviour.snapshot.driver}
    bound = {"annotations": {**(meta.get("annotations") or {}), **marks}}
    modes = list(view.spec.get("accessModes") or ())
    status = {**view.status, "phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}
    # The volume is first, then the claim's spec, then its status: the binder finishes a binding from any of these
    # states (volume/persistentvolume/pv_controller.go, bind).
    yield SimulatedCreate(PERSISTENT_VOLUME, _volume(view, name, size))
    yield from change(view, {"metadata": {**meta, **bound}, "spec": {**view.spec, "volumeName": name}})
    yield from change(view, {"status": status}, subresource="status")


def _volume(view: ObjectView, name: str, size: Any) -> dict[str, Any]:
    spec = {
        "accessModes": list(view.spec.get("accessModes") or ()),
        "capacity": {"storage": size},
        "claimRef": {
            "apiVersion": "v1",
            "kind": PERSISTENT_VOLUME_CLAIM.kind,
            "name": view.ref.name,
            "namespace": view.ref.namespace,
            "uid": view.uid,
        },
        "csi": {"driver": view.behaviour.snapshot.driver, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Delete",
    }
    if view.spec.get("storageClassName"):
        spec["storageClassName"] = view.spec["storageClassName"]
    return {**PERSISTENT_VOLUME.manifest(name), "spec": spec}


def _delete(view: ObjectView) -> PassStep[PassResult]:
    """Finish a claim's deletion: no pod uses it, so its finalizer is removed, and its volume is deleted with it."""
    ref = ObjectRef(PERSISTENT_VOLUME, None, _volume_name(view))
    volume = view.world.get(ref)
    if volume is not None and get_path(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete":
        yield SimulatedDelete(ref, uid_of(volume))
    yield from without_finalizers(view.ref, view.live, _PROTECTION)
    return NOTHING


VOLUME_PROVISIONER: Final = DownstreamController(
    "persistent-volume-binder",
    (PERSISTENT_VOLUME_CLAIM,),
    _reconcile,
    watches=(VOLUME_SNAPSHOT, STORAGE_CLASS, PERSISTENT_VOLUME),
    # A claim that is not bound yet may wait for its snapshot or its class.
    wakes=waiting_for(
        (VOLUME_SNAPSHOT, STORAGE_CLASS),
        (PERSISTENT_VOLUME_CLAIM,),
        lambda claim, _: get_path(claim, "status", "phase") != "Bound",
    ),
)
"""The volume provisioner; its name is the field manager of its writes."""
