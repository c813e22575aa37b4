"""Kubernetes Events are written in the background, and no trouble with them is a trouble of the operator (RUN-5)."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from tests.runtime.virtual import run
from vworkspace_app.operator.events import BackgroundEvents
from vworkspace_core.errors import Unavailable
from vworkspace_core.known import APPLICATION_INSTANCE, EVENT, NAMESPACE
from vworkspace_core.manifest import Manifest, ObjectRef
from vworkspace_core.ports import KubernetesEvent
from vworkspace_fake.apiserver.inprocess import InProcessKube, run_sync
from vworkspace_fake.apiserver.server import ApiServer
from vworkspace_fake.clock import VirtualClock

INSTANCE = ObjectRef(APPLICATION_INSTANCE, "org-myteam", "nextcloud-myteam")


def event(note: str) -> KubernetesEvent:
    return KubernetesEvent(INSTANCE, "u-1", "Normal", "Stable", "Reconcile", note)


class Troubled(InProcessKube):
    """An API server on which some creates take a while, or fail with `failures` first, one each."""

    def __init__(self, seconds: float = 0.0, failures: tuple[Exception, ...] = ()) -> None:
        super().__init__(ApiServer(now=lambda: datetime(2026, 6, 1, tzinfo=UTC)))
        run_sync(super().create(NAMESPACE.manifest("org-myteam"), kind=NAMESPACE, field_manager="admin"))
        self._seconds = seconds
        self._failures = list(failures)

    async def create(self, manifest: Manifest, **options: Any) -> Manifest:
        await anyio.sleep(self._seconds)
        if self._failures:
            raise self._failures.pop(0)
        return await super().create(manifest, **options)

    def notes(self) -> list[str]:
        return sorted(str(found["note"]) for found in run_sync(self.list(EVENT)).items)


def while_running(api: Troubled, act: Callable[[BackgroundEvents], Awaitable[None]]) -> BackgroundEvents:
    """Run a sink while `act` acts, and cancel it then."""

    async def main() -> BackgroundEvents:
        sink = BackgroundEvents(api, VirtualClock(), instance="operator-0")
        async with anyio.create_task_group() as group:
            group.start_soon(sink.run)
            await act(sink)
            group.cancel_scope.cancel()
        return sink

    return run(main)


def test_emitting_takes_no_time_and_what_is_left_at_the_end_is_still_written() -> None:
    api = Troubled(seconds=0.1)

    async def act(sink: BackgroundEvents) -> None:
        began = anyio.current_time()
        for number in range(10):
            await sink.emit(event(f"note {number}"))
        assert anyio.current_time() == began

    while_running(api, act)

    assert api.notes() == [f"note {number}" for number in range(10)]


def test_an_end_does_not_wait_for_ever() -> None:
    api = Troubled(seconds=60.0)

    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(event("too late"))

    async def main() -> float:
        while_began = anyio.current_time()
        sink = BackgroundEvents(api, VirtualClock(), instance="operator-0")
        async with anyio.create_task_group() as group:
            group.start_soon(sink.run)
            await act(sink)
            group.cancel_scope.cancel()
        return anyio.current_time() - while_began

    assert run(main) <= 2.0
    assert api.notes() == []


@pytest.mark.parametrize("error", [Unavailable("away"), ZeroDivisionError("a defect")])
def test_an_event_that_cannot_be_written_is_counted_and_the_next_one_is_written(error: Exception) -> None:
    api = Troubled(failures=(error,))

    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(event("first"))
        await sink.emit(event("second"))
        await anyio.sleep(1)

    sink = while_running(api, act)

    assert (sink.dropped, api.notes()) == (1, ["second"])


def test_a_buffer_that_is_full_drops_and_counts() -> None:
    api = Troubled(seconds=0.5)

    async def act(sink: BackgroundEvents) -> None:
        for number in range(1010):
            await sink.emit(event(f"note {number}"))
        assert sink.dropped == 10

    while_running(api, act)


def test_the_event_is_what_kubectl_describe_shows() -> None:
    api = Troubled()

    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(event("x" * 2000))
        await sink.emit(event("x" * 2000))
        await anyio.sleep(1)

    while_running(api, act)

    first, second = run_sync(api.list(EVENT)).items
    assert first["regarding"] == {
        "apiVersion": INSTANCE.kind.api_version,
        "kind": "ApplicationInstance",
        "namespace": "org-myteam",
        "name": "nextcloud-myteam",
        "uid": "u-1",
    }
    assert (first["reportingInstance"], first["action"], first["type"]) == ("operator-0", "Reconcile", "Normal")
    assert len(first["note"]) == 1024
    assert first["metadata"]["name"] != second["metadata"]["name"]
