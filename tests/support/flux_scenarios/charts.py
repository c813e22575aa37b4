"""Scenarios about charts that cannot be installed."""

from purekube.apimachinery.resources import HELM_RELEASE
from tests.support.flux_scenarios.registry import scenario
from tests.support.flux_stage import Stage, is_stalled


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
def chart_too_large_for_storage(stage: Stage) -> None:
    """A chart of 1 MB, which Helm keeps in one Secret with each release: it is tried again for ever."""
    stage.push("large", "1.0.0")
    stage.want("large", "1.0.0")
    stage.until_failed_again(HELM_RELEASE)


@scenario
def install_never_ready(stage: Stage) -> None:
    """Pods that never get ready: the install times out, is undone, tried again, and given up."""
    stage.push("web", "1.0.0", pod="never-ready")
    stage.want("web", "1.0.0", patch={"install": {"timeout": "3s", "remediation": {"retries": 1}}})
    stage.until(is_stalled)
