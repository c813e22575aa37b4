"""The operator's reading of the end of each scenario of Flux (REC-5, RUN-9)."""

from datetime import datetime
from typing import Final

from purekube.apimachinery.resources import HELM_CHART, OCI_REPOSITORY
from tests.support.flux_stage import Stage
from vworkspace_core.instances.observed_release import ReleaseRequest, ReleaseTimeouts
from vworkspace_core.instances.release_state import ClassifiedRelease, ReleaseState, classify

READY: Final = (ReleaseState.READY, "")
_TIMEOUTS: Final = ReleaseTimeouts(source_grace=60, source_wait=15, stuck_ready=30)
_GONE: Final = ("uninstall", "source_goes_first", "namespace_is_deleted", "storage_is_deleted_before_an_uninstall")
END: Final = {
    "bad_template": (ReleaseState.FAILED, ""),
    "schema_refuses_values": (ReleaseState.FAILED, ""),
    "chart_too_large_for_storage": (ReleaseState.FAILED, ""),
    "install_never_ready": (ReleaseState.STALLED, "RetriesExceeded"),
    "killed_while_it_installs": (ReleaseState.STALLED, "MissingRollbackTarget"),
    "version_is_not_there": (ReleaseState.CHART_UNREACHABLE, ""),
    "credentials_are_refused": (ReleaseState.CHART_UNREACHABLE, ""),
    "certificate_is_not_trusted": (ReleaseState.CHART_UNREACHABLE, ""),
    # A hand on our source: it is another release than the one that was asked for, until our next apply.
    "digest_instead_of_tag": (ReleaseState.UPGRADING, ""),
    "range_of_versions": (ReleaseState.UPGRADING, ""),
    "upgrade_fails_and_rolls_back": (ReleaseState.ROLLED_BACK, "RetriesExceeded"),
    "hook_fails_in_upgrade": (ReleaseState.ROLLED_BACK, "RetriesExceeded"),
    "retries_are_exhausted": (ReleaseState.ROLLED_BACK, "RetriesExceeded"),
    "upgrade_fails_and_uninstalls": (ReleaseState.STALLED, "RetriesExceeded"),
    "upgrade_fails_and_is_left": (ReleaseState.STALLED, "RetriesExceeded"),
    **dict.fromkeys(_GONE, (ReleaseState.PENDING, "")),
}
"""How each scenario ends in which the release does not become Ready."""


def reading(stage: Stage, now: datetime) -> ClassifiedRelease:
    """Return what the operator reads of the release that the stage asked for last."""
    desired = stage.wanted
    assert desired is not None
    return classify(
        stage.find(),
        stage.find(desired.source.kind, desired.source.name),
        stage.find(HELM_CHART, desired.chart.name),
        ReleaseRequest(desired.version, desired.source.kind == OCI_REPOSITORY),
        now,
        _TIMEOUTS,
    )
