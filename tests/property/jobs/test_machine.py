"""The job machine under every order of answers, repeats, losses and crashes (PULL-2, PULL-3, PULL-4, PULL-10)."""

import copy
from collections import defaultdict
from datetime import timedelta
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import get_path
from purekube_run.simulation.faults import interruption
from tests.support.attack import attack, in_chunks
from tests.support.builders import NAME, condition
from tests.support.job_world import World, object_ref, quiet
from tests.support.jobs import CLUSTER_ID, delete_payload, instance, operation
from vworkspace_core.api import labels
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.state import JobStage
from vworkspace_core.overview.page_paths import page_link
from vworkspace_fake.controlplane import JobEntry

READY = condition("Ready", "True", "HelmReleaseReady")
INSTALLING = condition("Ready", "False", "Installing", message="pulling")
RECONCILING = condition("Reconciling", "True", "HelmReleaseInstalling")
STALLED = condition("Stalled", "True", "RetriesExceeded", message="no retries left")


def enqueue(world: World, generation: int = 1, *, name: str = NAME, chart: str = "6.6.0", **fields: Any) -> JobEntry:
    payload = instance(name)
    payload["spec"]["chart"]["version"] = chart
    found = {
        "kind": "apply",
        "payload": payload,
        "idempotency_key": f"ApplicationInstance/org-myteam/{name}@{generation}",
        **fields,
    }
    return world.control_server.enqueue(CLUSTER_ID, **found)


def enqueue_delete(world: World, generation: int, *, name: str = NAME, **fields: Any) -> JobEntry:
    return enqueue(world, generation, name=name, kind="delete", payload=delete_payload(name), **fields)


def drain(world: World) -> None:
    """Perform all that is pending, in order, and let the informer tell."""
    world.fetch()
    while world.pending:
        world.perform(0)
    world.deliver()
    while world.pending:
        world.perform(0)


def live_of(world: World, name: str = NAME) -> Any:
    return next((found for found in world.instances() if found["metadata"]["name"] == name), None)


def outcome(job: JobEntry) -> tuple[str, str]:
    assert job.result is not None, "there is no result yet"
    return job.result["outcome"], job.result.get("error", "")


def test_the_main_job_of_the_project_PULL_2() -> None:
    world = World()
    job = enqueue(world)

    drain(world)
    applied = live_of(world)
    assert job.acked_at is not None
    assert applied["metadata"]["labels"] == {
        labels.MANAGED_BY: "control-plane",
        labels.CLUSTER_ID: CLUSTER_ID,
    }
    assert job.result is None

    world.report(applied, INSTALLING, RECONCILING)
    drain(world)
    assert job.statuses[-1]["phase"] == "Reconciling"
    assert job.statuses[-1]["message"] == "pulling"
    assert job.result is None

    world.report(applied, READY, condition("Reconciling", "False", "Stable"))
    drain(world)
    assert job.result == {
        "outcome": "succeeded",
        "timestamp": "2026-01-01T00:00:00Z",
        "appliedRef": {
            "apiVersion": "apps.vworkspace.io/v1alpha1",
            "kind": "ApplicationInstance",
            "namespace": "org-myteam",
            "name": "nextcloud-myteam",
            "uid": applied["metadata"]["uid"],
            "generation": 1,
        },
    }
    assert not world.store.records
    assert world.store.tombstones[job.raw["idempotencyKey"]].object_uid == applied["metadata"]["uid"]
    assert not world.state.jobs


def test_the_record_is_written_before_the_ack_and_the_intent_before_the_effect_PULL_4() -> None:
    world = World()
    enqueue(world)
    world.fetch()
    order: list[str] = []
    while world.pending:
        effect = world.pending[0]
        order.append(type(effect).__name__)
        if isinstance(effect, m.SendAck):
            assert world.store.records, "an acked job has its record"
        if isinstance(effect, m.ApplyForJob):
            assert world.store.records["job-1"].state["intent"] == {"uid": ""}
        world.perform(0)

    assert order == ["PutRecord", "SendAck", "Inspect", "PutRecord", "ApplyForJob", "PutRecord", "PostStatus"]


def test_success_is_never_early() -> None:
    world = World()
    enqueue(world)
    world.settle()

    newer = enqueue(world, 2, chart="6.7.0")
    drain(world)

    assert get_path(live_of(world), "status", "conditions", 0, "status") == "True", "Ready of the generation before"
    assert newer.result is None
    world.report(live_of(world), READY)
    drain(world)
    assert outcome(newer) == ("succeeded", "")


def test_a_failure_is_told_with_its_reason_and_redacted() -> None:
    world = World()
    job = enqueue(world)
    drain(world)

    world.report(live_of(world), condition("Ready", "False", "HelmReleaseFailed", message="token=abc"), STALLED)
    drain(world)

    assert outcome(job) == ("failed", "HelmReleaseFailed: token=***")
    assert job.result["appliedRef"]["generation"] == 1


