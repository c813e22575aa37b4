"""RES-4: the vocabulary is closed, whole, and what the documentation prints."""

import ast
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.reason_sites import reason_sites
from tools.vocabulary_page import markdown
from vworkspace_core.api import reasons
from vworkspace_core.api.advice import obstacles
from vworkspace_core.api.vocabulary import TABLE, VocabularyEntry, entries, is_admitted, owned_types

ROWS = [(kind, entry) for kind, rows in TABLE.items() for entry in rows]
ENUMS: dict[str, tuple[type[StrEnum], type[StrEnum]]] = {
    "ApplicationInstance": (reasons.InstanceConditionType, reasons.InstanceReason),
    "Operation": (reasons.OperationConditionType, reasons.OperationReason),
    "Cluster": (reasons.ClusterConditionType, reasons.ClusterReason),
}

CORE = Path(__file__).resolve().parents[3] / "core" / "vworkspace_core"
NEVER_GIVEN = {"AwaitingApproval", "FieldConflict", "MaintenanceWindow", "RetriesExceeded"}
"""Reasons of one of the kinds that only Flux gives, or that wait for a feature of the control plane."""


def section(kind: str) -> list[str]:
    """The lines of the page about a kind."""
    return markdown().partition(f"## {kind}\n")[2].partition("\n## ")[0].splitlines()


# Words of the specification, to be compared with the table word by word.
SPECIFIED = {
    ("ApplicationInstance", "Ready", "True"): "HelmReleaseReady HelmReleaseReadyWithWarnings Placeholder",
    ("ApplicationInstance", "Ready", "False"): (
        "HelmReleaseFailed ChartUnreachable WaitingForSecret Installing Upgrading RolledBack NotDeployed"
        " Uninstalling"  # what is taken down is not Ready (U1)
    ),
    ("ApplicationInstance", "Ready", "Unknown"): "Reconciling",
    ("ApplicationInstance", "Reconciling", "True"): "HelmReleaseInstalling HelmReleaseUpgrading ChartSourceSyncing",
    ("ApplicationInstance", "Reconciling", "False"): "Stable",
    ("ApplicationInstance", "Degraded", "True"): (
        "HelmReleaseFailed HelmReleaseDegraded ChartUnreachable Drifted ForbiddenVersionOverride"
    ),
    ("ApplicationInstance", "Degraded", "False"): "Recovered",
    ("ApplicationInstance", "Suspended", "True"): "ManuallySuspended MaintenanceWindow",
    ("ApplicationInstance", "Suspended", "False"): "Active",
    ("ApplicationInstance", "Blocked", "True"): (
        "ValidationFailed NamespaceNotGated WrongCluster FieldConflict NameTaken MissingChartSource"
        " MissingDependencies PolicyDenied AwaitingApproval Forbidden InternalError"
    ),
    ("ApplicationInstance", "Blocked", "False"): "Unblocked",
    ("ApplicationInstance", "Deleting", "True"): (
        "Uninstalling WaitingForChildResources"
        " AwaitingConfirmation"  # deleting the definition is no wish to uninstall (U3)
    ),
    ("ApplicationInstance", "Stalled", "True"): "RetriesExceeded ValidationFailed AnyReasonOfFlux",
    ("Operation", "Accepted", "True"): "TemplateValidated",
    ("Operation", "Accepted", "False"): (
        "ValidationFailed TargetNotFound CapabilityMissing TemplateNotAllowed HookNotFound"
    ),
    ("Operation", "Running", "True"): "EngineStarted VeleroBackupInProgress WorkflowInProgress JobPodActive",
    ("Operation", "Running", "False"): "EngineNotStarted EngineFinished",
    ("Operation", "Succeeded", "True"): "VeleroBackupCompleted",
    ("Operation", "Failed", "True"): (
        "EngineFailed WorkflowError Timeout PreconditionFailed ExternalDeletion PartialFailure"
    ),
    ("Operation", "Cancelled", "True"): "UserCancelled SupersededByOperation",
    ("Operation", "Blocked", "True"): (
        "ConflictingOperation AwaitingApproval TargetNotReady DependencyMissing FieldConflict NameTaken"
        " MissingSecret AwaitingResume NamespaceNotGated WrongCluster Forbidden InternalError"
    ),
    ("Operation", "Degraded", "True"): "PartialFailure",
    ("Cluster", "Connected", "True"): "RoundTripOK",
    ("Cluster", "Connected", "False"): "ControlPlaneUnreachable",
    ("Cluster", "Disconnected", "True"): "NoRecentRoundTrip",
    ("Cluster", "Authenticated", "True"): "CredentialAccepted",
    ("Cluster", "Authenticated", "False"): "CredentialRejected CredentialExpired",
    ("Cluster", "ControllersHealthy", "True"): "AllControllersReady",
    ("Cluster", "ControllersHealthy", "False"): "ControllerMissing ControllerDegraded",
    ("Cluster", "BufferOverflow", "True"): "EventBufferFull",
    ("Cluster", "BufferOverflow", "False"): "BufferDrained",
    ("Cluster", "Hardened", "True"): "NothingOpen",
    ("Cluster", "Hardened", "False"): "OpenSettings OpenPolicy UnguardedNamespaces",
}


