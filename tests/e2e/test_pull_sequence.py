"""The project's main job, end to end, in process and over HTTP (PULL-2, PULL-3).

Every test runs twice: on ports and under virtual time, and with production adapters over loopback sockets. It
asserts on what both servers hold: objects, who owns which field, statuses, results, events, the audit log.
"""

import json
import shlex
from collections.abc import Callable, Iterable
from itertools import groupby

import attrs
import pytest

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.ports import PatchType, WatchEventType
from tests.support.e2e_world import (
    BROKEN,
    CLUSTER,
    EDITED,
    FAILURE,
    FIRST,
    INSTANCE,
    LATER,
    NAME,
    NS,
    OLDER_FAILURE,
    QUICK,
    REGISTRY,
    RELEASE,
    SOURCE,
    World,
    conditions,
    instance,
    owned_by,
)
from tests.support.recording_client import Write
from tests.support.servers import ENVIRONMENT, IN_PROCESS, Face
from tests.support.stories import on_every_face, on_every_face_every_day
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, IDEMPOTENCY_KEY, RETRY
from vworkspace_core.instances.context import Settings
from vworkspace_fake.controlplane.faults import AgentCall, ScriptedFault


@on_every_face_every_day
async def test_an_intent_becomes_a_running_release_PULL_2(world: World) -> None:
    await world.until(lambda: world.control.waiting > 0, "step 1: the long poll")

    job = world.ask(FIRST, 7)
    result = await world.result(job)

    assert (job.acks, job.results_refused) == (1, 0)
    instance = world.get(INSTANCE)
    reference = {"apiVersion": instance["apiVersion"], "kind": "ApplicationInstance", "namespace": NS, "name": NAME}
    applied = {**reference, "uid": instance["metadata"]["uid"], "generation": 1}
    assert (result["outcome"], result["appliedRef"], "error" in result) == ("succeeded", applied, False)
    assert world.conditions() == {"Ready": "True/HelmReleaseReady", "Reconciling": "False/Stable"}
    assert world.running() == [FIRST]
    await world.until(lambda: world.events("ReleaseReady"), "step 7: the Event")
    (event,) = world.events("ReleaseReady")
    assert (event["type"], event["regarding"]["uid"]) == ("Normal", instance["metadata"]["uid"])


@on_every_face
async def test_the_instance_is_applied_as_ours_with_labels_key_and_finalizer_PULL_2_step_4(world: World) -> None:
    job = await world.ready()

    meta = world.get(INSTANCE)["metadata"]

    assert meta["labels"] == {
        "app.vworkspace.io/managed-by": "control-plane",
        "app.vworkspace.io/cluster-id": CLUSTER,
    }
    assert meta["annotations"][IDEMPOTENCY_KEY] == job.raw["idempotencyKey"]
    assert meta["finalizers"] == [FINALIZER]
    fields = owned_by(world.get(INSTANCE), FIELD_MANAGER)
    assert "f:version" in fields["f:spec"]["f:chart"]
    assert "f:status" in owned_by(world.get(INSTANCE), FIELD_MANAGER, "status")
    assert {entry["manager"] for entry in meta["managedFields"]} == {FIELD_MANAGER}


@on_every_face
async def test_source_and_release_are_the_instances_own_PULL_2_step_5(world: World) -> None:
    await world.ready()

    source, release = world.get(SOURCE), world.get(RELEASE)

    uid = world.get(INSTANCE)["metadata"]["uid"]
    for manifest in (source, release):
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("ApplicationInstance", uid, True)
        assert set(owned_by(manifest, FIELD_MANAGER)) == {"f:metadata", "f:spec"}
    assert source["spec"]["url"] == f"{REGISTRY}/nextcloud"
    assert source["spec"]["ref"] == {"tag": FIRST}
    assert release["spec"]["chartRef"] == {"kind": "OCIRepository", "name": SOURCE.name}
    assert release["spec"]["values"] == {"replicaCount": 1}


