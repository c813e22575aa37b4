"""Packed objects: byte for byte what they were, and small beside one that resembles them (RUN-1)."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller.informer.changes import ChangeType
from purekube.controller.informer.store import ObjectStore, pack, unpack


@given(st.binary(max_size=3000), st.binary(max_size=3000))
@example(b"", b"")
@example(b"a" * 100_000, b"")
@example(bytes(range(256)) * 300, bytes(range(256)) * 300)
def test_what_is_packed_comes_back_as_it_was_whatever_it_resembles(raw: bytes, typical: bytes) -> None:
    assert unpack(pack(raw, typical), typical) == raw


def release(name: str, version: int, **spec: Any) -> dict[str, Any]:
    """Much like the releases of other instances, as those of one operator are."""
    digest = f"{version * 7919:064x}"
    return {
        **HELM_RELEASE.manifest(name, "org"),
        "metadata": {"name": name, "namespace": "org", "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"interval": "5m", "timeout": "5m", "install": {"remediation": {"retries": 3}}, **spec},
        "status": {"history": [{"digest": digest, "chartName": "shop", "chartVersion": "1.2.3", "status": "deployed"}]},
    }


def test_many_that_resemble_each_other_take_a_fraction_of_their_json() -> None:
    store, found = ObjectStore(HELM_RELEASE, unpacked=0), [release(f"shop-{at}", at) for at in range(1, 501)]
    store.buffer(found)
    list(store.replace("500"))

    assert list(store.objects()) == sorted(found, key=lambda one: str(one["metadata"]["name"]))
    assert store.bytes < sum(len(json.dumps(one)) for one in found) / 3


def test_what_came_last_is_packed_only_when_so_much_has_come_after_it() -> None:
    found = [release(f"shop-{at}", at) for at in range(1, 11)]
    size = max(len(json.dumps(one, separators=(",", ":"))) for one in found)
    store = ObjectStore(HELM_RELEASE, unpacked=4 * size)
    for one in found:
        store.put(one)

    assert [entry.is_packed for entry in store._entries.values()] == [True] * 6 + [False] * 4
    assert store.bytes == sum(len(entry.content) for entry in store._entries.values())
    assert list(store.objects()) == sorted(found, key=lambda one: str(one["metadata"]["name"]))


def test_what_is_not_held_any_more_is_never_packed() -> None:
    store = ObjectStore(HELM_RELEASE, unpacked=2000)
    store.put(release("shop", 1))
    first = store._entries["org", "shop"]
    for version in range(2, 50):
        store.put(release("shop", version))

    assert not first.is_packed
    assert not store._entries["org", "shop"].is_packed


def test_a_relist_is_packed_with_an_object_of_its_own_and_yields_what_differs() -> None:
    store = ObjectStore(HELM_RELEASE)
    store.buffer([release("old", 1, values={"grown": "x" * 2000}), release("kept", 2)])
    list(store.replace("2"))
    store.buffer([release("kept", 2), release("new", 3)])

    told = [(change.type, change.ref.name, change.initial) for change in store.replace("3")]

    assert told == [(ChangeType.DELETED, "old", False), (ChangeType.ADDED, "new", False)]
    assert {entry.typical for entry in store._entries.values()} == {store.raw("org", "kept")}


def test_readers_see_all_of_a_replacement_before_they_hear_of_its_first_change() -> None:
    store = ObjectStore(HELM_RELEASE)
    store.buffer([release("a", 1), release("b", 2)])

    told = store.replace("2")

    assert store.has_seen(ObjectRef(HELM_RELEASE, "org", "b"), "2")
    assert [name for _, name in store.names()] == ["a", "b"]
    assert [(change.ref.name, change.initial) for change in told] == [("a", True), ("b", True)]
