"""Names of condition types and reasons by kind (RES-4), and the choice of the condition that explains an object best.

See `vocabulary`, too.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import Condition
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION


class InstanceConditionType(StrEnum):
    """Condition types that the operator owns on an ApplicationInstance, in the order in which they are written."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"
    BLOCKED = "Blocked"
    DELETING = "Deleting"


class InstanceReason(StrEnum):
    """Reasons of the conditions of an ApplicationInstance."""

    HELM_RELEASE_READY = "HelmReleaseReady"
    HELM_RELEASE_READY_WITH_WARNINGS = "HelmReleaseReadyWithWarnings"
    PLACEHOLDER = "Placeholder"
    HELM_RELEASE_FAILED = "HelmReleaseFailed"
    CHART_UNREACHABLE = "ChartUnreachable"
    WAITING_FOR_SECRET = "WaitingForSecret"
    INSTALLING = "Installing"
    UPGRADING = "Upgrading"
    ROLLED_BACK = "RolledBack"
    NOT_DEPLOYED = "NotDeployed"
    RECONCILING = "Reconciling"
    HELM_RELEASE_INSTALLING = "HelmReleaseInstalling"
    HELM_RELEASE_UPGRADING = "HelmReleaseUpgrading"
    CHART_SOURCE_SYNCING = "ChartSourceSyncing"
    STABLE = "Stable"
    HELM_RELEASE_DEGRADED = "HelmReleaseDegraded"
    DRIFTED = "Drifted"
    FORBIDDEN_VERSION_OVERRIDE = "ForbiddenVersionOverride"
    RECOVERED = "Recovered"
    MANUALLY_SUSPENDED = "ManuallySuspended"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    ACTIVE = "Active"
    VALIDATION_FAILED = "ValidationFailed"
    NAMESPACE_NOT_GATED = "NamespaceNotGated"
    WRONG_CLUSTER = "WrongCluster"
    FIELD_CONFLICT = "FieldConflict"
    NAME_TAKEN = "NameTaken"
    MISSING_CHART_SOURCE = "MissingChartSource"
    MISSING_DEPENDENCIES = "MissingDependencies"
    POLICY_DENIED = "PolicyDenied"
    AWAITING_APPROVAL = "AwaitingApproval"
    FORBIDDEN = "Forbidden"
    INTERNAL_ERROR = "InternalError"
    UNBLOCKED = "Unblocked"
    UNINSTALLING = "Uninstalling"
    AWAITING_CONFIRMATION = "AwaitingConfirmation"
    WAITING_FOR_CHILD_RESOURCES = "WaitingForChildResources"
    RETRIES_EXCEEDED = "RetriesExceeded"


class OperationConditionType(StrEnum):
    """Condition types that the operator owns on an Operation, in the order in which they are written."""

    ACCEPTED = "Accepted"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    BLOCKED = "Blocked"
    DEGRADED = "Degraded"


class OperationReason(StrEnum):
    """Reasons of the conditions of an Operation that are the operator's own, not an engine's."""

    TEMPLATE_VALIDATED = "TemplateValidated"
    VALIDATION_FAILED = "ValidationFailed"
    TARGET_NOT_FOUND = "TargetNotFound"
    CAPABILITY_MISSING = "CapabilityMissing"
    TEMPLATE_NOT_ALLOWED = "TemplateNotAllowed"
    HOOK_NOT_FOUND = "HookNotFound"
    ENGINE_STARTED = "EngineStarted"
    ENGINE_NOT_STARTED = "EngineNotStarted"
    ENGINE_FINISHED = "EngineFinished"
    ENGINE_SUCCEEDED = "EngineSucceeded"
    ENGINE_FAILED = "EngineFailed"
    TIMEOUT = "Timeout"
    PRECONDITION_FAILED = "PreconditionFailed"
    EXTERNAL_DELETION = "ExternalDeletion"
    USER_CANCELLED = "UserCancelled"
    SUPERSEDED_BY_OPERATION = "SupersededByOperation"
    CONFLICTING_OPERATION = "ConflictingOperation"
    AWAITING_APPROVAL = "AwaitingApproval"
    TARGET_NOT_READY = "TargetNotReady"
    DEPENDENCY_MISSING = "DependencyMissing"
    FIELD_CONFLICT = "FieldConflict"
    NAME_TAKEN = "NameTaken"
    MISSING_SECRET = "MissingSecret"
    AWAITING_RESUME = "AwaitingResume"
    NAMESPACE_NOT_GATED = "NamespaceNotGated"
    WRONG_CLUSTER = "WrongCluster"
    FORBIDDEN = "Forbidden"
    INTERNAL_ERROR = "InternalError"
    UNBLOCKED = "Unblocked"
    PARTIAL_FAILURE = "PartialFailure"


class ClusterConditionType(StrEnum):
    """Condition types that the operator owns on the Cluster, in the order in which they are written."""

    CONNECTED = "Connected"
    DISCONNECTED = "Disconnected"
    AUTHENTICATED = "Authenticated"
    CONTROLLERS_HEALTHY = "ControllersHealthy"
    BUFFER_OVERFLOW = "BufferOverflow"
    CLOCK_SKEW = "ClockSkew"
    JOBS_BLOCKED = "JobsBlocked"
    HARDENED = "Hardened"


