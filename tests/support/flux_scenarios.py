"""Scenarios of Flux: what a user does, and what is waited for. Each plays on any stage (RUN-8, RUN-9).

The docstring says what the scenario is about; its name is the name of the recording in `tests/conformance/flux`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.support.flux_stage import Holds, Stage, conditions, is_ready, is_stalled
from vworkspace_core.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY, SECRET

__all__ = ["SCENARIOS", "Scenario"]

Scenario = Callable[[Stage], None]
SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(play: Scenario) -> Scenario:
    """Take a scenario into the list."""
    SCENARIOS[play.__name__] = play
    return play


def _ready(version: str) -> Holds:
    return partial(is_ready, version=version)


@scenario
def install_from_oci(stage: Stage) -> None:
    """A chart in an OCI registry becomes a release."""
    stage.push("web", "1.0.0")
    stage.want("web", "1.0.0")
    stage.until(_ready("1.0.0"))


@scenario
def install_from_http(stage: Stage) -> None:
    """A chart in an HTTP repository becomes a release."""
    stage.publish(("web", "1.0.0"))
    stage.want("web", "1.0.0", url=stage.http)
    stage.until(_ready("1.0.0"))


@scenario
def version_is_not_there(stage: Stage) -> None:
    """A tag that is not in the registry is waited for."""
    stage.push("web", "1.0.0")
    stage.want("web", "9.9.9")
    stage.until(lambda release: conditions(release).get("Ready") == "False/SourceNotReady")
    stage.until_failed_again(OCI_REPOSITORY)


@scenario
def upgrade(stage: Stage) -> None:
    """Another version of the chart: another source, and an upgrade."""
    stage.push("web", "1.0.0")
    stage.push("web", "1.1.0")
    stage.want("web", "1.0.0")
    stage.until(_ready("1.0.0"))
    stage.want("web", "1.1.0")
    stage.until(_ready("1.1.0"))


@scenario
def upgrade_fails_and_rolls_back(stage: Stage) -> None:
    """A version whose pods never get ready: the upgrade times out, the former version is back."""
    stage.push("web", "1.0.0")
    stage.push("web", "1.1.0", pod="never-ready")
    stage.want("web", "1.0.0")
    stage.until(_ready("1.0.0"))
    stage.want("web", "1.1.0", patch={"upgrade": {"timeout": "5s"}})
    stage.until(is_stalled)


@scenario
def registry_down_then_up(stage: Stage) -> None:
    """A registry that answers 503 is asked again until it answers."""
    stage.push("web", "1.0.0")
    stage.registry_fails(503)
    stage.want("web", "1.0.0")
    stage.until_failed_again(OCI_REPOSITORY)
    stage.registry_fails(0)
    stage.until(_ready("1.0.0"))


@scenario
def credentials_are_refused(stage: Stage) -> None:
    """A registry that answers 401."""
    stage.push("web", "1.0.0")
    stage.registry_fails(401)
    stage.want("web", "1.0.0")
    stage.until_failed_again(OCI_REPOSITORY)


@scenario
def bad_template(stage: Stage) -> None:
    """A chart that does not render is tried again for ever."""
    stage.push("broken", "1.0.0")
    stage.want("broken", "1.0.0")
    stage.until_failed_again(HELM_RELEASE)


@scenario
def schema_refuses_values(stage: Stage) -> None:
    """Values that the chart's schema refuses: its own."""
    stage.push("web", "1.0.0", replicas="many")
    stage.want("web", "1.0.0")
    stage.until_failed_again(HELM_RELEASE)


@scenario
def values_are_missing(stage: Stage) -> None:
    """Values from a Secret that is not there, and then is."""
    stage.push("settings", "1.0.0")
    stage.want("settings", "1.0.0", patch={"valuesFrom": [{"kind": "Secret", "name": "values"}]})
    stage.until(lambda release: conditions(release).get("Ready") == "False/ValuesError")
    stage.create(SECRET, "values", stringData={"values.yaml": "motto: new"})
    stage.until(_ready("1.0.0"))