@on_every_face
async def test_the_status_says_reconciling_until_flux_confirmed_PULL_2_steps_6_and_7(world: World) -> None:
    job = await world.ready()

    told = [status for status in world.statuses() if status]

    assert told[0]["Reconciling"] == "True/HelmReleaseInstalling"
    assert told[-1] == {"Ready": "True/HelmReleaseReady", "Reconciling": "False/Stable"}
    assert [status["Ready"].partition("/")[0] for status in told] == ["False"] * (len(told) - 1) + ["True"]
    confirmed = _position(world, HELM_RELEASE, lambda found: get_path(found, "status", "history") is not None)
    assert _position(world, APPLICATION_INSTANCE, _is_ready) > confirmed
    phases = [phase for phase, _ in groupby(status["phase"] for status in job.statuses)]
    assert "Reconciling" in phases
    assert phases == [phase for phase in ("Pending", "Reconciling", "Ready") if phase in phases], "in this order"


def _is_ready(found: Manifest) -> bool:
    return conditions(found).get("Ready") == "True/HelmReleaseReady"


def _position(world: World, kind: Kind, holds: Callable[[Manifest], bool]) -> int:
    """resourceVersion of the first version of an object that `holds` is true of."""
    found = (event.object for event in world.history.events(kind) if holds(event.object))
    return int(next(found)["metadata"]["resourceVersion"])


@pytest.mark.slow
@on_every_face_every_day
async def test_nothing_is_applied_before_the_ack_got_through_PULL_1(world: World) -> None:
    world.control.faults.inject(ScriptedFault(call=AgentCall.ACK, status=503, times=2))
    job = world.ask(FIRST, 7)

    def taken() -> bool:
        assert job.acked_at is not None or world.find(INSTANCE) is None
        return job.acked_at is not None

    await world.until(taken, "the ack")
    assert (await world.result(job))["outcome"] == "succeeded"


@on_every_face_every_day
async def test_from_creation_to_ready_the_operator_writes_at_most_five_times(world: World) -> None:
    await world.ready()

    writes = [entry for entry in world.writes() if not _is_event(entry)]

    (applied,) = (entry for entry in writes if entry.path.endswith(f"applicationinstances/{NAME}") and _created(entry))
    assert writes[0] == applied, "the agent's apply comes first"
    assert len(writes) - 1 <= 5, "\n".join(f"{entry.method} {entry.path} {entry.status}" for entry in writes)
    assert all(entry.changed for entry in writes), "a write that changes nothing is one too many"


def _is_event(entry: Write) -> bool:
    return "/events" in entry.path


def _created(entry: Write) -> bool:
    return entry.status == 201


@pytest.mark.parametrize(
    ("face", "interval", "seconds", "rounds"),
    [
        pytest.param(IN_PROCESS, "5m", 3600.0, 12, id="an hour of virtual time"),
        pytest.param(ENVIRONMENT, "1s", 0.0, 3, id="in a cluster"),
    ],
)
def test_in_the_steady_state_the_operator_writes_nothing_at_all(
    face: Face, interval: str, seconds: float, rounds: int
) -> None:
    async def story(world: World) -> None:
        await world.ready()
        await world.until(lambda: world.events("ReleaseReady"), "the last Event")
        world.forget_writes()

        await world.clock.sleep(seconds)
        await world.until(lambda: len(_of(RELEASE, world.flux_writes())) >= rounds, f"{rounds} intervals of Flux")

        assert world.writes() == []
        assert world.conditions() == {"Ready": "True/HelmReleaseReady", "Reconciling": "False/Stable"}

    face.run(story, decisions=Settings(cluster_id=CLUSTER, interval=interval))


def _of(ref: ObjectRef, entries: Iterable[Write]) -> list[Write]:
    return [entry for entry in entries if f"/{ref.kind.plural}/{ref.name}" in entry.path]


@on_every_face
async def test_a_failing_upgrade_ends_failed_with_fluxs_message_PULL_3(world: World) -> None:
    await world.ready()
    since = len(world.history)

    result = await world.result(world.ask(BROKEN, 8))

    assert result["outcome"] == "failed"
    assert result["error"].startswith(world.conditions()["Ready"].removeprefix("False/") + ": Helm upgrade failed")
    real = world.reached.real if world.reached is not None else None
    assert (OLDER_FAILURE if real is not None and real.oldest else FAILURE) in result["error"]
    assert result["appliedRef"]["generation"] == 2
    assert world.conditions()["Degraded"] == "True/HelmReleaseFailed"
    assert world.running() == [FIRST], "Flux went back to what worked"
    told = [status["Ready"] for status in world.statuses(since=since) if status]
    assert not any(ready.startswith("True") for ready in told)


