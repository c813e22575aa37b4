"""What to write to the Cluster object of this cluster's id, if anything (RES-3, RES-4, REC-6).

A change of a condition or a field is written at once. What only moves along, the time of the last round trip and the
counts in messages, is written once a minute at most; when neither moves, nothing is written at all.
"""

from typing import Any, Final

from vworkspace_core.api.cluster import Cluster, ClusterStatus
from vworkspace_core.api.codec import unstructure
from vworkspace_core.api.labels import cluster_name
from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.apimachinery.conditions import Transition, merge_conditions, same_but_times, transitions
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef
from vworkspace_core.apimachinery.meta import Condition, ConditionStatus
from vworkspace_core.apimachinery.references import NameRef
from vworkspace_core.apimachinery.resources import CLUSTER
from vworkspace_core.apimachinery.secret_material import without_user
from vworkspace_core.apimachinery.timestamps import format_time, parse_time
from vworkspace_core.clusters.conditions import OF_THE_AGENT, wanted_conditions
from vworkspace_core.clusters.controllers import installed_engines
from vworkspace_core.clusters.inventory import Posture
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_core.controller.decision import Decision
from vworkspace_core.ports import KubernetesEvent

HEARTBEAT_SECONDS: Final = 60.0
"""How often `lastHeartbeat` and counts in messages are written at most."""
MOST_NAMESPACES: Final = 1000
"""More names than this would make the object heavy for everyone who watches it."""

_SOONEST: Final = 0.1
_OWN: Final[frozenset[str]] = frozenset(ClusterConditionType)
_GOOD_WHEN_FALSE: Final = frozenset(
    {ClusterConditionType.DISCONNECTED, ClusterConditionType.BUFFER_OVERFLOW, ClusterConditionType.CLOCK_SKEW}
)


def decide(source: Cluster, posture: Posture) -> Decision:
    """The status of `source`; empty for the Cluster of another id."""
    if source.spec.cluster_id != posture.cluster_id:
        return Decision()
    status = _status(source, posture)
    if _same(source.status, status):
        return Decision(look_again_after=_next_look(posture, HEARTBEAT_SECONDS))
    wait = _seconds_to_wait(source.status, status, posture)
    if wait > 0:
        return Decision(look_again_after=_next_look(posture, wait))
    changed = transitions(_own(source.status), status.conditions)
    return Decision(
        status=_manifest(source, status),
        transitions=changed,
        events=tuple(_event(source, change) for change in changed if _is_news(change)),
        look_again_after=_next_look(posture, HEARTBEAT_SECONDS),
    )


def cluster_manifest(cluster_id: str, endpoint: str) -> dict[str, Any]:
    """The Cluster object that the operator makes for itself where there is none; no password in `endpoint` shows."""
    manifest = CLUSTER.manifest(cluster_name(cluster_id))
    where = {"controlPlaneEndpoint": without_user(endpoint)} if endpoint else {}
    return {**manifest, "spec": {"clusterId": cluster_id, **where}}


def _status(source: Cluster, posture: Posture) -> ClusterStatus:
    previous = _kept(source.status, posture)
    now = format_time(posture.now.wall)
    wanted = wanted_conditions(posture, previous)
    known = merge_conditions(previous, wanted, generation=source.metadata.generation, now=now)
    conditions = {one.type: one for one in (*previous, *known)}
    heard = posture.agent.link.last_ok if posture.agent else None
    return ClusterStatus(
        observed_generation=source.metadata.generation,
        conditions=tuple(conditions[kind] for kind in ClusterConditionType if kind in conditions),
        last_heartbeat=format_time(heard.wall) if heard else source.status.last_heartbeat,
        credentials_secret_ref=NameRef(posture.credentials_secret) if posture.credentials_secret else None,
        managed_namespaces=tuple(sorted(posture.namespaces))[:MOST_NAMESPACES],
        operator_version=posture.operator_version or None,
        installed_engines=installed_engines(posture.watched),
    )


