"""Scenarios about an upgrade that is interrupted."""

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import SECRET
from tests.support.flux_scenarios.registry import ready, scenario
from tests.support.flux_stage import Stage, is_stalled


@scenario
def suspend_and_resume(stage: Stage) -> None:
    """A suspended release stays at its version until it is resumed."""
    stage.push("settings", "1.0.0")
    stage.push("settings", "1.1.0")
    stage.want("settings", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.patch({"spec": {"suspend": True}})
    stage.until(lambda release: release["status"].get("observedGeneration") == release["metadata"]["generation"])
    stage.want("settings", "1.1.0")
    stage.pause(2)
    stage.patch({"spec": {"suspend": None}})
    stage.until(ready("1.1.0"))


@scenario
def suspend_while_it_upgrades(stage: Stage) -> None:
    """Suspended in the middle of an upgrade that fails, and resumed with another version."""
    _upgrade_under_way(stage)
    stage.patch({"spec": {"suspend": True}})
    stage.until(_has_observed)
    stage.push("web", "1.2.0")
    stage.want("web", "1.2.0")
    stage.until(_has_observed)
    stage.patch({"spec": {"suspend": None}})
    stage.until(ready("1.2.0"))


@scenario
def another_version_while_it_upgrades(stage: Stage) -> None:
    """A spec that changes in the middle of an upgrade that fails."""
    _upgrade_under_way(stage)
    stage.deploy("web", "1.2.0")


@scenario
def killed_while_it_upgrades(stage: Stage) -> None:
    """helm-controller is killed in the middle of an upgrade that fails; another version is the way out."""
    _upgrade_under_way(stage)
    stage.kill_helm_controller()
    stage.until(is_stalled)
    stage.deploy("web", "1.2.0")


@scenario
def killed_while_it_installs(stage: Stage) -> None:
    """helm-controller is killed in the middle of an install that fails; asked to reset it tries again."""
    stage.push("web", "1.0.0", pod="never-ready")
    stage.want("web", "1.0.0", patch={"install": {"timeout": "8s", "remediation": {"retries": 0}}})
    stage.until(_is_stored, SECRET, "sh.helm.release.v1.shop.v1")
    stage.kill_helm_controller()
    stage.until(is_stalled)
    stage.annotate(requestedAt="now", resetAt="now")
    stage.until(lambda release: release["status"].get("lastHandledReconcileAt") == "now" and is_stalled(release))


def _upgrade_under_way(stage: Stage) -> None:
    """Be in the middle of an upgrade to a version whose pods never get ready."""
    stage.push("web", "1.0.0")
    stage.push("web", "1.1.0", pod="never-ready")
    stage.want("web", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.want("web", "1.1.0", patch={"upgrade": {"timeout": "8s"}})
    stage.until(_is_stored, SECRET, "sh.helm.release.v1.shop.v2")


def _is_stored(release: Manifest) -> bool:
    """Say whether Helm has begun: what is killed before leaves no trace."""
    return str(release["metadata"]["labels"]["status"]).startswith("pending-")


def _has_observed(release: Manifest) -> bool:
    return bool(release["status"].get("observedGeneration") == release["metadata"]["generation"])
