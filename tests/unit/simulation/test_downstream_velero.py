"""What the simulated Velero leaves in its objects, fact by fact (downstream-status 7.1, 7.7)."""

from typing import Any

import pytest

from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    Ending,
    SnapshotBehaviour,
    VeleroBehaviour,
)
from kubelab.downstream.crds import downstream_crds
from kubelab.downstream.kinds import BACKUP_STORAGE_LOCATION, DELETE_BACKUP_REQUEST
from purekube.apimachinery.errors import AlreadyExists
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
)
from tests.support.downstream_world import NS, VELERO_NS, DownstreamWorld, backup, restore, snapshot


def ends(ending: Ending, *, velero: VeleroBehaviour | None = None, **outcome: Any) -> DownstreamBehaviour:
    return DownstreamBehaviour(
        (DownstreamRule(DownstreamOutcome(ending, **outcome)),), velero=velero or VeleroBehaviour()
    )


def world(behaviour: DownstreamBehaviour | None = None) -> DownstreamWorld:
    return DownstreamWorld(behaviour, names=["velero"])


def backed_up(behaviour: DownstreamBehaviour | None = None, **spec: Any) -> DownstreamWorld:
    made = world(behaviour)
    made.create(backup(**spec), VELERO_BACKUP)
    made.settle()
    return made


def status_of(made: DownstreamWorld, name: str = "b") -> dict[str, Any]:
    return made.status(VELERO_BACKUP, name, VELERO_NS)


_UPLOADS = VeleroBehaviour(plugin_operations=3)
_WAITING, _FINALIZING = "WaitingForPluginOperations", "Finalizing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "phases"),
    [
        (DownstreamBehaviour(), ["InProgress", _FINALIZING, "Completed"]),
        (ends(Ending.SUCCEED, velero=_UPLOADS), ["InProgress", _WAITING, _FINALIZING, "Completed"]),
        (ends(Ending.PARTIAL), ["InProgress", f"{_FINALIZING}PartiallyFailed", "PartiallyFailed"]),
        (
            ends(Ending.PARTIAL, velero=_UPLOADS),
            ["InProgress", f"{_WAITING}PartiallyFailed", f"{_FINALIZING}PartiallyFailed", "PartiallyFailed"],
        ),
        (ends(Ending.FAIL), ["InProgress", "Failed"]),
        (ends(Ending.ERROR), ["InProgress", "Failed"]),
        (ends(Ending.INVALID), ["FailedValidation"]),
        (ends(Ending.STALL), ["InProgress"]),
    ],
)
def test_the_phases_of_a_backup_and_of_a_restore(behaviour: DownstreamBehaviour, phases: list[str]) -> None:
    assert backed_up(behaviour).phases(VELERO_BACKUP) == ["", "Queued", "ReadyToStart", *phases]
    made = backed_up()
    made.behave(behaviour)
    restored(made)
    assert made.phases(VELERO_RESTORE) == ["", *phases]


def test_counts_and_times_of_a_partial_backup() -> None:
    status = status_of(backed_up(ends(Ending.PARTIAL, errors=2, warnings=5, items=40)))
    assert (status["errors"], status["warnings"]) == (2, 5)
    assert status["progress"] == {"itemsBackedUp": 40, "totalItems": 40}
    assert status["startTimestamp"] < status["completionTimestamp"] < status["expiration"]


def test_progress_is_written_while_it_runs() -> None:
    made = backed_up(ends(Ending.SUCCEED, items=40))
    counts = [state.get("status", {}).get("progress", {}).get("itemsBackedUp") for state in made.states(VELERO_BACKUP)]
    assert [count for count in counts if count is not None] == [20, 40, 40, 40]


def test_there_is_no_status_subresource_so_generation_moves_with_the_status() -> None:
    made = backed_up()
    states = made.states(VELERO_BACKUP)
    generations = [state["metadata"]["generation"] for state in states]
    assert generations == sorted(set(generations))
    assert generations[-1] > 4
    assert "observedGeneration" not in states[-1]["status"]


def test_velero_writes_its_defaults_into_the_spec() -> None:
    stored = backed_up().get(VELERO_BACKUP, "b", VELERO_NS)
    assert stored["spec"]["storageLocation"] == "default"
    assert stored["spec"]["ttl"] == "720h0m0s"
    assert stored["metadata"]["labels"] == {"velero.io/storage-location": "default"}