def test_a_result_names_the_page_of_its_object_and_that_of_a_deletion_none_PULL_3() -> None:
    world = World()
    link = partial(page_link, "https://ops.example.com/")
    world.state = attrs.evolve(world.state, scope=attrs.evolve(world.state.scope, link=link))
    applied = enqueue(world)
    world.settle()
    deleted = enqueue_delete(world, 2)
    world.settle()

    address = f"/object/applicationinstances.apps.vworkspace.io/org-myteam/{NAME}"
    assert applied.result["pageUrl"] == f"https://ops.example.com{address}"
    assert (outcome(deleted), "pageUrl" in deleted.result) == (("succeeded", ""), False)


def test_replays_of_a_key_are_noop_whether_the_tombstone_or_the_object_remembers_PULL_3() -> None:
    world = World()
    enqueue(world)
    world.settle()

    remembered = enqueue(world)
    drain(world)
    world.store.tombstones.clear()
    from_object = enqueue(world)
    drain(world)

    assert outcome(remembered) == outcome(from_object) == ("noop", "")
    assert remembered.result is not None
    assert remembered.result["appliedRef"]["uid"] == live_of(world)["metadata"]["uid"]
    assert len(world.deeds) == 1


def test_a_twin_with_the_same_key_is_noop_while_the_first_is_open() -> None:
    world = World()
    first, twin = enqueue(world), enqueue(world)

    drain(world)
    assert outcome(twin) == ("noop", "")
    world.settle()

    assert outcome(first) == ("succeeded", "")
    assert len(world.deeds) == 1


def test_A_B_A_does_not_roll_back_PULL_4() -> None:
    world = World()
    for generation, chart in ((1, "6.6.0"), (2, "6.7.0"), (1, "6.6.0")):
        job = enqueue(world, generation, chart=chart)
        world.settle()

    assert outcome(job) == ("noop", "")
    assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"


def test_A_B_A_is_a_replay_also_while_B_is_still_open_PULL_4() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    newer = enqueue(world, 2, chart="6.7.0")
    drain(world)

    again = enqueue(world, 1)
    drain(world)

    assert outcome(again) == ("noop", "")
    assert newer.result is None


def test_an_older_generation_never_overwrites_a_newer_one() -> None:
    world = World()
    enqueue(world, 5, chart="6.7.0")
    world.settle()

    late = enqueue(world, 4)
    drain(world)

    assert outcome(late)[0] == "failed"
    assert outcome(late)[1].startswith("Superseded: generation 5 is newer than 4; the counter of an object goes on")
    assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"


def test_a_generation_that_is_superseded_before_it_settles_ends_so() -> None:
    world = World()
    older = enqueue(world, 1)
    drain(world)
    newer = enqueue(world, 2, chart="6.7.0")
    drain(world)

    assert outcome(older)[0] == "failed"
    assert outcome(older)[1].startswith("Superseded: generation 2")
    assert newer.result is None
    world.settle()
    assert outcome(newer) == ("succeeded", "")


def test_generations_in_one_batch_end_as_the_newest_whatever_their_order() -> None:
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1)):
        world = World()
        jobs = {at: enqueue(world, at, chart=f"6.{at}.0") for at in order}
        world.settle()

        assert live_of(world)["spec"]["chart"]["version"] == "6.3.0"
        assert outcome(jobs[3]) == ("succeeded", "")
        assert all(outcome(jobs[at])[1].startswith("Superseded: ") for at in (1, 2))


def test_a_late_apply_does_not_resurrect_what_a_newer_delete_removed() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    enqueue_delete(world, 3)
    world.settle()
    assert live_of(world) is None

    late = enqueue(world, 2)
    world.settle()

    assert outcome(late)[0] == "failed"
    assert outcome(late)[1].startswith("Superseded: generation 3 is newer than 2; the counter of an object goes on")
    assert live_of(world) is None


def test_the_finalizer_goes_with_every_apply_and_off_with_a_patch_REC_6() -> None:
    """Made by the apply that makes the object; kept by each later one; whoever lists what is left takes it off."""
    world = World()
    finalizers: list[Any] = []
    for generation in (1, 2):
        enqueue(world, generation, chart=f"6.{generation}.0")
        world.settle()
        finalizers.append(live_of(world)["metadata"]["finalizers"])
    world.remove(live_of(world))
    world.release(live_of(world))

    assert finalizers == [[labels.FINALIZER], [labels.FINALIZER]]
    assert live_of(world) is None


def test_a_delete_succeeds_when_the_object_is_really_gone() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    world.hold(live_of(world))
    job = enqueue_delete(world, 2)

    drain(world)
    assert live_of(world)["metadata"]["deletionTimestamp"]
    assert job.result is None

    world.release(live_of(world))
    drain(world)
    assert outcome(job) == ("succeeded", "")
    assert get_path(job.result, "appliedRef", "name") == NAME


def test_a_delete_of_what_is_absent_succeeds_and_asked_again_spares_the_successor_PULL_4() -> None:
    world = World()
    first = enqueue_delete(world, 0, idempotency_key="hash-1")
    world.settle()
    enqueue(world, 1)
    world.settle()

    again = enqueue_delete(world, 0, idempotency_key="hash-1")
    world.settle()

    assert outcome(first) == ("succeeded", "")
    assert outcome(again) == ("noop", "")
    assert live_of(world) is not None


