"""Reconcilers and watchers at work, as in a process: what each is told, and what the object says (PH-7)."""

import attrs

from purekube.apimachinery.manifest import get_path
from purekube.reconcilers import Cause, Constant, Object, Reconciler, Request, Result, Terminal
from tests.support.controller_site import SHOP, Audit, ControllerSite, ShopSpec, ShopStatus, play

Shop = Object[ShopSpec, ShopStatus]


@attrs.define
class Shops(Reconciler[Shop, int]):
    """Fails as often as it is told to."""

    kind = SHOP
    retry = Constant(1.0)
    failures: list[BaseException] = attrs.field(factory=list)
    requests: list[Request[Shop, int]] = attrs.field(factory=list)

    async def reconcile(self, request: Request[Shop, int]) -> Result[int]:
        self.requests.append(request)
        if self.failures:
            raise self.failures.pop(0)
        return Result(ShopStatus("r-1", request.object.spec.replicas), state=len(self.requests))

    @property
    def causes(self) -> list[Cause]:
        return [request.cause for request in self.requests]


def test_a_life_from_creation_to_deletion_across_a_restart() -> None:
    shops, later, audit, again = Shops(), Shops(), Audit(), Audit()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops, audit):
            ref = await site.create()
            await site.clock.sleep(5)
            assert set(await site.finalizers(ref)) == {"example.com/shops", "example.com/audit"}
            await site.edit(ref, {"spec": {"replicas": 3}})
            await site.until_ready(ref)
            await site.clock.sleep(30)
        assert get_path(await site.get(ref), "status", "seen") == 3
        before = site.server.store.version
        async with site.running(later, again):
            await site.clock.sleep(30)
            assert site.server.store.version == before, "a restart writes nothing"
            await site.admin.delete(ref)
            await site.until_gone(ref)

    play(story)
    assert shops.causes == [Cause.CREATED, Cause.CHANGED]
    assert [request.object.metadata.finalizers != () for request in shops.requests] == [True, True]
    assert [(request.cause, request.settled, request.deleting) for request in later.requests] == [
        (Cause.SYNCED, True, False),
        (Cause.CHANGED, False, True),
    ]
    assert audit.told == [("add", 1), ("update", 1, 3)]
    assert again.told == [("sync", 3), ("delete", 3)]


def test_a_failure_is_told_and_retried_with_the_current_object_and_the_last_state() -> None:
    shops = Shops()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.until_ready(ref)
            shops.failures += [ConnectionError("no route"), ConnectionError("no route")]
            await site.edit(ref, {"spec": {"replicas": 2}})
            await site.until_ready(ref, "False")
            assert await site.condition(ref) == ("False", "ReconcileFailed", "ConnectionError: no route")
            assert await site.condition(ref, "Reconciling") == ("True", "Retrying", "ConnectionError: no route")
            await site.edit(ref, {"metadata": {"annotations": {"not": "asked"}}, "spec": {"replicas": 5}})
            await site.until_ready(ref)

    play(story)
    assert [request.object.spec.replicas for request in shops.requests][-1] == 5
    assert [request.state for request in shops.requests] == [None, 1, 1, 1]


def test_a_terminal_error_is_told_and_waits_for_a_change() -> None:
    shops = Shops([Terminal("SpecTooLarge", "at most 50 replicas")])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.until_ready(ref, "False")
            assert await site.condition(ref, "Stalled") == ("True", "SpecTooLarge", "at most 50 replicas")
            await site.clock.sleep(3600)
            assert len(shops.requests) == 1
            await site.edit(ref, {"spec": {"replicas": 4}})
            await site.until_ready(ref)

    play(story)
    assert shops.causes == [Cause.CREATED, Cause.CHANGED]
