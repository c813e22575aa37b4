"""Operation: one day-2 action on an application, run once by one engine such as Velero (RES-2)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final

import attrs

from purekube.apimachinery.fields import (
    CelRule,
    conditions_field,
    formed,
    immutable,
    observed_generation_field,
    observed_request_field,
    schema_field,
)
from purekube.apimachinery.formats import Form
from purekube.apimachinery.manifest import Manifest, get_path, same_json
from purekube.apimachinery.meta import Condition, ObjectMeta
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

LONGEST_TIMEOUT: Final = 31_536_000
"""The longest deadline of a run in seconds: a year."""


class OperationType(StrEnum):
    """The types of actions that an Operation can perform on an application."""

    BACKUP = "Backup"
    RESTORE = "Restore"
    UPGRADE = "Upgrade"
    MIGRATION = "Migration"
    RUN_COMMAND = "RunCommand"
    RUNBOOK = "Runbook"


class EngineName(StrEnum):
    """The engines, which are the controllers that perform the action of an Operation."""

    VELERO = "velero"
    WORKFLOW = "workflow"
    JOB = "job"
    HELM = "helm"
    VOLSYNC = "volsync"
    HELM_HOOK_JOB = "helmHookJob"
    SNAPSHOT = "snapshot"


class Phase(StrEnum):
    """The phases of an Operation (OPS-1). The last three are final."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


_TARGET_VERSION: Final = Form(
    r"^apps\.vworkspace\.io/v[0-9][a-z0-9]*$", "be the version of an ApplicationInstance", "apps.vworkspace.io/v1alpha1"
)
TERMINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED})
"""The final phases of an Operation, which never change again."""


@attrs.frozen(kw_only=True)
class TargetRef:
    """The ApplicationInstance that the Operation acts on, in the same namespace."""

    name: str = schema_field("Name of the target.", schema={"minLength": 1, "maxLength": 253})
    api_version: str = schema_field(
        "apiVersion of the target.",
        default=APPLICATION_INSTANCE.api_version,
        schema={"maxLength": 63},
        rules=[formed(_TARGET_VERSION)],
        publish_default=True,
    )
    kind: str = schema_field(
        "Kind of the target.",
        default=APPLICATION_INSTANCE.kind,
        schema={"enum": [APPLICATION_INSTANCE.kind]},
        publish_default=True,
    )


@attrs.frozen
class Approvals:
    """The requirement that a person agrees first, and the proof of agreement (OPS-4)."""

    required: bool = schema_field("Whether the run waits for a valid claim.", default=False)
    claim: str | None = schema_field("Signed approval claim.", default=None, schema={"maxLength": 8192}, secret=True)
    approved_by: str | None = schema_field(
        "Who approved; recorded, never trusted.", default=None, schema={"maxLength": 253}
    )
    approved_at: str | None = schema_field(
        "When it was approved; recorded, never trusted.", default=None, schema={"format": "date-time"}
    )


@attrs.frozen
class OperationSpec:
    """The desired action, its application and its engine."""

    target_ref: TargetRef = schema_field(
        "The ApplicationInstance in the same namespace; immutable.", rules=[immutable()]
    )
    type: OperationType = schema_field("What is to be done; immutable.", rules=[immutable()])
    engine: EngineName = schema_field("Which engine does it; immutable.", rules=[immutable()])
    parameters: Mapping[str, Any] | None = schema_field(
        "Parameters of the template; immutable once the run has started.", default=None
    )
    approvals: Approvals | None = schema_field("Approval.", default=None)
    timeout_seconds: int | None = schema_field(
        "Deadline of the whole run in seconds from its start; default per engine.",
        default=None,
        schema={"format": "int64", "minimum": 1, "maximum": LONGEST_TIMEOUT},
    )


def _has_claim(operation: "Operation") -> bool:
    return operation.spec.approvals is not None and operation.spec.approvals.claim is not None


def _is_required(operation: "Operation") -> bool:
    return operation.spec.approvals is not None and operation.spec.approvals.required


@attrs.frozen
class LogsRef:
    """The object that has the logs of the Operation's run."""

    kind: str = schema_field("Kind.")
    name: str = schema_field("Name.")
    namespace: str = schema_field("Namespace.")


