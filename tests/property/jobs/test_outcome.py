"""When an object's status ends a job, row by row (PULL-3)."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import condition
from tests.support.jobs import instance, operation, with_status
from vworkspace_core.api import labels
from vworkspace_core.jobs.object_status import phase_of, summary_of
from vworkspace_core.jobs.result import LONGEST_ERROR, JobOutcome, JobResult, result_of

READY = condition("Ready", "True", "HelmReleaseReady", 2)
STABLE = condition("Reconciling", "False", "Stable", 2)
FAILED = condition("Ready", "False", "HelmReleaseFailed", 2, "upgrade failed: timed out")
WORDLESS = condition("Ready", "False", "HelmReleaseFailed", 2)
DEGRADED = condition("Degraded", "True", "HelmReleaseFailed", 2, "helm")
RETRYING = condition("Reconciling", "True", "HelmReleaseUpgrading", 2)
STALLED = condition("Stalled", "True", "RetriesExceeded", 2, "no retries left")


def blocked(reason: str, message: str = "why") -> dict[str, Any]:
    return condition("Blocked", "True", reason, 2, message)


def old(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "observedGeneration": 1}


LEFT_BEHIND = "the ApplicationInstance stays and takes the name once it is free: delete it if you do not want that"


@pytest.mark.parametrize(
    ("conditions", "verdict"),
    [
        ((), None),
        ((READY, STABLE), JobResult(JobOutcome.SUCCEEDED)),
        ((READY, RETRYING), JobResult(JobOutcome.SUCCEEDED)),
        ((condition("Ready", "True", "Placeholder", 3),), JobResult(JobOutcome.SUCCEEDED)),
        ((old(READY), RETRYING), None),
        ((old(READY), old(STALLED)), None),
        ((condition("Ready", "Unknown", "Reconciling", 2),), None),
        ((FAILED, DEGRADED, RETRYING), None),
        ((FAILED, DEGRADED), JobResult(JobOutcome.FAILED, "HelmReleaseFailed: upgrade failed: timed out")),
        ((FAILED, DEGRADED, STABLE), JobResult(JobOutcome.FAILED, "HelmReleaseFailed: upgrade failed: timed out")),
        ((WORDLESS, DEGRADED), JobResult(JobOutcome.FAILED, "HelmReleaseFailed: helm")),
        ((WORDLESS, STALLED), JobResult(JobOutcome.FAILED, "HelmReleaseFailed: no retries left")),
        ((FAILED, STABLE), None),
        ((condition("Ready", "False", "ChartUnreachable", 2), STABLE), None),
        ((FAILED, STALLED, RETRYING), JobResult(JobOutcome.FAILED, "HelmReleaseFailed: upgrade failed: timed out")),
        ((STALLED,), JobResult(JobOutcome.FAILED, "RetriesExceeded: no retries left")),
        ((old(READY), STALLED), JobResult(JobOutcome.FAILED, "RetriesExceeded: no retries left")),
        ((old(READY), blocked("ValidationFailed")), JobResult(JobOutcome.FAILED, "ValidationFailed: why")),
        ((blocked("NameTaken"),), JobResult(JobOutcome.FAILED, f"NameTaken: why; {LEFT_BEHIND}")),
        ((blocked("WrongCluster"),), JobResult(JobOutcome.FAILED, "WrongCluster: why")),
        ((blocked("NamespaceNotGated"),), JobResult(JobOutcome.FAILED, "NamespaceNotGated: why")),
        ((blocked("PolicyDenied"),), JobResult(JobOutcome.FAILED, "PolicyDenied: why")),
        ((blocked("MissingDependencies"),), None),
        ((blocked("AwaitingApproval"),), None),
        ((old(blocked("NameTaken")),), None),
        ((blocked("FieldConflict", "k: .spec"),), JobResult(JobOutcome.CONFLICT, "FieldConflict: k: .spec")),
    ],
)  # fmt: skip
def test_the_table_of_an_ApplicationInstance_PULL_3(conditions: Any, verdict: JobResult | None) -> None:
    assert result_of(with_status(instance(), *conditions, observedGeneration=2), 2) == verdict


def test_a_condition_without_a_generation_of_its_own_has_the_status_s() -> None:
    live = with_status(instance(), condition("Ready", "True", "HelmReleaseReady", None), observedGeneration=2)

    assert result_of(live, 2) == JobResult(JobOutcome.SUCCEEDED)
    assert result_of(live, 3) is None


@pytest.mark.parametrize(
    ("phase", "conditions", "verdict"),
    [
        (None, (), None),
        ("Pending", (), None),
        ("Running", (), None),
        ("Rolling", (), None),
        ("Succeeded", (), JobResult(JobOutcome.SUCCEEDED)),
        ("Failed", (condition("Failed", "True", "Timeout", 1, "late"),), JobResult(JobOutcome.FAILED, "Timeout: late")),
        ("Failed", (), JobResult(JobOutcome.FAILED, "EngineFailed")),
        (
            "Cancelled",
            (condition("Cancelled", "True", "UserCancelled", 1),),
            JobResult(JobOutcome.FAILED, "Cancelled: UserCancelled"),
        ),
        ("Pending", (condition("Accepted", "True", "TemplateValidated"),), None),
        ("Pending", (condition("Blocked", "True", "AwaitingApproval"),), None),
        (
            "Pending",
            (condition("Accepted", "False", "CapabilityMissing", 1, "no engine is named"),),
            JobResult(JobOutcome.FAILED, "CapabilityMissing: no engine is named"),
        ),
        ("Pending", (condition("Accepted", "False", "CapabilityMissing", 0),), None),
        ("Running", (condition("Accepted", "False", "ValidationFailed"),), None),
        ("Running", (condition("Succeeded", "True", "Done"),), None),
        ("Succeeded", (condition("Accepted", "False", "ValidationFailed"),), JobResult(JobOutcome.SUCCEEDED)),
    ],
)
def test_the_table_of_an_Operation_PULL_3(phase: str | None, conditions: Any, verdict: JobResult | None) -> None:
    assert result_of(with_status(operation(), *conditions, phase=phase), 1) == verdict


def marked(manifest: dict[str, Any], *conditions: Any, retry: str = "", observed: bool = True, **status: Any) -> Any:
    """A live object that a job wrote; `observed`: its status was decided with that request."""
    annotations = {labels.IDEMPOTENCY_KEY: "key", **({labels.RETRY: retry} if retry else {})}
    asked = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    mark = labels.request_mark(annotations if observed else {labels.IDEMPOTENCY_KEY: "another"})
    return with_status(asked, *conditions, observedRequest=mark, **status)


SUSPENDED = condition("Suspended", "True", "ManuallySuspended")


def suspended(wanted: bool = True) -> dict[str, Any]:
    found = instance()
    return {**found, "spec": {**found["spec"], "suspend": wanted}}


@pytest.mark.parametrize(
    ("conditions", "verdict"),
    [
        ((), None),
        ((SUSPENDED,), JobResult(JobOutcome.SUCCEEDED)),
        ((condition("Ready", "True", "HelmReleaseReady", 0), SUSPENDED), JobResult(JobOutcome.SUCCEEDED)),
        ((condition("Ready", "False", "NotDeployed"), SUSPENDED), JobResult(JobOutcome.SUCCEEDED)),
        ((condition("Stalled", "True", "RetriesExceeded", 0), SUSPENDED), JobResult(JobOutcome.SUCCEEDED)),
        ((condition("Suspended", "True", "ManuallySuspended", 0),), None),
        (
            (condition("Blocked", "True", "PolicyDenied", 1, "no"), SUSPENDED),
            JobResult(JobOutcome.FAILED, "PolicyDenied: no"),
        ),
        ((condition("Blocked", "True", "MissingDependencies"), condition("Suspended", "False", "Active")), None),
    ],
)
def test_a_job_that_suspends_succeeds_when_the_suspension_is_observed_PULL_3(
    conditions: Any, verdict: JobResult | None
) -> None:
    assert result_of(with_status(suspended(), *conditions), 1) == verdict


def test_a_job_that_resumes_is_not_answered_by_the_suspension_of_before() -> None:
    assert result_of(with_status(suspended(False), SUSPENDED), 1) is None


@pytest.mark.parametrize("retry", ["", "again"])
@pytest.mark.parametrize(
    "conditions",
    [
        (condition("Ready", "True", "HelmReleaseReady"),),
        (condition("Ready", "False", "RolledBack"), condition("Stalled", "True", "RetriesExceeded")),
        (condition("Blocked", "True", "NameTaken"),),
        (condition("Blocked", "True", "FieldConflict"),),
    ],
)
def test_a_verdict_from_before_the_request_is_none_PULL_3(conditions: Any, retry: str) -> None:
    assert result_of(marked(instance(), *conditions, retry=retry, observed=False), 1) is None
    assert result_of(marked(instance(), *conditions, retry=retry), 1) is not None


def test_an_operation_that_was_refused_before_somebody_asked_for_it_is_not_judged_by_that() -> None:
    refused = condition("Accepted", "False", "TargetNotFound")

    assert result_of(marked(operation(), refused, phase="Pending", observed=False), 1) is None
    assert result_of(marked(operation(), refused, phase="Pending"), 1) == JobResult(JobOutcome.FAILED, "TargetNotFound")
    ended = marked(operation(), phase="Succeeded", observed=False)
    assert result_of(ended, 1) == JobResult(JobOutcome.SUCCEEDED), "an end is final, whoever asked"


def test_where_the_status_does_not_say_what_it_answers_it_has_to_have_changed() -> None:
    """As an operator of before this release left it."""
    failed = condition("Ready", "False", "RolledBack"), condition("Stalled", "True", "RetriesExceeded")
    live = with_status(instance(annotations={labels.RETRY: "again"}), *failed)

    assert result_of(live, 1, live["status"]) is None
    assert result_of(live, 1, {}) is not None
    ready = with_status(instance(annotations={labels.RETRY: "again"}), condition("Ready", "True", "HelmReleaseReady"))
    assert result_of(ready, 1, ready["status"]) is None, "not even a success is an answer to a retry"
    plain = with_status(instance(), condition("Ready", "True", "HelmReleaseReady"))
    assert result_of(plain, 1, plain["status"]) == JobResult(JobOutcome.SUCCEEDED)


WORDS = ("Deleting", "Blocked", "Stalled", "Suspended", "Reconciling", "Ready")
"""Conditions in the order in which they give the word for the state."""


PAIRS = [*itertools.combinations_with_replacement([*WORDS, "Degraded"], 2)]


@pytest.mark.parametrize("how", ["True", "False", "Unknown"])
def test_the_most_important_condition_that_is_true_is_the_word_for_the_state_PULL_2(how: str) -> None:
    for types in PAIRS:
        live = with_status(instance(), *(condition(name, how, "R", 2) for name in {*types}))
        true = types if how == "True" else ()
        expected = next((name for name in WORDS if name in true), "Degraded" if true else "Pending")
        assert phase_of(live) == expected, types


@pytest.mark.parametrize("status", [None, 5, [], {"conditions": 5}, {"conditions": [5, {"type": 5}, {"status": "x"}]}])
@pytest.mark.parametrize("manifest", [instance(), operation()])
def test_a_strange_status_settles_nothing_and_raises_nothing(manifest: Any, status: Any) -> None:
    live = {**manifest, "status": status}

    assert result_of(live, 1) is None
    assert phase_of(live) == "Pending"
    assert summary_of(live) == ""


def test_an_error_is_redacted_and_cut() -> None:
    message = f"login failed password=hunter2 {'x' * 3000}"

    error = JobResult.failed("HelmReleaseFailed", message).error

    assert "hunter2" not in error
    assert error.startswith("HelmReleaseFailed: login failed password=***")
    assert len(error) == LONGEST_ERROR


@given(
    st.lists(
        st.builds(
            condition,
            st.sampled_from(["Ready", "Reconciling", "Stalled", "Degraded", "Blocked", "Suspended", "Deleting"]),
            st.sampled_from(["True", "False", "Unknown"]),
            st.sampled_from(["HelmReleaseReady", "HelmReleaseFailed", "FieldConflict", "ValidationFailed", "Stable"]),
            st.integers(0, 3) | st.none(),
        ),
        unique_by=lambda found: found["type"],
    ),
    st.integers(0, 3),
)
def test_nothing_settles_a_job_but_a_condition_of_its_generation_or_a_later_one_REC_7(
    conditions: list[dict[str, Any]], observed: int
) -> None:
    live = with_status(instance(), *conditions, observedGeneration=observed)

    verdict = result_of(live, 4)
    succeeded = result_of(live, 2) == JobResult(JobOutcome.SUCCEEDED)

    assert verdict is None
    assert succeeded == any(
        (found["type"], found["status"]) == ("Ready", "True") and found.get("observedGeneration", observed) >= 2
        for found in conditions
    )
