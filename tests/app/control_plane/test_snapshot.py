"""PULL-5: a snapshot of thousands of objects is sent a batch at a time, and never held whole; a start drops nothing."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kubelab.clock import VirtualClock
from purekube.apimachinery.manifest import Manifest, ref_of
from tests.support.builders import condition
from tests.support.jobs import CLUSTER_ID, instance
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.control_plane.connection import AgentSettings, Connection
from vworkspace_app.control_plane.event_sender import EventSender
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.control_plane.outbox import BATCH
from vworkspace_fake.controlplane import AgentCall, ControlPlaneServer, InProcessControlPlane


def objects(count: int) -> list[Manifest]:
    ready = condition("Ready", "True", "HelmReleaseReady")
    uids = [f"00000000-0000-0000-0000-{number:012}" for number in range(count)]
    return [{**instance(f"app-{at}", uid=uid), "status": {"conditions": [ready]}} for at, uid in enumerate(uids)]


@pytest.mark.slow
@run_by(run)
async def test_a_snapshot_of_thousands_of_objects_is_never_held_whole() -> None:
    """What waits is bounded, and so is the work for each batch: otherwise both would grow with the square."""
    owned = objects(2_350)
    read = 0
    clock = VirtualClock()
    server = ControlPlaneServer(now=clock.now)
    server.tokens.add(CLUSTER_ID, "token")
    control, most_ahead = InProcessControlPlane(server, "token"), 0

    def now() -> Iterator[Manifest]:
        nonlocal read, most_ahead
        for live in owned:
            most_ahead = max(most_ahead, read - len(server.events_of(CLUSTER_ID)))
            read += 1
            yield live

    sender = EventSender(control, Connection(clock), clock, lambda: 0.5, AgentSettings(), now, lambda ref: None)
    for live in owned:
        sender.known(ref_of(live, APPLICATION_INSTANCE), live)
    assert (len(sender.outbox), sender.outbox.dropped) == (0, 0), "that it begins is no reason to drop anything"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sender.run)
        sender.release_snapshot()
        changed: dict[str, Any] = {**owned[7], "status": {"conditions": [condition("Ready", "False", "Later")]}}
        sender.object_changed(ref_of(changed, APPLICATION_INSTANCE), changed, belongs_to_job=False)
        await sender.drain()
        sender.release()
        await sender.drain()
        tasks.cancel_scope.cancel()

    events = server.events_of(CLUSTER_ID)
    assert {event["resourceRef"]["name"] for event in events} == {live["metadata"]["name"] for live in owned}
    assert [event["resourceRef"]["name"] for event in events][-1] == "app-7", "news come after it"
    assert len(events) == len(owned) + 1
    assert most_ahead <= BATCH
    calls = [call for _, call in server.requests if call is AgentCall.EVENTS]
    assert len(calls) == -(-len(owned) // BATCH) + 1
