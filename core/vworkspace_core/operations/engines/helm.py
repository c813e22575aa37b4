"""The engine `helm`: an upgrade of the target's Helm release to another chart version or other values (OPS-9).

It creates no object. A running Operation of this engine becomes the release override (the requested chart version or
values) of its target, an ApplicationInstance (REC-9, module `operations.override`). The target's reconcile remains the
only writer of the HelmRelease; it also judges Flux's result for exactly the requested release. This engine reads that
result from the target's status.
"""

from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import ObjectRef, canonical_json, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.resources import HELM_RELEASE
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.operation import LogsRef, Operation, OperationType
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.release_override import ineffective_removals, is_overtaken, spec_hash, summed_patch
from vworkspace_core.api.remedies import FLUX
from vworkspace_core.operations.conflicts import first_ahead
from vworkspace_core.operations.contract import (
    OPERATION_UID,
    DemoOperation,
    Engine,
    EngineContext,
    EngineController,
    EngineRefusal,
    EngineStatus,
    EngineTemplate,
    Objects,
    Progress,
    Row,
    always,
)
from vworkspace_core.operations.identity import conditions_of, parameters_of, target_of, target_ref
from vworkspace_core.operations.parameter_schemas import SEMVER, record, with_description
from vworkspace_core.operations.settings import OperationSettings

SPEC_HASH: Final = "specHash"
"""The name of the output, in the Operation's status, with the hash of the target's chart and values at the start.

If chart or values in the target's spec change later, they replace what the Operation requested.
"""

_RUNNING, _SUCCEEDED, _FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED


def _when(condition: str, progress: Progress, reason: str, meaning: str, shown: str = "") -> Row:
    """Return the row for a condition of the target while the Operation's change of the release (override) is in force.

    `condition` is `type=status`, followed by a reason if the row holds only for that one; `shown` is the reason in the
    sample otherwise.
    """
    kind, _, rest = condition.partition("=")
    status, _, only = rest.partition(" ")
    moment = {"message": "", "lastTransitionTime": "2026-06-01T12:00:00Z", "observedGeneration": 1}
    conditions = [{"type": kind, "status": status, "reason": only or shown, **moment}]
    held = {"operation": "(name of the Operation)", "uid": OPERATION_UID, "specHash": "(hash of its spec)"}
    return Row(condition, progress, reason, meaning, {"status": {"releaseOverride": held, "conditions": conditions}})


_READY: Final = _when(
    "Ready=True", _SUCCEEDED, "HelmReleaseReady", "Flux confirmed that very release", "HelmReleaseReady"
)
_FAILED_ROW: Final = _when("Ready=False HelmReleaseFailed", _FAILED, "UpgradeFailed", "the override lapses")
_ROLLED_BACK: Final = _when(
    "Ready=False RolledBack", _FAILED, "UpgradeFailed", "Flux has gone back; the override lapses"
)
_FORBIDDEN: Final = _when(
    "Degraded=True ForbiddenVersionOverride", _FAILED, "ForbiddenVersion", "the cluster's policy forbids that version"
)
_DELETED: Final = Row(
    "deleted, or being deleted",
    _FAILED,
    "TargetDeleted",
    "the target is gone or going: there is nothing to upgrade",
    {"metadata": {"deletionTimestamp": "2026-06-01T12:00:00Z"}},
)
_NEW_INTENT: Final = Row(
    "chart or values changed",
    _FAILED,
    "SpecChanged",
    "new intent wins over the upgrade",
    {"spec": {"values": {"source": "inline", "inline": {"changed": True}}}},
)
_SUSPENDED: Final = _when(
    "Suspended=True", _RUNNING, "HelmReleaseSuspended", "the release was suspended meanwhile", "ManuallySuspended"
)
_BLOCKED: Final = _when(
    "Blocked=True", _RUNNING, "TargetBlocked", "the target says what is in its way", "FieldConflict"
)
_WAITING: Final = Row(
    "",
    _RUNNING,
    "HelmReleaseUpgrading",
    "the target has not taken it up, or Flux is at work",
    {"status": {"conditions": []}},
)

TABLE: Final = (_DELETED, _NEW_INTENT, _WAITING, _FORBIDDEN, _SUSPENDED, _BLOCKED, _READY, _FAILED_ROW, _ROLLED_BACK)
"""The engine's table: what the state of the target (an ApplicationInstance) means for the run of the Operation.

The phase of a row is a condition of the target, or a change of the target. Except for Blocked, conditions count only
while the target's `status.releaseOverride` is this Operation's.
"""


