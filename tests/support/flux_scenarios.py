"""Scenarios of Flux: what a user does, and what is waited for. Each plays on any stage (RUN-8, RUN-9).

The docstring says what the scenario is about; its name is the name of the recording in `tests/conformance/flux`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.support.flux_stage import Holds, Stage, conditions, is_ready, is_stalled
from vworkspace_core.apimachinery.resources import OCI_REPOSITORY

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
