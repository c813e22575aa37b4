"""What lies in examples/ works as it is: each file is taken, and what it asks for comes to its end (issue 11, 7)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import PERSISTENT_VOLUME_CLAIM, SECRET
from purekube.ports import KubeApi
from tests.support.e2e_world import CLUSTER, NS, World
from tests.support.operation_requests import FLUX, Operating, operations_story
from vworkspace_core.api.admission import admit
from vworkspace_core.api.kinds import ALL_KINDS, APPLICATION_INSTANCE, OPERATION
from vworkspace_core.operations.approvals import parameters_digest
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.engines import ENGINES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*.yaml") if "boxes" not in path.parts)
"""Boxes are files for the command line, no objects: tests/app/boxes has them."""


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """What a file holds, for the cluster and the namespace of the test."""
    text = path.read_text(encoding="utf-8").replace("org-myteam", NS).replace("cluster-prod-1", CLUSTER)
    yield from yaml.safe_load_all(text)


def name_of(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_object_of_ours_is_admitted(path: Path) -> None:
    """The same rules as the webhook: strict for unknown fields, and no secret in the clear."""
    for manifest in documents(path):
        if manifest["kind"] in (APPLICATION_INSTANCE.kind, OPERATION.kind, "Cluster"):
            assert admit(manifest) == ()


def test_there_is_an_example_for_every_template_and_kind_of_source() -> None:
    found = [document for path in FILES for document in documents(path)]
    of = {
        (document["spec"]["type"], document["spec"]["engine"]) for document in found if document["kind"] == "Operation"
    }

    shown = {name for name, engine in ENGINES.items() if engine.demo is not None}
    assert of == {(str(item.type), item.engine) for item in builtin_templates().items if item.engine in shown}
    assert {
        get_path(document, "spec", "chart", "sourceType")
        for document in found
        if document["kind"] == "ApplicationInstance"
    } == {
        "oci",
        "helm",
    }
    assert {document["kind"] for document in found} >= {
        "Namespace",
        "ApplicationInstance",
        "Operation",
        "Cluster",
        "Secret",
    }


def test_the_page_names_every_file() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert all(f"]({path.name})" in page for path in EXAMPLES.glob("*.yaml"))
    folders = {path.parent.name for path in EXAMPLES.glob("*/*")}
    assert folders == {"operations", "boxes", "passes", "shops"}
    assert all(f"]({folder})" in page for folder in folders)


def hooked() -> Any:
    """A Flux whose chart has the hook of the example."""
    (hook,) = FLUX.hooks["nextcloud"]
    renamed = attrs.evolve(
        hook, name="podinfo-db-migrate", manifest=hook.manifest.replace(hook.name, "podinfo-db-migrate")
    )
    return attrs.evolve(FLUX, hooks={"podinfo": (renamed,)})


async def applied(manifest: Manifest, api: KubeApi) -> None:
    """As `kubectl apply --server-side` does it; kinds that are none of ours are known by their names."""
    kind = next(kind for kind in ALL_KINDS if kind.kind == manifest["kind"])
    await api.apply(manifest, kind=kind, field_manager="kubectl", force=True)


def apply(world: World, path: Path) -> list[ObjectRef]:
    """What somebody applied."""
    found = []
    for manifest in documents(path):
        world.hands.do(partial(applied, manifest))
        found.append(ref_of(manifest, next(kind for kind in ALL_KINDS if kind.kind == manifest["kind"])))
    return found


@operations_story(samples=True, behaviour=hooked())
async def test_what_they_ask_for_comes_to_its_end(ops: Operating) -> None:
    """Every application becomes Ready; every Operation succeeds once its target names the engine that it asks for."""
    world = ops.world
    await ops.prepare(ready=False)
    claim = PERSISTENT_VOLUME_CLAIM.manifest("podinfo-data", NS)
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world.create_object({**claim, "spec": size}, PERSISTENT_VOLUME_CLAIM)
    for path in sorted(EXAMPLES.glob("*.yaml")):
        if path.name != "namespace.yaml":
            apply(world, path)
    for path in sorted(EXAMPLES.glob("application-*.yaml")):
        ref = next(
            ref_of(document, APPLICATION_INSTANCE) for document in documents(path) if document["kind"] != SECRET.kind
        )
        await world.until(lambda: is_ready(world.get(ref)), f"{ref} Ready")  # noqa: B023

    outputs: dict[str, Any] = {}
    for name in ORDER:
        outputs |= await run(ops, EXAMPLES / "operations" / f"{name}.yaml", outputs)


ORDER = (
    "backup-velero",
    "restore-velero",
    "upgrade-helm",
    "migration-helm-hook",
    "migration-workflow",
    "run-command-job",
    "runbook-workflow",
    "backup-volsync",
    "restore-volsync",
    "backup-snapshot",
    "restore-snapshot",
)
"""A restore comes after the backup that it restores."""


def test_the_story_runs_every_operation() -> None:
    assert sorted(ORDER) == sorted(path.stem for path in EXAMPLES.glob("operations/*.yaml"))


async def run(ops: Operating, path: Path, known: dict[str, Any]) -> dict[str, Any]:
    """Do what its comments say, apply it, and have it succeed; what it gave."""
    (manifest,) = documents(path)
    spec = manifest["spec"]
    mark = f"ops.vworkspace.io/{spec['type'].lower()}={spec['engine']}"
    assert mark in path.read_text(encoding="utf-8"), "it says how its target is prepared"
    target = ObjectRef(APPLICATION_INSTANCE, NS, spec["targetRef"]["name"])
    ops.world.edit(target, {"metadata": {"annotations": dict([mark.split("=")])}})
    for parameter, output in (("backupName", "backupName"), ("snapshotName", "volumeSnapshotName")):
        if parameter in spec["parameters"]:
            spec["parameters"][parameter] = known[output]
    if "approvals" in spec:
        agreed = parameters_digest(spec["parameters"])
        spec["approvals"]["claim"] = ops.claim(manifest["metadata"]["name"], params=agreed)
    ops.world.hands.do(partial(applied, manifest))
    ref = ref_of(manifest, OPERATION)
    await ops.reaches(ref, "Succeeded")
    return ops.outputs(ref)


def is_ready(manifest: Manifest) -> bool:
    """Ready at its present generation."""
    conditions = get_path(manifest, "status", "conditions") or ()
    observed = get_path(manifest, "status", "observedGeneration") == get_path(manifest, "metadata", "generation")
    return observed and any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)
