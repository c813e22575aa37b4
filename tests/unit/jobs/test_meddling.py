"""Others write into what is ours: bookkeeping is not believed (M4), a status by hand is not told as ours (D24)."""

import json
from typing import Any

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import get_path, ref_of
from purekube.ports import PatchType
from tests.property.jobs.test_machine import READY, drain, enqueue, enqueue_delete, live_of, outcome
from tests.support.builders import NAME, condition
from tests.support.job_world import World, object_ref
from tests.support.jobs import CLUSTER_ID, instance, operation, with_status
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.events import condition_events, phase_in, reported_conditions
from vworkspace_core.jobs.result import result_of
from vworkspace_core.jobs.steps import progress

TENANTS = ["kubectl-annotate", labels.FIELD_MANAGER]


def annotate(world: World, manager: str, **annotations: str) -> None:
    names = {"key": labels.IDEMPOTENCY_KEY, "generation": labels.LAST_APPLIED_GENERATION}
    found = {names[name]: value for name, value in annotations.items()}
    patch = {"metadata": {"annotations": found}}
    run_sync(world.kube.patch(object_ref(NAME), patch, patch_type=PatchType.MERGE, field_manager=manager))


@pytest.mark.parametrize("manager", TENANTS)
def test_a_tenant_that_writes_the_next_key_does_not_stop_the_next_upgrade(manager: str) -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    annotate(world, manager, key=f"ApplicationInstance/org-myteam/{NAME}@2")

    job = enqueue(world, 2, chart="6.6.1")
    world.settle()

    assert outcome(job) == ("succeeded", "")
    assert live_of(world)["spec"]["chart"]["version"] == "6.6.1"


@pytest.mark.parametrize("manager", TENANTS)
@pytest.mark.parametrize("deletes", [False, True])
def test_a_tenant_that_writes_a_high_generation_does_not_lock_the_control_plane_out(
    manager: str, deletes: bool
) -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    annotate(world, manager, generation="9" * 18, key="whatever")

    job = enqueue_delete(world, 2) if deletes else enqueue(world, 2, chart="6.6.1")
    world.settle()

    assert outcome(job) == ("succeeded", "")
    live = live_of(world)
    assert live is None if deletes else get_path(live, "metadata", "annotations", labels.LAST_APPLIED_GENERATION) == "2"


def test_only_our_own_bookkeeping_is_taken_back_and_nothing_else_beside_it() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    annotate(world, "kubectl-annotate", key="mine")
    world.take_field(live_of(world), "mine")

    job = enqueue(world, 2, chart="6.6.1")
    world.settle()

    assert outcome(job)[0] == "conflict"
    assert live_of(world)["spec"]["appRef"]["catalogId"] == "mine"
    assert live_of(world)["spec"]["chart"]["version"] == "6.6.0"


# --- a status by hand ---------------------------------------------------------------------------------------------


def edit_status(world: World, type_: str, message: str) -> None:
    """Somebody runs `kubectl edit --subresource=status`."""
    live = live_of(world)
    conditions = [{**one, **({"message": message} if one["type"] == type_ else {})} for one in _conditions(live)]
    run_sync(
        world.kube.patch(
            object_ref(NAME),
            {"status": {"conditions": conditions}},
            patch_type=PatchType.MERGE,
            field_manager="kubectl-edit",
            subresource="status",
        )
    )


def _conditions(live: Any) -> list[Any]:
    return list(get_path(live, "status", "conditions") or ())


def by_hand(message: str = "I broke it") -> World:
    world = World()
    enqueue(world, 1)
    world.settle()
    edit_status(world, "Ready", message)
    return world


def test_what_somebody_wrote_into_our_conditions_is_never_told_as_ours() -> None:
    world = by_hand()
    live = live_of(world)

    cached = OWN_STATUS.with_holders(live)
    assert OWN_STATUS.held_conditions(cached) == {"Ready"}
    assert "I broke it" not in json.dumps(progress(cached, world.clock.now()))
    assert condition_events({}, cached, world.clock.now()) == ()
    assert reported_conditions(cached) == {}
    assert result_of(cached, 1) is None
    assert "managedFields" not in OWN_STATUS.with_holders(_without(live, "kubectl-edit"))["metadata"]


def _without(live: Any, manager: str) -> Any:
    kept = [entry for entry in live["metadata"]["managedFields"] if entry["manager"] != manager]
    return {**live, "metadata": {**live["metadata"], "managedFields": kept}}


