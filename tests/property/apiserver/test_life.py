"""The life of an object in the server: names, namespaces, dry runs, deletion, versions, and who did what."""

import itertools
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.access.authorization import Attributes
from kubelab.model.calls import Caller, DeleteOptions, RequestTarget, RequestVerb, WriteOptions
from kubelab.model.failure import ApiFailure, status_body
from kubelab.server import ApiServer
from kubelab.storage.listing import ListOptions
from kubelab.writes.deletion import delete_options, finalizers_for, marked, query_options
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT, NAMESPACE
from purekube.ports import PatchType
from tests.support.apiserver_world import GIZMO, NOW, apply, at, config_map, crd, gizmo, names, namespace, new_server

DRY = WriteOptions("m", dry_run=True)


def refused(call: Any, *args: Any, **more: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        call(*args, **more)
    return caught.value


# --- namespaces --------------------------------------------------------------------------------------------------


def test_a_create_needs_its_namespace_S_19() -> None:
    failure = refused(apply, new_server(), gizmo("a"), namespace="nope")
    assert (failure.status, failure.message) == (404, 'namespaces "nope" not found')


def test_a_terminating_namespace_takes_nothing_new_and_says_why_S_19() -> None:
    server = new_server()
    namespace(server, "room")
    apply(server, gizmo("old"), namespace="room")
    server.delete(at(server, NAMESPACE, "room"))
    failure = refused(apply, server, gizmo("new"), namespace="room")
    assert (failure.status, [cause.reason for cause in failure.causes]) == (403, ["NamespaceTerminating"])
    assert apply(server, gizmo("old", 2), namespace="room")["spec"]["size"] == 2


def test_who_creates_a_namespace_owns_the_label_with_its_name() -> None:
    server = new_server()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}}
    (entry,) = server.create(at(server, NAMESPACE), body, WriteOptions("m")).object()["metadata"]["managedFields"]
    label: dict[str, Any] = {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}
    assert (entry["manager"], entry["fieldsV1"]) == ("m", {"f:metadata": label})


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(name: str) -> None:
    server = new_server()
    assert refused(server.delete, at(server, NAMESPACE, name)).status == 403


# --- names -------------------------------------------------------------------------------------------------------


def test_a_generated_name_is_the_prefix_and_five_characters_W_35() -> None:
    server = new_server()
    body = gizmo("", generateName="job-")
    del body["metadata"]["name"]
    first, second = (server.create(at(server, GIZMO), body).object()["metadata"]["name"] for _ in range(2))
    assert first != second
    assert [(name[:4], len(name)) for name in (first, second)] == [("job-", 9)] * 2


def test_one_seed_gives_one_history() -> None:
    def play() -> bytes:
        server = new_server(seed=7)
        apply(server, gizmo("a"))
        server.create(at(server, GIZMO), {**gizmo("a"), "metadata": {"generateName": "x-"}})
        return server.list(at(server, GIZMO)).raw()

    assert play() == play()


def test_a_second_create_is_already_exists_W_35() -> None:
    server = new_server()
    apply(server, gizmo("a"))
    failure = refused(server.create, at(server, GIZMO), gizmo("a"))
    assert (failure.status, failure.reason) == (409, "AlreadyExists")


# --- dry run -----------------------------------------------------------------------------------------------------


def test_a_dry_run_answers_and_changes_nothing_S_13_W_33() -> None:
    server = new_server()
    apply(server, gizmo("a", finalizers=["tests.example/f"]))
    version = server.store.version
    applied = server.apply(at(server, GIZMO, "a"), gizmo("a", 2, finalizers=["tests.example/f"]), DRY).object()
    created = server.apply(at(server, GIZMO, "b"), gizmo("b"), DRY)
    deleted = server.delete(at(server, GIZMO, "a"), DeleteOptions(dry_run=True)).object()
    server.delete_collection(at(server, GIZMO), ListOptions(), DeleteOptions(dry_run=True))
    assert (applied["spec"]["size"], applied["metadata"]["generation"]) == (2, 2)
    assert (created.status, "resourceVersion" in created.object()["metadata"]) == (201, False)
    assert "deletionTimestamp" in deleted["metadata"]
    assert (server.store.version, names(server)) == (version, ["a"])


