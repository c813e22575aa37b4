"""What the `KubeApi` port promises, call by call and error by error, on every implementation of it.

Nothing here needs a garbage collector or a controller that a bare API server lacks (RUN-8).
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Stale,
)
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE, SECRET
from purekube.ports import PatchType, Propagation, WatchEvent, WatchEventType
from tests.support.kube_ports import FACES, PROBE, Examined, Open, examine

Check = Callable[[Examined], Awaitable[None]]
ABSENT = Kind("nobody.example", "v1", "Nothing", "nothings")


async def refused(call: Awaitable[Any], error: type[OperatorError]) -> OperatorError:
    """Await a call that must raise exactly this error."""
    with pytest.raises(error) as caught:
        await call
    assert type(caught.value) is error
    return caught.value


def without_version(manifest: Manifest) -> dict[str, Any]:
    meta = {key: value for key, value in manifest["metadata"].items() if key != "resourceVersion"}
    return {**manifest, "metadata": meta}


async def reading(on: Examined) -> None:
    made = await on.apply(on.probe("a", size=1))
    assert await on.api.get(on.ref("a")) == made
    assert await on.api.get(on.ref("a"), resource_version=made["metadata"]["resourceVersion"]) == made
    await refused(on.api.get(on.ref("b")), NotFound)


async def kinds_that_are_not_served(on: Examined) -> None:
    absent = ABSENT.manifest("a", on.namespace)
    await refused(on.api.get(ObjectRef(ABSENT, on.namespace, "a")), KindMissing)
    await refused(on.api.list(ABSENT), KindMissing)
    await refused(on.api.apply(absent, kind=ABSENT, field_manager="one"), KindMissing)
    await refused(on.api.delete(ObjectRef(ABSENT, on.namespace, "a")), KindMissing)
    await refused(anext(on.api.watch(ABSENT)), KindMissing)


async def listing_in_pages(on: Examined) -> None:
    for name in "abcde":
        await on.apply(on.probe(name, size=1))
    found, token, versions = [], "", set()
    for _ in range(3):
        page = await on.api.list(PROBE, namespace=on.namespace, limit=2, continue_token=token)
        found += [item["metadata"]["name"] for item in page.items]
        versions.add(page.resource_version)
        token = page.continue_token
    assert (found, token, len(versions)) == (list("abcde"), "", 1)


async def listing_everywhere_and_by_selector(on: Examined) -> None:
    labelled = {**on.probe("a"), "metadata": {**on.probe("a")["metadata"], "labels": {"run": on.namespace}}}
    await on.apply(labelled)
    await on.apply(on.probe("b"))
    selected = await on.api.list(PROBE, label_selector=f"run={on.namespace}")
    by_name = await on.api.list(PROBE, namespace=on.namespace, field_selector="metadata.name=b")
    assert [item["metadata"]["name"] for item in selected.items] == ["a"]
    assert [item["metadata"]["name"] for item in by_name.items] == ["b"]
    await refused(on.api.list(PROBE, label_selector="a=b=c"), Invalid)


async def listing_metadata_alone(on: Examined) -> None:
    """As of Secrets whose content nobody here has any business with."""
    for name in "abc":
        await on.apply(on.probe(name, size=1))
    whole = await on.api.list(PROBE, namespace=on.namespace)
    for limit in (0, 2):
        page = await on.api.list(PROBE, namespace=on.namespace, limit=limit, metadata_only=True)
        expected = [{key: item[key] for key in ("apiVersion", "kind", "metadata")} for item in whole.items]
        assert page.items == expected[: limit or None]
        one = await on.api.get(on.ref("a"), metadata_only=True)
        assert one == expected[0]
    await refused(on.api.list(ABSENT, metadata_only=True), KindMissing)
    await refused(on.api.get(on.ref("d"), metadata_only=True), NotFound)


async def creating(on: Examined) -> None:
    made = await on.api.create(on.probe("a", size=1), kind=PROBE, field_manager="one")
    assert get_path(made, "metadata", "uid")
    await refused(on.api.create(on.probe("a"), kind=PROBE, field_manager="one"), AlreadyExists)
    elsewhere = {**on.probe("a"), "metadata": {"name": "a", "namespace": f"{on.namespace}-nope"}}
    await refused(on.api.create(elsewhere, kind=PROBE, field_manager="one"), NotFound)
    bad = await refused(on.api.create(on.probe("b", size=10), kind=PROBE, field_manager="one"), Invalid)
    assert isinstance(bad, Invalid)
    assert "spec.size" in [cause.field for cause in bad.causes]
    await refused(on.api.create(on.probe("b", nope=1), kind=PROBE, field_manager="one"), Invalid)
    await refused(on.api.create(on.probe("Not_A_Name"), kind=PROBE, field_manager="one"), Invalid)


async def updating(on: Examined) -> None:
    first = await on.apply(on.probe("a", size=1))
    second = await on.api.update({**first, "spec": {"size": 2}}, kind=PROBE, field_manager="two")
    assert get_path(second, "metadata", "generation") == 2
    await refused(on.api.update({**first, "spec": {"size": 3}}, kind=PROBE, field_manager="two"), Stale)
    await refused(on.api.update(without_version(second), kind=PROBE, field_manager="two"), Invalid)
    absent = {**second, "metadata": {**second["metadata"], "name": "b"}}
    await refused(on.api.update(absent, kind=PROBE, field_manager="two"), NotFound)


async def applying(on: Examined) -> None:
    first = await on.apply(on.probe("a", size=1))
    assert await on.apply(on.probe("a", size=1)) == first
    conflict = await refused(on.apply(on.probe("a", size=2), "two"), Conflict)
    assert isinstance(conflict, Conflict)
    assert [(conflict.manager, conflict.field) for conflict in conflict.conflicts] == [("one", ".spec.size")]
    forced = await on.apply(on.probe("a", size=2), "two", force=True)
    assert (get_path(forced, "spec", "size"), get_path(forced, "metadata", "generation")) == (2, 2)


async def applying_with_a_guard(on: Examined) -> None:
    first = await on.apply(on.probe("a", size=1))
    uid, version = first["metadata"]["uid"], first["metadata"]["resourceVersion"]
    await on.apply(on.probe("a", size=2))
    stale = on.probe("a", size=3)
    stale["metadata"]["resourceVersion"] = version
    await refused(on.apply(stale), Stale)
    await on.api.delete(on.ref("a"))
    resurrected = on.probe("a", size=3)
    resurrected["metadata"]["uid"] = uid
    await refused(on.apply(resurrected), Stale)
    await refused(on.api.get(on.ref("a")), NotFound)


async def applying_what_does_not_fit(on: Examined) -> None:
    await refused(on.apply(on.probe("a", nope=1)), Invalid)
    await refused(on.apply(on.probe("a", size="many")), Invalid)
    await refused(on.apply(on.probe("a", size=10)), Invalid)
    elsewhere = {**on.probe("a"), "metadata": {"name": "a", "namespace": f"{on.namespace}-nope"}}
    await refused(on.apply(elsewhere), NotFound)


async def applying_dry(on: Examined) -> None:
    told = await on.apply(on.probe("a", size=1), dry_run=True)
    assert get_path(told, "spec", "size") == 1
    await refused(on.api.get(on.ref("a")), NotFound)


async def applying_status(on: Examined) -> None:
    status = {**PROBE.manifest("a", on.namespace), "status": {"note": "n"}}
    await refused(on.api.apply_status(status, kind=PROBE, field_manager="one"), NotFound)
    await on.apply(on.probe("a", size=1))
    after = await on.api.apply_status(status, kind=PROBE, field_manager="one")
    assert (get_path(after, "status", "note"), get_path(after, "spec", "size")) == ("n", 1)
    assert get_path(after, "metadata", "generation") == 1
    other = {**status, "status": {"note": "m"}}
    await refused(on.api.apply_status(other, kind=PROBE, field_manager="two"), Conflict)
    forced = await on.api.apply_status(other, kind=PROBE, field_manager="two", force=True)
    assert get_path(forced, "status", "note") == "m"


async def patching(on: Examined) -> None:
    made = await on.apply(on.probe("a", size=1))
    merge, json = PatchType.MERGE, PatchType.JSON
    after = await on.api.patch(on.ref("a"), {"spec": {"title": "t"}}, patch_type=merge, field_manager="two")
    assert get_path(after, "spec") == {"size": 1, "title": "t"}
    operations = [{"op": "test", "path": "/spec/size", "value": 1}, {"op": "replace", "path": "/spec/size", "value": 2}]
    after = await on.api.patch(on.ref("a"), operations, patch_type=json, field_manager="two")
    assert get_path(after, "spec", "size") == 2
    await refused(on.api.patch(on.ref("a"), operations, patch_type=json, field_manager="two"), Invalid)
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"size": 3}}
    await refused(on.api.patch(on.ref("a"), stale, patch_type=merge, field_manager="two"), Stale)
    await refused(on.api.patch(on.ref("b"), {}, patch_type=merge, field_manager="two"), NotFound)
    noted = await on.api.patch(
        on.ref("a"), {"status": {"note": "n"}}, patch_type=merge, field_manager="two", subresource="status"
    )
    assert get_path(noted, "status", "note") == "n"


async def patching_strategically(on: Examined) -> None:
    ref = ObjectRef(CONFIG_MAP, on.namespace, "c")
    made = {**CONFIG_MAP.manifest("c", on.namespace), "data": {"a": "1"}}
    await on.api.create(made, kind=CONFIG_MAP, field_manager="one")
    after = await on.api.patch(ref, {"data": {"b": "2"}}, patch_type=PatchType.STRATEGIC, field_manager="one")
    assert after["data"] == {"a": "1", "b": "2"}


async def deleting(on: Examined) -> None:
    first = await on.apply(on.probe("a", size=1))
    await on.apply(on.probe("a", size=2))
    uid, version = first["metadata"]["uid"], first["metadata"]["resourceVersion"]
    await refused(on.api.delete(on.ref("a"), uid="00000000-0000-4000-8000-000000000000"), Stale)
    await refused(on.api.delete(on.ref("a"), resource_version=version), Stale)
    assert await on.api.delete(on.ref("a"), uid=uid, propagation=Propagation.BACKGROUND) is None
    await refused(on.api.delete(on.ref("a")), NotFound)


async def deleting_what_is_held(on: Examined) -> None:
    held = on.probe("a", size=1)
    held["metadata"]["finalizers"] = ["conformance.vworkspace.test/held"]
    await on.apply(held)
    left = await on.api.delete(on.ref("a"))
    marked = await on.api.get(on.ref("a"))
    assert left == marked
    assert get_path(marked, "metadata", "deletionTimestamp")
    assert await on.api.delete(on.ref("a")) == marked, "a second time nothing changes"
    more = {"metadata": {"finalizers": ["conformance.vworkspace.test/held", "conformance.vworkspace.test/more"]}}
    await refused(on.api.patch(on.ref("a"), more, patch_type=PatchType.MERGE, field_manager="one"), Invalid)
    await on.apply(on.probe("a", size=1))
    await refused(on.api.get(on.ref("a")), NotFound)


async def a_terminating_namespace(on: Examined) -> None:
    await on.apply(on.probe("a", size=1))
    held = {"metadata": {"finalizers": ["conformance.vworkspace.test/held"]}}
    await on.api.patch(on.ref("a"), held, patch_type=PatchType.MERGE, field_manager="one")
    await on.api.delete(ObjectRef(NAMESPACE, None, on.namespace))
    error = await refused(on.apply(on.probe("b", size=1)), Forbidden)
    assert isinstance(error, Forbidden)
    assert error.namespace_terminating
    free = {"metadata": {"finalizers": None}}
    await on.api.patch(on.ref("a"), free, patch_type=PatchType.MERGE, field_manager="one")
    if not await _exists(on):
        await on.api.create(NAMESPACE.manifest(on.namespace), kind=NAMESPACE, field_manager="one")


async def _exists(on: Examined) -> bool:
    try:
        await on.api.get(ObjectRef(NAMESPACE, None, on.namespace))
    except NotFound:
        return False
    return True


async def secrets_in_refusals(on: Examined) -> None:
    secret = {**SECRET.manifest("s", on.namespace), "data": {"password": "not base64: hunter2"}}
    error = await refused(on.api.create(secret, kind=SECRET, field_manager="one"), Invalid)
    assert "hunter2" not in repr((error.message, error.__dict__))


async def watching(on: Examined) -> None:
    page = await on.api.list(PROBE, namespace=on.namespace)
    await on.apply(on.probe("a", size=1))
    await on.apply(on.probe("a", size=2))
    await on.api.delete(on.ref("a"))
    events = await _events(on, page.resource_version)
    changes = [event for event in events if event.type is not WatchEventType.BOOKMARK]
    assert [(event.type.value, get_path(event.object, "spec", "size")) for event in changes] == [
        ("ADDED", 1),
        ("MODIFIED", 2),
        ("DELETED", 2),
    ]
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in changes]
    assert versions == sorted(set(versions))


async def watching_metadata_alone(on: Examined) -> None:
    page = await on.api.list(PROBE, namespace=on.namespace)
    await on.apply(on.probe("a", size=1))
    await on.apply(on.probe("a", size=2))
    whole = await on.api.get(on.ref("a"))
    await on.api.delete(on.ref("a"))
    events = await _events(on, page.resource_version, metadata_only=True)
    changes = [event for event in events if event.type is not WatchEventType.BOOKMARK]
    assert [event.type.value for event in changes] == ["ADDED", "MODIFIED", "DELETED"]
    assert changes[1].object == {key: whole[key] for key in ("apiVersion", "kind", "metadata")}
    assert {tuple(sorted(event.object)) for event in events} == {("apiVersion", "kind", "metadata")}


async def watching_from_nothing(on: Examined) -> None:
    await on.apply(on.probe("a", size=1))
    events = await _events(on, "")
    assert events[0].type is WatchEventType.ADDED
    assert [get_path(event.object, "metadata", "name") for event in events if event.type is WatchEventType.ADDED] == [
        "a"
    ]


async def _events(on: Examined, version: str, *, metadata_only: bool = False) -> list[WatchEvent]:
    watch = on.api.watch(
        PROBE, namespace=on.namespace, resource_version=version, timeout_seconds=1, metadata_only=metadata_only
    )
    return [event async for event in watch]


async def continuing_with_nonsense(on: Examined) -> None:
    await refused(on.api.list(PROBE, limit=1, continue_token="nonsense"), Invalid)


async def positions_from_before_the_history(on: Examined) -> None:
    if on.forget is None:
        pytest.skip("this server cannot be told to forget its history")
    await on.apply(on.probe("a", size=1))
    await on.apply(on.probe("b", size=1))
    page = await on.api.list(PROBE, namespace=on.namespace, limit=1)
    await on.apply(on.probe("c", size=1))
    on.forget()
    await refused(on.api.list(PROBE, namespace=on.namespace, limit=1, continue_token=page.continue_token), Expired)
    await refused(anext(on.api.watch(PROBE, namespace=on.namespace, resource_version=page.resource_version)), Expired)


CHECKS: list[Check] = [
    reading,
    kinds_that_are_not_served,
    listing_in_pages,
    listing_everywhere_and_by_selector,
    listing_metadata_alone,
    creating,
    updating,
    applying,
    applying_with_a_guard,
    applying_what_does_not_fit,
    applying_dry,
    applying_status,
    patching,
    patching_strategically,
    deleting,
    deleting_what_is_held,
    a_terminating_namespace,
    secrets_in_refusals,
    watching,
    watching_from_nothing,
    watching_metadata_alone,
    continuing_with_nonsense,
    positions_from_before_the_history,
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_port_keeps_its_promise_about(face: Open, check: Check) -> None:
    examine(face, check)


def test_every_check_is_run() -> None:
    own = {function for name, function in globals().items() if inspect.iscoroutinefunction(function)}
    assert own - {refused, _events, _exists} == set(CHECKS)
