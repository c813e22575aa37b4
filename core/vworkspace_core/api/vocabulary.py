"""The closed vocabulary of conditions: kind, type, status, reasons (RES-4), as data.

`TABLE` is the single source: decisions take their names from `reasons`, `is_admitted` judges a
condition by the table, and `vocabulary_page.py` prints it as `docs/conditions.md`.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
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


_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_I, _IR = InstanceConditionType, InstanceReason
_O, _OR = OperationConditionType, OperationReason
_C, _CR = ClusterConditionType, ClusterReason

TABLE: Final[Mapping[str, Sequence[VocabularyEntry]]] = {
    "ApplicationInstance": (
        VocabularyEntry(
            _I.READY,
            _TRUE,
            (_IR.HELM_RELEASE_READY, _IR.HELM_RELEASE_READY_WITH_WARNINGS, _IR.PLACEHOLDER),
            "The release for the observed generation is deployed and Flux confirmed that very release.",
        ),
        VocabularyEntry(
            _I.READY,
            _FALSE,
            (
                _IR.HELM_RELEASE_FAILED,
                _IR.CHART_UNREACHABLE,
                _IR.WAITING_FOR_SECRET,
                _IR.INSTALLING,
                _IR.UPGRADING,
                _IR.ROLLED_BACK,
                _IR.NOT_DEPLOYED,
                _IR.UNINSTALLING,
            ),
            "The release that is asked for is not there, not yet, or no longer: the instance is being deleted.",
        ),
        VocabularyEntry(_I.READY, _UNKNOWN, (_IR.RECONCILING,), "Nothing is known yet."),
        VocabularyEntry(
            _I.RECONCILING,
            _TRUE,
            (_IR.HELM_RELEASE_INSTALLING, _IR.HELM_RELEASE_UPGRADING, _IR.CHART_SOURCE_SYNCING),
            "Flux is on the way to what is asked for.",
        ),
        VocabularyEntry(_I.RECONCILING, _FALSE, (_IR.STABLE,), "Nothing is under way."),
        VocabularyEntry(
            _I.STALLED,
            _TRUE,
            (_IR.RETRIES_EXCEEDED, _IR.VALIDATION_FAILED),
            "Only a change of spec or outside help can make progress. Absent otherwise.",
            foreign="Flux",
        ),
        VocabularyEntry(
            _I.DEGRADED,
            _TRUE,
            (
                _IR.HELM_RELEASE_FAILED,
                _IR.HELM_RELEASE_DEGRADED,
                _IR.CHART_UNREACHABLE,
                _IR.DRIFTED,
                _IR.FORBIDDEN_VERSION_OVERRIDE,
            ),
            "Something is wrong, whether or not an earlier release still serves.",
        ),
        VocabularyEntry(_I.DEGRADED, _FALSE, (_IR.RECOVERED,), "What had been wrong is well again."),
        VocabularyEntry(
            _I.SUSPENDED,
            _TRUE,
            (_IR.MANUALLY_SUSPENDED, _IR.MAINTENANCE_WINDOW),
            "Reconciliation of the release is paused; Ready keeps its value.",
        ),
        VocabularyEntry(_I.SUSPENDED, _FALSE, (_IR.ACTIVE,), "Reconciliation is not paused."),
        VocabularyEntry(
            _I.BLOCKED,
            _TRUE,
            (
                _IR.VALIDATION_FAILED,
                _IR.NAMESPACE_NOT_GATED,
                _IR.WRONG_CLUSTER,
                _IR.FIELD_CONFLICT,
                _IR.NAME_TAKEN,
                _IR.MISSING_CHART_SOURCE,
                _IR.MISSING_DEPENDENCIES,
                _IR.POLICY_DENIED,
                _IR.AWAITING_APPROVAL,
                _IR.FORBIDDEN,
                _IR.INTERNAL_ERROR,
            ),
            "The operator does not act until the named obstacle is gone; then it goes on by itself.",
        ),
        VocabularyEntry(_I.BLOCKED, _FALSE, (_IR.UNBLOCKED,), "Nothing is in the way."),
        VocabularyEntry(
            _I.DELETING,
            _TRUE,
            (_IR.UNINSTALLING, _IR.WAITING_FOR_CHILD_RESOURCES, _IR.AWAITING_CONFIRMATION),
            "The object is being deleted; the message names what is left.",
        ),
    ),
    "Operation": (
        VocabularyEntry(
            _O.ACCEPTED, _TRUE, (_OR.TEMPLATE_VALIDATED,), "Target, capability and parameters are in order."
        ),
        VocabularyEntry(
            _O.ACCEPTED,
            _FALSE,
            (
                _OR.VALIDATION_FAILED,
                _OR.TARGET_NOT_FOUND,
                _OR.CAPABILITY_MISSING,
                _OR.TEMPLATE_NOT_ALLOWED,
                _OR.HOOK_NOT_FOUND,
            ),
            "The Operation cannot run as it is.",
        ),
        VocabularyEntry(_O.RUNNING, _TRUE, (_OR.ENGINE_STARTED,), "The engine is at work.", foreign="the engine"),
        VocabularyEntry(
            _O.RUNNING,
            _FALSE,
            (_OR.ENGINE_NOT_STARTED, _OR.ENGINE_FINISHED),
            "The engine is not at work: not yet, or not any more.",
        ),
        VocabularyEntry(
            _O.SUCCEEDED, _TRUE, (_OR.ENGINE_SUCCEEDED,), "The run reached its goal.", foreign="the engine"
        ),
        VocabularyEntry(
            _O.FAILED,
            _TRUE,
            (
                _OR.ENGINE_FAILED,
                _OR.TIMEOUT,
                _OR.PRECONDITION_FAILED,
                _OR.EXTERNAL_DELETION,
                _OR.PARTIAL_FAILURE,
                _OR.VALIDATION_FAILED,
            ),
            "The run ended without reaching its goal.",
            foreign="the engine",
        ),
        VocabularyEntry(
            _O.CANCELLED,
            _TRUE,
            (_OR.USER_CANCELLED, _OR.SUPERSEDED_BY_OPERATION),
            "Someone asked for it to stop, and it did.",
        ),
        VocabularyEntry(
            _O.BLOCKED,
            _TRUE,
            (
                _OR.NAMESPACE_NOT_GATED,
                _OR.WRONG_CLUSTER,
                _OR.AWAITING_APPROVAL,
                _OR.TARGET_NOT_READY,
                _OR.CONFLICTING_OPERATION,
                _OR.DEPENDENCY_MISSING,
                _OR.FIELD_CONFLICT,
                _OR.NAME_TAKEN,
                _OR.MISSING_SECRET,
                _OR.AWAITING_RESUME,
                _OR.FORBIDDEN,
                _OR.INTERNAL_ERROR,
            ),
            "Waits for the named obstacle to go, then continues by itself.",
        ),
        VocabularyEntry(_O.BLOCKED, _FALSE, (_OR.UNBLOCKED,), "Nothing is in the way."),
        VocabularyEntry(
            _O.DEGRADED, _TRUE, (_OR.PARTIAL_FAILURE,), "The goal was reached in part; the counts are in outputs."
        ),
    ),
    "Cluster": (
        VocabularyEntry(_C.CONNECTED, _TRUE, (_CR.ROUND_TRIP_OK,), "The last call to the control plane came through."),
        VocabularyEntry(
            _C.CONNECTED,
            _FALSE,
            (_CR.CONTROL_PLANE_UNREACHABLE, _CR.NO_AGENT),
            "The last call failed; the message says how. NoAgent: it runs with `--no-agent`.",
        ),
        VocabularyEntry(
            _C.DISCONNECTED, _TRUE, (_CR.NO_RECENT_ROUND_TRIP,), "No call came through for the configured window."
        ),
        VocabularyEntry(
            _C.DISCONNECTED,
            _FALSE,
            (_CR.ROUND_TRIP_OK, _CR.NO_AGENT),
            "A call came through within the window. NoAgent: there is no connection that could be lost.",
        ),
        VocabularyEntry(
            _C.AUTHENTICATED, _TRUE, (_CR.CREDENTIAL_ACCEPTED,), "The control plane accepts the credential."
        ),
        VocabularyEntry(
            _C.AUTHENTICATED,
            _FALSE,
            (_CR.CREDENTIAL_REJECTED, _CR.CREDENTIAL_EXPIRED),
            "It does not; calls slow down until the Secret changes or one succeeds.",
        ),
        VocabularyEntry(
            _C.CONTROLLERS_HEALTHY, _TRUE, (_CR.ALL_CONTROLLERS_READY,), "Every downstream controller is well."
        ),
        VocabularyEntry(
            _C.CONTROLLERS_HEALTHY,
            _FALSE,
            (_CR.CONTROLLER_MISSING, _CR.CONTROLLER_DEGRADED),
            "One is missing or unwell; the message names it.",
        ),
        VocabularyEntry(
            _C.BUFFER_OVERFLOW, _TRUE, (_CR.EVENT_BUFFER_FULL,), "Events were dropped; the message counts them."
        ),
        VocabularyEntry(_C.BUFFER_OVERFLOW, _FALSE, (_CR.BUFFER_DRAINED,), "The buffer is empty again."),
        VocabularyEntry(
            _C.CLOCK_SKEW,
            _TRUE,
            (_CR.CLOCKS_DIFFER,),
            "The clocks of control plane and machine differ by more than ten minutes.",
        ),
        VocabularyEntry(_C.CLOCK_SKEW, _FALSE, (_CR.CLOCKS_AGREE,), "They agree again."),
        VocabularyEntry(
            _C.JOBS_BLOCKED, _TRUE, (_CR.RECORDS_NOT_STORED,), "Jobs wait: their Secrets cannot be read or written."
        ),
        VocabularyEntry(_C.JOBS_BLOCKED, _FALSE, (_CR.RECORDS_STORED,), "They can be again."),
        VocabularyEntry(
            _C.HARDENED, _TRUE, (_CR.NOTHING_OPEN,), "No setting leaves more open than several tenants allow."
        ),
        VocabularyEntry(
            _C.HARDENED,
            _FALSE,
            (_CR.OPEN_SETTINGS, _CR.OPEN_POLICY, _CR.UNGUARDED_NAMESPACES),
            "The message names what is open, and what closes it; `docs/security.md` has more.",
        ),
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