def _check(operation: Operation, target: ApplicationInstance, context: EngineContext) -> EngineRefusal | None:
    spec = target.spec
    if spec.mode is Mode.PLACEHOLDER or spec.chart is None or spec.release is None:
        return EngineRefusal(Reason.VALIDATION_FAILED, "spec.targetRef.name: a placeholder has no release to upgrade")
    if spec.suspend or _is_true(conditions_of(target), Type.SUSPENDED):
        return EngineRefusal(
            Reason.TARGET_NOT_READY, "the target is suspended: an upgrade would not happen", blocks=True
        )
    patch = parameters_of(operation).get("valuesPatch")
    return _check_patch(operation, target, patch, context) if isinstance(patch, Mapping) else None


def _check_patch(
    operation: Operation, target: ApplicationInstance, patch: Mapping[str, Any], context: EngineContext
) -> EngineRefusal | None:
    path = "spec.parameters.valuesPatch"
    removal = next(ineffective_removals(target, patch, path), None)
    # What an Operation that comes before it sets can be removed afterwards.
    if removal is not None and first_ahead(operation, context.siblings) is None:
        message = (
            f"{removal}: null removes nothing, since the target's values come from {_place_of_values(target)}; change "
            "it there, or give the value that it should have"
        )
        return EngineRefusal(Reason.VALIDATION_FAILED, message)
    limit = context.settings.admission.max_parameters_bytes
    if (size := len(canonical_json(summed_patch(target, patch)))) > limit:
        message = (
            f"{path}: with the patches of earlier Operations it has {size} bytes as JSON, at most "
            f"{limit} are taken; put what they changed into the instance's own values"
        )
        return EngineRefusal(Reason.VALIDATION_FAILED, message)
    return None


def _place_of_values(target: ApplicationInstance) -> str:
    reference = None if target.spec.values is None else target.spec.values.reference
    return "a reference" if reference is None else f"{reference[0]} {reference[1].name}"


def _releases_of(target: ApplicationInstance) -> tuple[ObjectRef, ...]:
    release = target.spec.release
    return () if release is None else (ObjectRef(HELM_RELEASE, target.metadata.namespace, release.name),)


def _looks_up(_operation: Operation, target: ApplicationInstance, _: OperationSettings) -> tuple[ObjectRef, ...]:
    """Return the reference of the target's HelmRelease. The history in its status names the deployed version."""
    return _releases_of(target)


def _initial_outputs(operation: Operation, target: ApplicationInstance, objects: Objects) -> Mapping[str, Any]:
    """Return the outputs of the Operation that are recorded once, when it starts, such as the version before an
    upgrade.
    """
    spec = target.spec
    runs = _running_version(target, objects)
    return {
        "fromVersion": runs,
        "toVersion": parameters_of(operation).get("targetVersion") or _applied_version(target) or runs,
        "helmReleaseName": spec.release.name if spec.release is not None else "",
        SPEC_HASH: spec_hash(spec),
    }


def _applied_version(target: ApplicationInstance) -> str:
    """Return the chart version that was last requested from Flux, by the target's spec or an earlier Operation.

    Return an empty string if there is none.
    """
    applied, chart = target.status.last_applied_chart, target.spec.chart
    return applied.version if applied is not None else chart.version if chart is not None else ""


def _running_version(target: ApplicationInstance, objects: Objects) -> str:
    """Return the chart version that Helm's history says is deployed.

    After a failed upgrade, this is not the version that was last requested.
    """
    applied = _applied_version(target)
    for ref in _releases_of(target):
        history = get_path(objects.get(ref), "status", "history")
        for entry in history if isinstance(history, list) else ():
            if get_path(entry, "status") == "deployed" and isinstance(version := get_path(entry, "chartVersion"), str):
                # With an OCI source Flux replaces the build metadata by a digest (helm-controller 1.6.1:
                # internal/controller/helmrelease_controller.go, mutateChartWithSourceRevision).
                bare = version.partition("+")[0]
                return applied if applied.partition("+")[0].removeprefix("v") == bare.removeprefix("v") else bare
    return applied


