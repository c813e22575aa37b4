"""The conditions of a Cluster object. A condition is left out, and so not changed, while nothing is known about it.

Connected turns False once polls have failed for a while (ten seconds) and True at the first round trip: a single poll
that a proxy drops does not count. A restart changes nothing: until the first answer, the status stays as the former
process left it. Without the agent (the part that polls the control plane for jobs) there is no connection to lose, and
Connected and Disconnected say so (SEE-4).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.timestamps import format_time
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason
from vworkspace_core.clusters.controllers import controllers_condition
from vworkspace_core.clusters.inventory import AgentReport, ClusterInventory, hardened_condition
from vworkspace_core.control_plane.connection import Connectivity

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
_NO_AGENT: Final = "the operator runs with --no-agent: it reconciles what is applied here, and takes no jobs"

OF_THE_AGENT: Final = frozenset({Type.AUTHENTICATED, Type.BUFFER_OVERFLOW, Type.CLOCK_SKEW, Type.JOBS_BLOCKED})
"""The condition types that concern the agent, which fetches jobs from the control plane.

An operator without an agent removes them from the Cluster.
"""


def wanted_conditions(inventory: ClusterInventory, previous: Sequence[Condition]) -> tuple[DesiredCondition, ...]:
    """Return the conditions that the Cluster object should have, in the order in which they are written.

    `inventory` is the observed state of the operator. `previous` are the object's present conditions. Conditions whose
    status is unknown now are left out.
    """
    agent = inventory.agent
    controllers = controllers_condition(inventory.watched, inventory.installation)
    if agent is None:
        return (
            DesiredCondition(Type.CONNECTED, _FALSE, Reason.NO_AGENT, _NO_AGENT),
            DesiredCondition(Type.DISCONNECTED, _FALSE, Reason.NO_AGENT),
            controllers,
            hardened_condition(inventory.weak_settings),
        )
    return (
        *_connected(inventory, agent),
        *_disconnected(inventory, agent, previous),
        *_authenticated(inventory, agent),
        controllers,
        agent.overflow,
        *_troubles(agent, previous),
        hardened_condition(inventory.weak_settings),
    )


def _troubles(agent: AgentReport, previous: Sequence[Condition]) -> Iterator[DesiredCondition]:
    """Yield ClockSkew and JobsBlocked, each True while the agent reports its trouble, and False once that is over.

    A condition that is missing in `previous`, the present conditions, is only added when the trouble begins.
    """
    for type_, message, bad, good in (
        (Type.CLOCK_SKEW, agent.apart, Reason.CLOCKS_DIFFER, Reason.CLOCKS_AGREE),
        (Type.JOBS_BLOCKED, agent.unrecorded, Reason.RECORDS_NOT_STORED, Reason.RECORDS_STORED),
    ):
        if message:
            yield DesiredCondition(type_, _TRUE, bad, message)
        elif agent.connection.last_ok is not None and any(condition.type == type_ for condition in previous):
            yield DesiredCondition(type_, _FALSE, good)


def _connected(inventory: ClusterInventory, agent: AgentReport) -> Iterator[DesiredCondition]:
    link, pending = agent.connection, str(agent.pending)
    match link.connectivity:
        case Connectivity.CONNECTED:
            yield DesiredCondition(Type.CONNECTED, _TRUE, Reason.ROUND_TRIP_OK)
        case Connectivity.REJECTED:
            # It was reached, and it refused.
            yield DesiredCondition(
                Type.CONNECTED, _TRUE, Reason.ROUND_TRIP_OK, _joined("the credential is rejected", pending)
            )
        case Connectivity.UNREACHABLE if link.since and inventory.now.since(link.since) >= inventory.damping:
            message = _joined(f"since {format_time(link.since.wall)}: {link.error}", pending)
            yield DesiredCondition(Type.CONNECTED, _FALSE, Reason.CONTROL_PLANE_UNREACHABLE, message)
        case _:
            pass


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _disconnected(
    inventory: ClusterInventory, agent: AgentReport, previous: Sequence[Condition]
) -> Iterator[DesiredCondition]:
    link = agent.connection
    # A poll that is held open is not silence, however long it waits; one that hangs ends in a failure.
    lost = link.connectivity in (Connectivity.UNREACHABLE, Connectivity.UNKNOWN)
    if lost and inventory.now.since(agent.quiet_since) >= inventory.window:
        when = "the operator started" if link.last_ok is None else format_time(link.last_ok.wall)
        yield DesiredCondition(Type.DISCONNECTED, _TRUE, Reason.NO_RECENT_ROUND_TRIP, f"no round trip since {when}")
    elif (
        link.connectivity is Connectivity.CONNECTED
        or link.last_ok
        or not _condition(previous, Type.DISCONNECTED, _TRUE)
    ):
        yield DesiredCondition(Type.DISCONNECTED, _FALSE, Reason.ROUND_TRIP_OK)


def _condition(conditions: Sequence[Condition], kind: Type, status: ConditionStatus) -> bool:
    return any(condition.type == kind and condition.status is status for condition in conditions)


def _authenticated(inventory: ClusterInventory, agent: AgentReport) -> Iterator[DesiredCondition]:
    link, expires = agent.connection, inventory.credential_expires
    match link.connectivity:
        case Connectivity.CONNECTED:
            until = f"the credential expires at {format_time(expires)}" if expires else ""
            yield DesiredCondition(Type.AUTHENTICATED, _TRUE, Reason.CREDENTIAL_ACCEPTED, until)
        case Connectivity.REJECTED if link.since:
            over = expires is not None and expires <= inventory.now.wall
            reason = Reason.CREDENTIAL_EXPIRED if over else Reason.CREDENTIAL_REJECTED
            where = f"the Secret {inventory.credentials_secret}" if inventory.credentials_secret else "the token file"
            cure = f"tried again every 5 to 10 minutes, and at once when {where} has a new token"
            message = f"since {format_time(link.since.wall)}: {link.error}; {cure}"
            yield DesiredCondition(Type.AUTHENTICATED, _FALSE, reason, message)
        case _:
            pass