# --- deletion ----------------------------------------------------------------------------------------------------


def test_delete_answers_a_status_with_the_uid_W_31() -> None:
    server = new_server()
    made = apply(server, gizmo("a"))
    status = server.delete(at(server, GIZMO, "a")).object()
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"]["uid"] == made["metadata"]["uid"]


def test_delete_answers_the_object_of_some_kinds() -> None:
    server = new_server()
    target = RequestTarget(server.registry.at("storage.k8s.io", "v1", "storageclasses"), name="fast")
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p"}
    server.create(attrs.evolve(target, name=""), body)
    assert server.delete(target).object()["kind"] == "StorageClass"


def test_a_second_delete_changes_nothing_W_31() -> None:
    server = new_server()
    apply(server, gizmo("a", finalizers=["tests.example/f"]))
    first = server.delete(at(server, GIZMO, "a")).object()
    assert server.delete(at(server, GIZMO, "a")).object() == first
    assert (first["metadata"]["generation"], first["metadata"]["deletionGracePeriodSeconds"]) == (2, 0)


def test_preconditions_tell_another_object_and_another_version_W_30() -> None:
    server = new_server()
    version = apply(server, gizmo("a"))["metadata"]["resourceVersion"]
    apply(server, gizmo("a", 2))
    target = at(server, GIZMO, "a")
    by_uid = refused(server.delete, target, DeleteOptions(uid="other"))
    by_version = refused(server.delete, target, DeleteOptions(resource_version=version))
    assert [failure.status for failure in (by_uid, by_version)] == [409, 409]
    assert "might have been deleted and then recreated" in by_uid.message
    assert not by_uid.causes
    assert by_uid.message.startswith('Operation cannot be fulfilled on Gizmo.tests.example "a": ')
    assert names(server) == ["a"]


def test_a_namespace_has_other_words_for_a_precondition_W_30() -> None:
    server = new_server()
    failure = refused(server.delete, at(server, NAMESPACE, "kube-node-lease"), DeleteOptions(uid="other"))
    assert failure.status == 409
    assert failure.message.startswith(
        'Operation cannot be fulfilled on namespaces "kube-node-lease": Precondition failed: UID in precondition: other'
    )


def test_a_collection_is_deleted_by_selector() -> None:
    server = new_server()
    for name, colour in (("a", "blue"), ("b", "red"), ("c", "blue")):
        apply(server, gizmo(name, labels={"colour": colour}))
    gone = server.delete_collection(at(server, GIZMO), ListOptions(label_selector="colour=blue"))
    assert [manifest["metadata"]["name"] for manifest in gone.objects()] == ["a", "c"]
    assert names(server) == ["b"]


@pytest.mark.parametrize(
    ("given", "propagation"),
    [
        ({}, ""),
        ({"propagationPolicy": "Orphan"}, "Orphan"),
        ({"orphanDependents": True}, "Orphan"),
        ({"orphanDependents": False}, "Background"),
        (query_options({"propagationPolicy": "Foreground"}), "Foreground"),
        (query_options({"orphanDependents": "true"}), "Orphan"),
    ],
)
def test_how_a_delete_says_what_becomes_of_dependents(given: dict[str, Any], propagation: str) -> None:
    assert delete_options(given).propagation == propagation


@pytest.mark.parametrize(
    "body", [{"propagationPolicy": "Sideways"}, {"propagationPolicy": "Orphan", "orphanDependents": True}]
)
def test_a_propagation_that_does_not_exist_is_422_W_32(body: dict[str, Any]) -> None:
    assert refused(delete_options, body).status == 422


@pytest.mark.parametrize("given", [{"dryRun": ["all"]}, query_options({"dryRun": "true"})])
def test_a_dry_run_that_does_not_exist_deletes_nothing_W_33(given: dict[str, Any]) -> None:
    failure = refused(delete_options, given)
    assert (failure.status, failure.causes[0].field) == (422, "dryRun")


