"""The closed vocabulary of conditions: kind, type, status, reasons (RES-4), as data.

`TABLE` is the single source: decisions take their names from `reasons`, `is_admitted` judges a
condition by the table, and `vocabulary_page.py` prints it as `docs/conditions.md`.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from textwrap import dedent
from typing import Final

import attrs

from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.reasons import (
    ClusterConditionType,
    ClusterReason,
    InstanceConditionType,
    InstanceReason,
    OperationConditionType,
    OperationReason,
)


@attrs.frozen
class VocabularyEntry:
    """One row of the vocabulary, the table of all conditions that the operator may write.

    It has the reasons that a condition of type `type` may have while its status is `status`. `foreign` names a
    component whose own reasons are passed on unchanged as well, such as `WorkflowInProgress` of the engine for Argo
    Workflows. It is empty if `reasons` is complete.
    """

    type: StrEnum
    status: ConditionStatus
    reasons: tuple[StrEnum, ...]
    meaning: str
    foreign: str = ""


def _rows(types: type[StrEnum], reasons: type[StrEnum], text: str) -> tuple[VocabularyEntry, ...]:
    """Read rows such as `Running=True EngineStarted +the engine: The engine is at work.`, with `foreign` after `+`.

    Further lines of a row are indented.
    """
    return tuple(_row(types, reasons, " ".join(row.split())) for row in re.split(r"\n(?=\S)", dedent(text).strip()))


def _row(types: type[StrEnum], reasons: type[StrEnum], text: str) -> VocabularyEntry:
    head, _, meaning = text.partition(": ")
    states, _, foreign = head.partition(" +")
    condition, *names = states.split(" ")
    name, _, status = condition.partition("=")
    return VocabularyEntry(types(name), ConditionStatus(status), tuple(map(reasons, names)), meaning, foreign)


TABLE: Final[Mapping[str, Sequence[VocabularyEntry]]] = {
    "ApplicationInstance": _rows(
        InstanceConditionType,
        InstanceReason,
        """
        Ready=True HelmReleaseReady HelmReleaseReadyWithWarnings Placeholder: The release for the observed generation
            is deployed and Flux confirmed that very release.
        Ready=False HelmReleaseFailed ChartUnreachable WaitingForSecret Installing Upgrading RolledBack NotDeployed
            Uninstalling: The release that is asked for is not there, not yet, or no longer: the instance is being
            deleted.
        Ready=Unknown Reconciling: Nothing is known yet.
        Reconciling=True HelmReleaseInstalling HelmReleaseUpgrading ChartSourceSyncing: Flux is on the way to what is
            asked for.
        Reconciling=False Stable: Nothing is under way.
        Stalled=True RetriesExceeded ValidationFailed +Flux: Only a change of spec or outside help can make progress.
            Absent otherwise.
        Degraded=True HelmReleaseFailed HelmReleaseDegraded ChartUnreachable Drifted ForbiddenVersionOverride:
            Something is wrong, whether or not an earlier release still serves.
        Degraded=False Recovered: What had been wrong is well again.
        Suspended=True ManuallySuspended MaintenanceWindow: Reconciliation of the release is paused; Ready keeps its
            value.
        Suspended=False Active: Reconciliation is not paused.
        Blocked=True ValidationFailed NamespaceNotGated WrongCluster FieldConflict NameTaken MissingChartSource
            MissingDependencies PolicyDenied AwaitingApproval Forbidden InternalError: The operator does not act until
            the named obstacle is gone; then it goes on automatically.
        Blocked=False Unblocked: Nothing is in the way.
        Deleting=True Uninstalling WaitingForChildResources AwaitingConfirmation: The object is being deleted; the
            message names what is left.
        """,
    ),
    "Operation": _rows(
        OperationConditionType,
        OperationReason,
        """
        Accepted=True TemplateValidated: Target, capability and parameters are in order.
        Accepted=False ValidationFailed TargetNotFound CapabilityMissing TemplateNotAllowed HookNotFound: The Operation
            cannot run as it is.
        Running=True EngineStarted +the engine: The engine is at work.
        Running=False EngineNotStarted EngineFinished: The engine is not at work: not yet, or not any more.
        Succeeded=True EngineSucceeded +the engine: The run reached its goal.
        Failed=True EngineFailed Timeout PreconditionFailed ExternalDeletion PartialFailure ValidationFailed +the
            engine: The run ended without reaching its goal.
        Cancelled=True UserCancelled SupersededByOperation: Someone asked for it to stop, and it did.
        Blocked=True NamespaceNotGated WrongCluster AwaitingApproval TargetNotReady ConflictingOperation
            DependencyMissing FieldConflict NameTaken MissingSecret AwaitingResume Forbidden InternalError: Waits for
            the named obstacle to go, then continues automatically.
        Blocked=False Unblocked: Nothing is in the way.
        Degraded=True PartialFailure: The goal was reached in part; the counts are in outputs.
        """,
    ),
    "Cluster": _rows(
        ClusterConditionType,
        ClusterReason,
        """
        Connected=True RoundTripOK: The last call to the control plane came through.
        Connected=False ControlPlaneUnreachable NoAgent: The last call failed; the message says how. NoAgent: it runs
            with `--no-agent`.
        Disconnected=True NoRecentRoundTrip: No call came through for the configured window.
        Disconnected=False RoundTripOK NoAgent: A call came through within the window. NoAgent: there is no connection
            that could be lost.
        Authenticated=True CredentialAccepted: The control plane accepts the credential.
        Authenticated=False CredentialRejected CredentialExpired: It does not; calls slow down until the Secret changes
            or one succeeds.
        ControllersHealthy=True AllControllersReady: Every downstream controller is well.
        ControllersHealthy=False ControllerMissing ControllerDegraded: One is missing or unwell; the message names it.
        BufferOverflow=True EventBufferFull: Events were dropped; the message counts them.
        BufferOverflow=False BufferDrained: The buffer is empty again.
        ClockSkew=True ClocksDiffer: The clocks of control plane and machine differ by more than ten minutes.
        ClockSkew=False ClocksAgree: They agree again.
        JobsBlocked=True RecordsNotStored: Jobs wait: their Secrets cannot be read or written.
        JobsBlocked=False RecordsStored: They can be again.
        Hardened=True NothingOpen: No setting leaves more open than several tenants allow.
        Hardened=False OpenSettings OpenPolicy UnguardedNamespaces: The message names what is open, and what closes it;
            `docs/security.md` has more.
        """,
    ),
}
"""The conditions that the operator may write on each of its kinds."""

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def entries(kind: str, condition_type: str) -> tuple[VocabularyEntry, ...]:
    """Return the rows for one condition type in the vocabulary: the table of conditions that the operator may write.

    `kind` is the kind of the objects with that condition. The result is empty for a type that the operator does not
    own.
    """
    return tuple(entry for entry in TABLE.get(kind, ()) if entry.type == condition_type)


def owned_types(kind: str) -> tuple[str, ...]:
    """Return the condition types that the operator owns on `kind`. The operator never changes other types (RES-4)."""
    return tuple(dict.fromkeys(str(entry.type) for entry in TABLE.get(kind, ())))


def is_admitted(kind: str, condition_type: str, status: str, reason: str) -> bool:
    """Report whether the operator may write a condition with this type, status and reason on an object of `kind`."""
    return any(
        reason in entry.reasons or (bool(entry.foreign) and _REASON.fullmatch(reason) is not None)
        for entry in entries(kind, condition_type)
        if entry.status == status
    )
