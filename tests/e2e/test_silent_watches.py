"""D22, D23: connections that stay open and say nothing, and a cache that holds what was never there."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller.informer.store import ObjectStore
from purekube.ports import KubeRequest, Watch, WatchEvent
from purekube_run.controller.informer import InformerRunner
from tests.support.e2e_world import INSTANCE, RELEASE, SOURCE, World
from tests.support.recording_client import Witness
from tests.support.servers import IN_PROCESS


def test_what_the_agent_applies_is_looked_at_though_every_watch_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The edit that the operator's own agent wrote went unseen for more than 100 seconds."""
    silent = [False]
    whole = Witness._watch

    async def watch(self: Witness, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        async for event in whole(self, request, proceed):
            if silent[0]:
                await anyio.sleep_forever()
            yield event

    monkeypatch.setattr(Witness, "_watch", watch)

    async def story(world: World) -> None:
        await world.ready()
        silent[0] = True
        world.ask("6.7.2", 8)
        desired = lambda: _version(world.find(SOURCE)) == "6.7.2" or _sources(world, "6.7.2")  # noqa: E731
        await world.until(desired, "the new version asked of Flux", seconds=10)

    IN_PROCESS.run(story)


def _version(manifest: Manifest | None) -> str:
    return str(((manifest or {}).get("spec") or {}).get("ref", {}).get("tag", ""))


def _sources(world: World, version: str) -> bool:
    page = world.hands.do(lambda api: api.list(SOURCE.kind, namespace=SOURCE.namespace))
    return any(_version(item) == version for item in page.items)


@pytest.mark.slow
def test_half_open_watches_are_left_for_others_within_a_minute_and_a_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Open streams fall silent for good, new ones work: an edit by somebody else is seen when bookmarks are overdue."""
    opened: list[int] = []
    deaf_until = [0]
    whole = Witness._watch

    async def watch(self: Witness, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        number = len(opened)
        opened.append(number)
        async for event in whole(self, request, proceed):
            if number < deaf_until[0]:
                await anyio.sleep_forever()
            yield event

    monkeypatch.setattr(Witness, "_watch", watch)

    async def story(world: World) -> None:
        await world.ready()
        deaf_until[0] = len(opened)
        world.edit(INSTANCE, {"spec": {"values": {"inline": {"replicaCount": 5}}}})
        await world.until(lambda: _replicas(world) == 5, "the edit", seconds=90)

    IN_PROCESS.run(story)


def _replicas(world: World) -> Any:
    return ((world.find(RELEASE) or {}).get("spec") or {}).get("values", {}).get("replicaCount")


@pytest.mark.slow
def test_a_cache_that_is_wrong_about_what_is_under_way_is_mended_within_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An instance stayed Installing beside a Ready HelmRelease, and nothing ever looked again."""
    stores: dict[Kind, ObjectStore] = {}
    made = InformerRunner.__init__

    def init(self: InformerRunner, api: Any, kind: Kind, **settings: Any) -> None:
        made(self, api, kind, **settings)
        stores[kind] = self.store

    monkeypatch.setattr(InformerRunner, "__init__", init)

    async def story(world: World) -> None:
        job = world.ask("6.6.0", 7)
        await world.until(lambda: world.find(RELEASE), "the HelmRelease")
        await world.until(lambda: stores[HELM_RELEASE].get(RELEASE.namespace, RELEASE.name), "it in the cache")
        poison = stores[HELM_RELEASE].get(RELEASE.namespace, RELEASE.name) or {}
        poison.pop("status", None)
        poison["metadata"]["resourceVersion"] = str(10**9)
        stores[HELM_RELEASE].put(poison)
        await world.until(lambda: job.result is not None, "the result", seconds=700)
        assert job.result is not None
        assert job.result["outcome"] == "succeeded"
        assert world.conditions()["Ready"] == "True/HelmReleaseReady"

    IN_PROCESS.run(story)
