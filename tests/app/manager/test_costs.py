"""What an instance costs the event loop: tasks, timers and callbacks, counted under virtual time (RUN-10).

A limit that is exceeded means that something is done more often for each instance than before: a wake-up that finds
nothing, a task for each request, a timer for each wait. That costs most on a machine with other work.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from kubelab.flux import FluxBehaviour
from tests.app.simulation.test_world import instance, ready_of
from vworkspace_app.simulation.operator_world import SimulatedWorld, WorldSettings
from vworkspace_core.api.kinds import APPLICATION_INSTANCE


@attrs.define
class Work:
    """The work of an event loop while it is counted."""

    callbacks: int = 0
    tasks: int = 0
    timers: int = 0


@contextmanager
def counted(loop: Any) -> Iterator[Work]:
    """Count what is scheduled on this loop within the block."""
    work, call_soon, call_at, factory = Work(), loop.call_soon, loop.call_at, loop.get_task_factory()

    def counting(name: str, schedule: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **named: Any) -> Any:
            setattr(work, name, getattr(work, name) + 1)
            return schedule(*args, **named)

        return count

    loop.call_soon, loop.call_at = counting("callbacks", call_soon), counting("timers", call_at)
    loop.set_task_factory(counting("tasks", factory or asyncio.Task))
    try:
        yield work
    finally:
        loop.call_soon, loop.call_at = call_soon, call_at
        loop.set_task_factory(factory)


def installing(count: int) -> Work:
    """Return the work of five minutes in which so many instances become Ready."""
    with SimulatedWorld(WorldSettings(seed=2)) as world:  # an odd one has a small buffer of events
        world.run(120)
        with counted(world.loop) as work:
            for number in range(count):
                world.create(instance(f"app-{number}"), APPLICATION_INSTANCE)
            world.run(300)
        assert [ready_of(world, f"app-{number}") for number in range(count)] == ["True"] * count
        return work


def resting(count: int, flux: FluxBehaviour) -> Work:
    """Return the work of an hour that begins some minutes after so many instances were created."""
    with SimulatedWorld(WorldSettings(seed=1, flux=flux)) as world:
        world.run(120)
        for number in range(count):
            world.create(instance(f"app-{number}"), APPLICATION_INSTANCE)
        world.run(900)
        with counted(world.loop) as work:
            world.run(3600)
        return work


@pytest.mark.slow
def test_an_instance_takes_few_tasks_timers_and_callbacks_from_creation_to_ready() -> None:
    one, eleven = installing(1), installing(11)

    assert eleven.tasks - one.tasks <= 10 * 4.5
    assert eleven.timers - one.timers <= 10 * 27
    assert eleven.callbacks - one.callbacks <= 10 * 47


@pytest.mark.slow
def test_waiting_for_flux_costs_at_most_one_pass_in_ten_seconds_more_than_being_ready() -> None:
    """A source that never comes. Live reads are one in ten seconds, 360 an hour, however many instances wait."""
    ready, waiting = resting(40, FluxBehaviour()), resting(40, FluxBehaviour(source_fetch_seconds=20_000.0))

    assert waiting.tasks - ready.tasks <= 360