@scenario
def watched_values_change(stage: Stage) -> None:
    """Values in a Secret with Flux's watch label change: an upgrade without a new generation."""
    stage.push("settings", "1.0.0")
    watched = {"name": "values", "namespace": stage.namespace, "labels": {"reconcile.fluxcd.io/watch": "Enabled"}}
    stage.create(SECRET, "values", metadata=watched, stringData={"values.yaml": "motto: old"})
    stage.want("settings", "1.0.0", patch={"valuesFrom": [{"kind": "Secret", "name": "values"}]})
    stage.until(_ready("1.0.0"))
    stage.patch({"stringData": {"values.yaml": "motto: new"}}, SECRET, "values")
    stage.until(lambda release: conditions(release).get("Ready") == "True/UpgradeSucceeded" and is_ready(release))


@scenario
def install_never_ready(stage: Stage) -> None:
    """Pods that never get ready: the install times out, is undone, tried again, and given up."""
    stage.push("web", "1.0.0", pod="never-ready")
    stage.want("web", "1.0.0", patch={"install": {"timeout": "3s", "remediation": {"retries": 1}}})
    stage.until(is_stalled)


@scenario
def hook_fails_in_upgrade(stage: Stage) -> None:
    """A hook that fails after the upgrade: the former version is back."""
    stage.push("hooked", "1.0.0")
    stage.push("hooked", "1.1.0", hook="fails")
    stage.want("hooked", "1.0.0")
    stage.until(_ready("1.0.0"))
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
    stage.push("hooked", "1.2.0")
    stage.want("hooked", "1.2.0")
    stage.until(_ready("1.2.0"))


@scenario
def forced_release(stage: Stage) -> None:
    """Asked with force, Flux upgrades though nothing changed."""
    stage.push("settings", "1.0.0")
    stage.want("settings", "1.0.0")
    stage.until(_ready("1.0.0"))
    stage.annotate(requestedAt="now", forceAt="now")
    stage.until(lambda release: conditions(release).get("Ready") == "True/UpgradeSucceeded" and is_ready(release))


@scenario
def suspend_and_resume(stage: Stage) -> None:
    """A suspended release stays at its version until it is resumed."""
    stage.push("settings", "1.0.0")
    stage.push("settings", "1.1.0")
    stage.want("settings", "1.0.0")
    stage.until(_ready("1.0.0"))
    stage.patch({"spec": {"suspend": True}})
    stage.until(lambda release: release["status"].get("observedGeneration") == release["metadata"]["generation"])
    stage.want("settings", "1.1.0")
    stage.pause(2)
    stage.patch({"spec": {"suspend": None}})
    stage.until(_ready("1.1.0"))


@scenario
def uninstall(stage: Stage) -> None:
    """The HelmRelease is deleted: the release goes with it."""
    stage.push("settings", "1.0.0")
    stage.want("settings", "1.0.0")
    stage.until(_ready("1.0.0"))
    stage.delete()
    stage.until_gone()


@scenario
def source_goes_first(stage: Stage) -> None:
    """The source is deleted before the release: the release stays, then goes without it."""
    stage.push("settings", "1.0.0")
    stage.want("settings", "1.0.0")
    stage.until(_ready("1.0.0"))
    source = stage.desired("settings", "1.0.0").source
    stage.delete(OCI_REPOSITORY, source.name)
    stage.until_gone(OCI_REPOSITORY, source.name)
    stage.annotate(requestedAt="now")
    stage.until(lambda release: conditions(release).get("Ready", "").startswith("False/"))
    stage.delete()
    stage.until_gone()


@scenario
def chart_too_large_for_storage(stage: Stage) -> None:
    """A chart of 1 MB, which Helm keeps in one Secret with each release: it is tried again for ever."""
    stage.push("large", "1.0.0")
    stage.want("large", "1.0.0")
    stage.until_failed_again(HELM_RELEASE)


@scenario
def drift_is_warned_of(stage: Stage) -> None:
    """A hand on an object of the release, as the operator has Flux look for it: a warning."""
    stage.push("settings", "1.0.0")
    stage.want("settings", "1.0.0")
    stage.until(_ready("1.0.0"))
    stage.drift()
    stage.annotate(requestedAt="now")
    stage.until(lambda release: release["status"].get("lastHandledReconcileAt") == "now" and is_ready(release))
