"""PH-6, PH-10: what a box asks of the API server for an object does not grow with the number of objects."""

from collections.abc import AsyncIterator, Callable, Mapping
from itertools import pairwise
from typing import Any, Final

import attrs
import msgspec
import pytest

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.ports import KubeRequest, Send, Watch, WatchEvent
from tests.support.box_site import QUICK, BoxSite, applied_example, example, in_process

BOX: Final = example("webapp")
SPEC: Final = {"image": "registry.example/web:1", "replicas": 2, "host": "web.example.com"}
COUNTS: Final = (5, 15, 45)


@attrs.define
class Traffic:
    """What passes between a process and the API server: requests, and the bytes of bodies, answers and events."""

    requests: int = 0
    bytes: int = 0

    async def answered(self, request: KubeRequest, send: Send) -> Manifest:
        """A layer that counts a request with its answer."""
        answer = await send(request)
        self._add(request.body, answer)
        return answer

    async def watched(self, request: KubeRequest, open_watch: Watch) -> AsyncIterator[WatchEvent]:
        """A layer that counts a watch with its events."""
        self._add()
        async for event in open_watch(request):
            self.bytes += _size(event.object)
            yield event

    def _add(self, *bodies: Mapping[str, Any] | None) -> None:
        self.requests += 1
        self.bytes += sum(_size(body) for body in bodies if body is not None)


def _size(body: Mapping[str, Any]) -> int:
    return len(msgspec.json.encode(body))


Play = Callable[[BoxSite, int], AsyncIterator[str]]
"""A play with so many objects, which names each of its acts when that is over."""


async def of_a_file(site: BoxSite, count: int) -> AsyncIterator[str]:
    await site.install(BOX.crd)
    async with site.running(BOX):
        await created(site, count)
        yield "created"
    async with site.running(BOX):
        await site.clock.sleep(30)
        yield "restarted"


async def applied(site: BoxSite, count: int) -> AsyncIterator[str]:
    await site.install(applied_box_definition())
    spec = applied_example("webapp")["spec"]
    async with site.serving():
        await rolled_out(site, spec, 0)
        await created(site, count)
        await rolled_out(site, spec, count)
        yield "created"
        changed = msgspec.json.encode(spec).replace(b"8080", b"8081")
        await rolled_out(site, msgspec.json.decode(changed), count)
        yield "rolled out"
    async with site.serving():
        await site.clock.sleep(30)
        yield "restarted"


async def created(site: BoxSite, count: int) -> None:
    for ref in [await site.create(BOX.kind, f"web-{number:03}", spec=SPEC) for number in range(count)]:
        await site.until_ready(ref)
    await site.clock.sleep(30)


async def rolled_out(site: BoxSite, spec: Mapping[str, Any], objects: int) -> None:
    ref = await site.apply_box("webapp", spec)

    async def is_over() -> bool:
        is_true = (await site.condition(ref, "RolledOut"))[0] == "True"
        return is_true and get_path(await site.get(ref), "status", "ready") == objects

    await site.until(is_over)
    await site.clock.sleep(30)


def traffic_of(play: Play, count: int) -> dict[str, Traffic]:
    """The traffic of each act."""
    acts: dict[str, Traffic] = {}

    async def story(site: BoxSite) -> None:
        traffic = Traffic()
        site.api = site.api.through(traffic.answered, traffic.watched)
        async for act in play(site, count):
            acts[act] = attrs.evolve(traffic)
            traffic.requests = traffic.bytes = 0

    in_process(story, QUICK)
    return acts


def of_one_more(few: Traffic, many: Traffic, count: int) -> tuple[float, float]:
    """The requests and bytes for each of so many further objects."""
    return (many.requests - few.requests) / count, (many.bytes - few.bytes) / count


@pytest.mark.slow
@pytest.mark.parametrize("play", [of_a_file, applied])
def test_traffic_for_one_more_object_is_the_same_however_many_there_are_PH_6_PH_10(play: Play) -> None:
    acts = [(count, traffic_of(play, count)) for count in COUNTS]
    for act in acts[0][1]:
        first, second = (
            of_one_more(few[act], many[act], more - count) for (count, few), (more, many) in pairwise(acts)
        )
        assert second[0] <= 1.05 * first[0], (act, first, second)
        assert second[1] <= 1.05 * first[1], (act, first, second)
