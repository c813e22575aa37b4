"""Events for the control plane about objects that belong to no open job (PULL-6).

A job is a request of the control plane. It is open until it has a result, and reports the changes of its own object.

ConditionTransition events report a change of status. In addition there are life-cycle events of Operations (a run
started, and how it ended), so that a control plane that counts runs need not know the conditions. The key of such an
event names the object with its uid, and what happened to it, which happens only once. A replay of any event has the
same key.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from purekube.apimachinery.definitions import condition_path, text_at
from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import exact_time, format_time, time_or_none
from vworkspace_core.api.kinds import CLUSTER, OPERATION
from vworkspace_core.api.labels import cluster_name
from vworkspace_core.api.operation import Phase
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.jobs.object_status import own_conditions_of
from vworkspace_core.jobs.steps import condition_body

_A_DAY: Final = timedelta(days=1)
RECENT: Final = timedelta(minutes=10)
"""The greatest age of a change that is reported when this process sees an object for the first time.

The previous process may have ended before it reported the change. If it did report it, the equal key of the second
event keeps the change from being counted twice (PULL-6).
"""

ReportedConditions = Mapping[str, tuple[str, ...]]
"""The part of an object that is needed to detect a transition of a condition.

By condition type it has the condition's status, its reason, and the time at which both began.
"""


def transitions(old_status: Any, new_status: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the conditions of `new_status` whose status or reason differs from that in `old_status`.

    A condition that `old_status` lacks counts as changed; a new message does not. Both statuses are raw JSON.
    """
    return tuple(_changed(reported_conditions({"status": old_status}), {"status": new_status}))


def reported_conditions(live: Manifest) -> dict[str, tuple[str, ...]]:
    """Return the status and reason of each condition of `live`, and the time at which both began, keyed by condition
    type.
    """
    return {
        str(condition["type"]): (*_condition_is(condition), began_at(condition))
        for condition in own_conditions_of(live)
    }


def began_at(condition: Mapping[str, Any]) -> str:
    """Return the time at which the condition's present status and reason began.

    `lastTransitionTime` alone is not enough, since it does not change with the reason (RES-4).
    """
    return str(condition.get("reasonTransitionTime") or condition.get("lastTransitionTime") or "")


def _condition_is(condition: Mapping[str, Any]) -> tuple[str, str]:
    return str(condition.get("status")), str(condition.get("reason"))


def _changed(before: ReportedConditions, live: Manifest) -> Iterator[Mapping[str, Any]]:
    for condition in own_conditions_of(live):
        if before.get(str(condition["type"]), ())[:2] != _condition_is(condition):
            yield condition


def condition_events(before: ReportedConditions | None, live: Manifest, now: datetime) -> tuple[dict[str, Any], ...]:
    """Return an event for each condition of `live` whose status or reason has changed since `before`.

    If `before` is None the object is seen for the first time, and events for the changes of the last ten minutes are
    returned.
    """
    if before is not None:
        return tuple(_transition_event(live, condition, before, now) for condition in _changed(before, live))
    return tuple(
        _transition_event(live, condition, {}, now)
        for condition in own_conditions_of(live)
        if _changed_recently(condition, now)
    )


def _changed_recently(condition: Mapping[str, Any], now: datetime) -> bool:
    began = time_or_none(began_at(condition))
    return began is not None and now - began <= RECENT


def unreported_since(cluster: Manifest | None, now: datetime) -> datetime:
    """Return the time since which changes may not have been reported to the control plane.

    It is a little before the last successful call, which the Cluster object records, or a day ago if that is unknown.
    If the operator ran without a job agent, it is a day before the agent stopped. A change that is reported twice does
    no harm, since events have keys.
    """
    field, before = ".status.lastHeartbeat", timedelta(0)
    if text_at(cluster or {}, condition_path(ClusterConditionType.CONNECTED, "reason")) == ClusterReason.NO_AGENT:
        field, before = condition_path(ClusterConditionType.CONNECTED, "lastTransitionTime"), _A_DAY
    heard = time_or_none(text_at(cluster or {}, field))
    return min(now - _A_DAY if heard is None else heard - before, now) - RECENT


def _transition_event(
    live: Manifest, condition: Mapping[str, Any], before: ReportedConditions, now: datetime
) -> dict[str, Any]:
    last_report = before.get(str(condition["type"]))
    beside = {} if last_report is None else {"previous": {"status": last_report[0], "reason": last_report[1]}}
    moment = began_at(condition)
    if last_report is not None and last_report[2:] == (moment,):
        # The writer does not record when the reason changed: it was just now.
        moment = exact_time(now)
    return event_body("ConditionTransition", event_key(live, condition, moment), now, live, [condition], **beside)


def event_key(live: Manifest, condition: Mapping[str, Any], moment: str = "") -> str:
    """Return `condition/<apiVersion>/<kind>/<namespace>/<name>/<uid>/<type>/<status>/<reason>@<generation>/<moment>`.

    `moment` is the time of the change; if it is empty, the condition's own time is used. A replay of the same change
    has the same key. A later change to the same status or reason has another key.
    """
    meta = metadata(live)
    generation = condition.get("observedGeneration", get_path(live, "status", "observedGeneration"))
    where = (live.get("apiVersion"), live.get("kind"), meta.get("namespace"), meta.get("name"), meta.get("uid"))
    what = (condition.get("type"), condition.get("status"), condition.get("reason"))
    path = "/".join(str(part) for part in (*where, *what))
    return f"condition/{path}@{generation or 0}/{moment or began_at(condition)}"