def test_the_query_of_a_delete_can_have_preconditions_W_30() -> None:
    found = delete_options(query_options({"uid": "u", "resourceVersion": "7", "dryRun": "All"}))
    assert (found.uid, found.resource_version, found.dry_run) == ("u", "7", True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "Orphan", "u"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["uid", "x"]), inner, max_size=2),
    max_leaves=4,
)
OPTIONS = ["preconditions", "propagationPolicy", "orphanDependents", "dryRun", "gracePeriodSeconds"]


@given(st.dictionaries(st.sampled_from(OPTIONS), JSON))
@example({"preconditions": 1})
@example({"preconditions": {"uid": 1}})
def test_any_delete_options_are_understood_or_refused(body: dict[str, Any]) -> None:
    try:
        found = delete_options(body)
    except ApiFailure as failure:
        status = failure.status
    else:
        status = 400
        assert found.propagation in ("", "Background", "Foreground", "Orphan")
    assert status in (400, 422)


FINALIZERS = st.lists(st.sampled_from(["x/a", "x/b", "orphan", "foregroundDeletion"]), unique=True)


@given(FINALIZERS, st.sampled_from(["", "Background", "Foreground", "Orphan"]))
def test_a_delete_touches_only_the_collectors_finalizers(finalizers: list[str], propagation: str) -> None:
    own = {"orphan", "foregroundDeletion"}
    result = finalizers_for(finalizers, propagation)
    assert [name for name in result if name not in own] == [name for name in finalizers if name not in own]
    desired = {"Background": set(), "Foreground": {"foregroundDeletion"}, "Orphan": {"orphan"}}
    assert set(result) & own == desired.get(propagation, set(finalizers) & own)


@given(FINALIZERS)
def test_marking_twice_is_marking_once_S_72(finalizers: list[str]) -> None:
    live = {"metadata": {"name": "a", "generation": 3}}
    once = marked(live, finalizers, NOW)
    assert marked(once, finalizers, NOW) == once
    assert once["metadata"]["generation"] == 4


# --- reading -----------------------------------------------------------------------------------------------------


def test_pages_are_one_state_and_say_what_is_left_W_04() -> None:
    server = new_server()
    for name in "abcde":
        apply(server, gizmo(name))
    first = server.list(at(server, GIZMO), ListOptions(limit=2))
    apply(server, gizmo("aa"))
    second = server.list(at(server, GIZMO), ListOptions(limit=2, continue_token=first.page.continue_token))
    third = server.list(at(server, GIZMO), ListOptions(limit=2, continue_token=second.page.continue_token))
    pages = [first, second, third]
    found = list(itertools.chain.from_iterable(page.objects() for page in pages))
    assert [manifest["metadata"]["name"] for manifest in found] == list("abcde")
    assert len({page.page.version for page in pages}) == 1
    assert [page.page.remaining for page in pages] == [3, 1, None]
    assert third.page.continue_token == ""


def test_an_expired_page_offers_the_rest_of_what_is_there_now_W_05() -> None:
    server = new_server()
    for name in "abc":
        apply(server, gizmo(name))
    first = server.list(at(server, GIZMO), ListOptions(limit=1))
    apply(server, gizmo("bb"))
    server.store.compact()
    failure = refused(server.list, at(server, GIZMO), ListOptions(limit=9, continue_token=first.page.continue_token))
    assert status_body(failure)["metadata"]["continue"]
    rest = server.list(at(server, GIZMO), ListOptions(limit=9, continue_token=failure.continue_token))
    assert [manifest["metadata"]["name"] for manifest in rest.objects()] == ["b", "bb", "c"]
    assert rest.page.version == server.store.version


def test_the_past_can_be_read_exactly_until_it_is_compacted_W_06() -> None:
    server = new_server()
    version = apply(server, gizmo("a", 1))["metadata"]["resourceVersion"]
    apply(server, gizmo("a", 2))
    options = ListOptions(resource_version=version, resource_version_match="Exact")
    assert [manifest["spec"]["size"] for manifest in server.list(at(server, GIZMO), options).objects()] == [1]
    server.store.compact()
    assert refused(server.list, at(server, GIZMO), options).status == 410


