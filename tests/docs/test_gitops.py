"""docs/gitops.md does what it says: its commands print what is applied, and Flux's definitions take its objects."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, NAMESPACE, OCI_REPOSITORY
from tests.docs.markdown import ROOT
from tests.docs.tutorial import Tutorial
from tests.support.projects_crds import projects_crds
from vworkspace_app.install.chart_values import chart_values
from vworkspace_core.api.codec import validate_strict

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
KINDS = {kind.kind: kind for kind in (HELM_RELEASE, OCI_REPOSITORY)}
KUSTOMIZATIONS = ["vworkspace-crds", "vworkspace-operator", "vworkspace-applications"]


@pytest.fixture
def page(tmp_path: Path) -> Tutorial:
    """The page, followed in a folder of its own."""
    return Tutorial(ROOT / "docs" / "gitops.md", tmp_path)


def documents(page: Tutorial, name: str) -> list[Any]:
    return list(yaml.safe_load_all(page.block("yaml", name)))


def committed(page: Tutorial) -> Iterator[tuple[str, Any]]:
    """Folder and document of each file that the page commits."""
    page.shell(page.block("sh", "commit"))
    for language, name, text in page.blocks:
        if language == "yaml" and name.startswith("vworkspace/"):
            (page.folder / name).write_text(text, encoding="utf-8")
    for file in sorted((page.folder / "vworkspace").rglob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            yield file.parent.name, document


@pytest.mark.slow
def test_the_commands_print_what_each_kustomization_applies_and_nothing_of_a_control_plane(page: Tutorial) -> None:
    kinds: dict[str, set[str]] = {}
    containers, opened, accounts, used = [], set(), set(), set()
    for folder, document in committed(page):
        kinds.setdefault(folder, set()).add(document["kind"])
        meta = document["metadata"]
        match document["kind"]:
            case "Deployment":
                containers += document["spec"]["template"]["spec"]["containers"]
            case "Namespace" if meta["labels"].get("managed-by") == "vworkspace":
                opened.add(meta["name"])
            case "ServiceAccount":
                accounts.add((meta["namespace"], meta["name"]))
            case "ApplicationInstance":
                assert list(validate_strict({**document, "metadata": {**meta, "uid": "u-1"}})) == []
                used.add(meta["namespace"])
    paths = {document["spec"]["path"] for document in documents(page, "vworkspace.yaml")}
    assert paths == {f"./vworkspace/{folder}" for folder in kinds}
    assert kinds["crds"] == {"CustomResourceDefinition"}
    assert "CustomResourceDefinition" not in kinds["operator"]
    (container,) = containers
    assert {"--no-agent", "--cluster-id=cluster-prod-1"} <= set(container["args"])
    assert used == opened
    assert {(name, "vworkspace-release") for name in opened} <= accounts


def test_each_kustomization_waits_for_the_one_before_and_only_applications_are_pruned(page: Tutorial) -> None:
    found = documents(page, "vworkspace.yaml")
    assert [document["metadata"]["name"] for document in found] == KUSTOMIZATIONS
    before = [[each["name"] for each in document["spec"].get("dependsOn", ())] for document in found]
    assert before == [[], *([name] for name in KUSTOMIZATIONS[:-1])]
    assert [(document["spec"]["wait"], document["spec"]["prune"]) for document in found] == [
        (True, False),
        (True, False),
        (True, True),
    ]


@pytest.mark.slow
def test_the_definitions_of_flux_take_every_object_that_is_flux_s_own(page: Tutorial) -> None:
    """A definition of kustomize.toolkit.fluxcd.io counts as soon as it is among those at hand."""
    crds = projects_crds()
    kube = InProcessKube(ApiServer(now=lambda: NOW))
    run_sync(kube.create(NAMESPACE.manifest("flux-system"), kind=NAMESPACE, field_manager="test"))
    run_sync(kube.create(NAMESPACE.manifest("vworkspace-system"), kind=NAMESPACE, field_manager="test"))
    taken = []
    for document in [*documents(page, "vworkspace.yaml"), *documents(page, "release.yaml")]:
        group, _, version = document["apiVersion"].partition("/")
        kind = KINDS.get(document["kind"]) or Kind(group, version, document["kind"], f"{document['kind'].lower()}s")
        if kind.crd_name in crds:
            if kind.kind not in taken:
                run_sync(kube.create(crds[kind.crd_name], kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test"))
            run_sync(kube.create(document, kind=kind, field_manager="test"))
            taken.append(kind.kind)
    assert {"OCIRepository", "HelmRelease"} <= set(taken)


def test_the_chart_takes_the_values_of_the_release(page: Tutorial) -> None:
    (values,) = (each["spec"]["values"] for each in documents(page, "release.yaml") if each["kind"] == "HelmRelease")
    image = {"repository": "ghcr.io/someone/vworkspace-operator", "tag": "0.1.0"}  # the chart of a release has it
    assert chart_values({**values, "image": image}).tenants[0].namespace == "org-myteam"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_what_is_committed_can_be_rehearsed_without_git(page: Tutorial) -> None:
    assert list(committed(page))
    with page.started("cluster") as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline().startswith("ready ")
        with page.started("operator"):
            assert "podinfo condition met" in page.shell(page.block("sh", "rehearse"))
