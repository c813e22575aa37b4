"""Scenarios about a hand on an object of a release."""

from collections.abc import Mapping
from typing import Any

from tests.support.flux_scenarios.registry import scenario
from tests.support.flux_stage import Stage, conditions, is_ready


@scenario
def drift_is_warned_of(stage: Stage) -> None:
    """A hand on an object of the release, as the operator has Flux look for it: a warning."""
    stage.deploy("settings", "1.0.0")
    stage.drift()
    stage.annotate(requestedAt="now")
    stage.until(lambda release: release["status"].get("lastHandledReconcileAt") == "now" and is_ready(release))


@scenario
def drift_is_corrected(stage: Stage) -> None:
    """A hand on an object of the release where Flux is to correct it."""
    _change_by_hand(stage, {"driftDetection": {"mode": "enabled"}})
    corrected = ("False/NoDriftDetected", None)  # helm-controller 1.4 has no such condition
    stage.until(lambda release: conditions(release).get("Drifted") in corrected and is_ready(release))


@scenario
def drift_is_ignored(stage: Stage) -> None:
    """A hand on a field that Flux is to ignore."""
    ignored = [{"paths": ["/data/motto"], "target": {"kind": "ConfigMap"}}]
    _change_by_hand(stage, {"driftDetection": {"mode": "enabled", "ignore": ignored}})


@scenario
def drift_is_not_looked_for(stage: Stage) -> None:
    """A hand on an object of the release where drift detection is off."""
    _change_by_hand(stage, {"driftDetection": {"mode": "disabled"}})


def _change_by_hand(stage: Stage, patch: Mapping[str, Any]) -> None:
    stage.deploy("settings", "1.0.0", patch=patch)
    stage.drift()
    stage.annotate(requestedAt="now")
    stage.until(lambda release: release["status"].get("lastHandledReconcileAt") == "now" and is_ready(release))