def _own(status: ClusterStatus) -> tuple[Condition, ...]:
    return tuple(one for one in status.conditions if one.type in _OWN)


def _kept(status: ClusterStatus, posture: Posture) -> tuple[Condition, ...]:
    """The conditions that can go on as they are."""
    return tuple(one for one in _own(status) if posture.agent or one.type not in OF_THE_AGENT)


def _same(old: ClusterStatus, new: ClusterStatus) -> bool:
    return old.last_heartbeat == new.last_heartbeat and _same_but_moving(old, new, moving=frozenset())


def _same_but_moving(old: ClusterStatus, new: ClusterStatus, moving: frozenset[str]) -> bool:
    """Whether nothing differs but times, and the messages of the conditions in `moving`."""
    fields = [_fields(status) for status in (old, new)]
    return fields[0] == fields[1] and same_but_times(_own(old), new.conditions, but_messages_of=moving)


def _fields(status: ClusterStatus) -> tuple[object, ...]:
    return (
        status.observed_generation,
        status.credentials_secret_ref,
        frozenset(status.managed_namespaces),
        status.operator_version,
        frozenset(status.installed_engines),
    )


def _seconds_to_wait(old: ClusterStatus, new: ClusterStatus, posture: Posture) -> float:
    """How long what only moves along has to wait; 0 for everything else."""
    if not _same_but_moving(old, new, moving=_OWN):
        return 0.0
    return max(0.0, HEARTBEAT_SECONDS - _seconds_since_written(old, posture))


def _seconds_since_written(old: ClusterStatus, posture: Posture) -> float:
    """Of a process that has just begun, since the heartbeat of the one before it: a restart alone writes nothing."""
    if posture.written is not None:
        return posture.now.since(posture.written)
    try:
        age = (posture.now.wall - parse_time(old.last_heartbeat or "")).total_seconds()
    except ValueError:
        return HEARTBEAT_SECONDS  # never written, or by somebody else
    return age if age >= 0 else HEARTBEAT_SECONDS  # a clock that was set back must not hold it up


def _next_look(posture: Posture, seconds: float) -> float:
    """Not later than `seconds`, nor than what time alone brings about."""
    agent, now = posture.agent, posture.now
    if agent is None:
        return seconds
    link = agent.link
    due = [seconds, posture.window - now.since(agent.quiet_since)]
    if link.state is Connectivity.UNREACHABLE and link.since is not None:
        due.append(posture.damping - now.since(link.since))
    # What is due within a rounding error must not be waited for without time passing.
    return max(_SOONEST, min(left for left in due if left > 0))


def _manifest(source: Cluster, status: ClusterStatus) -> Manifest:
    """The whole apply configuration for `/status`, with the resourceVersion it was decided on (REC-6)."""
    manifest = CLUSTER.manifest(source.metadata.name)
    manifest["metadata"]["resourceVersion"] = source.metadata.resource_version
    return {**manifest, "status": unstructure(status)}


def _is_news(change: Transition) -> bool:
    """A condition that appears in its good state was never bad."""
    if change.condition.reason == ClusterReason.NO_AGENT:
        return change.condition.type == ClusterConditionType.CONNECTED  # once is enough
    return change.previous is not None or not _is_good(change.condition) or change.condition.type == "Connected"


def _is_good(condition: Condition) -> bool:
    if condition.reason == ClusterReason.NO_AGENT:
        return True  # as it is meant to be
    wanted = ConditionStatus.FALSE if condition.type in _GOOD_WHEN_FALSE else ConditionStatus.TRUE
    return condition.status is wanted


def _event(source: Cluster, change: Transition) -> KubernetesEvent:
    condition = change.condition
    return KubernetesEvent(
        regarding=ObjectRef(CLUSTER, None, source.metadata.name),
        regarding_uid=source.metadata.uid,
        type="Normal" if _is_good(condition) else "Warning",
        reason=str(condition.reason),
        action="Report",
        note=f"{condition.type} is {condition.status}: {condition.message}".removesuffix(": "),
    )
