"""The status of an ApplicationInstance: its fields, and which of its changes may wait (REC-6 c, REC-7).

A status that differs only in Flux's progress messages waits until the last write is a minute old.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import attrs

from purekube.apimachinery.conditions import DesiredCondition, Transition, conditions_equal
from purekube.apimachinery.formats import DNS_SUBDOMAIN
from purekube.apimachinery.manifest import get_path, merge_patch, same_json
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectName
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import Decision
from purekube.controller.status import LiveStatus, Minor, event_of, is_bad, status_change
from purekube.ports import KubernetesEvent
from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ApplicationInstanceStatus,
    Endpoint,
    ReleaseOverride,
    ReplacedOverride,
)
from vworkspace_core.api.chart import AppliedChart, DeployedChart
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import request_mark
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.reasons import headline
from vworkspace_core.api.release_override import inline_values, integration_values, overlay
from vworkspace_core.instances.context import Context

_OWN = frozenset(Type)
_HOST = re.compile(DNS_SUBDOMAIN)
_LONGEST_HOST = 253
_BAD_READY = frozenset(
    {Reason.HELM_RELEASE_FAILED, Reason.CHART_UNREACHABLE, Reason.WAITING_FOR_SECRET, Reason.ROLLED_BACK}
)
_COMMENTARY = Minor(messages_of=frozenset({Type.READY, Type.RECONCILING}))
"""The conditions whose messages repeat Flux's progress. Only a write that changes nothing else may be delayed."""


@attrs.frozen
class StatusFields:
    """The fields of the instance's status other than conditions and times.

    They are the HelmRelease, the charts that were applied and deployed, the endpoints, and the override in force.
    """

    helm_release_ref: ObjectName | None = None
    last_applied_chart: AppliedChart | None = None
    deployed_chart: DeployedChart | None = None
    endpoints: tuple[Endpoint, ...] = ()
    release_override: ReleaseOverride | None = None

    @classmethod
    def of(cls, status: ApplicationInstanceStatus) -> "StatusFields":
        """Return the fields of an instance's `status`."""
        return cls(
            status.helm_release_ref,
            status.last_applied_chart,
            status.deployed_chart,
            tuple(status.endpoints),
            status.release_override,
        )


def own_conditions(status: ApplicationInstanceStatus) -> tuple[Condition, ...]:
    """Return the conditions of types that the operator owns. The operator does not change other conditions (RES-4)."""
    return tuple(condition for condition in status.conditions if condition.type in _OWN)


def endpoints(source: ApplicationInstance, override: ReleaseOverride | None = None) -> tuple[Endpoint, ...]:
    """Return the application's URLs for users: the ingress host, with https if cert-manager is enabled (RES-1).

    They are taken from the effective values: those that `spec.integrations` sets, changed by the inline values of the
    spec, and both changed by the values of `override`, an Upgrade that runs. Values in a Secret or ConfigMap are never
    read, so what they change is not seen here.
    """
    if source.spec.integrations is None or source.spec.integrations.ingress is None:
        return ()
    patch = override.values_patch if override is not None else None
    values = overlay(integration_values(source.spec.integrations), inline_values(source.spec))
    values = merge_patch(values, patch) if patch else values
    host = get_path(values, "ingress", "host")
    if get_path(values, "ingress", "enabled") is not True or not _is_host(host):
        return ()
    scheme = "https" if get_path(values, "certManager", "enabled") is True else "http"
    return (Endpoint(name="ingress", url=f"{scheme}://{host}", type="ingress"),)


