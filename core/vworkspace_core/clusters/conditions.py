"""The conditions of a Cluster as a posture wants them; what nothing is known about is left out, and stays as it was.

Connected turns False once polls have failed for a while (ten seconds) and True at the first round trip: a single poll
that a proxy drops is no news. A restart changes nothing: before the first answer, the status stands as the process
before left it. Without an agent nothing is connected and nothing is lost, and the two conditions say so (SEE-4).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason
from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.meta import Condition, ConditionStatus
from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_core.clusters.controllers import controllers_condition
from vworkspace_core.clusters.hardening import hardened_condition
from vworkspace_core.clusters.inventory import AgentReport, Posture
from vworkspace_core.control_plane.connection import Connectivity

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
_NO_AGENT: Final = "the operator runs with --no-agent: it reconciles what is applied here, and takes no jobs"

OF_THE_AGENT: Final = frozenset({Type.AUTHENTICATED, Type.BUFFER_OVERFLOW, Type.CLOCK_SKEW})
"""What only an agent can have: without one these conditions go."""


def wanted_conditions(posture: Posture, previous: Sequence[Condition]) -> tuple[Wanted, ...]:
    """What is known now, in the order of the vocabulary."""
    agent, controllers = posture.agent, controllers_condition(posture.watched)
    if agent is None:
        return (
            Wanted(Type.CONNECTED, _FALSE, Reason.NO_AGENT, _NO_AGENT),
            Wanted(Type.DISCONNECTED, _FALSE, Reason.NO_AGENT),
            controllers,
            hardened_condition(posture.exposure),
        )
    return (
        *_connected(posture, agent),
        *_disconnected(posture, agent, previous),
        *_authenticated(posture, agent),
        controllers,
        agent.overflow,
        *_clocks(agent, previous),
        hardened_condition(posture.exposure),
    )


def _clocks(agent: AgentReport, previous: Sequence[Condition]) -> Iterator[Wanted]:
    """Told where they differ, and afterwards that they do not any more."""
    if agent.apart:
        yield Wanted(Type.CLOCK_SKEW, _TRUE, Reason.CLOCKS_DIFFER, agent.apart)
    elif any(one.type == Type.CLOCK_SKEW for one in previous) and agent.connection.last_ok is not None:
        yield Wanted(Type.CLOCK_SKEW, _FALSE, Reason.CLOCKS_AGREE)


def _connected(posture: Posture, agent: AgentReport) -> Iterator[Wanted]:
    link, mail = agent.connection, str(agent.pending)
    match link.connectivity:
        case Connectivity.CONNECTED:
            yield Wanted(Type.CONNECTED, _TRUE, Reason.ROUND_TRIP_OK)
        case Connectivity.REJECTED:
            # It was reached, and it said no.
            yield Wanted(Type.CONNECTED, _TRUE, Reason.ROUND_TRIP_OK, _joined("the credential is rejected", mail))
        case Connectivity.UNREACHABLE if link.since and posture.now.since(link.since) >= posture.damping:
            told = _joined(f"since {format_time(link.since.wall)}: {link.error}", mail)
            yield Wanted(Type.CONNECTED, _FALSE, Reason.CONTROL_PLANE_UNREACHABLE, told)
        case _:
            pass


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _disconnected(posture: Posture, agent: AgentReport, previous: Sequence[Condition]) -> Iterator[Wanted]:
    link = agent.connection
    # A poll that is held open is no silence, however long it waits; one that hangs ends in a failure.
    lost = link.connectivity in (Connectivity.UNREACHABLE, Connectivity.UNKNOWN)
    if lost and posture.now.since(agent.quiet_since) >= posture.window:
        when = "the operator started" if link.last_ok is None else format_time(link.last_ok.wall)
        yield Wanted(Type.DISCONNECTED, _TRUE, Reason.NO_RECENT_ROUND_TRIP, f"no round trip since {when}")
    elif link.connectivity is Connectivity.CONNECTED or link.last_ok or not _says(previous, Type.DISCONNECTED, _TRUE):
        yield Wanted(Type.DISCONNECTED, _FALSE, Reason.ROUND_TRIP_OK)


def _says(conditions: Sequence[Condition], kind: Type, status: ConditionStatus) -> bool:
    return any(one.type == kind and one.status is status for one in conditions)


def _authenticated(posture: Posture, agent: AgentReport) -> Iterator[Wanted]:
    link, expires = agent.connection, posture.credential_expires
    match link.connectivity:
        case Connectivity.CONNECTED:
            until = f"the credential expires at {format_time(expires)}" if expires else ""
            yield Wanted(Type.AUTHENTICATED, _TRUE, Reason.CREDENTIAL_ACCEPTED, until)
        case Connectivity.REJECTED if link.since:
            over = expires is not None and expires <= posture.now.wall
            reason = Reason.CREDENTIAL_EXPIRED if over else Reason.CREDENTIAL_REJECTED
            where = f"the Secret {posture.credentials_secret}" if posture.credentials_secret else "the token file"
            cure = f"tried again every 5 to 10 minutes, and at once when {where} has a new token"
            told = f"since {format_time(link.since.wall)}: {link.error}; {cure}"
            yield Wanted(Type.AUTHENTICATED, _FALSE, reason, told)
        case _:
            pass
