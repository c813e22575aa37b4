"""RUN-11: large objects of a tenant are worked on like any others, and not held: each is read when its turn comes."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from tests.e2e.test_memory import LABELS, process
from tests.support.e2e_world import FIRST, NS, QUICK, World, instance
from tests.support.servers import START
from vworkspace_app.manager.manager import Manager
from vworkspace_core.apimachinery.manifest import ObjectRef, get_path
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, HELM_RELEASE
from vworkspace_core.controller.informer.outline import HELD_WHOLE
from vworkspace_fake.clock import VirtualClock, virtual_loop

pytestmark = pytest.mark.slow

LARGE = 400 * 1024


def large(name: str, size: int = LARGE, *, mark: str = "") -> dict[str, Any]:
    values = {"source": "inline", "inline": {"text": mark + "x" * size}}
    whole = instance(metadata={"name": name, "namespace": NS, "labels": LABELS})
    return {**whole, "spec": {**whole["spec"], "values": values, "release": {"name": name, "namespace": NS}}}


def played(story: Callable[[World, Manager], Any]) -> None:
    async def main() -> None:
        world = World.create(VirtualClock(), QUICK)
        async with process(world) as manager:
            await story(world, manager)

    anyio.run(main, backend_options={"loop_factory": virtual_loop(START)})


def values_of(world: World, name: str) -> Any:
    return get_path(world.get(ObjectRef(HELM_RELEASE, NS, name)), "spec", "values", "text")


def test_a_tenants_large_instance_is_installed_changed_and_removed_as_any_other_RUN_11() -> None:
    async def story(world: World, manager: Manager) -> None:
        world.create_object(large("big"), APPLICATION_INSTANCE)
        await world.until(lambda: world.running() == [FIRST], "it runs")
        assert values_of(world, "big") == "x" * LARGE
        ref = ObjectRef(APPLICATION_INSTANCE, NS, "big")
        patch = {"spec": {"values": {"inline": {"text": "changed" + "x" * LARGE}}}}
        world.edit(ref, patch)
        await world.until(lambda: str(values_of(world, "big")).startswith("changed"), "the change arrives")
        await world.clock.sleep(60)
        world.forget_writes()
        await world.clock.sleep(3_600)
        assert not [write for write in world.writes() if "big" in str(write)], "settled is settled"
        for kind in (APPLICATION_INSTANCE, HELM_RELEASE):
            assert manager.informers.store(kind).bytes < HELD_WHOLE
        world.edit(ref, {"spec": {"values": {"inline": {"text": "small"}}}})
        await world.until(lambda: values_of(world, "big") == "small", "what was large may become small")
        world.delete_object(ref)
        await world.until(lambda: not world.running(), "it goes")

    played(story)
