"""The store against a model: objects, past states and changes are what a list of snapshots says."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.model.failure import ApiFailure
from kubelab.model.records import GroupResource, ObjectKey, Record
from kubelab.storage.store import Store

PLACES: tuple[GroupResource, ...] = (("", "configmaps"), ("example.test", "widgets"))
Write = tuple[int, str, str, int | None]

WRITES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["a", "b", "b-c"]),
        st.sampled_from(["x", "x.y", "z"]),
        st.none() | st.integers(0, 3),
    ),
    max_size=30,
)
State = dict[tuple[GroupResource, ObjectKey], int]


def manifest(namespace: str, name: str, value: int) -> Mapping[str, Any]:
    meta = {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}"}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": meta, "value": value}


def play(store: Store, writes: list[Write]) -> dict[int, State]:
    """Write, and remember what there was at each version."""
    state: State = {}
    states = {store.version: dict(state)}
    for place, namespace, name, value in writes:
        where, key = PLACES[place], (namespace, name)
        if value is not None:
            store.put(where, manifest(namespace, name, value))
            state[where, key] = value
        elif (where, key) in state:
            store.remove(where, key)
            del state[where, key]
        states[store.version] = dict(state)
    return states


def of(state: State, where: GroupResource, namespace: str | None) -> list[tuple[ObjectKey, int]]:
    return sorted(
        (key, value)
        for (place, key), value in state.items()
        if place == where and (namespace is None or key[0] == namespace)
    )


def shown(records: list[Record]) -> list[tuple[ObjectKey, int]]:
    return [(record.key, record.object()["value"]) for record in records]


@given(WRITES)
@example([(0, "b", "x", 1), (0, "b-c", "x", 1), (0, "b", "x", None)])
def test_every_past_version_can_be_read_in_order_W_01(writes: list[Write]) -> None:
    store = Store()
    for version, state in play(store, writes).items():
        for where in PLACES:
            for namespace in (None, "a", "b"):
                assert shown(store.past(where, version, namespace, None)) == of(state, where, namespace)


@given(WRITES, st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "y"]))
def test_pages_go_on_behind_the_last_key_W_04(writes: list[Write], namespace: str, name: str) -> None:
    store = Store()
    state = play(store, writes)[store.version]
    for where in PLACES:
        rest = [entry for entry in of(state, where, None) if entry[0] > (namespace, name)]
        assert shown(list(store.scan(where, None, (namespace, name)))) == rest


@given(WRITES, st.integers(0, 30))
def test_changes_since_any_version_lead_to_the_present_W_16(writes: list[Write], back: int) -> None:
    store = Store()
    states = play(store, writes)
    start = max(1, store.version - back)
    for where in PLACES:
        state = dict(of(states[start], where, None))
        versions = []
        for change in store.since(where, start):
            versions.append(change.version)
            if change.after is not None:
                state[change.after.key] = change.after.object()["value"]
            else:
                assert change.before is not None
                del state[change.before.key]
        assert sorted(state.items()) == of(states[store.version], where, None)
        assert versions == sorted(set(versions))


@given(WRITES, st.integers(1, 5))
def test_the_window_bounds_the_history_and_the_floor_says_so_W_11(writes: list[Write], window: int) -> None:
    store = Store(window=window)
    states = play(store, writes)
    assert store.version - store.floor <= window
    for where in PLACES:
        for version in range(store.floor, store.version + 1):
            assert shown(store.past(where, version, None, None)) == of(states[version], where, None)


@given(WRITES, st.integers(0, 40))
def test_compaction_forgets_changes_and_no_object(writes: list[Write], upto: int) -> None:
    store = Store()
    states = play(store, writes)
    store.compact(upto)
    assert store.floor == min(max(1, upto), store.version)
    for where in PLACES:
        assert shown(list(store.scan(where))) == of(states[store.version], where, None)
        for version in range(store.floor, store.version + 1):
            assert shown(store.past(where, version, None, None)) == of(states[version], where, None)


def test_what_etcd_would_not_take_is_refused_and_changes_nothing_W_37() -> None:
    store = Store(object_bytes=200)
    store.put(PLACES[0], manifest("a", "x", 1))
    version = store.version
    with pytest.raises(ApiFailure, match="etcdserver: request is too large") as caught:
        store.put(PLACES[0], {**manifest("a", "x", 2), "blob": "x" * 200})
    assert (caught.value.status, caught.value.reason, store.version) == (500, "", version)
    assert shown(list(store.scan(PLACES[0]))) == [(("a", "x"), 1)]


def test_a_reader_cannot_change_what_is_stored() -> None:
    store = Store()
    record = store.put(PLACES[0], manifest("a", "x", 1))
    record.object()["value"] = 2
    found = store.get(PLACES[0], ("a", "x"))
    assert found is not None
    assert found.object()["value"] == 1
