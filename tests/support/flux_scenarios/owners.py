"""Scenarios about what owns a release: Helm alone, two HelmReleases, storage that is gone."""

from purekube.apimachinery.manifest import Manifest
from tests.support.flux_scenarios.registry import ready, scenario
from tests.support.flux_stage import Holds, Stage, is_ready


@scenario
def helm_installed_it(stage: Stage) -> None:
    """A release that Helm alone had installed is taken over by an upgrade."""
    stage.push("settings", "1.0.0")
    stage.helm_installs("settings", "1.0.0")
    stage.want("settings", "1.0.0")
    stage.until(ready("1.0.0"))


@scenario
def storage_is_deleted(stage: Stage) -> None:
    """Helm's Secrets of a release are deleted by hand: Flux installs it again over what is there."""
    stage.deploy("settings", "1.0.0")
    stage.delete_storage()
    stage.annotate(requestedAt="now")
    stage.until(_has_handled("now"))


@scenario
def storage_is_deleted_before_an_uninstall(stage: Stage) -> None:
    """Helm's Secrets are deleted by hand, then the HelmRelease: it goes, as for a release that is gone."""
    stage.deploy("settings", "1.0.0")
    stage.delete_storage()
    stage.delete()
    stage.until_gone()


@scenario
def two_helm_releases_of_one_release(stage: Stage) -> None:
    """Two HelmReleases that name one release: the last to act has it, and the deletion of one takes it from both."""
    stage.deploy("settings", "1.0.0")
    stage.want("settings", "1.0.0", name="second", patch={"values": {"motto": "second"}})
    stage.until(is_ready, name="second")
    stage.annotate(requestedAt="first")
    stage.until(_has_handled("first"))
    stage.delete(name="second")
    stage.until_gone(name="second")
    stage.annotate(requestedAt="second")
    stage.until(_has_handled("second"))


def _has_handled(token: str) -> Holds:
    def holds(release: Manifest) -> bool:
        return bool(release["status"].get("lastHandledReconcileAt") == token and is_ready(release))

    return holds