@pytest.mark.slow
@on_every_face_every_day
async def test_a_recovery_after_the_result_is_a_condition_transition_PULL_3(world: World) -> None:
    await world.ready()
    job = world.ask(BROKEN, 8)
    assert (await world.result(job))["outcome"] == "failed"
    posted = len(job.statuses)

    world.flux.behaviour = attrs.evolve(QUICK, release_rules=())
    world.edit(INSTANCE, {"metadata": {"annotations": {RETRY: "after-mending"}}}, manager="kubectl-annotate")

    await world.until(lambda: world.transitions("/Ready/True/HelmReleaseReady@2"), "the recovery at the control plane")
    (told,) = world.transitions("/Degraded/False/Recovered@2")
    assert told["kind"] == "ConditionTransition"
    assert world.conditions()["Ready"] == "True/HelmReleaseReady"
    assert world.running() == [BROKEN]
    assert (job.results_refused, len(job.statuses)) == (0, posted), "the job had its one result"


@pytest.mark.slow
@on_every_face
async def test_a_job_that_asks_for_a_retry_is_answered_by_what_comes_after_it_PULL_3(world: World) -> None:
    await world.ready()
    assert (await world.result(world.ask(BROKEN, 8)))["outcome"] == "failed"

    again = instance(BROKEN)
    again["metadata"] = {**again["metadata"], "annotations": {RETRY: "first"}}
    assert (await world.result(world.ask("", 9, payload=again)))["outcome"] == "failed", "it was tried, and failed"
    world.flux.behaviour = attrs.evolve(QUICK, release_rules=())
    again["metadata"] = {**again["metadata"], "annotations": {RETRY: "second"}}
    mended = await world.result(world.ask("", 10, payload=again))

    assert mended["outcome"] == "succeeded", mended
    assert world.running() == [BROKEN]


@on_every_face
async def test_a_name_that_is_free_again_is_not_called_taken_PULL_3(world: World) -> None:
    spec = {"interval": "10m", "chartRef": {"kind": "OCIRepository", "name": "theirs"}}
    stranger = world.create_object({**HELM_RELEASE.manifest(NAME, NS), "spec": spec}, HELM_RELEASE)
    refused = await world.result(world.ask(FIRST, 1))
    assert refused["error"].startswith("NameTaken: ")

    world.delete_object(RELEASE)
    theirs = stranger["metadata"]["uid"]
    await world.until(lambda: get_path(world.find(RELEASE), "metadata", "uid") != theirs, "the name is free again")
    asked_again = await world.result(world.ask(FIRST, 2))

    assert asked_again["outcome"] == "succeeded", asked_again


@pytest.mark.slow
@on_every_face
async def test_a_status_by_hand_is_not_told_as_ours_and_a_job_is_answered_early_PULL_3(world: World) -> None:
    await world.ready()
    told = [{**condition, "message": "by hand, honest"} for condition in world.get(INSTANCE)["status"]["conditions"]]
    patch = {"status": {"conditions": told}}
    world.hands.do(
        lambda api: api.patch(
            INSTANCE, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit", subresource="status"
        )
    )

    result = await world.result(world.ask(LATER, 8))

    assert result["outcome"] == "conflict"
    assert "kubectl-edit holds .status.conditions[" in result["error"]
    assert "kubectl patch applicationinstances.apps.vworkspace.io" in result["error"]
    assert "by hand, honest" not in str([world.control.events_of(CLUSTER), result])
    await world.until(lambda: world.events("StatusHeld"), "the Event on the object")
    await world.clock.sleep(3)
    (event,) = world.events("StatusHeld")
    assert (event["type"], event["regarding"]["name"]) == ("Warning", NAME)
    assert "kubectl-edit holds .status.conditions[" in event["note"]
    assert "series" not in event, "once"

    command = shlex.split(event["note"].partition("hand it back: ")[2])
    steps = json.loads(command[command.index("-p") + 1])
    world.hands.do(lambda api: api.patch(INSTANCE, steps, patch_type=PatchType.JSON, field_manager="kubectl-patch"))
    await world.until(lambda: "by hand, honest" not in str(world.get(INSTANCE)["status"]), "our own words again")


