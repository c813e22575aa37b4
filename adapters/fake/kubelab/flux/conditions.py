"""Status conditions by the rules of the library that both Flux controllers share (fluxcd/pkg, `runtime` 0.110.1).

Three of these rules mislead readers of a status and are imitated on purpose. A condition's `lastTransitionTime` also
changes with its reason and message. Its `observedGeneration` is always the generation of the object to which it is
written. A write merges into the object in whatever generation it has by then.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.timestamps import format_time

FluxCondition: TypeAlias = Mapping[str, Any]

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
RELEASED: Final = "Released"
REMEDIATED: Final = "Remediated"
TEST_SUCCESS: Final = "TestSuccess"
DRIFTED: Final = "Drifted"
FETCH_FAILED: Final = "FetchFailed"
BUILD_FAILED: Final = "BuildFailed"
STORAGE_OPERATION_FAILED: Final = "StorageOperationFailed"
ARTIFACT_OUTDATED: Final = "ArtifactOutdated"
ARTIFACT_IN_STORAGE: Final = "ArtifactInStorage"
SOURCE_VERIFIED: Final = "SourceVerified"

# conditions/setter.go, lexicographicLess: the order matters, since a summary may copy the first condition.
_FIRST: Final = {STALLED: 0, RECONCILING: 1, READY: 2}
# The maximum of metav1.Condition (apimachinery: pkg/apis/meta/v1/types.go).
_MAX_MESSAGE: Final = 32768


def condition(manifest: Manifest, type_: str) -> FluxCondition | None:
    """Return the condition of the type `type_` of the object `manifest`, or None if it has no such condition."""
    return next((item for item in conditions_of(manifest) if item.get("type") == type_), None)


def status_of(manifest: Manifest, type_: str) -> str:
    """Return the status of the condition of type `type_` of the object `manifest`.

    This is `True`, `False` or `Unknown`, or an empty string if the object has no such condition.
    """
    flux_condition = condition(manifest, type_)
    return "" if flux_condition is None else str(flux_condition["status"])


def is_stalled(manifest: Manifest) -> bool:
    """Report whether the object `manifest` has the condition Stalled=True, and not also Reconciling=True."""
    # If both are True, the object is neither (conditions/getter.go, IsStalled and IsReconciling).
    return status_of(manifest, STALLED) == "True" and status_of(manifest, RECONCILING) != "True"


def is_reconciling(manifest: Manifest) -> bool:
    """Report whether the object `manifest` has the condition Reconciling=True, and not also Stalled=True."""
    return status_of(manifest, RECONCILING) == "True" and status_of(manifest, STALLED) != "True"


def is_ready(manifest: Manifest) -> bool:
    """Report whether the object `manifest` is ready by Flux's own rule.

    It is if it has Ready=True, and is neither stalled nor reconciling.
    """
    return status_of(manifest, READY) == "True" and not is_stalled(manifest) and not is_reconciling(manifest)


def _order(item: FluxCondition) -> tuple[int, int, int, str]:
    type_ = item["type"]
    if type_ in _FIRST:
        return (0, _FIRST[type_], 0, "")
    return (1, 0, -int(item.get("observedGeneration", 0)), type_)


def with_condition(
    conditions: Sequence[FluxCondition], new: FluxCondition, *, generation: int, now: datetime
) -> list[FluxCondition]:
    """Return `conditions` with `new` added, in place of the condition of the same type if there is one.

    The result is sorted as Flux sorts it: Stalled, Reconciling and Ready come first. `generation` becomes the
    `observedGeneration` of the new condition. Its `lastTransitionTime` becomes `now` if its status, reason or message
    differs from that of the replaced condition.
    """
    old = next((item for item in conditions if item["type"] == new["type"]), None)
    # The time changes with the reason and the message, too, contrary to the API conventions (conditions/setter.go,
    # hasSameState).
    moved = now if old is None or any(old.get(key) != new.get(key) for key in ("status", "reason", "message")) else None
    changed = format_time(moved) if moved is not None else (old or {})["lastTransitionTime"]
    if old is None and new.get("lastTransitionTime"):
        changed = new["lastTransitionTime"]
    # The schema of every CRD with metav1.Condition refuses a longer message.
    message = new["message"] if len(new["message"]) <= _MAX_MESSAGE else new["message"][: _MAX_MESSAGE - 3] + "..."
    entry = {
        "type": new["type"],
        "status": new["status"],
        "reason": new["reason"],
        "message": message,
        "lastTransitionTime": changed,
        "observedGeneration": generation,
    }
    return sorted([*without_condition(conditions, new["type"]), entry], key=_order)


def without_condition(conditions: Sequence[FluxCondition], type_: str) -> list[FluxCondition]:
    """Return `conditions` without the condition of the type `type_`."""
    return [item for item in conditions if item["type"] != type_]


def merge_conditions(
    latest: Manifest, before: Sequence[FluxCondition], after: Sequence[FluxCondition], now: datetime
) -> list[FluxCondition]:
    """Return the conditions of `latest`, the live object, with the changes that a controller made from `before` to
    `after`.

    `now` is the time of the merge. Each changed condition takes the *latest* generation: an upgrade that began at
    generation 1 and ends after a change of the spec reports Ready at generation 2 (helm-controller, comment in
    `internal/reconcile/state.go`).
    """
    generation = int(get_path(latest, "metadata", "generation") or 0)
    known = {item["type"]: item for item in before}
    merged: list[FluxCondition] = conditions_of(latest)
    for item in after:
        # Conditions that this pass did not change keep what others wrote meanwhile (conditions/patch.go, Apply).
        if known.get(item["type"]) != item:
            merged = with_condition(merged, item, generation=generation, now=now)
    for type_ in known.keys() - {item["type"] for item in after}:
        merged = without_condition(merged, type_)
    return merged


def _priority(item: FluxCondition, negative: frozenset[str]) -> int:
    # conditions/merge.go, mergePriority.
    ranks = {("True", True): 0, ("False", False): 1, ("True", False): 2, ("False", True): 3}
    return ranks.get((item["status"], item["type"] in negative), 4)


def summarize(
    conditions: Sequence[FluxCondition], scope: Sequence[str], negative: frozenset[str]
) -> tuple[str, str, str] | None:
    """Return the status, reason and message that source-controller's condition Ready derives from `conditions`.

    Only conditions with a type in `scope` count; return None if there is none. For the types in `negative`, True is
    bad; for all others, False is bad. The worst condition decides. If several are equally bad, the one whose type comes
    first in `scope` decides.
    """
    considered = [item for item in conditions if item["type"] in scope]
    if not considered:
        return None
    worst = min(_priority(item, negative) for item in considered)
    group = [item for item in considered if _priority(item, negative) == worst]
    top = min(group, key=lambda item: scope.index(item["type"]))
    status = {0: "False", 1: "False", 2: "True", 3: "True"}.get(worst, "Unknown")
    return status, str(top["reason"]), str(top["message"])
