"""What `status` prints: each obstacle, command and Event once, and no command cut (SEE-1)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectMeta, condition_json
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.apimachinery.timestamps import format_time
from purekube_run.process.yaml_documents import Format
from vworkspace_app.commands.status import list_text, object_text
from vworkspace_app.overview.reading import ObjectContext, OwnObjects
from vworkspace_app.overview.text import Screen
from vworkspace_core.api.installation import Installation, InstallTool
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER
from vworkspace_core.api.labels import CLUSTER_ID, INSTANCE_UID
from vworkspace_core.api.managed_namespace import wrong_cluster
from vworkspace_core.api.reasons import headline
from vworkspace_core.api.remedies import not_permitted
from vworkspace_core.overview.remedy import commands_in, parts_of
from vworkspace_core.overview.summary import OverviewState, summary_of_child

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
COMMAND = (
    "kubectl patch helmreleases.helm.toolkit.fluxcd.io shop -n team --type=json -p '[" + '{"op":"test"},' * 9 + "]'"
)
OBSTACLE = 'HelmRelease team/shop: field manager "bob" holds .spec.interval. To hand it back: '


def condition(type_: str, reason: str, message: str = "") -> Condition:
    return Condition(type_, ConditionStatus.TRUE, reason, message, format_time(NOW), 1)


def instance(*conditions: Condition, **chart: str) -> Manifest:
    manifest = APPLICATION_INSTANCE.manifest("shop", "team")
    manifest["metadata"] |= {"uid": "u-1", "generation": 1}
    told = [condition_json(each) for each in conditions]
    status = {"observedGeneration": 1, "conditions": told, **headline(APPLICATION_INSTANCE, conditions), **chart}
    return {**manifest, "spec": {"chart": {"name": "shop", "version": "6.8.0"}}, "status": status}


def event(reason: str, message: str, seconds: float = 60) -> Manifest:
    at = format_time(NOW - timedelta(seconds=seconds))
    return {"reason": reason, "message": message, "involvedObject": {"uid": "u-1"}, "lastTimestamp": at}


def around(manifest: Manifest, *events: Manifest) -> ObjectContext:
    return ObjectContext(APPLICATION_INSTANCE, manifest, {}, events)


CONFLICT = instance(condition("Ready", "HelmReleaseReady"), condition("Blocked", "FieldConflict", OBSTACLE + COMMAND))


@pytest.mark.parametrize("width", [40, 80, 120, 400])
def test_the_obstacle_and_its_command_are_printed_once_and_whole(width: int) -> None:
    events = (event("FieldConflict", f"Blocked is True: {OBSTACLE}{COMMAND}"),)
    for text in (
        list_text(OwnObjects(((APPLICATION_INSTANCE, CONFLICT),)), None, NOW, screen=Screen(width)),
        object_text(around(CONFLICT, *events), None, NOW, screen=Screen(width)),
    ):
        assert text.count(COMMAND) == 1
        assert " ".join(text.split()).count("holds .spec.interval") == 1
        assert f"{COMMAND}\n" in text, "on a line of its own, to be copied"


def test_what_a_message_says_after_its_command_begins_with_a_word() -> None:
    told = wrong_cluster(APPLICATION_INSTANCE, ObjectMeta("shop", "team", labels={CLUSTER_ID: "other"}), "here")
    blocked = instance(condition("Ready", "HelmReleaseReady"), condition("Blocked", "WrongCluster", told))

    lines = list_text(OwnObjects(((APPLICATION_INSTANCE, blocked),)), None, NOW).splitlines()

    assert "  If not, delete it here" in lines


def test_events_that_say_the_same_are_one_line() -> None:
    failed = "Helm upgrade failed"
    stalled = instance(condition("Stalled", "RetriesExceeded", failed))
    events = [
        event("HelmReleaseFailed", f"Ready is False: {failed}"),
        event("HelmReleaseFailed", f"Degraded is True: {failed}"),
        event("RetriesExceeded", f"Stalled is True: {failed}"),
        event("EngineNotStarted", "Running is False", 30),
    ]
    lines = object_text(around(stalled, *events), None, NOW).splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines[lines.index("Last events:") + 1 :]] == [
        "HelmReleaseFailed, RetriesExceeded: as above",
        "EngineNotStarted",
    ]


def test_a_command_that_stands_above_is_not_repeated_in_an_event() -> None:
    command = "kubectl patch helmreleases.helm.toolkit.fluxcd.io shop -n team --type=merge -p '{}'"
    by_hand = f"the HelmRelease is suspended. To fix: {command}"
    suspended = instance(condition("Suspended", "ManuallySuspended", by_hand))
    text = object_text(around(suspended, event("ManuallySuspended", f"Suspended is True: {by_hand}")), None, NOW)
    assert text.count(command) == 1
    assert "ManuallySuspended: the HelmRelease is suspended. To fix: (command above)" in text


IN_GIT = Installation("vwo", keeper=InstallTool.FLUX_KUSTOMIZATION, name="vwo", place="ops")


def test_a_command_that_only_prints_is_told_with_what_to_do_with_it() -> None:
    right = Right("create", "helm.toolkit.fluxcd.io", "helmreleases", "team")
    message = not_permitted(right, IN_GIT)
    (command,) = commands_in(message)
    lacking = instance(condition("Blocked", "Forbidden", message))
    lines = object_text(around(lacking), None, NOW, screen=Screen(200)).splitlines()
    fix = lines.index("To fix:")
    assert [line.strip() for line in lines[fix + 1 : fix + 3]] == [
        "in your GitOps repository, the Kustomization ops/vwo, add what this prints:",
        command,
    ]


def test_of_a_failed_upgrade_the_change_of_its_source_comes_before_another_try() -> None:
    failed: dict[str, Any] = {"deployedChart": {"name": "shop", "version": "6.7.0"}}
    stalled = instance(condition("Stalled", "RetriesExceeded", "Helm upgrade failed"), **failed)
    kustomization = {
        f"kustomize.toolkit.fluxcd.io/{key}": name for key, name in (("name", "apps"), ("namespace", "ops"))
    }
    stalled["metadata"]["labels"] = kustomization
    first = (
        "Flux has given up: correct spec.chart or spec.values where the object comes from (the Kustomization "
        "ops/apps), or return to 6.7.0; a change is tried automatically. Retry if the cause was elsewhere, and is gone."
    )
    retry = "vworkspace-operator retry appinst/shop -n team"
    lines = object_text(around(stalled), None, NOW, screen=Screen(400)).splitlines()
    assert lines[lines.index("To fix:") + 1 :] == [f"  {first}", f"  {retry}"]
    listed = list_text(OwnObjects(((APPLICATION_INSTANCE, stalled),)), None, NOW, screen=Screen(400)).splitlines()
    assert listed[2:5] == ["  Helm upgrade failed", f"  {first}", f"  -> {retry}"]


def test_what_is_wanted_and_deployed_is_said_where_it_differs_with_who_asked() -> None:
    override: dict[str, Any] = {
        "deployedChart": {"name": "shop", "version": "6.8.1"},
        "releaseOverride": {"operation": "upgrade", "version": "6.8.1"},
    }
    link = "https://ops.example.com/object/applicationinstances.apps.vworkspace.io/org-myteam/nextcloud"
    text = object_text(around(instance(condition("Ready", "HelmReleaseReady"), **override)), None, NOW, link)
    assert text.endswith(f"Page: {link}\n"), "whole, however wide the screen is"
    assert "wanted: 6.8.0; deployed: 6.8.1 (requested by Operation upgrade)" in text


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (59, "operator: at work without leader election, last heartbeat 59s ago"),
        (1200, "operator: NONE SEEN (no Lease, last heartbeat 20m ago); check with: vworkspace-operator check"),
        (None, "operator: NONE SEEN (no Lease and no heartbeat); check with: vworkspace-operator check"),
    ],
)
def test_the_heartbeat_is_a_sign_of_life_where_no_lease_is(seconds: float | None, told: str) -> None:
    beat = {} if seconds is None else {"lastHeartbeat": format_time(NOW - timedelta(seconds=seconds))}
    cluster = {**CLUSTER.manifest("here"), "status": beat}
    assert list_text(OwnObjects(((CLUSTER, cluster),)), None, NOW).splitlines()[-1] == told


def test_who_may_not_read_leases_is_not_told_that_there_are_none() -> None:
    cluster = {**CLUSTER.manifest("here"), "status": {"lastHeartbeat": format_time(NOW - timedelta(seconds=59))}}
    own_objects = OwnObjects(((CLUSTER, cluster),), unreadable=("leases: forbidden",))
    lines = list_text(own_objects, None, NOW).splitlines()
    assert lines[-2] == "operator: at work, last heartbeat 59s ago (its Leases cannot be read)"


def test_where_nothing_is_shown_the_operator_is_to_be_checked() -> None:
    lines = list_text(OwnObjects(()), None, NOW).splitlines()
    assert lines[-1] == "operator: NONE SEEN (no Lease and no heartbeat); check with: vworkspace-operator check"


def test_where_boxes_are_shown_another_process_may_run_them() -> None:
    """`box run` takes a Lease of another name, and has no heartbeat."""
    shop = Kind("shops.example.com", "v1", "Shop", "shops")
    boxes = ((OPERATOR_BOX, OPERATOR_BOX.manifest("shops")), (shop, shop.manifest("corner", "team")))
    other = "boxes may be at work in a process of their own (box run), which is not seen here"
    none, check = "operator: NONE SEEN (no Lease and no heartbeat)", "; check with: vworkspace-operator check"
    assert list_text(OwnObjects(boxes), None, NOW).splitlines()[-2:] == [none, other]
    both = OwnObjects((*boxes, (CLUSTER, CLUSTER.manifest("here"))))
    assert list_text(both, None, NOW).splitlines()[-2:] == [none + check, other]


def test_a_release_that_is_suspended_is_not_on_the_way() -> None:
    release = {**HELM_RELEASE.manifest("shop", "team"), "spec": {"suspend": True}}
    assert summary_of_child(HELM_RELEASE, release).state is OverviewState.SUSPENDED


def test_a_source_that_failed_says_why_in_the_tree() -> None:
    """Flux leaves `observedGeneration: -1`, the default, while a source could never be fetched (PH-1)."""
    name, failure = "shop-1", "failed to pull artifact: MANIFEST_UNKNOWN: manifest unknown"
    source: dict[str, Any] = OCI_REPOSITORY.manifest(name, "team")
    source["metadata"] |= {"generation": 1, "labels": {INSTANCE_UID: "u-1"}}
    ready = {"type": "Ready", "status": "False", "reason": "OCIArtifactPullFailed", "message": failure}
    source["status"] = {"observedGeneration": -1, "conditions": [{**ready, "observedGeneration": 1}]}
    manifest = instance(condition("Degraded", "ChartUnreachable", failure))
    objects: dict[ObjectRef, Manifest] = {ObjectRef(OCI_REPOSITORY, "team", name): source}

    text = object_text(ObjectContext(APPLICATION_INSTANCE, manifest, objects, ()), None, NOW)
    assert "── ocirepository/shop-1  NotReady  OCIArtifactPullFailed" in text
    assert "observed" not in text
    assert "wanted: 6.8.0; deployed: nothing" in text


@pytest.mark.parametrize("form", [None, Format.JSON])
def test_no_text_of_a_chart_shows_a_secret_or_steers_the_terminal_RES_7(form: Format | None) -> None:
    said = "hook failed: password=hunter2 \x1b]0;title\x07"
    release = HELM_RELEASE.manifest("shop", "team")
    release["metadata"] |= {"generation": 1, "labels": {INSTANCE_UID: "u-1"}}
    failed = {"type": "Ready", "status": "False", "reason": "InstallFailed", "message": said, "observedGeneration": 1}
    release["status"] = {"observedGeneration": 1, "conditions": [failed]}
    manifest = instance(condition("Degraded", "HelmReleaseFailed", said))
    objects: dict[ObjectRef, Manifest] = {ObjectRef(HELM_RELEASE, "team", "shop"): release}

    one = object_text(ObjectContext(APPLICATION_INSTANCE, manifest, objects, (event("E", said),)), form, NOW)
    all_of_them = list_text(OwnObjects(((APPLICATION_INSTANCE, manifest),)), form, NOW)

    for text in (one, all_of_them):
        assert "hook failed: password=***" in text
        assert "hunter2" not in text
        assert "\x1b" not in text


words = st.text(alphabet="ab :.-", max_size=12)


@given(
    st.lists(
        st.tuples(words, st.sampled_from(["", "kubectl get pods", "vworkspace-operator retry x -n y"])), max_size=4
    )
)
def test_a_message_in_pieces_has_all_of_its_text_and_its_very_commands(drawn: list[tuple[str, str]]) -> None:
    message = "".join(f"{text}{command}. And " if command else text for text, command in drawn)
    parts = parts_of(message, commands_in(message))
    assert [text for text, is_command in parts if is_command] == list(commands_in(message))
    assert "".join(text for text, _ in parts).strip(" .") == message.strip(" .")