@pytest.mark.slow
@on_every_face
async def test_jobs_that_suspend_change_and_resume_end_as_asked_PULL_3(world: World) -> None:
    def suspended(version: str, wanted: bool = True) -> Manifest:
        found = instance(version)
        return {**found, "spec": {**found["spec"], "suspend": wanted}}

    created = await world.result(world.ask("", 1, payload=suspended(FIRST)))
    assert created["outcome"] == "succeeded", "created suspended"
    assert world.running() == []
    resumed = await world.result(world.ask("", 2, payload=suspended(FIRST, False)))
    assert (resumed["outcome"], world.running()) == ("succeeded", [FIRST])
    paused = await world.result(world.ask("", 3, payload=suspended(FIRST)))
    assert paused["outcome"] == "succeeded"
    changed = await world.result(world.ask("", 4, payload=suspended(LATER)))
    assert (changed["outcome"], world.running()) == ("succeeded", [FIRST]), "a change while it is suspended"
    again = await world.result(world.ask("", 5, payload=suspended(LATER, False)))
    assert (again["outcome"], world.running()) == ("succeeded", [LATER])


@on_every_face
async def test_a_replay_is_a_noop_and_touches_nothing_PULL_3(world: World) -> None:
    first = await world.ready()
    await world.until(lambda: world.events("ReleaseReady"), "the last Event")
    before = world.get(INSTANCE)
    world.forget_writes()

    again = await world.result(world.ask(FIRST, 7, job_id="another-id"))

    assert again["outcome"] == "noop"
    assert world.get(INSTANCE) == before
    assert world.writes() == []
    assert first.result["outcome"] == "succeeded"


@pytest.mark.slow
@on_every_face_every_day
async def test_a_field_that_a_human_holds_is_a_conflict_and_stays_theirs_PULL_3(world: World) -> None:
    await world.ready()
    world.edit(INSTANCE, {"spec": {"chart": {"version": EDITED}}})
    await world.until(lambda: world.running() == [EDITED], "the edit takes effect")

    result = await world.result(world.ask(LATER, 9))

    assert result["outcome"] == "conflict"
    assert result["error"].startswith("FieldConflict: ")
    assert "kubectl-edit" in result["error"]
    assert ".spec.chart.version" in result["error"]
    live = world.get(INSTANCE)
    assert live["spec"]["chart"]["version"] == EDITED
    assert "f:version" not in owned_by(live, FIELD_MANAGER)["f:spec"]["f:chart"]
    assert world.running() == [EDITED]


@pytest.mark.slow
@on_every_face_every_day
async def test_a_deletion_succeeds_when_everything_is_gone_in_order_PULL_3(world: World) -> None:
    await world.ready()
    since = len(world.history)

    result = await world.result(world.ask_deletion(8))

    assert (result["outcome"], "error" in result) == ("succeeded", False)
    assert [world.find(ref) for ref in (INSTANCE, RELEASE, SOURCE)] == [None, None, None]
    gone = [
        (event.object["kind"], event.object["metadata"]["name"])
        for event in world.history.events(since=since)
        if event.type is WatchEventType.DELETED
    ]
    assert gone == [(ref.kind.kind, ref.name) for ref in (RELEASE, SOURCE, INSTANCE)]
    assert "True/WaitingForChildResources" in {status.get("Deleting") for status in world.statuses(since=since)}
    assert world.running() == []


@pytest.mark.slow
@on_every_face
async def test_after_a_deletion_the_same_name_can_be_had_again_and_gets_a_new_uid_PULL_4(world: World) -> None:
    first = await world.ready()
    await world.result(world.ask_deletion(8))

    again = await world.ready(LATER, 9)

    assert again.result["appliedRef"]["uid"] != first.result["appliedRef"]["uid"]
    assert world.running() == [LATER]
