"""The running operator with the printed roles makes nothing that a tenant could not make itself (RUN-12).

One object for each field, parameter and annotation, all at once; then everything that is in the cluster is looked at.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pytest

from purekube.apimachinery import resources as known
from purekube.apimachinery.errors import Invalid, KindMissing
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.ports import KubeApi
from tests.support.e2e_world import CLUSTER, NS, OWN_NS, VELERO_NS, World, instance
from tests.support.operation_requests import ENGINES_QUICK, FLUX, Operating
from tests.support.operation_worlds import template
from tests.support.servers import ENVIRONMENT
from tests.support.tenant_matrix import annotated, attempts, beyond, parameter_attempts
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.operation import Operation

pytestmark = pytest.mark.slow

LABELS: Final = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
OF: Final = ("runCommand.job", "runbook.workflow", "backup.snapshot")
"""Templates whose Operations keep nobody waiting, one of each capability; the core goes through all of them."""
_OUR_OWN: Final = {kind.kind for kind in (*own_kinds.OWN_KINDS, known.EVENT, known.LEASE)}
LOOKED_AT: Final = tuple(kind for kind in own_kinds.ALL_KINDS if kind.kind not in _OUR_OWN)


def first_of_each(found: Iterable[tuple[str, dict[str, Any]]], prefix: str) -> Iterator[dict[str, Any]]:
    """One attempt for each place, with a name of its own."""
    places: dict[str, dict[str, Any]] = {}
    for path, manifest in found:
        places.setdefault(path, manifest)
    for number, manifest in enumerate(places.values()):
        yield {**manifest, "metadata": {**manifest["metadata"], "name": f"{prefix}-{number}"}}


def instances() -> Iterator[dict[str, Any]]:
    good = instance()
    good["metadata"]["labels"] = LABELS
    for manifest in first_of_each([*attempts(good, ApplicationInstance), *annotated(good)], "app"):
        release = manifest["spec"].get("release")
        if isinstance(release, dict) and release.get("name") == good["spec"]["release"]["name"]:
            manifest["spec"]["release"] = {**release, "name": manifest["metadata"]["name"]}
        yield manifest


def operations(ops: Operating) -> Iterator[dict[str, Any]]:
    for of in OF:
        good = ops.manifest(of, "good")
        tried = [*attempts(good, Operation), *parameter_attempts(good, template(of)), *annotated(good)]
        yield from first_of_each(tried, of.replace(".", "-").lower())


def test_nothing_comes_out_that_a_tenant_could_not_do_RUN_12() -> None:
    async def story(world: World) -> None:
        ops = Operating(world)
        await ops.prepare()
        before = {metadata(one)["uid"] for _, one in made(world)}  # an earlier story's, on a server that outlives it
        desired = [*submitted(world, instances(), APPLICATION_INSTANCE), *submitted(world, operations(ops), OPERATION)]
        assert len(desired) > 60, "most of them are taken by the API server"
        await world.until(lambda: not silent(world, desired), "a word on each", seconds=200)
        expected = {known.HELM_RELEASE, known.JOB, known.WORKFLOW, known.VOLUME_SNAPSHOT}
        await world.until(lambda: {kind for kind, _ in made(world)} >= expected, "something of each engine")
        out = [(kind, one) for kind, one in made(world) if metadata(one)["uid"] not in before]
        found = [(str(kind.kind), metadata(one)["name"], problem) for kind, one in out for problem in judged(kind, one)]
        assert found == []

    ENVIRONMENT.run(story, behaviour=FLUX, engines=ENGINES_QUICK)


def submitted(world: World, manifests: Iterable[dict[str, Any]], kind: Kind) -> Iterator[ObjectRef]:
    """Those that the API server takes: whoever it refuses comes to nothing in any case."""
    for manifest in manifests:
        with suppress(Invalid):
            world.create_object(manifest, kind)
            yield ObjectRef(kind, NS, manifest["metadata"]["name"])


def silent(world: World, wanted: Iterable[ObjectRef]) -> set[str]:
    """Names of those that are there and say nothing yet."""
    names = {ref.name for ref in wanted}
    found = [one for kind in (APPLICATION_INSTANCE, OPERATION) for one in world.hands.do(partial(_all_of, kind))]
    return names & {str(metadata(one)["name"]) for one in found if not get_path(one, "status", "conditions")}


def made(world: World) -> Iterator[tuple[Kind, Manifest]]:
    """Everything in the cluster that the operator wrote, its own Secrets and ours apart."""
    for kind in LOOKED_AT:
        try:
            items = world.hands.do(partial(_all_of, kind))
        except KindMissing:
            continue
        for item in items:
            managers = {get_path(entry, "manager") for entry in get_path(item, "metadata", "managedFields") or ()}
            if FIELD_MANAGER in managers and metadata(item).get("namespace") != OWN_NS:
                yield kind, item


async def _all_of(kind: Kind, api: KubeApi) -> list[Manifest]:
    return list((await api.list(kind)).items)


def judged(kind: Kind, manifest: Manifest) -> list[str]:
    return beyond(kind, manifest, NS, VELERO_NS)