def test_every_version_reads_and_writes_one_object() -> None:
    server = new_server()
    old, new = (Kind("tests.example", version, "Duo", "duos") for version in ("v1", "v2"))
    server.create(at(server, CUSTOM_RESOURCE_DEFINITION), crd(old, versions=("v1", "v2")))
    body = {"apiVersion": "tests.example/v1", "kind": "Duo", "metadata": {"name": "d"}, "spec": {"size": 1}}
    apply(server, body, old)
    apply(server, {**body, "apiVersion": "tests.example/v2", "spec": {"size": 2}}, new)
    read = server.get(at(server, old, "d")).object()
    assert (read["apiVersion"], read["spec"]["size"]) == ("tests.example/v1", 2)
    assert server.get(at(server, new, "d")).object()["apiVersion"] == "tests.example/v2"


def test_an_event_is_one_object_under_two_groups() -> None:
    server = new_server()
    event = {
        **EVENT.manifest("e", "default"),
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "tests.example/c",
        "reportingInstance": "i",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "note": "a note",
        "regarding": {"kind": "Gizmo", "name": "g", "namespace": "default"},
    }
    server.create(at(server, EVENT), event)
    old = Kind("", "v1", "Event", "events")
    listed = server.list(at(server, old), ListOptions(field_selector="involvedObject.name=g"))
    assert [(obj["message"], obj["involvedObject"]["name"]) for obj in listed.objects()] == [("a note", "g")]


# --- scale -------------------------------------------------------------------------------------------------------


def test_scale_sets_replicas_under_its_own_ownership_S_51() -> None:
    server = new_server()
    apply(server, {**gizmo("a"), "spec": {"size": 1, "replicas": 1}})
    target = at(server, GIZMO, "a", subresource="scale")
    scale = server.patch(target, {"spec": {"replicas": 3}}, PatchType.MERGE, WriteOptions("scaler")).object()
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})
    live = server.get(at(server, GIZMO, "a")).object()
    (entry,) = [
        managed_field
        for managed_field in live["metadata"]["managedFields"]
        if managed_field.get("subresource") == "scale"
    ]
    assert (entry["manager"], entry["fieldsV1"]) == ("scaler", {"f:spec": {"f:replicas": {}}})
    failure = refused(apply, server, {**gizmo("a"), "spec": {"size": 1, "replicas": 1}})
    assert 'with subresource "scale"' in failure.message
    assert apply(server, gizmo("a"))["spec"]["replicas"] == 3
    assert server.update(target, scale, WriteOptions("scaler")).object()["spec"] == {"replicas": 3}


# --- what is served ----------------------------------------------------------------------------------------------


def test_what_is_not_served_is_404_without_a_status_W_38() -> None:
    server = new_server()
    failure = refused(server.registry.at, "tests.example", "v9", "gizmos")
    assert (failure.status, failure.plain) == (404, True)


@pytest.mark.parametrize(("kind", "subresource"), [(CONFIG_MAP, "status"), (GIZMO, "logs")])
def test_a_subresource_that_is_not_there_is_404(kind: Kind, subresource: str) -> None:
    server = new_server()
    apply(server, gizmo("a") if kind is GIZMO else config_map("a"), kind)
    assert refused(server.get, at(server, kind, "a", subresource=subresource)).status == 404


def test_a_cluster_scoped_kind_has_no_namespaced_path() -> None:
    server = new_server()
    target = RequestTarget(server.resource(NAMESPACE), "default", "default")
    assert refused(server.get, target).status == 404


def test_a_definition_is_established_within_the_request_that_creates_it() -> None:
    server = new_server()
    stored = server.get(at(server, CUSTOM_RESOURCE_DEFINITION, GIZMO.crd_name)).object()
    conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert stored["status"]["storedVersions"] == ["v1"]