CLUSTER_TROUBLES: Final = frozenset(
    {
        ClusterConditionType.DISCONNECTED,
        ClusterConditionType.BUFFER_OVERFLOW,
        ClusterConditionType.CLOCK_SKEW,
        ClusterConditionType.JOBS_BLOCKED,
    }
)
"""The condition types of the Cluster that report trouble by the status True; the other types report it by False."""


class ClusterReason(StrEnum):
    """Reasons of the conditions of the Cluster."""

    ROUND_TRIP_OK = "RoundTripOK"
    CONTROL_PLANE_UNREACHABLE = "ControlPlaneUnreachable"
    NO_RECENT_ROUND_TRIP = "NoRecentRoundTrip"
    CREDENTIAL_ACCEPTED = "CredentialAccepted"
    CREDENTIAL_REJECTED = "CredentialRejected"
    CREDENTIAL_EXPIRED = "CredentialExpired"
    ALL_CONTROLLERS_READY = "AllControllersReady"
    CONTROLLER_MISSING = "ControllerMissing"
    CONTROLLER_DEGRADED = "ControllerDegraded"
    EVENT_BUFFER_FULL = "EventBufferFull"
    BUFFER_DRAINED = "BufferDrained"
    CLOCKS_DIFFER = "ClocksDiffer"
    CLOCKS_AGREE = "ClocksAgree"
    RECORDS_NOT_STORED = "RecordsNotStored"
    RECORDS_STORED = "RecordsStored"
    NO_AGENT = "NoAgent"
    NOTHING_OPEN = "NothingOpen"
    OPEN_SETTINGS = "OpenSettings"
    OPEN_POLICY = "OpenPolicy"
    UNGUARDED_NAMESPACES = "UnguardedNamespaces"


DECISIVE: Final[Mapping[Kind, Sequence[tuple[str, str]]]] = {
    APPLICATION_INSTANCE: (
        (InstanceConditionType.DELETING, "True"),
        (InstanceConditionType.BLOCKED, "True"),
        (InstanceConditionType.STALLED, "True"),
        (InstanceConditionType.SUSPENDED, "True"),
        (InstanceConditionType.DEGRADED, "True"),
        (InstanceConditionType.RECONCILING, "True"),
        (InstanceConditionType.READY, "True"),
        (InstanceConditionType.READY, "False"),
    ),
    OPERATION: (
        (OperationConditionType.FAILED, "True"),
        (OperationConditionType.CANCELLED, "True"),
        (OperationConditionType.BLOCKED, "True"),
        (OperationConditionType.ACCEPTED, "False"),
        (OperationConditionType.RUNNING, "True"),
        (OperationConditionType.SUCCEEDED, "True"),
        (OperationConditionType.RUNNING, "False"),
        (OperationConditionType.ACCEPTED, "True"),
    ),
}
"""The conditions, as type and status, that can explain an object's state, by kind and in order of precedence.

The first of them that an object has explains its state.

Running is before Succeeded, because a recurring Operation that has succeeded still runs.
"""

BEFORE_RECONCILING: Final = frozenset({InstanceReason.WAITING_FOR_SECRET})
"""Reasons of Ready=False that explain an instance's state better than Reconciling=True.

With these reasons Flux keeps retrying, but only a person can help.
"""


def is_of_former_try(kind: Kind, type_: str, observed: object, reconciling: object, *, is_reconciling: bool) -> bool:
    """Report whether a condition of type `type_` is about a try before the one that is under way, so that it does not
    explain the state of an object of `kind`.

    This is so for Degraded of an ApplicationInstance, which stays True until the release is ready, once Flux works on a
    newer generation. `observed` is the generation that the condition is about, `reconciling` that of Reconciling, and
    `is_reconciling` says that Reconciling is True.
    """
    if (kind, type_) != (APPLICATION_INSTANCE, InstanceConditionType.DEGRADED) or not is_reconciling:
        return False
    return isinstance(observed, int) and isinstance(reconciling, int) and observed < reconciling


def headline(
    kind: Kind, conditions: Sequence[Condition | DesiredCondition], generation: int | None = None
) -> dict[str, str]:
    """Return a mapping with `reason` and `message` of the condition that best explains the object's state.

    It is the first condition by a fixed order of types and statuses for `kind`. For an ApplicationInstance, for
    example, Deleting=True comes before Blocked=True. The mapping is empty if the order has none of `conditions`.
    `generation` is the object's, which conditions without an observedGeneration are about.
    """
    there = {(condition.type, str(condition.status)): condition for condition in conditions}
    moving = there.get((InstanceConditionType.RECONCILING, "True"))
    for_now = None if moving is None else moving.observed_generation or generation
    decides = next(
        (
            there[key]
            for key in DECISIVE[kind]
            if key in there
            and not is_of_former_try(
                kind, key[0], there[key].observed_generation, for_now, is_reconciling=moving is not None
            )
        ),
        None,
    )
    ready = there.get((InstanceConditionType.READY, "False"))
    if (
        kind == APPLICATION_INSTANCE
        and decides is not None
        and decides.type == InstanceConditionType.RECONCILING
        and ready is not None
    ):
        decides = ready if ready.reason in BEFORE_RECONCILING else decides
    fields = {} if decides is None else {"reason": str(decides.reason), "message": decides.message}
    return {name: text for name, text in fields.items() if text}