def test_a_delete_may_have_the_key_of_the_apply_it_undoes() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()

    job = enqueue_delete(world, 1)
    world.settle()

    assert outcome(job) == ("succeeded", "")
    assert live_of(world) is None


def test_an_apply_to_what_is_terminating_waits_then_applies() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    old = live_of(world)
    world.hold(old)
    world.remove(old)

    job = enqueue(world, 2)
    drain(world)
    assert job.statuses[-1]["message"].startswith("waits for the terminating ApplicationInstance")
    world.release(old)
    drain(world)
    assert live_of(world)["metadata"]["uid"] != old["metadata"]["uid"]
    world.settle()

    assert outcome(job) == ("succeeded", "")


def test_deleting_and_applying_again_in_one_batch_does_both() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    old = live_of(world)["metadata"]["uid"]

    gone, back = enqueue_delete(world, 2), enqueue(world, 3)
    world.settle()

    assert outcome(gone) == outcome(back) == ("succeeded", "")
    assert live_of(world)["metadata"]["uid"] != old


def test_an_expired_job_is_noop_by_the_server_s_clock_PULL_12() -> None:
    world = World()
    job = enqueue(world, expires_in=timedelta(minutes=1))
    world.fetch()
    # The machine's clock is wrong by minutes; the Date header is not.
    world.clock.step_wall(timedelta(minutes=-7))
    real = world.clock.now() + timedelta(minutes=9)
    world.feed(m.ServerTime(real))

    while world.pending:
        world.perform(0)

    assert outcome(job) == ("noop", "expired")
    assert live_of(world) is None


def test_a_wrong_local_clock_does_not_expire_a_job_PULL_12() -> None:
    world = World()
    job = enqueue(world, expires_in=timedelta(minutes=1))
    world.fetch()
    world.clock.step_wall(timedelta(minutes=8))
    world.feed(m.ServerTime(world.clock.now() - timedelta(minutes=8)))

    drain_pending(world)

    assert live_of(world) is not None
    assert job.result is None


@pytest.mark.parametrize("ahead", [timedelta(minutes=5), timedelta(minutes=-5)])
def test_where_signatures_are_required_a_job_has_expired_as_soon_as_either_clock_says_so_PULL_12(
    ahead: timedelta,
) -> None:
    """The header that shows the control plane's clock is not signed: it may shorten a job's life, not lengthen it."""
    outcomes = {}
    for signed in (False, True):
        world = World()
        job = enqueue(world, expires_in=timedelta(minutes=3))
        world.fetch()
        if signed:
            world.feed(m.SecurityChanged(Security(require_signed=True)))  # the job was taken in before that
        world.clock.advance(240 if ahead < timedelta(0) else 0)
        world.feed(m.ServerTime(world.clock.now() + ahead))
        drain_pending(world)
        outcomes[signed] = None if job.result is None else outcome(job)

    expired = ("noop", "expired")
    assert outcomes == ({False: expired, True: expired} if ahead > timedelta(0) else {False: None, True: expired})


def test_a_job_that_waits_for_its_object_to_go_expires_by_either_clock_too() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    world.hold(live_of(world))
    world.remove(live_of(world))
    job = enqueue(world, 2, expires_in=timedelta(minutes=3))
    drain(world)
    world.feed(m.SecurityChanged(Security(require_signed=True)))  # the job was taken in before
    world.feed(m.ServerTime(world.clock.now() - timedelta(minutes=9)))
    assert job.result is None

    world.advance(181)
    drain_pending(world)

    assert outcome(job) == ("noop", "expired")


@pytest.mark.parametrize("apart", [timedelta(minutes=11), timedelta(minutes=-11), timedelta(days=-365)])
def test_clocks_more_than_ten_minutes_apart_are_an_error_and_the_header_is_not_used_PULL_12(
    apart: timedelta,
) -> None:
    world = World()
    job = enqueue(world, expires_in=timedelta(minutes=1))
    world.fetch()
    world.clock.advance(120)
    for _ in range(3):
        world.feed(m.ServerTime(world.clock.now() + apart))
    drain_pending(world)

    assert outcome(job) == ("noop", "expired"), "by the machine's clock, whatever an unsigned header says"
    assert (world.state.skew, world.state.apart) == (timedelta(0), apart)
    (note,) = [note for note in world.notes if note.level == "error"]
    assert f"{abs(apart) // timedelta(minutes=1)} minutes" in note.message
    assert "set the wrong one of the two right" in note.message

    world.feed(m.ServerTime(world.clock.now() + timedelta(minutes=1)))
    assert (world.state.skew, world.state.apart) == (timedelta(minutes=1), timedelta(0))


def drain_pending(world: World) -> None:
    while world.pending:
        world.perform(0)


def test_what_does_not_settle_in_its_time_and_the_grace_after_it_times_out() -> None:
    world = World()
    job = enqueue(world, expires_in=timedelta(minutes=10))
    drain(world)

    world.advance(14 * 60)
    drain_pending(world)
    assert job.result is None
    world.advance(60)
    drain_pending(world)

    assert outcome(job)[0] == "failed"
    assert outcome(job)[1].startswith("Timeout: ApplicationInstance org-myteam/nextcloud-myteam had not settled by")