def test_a_definition_with_a_finalizer_of_its_own_stays_without_its_objects() -> None:
    server = new_server()
    apply(server, gizmo("a"))
    target = at(server, CUSTOM_RESOURCE_DEFINITION, GIZMO.crd_name)
    server.patch(target, {"metadata": {"finalizers": ["tests.example/f"]}}, PatchType.MERGE)
    server.delete(target)
    left = server.get(target).object()
    terminating = {key: left["status"]["conditions"][-1][key] for key in ("type", "status", "reason")}
    assert left["metadata"]["finalizers"] == ["tests.example/f"]
    assert terminating == {"type": "Terminating", "status": "False", "reason": "InstanceDeletionCompleted"}


def test_a_definition_whose_schema_cannot_be_used_is_stored_and_not_served() -> None:
    server = new_server()
    broken = crd(Kind("tests.example", "v1", "Broken", "brokens"))
    target = at(server, CUSTOM_RESOURCE_DEFINITION, "brokens.tests.example")
    server.create(at(server, CUSTOM_RESOURCE_DEFINITION), broken)
    stored = server.store.get(target.resource.storage, target.key)
    assert stored is not None
    manifest = stored.object()
    manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": 7}
    manifest["metadata"]["generation"] += 1
    server.store.put(target.resource.storage, manifest)  # past validation, as from an older etcd
    apply(server, gizmo("a"))
    conditions = {
        condition["type"]: condition["status"] for condition in server.get(target).object()["status"]["conditions"]
    }
    assert conditions == {"NamesAccepted": "True", "Established": "False", "NonStructuralSchema": "True"}
    assert refused(server.registry.at, "tests.example", "v1", "brokens").plain


# --- who did what ------------------------------------------------------------------------------------------------


def test_the_audit_log_counts_writes_refused_ones_too_REC_6() -> None:
    server = new_server()
    server.audit.clear()
    operator = Caller("operator", agent="operator/1 (linux)")
    apply(server, gizmo("a"), caller=operator)
    apply(server, gizmo("a"), caller=operator)
    server.get(at(server, GIZMO, "a"), operator)
    refused(apply, server, gizmo("a", 2), manager="other", caller=operator)
    server.patch(at(server, GIZMO, "a"), {"metadata": {"labels": {"x": "y"}}}, PatchType.MERGE, caller=operator)
    server.apply(at(server, GIZMO, "a"), gizmo("a", 3), DRY, operator)
    writes = server.audit.writes(user="operator")
    assert [(entry.status, entry.manager, entry.changed) for entry in writes] == [
        (201, "m", True),
        (200, "m", False),
        (409, "other", False),
        (200, "operator", True),
    ]
    assert {entry.path for entry in writes} == {"/apis/tests.example/v1/namespaces/default/gizmos/a"}
    assert [entry.verb for entry in server.audit][2] is RequestVerb.GET


def test_authorization_refuses_in_the_servers_words_W_38() -> None:
    server = new_server()

    def only_reads(caller: Caller, asked: Attributes) -> bool:
        return caller.user != "reader" or asked.verb in ("get", "list", "watch")

    server.authorize = only_reads
    reader = Caller("reader")
    failure = refused(apply, server, gizmo("a"), caller=reader)
    assert (failure.status, failure.message) == (
        403,
        'gizmos.tests.example "a" is forbidden: User "reader" cannot patch resource "gizmos" in API group '
        '"tests.example" in the namespace "default"',
    )


def test_an_apply_that_would_create_needs_create_too_S_18() -> None:
    server = new_server()
    server.authorize = lambda caller, asked: caller.user != "patcher" or asked.verb == "patch"
    patcher = Caller("patcher")
    assert "cannot create" in refused(apply, server, gizmo("a"), caller=patcher).message
    apply(server, gizmo("a"))
    assert apply(server, gizmo("a", 2), caller=patcher, manager="m")["spec"]["size"] == 2


def test_a_server_forgets_no_request_silently_beyond_its_limit() -> None:
    server = ApiServer(now=lambda: NOW, audit_limit=2)
    for name in ("default", "kube-system", "kube-public"):
        server.get(at(server, NAMESPACE, name))
    assert [entry.path for entry in server.audit] == [
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces/kube-public",
    ]
