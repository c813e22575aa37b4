"""Simulated load balancers and ingress controllers: they assign addresses after a delay."""

from typing import Any, Final

from kubelab.downstream.attempts import Attempt, begin, released
from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import NOTHING, DownstreamController, ObjectView, PassResult, change
from kubelab.downstream.kinds import INGRESS, SERVICE
from kubelab.simulation.effects import PassStep


def _balancer(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or view.deleting or view.spec.get("type") != "LoadBalancer":
        return NOTHING
    return (yield from _assign_address(view, view.spec.get("ports") or []))


def _ingress(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or view.deleting:
        return NOTHING
    return (yield from _assign_address(view, []))


def _assign_address(view: ObjectView, ports: Any) -> PassStep[PassResult]:
    """Assign a permanent address, derived from the object's uid, from a range that is reserved for documentation."""
    if (view.status.get("loadBalancer") or {}).get("ingress"):
        return NOTHING
    attempt = view.memory if isinstance(view.memory, Attempt) and not released(view, view.memory) else None
    attempt = attempt or begin(view, (), view.behaviour.workloads.address_seconds)
    if attempt.until is None or view.now < attempt.until:
        return PassResult(memory=attempt, requeue_at=attempt.until)
    if attempt.outcome.ending is not Ending.SUCCEED:  # the only report of this failure is an Event
        text = attempt.outcome.message or "no load balancer can be had"
        return PassResult(requeue_at=view.at(view.behaviour.retry_seconds), error=text)
    address: dict[str, Any] = {"ip": f"192.0.2.{sum(view.uid.encode()) % 254 + 1}"}
    if ports:
        address["ipMode"] = "VIP"
    yield from change(view, {"status": {"loadBalancer": {"ingress": [address]}}}, subresource="status")
    return NOTHING


ADDRESSES: Final = (
    DownstreamController("cloud-controller-manager", (SERVICE,), _balancer),
    DownstreamController("ingress-controller", (INGRESS,), _ingress),
)
"""The controllers; their names are the field managers of their writes."""