def test_another_manager_s_field_is_a_conflict_that_names_it_and_forces_nothing_REC_8() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    world.take_field(live_of(world), "mine")

    job = enqueue(world, 2)
    drain(world)

    assert outcome(job) == ("conflict", "FieldConflict: kubectl-edit holds .spec.appRef.catalogId")
    assert live_of(world)["spec"]["appRef"]["catalogId"] == "mine"


def test_a_conflict_with_our_own_name_alone_is_ours_to_take_REC_6() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    patch = {"spec": {"appRef": {"catalogId": "by-update"}}}
    from purekube.ports import PatchType

    run_sync(world.kube.patch(object_ref(NAME), patch, patch_type=PatchType.MERGE, field_manager=labels.FIELD_MANAGER))

    job = enqueue(world, 2)
    world.settle()

    assert outcome(job) == ("succeeded", "")
    assert live_of(world)["spec"]["appRef"]["catalogId"] == "nextcloud"


def test_a_job_that_had_no_effect_may_be_asked_for_again() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    taken = live_of(world)
    world.take_field(taken, "mine")
    refused = enqueue(world, 2)
    drain(world)
    world.take_field(live_of(world), "nextcloud")

    again = enqueue(world, 2)
    world.settle()

    assert outcome(refused)[0] == "conflict"
    assert outcome(again) == ("succeeded", "")


def test_an_instance_that_somebody_deletes_before_it_settles_has_failed() -> None:
    world = World()
    job = enqueue(world)
    drain(world)

    world.remove(live_of(world))
    world.release(live_of(world))
    drain(world)

    assert outcome(job)[1].startswith("Deleted: ")


def operation_job(world: World, **fields: Any) -> JobEntry:
    return world.control_server.enqueue(
        CLUSTER_ID,
        kind="intent",
        payload={"intent": "request-operation", "operation": operation()},
        idempotency_key="operation-hash",
        **fields,
    )


def test_an_operation_that_has_not_started_in_its_time_is_cancelled_and_one_that_has_is_not() -> None:
    for phase, cancelled in ((None, True), ("Pending", True), ("Running", False)):
        world = World()
        job = operation_job(world, expires_in=timedelta(minutes=1))
        drain(world)
        (ref,) = [job.ref for job in world.state.jobs.values()]
        assert ref is not None
        live = _get(world, ref)
        if phase:
            live = _set_phase(world, live, phase)
            world.feed(m.ObjectChanged(ref, live))
        world.advance(6 * 60)
        drain_pending(world)

        asked = get_path(_get(world, ref), "metadata", "annotations", labels.CANCEL)
        assert (asked == "true") is cancelled
        if cancelled:
            assert outcome(job)[1].startswith(
                "Timeout: Operation org-myteam/backup-1 had not started and was cancelled"
            )
        else:
            assert job.result is None


def _get(world: World, ref: Any) -> Any:
    return run_sync(world.kube.get(ref))


def _set_phase(world: World, live: Any, phase: str) -> Any:
    from vworkspace_core.api.kinds import OPERATION

    manifest = {
        **OPERATION.manifest(live["metadata"]["name"], live["metadata"]["namespace"]),
        "status": {"phase": phase, "observedGeneration": 1},
    }
    return run_sync(world.kube.apply_status(manifest, kind=OPERATION, field_manager=labels.FIELD_MANAGER))


def test_an_operation_that_starts_just_before_it_is_cancelled_is_left_alone() -> None:
    world = World()
    job = operation_job(world, expires_in=timedelta(minutes=1))
    drain(world)
    (ref,) = [job.ref for job in world.state.jobs.values()]
    world.advance(6 * 60)
    # The cancelling apply is on its way when the operation starts.
    _set_phase(world, _get(world, ref), "Running")
    drain_pending(world)
    world.advance(60)
    drain_pending(world)

    assert get_path(_get(world, ref), "metadata", "annotations", labels.CANCEL) is None
    assert job.result is None


def test_where_the_gate_closes_nothing_counts_as_gone() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    world.hold(live_of(world))
    job = enqueue_delete(world, 2)
    drain(world)
    _regate(world, None)

    for _ in range(4):
        world.advance(301)
        drain_pending(world)

    assert job.result is None


