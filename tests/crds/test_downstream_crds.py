"""The CRDs of the projects downstream: they compile, quickly, and every rule in them is evaluated."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kubelab.model.calls import FieldValidation, WriteRequest
from kubelab.model.definition import ServedKind, definitions_of_crd
from kubelab.model.failure import ApiFailure
from kubelab.writes import pipeline
from purekube.cel import CelSyntaxError
from purekube.cel.types import DYN
from purekube.schema.rule_compile import compile_rule
from tests.support.projects_crds import FOLDER, projects_crds

FILES = sorted(FOLDER.glob("*.yaml"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no CRD files at {FOLDER}: they belong to other projects")


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """Every CRD by its name."""
    return projects_crds()


@pytest.fixture(scope="module")
def definitions(documents: dict[str, Any]) -> dict[str, ServedKind]:
    return {name: definitions_of_crd(crd)[0] for name, crd in documents.items()}


def rules(node: Any) -> Iterator[dict[str, Any]]:
    """Every `x-kubernetes-validations` entry below a node."""
    if isinstance(node, dict):
        yield from node.get("x-kubernetes-validations") or ()
        for child in node.values():
            yield from rules(child)
    elif isinstance(node, list):
        for child in node:
            yield from rules(child)


def verdict(rule: dict[str, Any]) -> str:
    try:
        compile_rule(rule, DYN, typed=False)
    except CelSyntaxError as error:
        return f"rejected: {error}"
    return "evaluated"


@pytest.mark.slow
def test_every_rule_is_evaluated_and_none_is_skipped(documents: dict[str, Any]) -> None:
    verdicts = {rule["rule"]: verdict(rule) for crd in documents.values() for rule in rules(crd)}
    for text, found in sorted(verdicts.items()):
        print(f"{found}: {text}")
    assert len(verdicts) >= 18
    assert {text: found for text, found in verdicts.items() if found != "evaluated"} == {}


@pytest.mark.slow
def test_every_definition_compiles_in_seconds(documents: dict[str, Any]) -> None:
    started = time.process_time()
    served = sum(len(definitions_of_crd(crd)) for crd in documents.values())
    assert served >= len(documents)
    assert time.process_time() - started < 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crd", "spec"),
    [
        (
            "helmreleases.helm.toolkit.fluxcd.io",
            {"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": "a"}, "values": {"any": {"thing": [1]}}},
        ),
        (
            "ocirepositories.source.toolkit.fluxcd.io",
            {"interval": "5m", "url": "oci://r.example/a", "ref": {"tag": "1"}},
        ),
        ("helmrepositories.source.toolkit.fluxcd.io", {"interval": "5m", "url": "https://charts.example"}),
        ("backups.velero.io", {"includedNamespaces": ["a"], "ttl": "24h"}),
        ("volumesnapshots.snapshot.storage.k8s.io", {"source": {"persistentVolumeClaimName": "c"}}),
        ("replicationsources.volsync.backube", {"sourcePVC": "c", "trigger": {"manual": "1"}}),
        ("workflows.argoproj.io", {"entrypoint": "m", "templates": [{"name": "m", "container": {"image": "i"}}]}),
    ],
)
def test_a_plain_object_of_each_kind_is_accepted(definitions: dict[str, ServedKind], crd: str, spec: Any) -> None:
    stored = create(definitions[crd], spec)
    assert all(stored["spec"][key] == value for key, value in spec.items() if not isinstance(value, (dict, list)))


@pytest.mark.parametrize(
    ("crd", "spec", "field", "text"),
    [
        (
            "helmreleases.helm.toolkit.fluxcd.io",
            {"interval": "5m"},
            "spec",
            "either chart or chartRef must be set",
        ),
        (
            "volumesnapshots.snapshot.storage.k8s.io",
            {"source": {}},
            "spec.source",
            "exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set",
        ),
        (
            "volumesnapshots.snapshot.storage.k8s.io",
            {"source": {"persistentVolumeClaimName": "c"}, "volumeSnapshotClassName": ""},
            "spec.volumeSnapshotClassName",
            "volumeSnapshotClassName must not be the empty string when set",
        ),
        (
            "ocirepositories.source.toolkit.fluxcd.io",
            {"interval": "soon", "url": "oci://r.example/a"},
            "spec.interval",
            "should match",
        ),
        (
            "workflows.argoproj.io",
            {"templates": [{"name": "m", "container": {"image": "i"}, "script": {"image": "i", "source": "s"}}]},
            "spec.templates",
            "template must have at most one template type",
        ),
    ],
)
def test_what_the_real_kind_refuses_is_refused(
    definitions: dict[str, ServedKind], crd: str, spec: Any, field: str, text: str
) -> None:
    with pytest.raises(ApiFailure) as caught:
        create(definitions[crd], spec)
    assert caught.value.status == 422
    assert any(cause.field == field and text in cause.message for cause in caught.value.causes), caught.value.message


def test_a_snapshot_source_is_immutable(definitions: dict[str, ServedKind]) -> None:
    definition = definitions["volumesnapshots.snapshot.storage.k8s.io"]
    live = {**create(definition, {"source": {"persistentVolumeClaimName": "c"}})}
    live["metadata"] = {**live["metadata"], "resourceVersion": "1"}
    other = {**live, "spec": {"source": {"persistentVolumeClaimName": "d"}}}
    with pytest.raises(ApiFailure) as caught:
        pipeline.update(definition, live, other, write("a"))
    assert [cause.field for cause in caught.value.causes] == ["spec.source.persistentVolumeClaimName"]


def create(definition: ServedKind, spec: Any) -> dict[str, Any]:
    body = {"apiVersion": definition.api_version, "kind": definition.kind.kind, "metadata": {"name": "a"}, "spec": spec}
    return dict(pipeline.create(definition, body, write("")).object)


def write(name: str) -> WriteRequest:
    return WriteRequest(
        manager="m",
        now="2026-01-01T00:00:00Z",
        name=name,
        namespace="t",
        uid="u",
        field_validation=FieldValidation.STRICT,
    )