def test_a_backup_outside_velero_s_namespace_is_ignored_for_ever() -> None:
    made = world()
    made.create(backup(namespace=NS), VELERO_BACKUP)
    made.create({**restore(), "metadata": {"name": "r", "namespace": NS}}, VELERO_RESTORE)
    made.run(86_400)
    assert made.status(VELERO_BACKUP, "b", NS) == {} == made.status(VELERO_RESTORE, "r", NS)


def test_a_ttl_that_is_no_go_duration_makes_the_object_unreadable() -> None:
    made = backed_up(ttl="30d")
    assert status_of(made) == {}
    assert "spec.ttl" in next(iter(made.simulator.errors.values()))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"storageLocation": "moon"}, 'BackupStorageLocation.velero.io "moon" not found'),
        ({"excludedNamespaces": [NS]}, "excludes list cannot contain an item in the includes list: org"),
        ({"includedResources": ["pods"], "excludedResources": ["pods"]}, "resource lists"),
    ],
)
def test_what_velero_refuses_is_failed_validation(spec: dict[str, Any], text: str) -> None:
    status = status_of(backed_up(**spec))
    assert status["phase"] == "FailedValidation"
    assert text in status["validationErrors"][0]
    assert "startTimestamp" not in status


def location(**spec: Any) -> dict[str, Any]:
    body = {"provider": "aws", "objectStorage": {"bucket": "x"}, **spec}
    return {**BACKUP_STORAGE_LOCATION.manifest("default", VELERO_NS), "spec": body}


def test_a_storage_location_that_is_away_or_read_only_refuses_backups() -> None:
    away = ends(Ending.FAIL, message="no such bucket")
    made = world(away)
    made.create(location(), BACKUP_STORAGE_LOCATION)
    made.settle()
    assert made.status(BACKUP_STORAGE_LOCATION, "default", VELERO_NS)["phase"] == "Unavailable"
    made.create(backup(), VELERO_BACKUP)
    made.settle()
    assert "is in Unavailable status" in status_of(made)["validationErrors"][0]
    made.behave(DownstreamBehaviour())
    made.run(60)
    assert made.status(BACKUP_STORAGE_LOCATION, "default", VELERO_NS)["phase"] == "Available"
    made.patch(BACKUP_STORAGE_LOCATION, "default", {"spec": {"accessMode": "ReadOnly"}}, namespace=VELERO_NS)
    made.create(backup("c"), VELERO_BACKUP)
    made.settle()
    assert "read-only mode" in status_of(made, "c")["validationErrors"][0]


def test_one_backup_at_a_time_in_the_order_of_the_queue() -> None:
    made = world()
    for name in ("a", "b", "c"):
        made.create(backup(name), VELERO_BACKUP)
    made.simulator.tick(made.clock.now())
    seen = {name: status_of(made, name) for name in ("a", "b", "c")}
    assert [seen[name]["phase"] for name in ("a", "b", "c")] == ["InProgress", "Queued", "Queued"]
    assert [seen[name].get("queuePosition") for name in ("a", "b", "c")] == [None, 1, 2]
    made.settle()
    starts = [status_of(made, name)["startTimestamp"] for name in ("a", "b", "c")]
    assert starts == sorted(set(starts))


def test_an_older_velero_has_no_queue() -> None:
    made = backed_up(DownstreamBehaviour(velero=VeleroBehaviour(queues=False)))
    assert made.phases(VELERO_BACKUP) == ["", "InProgress", "Finalizing", "Completed"]


def test_a_backup_in_progress_is_not_stopped_by_deleting_it_and_comes_back_by_the_sync() -> None:
    made = world()
    uid = made.create(backup(), VELERO_BACKUP)["metadata"]["uid"]
    made.run(2)
    made.delete(VELERO_BACKUP, "b", VELERO_NS)
    made.run(30)
    assert made.find(VELERO_BACKUP, "b", VELERO_NS) is None, "the sync has not been yet"
    made.run(30)
    again = made.get(VELERO_BACKUP, "b", VELERO_NS)
    assert again["status"]["phase"] == "Completed"
    assert again["metadata"]["uid"] != uid


def test_a_deleted_backup_comes_back_with_labels_and_status_and_its_name_stays_taken() -> None:
    made = world()
    made.create({**backup(), "metadata": {"name": "b", "namespace": VELERO_NS, "labels": {"a": "b"}}}, VELERO_BACKUP)
    made.settle()
    before = made.get(VELERO_BACKUP, "b", VELERO_NS)
    made.delete(VELERO_BACKUP, "b", VELERO_NS)
    made.run(60)
    after = made.get(VELERO_BACKUP, "b", VELERO_NS)
    assert (after["status"], after["metadata"]["labels"]) == (before["status"], before["metadata"]["labels"])
    with pytest.raises(AlreadyExists):
        made.create(backup(), VELERO_BACKUP)


