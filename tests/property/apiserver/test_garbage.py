"""Garbage collection: the decision by itself, then whole graphs of owners and dependents (W-32, W-32b)."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.lifecycle.garbage_collector import (
    GARBAGE_COLLECTOR,
    DeleteDependent,
    DropReferences,
    OwnerState,
    Verdict,
    decide_dependent,
)
from kubelab.model.calls import DeleteOptions
from kubelab.server import ApiServer
from purekube.apimachinery.resources import CONFIG_MAP, CORE_EVENT, NAMESPACE
from purekube.ports import PatchType
from tests.support.apiserver_world import (
    GIZMO,
    RIG,
    apply,
    at,
    config_map,
    gizmo,
    names,
    namespace,
    new_server,
    owned_by,
)

SOLID, WAITING, GONE = OwnerState.SOLID, OwnerState.WAITING, OwnerState.GONE


@pytest.mark.parametrize(
    ("owners", "finalizers", "has_dependents", "verdict"),
    [
        ({}, (), False, None),
        ({"a": SOLID}, (), False, None),
        ({"a": GONE}, (), False, DeleteDependent("Background")),
        ({"a": GONE}, ("orphan",), False, DeleteDependent("Orphan")),
        ({"a": GONE}, ("foregroundDeletion",), False, DeleteDependent("Foreground")),
        ({"a": GONE, "b": SOLID}, (), False, DropReferences(frozenset({"a"}))),
        ({"a": WAITING, "b": SOLID}, (), True, DropReferences(frozenset({"a"}))),
        ({"a": WAITING}, (), True, DeleteDependent("Foreground")),
        ({"a": WAITING}, (), False, DeleteDependent("Background")),
        ({"a": WAITING, "b": GONE}, (), True, DeleteDependent("Foreground")),
    ],
)
def test_what_becomes_of_a_dependent_W_32b(
    owners: dict[str, OwnerState], finalizers: tuple[str, ...], has_dependents: bool, verdict: Verdict
) -> None:
    assert decide_dependent(owners, finalizers, has_dependents) == verdict


def deleted(server: ApiServer, name: str, propagation: str, kind: Any = GIZMO) -> None:
    server.delete(at(server, kind, name), DeleteOptions(propagation=propagation))


def test_background_takes_the_children_and_theirs_W_32() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    child = apply(server, gizmo("child", ownerReferences=owned_by(parent)))
    apply(server, gizmo("grandchild", ownerReferences=owned_by(child)))
    deleted(server, "parent", "Background")
    assert names(server) == ["child", "grandchild"]
    server.run_gc()
    assert names(server) == []


def test_a_bare_server_leaves_garbage_alone() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("child", ownerReferences=owned_by(parent)))
    deleted(server, "parent", "Background")
    assert (names(server), server.idle) == (["child"], False)


def test_a_collecting_server_collects_within_the_write() -> None:
    server = new_server(collects=True)
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("child", ownerReferences=owned_by(parent)))
    deleted(server, "parent", "Background")
    assert (names(server), server.idle) == ([], True)


def test_orphaned_children_stay_without_their_reference_W_32() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("child", ownerReferences=owned_by(parent)))
    deleted(server, "parent", "Orphan")
    assert server.get(at(server, GIZMO, "parent")).object()["metadata"]["finalizers"] == ["orphan"]
    server.run_gc()
    assert names(server) == ["child"]
    assert "ownerReferences" not in server.get(at(server, GIZMO, "child")).object()["metadata"]


def test_a_foreground_parent_waits_for_a_blocking_child_with_a_finalizer_W_32() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("blocking", ownerReferences=owned_by(parent, block=True), finalizers=["tests.example/f"]))
    apply(server, gizmo("plain", ownerReferences=owned_by(parent)))
    deleted(server, "parent", "Foreground")
    server.run_gc()
    assert names(server) == ["blocking", "parent"]
    server.patch(at(server, GIZMO, "blocking"), {"metadata": {"finalizers": None}}, PatchType.MERGE)
    server.run_gc()
    assert names(server) == []


def test_a_foreground_parent_does_not_wait_for_a_plain_child() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("child", ownerReferences=owned_by(parent), finalizers=["tests.example/f"]))
    deleted(server, "parent", "Foreground")
    server.run_gc()
    assert names(server) == ["child"]
    assert "deletionTimestamp" in server.get(at(server, GIZMO, "child")).object()["metadata"]


def test_a_circle_of_owners_does_not_wait_for_itself() -> None:
    server = new_server()
    one = apply(server, gizmo("one"))
    two = apply(server, gizmo("two", ownerReferences=owned_by(one, block=True)))
    apply(server, gizmo("one", ownerReferences=owned_by(two, block=True)))
    deleted(server, "one", "Foreground")
    server.run_gc()
    assert names(server) == []


def test_a_wrong_uid_is_no_owner_W_32b() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    reference = {**owned_by(parent)[0], "uid": "00000000-0000-4000-8000-000000000000"}
    apply(server, gizmo("child", ownerReferences=[reference]))
    server.run_gc()
    assert names(server) == ["parent"]


def test_an_owner_in_another_namespace_is_no_owner_W_32b() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("child", ownerReferences=owned_by(parent)), namespace="kube-public")
    server.run_gc()
    assert names(server) == ["parent"]


def test_an_owner_of_an_unknown_kind_is_left_alone() -> None:
    server = new_server()
    reference = {"apiVersion": "nobody.example/v1", "kind": "Unknown", "name": "x", "uid": "u"}
    apply(server, gizmo("child", ownerReferences=[reference]))
    server.run_gc()
    assert names(server) == ["child"]


def test_a_cluster_scoped_object_keeps_a_namespaced_owner_it_cannot_have() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    body = {**gizmo("rig", ownerReferences=owned_by(parent)), "kind": "Rig"}
    apply(server, body, RIG)
    deleted(server, "parent", "Background")
    server.run_gc()
    assert names(server, RIG) == ["rig"]


def test_one_of_two_owners_gone_takes_only_its_reference_W_32b() -> None:
    server = new_server()
    one, two = apply(server, gizmo("one")), apply(server, config_map("two"), CONFIG_MAP)
    apply(server, gizmo("child", ownerReferences=owned_by(one, two)))
    deleted(server, "one", "Background")
    server.run_gc()
    assert server.get(at(server, GIZMO, "child")).object()["metadata"]["ownerReferences"] == owned_by(two)
    deleted(server, "two", "Background", CONFIG_MAP)
    server.run_gc()
    assert names(server) == []


def test_the_collector_writes_under_its_own_name() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("child", ownerReferences=owned_by(parent)))
    deleted(server, "parent", "Background")
    server.audit.clear()
    server.run_gc()
    assert [(entry.method, entry.path) for entry in server.audit.writes(user=GARBAGE_COLLECTOR.user)] == [
        ("DELETE", "/apis/tests.example/v1/namespaces/default/gizmos/child")
    ]


def test_a_namespace_takes_its_content_with_it() -> None:
    server = new_server()
    namespace(server, "room")
    apply(server, gizmo("a"), namespace="room")
    apply(server, gizmo("held", finalizers=["tests.example/f"]), namespace="room")
    apply(server, gizmo("b"))
    server.delete(at(server, NAMESPACE, "room"))
    server.run_gc()
    assert names(server) == ["b", "held"]
    assert server.get(at(server, NAMESPACE, "room")).object()["status"]["phase"] == "Terminating"
    server.patch(at(server, GIZMO, "held", "room"), {"metadata": {"finalizers": None}}, PatchType.MERGE)
    server.run_gc()
    assert "room" not in names(server, NAMESPACE)


def test_work_is_in_proportion_to_the_change() -> None:
    server = new_server()
    for index in range(50):
        apply(server, gizmo(f"bystander-{index}"))
    parent = apply(server, gizmo("parent"))
    apply(server, gizmo("child", ownerReferences=owned_by(parent)))
    server.run_gc()
    deleted(server, "parent", "Background")
    assert server.run_gc() <= 3


Graph = list[tuple[list[int], bool]]
GRAPHS = st.lists(st.tuples(st.lists(st.integers(0, 7), max_size=3), st.booleans()), max_size=8)
POLICIES = st.sampled_from(["Background", "Foreground", "Orphan"])


@given(GRAPHS, st.lists(st.tuples(st.integers(0, 7), POLICIES), max_size=4))
@example([([], True), ([0], True), ([1], True)], [(0, "Foreground")])
@example([([], False), ([0], True), ([0, 1], True)], [(0, "Foreground"), (1, "Orphan")])
def test_after_a_run_no_object_has_lost_all_its_owners(graph: Graph, deletions: list[tuple[int, str]]) -> None:
    """Owners come before their dependents here; cycles cannot be made with uids that exist yet."""
    server = new_server()
    made: list[dict[str, Any]] = []
    for index, (owners, block) in enumerate(graph):
        chosen = [made[owner] for owner in sorted(set(owners)) if owner < len(made)]
        references = owned_by(*chosen, block=block)
        metadata: dict[str, Any] = {"ownerReferences": references} if references else {}
        made.append(apply(server, gizmo(f"n{index}", **metadata)))
    for index, policy in deletions:
        if f"n{index}" in names(server):
            deleted(server, f"n{index}", policy)
    server.run_gc()
    left = [manifest["metadata"] for manifest in server.list(at(server, GIZMO)).objects()]
    alive = {meta["uid"] for meta in left}
    assert all("deletionTimestamp" not in meta for meta in left)
    assert all(owner["uid"] in alive for meta in left for owner in meta.get("ownerReferences", ()))
    assert server.idle
    assert server.run_gc() == 0


def test_an_event_is_never_garbage() -> None:
    server = new_server()
    parent = apply(server, gizmo("parent"))
    about = {"apiVersion": "tests.example/v1", "kind": "Gizmo", "namespace": "default", "name": "parent"}
    event = {**CORE_EVENT.manifest("said", "default"), "involvedObject": about, "type": "Normal", "reason": "Said"}
    event["metadata"]["ownerReferences"] = owned_by(parent)
    server.create(at(server, CORE_EVENT), event)
    deleted(server, "parent", "Background")
    server.run_gc()
    assert server.get(at(server, CORE_EVENT, "said")).status == 200
