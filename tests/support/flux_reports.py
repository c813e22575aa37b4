"""Hypothesis strategies for what Flux may report: every mixture of attempts, conditions and histories."""

from typing import Any

from hypothesis import strategies as st

from tests.support.instance_worlds import DIGEST, NOW, OLD_DIGEST, flux_condition, history

VERSIONS = ("6.6.0", "6.5.0")
DIGESTS = (DIGEST, OLD_DIGEST)
AGES = (1, 14, 16, 59, 61, 3600)

_READY = ("InstallSucceeded", "UpgradeFailed", "SourceNotReady", "ArtifactFailed", "ValuesError", "Progressing", "New")


def _moments() -> st.SearchStrategy[str]:
    from datetime import timedelta

    return st.sampled_from(AGES).map(lambda age: (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ"))


def _messages() -> st.SearchStrategy[str]:
    named = [f"Helm upgrade failed for release org-myteam/nextcloud with chart nextcloud@{v}: boom" for v in VERSIONS]
    return st.sampled_from(["", "password=hunter2", "running", *named])


def _conditions(kind: str, statuses: tuple[str, ...], reasons: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda status, reason, message, moment, generation: flux_condition(
            kind, status, reason, message, lastTransitionTime=moment, observedGeneration=generation
        ),
        st.sampled_from(statuses),
        st.sampled_from(reasons),
        _messages(),
        _moments(),
        st.sampled_from((1, 2)),
    )


def _some(*strategies: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    maybe = [st.none() | strategy for strategy in strategies]
    return st.tuples(*maybe).map(lambda found: [one for one in found if one is not None])


def helm_reports() -> st.SearchStrategy[dict[str, Any]]:
    """Status of a HelmRelease."""
    conditions = _some(
        _conditions("Ready", ("True", "False", "Unknown"), _READY),
        _conditions("Released", ("True", "False"), ("InstallSucceeded", "InstallFailed", "UpgradeFailed")),
        _conditions("Reconciling", ("True",), ("Progressing", "ProgressingWithRetry")),
        _conditions("Stalled", ("True",), ("RetriesExceeded", "AccessDenied", "MissingRollbackTarget")),
        _conditions("Remediated", ("True", "False"), ("RollbackSucceeded", "UninstallSucceeded", "RollbackFailed")),
        _conditions("Drifted", ("True", "False"), ("DriftDetected", "NoDriftDetected")),
        _conditions("TestSuccess", ("True", "False"), ("TestSucceeded", "TestFailed")),
    )
    entries = st.builds(
        history,
        st.sampled_from(VERSIONS),
        st.sampled_from(DIGESTS),
        st.sampled_from(("deployed", "failed", "superseded", "uninstalled")),
    )
    return st.fixed_dictionaries(
        {"observedGeneration": st.sampled_from((-1, 1, 2)), "conditions": conditions},
        optional={
            "lastAttemptedGeneration": st.sampled_from((1, 2)),
            "lastAttemptedRevision": st.sampled_from([f"{v}+{d[7:19]}" for v in VERSIONS for d in DIGESTS]),
            "lastAttemptedRevisionDigest": st.sampled_from(DIGESTS),
            "history": st.lists(entries, max_size=3),
            "failures": st.integers(0, 3),
            "upgradeFailures": st.integers(0, 2),
        },
    )


def source_reports() -> st.SearchStrategy[dict[str, Any]]:
    """Status of an OCIRepository."""
    artifact = st.builds(
        lambda tag, digest: {"revision": f"{tag}@{digest}", "digest": digest},
        st.sampled_from(VERSIONS),
        st.sampled_from(DIGESTS),
    )
    conditions = _some(
        _conditions("Ready", ("True", "False"), ("Succeeded", "OCIArtifactPullFailed")),
        _conditions("FetchFailed", ("True",), ("OCIArtifactPullFailed", "AuthenticationFailed")),
        _conditions("Stalled", ("True",), ("URLInvalid",)),
    )
    return st.fixed_dictionaries(
        {"observedGeneration": st.sampled_from((-1, 1, 2)), "conditions": conditions}, optional={"artifact": artifact}
    )