def _regate(world: World, value: str | None) -> None:
    from purekube.apimachinery.manifest import ObjectRef
    from purekube.apimachinery.resources import NAMESPACE as KIND
    from purekube.ports import PatchType

    patch = {"metadata": {"labels": {"managed-by": value}}}
    ref = ObjectRef(KIND, None, "org-myteam")
    run_sync(world.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="admin"))


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ({"kind": "upgrade"}, "InvalidJob: kind: 'upgrade' is unknown; one of apply, delete, intent"),
        ({"payload": [1]}, "InvalidJob: payload: must be an object, not a list"),
        ({"payload": "x"}, "InvalidJob: payload: must be an object, not a string"),
        ({"payload": {"kind": "Secret", "apiVersion": "v1"}}, "NotPermitted: payload.kind: a job may touch"),
        ({"payload": instance(namespace="elsewhere")}, "NotPermitted: payload.metadata.namespace: namespace 'else"),
        ({"payload": instance(namespace="nowhere")}, "NotPermitted: payload.metadata.namespace: namespace 'nowh"),
        ({"payload": instance(labels={labels.CLUSTER_ID: "b"})}, "NotPermitted: payload.metadata.labels:"),
        ({"payload": {**instance(), "spec": {}}}, "ValidationFailed: payload.spec.appRef: is required"),
        ({"kind": "delete", "payload": {**delete_payload(), "kind": "Cluster"}}, "NotPermitted: payload.kind: a job"),
    ],
)
def test_bad_input_is_answered_with_reason_and_path_and_the_loop_goes_on_PULL_7(raw: Any, error: str) -> None:
    world = World()
    good_before = enqueue(world, 1, name="before")
    wire = copy.deepcopy(good_before.raw)
    bad = world.control_server.enqueue_raw(CLUSTER_ID, {**wire, "id": "bad", "idempotencyKey": "bad", **raw})
    world.control_server.enqueue_raw(CLUSTER_ID, {"kind": "apply", "payload": {}})
    good_after = enqueue(world, 1, name="after")

    for _ in range(10):
        drain(world)
        for live in world.instances():
            world.report(live, READY)
        world.advance(5)

    assert outcome(bad)[0] == "failed"
    assert outcome(bad)[1].startswith(error)
    assert outcome(good_before) == outcome(good_after) == ("succeeded", "")
    assert any("without a usable id" in note.message for note in world.notes)
    assert {found["metadata"]["name"] for found in world.instances()} == {"before", "after"}


def test_a_payload_too_large_for_a_record_is_answered_and_not_applied_PULL_4() -> None:
    world = World()
    world.store.longest = 500
    job = enqueue(world)

    world.settle()

    assert outcome(job)[1].startswith("PayloadTooLarge: ")
    assert live_of(world) is None


def test_a_job_that_the_control_plane_closed_is_dropped_unless_our_ack_may_have_arrived_PULL_4() -> None:
    dropped, kept = World(), World()
    for world in (dropped, kept):
        enqueue(world)
        world.fetch()
        world.perform(0)
    kept.perform(0, fault="after")
    for world in (dropped, kept):
        world.control_server.close_job("job-1")
        drain_pending(world)

    assert live_of(dropped) is None
    assert not dropped.store.records
    assert live_of(kept) is not None


@pytest.mark.parametrize("ack_was_lost", [False, True])
def test_an_ack_answered_409_means_closed_and_nothing_is_applied_PULL_6(ack_was_lost: bool) -> None:
    world = World()
    job = enqueue(world)
    world.fetch()
    world.perform(0)
    if ack_was_lost:
        world.perform(0, fault="after")
    job.result, job.closed_at = {"outcome": "failed"}, world.clock.now()  # somebody answered it in Odoo
    drain_pending(world)

    assert world.deeds == []
    assert not world.store.records
    assert not world.state.jobs
    again = enqueue(world)
    world.settle()
    assert outcome(again) == ("succeeded", ""), "what was closed without an effect can be asked for again"


@pytest.mark.parametrize("in_secrets", [False, True])
@pytest.mark.parametrize("deletes", [False, True])
def test_a_closed_job_that_had_its_effect_before_a_crash_is_remembered_PULL_4(in_secrets: bool, deletes: bool) -> None:
    world = World(in_secrets=in_secrets)
    first = enqueue_delete(world, 1) if deletes else enqueue(world, 1)
    world.fetch()
    while not any(isinstance(effect, m.PostResult) for effect in world.pending):
        if not world.pending:
            world.report(live_of(world), READY)
            world.deliver()
        else:
            world.perform(0)
    # The result arrives, its answer does not: the next process finds the record of a job that is closed.
    world.perform(next(at for at, one in enumerate(world.pending) if isinstance(one, m.PostResult)), fault="after")
    world.start()
    drain_pending(world)
    assert not world.records()

    again = enqueue_delete(world, 1) if deletes else enqueue(world, 1)
    if deletes:
        world.create_by_hand(NAME)
    world.settle()

    assert outcome(first)[0] == "succeeded"
    assert outcome(again) == ("noop", "")
    assert live_of(world) is not None
    assert len(world.deeds) == (0 if deletes else 1)


def test_a_rotation_without_a_place_for_the_new_credential_fails_and_says_so() -> None:
    world = World()
    job = world.control_server.enqueue(
        CLUSTER_ID, kind="intent", payload={"intent": "rotate-operator-credentials"}, idempotency_key="rotate-1"
    )

    drain(world)

    assert outcome(job)[1].startswith("RotationFailed: the credential was given from outside")


