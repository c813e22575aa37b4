"""RUN-1, RUN-11: what a cache holds, reports and counts, one object at a time; what it keeps of an odd one."""

import hashlib
from typing import Any

import msgspec
import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.nesting import UNREADABLE
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE
from purekube.controller.informer.changes import CacheChange, ChangeType, SecondaryIndex, keys_of
from purekube.controller.informer.outline import HELD_WHOLE, OUTLINE, bounded, is_outline, outline_of
from purekube.controller.informer.store import ObjectStore
from purekube.controller.ownership import owner_uids

encode = msgspec.json.encode
A = ObjectRef(CONFIG_MAP, "ns", "a")


def config(name: str = "a", version: str = "1", *, uid: str = "u", text: str = "", namespace: str = "ns") -> Any:
    meta = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"text": text}}


def filled(*objects: Manifest, **options: Any) -> ObjectStore:
    store = ObjectStore(CONFIG_MAP, **options)
    store.buffer(objects)
    list(store.replace("10"))
    return store


def test_a_new_object_is_added_and_a_newer_one_updates_it() -> None:
    store = filled()
    old, new = config(), config(version="2", text="x")

    assert store.put(old) == (CacheChange(ChangeType.ADDED, A, encode(old), version="1"),)
    assert store.put(old) == ()
    assert store.put(config(version="0")) == ()
    (change,) = store.put(new)
    assert change == CacheChange(ChangeType.UPDATED, A, encode(new), encode(old), version="2")
    assert (change.object, change.old_object) == (new, old)
    assert store.get("ns", "a") == new
    assert CacheChange(ChangeType.ADDED, A, encode(old)).old_object is None


def test_an_object_that_was_made_anew_is_a_deletion_and_an_addition() -> None:
    store = filled(config())
    again = config(version="2", uid="v")

    assert store.put(again) == (
        CacheChange(ChangeType.DELETED, A, encode(config()), version="1"),
        CacheChange(ChangeType.ADDED, A, encode(again), version="2"),
    )


def test_objects_that_come_before_the_first_list_are_initial() -> None:
    store = ObjectStore(CONFIG_MAP)
    assert [change.initial for change in store.put(config())] == [True]
    store.buffer([config(), config("b")])
    assert [(change.type, change.ref.name, change.initial) for change in store.replace("10")] == [
        (ChangeType.ADDED, "b", True)
    ]
    assert [change.initial for change in store.put(config("c"))] == [False]
    store.buffer([config("d")])
    assert [(change.type, change.ref.name, change.initial) for change in store.replace("11")] == [
        (ChangeType.DELETED, "a", False),
        (ChangeType.DELETED, "b", False),
        (ChangeType.DELETED, "c", False),
        (ChangeType.ADDED, "d", False),
    ]


def test_a_live_read_corrects_an_object_of_the_same_version_too() -> None:
    store = filled(config())
    other = config(text="x")

    assert store.correct(config()) == ()
    assert store.correct(other) == (CacheChange(ChangeType.UPDATED, A, encode(other), encode(config()), version="1"),)
    assert [change.type for change in store.correct(config("b"))] == [ChangeType.ADDED]


def test_a_removal_is_of_the_object_with_that_uid_and_reports_its_last_state() -> None:
    store = filled(config())
    last = config(version="3", text="last")

    assert store.remove(config(uid="v")) == store.remove(config("b")) == ()
    assert store.remove(last) == (CacheChange(ChangeType.DELETED, A, encode(last), version="3"),)
    assert (len(store), store.bytes, store.names("ns")) == (0, 0, [])


@pytest.mark.parametrize(("read_at", "kept"), [("4", True), ("5", False), ("6", False)])
def test_an_object_that_a_live_read_did_not_find_goes_unless_it_is_newer(read_at: str, kept: bool) -> None:
    store = filled(config(version="5"))
    changes = store.forget(A, read_at)

    assert (len(store) == 1) is kept
    assert [(change.type, change.version) for change in changes] == ([] if kept else [(ChangeType.DELETED, "5")])
    assert store.forget(ObjectRef(CONFIG_MAP, "ns", "b"), read_at) == ()


def test_objects_of_unwanted_namespaces_are_nowhere() -> None:
    store = filled(config(), config(namespace="other"), wanted="ns".__eq__)
    other = config("b", namespace="other")

    assert store.put(other) == store.correct(other) == store.remove(other) == ()
    assert store.names() == [("ns", "a")]


def test_a_list_leaves_out_unwanted_namespaces_and_asks_nothing_of_cluster_scoped_objects() -> None:
    asked: list[str] = []

    def wanted(namespace: str) -> bool:
        asked.append(namespace)
        return namespace == "ns"

    assert filled(config(), config(namespace="other"), {"metadata": {"name": "x"}}, wanted=wanted).names() == [
        ("ns", "a")
    ]
    assert asked == ["ns", "other", ""]
    cluster = ObjectStore(NAMESPACE, wanted=wanted)
    cluster.put({"metadata": {"name": "n", "namespace": "odd"}})
    assert (cluster.names(), cluster.get(None, "n") is not None, len(asked)) == ([("", "n")], True, 3)
    assert [change.ref for change in cluster.remove({"metadata": {"name": "n"}})] == [ObjectRef(NAMESPACE, None, "n")]


