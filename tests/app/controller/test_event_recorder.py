"""Kubernetes Events are written in the background, and no trouble with them is a trouble of the operator (RUN-5)."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import EVENT, NAMESPACE
from purekube.controller.event_series import LONGEST_NOTE, Observed
from purekube.ports import KubeRequest, KubernetesEvent, KubeVerb, Send
from purekube_run.controller.event_recorder import LONGEST_HOLD, LOOK_SECONDS, MOST_HELD, BackgroundEvents
from tests.support.virtual_time import run
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.overview.page_paths import page_link

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
        self.transport = self.through(self._pass).transport

    async def _pass(self, request: KubeRequest, proceed: Send) -> Manifest:
        if request.verb is KubeVerb.CREATE:
            await anyio.sleep(self._seconds)
            if self._failures:
                raise self._failures.pop(0)
        return await proceed(request)

    def notes(self) -> list[str]:
        return sorted(str(item["note"]) for item in run_sync(self.list(EVENT)).items)


def while_running(api: Troubled, act: Callable[[BackgroundEvents], Awaitable[None]]) -> BackgroundEvents:
    """Run a sink while `act` acts, and cancel it then."""

    async def main() -> BackgroundEvents:
        sink = BackgroundEvents(api, VirtualClock(), instance="operator-0", field_manager=FIELD_MANAGER)
        async with anyio.create_task_group() as group:
            group.start_soon(sink.run)
            await act(sink)
            group.cancel_scope.cancel()
        return sink

    return run(main)


def test_a_warning_ends_with_the_link_to_its_object_which_is_never_cut_off_SEE_3() -> None:
    """One setting, `page_url`, makes the links of notices, alerts and Events."""
    api, link = (
        Troubled(),
        "https://ops.example.com/object/applicationinstances.apps.vworkspace.io/org-myteam/nextcloud-myteam",
    )

    async def main() -> None:
        for base in ("https://ops.example.com/", ""):
            sink = BackgroundEvents(
                api, VirtualClock(), instance="o", field_manager=FIELD_MANAGER, link=partial(page_link, base)
            )
            async with anyio.create_task_group() as group:
                group.start_soon(sink.run)
                await sink.emit(event(f"normal{base}"))
                for note in (f"bad{base}", f"long{base} " + "é" * 2000):
                    await sink.emit(attrs.evolve(event(note), type="Warning"))
                await anyio.sleep(1)
                group.cancel_scope.cancel()

    run(main)
    notes = api.notes()
    assert [note for note in notes if " Page: " in note] == [note for note in notes if note.endswith(f" Page: {link}")]
    assert [note.split()[0] for note in notes if " Page: " in note] == [
        "badhttps://ops.example.com/",
        "longhttps://ops.example.com/",
    ]
    assert all(len(note.encode()) <= LONGEST_NOTE for note in notes)
    assert {"normal", "bad", "normalhttps://ops.example.com/"} <= set(notes)


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
        sink = BackgroundEvents(api, VirtualClock(), instance="operator-0", field_manager=FIELD_MANAGER)
        async with anyio.create_task_group() as group:
            group.start_soon(sink.run)
            await act(sink)
            group.cancel_scope.cancel()
        return anyio.current_time() - while_began

    assert run(main) <= 2.0
    assert api.notes() == []


@pytest.mark.slow
@pytest.mark.parametrize("error", [Unavailable("away"), ZeroDivisionError("a defect")])
def test_an_event_that_cannot_be_written_is_counted_and_the_next_one_is_written(error: Exception) -> None:
    api = Troubled(failures=(error,))

    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(event("first"))
        await sink.emit(event("second"))
        await anyio.sleep(1)

    sink = while_running(api, act)

    assert (sink.counts[Observed.DROPPED], api.notes()) == (1, ["second"])


def test_a_flood_about_one_object_is_cut_at_a_burst_and_counted() -> None:
    api = Troubled()

    async def act(sink: BackgroundEvents) -> None:
        for number in range(40):
            await sink.emit(event(f"note {number:02}"))
        await anyio.sleep(1)

    sink = while_running(api, act)

    assert api.notes() == [f"note {number:02}" for number in range(25)]
    assert (sink.counts[Observed.NEW], sink.counts[Observed.DROPPED]) == (25, 15)


def test_an_event_that_repeats_is_one_object_with_a_series() -> None:
    api = Troubled()

    async def act(sink: BackgroundEvents) -> None:
        for _ in range(4):
            await sink.emit(event("again"))
            await anyio.sleep(60)

    sink = while_running(api, act)

    (found,) = run_sync(api.list(EVENT)).items
    seen = datetime.fromisoformat(found["eventTime"])
    assert found["series"]["count"] == 4
    assert datetime.fromisoformat(found["series"]["lastObservedTime"]) - seen == timedelta(seconds=180)
    assert (sink.counts[Observed.NEW], sink.counts[Observed.REPEATED]) == (1, 3)


def test_a_repeat_of_an_event_that_the_server_forgot_is_a_new_event() -> None:
    api = Troubled()

    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(event("again"))
        await anyio.sleep(60)
        (found,) = run_sync(api.list(EVENT)).items
        run_sync(api.delete(ObjectRef(EVENT, found["metadata"]["namespace"], found["metadata"]["name"])))
        await sink.emit(event("again"))
        await anyio.sleep(60)

    while_running(api, act)

    (found,) = run_sync(api.list(EVENT)).items
    assert "series" not in found


def test_what_is_cut_off_in_the_middle_of_its_write_is_written_once() -> None:
    api = Troubled(seconds=0.5)

    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(event("last words"))
        await anyio.sleep(0.1)

    while_running(api, act)

    assert api.notes() == ["last words"]


def test_the_event_is_what_kubectl_describe_shows() -> None:
    api = Troubled()

    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(event("x" * 2000))
        await sink.emit(event("é" * 2000))
        await anyio.sleep(1)

    while_running(api, act)

    first, second = sorted(run_sync(api.list(EVENT)).items, key=lambda item: str(item["note"]))
    assert first["regarding"] == {
        "apiVersion": INSTANCE.kind.api_version,
        "kind": "ApplicationInstance",
        "namespace": "org-myteam",
        "name": "nextcloud-myteam",
        "uid": "u-1",
    }
    assert (first["reportingInstance"], first["action"], first["type"]) == ("operator-0", "Reconcile", "Normal")
    assert first["note"] == "x" * 1021 + "…"
    assert second["note"] == "é" * 510 + "…"  # the server counts bytes
    assert first["metadata"]["name"] != second["metadata"]["name"]


class Timed(Troubled):
    """An API server that tells when each Event came, in seconds of the virtual clock."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, float] = {}
        self.transport = self.through(self._note).transport

    async def _note(self, request: KubeRequest, proceed: Send) -> Manifest:
        if request.verb is KubeVerb.CREATE:
            self.written[request.body["note"]] = anyio.current_time()
        return await proceed(request)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.floats(0, 30).map(lambda at: round(at, 3)), st.sampled_from(("Normal", "Normal", "Warning"))),
        min_size=1,
        max_size=15,
    ),
    st.lists(st.tuples(st.floats(0, 30), st.floats(0.5, 30)), max_size=3),
)
@example([(1.0, "Normal")], [(0.0, 40.0)])
@example([(1.0, "Normal")], [(0.0, 3.0)])
@example([(1.0, "Normal"), (2.0, "Warning")], [(0.0, 40.0)])
def test_an_event_waits_for_what_is_more_urgent_and_not_for_ever_and_a_warning_never_RUN_5(
    emits: list[tuple[float, str]], backlogs: list[tuple[float, float]]
) -> None:
    """Of events each about an object of its own, whenever others have more urgent work."""
    api, began = Timed(), 0.0

    def is_backlogged() -> bool:
        return any(begin <= anyio.current_time() - began < begin + length for begin, length in backlogs)

    async def main() -> None:
        nonlocal began
        began = anyio.current_time()
        sink = BackgroundEvents(
            api, VirtualClock(), instance="operator-0", field_manager=FIELD_MANAGER, is_backlogged=is_backlogged
        )
        async with anyio.create_task_group() as group:
            group.start_soon(sink.run)
            for number, (at, kind) in enumerate(sorted(emits)):
                await anyio.sleep_until(began + at)
                about = attrs.evolve(INSTANCE, name=f"instance-{number}")
                told = attrs.evolve(event(str(number)), regarding=about, regarding_uid=f"u-{number}", type=kind)
                await sink.emit(told)
            await anyio.sleep(40)
            group.cancel_scope.cancel()

    run(main)

    assert len(api.written) == len(emits), "none is lost, none is written twice"
    for number, (at, kind) in enumerate(sorted(emits)):
        wrote = api.written[str(number)] - began
        if kind == "Warning":
            assert wrote - at <= LOOK_SECONDS + 0.01, "a process that is killed has said what went wrong"
            continue
        busy = [begin for begin, length in backlogs if begin <= wrote < begin + length]
        assert wrote - at <= LONGEST_HOLD.total_seconds() + LOOK_SECONDS + 0.01
        assert not busy or wrote - at >= LONGEST_HOLD.total_seconds() - 0.01, "nothing more urgent was waiting"
        quiet = [begin + length for begin, length in backlogs if begin <= at < begin + length]
        assert quiet or wrote - at <= LOOK_SECONDS + 0.01, "nobody waits for nothing"


@pytest.mark.slow
def test_no_more_events_wait_than_can_be_written_at_the_end_and_then_they_are_RUN_5() -> None:
    api = Timed()

    async def main() -> int:
        sink = BackgroundEvents(
            api, VirtualClock(), instance="operator-0", field_manager=FIELD_MANAGER, is_backlogged=lambda: True
        )
        async with anyio.create_task_group() as group:
            group.start_soon(sink.run)
            for number in range(MOST_HELD + 50):
                about = attrs.evolve(INSTANCE, name=f"instance-{number}")
                await sink.emit(attrs.evolve(event(str(number)), regarding=about, regarding_uid=f"u-{number}"))
            await anyio.sleep(1)
            held = MOST_HELD + 50 - len(api.written)
            group.cancel_scope.cancel()
        return held

    assert run(main) == MOST_HELD
    assert len(api.written) == MOST_HELD + 50