def heartbeat(cluster_id: str, cluster: Manifest | None, now: datetime) -> dict[str, Any]:
    """Return the heartbeat event, which is sent every minute. It has the conditions of this cluster's Cluster object.

    `cluster` is that object, or None if it does not exist.
    """
    return _of_cluster("ClusterHeartbeat", f"heartbeat/{cluster_id}/{format_time(now)}", cluster_id, cluster, now)


def credential_rotated(cluster_id: str, cluster: Manifest | None, request: str, now: datetime) -> dict[str, Any]:
    """Return the event that a new credential is in use (PULL-6). `request` is the key of the rotation request.

    `cluster` is the Cluster object with the id `cluster_id`, or None if it does not exist.
    """
    return _of_cluster("CredentialRotated", f"credential-rotated/{cluster_id}/{request}", cluster_id, cluster, now)


def _of_cluster(kind: str, key: str, cluster_id: str, cluster: Manifest | None, now: datetime) -> dict[str, Any]:
    """Return an event of type `kind` about the Cluster object.

    Without a Cluster object (`cluster` is None), the event has the name that the object would have.
    """
    live = CLUSTER.manifest(cluster_name(cluster_id)) if cluster is None else cluster
    return event_body(kind, key, now, live, own_conditions_of(live), clusterId=cluster_id)


def event_body(
    kind: str, key: str, now: datetime, live: Manifest, conditions: Iterable[Mapping[str, Any]], **beside: Any
) -> dict[str, Any]:
    """Return the body of an event about the object `live` for the request `POST events`.

    `kind` is the kind of event, such as `ConditionTransition`, and `key` identifies the event. `conditions` are the
    conditions that the event reports. Further keyword arguments become fields of the body.
    """
    return {
        "kind": kind,
        "eventKey": key,
        "timestamp": format_time(now),
        "resourceRef": resource_ref(live),
        "conditions": [condition_body(condition) for condition in conditions],
        **beside,
    }


def resource_ref(live: Manifest) -> dict[str, str]:
    """Return the fields that identify `live`, the object that an event is about.

    The namespace of a cluster-scoped object is empty.
    """
    meta = metadata(live)
    named = {name: str(meta.get(name) or "") for name in ("namespace", "name", "uid")}
    return {"apiVersion": str(live.get("apiVersion")), "kind": str(live.get("kind")), **named}


_STARTED: Final = "OperationStarted"
_ENDED: Final = {
    Phase.SUCCEEDED.value: "OperationSucceeded",
    Phase.FAILED.value: "OperationFailed",
    Phase.CANCELLED.value: "OperationCancelled",
}


def phase_in(live: Manifest) -> str:
    """Return the phase in an Operation's status, or an empty string if there is none or another field manager wrote it.

    The result is empty for objects of other kinds.
    """
    is_ours = live.get("kind") == OPERATION.kind and "phase" not in OWN_STATUS.held_fields(live)
    phase = get_path(live, "status", "phase") if is_ours else None
    return phase if isinstance(phase, str) else ""


def phase_events(
    before: str | None, live: Manifest, now: datetime, since: datetime | None = None
) -> tuple[dict[str, Any], ...]:
    """Return the life-cycle events of an Operation (started, ended) since it was in phase `before`.

    `before` is None for an Operation that this process sees for the first time. Then changes after `since`, or those of
    the last ten minutes, are included, because the former process may not have reported them.
    """
    phase = phase_in(live)
    if phase == before:
        return ()
    return tuple(
        _phase_event(live, kind, at, now)
        for kind, at in _time_fields(phase)
        if get_path(live, "status", at)
        and (_is_recent(live, at, since or now - RECENT) if before is None else _is_news(kind, before))
    )


def _time_fields(phase: str) -> Iterator[tuple[str, str]]:
    """Yield the kinds of life-cycle events of an Operation in `phase`, each with the status field that has its time."""
    if phase == Phase.RUNNING or phase in _ENDED:
        yield _STARTED, "startedAt"
    if phase in _ENDED:
        yield _ENDED[phase], "finishedAt"


def _is_news(kind: str, before: str) -> bool:
    return kind != _STARTED or before in ("", Phase.PENDING)


def _is_recent(live: Manifest, at: str, since: datetime) -> bool:
    reached = time_or_none(get_path(live, "status", at))
    return reached is not None and reached >= since


def _phase_event(live: Manifest, kind: str, at: str, now: datetime) -> dict[str, Any]:
    meta, phase = metadata(live), phase_in(live)
    where = "/".join(str(meta.get(name)) for name in ("namespace", "name", "uid"))
    ended = (
        next((condition for condition in own_conditions_of(live) if condition["type"] == phase), {})
        if at == "finishedAt"
        else {}
    )
    details = {
        "type": get_path(live, "spec", "type"),
        "engine": get_path(live, "spec", "engine"),
        "target": get_path(live, "spec", "targetRef", "name"),
        at: get_path(live, "status", at),
        "reason": ended.get("reason"),
        "message": shown(str(ended.get("message") or "")) or None,
    }
    beside = {name: value for name, value in details.items() if value is not None}
    return event_body(kind, f"operation/{where}/{kind}", now, live, own_conditions_of(live), operation=beside)
