"""Our CRDs of the downstream kinds against the projects' own: the same wherever ours speak (RUN-9)."""

from collections.abc import Iterator
from typing import Any

import pytest

from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    Ending,
    VeleroBehaviour,
    WorkflowBehaviour,
    WorkflowStep,
)
from kubelab.downstream.crds import downstream_crds
from purekube.apimachinery.resources import (
    JOB,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
    WORKFLOW,
)
from tests.support.downstream_world import (
    DownstreamWorld,
    backup,
    destination,
    job,
    restore,
    snapshot,
    source,
    workflow,
)
from tests.support.projects_crds import projects_crds

_PROSE = ("description", "title", "example", "externalDocs")


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """The projects' CRDs by name, as far as they are at hand; skips where none are."""
    return projects_crds()


def _version(crd: Any) -> Any:
    return next(version for version in crd["spec"]["versions"] if version["served"])


def _differences(ours: Any, real: Any, path: str) -> Iterator[str]:
    """Where a schema of ours says something else; fields that only the project's has are no difference."""
    for rule in sorted((set(ours) | set(real)) - {"properties", "items", "additionalProperties", *_PROSE}):
        mine, theirs = ours.get(rule), real.get(rule)
        if rule in ("enum", "required") and mine and theirs:
            mine, theirs = sorted(mine), sorted(theirs)
        if mine != theirs:
            yield f"{path}: {rule} is {mine!r}, the project says {theirs!r}"
    for name, schema in ours.get("properties", {}).items():
        if name not in real.get("properties", {}):
            yield f"{path}.{name}: the project has no such field"
        else:
            yield from _differences(schema, real["properties"][name], f"{path}.{name}")
    for nested in ("items", "additionalProperties"):
        if nested in ours:
            yield from _differences(ours[nested], real.get(nested, {}), f"{path}[{nested}]")


REDUCED = {
    f"{name}.argoproj.io.spec.templates: x-kubernetes-validations": "the same rules, of the types of template we have"
    for name in ("workflows", "workflowtemplates")
}
"""Differences that are meant, by where they are."""

COMPARED = {
    "backups.velero.io",
    "restores.velero.io",
    "backupstoragelocations.velero.io",
    "workflows.argoproj.io",
    "workflowtemplates.argoproj.io",
    "replicationsources.volsync.backube",
    "replicationdestinations.volsync.backube",
    "volumesnapshots.snapshot.storage.k8s.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
}


def test_what_our_crds_say_the_projects_say_too_so_that_what_is_valid_here_is_valid_there(
    real: dict[str, Any],
) -> None:
    ours = {crd["metadata"]["name"]: crd for crd in downstream_crds()}
    assert ours.keys() & real.keys() >= COMPARED
    found = [
        difference
        for name in sorted(ours.keys() & real.keys())
        for difference in _differences(
            _version(ours[name])["schema"]["openAPIV3Schema"], _version(real[name])["schema"]["openAPIV3Schema"], name
        )
    ]
    assert {difference.partition(" is ")[0] for difference in found} == REDUCED.keys(), found


def test_a_difference_would_be_found() -> None:
    ours = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    real = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}
    assert list(_differences(ours, real, "spec")) == [
        "spec: required is ['a'], the project says None",
        "spec.a: pattern is None, the project says 'x'",
        "spec.b: the project has no such field",
    ]


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_names_scope_subresources_and_columns_are_the_project_s(real: dict[str, Any], name: str) -> None:
    ours = next(crd for crd in downstream_crds() if crd["metadata"]["name"] == name)
    mine, theirs = ours["spec"], real[name]["spec"]
    for field in ("kind", "listKind", "plural", "singular", "shortNames"):
        assert mine["names"].get(field) == theirs["names"].get(field)
    assert (mine["group"], mine["scope"]) == (theirs["group"], theirs["scope"])
    version, their_version = _version(ours), _version(real[name])
    assert version["name"] == their_version["name"]
    assert version.get("subresources") == their_version.get("subresources")
    assert _columns(version) == _columns(their_version)


def _columns(version: Any) -> list[tuple[str, str, str]]:
    return [(item["name"], item["type"], item["jsonPath"]) for item in version.get("additionalPrinterColumns", ())]


_SUBJECTS = (
    (backup, VELERO_BACKUP),
    (restore, VELERO_RESTORE),
    (workflow, WORKFLOW),
    (job, JOB),
    (source, REPLICATION_SOURCE),
    (destination, REPLICATION_DESTINATION),
    (snapshot, VOLUME_SNAPSHOT),
)
_KINDS = (VELERO_BACKUP, VELERO_RESTORE, WORKFLOW, REPLICATION_SOURCE, REPLICATION_DESTINATION, VOLUME_SNAPSHOT)


@pytest.mark.slow
def test_the_projects_own_crds_keep_every_status_that_is_written(real: dict[str, Any]) -> None:
    """One cluster for all stories: Argo's CRD alone takes a second to compile."""
    ours = [crd for crd in downstream_crds() if crd["metadata"]["name"] not in real]
    names = {crd["metadata"]["name"] for crd in downstream_crds()}
    world = DownstreamWorld(crds=[*(crd for name, crd in real.items() if name in names), *ours])
    world.prepare()
    steps = (WorkflowStep("one"), WorkflowStep("ask", seconds=5, suspend=True))
    for ending in Ending:
        for packed in (False, True):
            outcome = DownstreamOutcome(ending, "boom", times=1, outputs={"a": "b"}, steps=() if packed else steps)
            world.behave(
                DownstreamBehaviour(
                    (DownstreamRule(outcome),),
                    velero=VeleroBehaviour(plugin_operations=1),
                    workflow=WorkflowBehaviour(compresses_nodes=packed, pending_seconds=1),
                )
            )
            name = f"{ending.value}-{int(packed)}"
            for make, kind in _SUBJECTS:
                world.create(make(name), kind)
            world.run(120)
    states = [state for kind in _KINDS for state in world.states(kind)]
    assert len(states) > 200
    assert {state["kind"] for state in states if state.get("status")} == {kind.kind for kind in _KINDS}


def test_a_status_that_a_crd_does_not_keep_would_be_found() -> None:
    forgetful = downstream_crds(["velero"])
    schema = forgetful[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["startTimestamp"]
    world = DownstreamWorld(names=["velero"], crds=forgetful)
    world.create(backup(), VELERO_BACKUP)
    with pytest.raises(AssertionError, match="startTimestamp"):
        world.settle()
