"""The statuses to write, and the Events about them, computed in one place for all kinds (REC-1, REC-6 c, REC-7, RES-4).

Each kind chooses the conditions and other fields of its status. This module decides whether these differ from the live
status, and what is written then. Statuses that differ only in times are equal.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import (
    DesiredCondition,
    Transition,
    conditions_equal,
    merge_conditions,
    same_but_times,
    transitions,
)
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, same_json
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectMeta, condition_json
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import Decision
from purekube.ports import KubernetesEvent

BAD_WHEN_TRUE: Final = frozenset({"Blocked", "Stalled", "Degraded", "Failed"})
"""The types of conditions, of any kind, that report trouble while they are True."""


def is_bad(condition: Condition) -> bool:
    """Report whether a condition reports trouble, so that its Event and its log line are warnings.

    This is so if Accepted is False, or if one of the types in `BAD_WHEN_TRUE`, such as Stalled, is True.
    """
    refused = condition.type == "Accepted" and condition.status is ConditionStatus.FALSE
    return refused or (condition.type in BAD_WHEN_TRUE and condition.status is ConditionStatus.TRUE)


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None  # another writer may have put anything there


@attrs.frozen
class LiveStatus:
    """The part of an object's present status that is compared with a new status.

    `conditions` are the conditions of the types that the operator owns. `fields` is JSON: everything except conditions,
    `observedGeneration`, and times that only say when the status was written.
    """

    ref: ObjectRef
    resource_version: str
    generation: int
    observed_generation: int | None = attrs.field(converter=_integer)
    conditions: tuple[Condition, ...]
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    uid: str = ""

    @classmethod
    def of(
        cls,
        kind: Kind,
        meta: ObjectMeta,
        observed: object,
        conditions: tuple[Condition, ...],
        fields: Mapping[str, Any],
    ) -> "LiveStatus":
        """Return the present status of the object with this metadata; `observed` is its `observedGeneration`.

        `conditions` and `fields` have the same meaning as in `LiveStatus`.
        """
        ref = ObjectRef(kind, meta.namespace or None, meta.name)
        return cls(ref, meta.resource_version, meta.generation, observed, conditions, fields, meta.uid)


@attrs.frozen
class Minor:
    """The parts of a status whose changes may be written later, so that progress messages do not cause many writes.

    These are the messages of conditions of the types in `messages_of`, and the status fields named in `fields`.
    """

    messages_of: frozenset[str] = frozenset()
    """The types of conditions whose changed messages may be written later."""
    fields: frozenset[str] = frozenset()


_NONE = Minor()


@attrs.frozen
class StatusChange:
    """A status to write: the apply configuration for `/status`, and the conditions that change.

    The manifest carries the resourceVersion of the object from which it was computed. The server refuses the write as
    Stale if the object has changed since (REC-6).
    """

    manifest: Manifest
    transitions: tuple[Transition, ...]
    is_minor: bool
    """True if the new status differs from the live one only in parts that may be written later (`Minor`)."""

    def added_to(self, decision: Decision, events: Iterable[KubernetesEvent]) -> Decision:
        """Return `decision` with this status, and with `events` after the decision's own.

        If the status has Reconciling True, the `events` that are not warnings are marked as about unfinished work
        (`is_progress`).
        """
        if self._is_reconciling:
            events = (attrs.evolve(event, is_progress=event.type == "Normal") for event in events)
        return attrs.evolve(
            decision, status=self.manifest, transitions=self.transitions, events=(*decision.events, *events)
        )

    @property
    def _is_reconciling(self) -> bool:
        conditions = self.manifest["status"]["conditions"]
        return any(each["type"] == "Reconciling" and each["status"] == "True" for each in conditions)


def status_change(
    live: LiveStatus,
    wanted: Iterable[DesiredCondition | Condition],
    fields: Mapping[str, Any],
    now: datetime,
    *,
    not_compared: Mapping[str, Any] | None = None,
    minor: Minor = _NONE,
    write_condition: Callable[[Condition], Mapping[str, Any]] = condition_json,
) -> StatusChange | None:
    """Return the change that gives the status the conditions `wanted` and the `fields`; None if it has both already.

    `live` is the present status. `not_compared` holds fields that are written with a change but cause none, such as the
    time of the last write. `minor` names the parts whose change may be written later (`StatusChange.is_minor`).
    `write_condition` returns a condition as JSON.
    """
    wanted = tuple(wanted)
    if _is_current(live, wanted, fields):
        return None
    conditions = merge_conditions(live.conditions, wanted, generation=live.generation, now=format_time(now))
    manifest = live.ref.kind.manifest(live.ref.name, live.ref.namespace)
    manifest["metadata"]["resourceVersion"] = live.resource_version
    manifest["status"] = {
        "observedGeneration": live.generation,
        "conditions": [write_condition(condition) for condition in conditions],
        **(not_compared or {}),
        **fields,
    }
    is_minor = minor is not _NONE and _is_equal(live, conditions, fields, minor)
    return StatusChange(manifest, transitions(live.conditions, conditions), is_minor)


def _is_current(live: LiveStatus, desired: Iterable[DesiredCondition | Condition], fields: Mapping[str, Any]) -> bool:
    """Report whether the live status already has the desired conditions and fields for the current generation."""
    return (
        live.observed_generation == live.generation
        and conditions_equal(desired, live.conditions, generation=live.generation)
        and same_json(live.fields, fields)
    )


def _is_equal(live: LiveStatus, conditions: tuple[Condition, ...], fields: Mapping[str, Any], minor: Minor) -> bool:
    return (
        live.observed_generation == live.generation
        and same_but_times(live.conditions, conditions, but_messages_of=minor.messages_of)
        and same_json(_without(live.fields, minor.fields), _without(fields, minor.fields))
    )


def _without(fields: Mapping[str, Any], names: frozenset[str]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if name not in names} if names else fields


def event_of(
    change: Transition, live: LiveStatus, *, warning: bool | None = None, reason: str = "", action: str = "Reconcile"
) -> KubernetesEvent:
    """Return the Kubernetes Event for `change`, the transition of a condition of the object with the status `live`
    (REC-1).

    `warning` makes the Event's type `Warning`; by default it is one for a bad condition. `reason`, if given, replaces
    the condition's reason. `action` is the Event's field of that name.
    """
    condition = change.condition
    return KubernetesEvent(
        regarding=live.ref,
        regarding_uid=live.uid,
        type="Warning" if (is_bad(condition) if warning is None else warning) else "Normal",
        reason=reason or str(condition.reason),
        action=action,
        note=f"{condition.type} is {condition.status}: {condition.message}".removesuffix(": "),
    )
