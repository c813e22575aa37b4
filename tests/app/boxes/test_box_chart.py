"""`examples/boxes/chart.yaml` does in 60 lines what the simple part of an ApplicationInstance does (PH-6, REC-3)."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.flux import flux_crds
from purekube.apimachinery.manifest import Manifest, metadata
from purekube.apimachinery.resources import NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube_run.simulation.extensions.box_world import BoxWorld
from tests.support.boxes import compile_box
from vworkspace_core import (
    APPLICATION_INSTANCE,
    Context,
    InstanceObserved,
    Settings,
    read_application_instance,
    reconcile,
)

EXAMPLES = Path(__file__).parents[3] / "examples" / "boxes"
CHART = {"sourceType": "oci", "url": "oci://registry.example/charts", "name": "podinfo", "version": "6.7.0+1"}
RELEASE = {"name": "podinfo", "namespace": "team"}


def read(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


@cache
def chart_box() -> Box:
    crds = [CrdVersions.of(crd) for crd in (read("chart-crd.yaml"), *flux_crds())]
    return compile_box(read_box(read("chart.yaml")), crds[0], Schemas(crds))


def by_the_box(spec: dict[str, Any]) -> list[Manifest]:
    """What the box has made of a chart, as it stands on the server."""
    with BoxWorld(chart_box(), flux_crds()) as world:
        world.create({**world.box.kind.manifest("podinfo", "team"), "spec": spec}, world.box.kind)
        world.settle(60)
        return list(world.children().values())


def by_the_operator(spec: dict[str, Any]) -> list[Manifest]:
    """What the operator makes of an ApplicationInstance with the same spec, with the defaults of the server."""
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": "c"}
    meta = {
        "name": "podinfo",
        "namespace": "team",
        "uid": "u",
        "generation": 1,
        "resourceVersion": "1",
        "labels": labels,
    }
    values = {name: {"source": source, **spec["values"]} for name in spec if name == "values"
              for source in (["secretRef"] if "secretRef" in spec["values"] else ["inline"])}  # fmt: skip
    manifest = {
        **APPLICATION_INSTANCE.manifest("podinfo", "team"),
        "metadata": meta,
        "spec": {"appRef": {"catalogId": "podinfo"}, **spec, **values},
    }
    gated = {**NAMESPACE.manifest("team"), "metadata": {"name": "team", "labels": {"managed-by": "vworkspace"}}}
    observed = InstanceObserved(namespace=gated, objects={})
    decision = reconcile(
        read_application_instance(manifest),
        observed,
        Context(Settings(cluster_id="c"), datetime(2026, 6, 1, tzinfo=UTC)),
    )
    with BoxWorld(chart_box(), flux_crds()) as server:
        applies = decision.applies
        return [server.create({**apply.manifest, "metadata": plain(apply.manifest)}, apply.kind) for apply in applies]


def plain(manifest: Manifest) -> dict[str, Any]:
    """Without its owner, who is not on this server."""
    return {key: value for key, value in metadata(manifest).items() if key != "ownerReferences"}


def essence(manifests: list[Manifest]) -> dict[str, Any]:
    """Specs by kind; the name of a source, which each has from a content hash of its own, is told apart."""
    names = {str(metadata(manifest)["name"]): "SOURCE" for manifest in manifests if manifest["kind"] != "HelmRelease"}
    return {manifest["kind"]: named(manifest["spec"], names) for manifest in manifests}


def named(value: Any, names: dict[str, str]) -> Any:
    match value:
        case dict():
            return {key: named(item, names) for key, item in value.items()}
        case list():
            return [named(item, names) for item in value]
        case str():
            return names.get(value, value)
    return value


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [
        {"chart": CHART},
        {"chart": {**CHART, "secretRef": {"name": "pull"}}, "values": {"inline": {"replicas": 2, "tag": "1.20"}}},
        {"chart": {**CHART, "sourceType": "helm", "url": "https://charts.example"}, "suspend": True},
        {"chart": CHART, "values": {"secretRef": {"name": "v", "key": "values.yaml"}}},
    ],
)
def test_its_objects_are_those_of_the_operator(spec: dict[str, Any]) -> None:
    made = by_the_box({**spec, "release": {"name": RELEASE["name"]}})

    assert essence(made) == essence(by_the_operator({**spec, "release": RELEASE}))


def test_it_takes_no_more_than_sixty_lines() -> None:
    lines = (EXAMPLES / "chart.yaml").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120