def test_conditions_of_types_that_we_do_not_own_are_theirs_to_write() -> None:
    entry = {
        "manager": "sidecar",
        "subresource": "status",
        "operation": "Apply",
        "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Certified"}': {".": {}, "f:type": {}, "f:status": {}}}}},
    }
    live = with_status(instance(managedFields=[entry]), READY, condition("Certified", "True", "Yes"))

    assert OWN_STATUS.holder(live) is None
    assert [event["conditions"][0]["type"] for event in condition_events({}, live, World().clock.now())] == [
        "Ready",
        "Certified",
    ]


def test_a_phase_by_hand_is_no_end_of_an_operation() -> None:
    entry = {"manager": "kubectl-edit", "subresource": "status", "fieldsV1": {"f:status": {"f:phase": {}}}}
    desired = operation()
    live = with_status({**desired, "metadata": {**desired["metadata"], "managedFields": [entry]}}, phase="Succeeded")

    assert phase_in(live) == ""
    assert result_of(live, 1) is None
    assert progress(live, World().clock.now())["phase"] == "Pending"


def test_a_job_on_an_object_whose_status_somebody_holds_gets_its_answer_early() -> None:
    world = by_hand()

    job = enqueue(world, 2, chart="6.6.1")
    drain(world)

    assert job.result is not None, "not only at its Timeout"
    assert outcome(job)[0] == "conflict"
    assert outcome(job)[1].startswith(
        f"FieldConflict: ApplicationInstance org-myteam/{NAME}: kubectl-edit holds .status.conditions[Ready].message,"
        " so the operator cannot write the status; to hand it back: kubectl patch applicationinstances.apps"
    )
    assert "I broke it" not in json.dumps([job.statuses, job.result])


def test_the_command_that_is_told_hands_the_status_back() -> None:
    world = by_hand()
    job = enqueue(world, 2, chart="6.6.1")
    drain(world)
    steps = json.loads(outcome(job)[1].partition(" -p '")[2].rstrip("'"))

    run_sync(world.kube.patch(object_ref(NAME), steps, patch_type=PatchType.JSON, field_manager="kubectl-patch"))

    assert OWN_STATUS.holder(live_of(world)) is None
    world.report(live_of(world), READY)
    again = enqueue(world, 3, chart="6.6.2")
    world.settle()
    assert outcome(again) == ("succeeded", "")


def test_the_remedy_in_a_result_works_on_the_object_as_it_is_when_the_result_is_posted() -> None:
    """Between the apply and its record a controller writes, and the informer tells: with less of managedFields."""
    world = by_hand()
    job = enqueue(world, 2, chart="6.6.1")
    world.fetch()
    while not isinstance(world.pending[0], m.ApplyForJob):
        world.perform(0)
    world.perform(0)
    ref = object_ref(NAME)
    mark = ref.kind.manifest(NAME, ref.namespace)
    mark["metadata"]["annotations"] = {"a": "b"}
    run_sync(world.kube.apply(mark, kind=ref.kind, field_manager="a-controller"))
    world.feed(m.ObjectChanged(ref, OWN_STATUS.with_holders(live_of(world))))
    drain(world)
    steps = json.loads(outcome(job)[1].partition(" -p '")[2].rstrip("'"))

    run_sync(world.kube.patch(ref, steps, patch_type=PatchType.JSON, field_manager="kubectl-patch"))

    assert OWN_STATUS.holder(live_of(world)) is None


def test_one_that_is_edited_while_a_job_waits_is_looked_at_in_a_moment_and_then_told() -> None:
    world = World()
    job = enqueue(world, 1)
    drain(world)
    world.report(live_of(world), condition("Ready", "False", "Installing"))
    edit_status(world, "Ready", "hands off")
    manifest = OWN_STATUS.with_holders(live_of(world))
    world.feed(m.ObjectChanged(ref_of(manifest, APPLICATION_INSTANCE), manifest))
    drain(world)
    assert job.result is None

    world.advance(11)
    drain(world)

    assert outcome(job)[0] == "conflict"
    assert "hands off" not in json.dumps([job.statuses, job.result])


def test_an_operation_whose_status_is_held_is_called_off_before_its_job_is_answered() -> None:
    world = World()
    job = world.control_server.enqueue(
        CLUSTER_ID,
        kind="intent",
        payload={"intent": "request-operation", "operation": operation()},
        idempotency_key="op",
    )
    drain(world)
    ref = next(iter(world.state.jobs.values())).ref
    assert ref is not None
    patch = {"status": {"phase": "Pending"}}
    seen = run_sync(
        world.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit", subresource="status")
    )
    world.feed(m.ObjectChanged(ref, OWN_STATUS.with_holders(seen)))
    world.advance(11)
    drain(world)

    assert outcome(job)[0] == "conflict"
    assert get_path(run_sync(world.kube.get(ref)), "metadata", "annotations", labels.CANCEL) == "true"
    assert ref.kind == OPERATION