def _is_host(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST_HOST and _HOST.fullmatch(text) is not None


def with_status(
    decision: Decision,
    source: ApplicationInstance,
    wanted: Iterable[DesiredCondition],
    fields: StatusFields,
    context: Context,
) -> Decision:
    """Return `decision` with the new status of `source` (the conditions `wanted`, and `fields`) and an Event for each
    condition that changes.

    A change of Reconciling gets no Event if Ready changes too, or if Blocked becomes True. If the status is up to date,
    return the decision unchanged. If only Flux's progress messages differ, the write may be left to a later pass.
    """
    wanted, request = tuple(wanted), request_mark(source.metadata.annotations)
    why = headline(APPLICATION_INSTANCE, wanted, source.metadata.generation)
    if _is_reported(source, wanted, fields, request, why):
        return decision
    live = _live(source)
    change = status_change(
        live,
        wanted,
        {**_fields_json(fields, request), **_reason_of(why)},
        context.now,
        not_compared={"lastReconcileTime": format_time(context.now), **why},
        minor=_COMMENTARY,
    )
    if change is None:
        return decision
    if change.is_minor and (wait := _seconds_until_due(source.status, context)) > 0:
        return attrs.evolve(decision, requeue=decision.requeue.no_later_than(wait))
    return change.added_to(decision, (_event(live, transition) for transition in _stories(change.transitions)))


def _reason_of(why: Mapping[str, str]) -> dict[str, str]:
    """Return the reason in `why`, without its message, for a comparison with the status that ignores messages."""
    return {"reason": why["reason"]} if "reason" in why else {}


def _is_reported(
    source: ApplicationInstance,
    desired: Iterable[DesiredCondition],
    fields: StatusFields,
    request: str | None,
    why: Mapping[str, str],
) -> bool:
    """Report whether the instance's status already has the desired conditions, fields, request and headline.

    The headline (`why`) is the reason and message that best explain the state. This is checked first, because the
    answer is True in the steady state.
    """
    status, generation = source.status, source.metadata.generation
    if status.observed_generation != generation or status.observed_request != request:
        return False
    if (status.reason or "") != why.get("reason", ""):
        return False
    told = StatusFields.of(status)
    if told.release_override is None and fields.release_override is None:
        same = told == fields  # names and texts only
    else:
        same = same_json(_fields_json(told, request), _fields_json(fields, request))
    return same and conditions_equal(desired, own_conditions(status), generation=generation)


def _stories(changes: tuple[Transition, ...]) -> Iterator[Transition]:
    """Yield the transitions in `changes` for which an Event is created (REC-1).

    A transition of Reconciling gets none if Ready changes too, or if Blocked becomes True.
    """
    has_better = any(
        change.condition.type == Type.READY
        or (change.condition.type == Type.BLOCKED and change.condition.status is ConditionStatus.TRUE)
        for change in changes
    )
    yield from (change for change in changes if not (has_better and change.condition.type == Type.RECONCILING))


def _live(source: ApplicationInstance) -> LiveStatus:
    status = source.status
    return LiveStatus.of(
        APPLICATION_INSTANCE,
        source.metadata,
        status.observed_generation,
        own_conditions(status),
        {
            **_fields_json(StatusFields.of(status), status.observed_request),
            **({"reason": status.reason} if status.reason else {}),
        },
    )


def _seconds_until_due(status: ApplicationInstanceStatus, context: Context) -> float:
    """Return the seconds until the instance's status may be written again if only progress messages have changed."""
    if status.last_reconcile_time is None:
        return 0.0
    age = (context.now - datetime.fromisoformat(status.last_reconcile_time)).total_seconds()
    # A clock that was set back must not hold a message for hours.
    interval = context.settings.message_interval_seconds
    return interval - age if 0 <= age < interval else 0.0


def _fields_json(fields: StatusFields, observed_request: str | None) -> dict[str, Any]:
    status: dict[str, Any] = {}
    if observed_request is not None:
        status["observedRequest"] = observed_request
    if fields.helm_release_ref is not None:
        ref = fields.helm_release_ref
        status["helmReleaseRef"] = {"name": ref.name, "namespace": ref.namespace}
    if fields.last_applied_chart is not None:
        chart = fields.last_applied_chart
        status["lastAppliedChart"] = {
            "sourceType": chart.source_type.value,
            "url": chart.url,
            "name": chart.name,
            "version": chart.version,
        }
    if fields.deployed_chart is not None:
        status["deployedChart"] = {"name": fields.deployed_chart.name, "version": fields.deployed_chart.version}
    if fields.endpoints:
        status["endpoints"] = [{"name": e.name, "url": e.url, "type": e.type} for e in fields.endpoints]
    if fields.release_override is not None:
        status["releaseOverride"] = _override(fields.release_override)
    return status


def _override(override: ReleaseOverride | ReplacedOverride) -> Mapping[str, Any]:
    body: dict[str, Any] = {"operation": override.operation, "uid": override.uid, "specHash": override.spec_hash}
    if override.version is not None:
        body["version"] = override.version
    if override.values_patch is not None:
        body["valuesPatch"] = override.values_patch
    if isinstance(override, ReleaseOverride) and override.replaced is not None:
        body["replaced"] = _override(override.replaced)
    return body


def _event(live: LiveStatus, change: Transition) -> KubernetesEvent:
    """Return the Event about `change`, a transition of a condition (REC-1).

    If the transition confirms a release, the Event's reason is `ReleaseReady` (PULL-2).
    """
    condition = change.condition
    reason = "ReleaseReady" if condition.reason == Reason.HELM_RELEASE_READY else ""
    bad = condition.reason in _BAD_READY if condition.type == Type.READY else is_bad(condition)
    return event_of(change, live, warning=bad, reason=reason)
