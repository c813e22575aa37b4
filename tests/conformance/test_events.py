"""RUN-5: Kubernetes Events as servers take them: one object for what repeats, notes cut, `default` without a namespace.

On the embedded server in process and over HTTP, and on a real one where there is one; read back in both API groups.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import EVENT, NAMESPACE
from purekube.controller.event_series import Observed
from purekube.ports import KubernetesEvent
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.process.machine import SystemClock
from tests.support.kube_ports import FACES, PROBE, Examined, Open, examine
from tests.support.patience import PATIENCE
from vworkspace_core.api.labels import FIELD_MANAGER

CORE_EVENT = Kind("", "v1", "Event", "events")


async def events_of(on: Examined, kind: Kind = EVENT, namespace: str | None = None) -> list[Manifest]:
    about = "regarding" if kind == EVENT else "involvedObject"
    found = (await on.api.list(kind, namespace=namespace or on.namespace)).items
    return [item for item in found if item.get(about, {}).get("name", "").startswith(("probe-", on.namespace))]


async def emitting(on: Examined, act: Callable[[BackgroundEvents], Awaitable[None]]) -> BackgroundEvents:
    """Emit while the sink runs, and let it write what is left."""
    sink = BackgroundEvents(on.api, SystemClock(), instance="operator-0", field_manager=FIELD_MANAGER)
    async with anyio.create_task_group() as group:
        group.start_soon(sink.run)
        await act(sink)
        group.cancel_scope.cancel()
    return sink


def about(on: Examined, name: str, note: str) -> KubernetesEvent:
    ref = ObjectRef(PROBE, on.namespace, name) if name else ObjectRef(NAMESPACE, None, on.namespace)
    return KubernetesEvent(ref, "0f1e", "Warning", "Failed", "Reconcile", note)


async def repeats_in_one_object(on: Examined) -> None:
    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(about(on, "probe-a", "it failed"))
        with anyio.fail_after(PATIENCE):
            while not await events_of(on):
                await anyio.sleep(0.02)
        for _ in range(4):
            await sink.emit(about(on, "probe-a", "it failed"))

    sink = await emitting(on, act)

    (found,) = await events_of(on)
    assert found["series"]["count"] == 5
    assert found["series"]["lastObservedTime"] > found["eventTime"]
    assert (found["action"], found["reason"], found["type"]) == ("Reconcile", "Failed", "Warning")
    (core,) = await events_of(on, CORE_EVENT)
    assert (core["message"], core["series"]["count"]) == ("it failed", 5)
    assert (sink.counts[Observed.NEW], sink.counts[Observed.DROPPED]) == (1, 0)


async def repeated_before_it_is_there(on: Examined) -> None:
    async def act(sink: BackgroundEvents) -> None:
        for _ in range(3):
            await sink.emit(about(on, "probe-a", "at once"))

    await emitting(on, act)

    (found,) = await events_of(on)
    assert found["series"]["count"] == 3


async def notes_that_are_too_long(on: Examined) -> None:
    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(about(on, "probe-a", "é" * 2000))
        await sink.emit(about(on, "probe-b", "x" * 1024))

    sink = await emitting(on, act)

    assert sorted(len(event["note"].encode()) for event in await events_of(on)) == [1023, 1024]
    assert sink.counts[Observed.DROPPED] == 0


async def a_flood_about_one_object(on: Examined) -> None:
    async def act(sink: BackgroundEvents) -> None:
        for number in range(30):
            await sink.emit(about(on, "probe-a", f"note {number}"))
        await sink.emit(about(on, "probe-b", "another object"))
        with anyio.fail_after(PATIENCE):
            while len(await events_of(on)) < 26:
                await anyio.sleep(0.02)

    sink = await emitting(on, act)

    names = [event["regarding"]["name"] for event in await events_of(on)]
    assert (names.count("probe-a"), names.count("probe-b")) == (25, 1)
    assert sink.counts[Observed.DROPPED] == 5


async def objects_without_a_namespace(on: Examined) -> None:
    async def act(sink: BackgroundEvents) -> None:
        await sink.emit(about(on, "", "the namespace itself"))

    await emitting(on, act)

    (found,) = await events_of(on, namespace="default")
    assert found["note"] == "the namespace itself"
    await on.api.delete(ObjectRef(EVENT, "default", found["metadata"]["name"]))


async def a_series_of_one(on: Examined) -> None:
    """What makes the count begin at two."""
    manifest: dict[str, Any] = {
        **EVENT.manifest("one", on.namespace),
        "eventTime": "2026-06-01T00:00:00.000000Z",
        "reportingController": "vworkspace.io/test",
        "reportingInstance": "test",
        "action": "Reconcile",
        "reason": "Failed",
        "type": "Normal",
        "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": on.namespace},
        "series": {"count": 1, "lastObservedTime": "2026-06-01T00:00:00.000000Z"},
    }
    with pytest.raises(Invalid, match="at least 2"):
        await on.api.create(manifest, kind=EVENT, field_manager="test")


CHECKS = [
    repeats_in_one_object,
    repeated_before_it_is_there,
    notes_that_are_too_long,
    a_flood_about_one_object,
    objects_without_a_namespace,
    a_series_of_one,
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_events(face: Open, check: Callable[[Examined], Awaitable[None]]) -> None:
    examine(face, check)