@attrs.frozen
class EngineRef:
    """A reference to the one engine object of the Operation's run (OPS-1).

    `uid` is empty as long as the operator intends to create the object but does not know that it exists.
    """

    api_version: str = schema_field("apiVersion.")
    kind: str = schema_field("Kind.")
    namespace: str = schema_field("Namespace.")
    name: str = schema_field("Name.")
    uid: str = schema_field("uid; absent until the object is known to exist.", default="")


@attrs.frozen
class OperationStatus:
    """The observed state of the Operation at `observed_generation`."""

    observed_generation: int | None = observed_generation_field()
    phase: Phase | None = schema_field("Where the run stands; absent before the first look.", default=None)
    reason: str | None = schema_field("Why it stands there: the reason of the condition that decides.", default=None)
    message: str | None = schema_field("The message of that condition.", default=None)
    started_at: str | None = schema_field("When the run started.", default=None, schema={"format": "date-time"})
    finished_at: str | None = schema_field("When it ended.", default=None, schema={"format": "date-time"})
    conditions: tuple[Condition, ...] = conditions_field()
    outputs: Mapping[str, Any] | None = schema_field("What the run produced, by name.", default=None)
    logs_ref: LogsRef | None = schema_field("Where the logs are.", default=None)
    engine_ref: EngineRef | None = schema_field("The engine object.", default=None)
    observed_request: str | None = observed_request_field()


@attrs.frozen
class Operation:
    """One day-2 action on an application: a backup, a restore, an upgrade, a command."""

    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (
        # CEL's equality of free objects misses a renamed key of the first level; admission does not.
        CelRule(
            "!has(oldSelf.status) || !has(oldSelf.status.startedAt)"
            " || (has(self.spec.parameters) == has(oldSelf.spec.parameters)"
            " && (!has(self.spec.parameters) || self.spec.parameters == oldSelf.spec.parameters))",
            "is immutable once the run has started",
            holds=lambda new, old: not old.status.started_at or same_json(new.spec.parameters, old.spec.parameters),
            field_path=".spec.parameters",
        ),
        # The parameters that a person approved must not change under the claim, nor the requirement be dropped (OPS-4).
        CelRule(
            "!has(oldSelf.spec.approvals) || !has(oldSelf.spec.approvals.claim)"
            " || (has(self.spec.parameters) == has(oldSelf.spec.parameters)"
            " && (!has(self.spec.parameters) || self.spec.parameters == oldSelf.spec.parameters))",
            "is immutable while an approval claim stands beside it: take the claim away first",
            holds=lambda new, old: not _has_claim(old) or same_json(new.spec.parameters, old.spec.parameters),
            field_path=".spec.parameters",
        ),
        CelRule(
            "!has(oldSelf.spec.approvals) || !has(oldSelf.spec.approvals.required) || !oldSelf.spec.approvals.required"
            " || (has(self.spec.approvals) && has(self.spec.approvals.required) && self.spec.approvals.required)",
            "must stay true: an approval that is required cannot be waived by an edit",
            holds=lambda new, old: not _is_required(old) or _is_required(new),
            field_path=".spec.approvals.required",
        ),
    )

    metadata: ObjectMeta
    spec: OperationSpec
    status: OperationStatus = attrs.field(factory=OperationStatus)


def has_schedule(manifest: Manifest) -> bool:
    """Report whether an Operation, as JSON, has a schedule. It then runs until it is stopped, without a deadline."""
    return get_path(manifest, "spec", "parameters", "schedule") is not None


BETWEEN_SYNCS: Final = "VolSyncWaitingForSchedule"
"""The reason of the condition Running while a recurring Operation waits for its next sync, which may begin any time."""
SYNC_POSTPONED: Final = "VolSyncPostponed"
"""The reason of the condition Running while the next sync of a recurring Operation is postponed, because an Operation
that conflicts with it runs or would start now.
"""
IDLE_REASONS: Final = frozenset({BETWEEN_SYNCS, SYNC_POSTPONED})
"""The reasons of the condition Running while no sync of a recurring Operation is under way (OPS-5)."""