def _observe(operation: Operation, objects: Objects) -> EngineStatus:
    target = target_of(operation, objects)
    outputs = operation.status.outputs or {}
    gone = target_ref(operation) not in objects or (target and target.metadata.deletion_timestamp is not None)
    row, message = (_DELETED, "") if gone else _row(operation, target, outputs)
    if row is _READY and target is not None and _applied_version(target):
        outputs = {**outputs, "toVersion": _applied_version(target)}
    name = outputs.get("helmReleaseName") or ""
    logs = LogsRef(HELM_RELEASE.kind, name, operation.metadata.namespace) if name else None
    return EngineStatus(row.progress, row.reason, message or row.meaning, outputs, logs)


def _row(operation: Operation, target: ApplicationInstance | None, outputs: Mapping[str, Any]) -> tuple[Row, str]:
    if target is None:
        return _WAITING, "the target cannot be read"
    asked = parameters_of(operation)
    if is_overtaken(target.spec, str(outputs.get(SPEC_HASH, "")), asked.get("targetVersion"), asked.get("valuesPatch")):
        return _NEW_INTENT, ""
    override = target.status.release_override
    if override is None or override.uid != operation.metadata.uid:
        if _is_true(conditions_of(target), Type.BLOCKED):
            return _BLOCKED, _reason_and_message(conditions_of(target)[Type.BLOCKED])
        return _WAITING, "waiting for the target to take it up"
    return _judged(conditions_of(target))


def _judged(conditions: Mapping[str, Condition]) -> tuple[Row, str]:
    """Return the run's row in the engine's table, and a message. Both follow from the target's `conditions`."""
    degraded, ready = conditions.get(Type.DEGRADED), conditions.get(Type.READY)
    forbidden = degraded is not None and degraded.reason == InstanceReason.FORBIDDEN_VERSION_OVERRIDE
    if degraded is not None and forbidden and _is_true(conditions, Type.DEGRADED):
        return _FORBIDDEN, degraded.message
    for kind, row in ((Type.SUSPENDED, _SUSPENDED), (Type.BLOCKED, _BLOCKED)):
        if _is_true(conditions, kind):
            return row, _reason_and_message(conditions[kind])
    if ready is None:
        return _WAITING, ""
    match (ready.status, ready.reason):
        case (ConditionStatus.TRUE, _):
            return _READY, ready.message
        case (ConditionStatus.FALSE, InstanceReason.HELM_RELEASE_FAILED):
            return _FAILED_ROW, ready.message
        case (ConditionStatus.FALSE, InstanceReason.ROLLED_BACK):
            return _ROLLED_BACK, degraded.message if degraded is not None else ready.message
        case _:
            return _WAITING, ready.message


def _reason_and_message(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


def _is_true(conditions: Mapping[str, Condition], kind: str) -> bool:
    condition = conditions.get(kind)
    return condition is not None and condition.status is ConditionStatus.TRUE


def _blocks_end(operation: Operation, objects: Objects) -> bool:
    """Report whether the target's status still has the Operation's change of the release (its override).

    As long as it does, the end of the Operation has to wait.
    """
    target = target_of(operation, objects)
    override = target.status.release_override if target is not None else None
    return override is not None and override.uid == operation.metadata.uid


ENGINE: Final = Engine(
    name="helm",
    kinds=always(),
    desired=lambda _operation, _target, _context: (),
    observe=_observe,
    tables={"ApplicationInstance": TABLE},
    timeout_seconds=1800,
    check=_check,
    looks_up=_looks_up,
    initial_outputs=_initial_outputs,
    blocks_end=_blocks_end,
    templates=(
        EngineTemplate(
            OperationType.UPGRADE,
            {
                **record(
                    (),
                    targetVersion=with_description("The chart version to go to.", SEMVER),
                    valuesPatch=with_description(
                        "Merge patch over the values; no secret material.", {"type": "object"}
                    ),
                ),
                "minProperties": 1,
            },
            example={"targetVersion": "6.7.0", "valuesPatch": {"replicaCount": 2}},
            refused=({"targetVersion": "latest"}, {"valuesPatch": {"db": {"password": "hunter2"}}}),
        ),
    ),
    controller=EngineController("helm-controller", (HELM_RELEASE,), FLUX),
    demo=DemoOperation("upgrade", OperationType.UPGRADE, {"targetVersion": "6.8.0"}),
)