def test_an_object_without_a_namespace_is_found_without_one() -> None:
    store = filled({"metadata": {"name": "x"}})

    assert store.names("") == store.names() == [("", "x")]
    assert store.get(None, "x") == store.get("", "x") == {"metadata": {"name": "x"}}
    assert store.raw(None, "x") == store.raw("", "x") == b'{"metadata":{"name":"x"}}'
    assert (store.get("ns", "x"), store.raw("ns", "x")) == (None, None)


def test_objects_are_found_by_their_owners_namespaces_and_further_indexes() -> None:
    owned = config("b")
    owned["metadata"]["ownerReferences"] = [{"uid": "u"}]
    store = filled(owned, config("a"), config("a", namespace="m"), indexers={"text": lambda one: [one["data"]["text"]]})

    assert (store.owned_by("u"), store.indexed("owner", "u"), store.owned_by("v")) == ([owned], [owned], [])
    assert store.indexed_names("text", "") == store.names() == [("m", "a"), ("ns", "a"), ("ns", "b")]
    assert list(store.objects("ns")) == [config("a"), owned]
    assert store.names("ns") == [("ns", "a"), ("ns", "b")]


@pytest.mark.parametrize(
    ("version", "seen"), [("9", True), ("10", True), ("11", False), ("12", False), ("", False), ("x", False)]
)
def test_a_write_is_seen_by_the_position_of_the_store(version: str, seen: bool) -> None:
    assert filled().has_seen(A, version) is seen


def test_a_write_is_seen_by_the_object_itself() -> None:
    store = filled(config(version="15"))

    assert [store.has_seen(A, version) for version in ("15", "14", "16")] == [True, True, False]
    assert not store.has_seen(ObjectRef(CONFIG_MAP, "ns", "b"), "15")
    store.advance("20")
    assert store.has_seen(ObjectRef(CONFIG_MAP, "ns", "b"), "15")


def test_nothing_is_seen_by_a_store_that_was_never_listed() -> None:
    assert not ObjectStore(CONFIG_MAP).has_seen(A, "")


LONG = "lorem ipsum dolor " * 40


def test_only_the_newest_objects_are_held_unpacked_and_all_are_read_alike() -> None:
    objects = [config(name, text=LONG + name) for name in "abc"]
    size = len(encode(objects[0]))
    store = filled(unpacked=2 * size)
    for one in objects[:2]:
        store.put(one)
    assert store.bytes == 2 * size

    store.put(objects[2])

    assert 2 * size < store.bytes < 2 * size + size // 4
    assert [store.get("ns", name) for name in "abc"] == objects
    for name in "abc":
        store.remove(config(name))
    assert store.bytes == 0
    for one in objects[:2]:
        store.put(one)
    assert store.bytes == 2 * size, "what was removed takes no room"


def test_a_list_that_begins_again_takes_no_room() -> None:
    objects = [config(name, text=LONG + name) for name in "ab"]
    size = len(encode(objects[0]))
    store = filled(unpacked=2 * size)
    store.buffer(objects)
    store.discard_buffer()
    assert (len(store), list(store.replace("11"))) == (0, [])

    for one in objects:
        store.put(one)

    assert store.bytes == 2 * size


@pytest.mark.parametrize("how", ["removed", "forgotten", "discarded"])
def test_a_newer_object_that_is_gone_leaves_its_room_to_the_older_ones(how: str) -> None:
    first, second, third = (config(name, text=LONG + name) for name in "abc")
    size = len(encode(first))
    store = filled(unpacked=2 * size)
    store.put(first)
    if how == "discarded":
        store.buffer([second])
        store.discard_buffer()
    else:
        store.put(second)
        assert store.remove(second) if how == "removed" else store.forget(ObjectRef(CONFIG_MAP, "ns", "b"), "20")

    store.put(third)

    assert store.names() == [("ns", "a"), ("ns", "c")]
    assert store.bytes == 2 * size, "both are held unpacked"


def test_an_object_that_changes_is_the_newest_again() -> None:
    objects = [config(name, text=LONG + name) for name in "ab"]
    size = len(encode(objects[0]))
    store = filled(unpacked=2 * size)
    for one in objects:
        store.put(one)
    changed = config("a", "2", text=LONG + "a")
    store.put(changed)
    store.put(config("c", text=LONG + "c"))

    assert store.raw("ns", "a") is store.raw("ns", "a"), "unpacked, so that it is the same text"
    assert store.raw("ns", "b") is not store.raw("ns", "b")


