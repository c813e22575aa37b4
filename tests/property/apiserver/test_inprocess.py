"""The in-process face: the server's refusals as the core's errors, and calls that never wait."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelab.clock import VirtualTimeLoop, virtual_loop
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model import failure as failures
from kubelab.model.failure import ApiFailure, core_error
from kubelab.server import ApiServer
from kubelab.ssa.managers import decode_managers
from kubelab.storage.watch_stream import WatchStream
from kubelab.writes import pipeline
from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    StatusCause,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.ports import WatchEventType
from tests.support.apiserver_world import GIZMO, NOW, gizmo, new_server, ref

G, P = "tests.example", "gizmos"


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (failures.not_found(G, P, "a"), NotFound),
        (failures.not_served(), KindMissing),
        (failures.already_exists(G, P, "a"), AlreadyExists),
        (failures.stale(G, P, "a"), Stale),
        (failures.field_conflict("m", [StatusCause(".x", 'conflict with "o"', "FieldManagerConflict")]), Conflict),
        (failures.invalid(G, "Gizmo", "a", [StatusCause("x", "bad")]), Invalid),
        (failures.bad_request("bad"), Invalid),
        (failures.too_large("much"), Invalid),
        (failures.internal("failed to create typed patch object (x): y"), Invalid),
        (failures.internal("etcdserver: request is too large"), Invalid),
        (failures.internal("boom"), Unavailable),
        (failures.forbidden(G, P, "a", "no"), Forbidden),
        (failures.unauthorized(), Unauthorized),
        (failures.expired("old"), Expired),
        (ApiFailure(429, "TooManyRequests", "slow down", details={"retryAfterSeconds": 3}), Unavailable),
        (ApiFailure(504, "Timeout", "later"), Unavailable),
        (failures.unsupported_media_type(["x"]), Permanent),
        (failures.method_not_allowed(), Permanent),
    ],
)
def test_every_refusal_is_one_of_the_cores_errors(failure: ApiFailure, error: type[OperatorError]) -> None:
    assert type(core_error(failure, "get Gizmo a", GIZMO)) is error


@given(st.integers(400, 599), st.text(max_size=20), st.text(max_size=40))
def test_no_refusal_is_left_over(status: int, reason: str, message: str) -> None:
    error = core_error(ApiFailure(status, reason, message), "get Gizmo a", GIZMO)
    assert isinstance(error, OperatorError)
    assert error.message.startswith("get Gizmo a: ")


def test_what_errors_carry_comes_through() -> None:
    cause = StatusCause(".spec.size", 'conflict with "helm" using v1', "FieldManagerConflict")
    conflict = core_error(failures.field_conflict("m", [cause]), "apply Gizmo a", GIZMO)
    assert isinstance(conflict, Conflict)
    assert conflict.conflicts == (FieldConflict("helm", ".spec.size", 'conflict with "helm" using v1'),)
    dying = core_error(failures.namespace_terminating(G, P, "a", "n"), "apply Gizmo a", GIZMO)
    assert isinstance(dying, Forbidden)
    assert dying.namespace_terminating
    busy = core_error(ApiFailure(429, "TooManyRequests", "x", details={"retryAfterSeconds": 3}), "get", GIZMO)
    assert isinstance(busy, Unavailable)
    assert (busy.retry_after, busy.status) == (3, 429)


def test_a_refusal_about_a_secret_shows_no_value() -> None:
    failure = failures.invalid("", "Secret", "s", [StatusCause("data", 'Invalid value: "hunter2": not base64')])
    error = core_error(failure, "create Secret s", SECRET)
    assert isinstance(error, Invalid)
    assert "hunter2" not in repr((error.message, error.causes))
    assert "data" in error.message


def test_run_sync_drives_what_never_waits() -> None:
    api = InProcessKube(new_server())
    made = run_sync(api.apply(gizmo("a", namespace="default"), kind=GIZMO, field_manager="m"))
    assert run_sync(api.get(ref(GIZMO, "a"))) == made


def test_run_sync_says_so_when_something_waits() -> None:
    async def waits() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="suspended"):
        run_sync(waits())


def test_a_manifest_without_its_namespace_is_invalid() -> None:
    api = InProcessKube(new_server())
    with pytest.raises(Invalid, match=r"needs a metadata\.namespace"):
        run_sync(api.apply(gizmo("a"), kind=GIZMO, field_manager="m"))


def in_virtual_time(story: Awaitable[Any]) -> Any:
    with asyncio.Runner(loop_factory=virtual_loop(NOW)) as runner:
        return runner.run(story)  # type: ignore[arg-type]


def test_a_watch_waits_on_the_event_loop_and_ends_in_its_time_W_19() -> None:
    server = new_server()
    api = InProcessKube(server)

    async def write() -> None:
        for size in range(3):
            await asyncio.sleep(10)
            await api.apply(gizmo("a", size, namespace="default"), kind=GIZMO, field_manager="m")

    async def story() -> tuple[list[Any], float]:
        loop = asyncio.get_running_loop()
        writing, started = asyncio.ensure_future(write()), loop.time()
        version = str(server.store.version)
        watch = api.watch(GIZMO, namespace="default", resource_version=version, timeout_seconds=100)
        seen = [
            (event.type, get_path(event.object, "spec", "size"), round(loop.time() - started)) async for event in watch
        ]
        await writing
        return seen, loop.time() - started

    seen, lasted = in_virtual_time(story())
    assert seen == [
        (WatchEventType.ADDED, 0, 10),
        (WatchEventType.MODIFIED, 1, 20),
        (WatchEventType.MODIFIED, 2, 30),
        (WatchEventType.BOOKMARK, None, 60),
        (WatchEventType.BOOKMARK, None, 100),
    ]
    assert round(lasted) == 100


def test_a_quiet_watch_costs_one_timer_a_bookmark_and_no_task_W_19(monkeypatch: pytest.MonkeyPatch) -> None:
    api = InProcessKube(new_server())
    timers: list[float] = []
    call_at = VirtualTimeLoop.call_at

    def count(loop: VirtualTimeLoop, when: float, *args: Any, **named: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(loop, when, *args, **named)

    monkeypatch.setattr(VirtualTimeLoop, "call_at", count)

    async def story() -> tuple[int, int]:
        watch = api.watch(GIZMO, timeout_seconds=600)
        seen, most = 0, 0
        async for event in watch:
            seen, most = seen + (event.type is WatchEventType.BOOKMARK), max(most, len(asyncio.all_tasks()))
        return seen, most

    bookmarks, tasks = in_virtual_time(story())
    assert (bookmarks, tasks) == (11, 1)  # the first ends the initial events
    assert timers == [60.0 * minute for minute in range(1, 11)]


def test_an_update_with_the_managed_fields_that_were_read_checks_none_of_them_S_69(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = InProcessKube(new_server())
    checks: list[bool] = []

    def decode(entries: Any, *, trusted: bool = True) -> Any:
        checks.append(not trusted)
        return decode_managers(entries, trusted=trusted)

    monkeypatch.setattr(pipeline, "decode_managers", decode)
    made = run_sync(api.create(gizmo("a", 1, namespace="default"), kind=GIZMO, field_manager="m"))
    ours = run_sync(api.update({**made, "spec": {"size": 2}}, kind=GIZMO, field_manager="m"))
    assert not any(checks)

    forged = [{**ours["metadata"]["managedFields"][0], "manager": "another"}]
    asked = {**ours, "metadata": {**ours["metadata"], "managedFields": forged}}
    theirs = run_sync(api.update(asked, kind=GIZMO, field_manager="m"))
    assert any(checks)
    assert [entry["manager"] for entry in theirs["metadata"]["managedFields"]] == ["another"]


def test_a_watch_that_is_left_is_closed() -> None:
    server = new_server()
    api = InProcessKube(server)
    opened: list[WatchStream] = []

    async def story() -> None:
        await api.apply(gizmo("a", namespace="default"), kind=GIZMO, field_manager="m")
        watch = api.watch(GIZMO)
        await anext(watch)
        await watch.aclose()  # type: ignore[attr-defined]
        server.streams.each(opened.append)

    in_virtual_time(story())
    assert all(stream.ended for stream in opened)


def test_an_expired_watch_raises_at_its_first_event_W_11() -> None:
    server = ApiServer(now=lambda: NOW)
    server.store.compact()
    api = InProcessKube(server)

    async def story() -> None:
        await anext(api.watch(NAMESPACE, resource_version="1"))

    with pytest.raises(Expired):
        in_virtual_time(story())
