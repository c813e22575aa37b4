"""Scenarios about what ends: the HelmRelease, its source, its namespace."""

from purekube.apimachinery.resources import OCI_REPOSITORY
from tests.support.flux_scenarios.registry import scenario, scenario_by_its_end
from tests.support.flux_stage import Stage, conditions


@scenario
def uninstall(stage: Stage) -> None:
    """The HelmRelease is deleted: the release goes with it."""
    stage.deploy("settings", "1.0.0")
    stage.delete()
    stage.until_gone()


@scenario
def source_goes_first(stage: Stage) -> None:
    """The source is deleted before the release: the release stays, then goes without it."""
    stage.deploy("settings", "1.0.0")
    source = stage.desired("settings", "1.0.0").source
    stage.delete(OCI_REPOSITORY, source.name)
    stage.until_gone(OCI_REPOSITORY, source.name)
    stage.annotate(requestedAt="now")
    stage.until(lambda release: conditions(release).get("Ready", "").startswith("False/"))
    stage.delete()
    stage.until_gone()


@scenario_by_its_end
def namespace_is_deleted(stage: Stage) -> None:
    """The namespace is deleted: its controller chooses whether the release or its account goes first; all goes."""
    stage.deploy("settings", "1.0.0")
    stage.end_namespace()
