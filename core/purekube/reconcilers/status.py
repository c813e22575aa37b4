"""The status that is written after a call of a reconciler: the fields and conditions that it returned, and the standard
conditions (Ready, Reconciling, Stalled).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from purekube.apimachinery.conditions import READY, STALLED, DesiredCondition, Transition
from purekube.apimachinery.manifest import Manifest, get_path, metadata, ref_of, same_json
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.structuring import read_own_conditions
from purekube.controller.decision import Decision
from purekube.controller.managed_fields import StatusOwner
from purekube.controller.status import LiveStatus, event_of, is_bad, status_change
from purekube.ports import KubernetesEvent
from purekube.reconcilers.controllers import (
    STANDARD,
    AnyController,
    Feature,
    Reconciler,
    features_of,
    kind_of,
    manager_of,
    resource_of,
)
from purekube.reconcilers.outcome import FAILED, TIMED_OUT
from purekube.reconcilers.request import Result

_ENGINE: Final = ("observedGeneration", "conditions")
_TOLD: Final = (READY, STALLED)
"""The types of conditions whose changes are reported by an Event."""
_BAD: Final = (FAILED, TIMED_OUT)


def status_owner(controller: AnyController) -> StatusOwner:
    """Return the field manager that writes the status of the controller's objects, with the condition types that it
    owns.
    """
    return StatusOwner(manager_of(controller), {kind_of(controller): frozenset(condition_types(controller))})


def condition_types(controller: AnyController) -> tuple[str, ...]:
    """Return the condition types that only the controller writes: the standard ones, then those that a reconciler
    declares in its attribute `conditions`.
    """
    own = controller.conditions if isinstance(controller, Reconciler) else ()
    return (*STANDARD, *own)


def is_ready(manifest: Manifest) -> bool:
    """Report whether the object is Ready at its current generation."""
    generation, status = get_path(manifest, "metadata", "generation"), manifest.get("status")
    if generation is None or get_path(status, "observedGeneration") != generation:
        return False
    ready = next(
        (condition for condition in get_path(status, "conditions") or () if get_path(condition, "type") == READY), None
    )
    return bool(get_path(ready, "status") == "True" and get_path(ready, "observedGeneration") == generation)


def status_to_write(
    controller: AnyController,
    manifest: Manifest,
    conditions: tuple[DesiredCondition, ...] | None,
    result: Result[Any] | None,
    generation: int,
    now: datetime,
) -> Decision | None:
    """Return a decision that writes the status of the object `manifest`; None if no write is needed.

    `conditions` are the object's conditions after the call of the user's reconcile function, None if the object is
    about to be removed. `result` is what the function returned, None if it failed; the status then keeps its fields.
    `generation` is the reconciled generation, and `now` the time for new conditions.
    """
    resource = resource_of(controller)
    if resource is None or not isinstance(controller, Reconciler) or conditions is None:
        return None
    before = _fields_before(controller, manifest)
    status = None if result is None else result.status
    fields = before if status is None else resource.status_json(status)
    if Feature.CONDITIONS not in features_of(controller):
        return None if status is None else _fields_only(controller, manifest, before, fields)
    live = _live(controller, manifest, before, generation)
    kept = (condition for condition in live.conditions if condition.type not in STANDARD) if result is None else ()
    change = status_change(live, (*conditions, *kept), fields, now)
    if change is None:
        return None
    return change.added_to(Decision(), _events(live, change.transitions))


def _fields_before(controller: AnyController, manifest: Manifest) -> Mapping[str, Any]:
    """Return the present fields of the status, without conditions and without fields that another manager holds."""
    status = manifest.get("status")
    held = status_owner(controller).held_fields(manifest)
    fields = status if isinstance(status, Mapping) else {}
    return {name: value for name, value in fields.items() if name not in _ENGINE and name not in held}


def _live(controller: AnyController, manifest: Manifest, fields: Mapping[str, Any], generation: int) -> LiveStatus:
    ours = status_owner(controller).without_foreign_conditions(manifest)
    return LiveStatus(
        ref_of(manifest, kind_of(controller)),
        str(metadata(manifest).get("resourceVersion", "")),
        generation,
        get_path(manifest, "status", "observedGeneration"),
        read_own_conditions(ours, condition_types(controller)),
        fields,
        str(metadata(manifest).get("uid", "")),
    )


def _fields_only(
    controller: AnyController, manifest: Manifest, before: Mapping[str, Any], fields: Mapping[str, Any]
) -> Decision | None:
    """Return a decision that writes only `fields`, no conditions and no observed generation.

    Return None if the present fields, `before`, already have these values.
    """
    # An empty field is left out of `fields`: it is then to be removed.
    names = resource.status_fields if (resource := resource_of(controller)) is not None else ()
    if all(same_json(before.get(name), fields.get(name)) for name in names):
        return None
    ref = ref_of(manifest, kind_of(controller))
    body = ref.kind.manifest(ref.name, ref.namespace)
    body["metadata"]["resourceVersion"] = metadata(manifest).get("resourceVersion")
    return Decision(status={**body, "status": dict(fields)})


def _events(live: LiveStatus, changes: tuple[Transition, ...]) -> Iterator[KubernetesEvent]:
    for change in changes:
        condition, is_true = change.condition, change.condition.status is ConditionStatus.TRUE
        failed = condition.type == READY and condition.reason in _BAD
        was = None if change.previous is None else change.previous.status
        is_news = is_true or failed or (was is not None and (condition.type == READY or was is ConditionStatus.TRUE))
        if condition.type in _TOLD and is_news:
            yield event_of(change, live, warning=failed or is_bad(condition))
