"""Load balancers and ingress controllers: they give addresses, some time after they were asked."""

from typing import Any, Final

from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import Ending
from vworkspace_fake.downstream.kinds import INGRESS, SERVICE
from vworkspace_fake.downstream.turns import NOTHING, Controller, Look, Turn, change


def _balancer(look: Look) -> Turn:
    if look.live is None or look.deleting or look.spec.get("type") != "LoadBalancer":
        return NOTHING
    return _given(look, look.spec.get("ports") or [])


def _ingress(look: Look) -> Turn:
    return NOTHING if look.live is None or look.deleting else _given(look, [])


def _given(look: Look, ports: Any) -> Turn:
    """An address by the object's uid, from a range that is kept for documentation; it stays."""
    if (look.status.get("loadBalancer") or {}).get("ingress"):
        return NOTHING
    attempt = look.memory if isinstance(look.memory, Attempt) and not released(look, look.memory) else None
    attempt = attempt or begin(look, (), look.behaviour.workloads.address_seconds)
    if attempt.until is None or look.now < attempt.until:
        return Turn(memory=attempt, due=attempt.until)
    if attempt.outcome.ending is not Ending.SUCCEED:  # a load balancer that cannot be had is only told by an Event
        text = attempt.outcome.message or "no load balancer can be had"
        return Turn(due=look.at(look.behaviour.retry_seconds), error=text)
    address: dict[str, Any] = {"ip": f"192.0.2.{sum(look.uid.encode()) % 254 + 1}"}
    if ports:
        address["ipMode"] = "VIP"
    return Turn(change(look, {"status": {"loadBalancer": {"ingress": [address]}}}, subresource="status"))


ADDRESSES: Final = (
    Controller("cloud-controller-manager", (SERVICE,), _balancer),
    Controller("ingress-controller", (INGRESS,), _ingress),
)
"""Their names are the field managers of what they write."""