def test_a_failed_backup_is_not_in_the_storage() -> None:
    made = backed_up(ends(Ending.FAIL))
    made.delete(VELERO_BACKUP, "b", VELERO_NS)
    made.run(300)
    assert made.find(VELERO_BACKUP, "b", VELERO_NS) is None


def request() -> dict[str, Any]:
    return {**DELETE_BACKUP_REQUEST.manifest("x", VELERO_NS), "spec": {"backupName": "b"}}


def test_only_a_request_deletes_data_and_not_while_the_backup_is_in_progress() -> None:
    made = world()
    made.create(backup(), VELERO_BACKUP)
    made.run(2)
    made.create(request(), DELETE_BACKUP_REQUEST)
    made.settle()
    refused = made.status(DELETE_BACKUP_REQUEST, "x", VELERO_NS)
    assert refused == {"phase": "Processed", "errors": ["backup is still in progress"]}
    assert status_of(made)["phase"] == "Completed"
    made.delete(DELETE_BACKUP_REQUEST, "x", VELERO_NS)
    made.create(request(), DELETE_BACKUP_REQUEST)
    made.run(300)
    assert "Deleting" in made.phases(VELERO_BACKUP)
    assert made.find(VELERO_BACKUP, "b", VELERO_NS) is None
    assert made.find(DELETE_BACKUP_REQUEST, "x", VELERO_NS) is None


def test_an_expired_backup_goes_with_its_data() -> None:
    made = backed_up(ttl="2h")
    made.run(7300)
    assert made.find(VELERO_BACKUP, "b", VELERO_NS) is None


def test_a_server_that_begins_anew_fails_what_was_in_progress() -> None:
    made = world(ends(Ending.STALL))
    made.create(backup(), VELERO_BACKUP)
    made.run(2)
    made.simulator.crash()
    made.settle()
    assert status_of(made)["phase"] == "Failed"
    assert "during the server starting" in status_of(made)["failureReason"]


def settings_map(**data: str) -> dict[str, Any]:
    marks = {"labels": {"app": "shop"}, "finalizers": ["example.org/kept"]}
    manifest = CONFIG_MAP.manifest("settings", NS)
    return {**manifest, "metadata": {**manifest["metadata"], **marks}, "data": data}


def restored(made: DownstreamWorld, **spec: Any) -> dict[str, Any]:
    made.create(restore(**spec), VELERO_RESTORE)
    made.settle()
    return made.status(VELERO_RESTORE, "r", VELERO_NS)


def test_a_restore_makes_objects_again_without_status_and_with_new_uids() -> None:
    made = world()
    uid = made.create(settings_map(a="1"), CONFIG_MAP)["metadata"]["uid"]
    made.create(backup(), VELERO_BACKUP)
    made.settle()
    made.patch(CONFIG_MAP, "settings", {"metadata": {"finalizers": None}})
    made.delete(CONFIG_MAP, "settings")
    assert restored(made)["phase"] == "Completed"
    again = made.get(CONFIG_MAP, "settings")
    assert again["metadata"]["uid"] != uid
    assert again["data"] == {"a": "1"}
    labels = {"app": "shop", "velero.io/backup-name": "b", "velero.io/restore-name": "r"}
    assert again["metadata"]["labels"] == labels
    assert again["metadata"]["finalizers"] == ["example.org/kept"]


def test_a_restored_object_begins_without_a_status() -> None:
    captured, lenient = VeleroBehaviour(captured=(VOLUME_SNAPSHOT,)), SnapshotBehaviour(checks_references=False)
    made = DownstreamWorld(DownstreamBehaviour(velero=captured, snapshot=lenient), names=["velero", "snapshot"])
    made.create(snapshot(), VOLUME_SNAPSHOT)
    made.settle()
    made.create(backup(), VELERO_BACKUP)
    made.settle()
    made.delete(VOLUME_SNAPSHOT, "v")
    made.settle()
    assert made.find(VOLUME_SNAPSHOT, "v") is None
    assert made.states(VOLUME_SNAPSHOT)[-1]["status"]["readyToUse"] is True
    restored(made)
    assert "status" not in made.states(VOLUME_SNAPSHOT)[0]


