"""The recipes for `--behaviour` in docs/embedded-api-server.md do what they say, and its tables have every field."""

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kubelab.cluster.simulators import read_behaviour
from kubelab.downstream import DownstreamOutcome, DownstreamRule, Ending
from kubelab.flux.behaviour import (
    Action,
    FluxOutcome,
    OutcomeKind,
    PullStage,
    ReleaseRule,
    SourceFault,
    SourceOutcome,
    SourceRule,
)
from kubelab.inprocess import run_sync
from purekube.apimachinery.fields import camel
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import DEPLOYMENT, HELM_RELEASE, JOB, OCI_REPOSITORY, POD, SERVICE, VELERO_BACKUP
from tests.support.downstream_world import NS, VELERO_NS, DownstreamWorld, backup, conditions, job
from tests.support.flux_world import FluxWorld, helm_release, oci_repository

PAGE = (Path(__file__).parents[2] / "docs" / "embedded-api-server.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^\| (an? .+?) \| `(.+)` \|$", PAGE, re.MULTILINE))
"""What a recipe is for, and its file."""


def behaviour(what: str) -> Any:
    return read_behaviour(yaml.safe_load(RECIPES[what]))


def installed(what: str, tag: str = "6.7.0") -> FluxWorld:
    """A Flux that was asked for podinfo."""
    world = FluxWorld(behaviour(what).flux)
    world.apply(oci_repository(tag, url="oci://registry.example/charts/podinfo"), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.run(60)
    return world


def others(what: str) -> DownstreamWorld:
    """The other controllers, with a Deployment `web`, a Service `web`, a Job `nightly-1` and a Backup `b`."""
    world = DownstreamWorld(behaviour(what).downstream)
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "progressDeadlineSeconds": 20}
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    world.create({**DEPLOYMENT.manifest("web", NS), "spec": {**spec, "template": pod}}, DEPLOYMENT)
    world.create({**SERVICE.manifest("web", NS), "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}, SERVICE)
    world.create(job("nightly-1", backoffLimit=1), JOB)
    world.create(backup(), VELERO_BACKUP)
    world.run(25)
    return world


def one_version() -> None:
    assert installed("a chart of which one version alone exists").conditions()["Ready"] == "True/InstallSucceeded"
    missing = installed("a chart of which one version alone exists", "6.8.0")
    assert missing.conditions(OCI_REPOSITORY)["Ready"] == "False/OCIArtifactPullFailed"


def registry_down() -> None:
    states = installed("a registry that is down for two requests").states(OCI_REPOSITORY)
    ready = [conditions(state.get("status") or {}).get("Ready", "") for state in states]
    assert "False/OCIArtifactPullFailed" in ready
    assert ready[-1] == "True/Succeeded"


def failing_upgrade() -> None:
    world = installed("an upgrade that fails")
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    world.apply(oci_repository("6.9.0", url="oci://registry.example/charts/podinfo"), OCI_REPOSITORY)
    world.run(400)
    history = world.status("history")
    assert "failed" in {release["status"] for release in history}
    assert "out of memory" in str([state.get("status") for state in world.states()])


def by_hand() -> None:
    assert "Deployment/org/shop changed" in installed("a resource that was changed by hand").message("Drifted")


def never_ready() -> None:
    status = others("a Deployment that never becomes ready").status(DEPLOYMENT, "web")
    assert conditions(status)["Progressing"] == "False/ProgressDeadlineExceeded"


def slow() -> None:
    world = others("a slow Deployment")
    assert not world.status(DEPLOYMENT, "web").get("readyReplicas")
    world.run(10)
    assert world.status(DEPLOYMENT, "web")["readyReplicas"] == 1


def no_address() -> None:
    assert get_path(others("a Service without an address").status(SERVICE, "web"), "loadBalancer", "ingress") is None
    assert get_path(others("a slow Deployment").status(SERVICE, "web"), "loadBalancer", "ingress")


def first_pod() -> None:
    status = others("a Job whose first pod fails").status(JOB, "nightly-1")
    assert (status["failed"], status["succeeded"]) == (1, 1)


def no_image() -> None:
    pods = run_sync(others("a Job whose image cannot be pulled").api.list(POD, namespace=NS)).items
    assert "ImagePullBackOff" in str(pods)


def two_errors() -> None:
    status = others("a backup with two errors").status(VELERO_BACKUP, "b", VELERO_NS)
    assert (status["phase"], status["errors"]) == ("PartiallyFailed", 2)


SHOWN: dict[str, Callable[[], None]] = {
    "a chart of which one version alone exists": one_version,
    "a registry that is down for two requests": registry_down,
    "an upgrade that fails": failing_upgrade,
    "a resource that was changed by hand": by_hand,
    "a Deployment that never becomes ready": never_ready,
    "a slow Deployment": slow,
    "a Service without an address": no_address,
    "a Job whose first pod fails": first_pod,
    "a Job whose image cannot be pulled": no_image,
    "a backup with two errors": two_errors,
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SHOWN)
def test_a_recipe_does_what_it_says(what: str) -> None:
    SHOWN[what]()


def test_every_recipe_is_tried() -> None:
    assert [*RECIPES] == [*SHOWN]


@pytest.mark.parametrize(
    ("row", "rule", "outcome"),
    [
        ("`releaseRules`", ReleaseRule, FluxOutcome),
        ("`sourceRules`", SourceRule, SourceOutcome),
        ("`rules` of `downstream`", DownstreamRule, DownstreamOutcome),
    ],
)
def test_the_table_has_every_field_of_a_rule_and_its_outcome(row: str, rule: type, outcome: type) -> None:
    (cells,) = re.findall(rf"^\| {row}.*? \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    for cell, cls in zip(cells, (rule, outcome), strict=True):
        assert {*re.findall(r"`(\w+)`", cell)} == {camel(field.name) for field in attrs.fields(cls)} - {"outcome"}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("`action`", Action),
        ("`stage`", PullStage),
        ("`kind` of an outcome", OutcomeKind),
        ("`fault`", SourceFault),
        ("`ending`", Ending),
    ],
)
def test_the_table_has_every_value(field: str, values: type[StrEnum]) -> None:
    (cell,) = re.findall(rf"^\| {field} \| (.*) \|$", PAGE, re.MULTILINE)
    assert {*re.findall(r"`([\w-]+)`", cell)} == {*values}