@pytest.mark.parametrize("in_secrets", [False, True])
def test_what_somebody_deleted_while_the_process_was_down_is_not_created_again_PULL_4(in_secrets: bool) -> None:
    world = World(in_secrets=in_secrets)
    job = enqueue(world)
    drain(world)
    world.remove(live_of(world))
    world.release(live_of(world))
    world.start()
    drain(world)
    assert outcome(job) == ("failed", f"Deleted: {object_ref(NAME)} was deleted while the job was open")

    world.offer_again(job)
    world.settle()

    assert outcome(job) == ("noop", "")
    assert live_of(world) is None
    assert [deed.verb for deed in world.deeds] == ["apply"]


@pytest.mark.parametrize("in_secrets", [False, True])
def test_after_a_crash_a_job_whose_effect_is_on_record_does_not_have_it_again_over_a_later_one(
    in_secrets: bool,
) -> None:
    world = World(in_secrets=in_secrets)
    first = enqueue(world, idempotency_key="hash-1", chart="6.6.0")
    drain(world)
    second = enqueue(world, idempotency_key="hash-2", chart="6.7.0")
    world.fetch()
    while live_of(world)["spec"]["chart"]["version"] == "6.6.0":
        world.perform(0)
    world.start()
    world.settle()

    assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"
    assert (outcome(first)[0], outcome(second)[0]) == ("failed", "succeeded")
    assert len(world.deeds) == 2


def test_after_a_crash_a_job_in_the_middle_of_its_turn_goes_on_before_others_get_theirs() -> None:
    world = World()
    enqueue(world, idempotency_key="hash-1", chart="6.6.0")
    world.fetch()
    while live_of(world) is None:
        world.perform(0)
    enqueue(world, idempotency_key="hash-2", chart="6.7.0")
    world.start()
    world.fetch()
    # The later job's answers come first; whether the earlier one had its effect can be told only until it has its own.
    for _ in range(40):
        if world.pending:
            world.perform(len(world.pending) - 1)
    world.settle()

    assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"
    assert [deed.key for deed in world.deeds] == ["hash-1", "hash-2"]


def test_a_twin_that_looks_while_the_first_is_being_closed_does_not_roll_back_PULL_4() -> None:
    world = World()
    enqueue(world, idempotency_key="hash-1", chart="6.6.0")
    drain(world)
    enqueue(world, idempotency_key="hash-2", chart="6.7.0")
    world.fetch()
    while not isinstance(world.pending[0], m.PostResult):
        world.perform(0)
    # The first is superseded, its result under way, when its twin comes and looks.
    twin = enqueue(world, idempotency_key="hash-1", chart="6.6.0")
    world.fetch()
    while not isinstance(world.pending[-1], m.Inspect):
        world.perform(len(world.pending) - 1)
    looked = run_sync(world.performer.perform(world.pending.pop()))  # type: ignore[arg-type]
    while world.pending:
        world.perform(0)
    world.feed(looked)
    world.settle()

    assert outcome(twin) == ("noop", "")
    assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"


NUMBERED = f"ApplicationInstance/org-myteam/{NAME}@1"


def newer_while_ack_is_slow(world: World, key: str = "hash-1") -> JobEntry:
    """Let a request come first that was made after one whose ack takes long. Return the earlier one, of that `key`."""
    earlier = enqueue(world, idempotency_key=key, chart="6.6.0")
    enqueue(world, idempotency_key="hash-2", chart="6.7.0")
    world.fetch()
    while True:
        fast = [at for at, effect in enumerate(world.pending) if effect != m.SendAck(earlier.id)]
        if not fast:
            return earlier
        world.perform(fast[0])


@pytest.mark.parametrize("key", ["hash-1", NUMBERED])
def test_a_request_that_was_superseded_unapplied_is_not_carried_out_under_a_new_id_PULL_4(key: str) -> None:
    world = World()
    earlier = newer_while_ack_is_slow(world, key)
    world.settle()
    assert outcome(earlier)[1].startswith("Superseded: a later request")

    again = enqueue(world, idempotency_key=key, chart="6.6.0")
    world.settle()

    assert outcome(again) == (
        "failed",
        f"Superseded: a later request for ApplicationInstance org-myteam/{NAME} came first: ask under a key of its own",
    )
    assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"


@pytest.mark.parametrize("crashes", [False, True])
def test_a_request_whose_ack_is_slow_is_not_carried_out_after_a_later_one_has_settled_PULL_4(crashes: bool) -> None:
    world = World()
    earlier = newer_while_ack_is_slow(world)
    slow = world.pending.pop()
    world.report(live_of(world), READY)
    drain(world)
    if crashes:
        world.start()
    else:
        world.pending.append(slow)
    world.settle()

    assert outcome(earlier)[1].startswith("Superseded: a later request")
    assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"


def test_one_key_on_two_objects_has_one_effect() -> None:
    world = World()
    jobs = [enqueue(world, name=name, idempotency_key="hash-1") for name in ("one", "two")]
    world.settle()

    assert sorted(outcome(job)[0] for job in jobs) == ["noop", "succeeded"]
    assert len(world.deeds) == 1