def test_everything_specified_can_be_said() -> None:
    specified = [(*key, reason) for key, reasons in SPECIFIED.items() for reason in reasons.split()]

    assert [said for said in specified if not is_admitted(*said)] == []


@pytest.mark.parametrize("kind", TABLE)
def test_every_name_of_the_enums_is_used_and_every_used_name_is_in_the_enums(kind: str) -> None:
    types, reasons = ENUMS[kind]

    assert set(types) == {entry.type for entry in TABLE[kind]}
    assert set(reasons) == {reason for entry in TABLE[kind] for reason in entry.reasons}


def test_a_row_says_something_once() -> None:
    for kind, entry in ROWS:
        assert entry.reasons, entry
        assert len(set(entry.reasons)) == len(entry.reasons), entry
        assert entry.meaning.endswith("."), entry
        assert [row.status for row in entries(kind, entry.type)].count(entry.status) == 1, entry


@given(st.sampled_from(ROWS), st.text())
def test_where_nothing_foreign_is_passed_on_the_list_is_closed(row: tuple[str, VocabularyEntry], reason: str) -> None:
    kind, entry = row

    admitted = is_admitted(kind, entry.type, entry.status, reason)

    assert entry.foreign or admitted == (reason in entry.reasons)


@pytest.mark.parametrize("reason", ["", "two words", "1st", "a-b", "Ends,", "line\n"])
def test_a_foreign_reason_must_be_one_that_the_api_server_takes(reason: str) -> None:
    assert not is_admitted("Operation", "Running", "True", reason)


def test_a_status_or_kind_without_a_row_admits_nothing() -> None:
    assert not is_admitted("ApplicationInstance", "Stalled", "False", "RetriesExceeded")
    assert not is_admitted("Pod", "Ready", "True", "HelmReleaseReady")
    assert not is_admitted("Cluster", "Ready", "True", "HelmReleaseReady")


def test_the_operator_owns_the_types_of_its_table_and_no_others() -> None:
    assert owned_types("Cluster") == (
        "Connected",
        "Disconnected",
        "Authenticated",
        "ControllersHealthy",
        "BufferOverflow",
        "ClockSkew",
        "JobsBlocked",
        "Hardened",
    )
    assert owned_types("Pod") == ()


@pytest.mark.slow
def test_the_page_is_printed_from_the_table() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "conditions.md"

    assert page.read_text(encoding="utf-8") == markdown(), "run: python -m tools.generate ."


def test_the_page_names_every_reason() -> None:
    text = markdown()

    assert all(f"`{reason}`" in text for _, entry in ROWS for reason in entry.reasons)


def test_from_Blocked_to_the_line_that_decided_are_three_files_RES_4() -> None:
    """The page names the function beside reason and remedy: the page, the function's module, and what it calls."""
    kinds = ("ApplicationInstance", "Operation")
    waiting = {(kind, str(reason)) for kind in kinds for reason in obstacles(kind)}
    given_by = {key: files for key, files in reason_sites().items() if key in waiting}

    assert {reason for _, reason in waiting - set(given_by)} <= NEVER_GIVEN
    for (kind, reason), files in given_by.items():
        (row,) = (line for line in section(kind) if line.startswith(f"| `{reason}` | ") and line.count(" | ") == 2)
        assert all(f"`{file}`" in row for file in files)
    blocked = next(entry for entry in TABLE["ApplicationInstance"] if (entry.type, entry.status) == ("Blocked", "True"))
    for reason in set(map(str, blocked.reasons)) - NEVER_GIVEN:
        deciding = {"vworkspace_core/instances/blocking_reasons.py", "purekube/controller/reconcile_error.py"}
        assert deciding & set(given_by["ApplicationInstance", reason]), reason


def test_a_blocking_reason_of_an_instance_is_made_in_one_module_RES_4() -> None:
    made = {
        path.name
        for path in (CORE / "instances").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "BlockingReason"
    }

    assert made == {"blocking_reasons.py"}