def test_an_index_forgets_a_value_with_its_last_object() -> None:
    index = SecondaryIndex()
    index.insert(("ns", "a"), [("owner", "u"), ("owner", "v")])
    index.insert(("ns", "b"), [("owner", "u")])
    index.remove(("ns", "a"), [("owner", "u"), ("owner", "v")])

    assert (list(index.find("owner", "u")), list(index.find("owner", "v"))) == ([("ns", "b")], [])
    assert list(index.find("namespace", "u")) == []
    assert set(index._names) == {("owner", "u")}


def test_the_keys_of_an_object_are_those_of_each_index_once() -> None:
    owned = {"metadata": {"ownerReferences": [{"uid": "u"}, {"uid": "u"}, {"uid": 7}, {}, "odd", {"uid": ""}]}}

    assert list(owner_uids(owned)) == ["u", "u", "7"]
    assert list(owner_uids({})) == []
    assert keys_of(owned, {"owner": owner_uids, "kind": lambda one: ["k"]}) == (
        ("owner", "u"),
        ("owner", "7"),
        ("kind", "k"),
    )


def nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


META = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "1",
    "generation": 2,
    "labels": {"a": "b"},
    "creationTimestamp": "2026-06-01T12:00:00Z",
    "deletionTimestamp": "2026-06-01T13:00:00Z",
    "finalizers": ["f"],
}


@pytest.mark.parametrize(
    ("odd", "kept"),
    [
        ({"status": {"ready": True}}, {"status": {"ready": True}, UNREADABLE: ["spec"]}),
        ({}, {"status": None, UNREADABLE: ["spec"]}),
        ({"status": {"ready": nested(5000)}}, {UNREADABLE: ["spec", "status"]}),
        ({"status": {"ready": object()}}, {UNREADABLE: ["spec", "status"]}),
    ],
)
def test_of_an_object_that_cannot_be_encoded_the_identity_is_kept(odd: Any, kept: Any) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**META, "annotations": {"a": "b"}, "selfLink": "x"},
        "spec": nested(5000),
        **odd,
    }
    expected = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": META, **kept}
    store = filled(manifest)

    assert store.get("ns", "a") == expected
    assert store.as_read(manifest) == expected


def test_an_identity_has_no_odd_parts() -> None:
    manifest = {"metadata": {**META, "uid": None, "labels": 1.5, "generation": True}, "spec": nested(5000)}
    store = ObjectStore(CONFIG_MAP)

    meta = {name: value for name, value in META.items() if name not in ("uid", "labels")}
    assert store.as_read(manifest)["metadata"] == {**meta, "generation": True}


def test_an_object_that_can_be_read_is_transformed() -> None:
    def shorter(manifest: Manifest) -> Manifest:
        return {name: value for name, value in manifest.items() if name != "data"}

    store = filled(config(), transform=shorter)

    assert store.get("ns", "a") == store.as_read(config()) == shorter(config())


# --- outlines ---------------------------------------------------------------------------------------------------------


def text(length: int) -> str:
    """A text whose JSON has this length."""
    return "x" * (length - 2)


def test_an_outline_has_the_small_parts_of_an_object_and_the_hash_of_the_whole_RUN_11() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "note": text(8 * 1024 - 4), "more": text(8 * 1024 - 3)},
        "spec": {"small": text(1024 - 5), "large": text(1024 - 4)},
        "status": text(16 * 1024),
        "data": {"a": "b"},
    }
    outline = outline_of(manifest, b"raw")

    assert outline == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "note": text(8 * 1024 - 4)},
        "spec": {"small": text(1024 - 5)},
        "status": text(16 * 1024),
        OUTLINE: hashlib.sha256(b"raw").hexdigest(),
    }
    assert is_outline(outline)
    assert not is_outline(manifest)
    assert "status" not in outline_of({**manifest, "status": text(16 * 1024 + 1)}, b"raw")


def test_an_outline_has_sixteen_members_of_a_part_and_none_of_an_odd_one() -> None:
    spec = {f"m{number}": number for number in range(17)}
    outline = outline_of({"metadata": {"name": "a"}, "spec": spec}, b"")

    assert list(outline["spec"]) == list(spec)[:16]
    assert outline.keys() == {"metadata", "spec", OUTLINE}
    assert outline_of({"metadata": {"name": "a"}, "spec": ["x"], "status": 0}, b"").keys() == {"metadata", OUTLINE}


def test_a_large_object_is_held_as_its_outline_RUN_11() -> None:
    def sized(length: int) -> dict[str, Any]:
        empty = {"metadata": {"name": "a"}, "data": ""}
        return {**empty, "data": "x" * (length - len(encode(empty)))}

    assert HELD_WHOLE == 32768
    largest, larger = sized(HELD_WHOLE), sized(HELD_WHOLE + 1)
    assert bounded(largest) is largest
    assert bounded(larger) == outline_of(larger, encode(larger))
    deep = {"metadata": {"name": "a"}, "spec": nested(5000)}
    assert bounded(deep) is deep
    store = filled(config(text="x" * 200), config("b"), whole=200)
    assert is_outline(store.get("ns", "a") or {})
    assert not is_outline(store.get("ns", "b") or {})