def test_a_delete_tells_the_same_of_its_object_whether_or_not_the_process_ended_meanwhile_PULL_4() -> None:
    told = []
    for crashes in (False, True):
        world = World()
        enqueue(world, 1)
        world.settle()
        world.hold(live_of(world))
        job = enqueue_delete(world, 2)
        drain(world)
        if crashes:
            world.start()
            drain(world)
        world.release(live_of(world))
        if crashes:
            world.start()
        world.settle()
        told.append((outcome(job), get_path(job.result, "appliedRef", "generation")))

    assert told == [(("succeeded", ""), 1)] * 2


def test_an_apply_that_arrives_late_does_not_undo_what_came_after_it_PULL_4() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    enqueue(world, 2, chart="6.2.0")
    world.fetch()
    while not any(isinstance(effect, m.ApplyForJob) for effect in world.pending):
        world.perform(0)
    late = next(effect for effect in world.pending if isinstance(effect, m.ApplyForJob))
    # The request is on its way and seems lost; the process starts again, and a newer generation is applied.
    world.start()
    enqueue(world, 3, chart="6.3.0")
    world.settle()

    answer = run_sync(world.performer.perform(late))

    assert isinstance(answer, m.PreconditionFailed)
    assert live_of(world)["spec"]["chart"]["version"] == "6.3.0"


def test_a_copy_from_before_the_request_that_an_informer_tells_late_is_no_answer() -> None:
    """The apply moved no generation: the old copy, with its old verdict, says nothing of what it was before."""
    world = World()
    failed = enqueue(world, 1)
    drain(world)
    world.report(live_of(world), condition("Ready", "False", "RolledBack"), STALLED)
    drain(world)
    assert outcome(failed)[0] == "failed"
    late = live_of(world)

    again = enqueue(world, 2)
    drain(world)
    world.feed(m.ObjectChanged(object_ref(NAME), late))
    drain_pending(world)
    assert again.result is None

    world.settle()
    assert outcome(again) == ("succeeded", "")


def test_an_older_copy_that_comes_late_does_not_keep_an_operation_from_being_called_off() -> None:
    world = World()
    job = operation_job(world)
    drain(world)
    (ref,) = [job.ref for job in world.state.jobs.values()]
    assert ref is not None
    old = _get(world, ref)
    world.decide_on(old, accepts=False)
    world.feed(m.ObjectChanged(ref, _get(world, ref)))
    while not any(isinstance(effect, m.CancelOperation) for effect in world.pending):
        world.perform(0)
    world.feed(m.ObjectChanged(ref, old))
    (at,) = [number for number, effect in enumerate(world.pending) if isinstance(effect, m.CancelOperation)]
    world.perform(at, fault="before")

    for _ in range(3):
        world.advance(61)
        drain_pending(world)

    assert outcome(job)[1].startswith("TargetNotFound")


def test_of_two_deletes_under_way_at_a_crash_the_newer_generation_is_remembered_PULL_4() -> None:
    world = World()
    enqueue(world, idempotency_key="hash-apply")
    world.settle()
    numbered = enqueue_delete(world, 2)
    other = enqueue_delete(world, 0, idempotency_key="hash-delete")
    drain(world)
    assert (numbered.result, other.result) == (None, None), "the object is still there"
    world.start()
    world.settle()
    assert (outcome(numbered)[0], outcome(other)[0]) == ("succeeded", "succeeded")

    late = enqueue(world, 1)
    world.settle()

    assert outcome(late)[1].startswith("Superseded: generation 2 is newer than 1")
    assert live_of(world) is None


NAMES = ("alpha", "beta")


