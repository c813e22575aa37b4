"""Scenarios about an upgrade that is interrupted."""

from tests.support.flux_scenarios.registry import ready, scenario
from tests.support.flux_stage import Holds, Stage, is_stalled
from vworkspace_core.apimachinery.manifest import Manifest, get_path


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
    stage.push("web", "1.2.0")
    stage.want("web", "1.2.0")
    stage.until(ready("1.2.0"))


@scenario
def killed_while_it_upgrades(stage: Stage) -> None:
    """helm-controller is killed in the middle of an upgrade: the release is left `pending-upgrade`."""
    _upgrade_under_way(stage)
    stage.kill_helm_controller()
    stage.until(is_stalled)


@scenario
def killed_while_it_installs(stage: Stage) -> None:
    """helm-controller is killed in the middle of an install: the release is left `pending-install`."""
    stage.push("web", "1.0.0", pod="never-ready")
    stage.want("web", "1.0.0", patch={"install": {"timeout": "8s", "remediation": {"retries": 0}}})
    stage.until(_is_running("install"))
    stage.pause(2)
    stage.kill_helm_controller()
    stage.until(is_stalled)


def _upgrade_under_way(stage: Stage) -> None:
    """Be in the middle of an upgrade to a version whose pods never get ready."""
    stage.push("web", "1.0.0")
    stage.push("web", "1.1.0", pod="never-ready")
    stage.want("web", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.want("web", "1.1.0", patch={"upgrade": {"timeout": "8s"}})
    stage.until(_is_running("upgrade"))
    stage.pause(2)


def _is_running(action: str) -> Holds:
    def holds(release: Manifest) -> bool:
        messages = [item["message"] for item in get_path(release, "status", "conditions") or ()]
        return any(message.startswith(f"Running '{action}' action") for message in messages)

    return holds


def _has_observed(release: Manifest) -> bool:
    return bool(release["status"].get("observedGeneration") == release["metadata"]["generation"])
