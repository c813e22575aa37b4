"""RUN-4: a write that arrives after another process has taken over, and has written, changes nothing.

A former leader may have handed a request to its socket just before it was paused or cut off. What the fence cannot
stop any more, the uid and resourceVersion in the request do.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Conflict, Invalid, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import run_pass
from purekube.ports import KubeRequest, Send
from tests.support.instance_worlds import instance_manifest
from tests.support.simulation import HELM, INSTANCE, NS, OCI, Simulation
from tests.support.source_names import source_ref
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER

SOURCE = source_ref(NS, "nextcloud", instance_manifest()["spec"]["chart"])


class Paused(Exception):
    """The process does not run on."""


def pause_at_the_apply_of(world: Simulation, kind: Kind) -> Callable[[], Any]:
    """Reconcile as a leader that is paused; what it had sent by then, to be delivered later."""
    late: list[Callable[[], Any]] = []

    async def on_its_way(request: KubeRequest, proceed: Send) -> Manifest:
        if request.action != "apply" or request.kind != kind:
            return await proceed(request)
        late.append(lambda: run_sync(proceed(request)))  # type: ignore[arg-type]
        raise Paused

    ours, world.api = world.api, world.api.through(on_its_way)
    with pytest.raises(Paused):
        world.reconcile(INSTANCE)
    world.api = ours
    return late[-1]


def to_version(version: str) -> dict[str, Any]:
    """Another version and other values: the source changes, and the release."""
    return {"spec": {"chart": {"version": version}, "values": {"inline": {"title": version}}}}


def test_a_late_upgrade_does_not_undo_what_the_next_leader_wrote() -> None:
    world = Simulation()
    world.submit(instance_manifest())
    world.settle(INSTANCE)
    world.edit(INSTANCE, to_version("8.0.0"))
    late = pause_at_the_apply_of(world, HELM_RELEASE)
    world.edit(INSTANCE, to_version("9.0.0"))
    world.settle(INSTANCE)
    before = world.get(HELM)

    with pytest.raises(Stale):
        late()

    assert world.get(HELM) == before


def test_a_late_source_is_read_by_nobody_and_goes_REC_3() -> None:
    """A source has the name of its content: one of an older version that arrives late is another object."""
    world = Simulation()
    world.submit(instance_manifest())
    world.settle(INSTANCE)
    world.edit(INSTANCE, to_version("8.0.0"))
    late = pause_at_the_apply_of(world, OCI_REPOSITORY)
    world.edit(INSTANCE, to_version("9.0.0"))
    world.settle(INSTANCE)
    before, used = world.get(HELM), world.actual(OCI)

    late()
    world.pass_time(30)
    assert [workload.version.partition("+")[0] for workload in world.flux.workloads] == ["9.0.0"]
    world.settle(INSTANCE)

    assert world.get(HELM) == before
    sources = run_sync(world.admin.list(OCI_REPOSITORY, namespace=NS)).items
    assert [source["metadata"]["name"] for source in sources] == [used.name]


def test_a_late_first_apply_does_not_undo_what_the_next_leader_wrote() -> None:
    world = Simulation()
    world.submit(instance_manifest())
    late = pause_at_the_apply_of(world, HELM_RELEASE)
    world.edit(INSTANCE, to_version("9.0.0"))
    world.settle(INSTANCE)
    before = world.get(HELM)

    with pytest.raises(Stale):
        late()

    assert world.get(HELM) == before


def test_a_late_apply_does_not_bring_back_what_is_deleted() -> None:
    world = Simulation()
    world.submit(instance_manifest())
    world.settle(INSTANCE)
    world.edit(INSTANCE, to_version("8.0.0"))
    late = pause_at_the_apply_of(world, HELM_RELEASE)
    world.remove(HELM)
    world.pass_time(1)
    world.remove(INSTANCE)
    world.reconcile(INSTANCE)
    world.pass_time(60)
    assert world.get(HELM) is None

    with pytest.raises((Stale, Invalid, Conflict)):
        late()

    assert world.get(HELM) is None


def test_a_write_is_told_as_soon_as_it_is_answered_so_that_a_pass_that_ends_there_is_guarded_RUN_3() -> None:
    world = Simulation()
    world.submit(instance_manifest())
    source, observed = world.observe(INSTANCE)
    object_refs: list[ObjectRef] = []

    async def pause(request: KubeRequest, proceed: Send) -> Manifest:
        if request.kind == HELM_RELEASE:
            raise Paused
        return await proceed(request)

    face = world.api.through(pause)
    reconciler = PassRules(APPLICATION_INSTANCE, read_application_instance, world._decide, FIELD_MANAGER, FINALIZER)
    with pytest.raises(Paused):
        run_sync(
            run_pass(reconciler, source, observed, face, world.events, lambda written: object_refs.append(written[0]))
        )

    assert object_refs == [INSTANCE, SOURCE], "the finalizer and the source were written before the release"
