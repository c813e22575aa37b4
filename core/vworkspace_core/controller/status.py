"""The one writer of statuses, and of the Events about them (REC-1, REC-6 c, REC-7, RES-4).

Each kind says which conditions and which other fields its status is to have. Whether that is anything new, and what is
written then, is decided here for all of them: two statuses say the same when they differ only in times.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import attrs

from vworkspace_core.apimachinery.conditions import (
    Transition,
    Wanted,
    are_there,
    merge_conditions,
    same_but_times,
    transitions,
)
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, same_json
from vworkspace_core.apimachinery.meta import Condition, condition_json
from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_core.controller.decision import Decision
from vworkspace_core.ports import KubernetesEvent


@attrs.frozen
class LiveStatus:
    """The status that an object has, as far as a new one is compared with it.

    `conditions` are those of the types that the operator owns; it leaves others alone. `fields` is JSON: everything
    but conditions, `observedGeneration`, and times that only say when the status was written.
    """

    ref: ObjectRef
    resource_version: str
    generation: int
    observed_generation: int | None
    conditions: tuple[Condition, ...]
    fields: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Minor:
    """Differences that may wait, so that a running commentary does not become a stream of writes."""

    messages_of: frozenset[str] = frozenset()
    """Types of conditions whose message may differ."""
    fields: frozenset[str] = frozenset()


_NONE = Minor()


@attrs.frozen
class StatusChange:
    """A status that says something new: the whole apply configuration for `/status`, and which conditions changed.

    The manifest has the resourceVersion that it was decided on, so that a stale one is refused (REC-6).
    """

    manifest: Manifest
    transitions: tuple[Transition, ...]
    is_minor: bool
    """Nothing differs but what was called minor."""

    def added_to(self, decision: Decision, events: Iterable[KubernetesEvent]) -> Decision:
        """`decision` with this status, and `events` behind its own."""
        return attrs.evolve(
            decision, status=self.manifest, transitions=self.transitions, events=(*decision.events, *events)
        )


def status_change(
    live: LiveStatus,
    wanted: Iterable[Wanted | Condition],
    fields: Mapping[str, Any],
    now: datetime,
    *,
    not_compared: Mapping[str, Any] | None = None,
    minor: Minor = _NONE,
    write_condition: Callable[[Condition], Mapping[str, Any]] = condition_json,
) -> StatusChange | None:
    """What to write so that the status has the conditions `wanted` and `fields`; None where it says so already.

    `not_compared` is written beside and is no reason to write, such as the time of the last write.
    """
    wanted = tuple(wanted)
    if _is_there(live, wanted, fields):
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
    is_minor = minor is not _NONE and _says_the_same(live, conditions, fields, minor)
    return StatusChange(manifest, transitions(live.conditions, conditions), is_minor)


def _is_there(live: LiveStatus, wanted: Iterable[Wanted | Condition], fields: Mapping[str, Any]) -> bool:
    """Whether the status says so already. Asked before anything is built: in the steady state the answer is yes."""
    return (
        live.observed_generation == live.generation
        and are_there(wanted, live.conditions, generation=live.generation)
        and same_json(live.fields, fields)
    )


def _says_the_same(
    live: LiveStatus, conditions: tuple[Condition, ...], fields: Mapping[str, Any], minor: Minor
) -> bool:
    return (
        live.observed_generation == live.generation
        and same_but_times(live.conditions, conditions, but_messages_of=minor.messages_of)
        and same_json(_without(live.fields, minor.fields), _without(fields, minor.fields))
    )


def _without(fields: Mapping[str, Any], names: frozenset[str]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if name not in names} if names else fields


def event_of(
    change: Transition, regarding: ObjectRef, uid: str, *, warning: bool, reason: str = "", action: str = "Reconcile"
) -> KubernetesEvent:
    """The Kubernetes Event that tells a transition, under the condition's reason or another one (REC-1)."""
    condition = change.condition
    return KubernetesEvent(
        regarding=regarding,
        regarding_uid=uid,
        type="Warning" if warning else "Normal",
        reason=reason or str(condition.reason),
        action=action,
        note=f"{condition.type} is {condition.status}: {condition.message}".removesuffix(": "),
    )
