"""Scenarios about upgrades, how they fail, and the ways out."""

from tests.support.flux_scenarios.registry import ready, scenario
from tests.support.flux_stage import Stage, conditions, is_ready, is_stalled


@scenario
def upgrade(stage: Stage) -> None:
    """Another version of the chart: another source, and an upgrade."""
    stage.push("web", "1.0.0")
    stage.push("web", "1.1.0")
    stage.want("web", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.want("web", "1.1.0")
    stage.until(ready("1.1.0"))


@scenario
def upgrade_fails_and_rolls_back(stage: Stage) -> None:
    """A version whose pods never get ready: the upgrade times out, the former version is back."""
    stage.push("web", "1.0.0")
    stage.push("web", "1.1.0", pod="never-ready")
    stage.want("web", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.want("web", "1.1.0", patch={"upgrade": {"timeout": "5s"}})
    stage.until(is_stalled)


@scenario
def hook_fails_in_upgrade(stage: Stage) -> None:
    """A hook that fails after the upgrade: the former version is back."""
    stage.push("hooked", "1.0.0")
    stage.push("hooked", "1.1.0", hook="fails")
    stage.want("hooked", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.want("hooked", "1.1.0")
    stage.until(is_stalled)


@scenario
def way_out_of_a_failed_upgrade(stage: Stage) -> None:
    """After the rollback: asked alone Flux does nothing, asked to reset it tries again, another version succeeds."""
    hook_fails_in_upgrade(stage)
    stage.annotate(requestedAt="first")
    stage.until(lambda release: release["status"].get("lastHandledReconcileAt") == "first")
    stage.annotate(requestedAt="second", resetAt="second")
    stage.until(lambda release: release["status"].get("lastHandledReconcileAt") == "second" and is_stalled(release))
    stage.deploy("hooked", "1.2.0")


@scenario
def forced_release(stage: Stage) -> None:
    """Asked with force, Flux upgrades though nothing changed."""
    stage.deploy("settings", "1.0.0")
    stage.annotate(requestedAt="now", forceAt="now")
    stage.until(lambda release: conditions(release).get("Ready") == "True/UpgradeSucceeded" and is_ready(release))


@scenario
def upgrade_fails_and_uninstalls(stage: Stage) -> None:
    """With the strategy `uninstall` a failed upgrade takes the release away and installs the failed version."""
    _two_versions(stage)
    remediation = {"strategy": "uninstall", "retries": 1}
    install = {"timeout": "5s", "remediation": {"retries": 0}}
    stage.want("web", "1.1.0", patch={"upgrade": {"timeout": "5s", "remediation": remediation}, "install": install})
    stage.until(is_stalled)


@scenario
def upgrade_fails_and_is_left(stage: Stage) -> None:
    """Without remediation the failed upgrade stays as it is, and Flux waits for another spec."""
    _two_versions(stage)
    stage.want("web", "1.1.0", patch={"upgrade": {"timeout": "5s", "remediation": None}})
    stage.until(is_stalled)


@scenario
def retries_are_exhausted(stage: Stage) -> None:
    """An upgrade that is tried twice and given up; asked with force Flux tries once more."""
    _two_versions(stage)
    stage.want("web", "1.1.0", patch={"upgrade": {"timeout": "5s", "remediation": {"retries": 1}}})
    stage.until(is_stalled)
    stage.annotate(requestedAt="now", forceAt="now")
    stage.until(lambda release: release["status"].get("lastHandledReconcileAt") == "now" and is_stalled(release))


def _two_versions(stage: Stage) -> None:
    """Have a version at work, and one whose pods never get ready."""
    stage.push("web", "1.0.0")
    stage.push("web", "1.1.0", pod="never-ready")
    stage.want("web", "1.0.0")
    stage.until(ready("1.0.0"))
