"""The status of the Cluster object with this cluster's id, and the policy of all Cluster objects with that id.

The policy limits the charts of instances (RES-3, REC-6).

A condition is left out, and so not changed, while nothing is known about it. Connected turns False once polls have
failed for a while (ten seconds) and True at the first round trip: a single poll that a proxy drops does not count. A
restart changes nothing: until the first answer, the status stays as the former process left it. Without the agent (the
part that polls the control plane for jobs) there is no connection to lose, and Connected and Disconnected say so
(SEE-4).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.conditions import DesiredCondition, Transition
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.meta import Condition, ConditionStatus, NameRef
from purekube.apimachinery.secret_material import without_user
from purekube.apimachinery.timestamps import format_time, time_or_none
from purekube.controller.decision import Decision, Requeue
from purekube.controller.status import LiveStatus, Minor, event_of, status_change
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.cluster import Cluster, ClusterStatus
from vworkspace_core.api.codec import unstructure
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.api.labels import cluster_name
from vworkspace_core.api.reasons import CLUSTER_TROUBLES, ClusterConditionType, ClusterReason
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason
from vworkspace_core.clusters.inventory import (
    AgentReport,
    ClusterInventory,
    controllers_condition,
    hardened_condition,
    installed_engines,
)
from vworkspace_core.control_plane.connection import Connectivity

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
_NO_AGENT: Final = "the operator runs with --no-agent: it reconciles what is applied here, and takes no jobs"
OF_THE_AGENT: Final = frozenset({Type.AUTHENTICATED, Type.BUFFER_OVERFLOW, Type.CLOCK_SKEW, Type.JOBS_BLOCKED})
"""The condition types that concern the agent, which fetches jobs from the control plane.