@pytest.mark.parametrize(("policy", "data"), [("none", "new"), ("update", "old")])
def test_what_exists_stays_unless_the_restore_updates(policy: str, data: str) -> None:
    made = world()
    made.create(settings_map(a="old"), CONFIG_MAP)
    made.create(backup(), VELERO_BACKUP)
    made.settle()
    made.patch(CONFIG_MAP, "settings", {"data": {"a": "new"}})
    restored(made, existingResourcePolicy=policy)
    assert made.get(CONFIG_MAP, "settings")["data"] == {"a": data}


def test_a_restore_into_another_namespace_makes_it() -> None:
    made = world()
    made.create(settings_map(a="1"), CONFIG_MAP)
    made.create(backup(), VELERO_BACKUP)
    made.settle()
    restored(made, namespaceMapping={NS: "elsewhere"})
    assert made.get(CONFIG_MAP, "settings", "elsewhere")["data"] == {"a": "1"}


@pytest.mark.parametrize("excluded", [["configmaps"], []])
def test_excluded_resources_are_not_in_a_backup(excluded: list[str]) -> None:
    made = world()
    made.create(settings_map(a="1"), CONFIG_MAP)
    made.create(backup(excludedResources=excluded), VELERO_BACKUP)
    made.settle()
    assert restored(made)["progress"].get("itemsRestored") == (None if excluded else 1)


def test_a_restore_of_an_unknown_backup_or_of_none_fails_validation() -> None:
    assert restored(world(), of="ghost")["validationErrors"] == [
        'Error retrieving backup: can\'t find backup velero/ghost: Backup.velero.io "ghost" not found'
    ]
    assert restored(world(), of="")["phase"] == "FailedValidation"


def test_a_restore_of_a_backup_in_progress_fails() -> None:
    made = world(DownstreamBehaviour((DownstreamRule(DownstreamOutcome(Ending.STALL), "Backup"),)))
    made.create(backup(), VELERO_BACKUP)
    made.run(1)
    status = restored(made)
    assert status["phase"] == "Failed"
    assert "not in the object storage" in status["failureReason"]


def test_a_restore_writes_what_it_never_restores_into_its_spec() -> None:
    made = backed_up()
    restored(made, excludedResources=["pods"])
    excluded = made.get(VELERO_RESTORE, "r", VELERO_NS)["spec"]["excludedResources"]
    assert excluded[0] == "pods"
    assert {"backups.velero.io", "restores.velero.io", "events"} <= set(excluded)


def test_nothing_is_written_once_all_is_over() -> None:
    made = backed_up()
    restored(made)
    made.writes()
    made.run(3600)
    assert made.writes() == 0


def test_without_the_crds_the_simulator_waits() -> None:
    made = DownstreamWorld(names=["velero"], crds=())
    made.run(60)
    for crd in downstream_crds(["velero"]):
        made.create(crd, CUSTOM_RESOURCE_DEFINITION)
    made.create(backup(), VELERO_BACKUP)
    made.settle()
    assert status_of(made)["phase"] == "Completed"


def test_a_stalled_backup_goes_on_when_its_rule_goes() -> None:
    made = backed_up(ends(Ending.STALL))
    made.run(86_400)
    assert status_of(made)["phase"] == "InProgress"
    made.behave(DownstreamBehaviour())
    made.settle()
    assert status_of(made)["phase"] == "Completed"


def test_notice_takes_as_long_as_is_set() -> None:
    made = world(DownstreamBehaviour(watch_latency_seconds=30))
    made.create(backup(), VELERO_BACKUP)
    made.run(29)
    assert status_of(made) == {}
    made.run(1)
    assert status_of(made)["phase"] == "InProgress"


def phases_by_name(states: list[Manifest]) -> dict[str, str]:
    return {state["metadata"]["name"]: state.get("status", {}).get("phase", "") for state in states}


def test_rules_speak_about_kinds_namespaces_and_names() -> None:
    fail = DownstreamRule(DownstreamOutcome(Ending.FAIL), "Backup", VELERO_NS, "nightly-*")
    made = world(DownstreamBehaviour((fail,)))
    made.create(backup("nightly-1"), VELERO_BACKUP)
    made.create(backup("weekly-1"), VELERO_BACKUP)
    made.settle()
    assert phases_by_name(made.states(VELERO_BACKUP)) == {"nightly-1": "Failed", "weekly-1": "Completed"}
