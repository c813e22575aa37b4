"""Scenarios about where a chart comes from: registries, tags, certificates."""

from purekube.apimachinery.resources import OCI_REPOSITORY
from tests.support.flux_scenarios.registry import ready, scenario, scenario_by_its_end
from tests.support.flux_stage import Stage, conditions, is_ready


@scenario
def install_from_oci(stage: Stage) -> None:
    """A chart in an OCI registry becomes a release."""
    stage.deploy("web", "1.0.0")


@scenario
def install_from_http(stage: Stage) -> None:
    """A chart in an HTTP repository becomes a release."""
    stage.publish(("web", "1.0.0"))
    stage.want("web", "1.0.0", url=stage.http)
    stage.until(ready("1.0.0"))


@scenario
def version_is_not_there(stage: Stage) -> None:
    """A tag that is not in the registry is waited for."""
    stage.push("web", "1.0.0")
    stage.want("web", "9.9.9")
    stage.until(lambda release: conditions(release).get("Ready") == "False/SourceNotReady")
    stage.until_failed_again(OCI_REPOSITORY)


@scenario
def registry_down_then_up(stage: Stage) -> None:
    """A registry that answers 503 is asked again until it answers."""
    stage.push("web", "1.0.0")
    stage.registry_fails(503)
    stage.want("web", "1.0.0")
    stage.until_failed_again(OCI_REPOSITORY)
    stage.registry_fails(0)
    stage.until(ready("1.0.0"))


@scenario
def credentials_are_refused(stage: Stage) -> None:
    """A registry that answers 401."""
    stage.push("web", "1.0.0")
    stage.registry_fails(401)
    stage.want("web", "1.0.0")
    stage.until(lambda release: conditions(release).get("Ready") == "False/SourceNotReady")
    stage.until_failed_again(OCI_REPOSITORY)


@scenario
def digest_instead_of_tag(stage: Stage) -> None:
    """A source that is moved from a tag to the digest of another version: an upgrade without a new generation."""
    stage.push("settings", "1.0.0")
    stage.push("settings", "1.1.0")
    stage.want("settings", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.refer("settings", "1.0.0", digest=stage.digest_of("settings 1.1.0"))
    stage.until(ready("1.1.0"))


@scenario
def range_of_versions(stage: Stage) -> None:
    """A source that takes the newest version of a range: the one that is there, then a newer one."""
    stage.push("settings", "1.0.0")
    stage.push("settings", "2.0.0")
    stage.want("settings", "1.0.0")
    stage.until(ready("1.0.0"))
    stage.push("settings", "1.1.0")
    stage.refer("settings", "1.0.0", semver=">=1.0.0 <2.0.0")
    stage.until(ready("1.1.0"))


@scenario
def tag_is_pushed_again(stage: Stage) -> None:
    """Another chart under the same tag is seen at the source's interval or when the source is asked."""
    stage.deploy("settings", "1.0.0")
    stage.push("settings", "1.0.0", motto="pushed again")
    stage.ask_source("settings", "1.0.0")
    stage.until(lambda release: conditions(release).get("Ready") == "True/UpgradeSucceeded" and is_ready(release))


@scenario
def certificate_is_not_trusted(stage: Stage) -> None:
    """A registry whose certificate is signed by an unknown authority is asked again for ever."""
    stage.push("web", "1.0.0")
    stage.want("web", "1.0.0", url=stage.untrusted)
    stage.until_failed_again(OCI_REPOSITORY)


@scenario_by_its_end
def hundred_releases(stage: Stage) -> None:
    """A hundred releases at once, each with its source, at the concurrency that Flux ships."""
    stage.push("settings", "1.0.0")
    stage.want_many("settings", "1.0.0", 100)
    stage.until_all(ready("1.0.0"), 100)
