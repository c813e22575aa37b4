"""RUN-1: the store gives private copies, keeps its indexes right, and never goes back to an older copy."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.informer.changes import ChangeType
from purekube.controller.informer.store import ObjectStore, older
from purekube.controller.queue.event_handlers import owners_of_kind, priority_of, same_object
from purekube.controller.queue.own_writes import PendingWrites
from purekube.controller.queue.workqueue import Priority
from tests.support.watch_world import KIND


def thing(name: str, version: int, *, uid: str = "", namespace: str = "n", **meta: Any) -> dict[str, Any]:
    fields = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": {**fields, **meta}}


def owner(uid: str, name: str = "parent") -> dict[str, Any]:
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": name, "uid": uid, "controller": True}


def ref(name: str, namespace: str = "n") -> ObjectRef:
    return ObjectRef(KIND, namespace, name)


THINGS = st.builds(
    lambda name, version, namespace, owners: thing(
        name, version, namespace=namespace, ownerReferences=[owner(uid) for uid in owners]
    ),
    st.sampled_from("abc"),
    st.integers(1, 30),
    st.sampled_from(["n", "m"]),
    st.lists(st.sampled_from(["u1", "u2"]), max_size=2),
)

UNPACKED = st.sampled_from([0, 400, 100_000])


@given(st.lists(THINGS, max_size=30), UNPACKED)
@example([thing("a", 2, ownerReferences=[]), thing("a", 1, ownerReferences=[])], 0)
def test_the_newest_copy_of_each_object_is_held_in_whatever_order_they_come(
    things: list[dict[str, Any]], unpacked: int
) -> None:
    store = ObjectStore(KIND, unpacked=unpacked)
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for one in things:
        store.put(one)
        meta = one["metadata"]
        known = newest.get((meta["namespace"], meta["name"]))
        if known is None or int(known["metadata"]["resourceVersion"]) < int(meta["resourceVersion"]):
            newest[meta["namespace"], meta["name"]] = one

    assert {name: store.get(*name) for name in store.names()} == newest
    for uid in ("u1", "u2"):
        owned = [one for _, one in sorted(newest.items()) if owner(uid) in one["metadata"]["ownerReferences"]]
        assert store.owned_by(uid) == owned
    for namespace in ("n", "m"):
        assert list(store.objects(namespace)) == [one for name, one in sorted(newest.items()) if name[0] == namespace]


@given(st.lists(st.tuples(st.sampled_from(["put", "remove", "stage", "swap"]), THINGS), max_size=40), UNPACKED)
def test_indexes_and_sizes_follow_the_content(actions: list[tuple[str, dict[str, Any]]], unpacked: int) -> None:
    store = ObjectStore(KIND, indexers={"name": lambda one: [one["metadata"]["name"]]}, unpacked=unpacked)
    for action, one in actions:
        match action:
            case "put":
                store.put(one)
            case "remove":
                store.remove(one)
            case "stage":
                store.buffer([one])
            case "swap":
                store.replace(one["metadata"]["resourceVersion"])

    held = list(store.objects())
    assert len(store) == len(held)
    for name in "abc":
        assert store.indexed("name", name) == [obj for obj in held if obj["metadata"]["name"] == name]
    for uid in ("u1", "u2"):
        assert store.owned_by(uid) == [obj for obj in held if owner(uid) in obj["metadata"]["ownerReferences"]]
    assert store.bytes == sum(len(entry.content) for entry in store._entries.values())


def test_readers_get_copies_of_their_own() -> None:
    store = ObjectStore(KIND)
    store.put(thing("a", 1, labels={"x": "1"}))

    first = store.get("n", "a")
    assert first is not None
    first["metadata"]["labels"]["x"] = "changed"

    assert store.get("n", "a") == thing("a", 1, labels={"x": "1"})


def test_managed_fields_are_dropped_and_the_given_object_is_left_alone() -> None:
    store = ObjectStore(KIND)
    given_object = thing("a", 1, managedFields=[{"manager": "m"}])

    (change,) = store.put(given_object)

    assert change.object == store.get("n", "a") == thing("a", 1)
    assert "managedFields" in given_object["metadata"]


def test_ownership_is_kept_where_it_is_asked_for() -> None:
    store = ObjectStore(KIND, transform=lambda manifest: manifest)
    store.put(thing("a", 1, managedFields=[{"manager": "m"}]))

    held = store.get("n", "a")
    assert held is not None
    assert held["metadata"]["managedFields"] == [{"manager": "m"}]


def test_a_delete_of_an_earlier_object_of_that_name_is_not_ours() -> None:
    store = ObjectStore(KIND)
    store.put(thing("a", 9, uid="second"))

    assert store.remove(thing("a", 8, uid="first")) == ()
    assert store.get("n", "a") is not None


def test_a_live_read_that_began_before_the_object_was_created_does_not_drop_it() -> None:
    store = ObjectStore(KIND)
    store.put(thing("a", 9))

    assert store.forget(ref("a"), "8") == ()
    assert [change.type for change in store.forget(ref("a"), "10")] == [ChangeType.DELETED]
    assert store.forget(ref("a"), "10") == ()


def test_a_write_is_seen_by_position_or_by_the_object_itself() -> None:
    store = ObjectStore(KIND)
    assert not store.has_seen(ref("a"), "5")
    store.put(thing("a", 6))
    assert store.has_seen(ref("a"), "6")
    assert store.has_seen(ref("a"), "5")
    assert not store.has_seen(ref("b"), "6")
    store.advance("7")
    assert store.has_seen(ref("b"), "7")
    assert not store.has_seen(ref("b"), "8")


@pytest.mark.parametrize(("version", "than", "answer"), [("9", "10", True), ("10", "9", False), ("a", "b", False)])
def test_versions_are_compared_as_numbers_and_otherwise_not_at_all(version: str, than: str, answer: bool) -> None:
    assert older(version, than) is answer


def test_a_change_concerns_the_owners_before_and_after_it_REC_1() -> None:
    store = ObjectStore(KIND)
    store.put(thing("a", 1, ownerReferences=[owner("u1", "first")]))
    (change,) = store.put(thing("a", 2, ownerReferences=[owner("u2", "second")]))

    assert set(owners_of_kind(KIND)(change)) == {ref("first"), ref("second")}
    assert list(same_object(change)) == [ref("a")]


def test_objects_of_the_first_list_wait_behind_live_changes() -> None:
    store = ObjectStore(KIND)
    store.buffer([thing("a", 1)])
    (listed,) = store.replace("1")
    (live,) = store.put(thing("b", 2))

    assert (priority_of(listed), priority_of(live)) == (Priority.BACKGROUND, Priority.LIVE)


def test_a_key_waits_for_what_it_wrote_and_no_longer_than_its_patience_RUN_3() -> None:
    store = ObjectStore(KIND)
    writes: PendingWrites[str] = PendingWrites(store.has_seen, timeout=5.0)
    writes.record("key", 0.0, [(ref("a"), "5"), (ref("b"), "6")])

    assert set(writes.unseen("key")) == {ref("a"), ref("b")}
    assert writes.unseen("other") == ()
    store.advance("5")
    assert writes.unseen("key") == (ref("b"),)
    assert not writes.is_waiting("key")
    looks = [writes.next_check("key", 1.0) for _ in range(7)]
    assert looks == [0.05, 0.1, 0.2, 0.4, 0.8, 0.8, 0.8]
    assert writes.next_check("key", 5.0) is None
    assert writes.is_waiting("key")
    store.advance("6")
    assert writes.unseen("key") == ()


def test_only_the_latest_write_of_an_object_counts() -> None:
    store = ObjectStore(KIND)
    writes: PendingWrites[str] = PendingWrites(store.has_seen)
    writes.record("key", 0.0, [(ref("a"), "5")])
    writes.record("key", 1.0, [(ref("a"), "7")])
    store.advance("6")

    assert writes.unseen("key") == (ref("a"),)


def test_writes_of_several_passes_are_all_waited_for() -> None:
    store = ObjectStore(KIND)
    writes: PendingWrites[str] = PendingWrites(store.has_seen)
    writes.record("key", 0.0, [(ref("a"), "5")])
    writes.record("key", 1.0, [(ref("b"), "4")])
    store.advance("4")

    assert writes.unseen("key") == (ref("a"),)
