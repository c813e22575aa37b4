"""What stopped a pass, said on the object itself, whatever it was: a missing right, a defect, an object that no rule
can read (REC-13, RES-4).

`obstructed` works on the raw manifest: it has to hold where reading or deciding is what failed. Everything that the
status says beside is kept as it stands.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import attrs

from vworkspace_core.api.codec import structure
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.api.operation import headline
from vworkspace_core.api.remedies import not_permitted
from vworkspace_core.api.vocabulary import owned_types
from vworkspace_core.apimachinery.conditions import Wanted, merge_conditions, same_but_times, transitions
from vworkspace_core.apimachinery.errors import Forbidden, OperatorError, Right
from vworkspace_core.apimachinery.manifest import Kind, Manifest, dig, metadata, ref_of
from vworkspace_core.apimachinery.meta import Condition, ConditionStatus, condition_json
from vworkspace_core.apimachinery.names import bounded_name
from vworkspace_core.apimachinery.nesting import LEVELS
from vworkspace_core.apimachinery.problems import ValidationProblems
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.apimachinery.secret_material import safe
from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_core.controller.decision import Decision
from vworkspace_core.ports import KubernetesEvent

_LONGEST: Final = 4096
_LOG_LINE: Final = " The log line with reconcile_id "


class Cause(StrEnum):
    """What kind of obstacle stopped the pass: the reason of the condition that says so, but for the last."""

    FORBIDDEN = "Forbidden"
    INTERNAL_ERROR = "InternalError"
    TOO_DEEP = "ValidationFailed"
    """The object itself: nested so deeply that it cannot be judged."""
    PASSING = "Passing"
    """Nothing that has to be said while the status speaks of this generation: it is tried again."""


@attrs.frozen
class Obstacle:
    """What stopped a pass, for people. `log_id` names the line of the log that holds more."""

    cause: Cause
    message: str
    log_id: str = ""
    right: Right | None = None
    """The one that is missing."""

    @property
    def text(self) -> str:
        """The whole message."""
        return f"{self.message}{_LOG_LINE}{self.log_id} has more." if self.log_id else self.message


def obstacle_of(error: Exception, log_id: str = "", *, passing: bool = False) -> Obstacle:
    """What an error that ended a pass means for the object. `passing`: it is one of the network, or of time."""
    if isinstance(error, Forbidden) and error.right is not None:
        return Obstacle(Cause.FORBIDDEN, not_permitted(error.right), right=error.right)
    if isinstance(error, OperatorError):
        return Obstacle(Cause.PASSING if passing else Cause.INTERNAL_ERROR, f"{error.message}; tried again", log_id)
    if isinstance(error, RecursionError):
        return Obstacle(Cause.TOO_DEEP, f"the object is nested too deeply to be judged: at most {LEVELS} levels")
    told = f"a defect of the operator stopped this pass ({type(error).__name__}); it is tried again."
    return Obstacle(Cause.INTERNAL_ERROR, told, log_id)


def obstructed(kind: Kind, manifest: Manifest, obstacle: Obstacle, cluster_id: str, now: datetime) -> Decision:
    """The status that tells the obstacle, with its Event; empty where it stands already or is not ours to write."""
    if kind not in (APPLICATION_INSTANCE, OPERATION) or not _is_ours(manifest, cluster_id):
        return Decision()
    before = tuple(_own(kind, manifest))
    generation = int(metadata(manifest).get("generation") or 0)
    if obstacle.cause is Cause.PASSING and before and dig(manifest, "status", "observedGeneration") == generation:
        return Decision()
    wanted = {one.type: _kept(one) for one in before} | {one.type: one for one in _says(kind, before, obstacle)}
    order = [wanted[name] for name in owned_types(kind.kind) if name in wanted]
    after = merge_conditions(before, order, generation=generation, now=format_time(now))
    if same_but_times(before, after) and dig(manifest, "status", "observedGeneration") == generation:
        return Decision()
    changed = transitions(before, after)
    events = tuple(
        _event(kind, manifest, change.condition)
        for change in changed
        if change.condition.type in ("Blocked", "Ready", "Accepted")
    )
    return Decision(status=_status(kind, manifest, after, now), transitions=changed, events=events)


def _is_ours(manifest: Manifest, cluster_id: str) -> bool:
    labels = dig(manifest, "metadata", "labels")
    if dig(labels, MANAGED_BY) != MANAGED_BY_VALUE:
        return False
    return dig(labels, CLUSTER_ID) in (None, "", bounded_name(cluster_id))


def _own(kind: Kind, manifest: Manifest) -> Iterator[Condition]:
    """The conditions of our types as they stand, those that make no sense left out."""
    found, own = dig(manifest, "status", "conditions"), owned_types(kind.kind)
    for one in found if isinstance(found, list) else ():
        try:
            condition = structure(Condition, one)
        except ValidationProblems:
            continue
        if condition.type in own:
            yield condition


def _kept(condition: Condition) -> Wanted:
    generation = condition.observed_generation or 0
    return Wanted(condition.type, condition.status, condition.reason, condition.message, generation)


def _says(kind: Kind, before: tuple[Condition, ...], obstacle: Obstacle) -> Iterator[Wanted]:
    """What is new, kind by kind: that nothing goes on, and why."""
    stands = {one.type: one for one in before}
    true, false, unknown = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
    text, passing = safe(obstacle.text, _LONGEST), obstacle.cause is Cause.PASSING
    if kind == APPLICATION_INSTANCE:
        if "Ready" not in stands:
            unready = Wanted("Ready", false, "NotDeployed", text)
            yield Wanted("Ready", unknown, "Reconciling", text) if passing else unready
        stable = Wanted("Reconciling", false, "Stable", f"blocked: {obstacle.cause}")
        yield Wanted("Reconciling", true, "HelmReleaseInstalling", text) if passing else stable
    elif "Running" not in stands:
        yield Wanted("Running", false, "EngineNotStarted", text if passing else "")
    if obstacle.cause is Cause.TOO_DEEP and kind != APPLICATION_INSTANCE:
        yield Wanted("Accepted", false, obstacle.cause, _unless_only_the_line_differs(stands.get("Accepted"), text))
    elif not passing:
        yield Wanted("Blocked", true, obstacle.cause, _unless_only_the_line_differs(stands.get("Blocked"), text))


def _unless_only_the_line_differs(before: Condition | None, text: str) -> str:
    """The message that stands, where only the id of the log line would change: each retry would be a write."""
    if before is not None and before.message.partition(_LOG_LINE)[0] == text.partition(_LOG_LINE)[0]:
        return before.message
    return text


def _status(kind: Kind, manifest: Manifest, conditions: tuple[Condition, ...], now: datetime) -> dict[str, Any]:
    """The whole apply configuration for `/status`, with the resourceVersion it was decided on (REC-6)."""
    meta = metadata(manifest)
    found = manifest.get("status")
    status = dict(found) if isinstance(found, Mapping) else {}
    status["observedGeneration"] = int(meta.get("generation") or 0)
    status["conditions"] = [condition_json(condition) for condition in conditions]
    if kind == APPLICATION_INSTANCE:
        status["lastReconcileTime"] = format_time(now)
    else:
        status.setdefault("phase", "Pending")
        status |= headline(conditions)
    ref = ref_of(manifest, kind)
    body = kind.manifest(ref.name, ref.namespace)
    body["metadata"]["resourceVersion"] = meta.get("resourceVersion", "")
    return {**body, "status": status}


def _event(kind: Kind, manifest: Manifest, condition: Condition) -> KubernetesEvent:
    return KubernetesEvent(
        regarding=ref_of(manifest, kind),
        regarding_uid=str(metadata(manifest).get("uid", "")),
        type="Normal" if condition.type == "Ready" else "Warning",
        reason=condition.reason,
        action="Reconcile",
        note=f"{condition.type} is {condition.status}: {condition.message}".removesuffix(": "),
    )