class Chaos(RuleBasedStateMachine):
    """Faults, crashes, repeats and other people, then peace: safety all the way, convergence at the end.

    Whether a result is true is judged when it is posted (`World`): among others, that no Operation whose job is called
    failed may still start. Records are in memory, or in Secrets: then the process also ends between the store's own
    writes.
    """

    @initialize(in_secrets=st.booleans())
    def begin(self, in_secrets: bool) -> None:
        self.world = World(in_secrets=in_secrets)

    @rule(name=st.sampled_from(NAMES), generation=st.integers(1, 6))
    def ask(self, name: str, generation: int) -> None:
        # Odd generations apply, even ones delete, so that a key always means the same.
        if generation % 2:
            enqueue(self.world, generation, name=name, chart=f"6.{generation}.0")
        else:
            enqueue_delete(self.world, generation, name=name)

    @rule(name=st.sampled_from(NAMES), number=st.integers(1, 3), delete=st.booleans())
    def ask_with_a_hash(self, name: str, number: int, delete: bool) -> None:
        key = f"hash-{name}-{number}-{delete}"
        if delete:
            enqueue_delete(self.world, 0, name=name, idempotency_key=key)
        else:
            enqueue(self.world, name=name, idempotency_key=key)

    @rule(number=st.integers(1, 2), generation=st.integers(1, 3))
    def ask_for_an_operation(self, number: int, generation: int) -> None:
        self.world.control_server.enqueue(
            CLUSTER_ID,
            kind="intent",
            payload={"intent": "request-operation", "operation": operation(f"op-{number}", target=NAMES[number - 1])},
            idempotency_key=f"Operation/org-myteam/op-{number}@{generation}",
        )

    @rule(which=st.integers(0, 1), accepts=st.booleans())
    def decide_on_an_operation(self, which: int, accepts: bool) -> None:
        if found := self.world.operations():
            live = found[which % len(found)]
            quiet(lambda: self.world.decide_on(live, accepts=accepts))

    @rule(number=st.integers(0, 5))
    def ask_badly(self, number: int) -> None:
        raw = {"id": f"bad-{number}", "kind": "apply", "payload": [number]}
        if raw["id"] not in [job.id for job in self.world.entries()]:
            self.world.control_server.enqueue_raw(CLUSTER_ID, raw)

    @rule()
    def poll(self) -> None:
        self.world.fetch()

    @precondition(lambda self: self.world.pending)
    @rule(data=st.data(), fault=st.sampled_from(["", "", "", "before", "after"]))
    def perform(self, data: st.DataObject, fault: str) -> None:
        at = data.draw(st.integers(0, len(self.world.pending) - 1))
        self.world.perform(at, fault=fault)

    @precondition(lambda self: self._on_the_cluster())
    @rule(data=st.data(), number=st.integers(1, 5), after=st.booleans(), crash=st.booleans())
    def perform_cut(self, data: st.DataObject, number: int, after: bool, crash: bool) -> None:
        self.world.perform_cut(
            data.draw(st.sampled_from(self._on_the_cluster())), number, interruption(after=after, crash=crash)
        )

    def _on_the_cluster(self) -> list[int]:
        told = (m.SendAck, m.PostResult, m.PostStatus)
        return [at for at, effect in enumerate(self.world.pending) if not isinstance(effect, told)]

    @precondition(lambda self: any(job.result for job in self.world.entries()))
    @rule(which=st.integers(0, 5))
    def offer_again(self, which: int) -> None:
        closed = [job for job in self.world.entries() if job.result is not None]
        self.world.offer_again(closed[which % len(closed)])

    @rule()
    def progress(self) -> None:
        self.world.fetch()
        while self.world.pending:
            self.world.perform(0)

    @rule()
    def calm(self) -> None:
        self.world.calm()

    @rule()
    def informer(self) -> None:
        self.world.deliver()

    @rule(seconds=st.sampled_from([1, 10, 301]))
    def time(self, seconds: int) -> None:
        self.world.advance(seconds)

    @rule()
    def crash(self) -> None:
        self.world.start()

    @rule(which=st.integers(0, 3), ready=st.booleans())
    def reconcile(self, which: int, ready: bool) -> None:
        if found := self.world.instances():
            live = found[which % len(found)]
            conditions = (READY,) if ready else (condition("Ready", "False", "HelmReleaseFailed"), STALLED)
            quiet(lambda: self.world.report(live, *conditions))

    @rule(which=st.integers(0, 3), held=st.booleans())
    def finalizer(self, which: int, held: bool) -> None:
        if found := self.world.instances():
            live = found[which % len(found)]
            quiet(lambda: self.world.hold(live) if held else self.world.release(live))

    @rule(which=st.integers(0, 3))
    def somebody_deletes(self, which: int) -> None:
        found = [live for live in self.world.instances() if not self._unknown_to_its_job(live)]
        if found:
            quiet(lambda: self.world.remove(found[which % len(found)]))

    def _unknown_to_its_job(self, live: Any) -> bool:
        """Created by a write whose answer is not on record: a crash then cannot tell a delete from a lost write."""
        key = get_path(live, "metadata", "annotations", labels.IDEMPOTENCY_KEY)
        records = self.world.records().values()
        return any(r.raw.get("idempotencyKey") == key and r.state.get("intent") == {"uid": ""} for r in records)

    @invariant()
    def an_older_generation_never_wins(self) -> None:
        newest: dict[str, int] = defaultdict(int)
        for deed in self.world.deeds:
            if deed.generation:
                assert deed.generation >= newest[deed.name], self.world.deeds
                newest[deed.name] = deed.generation

    @invariant()
    def a_key_has_its_effect_once_and_by_one_job(self) -> None:
        done: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for deed in self.world.deeds:
            done[deed.key].add((deed.job_id, deed.uid))
        assert all(len(found) == 1 for found in done.values()), self.world.deeds

    @invariant()
    def an_acked_job_is_on_record_until_it_has_its_result(self) -> None:
        for job in self.world.entries():
            if job.acked_at is not None and job.result is None:
                assert self.world.has_record(job.id)

    @invariant()
    def one_job_at_a_time_works_on_an_object(self) -> None:
        busy = [
            job.ref
            for job in self.world.state.jobs.values()
            if job.stage in (JobStage.RECORDING_INTENT, JobStage.ACTING)
        ]
        assert len(busy) == len(set(busy))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.settle()
        for job in self.world.entries():
            assert job.result is not None
        assert not self.world.records()
        before = [found["metadata"]["resourceVersion"] for found in self.world.instances()]
        self.world.settle()
        assert [found["metadata"]["resourceVersion"] for found in self.world.instances()] == before


@pytest.mark.slow
@in_chunks(25)
def test_every_fault_of_the_cluster_and_the_store_between_any_two_calls_PULL_4(chunk: int, runs: int) -> None:
    attack(Chaos, chunk, runs)
