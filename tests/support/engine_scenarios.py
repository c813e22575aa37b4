"""Scenarios of engines: what becomes of an Operation's object, and what is waited for (OPS-8, OPS-10, RUN-9).

The docstring says what the scenario is about; its name is the name of the recording in `tests/conformance/engines`.
"""

from collections.abc import Callable
from typing import Final

import attrs

from tests.support.engine_stage import EngineStage
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.operations.settings import RUNNER
from vworkspace_fake.downstream.kinds import SERVICE_ACCOUNT

__all__ = ["SCENARIOS", "Scenario"]

_JOB: Final = "runCommand.job"
_IMAGE: Final = "registry.example.com/tool:1"


@attrs.frozen
class Scenario:
    """A script, and the component of `make cluster` that it wants beside Kubernetes."""

    play: Callable[[EngineStage], None]
    component: str = ""


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(component: str = "") -> Callable[[Callable[[EngineStage], None]], Callable[[EngineStage], None]]:
    """Take a scenario into the list."""

    def take(play: Callable[[EngineStage], None]) -> Callable[[EngineStage], None]:
        SCENARIOS[play.__name__] = Scenario(play, component)
        return play

    return take


@scenario()
def job_succeeds(stage: EngineStage) -> None:
    """A Job whose pod ends with status 0."""
    stage.run(_JOB, image=_IMAGE)
    stage.until_says("JobComplete")


@scenario()
def job_fails(stage: EngineStage) -> None:
    """A Job whose pod ends with status 1, and is not tried again."""
    stage.run(_JOB, image=_IMAGE, pods="fails")
    stage.until_says("BackoffLimitExceeded")


@scenario()
def job_backs_off(stage: EngineStage) -> None:
    """A Job whose pod fails, is replaced once, and fails again."""
    stage.run(_JOB, image=_IMAGE, backoffLimit=1, pods="fails")
    stage.until_says("BackoffLimitExceeded")


@scenario()
def job_exceeds_its_deadline(stage: EngineStage) -> None:
    """A Job that takes longer than it may."""
    stage.run(_JOB, image=_IMAGE, timeoutSeconds=3, pods="hangs")
    stage.until_says("DeadlineExceeded")


@scenario()
def job_is_removed_after_its_end(stage: EngineStage) -> None:
    """A Job whose time to live is over: its Event tells of its end."""
    stage.run(_JOB, image=_IMAGE, patch={"ttlSecondsAfterFinished": 1})
    stage.until_gone()


@scenario()
def job_cannot_be_scheduled(stage: EngineStage) -> None:
    """A Job whose pod no node takes, until its deadline."""
    nowhere = {"template": {"spec": {"nodeSelector": {"disk": "none"}}}}
    stage.run(_JOB, image=_IMAGE, timeoutSeconds=5, pods="unschedulable", patch=nowhere)
    stage.until_says("JobPodUnschedulable")
    stage.until_says("DeadlineExceeded")


@scenario()
def job_image_cannot_be_pulled(stage: EngineStage) -> None:
    """A Job whose image is not there, until its deadline."""
    stage.run(_JOB, image=_IMAGE, timeoutSeconds=5, pods="no-image")
    stage.until_says("JobImagePullFailed")
    stage.until_says("DeadlineExceeded")


@scenario()
def job_exceeds_a_quota(stage: EngineStage) -> None:
    """A Job for whose pod the namespace has no room, until it has."""
    stage.quota(0)
    stage.run(_JOB, image=_IMAGE)
    stage.until_says("JobQuotaExceeded")
    stage.quota(None)
    stage.until_says("JobComplete")


@scenario()
def job_lacks_its_account(stage: EngineStage) -> None:
    """A Job whose service account is not there, until it is."""
    stage.delete(ObjectRef(SERVICE_ACCOUNT, stage.namespace, RUNNER))
    stage.run(_JOB, image=_IMAGE)
    stage.until_says("JobServiceAccountMissing")
    stage.create(SERVICE_ACCOUNT.manifest(RUNNER, stage.namespace), SERVICE_ACCOUNT)
    stage.until_says("JobComplete")


@scenario()
def job_is_suspended(stage: EngineStage) -> None:
    """A Job that is suspended from the start, resumed, and suspended again while it runs."""
    stage.run(_JOB, image=_IMAGE, pods="hangs", patch={"suspend": True})
    stage.until_says("JobSuspended")
    stage.patch({"spec": {"suspend": False}})
    stage.until_says("JobPodActive")
    stage.patch({"spec": {"suspend": True}})
    stage.until_says("JobSuspended")
