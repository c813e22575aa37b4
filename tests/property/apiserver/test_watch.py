"""Watches against lists: what a watch shows leads from any list to any later one (W-10 to W-20)."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.model.calls import DeleteOptions
from kubelab.model.failure import ApiFailure
from kubelab.server import ApiServer
from kubelab.storage.listing import EVERYTHING, ListOptions
from kubelab.storage.watch_stream import INITIAL_EVENTS_END, WatchStream
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import PatchType, WatchEvent, WatchEventType
from tests.support.apiserver_world import GIZMO, apply, at, crd, everywhere, gizmo, names, new_server

ADDED, MODIFIED, DELETED = WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED
Step = tuple[str, str, int, str | None]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["default", "kube-public"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 2),
        st.sampled_from(["blue", "red", "none"]) | st.none(),
    ),
    max_size=15,
)
SELECTORS = st.sampled_from(["", "colour=blue", "colour!=blue", "!colour", "colour in (blue,red)"])
SCOPES = st.sampled_from([None, "default"])


def step(server: ApiServer, move: Step) -> None:
    """Write one object, or delete it when the colour is None."""
    namespace, name, size, colour = move
    if colour is None:
        target = at(server, GIZMO, name, namespace)
        if server.store.get(target.resource.storage, target.key) is not None:
            server.delete(target)
        return
    labels = {} if colour == "none" else {"labels": {"colour": colour}}
    apply(server, gizmo(name, size, **labels), namespace=namespace)


def target_of(server: ApiServer, scope: str | None) -> Any:
    return everywhere(server, GIZMO) if scope is None else at(server, GIZMO, namespace=scope)


def objects(server: ApiServer, scope: str | None, options: ListOptions) -> dict[str, Any]:
    listed = server.list(target_of(server, scope), options).objects()
    return {manifest["metadata"]["uid"]: manifest for manifest in listed}


def follow(state: dict[str, Any], events: list[WatchEvent]) -> dict[str, Any]:
    """The state after the events, each of which must make sense where it comes."""
    state = dict(state)
    for event in events:
        uid = event.object["metadata"]["uid"]
        assert (event.type is ADDED) is (uid not in state)
        if event.type is DELETED:
            del state[uid]
        else:
            state[uid] = event.object
    return state


def versions(events: list[WatchEvent]) -> list[int]:
    return [int(event.object["metadata"]["resourceVersion"]) for event in events]


@given(STEPS, STEPS, SELECTORS, SCOPES)
@example([("default", "a", 1, "blue")], [("default", "a", 1, "red"), ("default", "a", 1, "blue")], "colour=blue", None)
def test_a_watch_leads_from_its_list_to_every_later_one_W_16_W_18(
    before: list[Step], after: list[Step], selector: str, scope: str | None
) -> None:
    server = new_server()
    for move in before:
        step(server, move)
    options = ListOptions(label_selector=selector)
    state, version = objects(server, scope, options), str(server.store.version)
    stream = server.watch(target_of(server, scope), ListOptions(label_selector=selector, resource_version=version))
    for move in after:
        step(server, move)
    events = stream.drain()
    assert follow(state, events) == objects(server, scope, options)
    assert versions(events) == sorted(set(versions(events)))


@given(STEPS, st.integers(0, 15), SELECTORS, SCOPES)
def test_a_watch_from_the_past_shows_what_a_watch_from_then_saw(
    moves: list[Step], cut: int, selector: str, scope: str | None
) -> None:
    server = new_server()
    for move in moves[:cut]:
        step(server, move)
    options = ListOptions(label_selector=selector, resource_version=str(server.store.version))
    live = server.watch(target_of(server, scope), options)
    for move in moves[cut:]:
        step(server, move)
    late = server.watch(target_of(server, scope), options)
    assert late.drain() == live.drain()


@given(STEPS, SELECTORS, SCOPES)
def test_initial_events_are_the_list_and_end_with_a_bookmark_W_10_W_12_W_13(
    moves: list[Step], selector: str, scope: str | None
) -> None:
    server = new_server()
    for move in moves:
        step(server, move)
    options = ListOptions(label_selector=selector, allow_bookmarks=True)
    *initial, mark = server.watch(target_of(server, scope), options).drain()
    assert all(event.type is ADDED for event in initial)
    assert follow({}, initial) == objects(server, scope, ListOptions(label_selector=selector))
    assert mark.type is WatchEventType.BOOKMARK
    assert mark.object["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
    assert versions([mark]) == [server.store.version]


def opened(server: ApiServer, **options: Any) -> WatchStream:
    return server.watch(everywhere(server, GIZMO), ListOptions(**options))


def test_a_watch_without_bookmarks_gets_none() -> None:
    server = new_server()
    stream = opened(server)
    server.streams.bookmark()
    assert stream.drain() == []


def test_two_hundred_updates_are_two_hundred_events_W_16() -> None:
    server = new_server()
    stream = opened(server)
    for size in range(200):
        apply(server, gizmo("a", size))
    assert [event.object["spec"]["size"] for event in stream.drain()] == list(range(200))


def test_a_no_op_makes_no_event_S_65() -> None:
    server = new_server()
    apply(server, gizmo("a"))
    stream = opened(server, resource_version=str(server.store.version))
    apply(server, gizmo("a"))
    assert stream.drain() == []


def test_the_last_finalizer_goes_with_the_older_version_and_the_event_is_newer_W_17() -> None:
    server = new_server()
    apply(server, gizmo("a", finalizers=["tests.example/f"]))
    marked = server.delete(at(server, GIZMO, "a")).object()
    stream = opened(server, resource_version=str(server.store.version))
    reply = server.patch(at(server, GIZMO, "a"), {"metadata": {"finalizers": None}}, PatchType.MERGE).object()
    (event,) = stream.drain()
    assert reply["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    assert (event.type, versions([event])[0]) == (DELETED, int(marked["metadata"]["resourceVersion"]) + 1)
    assert event.object["metadata"]["finalizers"] == ["tests.example/f"]


def test_a_watch_from_the_future_skips_silently_W_15() -> None:
    server = new_server()
    stream = opened(server, resource_version=str(server.store.version + 6))
    for size in range(10):
        apply(server, gizmo("a", size))
    assert [event.object["spec"]["size"] for event in stream.drain()] == [6, 7, 8, 9]


def test_a_watch_from_beyond_the_history_ends_with_expired_W_11() -> None:
    server = new_server(window=3)
    for size in range(5):
        apply(server, gizmo("a", size))
    stream = opened(server, resource_version=str(server.store.floor - 1))
    assert stream.drain() == []
    assert stream.ended
    assert stream.failure is not None
    assert (stream.failure.status, stream.failure.reason) == (410, "Expired")
    assert len(opened(server, resource_version=str(server.store.floor)).drain()) == 3


def test_a_watch_with_initial_events_from_the_future_ends_with_an_error_W_14() -> None:
    server = new_server()
    stream = opened(server, send_initial_events=True, resource_version_match="NotOlderThan", resource_version="999")
    assert (stream.ended, stream.drain()) == (True, [])
    assert stream.failure is not None
    assert stream.failure.status == 504


def test_only_new_events_may_be_asked_for_W_12() -> None:
    server = new_server()
    apply(server, gizmo("a"))
    stream = opened(server, send_initial_events=False, resource_version_match="NotOlderThan")
    apply(server, gizmo("b"))
    assert [event.object["metadata"]["name"] for event in stream.drain()] == ["b"]


def test_a_field_selector_narrows_a_watch() -> None:
    server = new_server()
    stream = opened(server, field_selector="metadata.name=b,metadata.namespace=default")
    for name in ("a", "b"):
        apply(server, gizmo(name))
    assert [event.object["metadata"]["name"] for event in stream.drain()] == ["b"]


def test_a_new_schema_ends_the_watches_of_its_kind_W_20() -> None:
    server = new_server()
    stream = opened(server)
    target = at(server, CUSTOM_RESOURCE_DEFINITION, GIZMO.crd_name)
    patch = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "new"}]
    server.patch(target, patch, PatchType.JSON)
    assert (stream.ended, stream.failure) == (True, None)


def test_deleting_a_definition_deletes_its_objects_and_ends_its_watches_W_20() -> None:
    server = new_server()
    apply(server, gizmo("a"))
    stream = opened(server, resource_version=str(server.store.version))
    server.delete(at(server, CUSTOM_RESOURCE_DEFINITION, GIZMO.crd_name))
    assert [event.type for event in stream.drain()] == [DELETED]
    assert (stream.ended, stream.failure) == (True, None)
    with pytest.raises(ApiFailure) as caught:
        names(server)
    assert (caught.value.status, caught.value.plain) == (404, True)


def test_a_definition_waits_for_objects_that_hold_finalizers() -> None:
    server = new_server()
    apply(server, gizmo("a", finalizers=["tests.example/f"]))
    definition = at(server, CUSTOM_RESOURCE_DEFINITION, GIZMO.crd_name)
    server.delete(definition)
    assert server.get(definition).object()["metadata"]["deletionTimestamp"]
    server.patch(at(server, GIZMO, "a"), {"metadata": {"finalizers": None}}, PatchType.MERGE)
    with pytest.raises(ApiFailure, match="not found"):
        server.get(definition)
    server.create(at(server, CUSTOM_RESOURCE_DEFINITION), crd(GIZMO))
    assert names(server) == []


def test_every_version_of_a_kind_is_watched_in_its_own_words() -> None:
    server = new_server()
    two = Kind("tests.example", "v1", "Duo", "duos")
    server.create(at(server, CUSTOM_RESOURCE_DEFINITION), crd(two, versions=("v1", "v2")))
    newer = Kind("tests.example", "v2", "Duo", "duos")
    stream = server.watch(everywhere(server, newer), EVERYTHING)
    body = {"apiVersion": "tests.example/v1", "kind": "Duo", "metadata": {"name": "d"}, "spec": {"size": 1}}
    apply(server, body, two)
    server.delete(at(server, newer, "d"), DeleteOptions())
    assert [(event.type, event.object["apiVersion"]) for event in stream.drain()] == [
        (ADDED, "tests.example/v2"),
        (DELETED, "tests.example/v2"),
    ]


# --- storage that is restored from a snapshot (seen on a kube-apiserver 1.36 whose etcd was restored) ----------------


@given(STEPS, STEPS, STEPS, st.booleans())
def test_a_restored_server_holds_what_the_snapshot_held_and_goes_on_like_a_new_one(
    before: list[Step], lost: list[Step], after: list[Step], ended: bool
) -> None:
    server, twin = new_server(collects=True), new_server(collects=True)
    for move in before:
        step(server, move)
        step(twin, move)
    snapshot = server.store.snapshot()
    for move in lost:
        step(server, move)
    if ended:
        server.delete(at(server, CUSTOM_RESOURCE_DEFINITION, GIZMO.crd_name))

    server.restore(snapshot)

    assert server.store.version - snapshot.version <= ended, "a definition that is served again is written once"
    for move in after:
        step(server, move)
        step(twin, move)
    assert states(server) == states(twin)


def states(server: ApiServer) -> dict[Any, Any]:
    """Content by name; uids of what came after a snapshot differ."""
    listed = server.list(everywhere(server, GIZMO)).objects()
    return {(obj["metadata"]["namespace"], obj["metadata"]["name"]): obj["spec"] for obj in listed}


def test_a_watch_from_a_version_that_restored_storage_has_not_reached_is_silent_until_it_has_W15() -> None:
    """A kube-apiserver ended the watches cleanly, took new ones from 241 at 204, sent no bookmark for 90 s, and then
    everything beyond 241, bookmarks included; what happened between 204 and 241 it never told."""
    server = new_server()
    snapshot = server.store.snapshot()
    for size in range(5):
        apply(server, gizmo("lost", size))
    future = ListOptions(resource_version=str(server.store.version), allow_bookmarks=True)
    open_before = server.watch(everywhere(server, GIZMO), future)

    server.restore(snapshot)

    assert open_before.ended
    assert open_before.failure is None
    stream = server.watch(everywhere(server, GIZMO), future)
    for size in range(5):
        server.streams.bookmark()
        apply(server, gizmo("again", size))
        server.streams.bookmark()
        assert [one.type for one in stream.drain() if one.type is not WatchEventType.BOOKMARK] == []
    apply(server, gizmo("again", 9))
    assert [(one.type, one.object["spec"]["size"]) for one in stream.drain()] == [(MODIFIED, 9)]