An operator without an agent removes them from the Cluster.
"""


def strictest_policy(base: Policy, clusters: Iterable[bytes], cluster_id: str) -> Policy:
    """Return the policy (limits on charts) `base`, restricted further by that of every Cluster object with this id.

    `clusters` are the JSON of the Cluster objects that exist, in any order. A deleted Cluster no longer restricts
    anything, since only an administrator of the cluster may delete it.
    """
    return _together(
        base, frozenset(policy for cluster in clusters if (policy := _policy_of(cluster, cluster_id)) is not None)
    )


@lru_cache(maxsize=16)
def _together(base: Policy, policies: frozenset[Policy]) -> Policy:
    ordered = (base, *sorted(policies))
    lists = dict.fromkeys(sources for policy in ordered for sources in policy.chart_source_lists)
    forbidden = dict.fromkeys(version for policy in ordered for version in policy.forbidden_versions)
    first, *further = lists or ((),)
    return Policy(first, tuple(forbidden), tuple(further))


@lru_cache(maxsize=64)
def _policy_of(cluster: bytes, cluster_id: str) -> Policy | None:
    """Return the policy in the Cluster object `cluster`, given as JSON, or None if its id is not `cluster_id`.

    The result is cached, since every reconcile pass reads it and it seldom changes.
    """
    spec = get_path(msgspec.json.decode(cluster), "spec")
    if get_path(spec, "clusterId") != cluster_id:
        return None
    return Policy(
        _texts(get_path(spec, "policy", "allowedChartSources")), _texts(get_path(spec, "policy", "forbiddenVersions"))
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(sorted(text for text in value if isinstance(text, str))) if isinstance(value, list) else ()


HEARTBEAT_SECONDS: Final = 60.0
"""The shortest time between two writes of the Cluster status that change only `lastHeartbeat` or condition messages."""
MOST_NAMESPACES: Final = 1000
"""The most managed namespaces that the Cluster status lists. More would make the object too large for its watchers."""
_SOONEST: Final = 0.1
_OWN: Final[frozenset[str]] = frozenset(ClusterConditionType)
_MOVING: Final = Minor(messages_of=_OWN, fields=frozenset({"lastHeartbeat"}))


def decide(source: Cluster, inventory: ClusterInventory) -> Decision:
    """Return the decision (the writes to make and the time of the next pass) that updates the status of `source`.

    `inventory` is the observed state of the operator, which the status reports. The decision is empty if `source` is
    the Cluster object of another cluster.
    """
    if source.spec.cluster_id != inventory.cluster_id:
        return Decision()
    live = _live(source, inventory)
    change = status_change(
        live,
        _conditions(source, inventory),
        _fields(_status(source, inventory)),
        inventory.now.wall,
        minor=_MOVING,
        write_condition=unstructure,
    )
    next_beat = Requeue.at_latest(_next_reconcile(inventory, HEARTBEAT_SECONDS))
    if change is None:
        return Decision(requeue=next_beat, row="nothing changed")
    if change.is_minor and (wait := HEARTBEAT_SECONDS - _seconds_since_written(source.status, inventory)) > 0:
        return Decision(requeue=Requeue.at_latest(_next_reconcile(inventory, wait)), row="waits for the heartbeat")
    events = (
        event_of(news, live, warning=not _is_good(news.condition), action="Report")
        for news in change.transitions
        if _is_news(news)
    )
    row = "heartbeat" if change.is_minor else "conditions changed"
    return change.added_to(Decision(requeue=next_beat, row=row), events)


def cluster_manifest(cluster_id: str, endpoint: str) -> dict[str, Any]:
    """Return the Cluster object that the operator creates if there is none.

    `endpoint` is the URL of the control plane, or empty. A password in it is left out.
    """
    manifest = CLUSTER.manifest(cluster_name(cluster_id))
    where = {"controlPlaneEndpoint": without_user(endpoint)} if endpoint else {}
    return {**manifest, "spec": {"clusterId": cluster_id, **where}}


def _live(source: Cluster, inventory: ClusterInventory) -> LiveStatus:
    status = source.status
    # Both are sets: another order from the server is no change.
    engines, namespaces = installed_engines(inventory.watched), _namespaces(inventory)
    known = attrs.evolve(
        status,
        managed_namespaces=_as_set(status.managed_namespaces, namespaces),
        installed_engines=_as_set(status.installed_engines, engines),
    )
    return LiveStatus.of(CLUSTER, source.metadata, status.observed_generation, _own(status), _fields(known))


def _as_set(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return new if frozenset(old) == frozenset(new) else old


def _conditions(source: Cluster, inventory: ClusterInventory) -> Iterator[DesiredCondition | Condition]:
    """Yield the desired conditions of `source`, in the order of their types.

    A condition whose status is unknown now is yielded unchanged.
    """
    previous = _retained(source.status, inventory)
    known: dict[str, DesiredCondition | Condition] = {condition.type: condition for condition in previous}
    known |= {desired_condition.type: desired_condition for desired_condition in wanted_conditions(inventory, previous)}
    yield from (known[kind] for kind in ClusterConditionType if kind in known)


def _status(source: Cluster, inventory: ClusterInventory) -> ClusterStatus:
    """Return the desired status of the Cluster object, without its conditions."""
    heard = inventory.agent.connection.last_ok if inventory.agent else inventory.now
    return ClusterStatus(
        last_heartbeat=format_time(heard.wall) if heard else source.status.last_heartbeat,
        credentials_secret_ref=NameRef(inventory.credentials_secret) if inventory.credentials_secret else None,
        managed_namespaces=_namespaces(inventory),
        operator_version=inventory.operator_version or None,
        installed_engines=installed_engines(inventory.watched),
    )


def _namespaces(inventory: ClusterInventory) -> tuple[str, ...]:
    return tuple(sorted(inventory.namespaces))[:MOST_NAMESPACES]


def _fields(status: ClusterStatus) -> dict[str, Any]:
    return unstructure(attrs.evolve(status, conditions=(), observed_generation=None))


def _own(status: ClusterStatus) -> tuple[Condition, ...]:
    return tuple(condition for condition in status.conditions if condition.type in _OWN)


def _retained(status: ClusterStatus, inventory: ClusterInventory) -> tuple[Condition, ...]:
    """Return the conditions in `status` that the operator owns.

    If no job agent runs, the conditions that only an agent updates are left out.
    """
    return tuple(condition for condition in _own(status) if inventory.agent or condition.type not in OF_THE_AGENT)


def _seconds_since_written(old: ClusterStatus, inventory: ClusterInventory) -> float:
    """Return the seconds since this process last wrote the status of the Cluster object.

    After a restart, return the seconds since the last heartbeat in it, so that a restart alone causes no write.
    """
    if inventory.written is not None:
        return inventory.now.since(inventory.written)
    heartbeat = time_or_none(old.last_heartbeat)
    if heartbeat is None:
        return HEARTBEAT_SECONDS  # never written, or by another client
    age = (inventory.now.wall - heartbeat).total_seconds()
    return age if age >= 0 else HEARTBEAT_SECONDS  # a clock that was set back must not delay it


def _next_reconcile(inventory: ClusterInventory, seconds: float) -> float:
    """Return the seconds until the next reconcile pass.

    That is `seconds`, or less if a condition changes earlier merely because time passes.
    """
    agent, now = inventory.agent, inventory.now
    if agent is None:
        return seconds
    link = agent.connection
    due = [seconds, inventory.window - now.since(agent.quiet_since)]
    if link.connectivity is Connectivity.UNREACHABLE and link.since is not None:
        due.append(inventory.damping - now.since(link.since))
    # A deadline within a rounding error must not be awaited without time passing.
    return max(_SOONEST, min(left for left in due if left > 0))


def _is_news(change: Transition) -> bool:
    """Report whether `change`, a transition of a condition, deserves an Event.

    A condition that appears for the first time in its good state does not.
    """
    if change.condition.reason == ClusterReason.NO_AGENT:
        return change.condition.type == ClusterConditionType.CONNECTED  # once is enough
    return change.previous is not None or not _is_good(change.condition) or change.condition.type == "Connected"


def _is_good(condition: Condition) -> bool:
    if condition.reason == ClusterReason.NO_AGENT:
        return True  # as configured
    desired = ConditionStatus.FALSE if condition.type in CLUSTER_TROUBLES else ConditionStatus.TRUE
    return condition.status is desired


# --- conditions -------------------------------------------------------------------------------------------------------


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
    """Yield the conditions ClockSkew and JobsBlocked: True while the agent reports the trouble, and False once it is
    over.

    A condition that `previous`, the present conditions, lacks is added only when its trouble begins.
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
