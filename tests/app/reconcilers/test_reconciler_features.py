"""The promises of boxes.md section 5, one by one: what is kept, and what `plain` switches off (PH-7)."""

import asyncio
from collections.abc import Collection
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Forbidden, Unavailable
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT
from purekube.controller.informer.outline import HELD_WHOLE
from purekube.controller.shard import Shard, shard_of
from purekube.ports import KubeRequest, KubeVerb, WatchEvent, WatchEventType
from purekube.reconcilers import (
    METADATA_ONLY,
    Cause,
    Constant,
    DesiredCondition,
    Event,
    Feature,
    Filters,
    Never,
    Object,
    Reconciler,
    Request,
    Result,
    Terminal,
    Watch,
    Watcher,
)
from purekube.reconcilers.progress import NOTHING
from purekube_run.simulation.faults import Fault, WatchFaults
from tests.support.controller_site import NS, SHOP, ControllerSite, ShopSpec, ShopStatus, play
from tests.support.run_by import run_by

Shop = Object[ShopSpec, ShopStatus]


@attrs.define
class Shops(Reconciler[Shop, str]):
    """Does what a test puts into `answers`, one a call, and then nothing."""

    kind = SHOP
    retry = Constant(1.0)
    timeout = 10.0
    conditions = ("Reachable",)
    answers: list[Any] = attrs.field(factory=list)
    requests: list[Request[Shop, str]] = attrs.field(factory=list)
    at: list[float] = attrs.field(factory=list)

    async def reconcile(self, request: Request[Shop, str]) -> Result[str]:
        self.requests.append(request)
        self.at.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if self.answers else Result()
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, tuple):
            await asyncio.sleep(answer[0])
            answer = answer[1]
        return answer

    @property
    def causes(self) -> list[Cause]:
        return [request.cause for request in self.requests]


def without(*features: Feature) -> type[Shops]:
    """A reconciler to which all but these is promised."""
    return type("Shops", (Shops,), {"plain": features})


def test_events_of_a_result_are_written_about_the_object_and_repeats_are_one_series() -> None:
    told = Result[str](events=[Event("Bought", "two chairs"), Event("Late", "by a day", warning=True)])
    shops = without(Feature.CONDITIONS)([told, told])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.clock.sleep(2)
            await site.edit(ref, {"metadata": {"labels": {"look": "again"}}})
            await site.clock.sleep(600)
            bought, late = sorted((await site.admin.list(EVENT)).items, key=lambda event: str(event["reason"]))
        assert [bought["type"], late["type"]] == ["Normal", "Warning"]
        assert (bought["note"], bought["regarding"]["name"]) == ("two chairs", "shop")
        assert bought["series"]["count"] == 2

    play(story)
    assert len(shops.requests) == 2


@pytest.mark.parametrize("reason", ["", "two words", "A" * 129])
def test_an_event_that_an_api_server_would_refuse_cannot_be_made(reason: str) -> None:
    with pytest.raises(ValueError, match="must be in CamelCase"):
        Event(reason, "nothing")


@pytest.mark.parametrize("failures", [1, 3])
def test_an_event_outlives_a_status_write_that_fails(failures: int) -> None:
    """The state went on with the call, so that the next one says nothing."""
    shops = Shops([Result(ShopStatus("r-1"), state="told", events=[Event("Bought", "two chairs")])])

    async def story(site: ControllerSite) -> None:
        lost = [Unavailable("away")] * failures
        site.faults.schedule = lambda request: Fault(lost.pop()) if request.subresource == "status" and lost else None
        async with site.running(shops):
            await site.create()
            await site.clock.sleep(60)
            assert await site.events("Bought") == ["two chairs"]

    play(story)
    assert shops.requests[1].state == "told"


def test_a_result_takes_nothing_else_for_an_event() -> None:
    with pytest.raises(TypeError, match="Bought"):
        Result[str](events=["Bought"])  # type: ignore[list-item]


def test_finalizer_before_the_first_reconcile_and_off_after_a_clean_deletion() -> None:
    shops = Shops([Result(), RuntimeError("not yet"), Result(requeue_after=5), Result(waiting="remote"), Result()])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.until_ready(ref)
            await site.admin.delete(ref)
            await site.clock.sleep(2)
            assert await site.finalizers(ref) == ["example.com/shops"], "it raised, and asked to come again"
            await site.clock.sleep(8)
            assert (await site.condition(ref))[1:] == ("Deleting", "remote")
            await site.edit(ref, {"metadata": {"labels": {"look": "again"}}})
            await site.until_gone(ref)

    play(story)
    assert all(request.object.metadata.finalizers == ("example.com/shops",) for request in shops.requests)
    assert [request.deleting for request in shops.requests] == [False, True, True, True, True]


def test_plain_without_finalizer_tells_a_deletion_as_long_as_the_process_sees_it() -> None:
    shops = without(Feature.FINALIZER)([Result(), RuntimeError("again")])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create(spec={"replicas": 7})
            await site.until_ready(ref)
            assert not await site.finalizers(ref)
            await site.admin.delete(ref)
            await site.clock.sleep(5)

    play(story)
    assert [(request.deleting, request.object.spec.replicas) for request in shops.requests] == [
        (False, 7),
        (True, 7),
        (True, 7),
    ]


def test_a_deletion_during_the_first_call_is_told_without_a_finalizer() -> None:
    shops = without(Feature.FINALIZER)([(5.0, Result())])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.clock.sleep(2)
            await site.admin.delete(ref)
            await site.clock.sleep(10)

    play(story)
    assert [request.deleting for request in shops.requests] == [False, True]


def test_a_deletion_by_force_is_told_from_the_last_state() -> None:
    shops = Shops()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.until_ready(ref)
            await site.edit(ref, {"metadata": {"finalizers": None}})
            await site.admin.delete(ref)
            await site.clock.sleep(5)

    play(story)
    assert shops.requests[-1].deleting


@pytest.mark.parametrize("plain", [(), (Feature.FINALIZER,)])
def test_a_version_that_is_not_served_for_a_while_is_no_deletion(plain: Collection[Feature]) -> None:
    shops = without(*plain)()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.until_ready(ref)
            definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, SHOP.kind.crd_name)
            (version,) = (await site.admin.get(definition))["spec"]["versions"]
            for served in (False, True):
                await site.edit(definition, {"spec": {"versions": [{**version, "served": served}]}})
                await site.clock.sleep(600)
            assert shops.causes == [Cause.CREATED, Cause.RESYNCED]
            await site.admin.delete(ref)
            await site.clock.sleep(10)
            assert await site.get(ref) is None

    play(story)
    assert [request.deleting for request in shops.requests] == [False, False, True]


def test_an_object_that_is_no_longer_selected_can_be_deleted() -> None:
    class Chosen(Shops):
        name = "shops"
        watch = Watch(label_selector="ours=yes")

    shops = Chosen()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            lost = [Unavailable("away")]
            for chosen in ("yes", "no", "yes", "no"):
                await site.edit(ref, {"metadata": {"labels": {"ours": chosen}}})
                await site.clock.sleep(30)
                assert bool(await site.finalizers(ref)) is (chosen == "yes")
                site.faults.schedule = lambda request: (
                    Fault(lost.pop()) if request.verb is KubeVerb.PATCH and lost else None
                )
            await site.admin.delete(ref)
            assert await site.get(ref) is None

    play(story)
    assert [request.deleting for request in shops.requests] == [False, True, False, True]


@pytest.mark.parametrize("error", [RuntimeError("no route"), Terminal("CallFailed", "RuntimeError: no route")])
@run_by(play)
async def test_a_cleanup_that_fails_for_an_object_that_is_no_longer_selected_is_told(
    site: ControllerSite, *, error: Exception
) -> None:
    """Its status is not written any more, and would go on to say Ready, while its deletion waits for the finalizer."""
    chosen = Watch(label_selector="ours=yes")
    shops = type("Shops", (Shops,), {"watch": chosen})([Result(), *[error] * 5])
    async with site.running(shops):
        ref = await site.create(metadata={"name": "shop", "namespace": NS, "labels": {"ours": "yes"}})
        await site.until_ready(ref)
        await site.edit(ref, {"metadata": {"labels": {"ours": "no"}}})
        await site.clock.sleep(3.5)
        assert await site.events("CallFailed") == ["shops: RuntimeError: no route"]


@pytest.mark.parametrize(("size", "fields"), [(HELD_WHOLE, None), (9, METADATA_ONLY)])
def test_what_is_no_longer_selected_is_cleaned_up_as_a_whole(size: int, fields: tuple[str, ...] | None) -> None:
    """The cache has only a part of a large object, or no spec at all, whose defaults would name something else."""
    chosen = Watch(label_selector="ours=yes", fields=fields)
    shops = type("Shops", (Shops,), {"watch": chosen})()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            meta = {"name": "shop", "namespace": NS, "labels": {"ours": "yes"}}
            ref = await site.create(metadata=meta, spec={"image": "x" * size})
            await site.until_ready(ref)
            await site.edit(ref, {"metadata": {"labels": {"ours": "no"}}})
            await site.clock.sleep(30)
            assert not await site.finalizers(ref)

    play(story)
    told = [(request.deleting, request.object.spec.image) for request in shops.requests]
    assert told == [(False, "x" * size), (True, "x" * size)]


@run_by(play)
async def test_a_finalizer_that_somebody_takes_off_comes_back(site: ControllerSite) -> None:
    async with site.running(Shops()):
        ref = await site.create()
        await site.until_ready(ref)
        await site.edit(ref, {"metadata": {"finalizers": ["other.example/keep"]}})
        await site.clock.sleep(1)
        assert await site.finalizers(ref) == ["other.example/keep", "example.com/shops"]


@pytest.mark.parametrize(("plain", "told"), [((), Cause.SYNCED), ((Feature.SYNC,), Cause.CREATED)])
def test_adds_after_a_restart_are_syncs(plain: Collection[Feature], told: Cause) -> None:
    shops = without(*plain)()

    async def story(site: ControllerSite) -> None:
        async with site.running(Shops()):
            ref = await site.create()
            await site.until_ready(ref)
        async with site.running(shops):
            await site.clock.sleep(5)

    play(story)
    assert shops.causes == [told]
    assert shops.requests[0].settled is (told is Cause.SYNCED)


def test_an_object_that_never_became_ready_is_synced_and_not_settled() -> None:
    shops = Shops()

    async def story(site: ControllerSite) -> None:
        async with site.running(Shops([RuntimeError("no")] * 3)):
            await site.create()
            await site.clock.sleep(1.5)
        async with site.running(shops):
            await site.clock.sleep(5)

    play(story)
    assert [(request.cause, request.settled) for request in shops.requests] == [(Cause.SYNCED, False)]


@pytest.mark.parametrize(("plain", "calls"), [((), 1), ((Feature.FILTER,), 2)])
def test_updates_that_change_nothing_that_counts_are_dropped(plain: Collection[Feature], calls: int) -> None:
    shops = without(*plain)()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.until_ready(ref)
            await site.admin.patch(
                ref,
                {"status": {"seen": 4}},
                patch_type="application/merge-patch+json",  # type: ignore[arg-type]
                field_manager="other",
                subresource="status",
            )
            await site.clock.sleep(5)

    play(story)
    assert len(shops.requests) == calls


@run_by(play)
async def test_a_slow_call_for_a_large_object_delays_no_other(site: ControllerSite) -> None:
    shops = Shops([(8.0, Result())] * 4)
    async with site.running(shops):
        large = [await site.create(f"large-{number}", spec={"image": "x" * HELD_WHOLE}) for number in range(4)]
        await site.clock.sleep(10)
        assert [(await site.condition(ref))[0] for ref in large] == ["True"] * 4
        assert [len(request.object.spec.image) for request in shops.requests] == [HELD_WHOLE] * 4


@pytest.mark.parametrize("is_ours", [True, False])
@run_by(play)
async def test_changes_of_objects_of_other_shards_are_not_kept(site: ControllerSite, *, is_ours: bool) -> None:
    class Resynced(Shops):
        resync = 20.0

    shops = Resynced()
    mine = shard_of(NS, 2)

    async with site.running(shops, shard=Shard(mine if is_ours else 1 - mine, 2)) as manager:
        (passes,) = manager.extensions.python
        ref = await site.create()
        await site.clock.sleep(30)
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.clock.sleep(5)
        passes.pending_events.begin(ref)
        assert passes.pending_events.wake(ref) == NOTHING
        assert bool(shops.requests) is is_ours


def test_filters_choose_what_counts_and_a_deletion_always_does() -> None:
    class Picky(Shops):
        filters = Filters(
            generation=False,
            labels=("wanted",),
            annotations=False,
            predicate=lambda old, new: bool(get_path(new, "spec", "replicas") == 9),
        )

    shops = Picky()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            for patch in (
                {"spec": {"replicas": 2}},
                {"metadata": {"labels": {"other": "1"}}},
                {"metadata": {"annotations": {"wanted": "1"}}},
            ):
                await site.edit(ref, patch)
                await site.clock.sleep(1)
            assert len(shops.requests) == 1
            await site.edit(ref, {"metadata": {"labels": {"wanted": "1"}}})
            await site.clock.sleep(1)
            await site.edit(ref, {"spec": {"replicas": 9}})
            await site.clock.sleep(1)
            await site.admin.delete(ref)
            await site.until_gone(ref)

    play(story)
    assert [request.deleting for request in shops.requests] == [False, False, False, True]


@pytest.mark.parametrize(
    ("plain", "retry", "calls"), [((), Constant(1.0), 3), ((Feature.RETRY,), Constant(1.0), 1), ((), Never(), 1)]
)
@run_by(play)
async def test_what_raised_is_retried_by_its_policy(
    site: ControllerSite, *, plain: Collection[Feature], retry: Any, calls: int
) -> None:
    made = type("Shops", (Shops,), {"plain": plain, "retry": retry})
    shops = made([RuntimeError("no"), RuntimeError("no")])
    async with site.running(shops):
        ref = await site.create()
        await site.clock.sleep(60)
        assert len(shops.requests) == calls
        assert (await site.condition(ref, "Stalled"))[0] == ("True" if calls == 1 else "False")
        shops.answers.clear()
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.until_ready(ref)


def test_a_retry_is_never_dropped_and_reads_the_current_object() -> None:
    shops = Shops([RuntimeError("no")] * 40)

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.clock.sleep(20)
            await site.edit(ref, {"spec": {"replicas": 2}})
            await site.until_ready(ref)

    play(story)
    assert len(shops.requests) == 41
    assert {request.object.spec.replicas for request in shops.requests[25:]} == {2}
    assert [request.attempt for request in shops.requests] == [*range(41)]


@pytest.mark.parametrize(("plain", "state"), [((), "etag"), ((Feature.STATE,), None)])
def test_the_state_goes_back_on_the_next_call_and_survives_failures(
    plain: Collection[Feature], state: str | None
) -> None:
    shops = without(*plain)([Result(state="etag", requeue_after=1), RuntimeError("no"), Result(state="etag")])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.clock.sleep(10)
            await site.admin.delete(ref)
            await site.until_gone(ref)
            await site.create()
            await site.clock.sleep(1)

    play(story)
    assert [request.state for request in shops.requests] == [None, state, state, state, None]
    assert shops.causes[1:3] == [Cause.RESYNCED, Cause.RETRIED]


@pytest.mark.parametrize(("plain", "calls"), [((), 1), ((Feature.ECHO, Feature.FILTER), 2)])
def test_own_status_writes_do_not_wake(plain: Collection[Feature], calls: int) -> None:
    shops = without(*plain)([Result(ShopStatus(seen=1)), Result(ShopStatus(seen=1))])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            await site.create()
            await site.clock.sleep(30)

    play(story)
    assert calls <= len(shops.requests) <= 2 * calls - 1


@pytest.mark.parametrize("plain", [(), (Feature.CONDITIONS,)])
@run_by(play)
async def test_conditions_are_written_from_the_outcome(site: ControllerSite, *, plain: Collection[Feature]) -> None:
    shops = without(*plain)([Result(ShopStatus("r-1"), waiting="for the remote database"), Result(ShopStatus("r-2"))])
    async with site.running(shops):
        ref = await site.create()
        await site.clock.sleep(1)
        assert get_path(await site.get(ref), "status", "remoteId") == "r-1"
        ready, under_way = await site.condition(ref), await site.condition(ref, "Reconciling")
        assert ready == (("", "", "") if plain else ("False", "Progressing", "for the remote database"))
        assert under_way[0] == ("" if plain else "True")
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.clock.sleep(1)
        assert get_path(await site.get(ref), "status", "remoteId") == "r-2"
        observed = get_path(await site.get(ref), "status", "observedGeneration")
        assert observed == (None if plain else 2)


@pytest.mark.parametrize("plain", [(), (Feature.CONDITIONS,)])
@run_by(play)
async def test_a_field_that_becomes_empty_is_removed(site: ControllerSite, *, plain: Collection[Feature]) -> None:
    shops = without(*plain)([Result(ShopStatus("r-1", 2), requeue_after=1), Result(ShopStatus("", 2))])
    async with site.running(shops):
        ref = await site.create()
        await site.clock.sleep(10)
        status = get_path(await site.get(ref), "status") or {}
        assert (status.get("remoteId"), status.get("seen")) == (None, 2)


@pytest.mark.parametrize("plain", [(), (Feature.LIMIT,)])
def test_a_call_is_cancelled_at_its_time_limit(plain: Collection[Feature]) -> None:
    shops = without(*plain)([(30.0, Result())])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.clock.sleep(10.5)
            told = await site.condition(ref)
            assert told == (("", "", "") if plain else ("False", "TimedOut", "the call was cancelled after 10 s"))
            await site.until_ready(ref)

    play(story)
    assert shops.at[-1] - shops.at[0] == (0.0 if plain else 11.0)


@pytest.mark.parametrize(
    "trap",
    [
        asyncio.CancelledError(),
        SystemExit(3),
        ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
        BaseExceptionGroup("worse", [SystemExit(1)]),
        GeneratorExit("odd"),
        RecursionError(),
    ],
    ids=lambda trap: type(trap).__name__,
)
def test_whatever_is_raised_stays_with_its_object(trap: BaseException) -> None:
    quiet = {"plain": (Feature.CONDITIONS, Feature.STATUS)}
    shops, other = Shops([trap]), type("Other", (Shops,), quiet)()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops, other):
            ref = await site.create()
            await site.clock.sleep(0.5)
            assert (await site.condition(ref))[1] == "ReconcileFailed"
            await site.until_ready(ref)
            await site.edit(ref, {"spec": {"replicas": 2}})
            await site.until_ready(ref)

    play(story)
    assert [len(one.requests) for one in (shops, other)] == [3, 2]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("no result", "Shops returned str, not a Result"),
        (None, "Shops returned NoneType, not a Result"),
        (
            Result(status=ShopStatus(object())),  # type: ignore[arg-type]
            "Shops returned a status that is no JSON: Encoding objects of type object is unsupported",
        ),
        (Result(status=ShopSpec()), "Shops returned a ShopSpec as status: it must be a ShopStatus"),
        (
            Result(conditions=(DesiredCondition("Strange", ConditionStatus.TRUE, "Yes"),)),
            "Shops returned the conditions Strange, which `conditions` does not name",
        ),
    ],
)
@run_by(play)
async def test_an_answer_that_cannot_be_written_says_so_on_the_object(
    site: ControllerSite, *, answer: Any, says: str
) -> None:
    async with site.running(Shops([answer])):
        ref = await site.create()
        await site.clock.sleep(0.5)
        assert await site.condition(ref) == ("False", "ReconcileFailed", says)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"plain": (Feature.CONDITIONS,)}, "it says `plain` of them"),
        ({"kind": CONFIG_MAP}, "somebody else's status is not written"),
    ],
)
@run_by(play)
async def test_conditions_that_nothing_writes_are_told(site: ControllerSite, *, declared: Any, says: str) -> None:
    reachable = DesiredCondition("Reachable", ConditionStatus.TRUE, "Answered")
    shops = type("Shops", (Shops,), declared)([Result(conditions=[reachable])])
    async with site.running(shops):
        await site.create(kind=declared.get("kind", SHOP.kind))
        await site.clock.sleep(0.5)
        (note,) = await site.events("CallFailed")
        assert note == f"shops: Shops returned conditions: {says}; return a Result without one"


@run_by(play)
async def test_own_conditions_stand_beside_and_survive_a_failure(site: ControllerSite) -> None:
    reachable = DesiredCondition("Reachable", ConditionStatus.TRUE, "Answered", "in 3 ms")
    shops = Shops([Result(conditions=[reachable]), RuntimeError("no"), Result()])
    async with site.running(shops):
        ref = await site.create()
        await site.until_ready(ref)
        assert await site.condition(ref, "Reachable") == ("True", "Answered", "in 3 ms")
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.until_ready(ref, "False")
        assert (await site.condition(ref, "Reachable", current=False))[0] == "True"
        await site.until_ready(ref)
        assert await site.condition(ref, "Reachable") == ("", "", "")


def test_an_edit_during_a_call_loses_nothing_of_what_the_call_found() -> None:
    """The status is written on the newer copy, for the generation that was worked on; then comes the new one."""
    shops = Shops([(3.0, Result(ShopStatus("r-1")))])

    async def story(site: ControllerSite) -> None:
        async with site.running(shops):
            ref = await site.create()
            await site.clock.sleep(1)
            await site.edit(ref, {"spec": {"replicas": 2}})
            await site.until_ready(ref)
            assert get_path(await site.get(ref), "status", "remoteId") == "r-1"

    play(story)
    assert [request.object.spec.replicas for request in shops.requests] == [1, 2]


@run_by(play)
async def test_a_terminal_error_is_told_by_an_event_too(site: ControllerSite) -> None:
    shops = Shops([Terminal("SpecTooLarge", "token=abcdefgh1234 is too large")])
    async with site.running(shops):
        ref = await site.create()
        await site.clock.sleep(5)
        (note,) = await site.events("SpecTooLarge")
        assert note.startswith("Stalled is True:")
        assert "abcdefgh1234" not in note + str(await site.get(ref)), "no secret in any output"


@run_by(play)
async def test_a_terminal_error_is_told_on_the_object_although_the_first_status_write_failed(
    site: ControllerSite,
) -> None:
    shops = Shops([Terminal("TooMany", "at most 50")] * 9)
    lost = [Unavailable("away")] * 3

    def schedule(request: KubeRequest) -> Fault | None:
        return Fault(lost.pop()) if request.subresource == "status" and lost else None

    site.faults.schedule = schedule
    async with site.running(shops):
        ref = await site.create()
        await site.clock.sleep(60)
        assert await site.condition(ref, "Stalled") == ("True", "TooMany", "at most 50")


@attrs.define
class Maps(Watcher[Any]):
    """Somebody else's objects, as manifests."""

    kind = CONFIG_MAP
    told: list[tuple[str, Any]] = attrs.field(factory=list)

    async def on_add(self, new: Any) -> None:
        self.told.append(("add", new["data"]))

    async def on_update(self, old: Any, new: Any) -> None:
        self.told.append(("update", (old["data"], new["data"])))

    async def on_delete(self, last: Any) -> None:
        self.told.append(("delete", last["data"]))


def test_a_watcher_of_somebody_elses_kind_leaves_its_objects_alone() -> None:
    maps = Maps()

    async def story(site: ControllerSite) -> None:
        async with site.running(maps):
            ref = await site.create("settings", CONFIG_MAP, data={"a": "1"})
            await site.clock.sleep(1)
            version = get_path(await site.get(ref), "metadata", "resourceVersion")
            await site.clock.sleep(5)
            assert get_path(await site.get(ref), "metadata", "resourceVersion") == version
            await site.edit(ref, {"data": {"a": "2"}})
            await site.clock.sleep(1)
            await site.admin.delete(ObjectRef(CONFIG_MAP, NS, "settings"))
            await site.clock.sleep(1)

    play(story)
    assert maps.told == [("add", {"a": "1"}), ("update", ({"a": "1"}, {"a": "2"})), ("delete", {"a": "2"})]


def test_a_large_object_whose_former_state_is_not_in_memory_is_synced() -> None:
    class Synced(Maps):
        async def on_sync(self, now: Any) -> None:
            self.told.append(("sync", now["data"]["b"]))

    maps = Synced()

    async def story(site: ControllerSite) -> None:
        async with site.running(maps):
            ref = await site.create("settings", CONFIG_MAP, data={"a": "x" * HELD_WHOLE, "b": "1"})
            await site.clock.sleep(1)
            await site.edit(ref, {"data": {"b": "2"}})
            await site.clock.sleep(60)
            assert not await site.events("CallFailed")

    play(story)
    assert maps.told[1:] == [("sync", "2")]


class LateDeletions(WatchFaults):
    """Delivers each deletion after a minute."""

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        await asyncio.sleep(60 if event.type is WatchEventType.DELETED else 0)
        return True


def test_a_deletion_that_a_live_read_saw_before_the_watch_is_told() -> None:
    """A large object is read live in each pass, such as that of a resync."""

    class Resynced(Maps):
        resync = 20.0

        async def on_delete(self, last: Any) -> None:
            self.told.append(("delete", last["metadata"]["name"]))

    maps = Resynced()

    async def story(site: ControllerSite) -> None:
        async with site.running(maps):
            ref = await site.create("settings", CONFIG_MAP, data={"a": "x" * HELD_WHOLE})
            await site.clock.sleep(1)
            await site.admin.delete(ref)
            await site.clock.sleep(120)

    play(story, streams=LateDeletions())
    assert [what for what, _ in maps.told] == ["add", "delete"]


@attrs.define
class Held(Reconciler[Any, None]):
    """Somebody else's objects, with a finalizer where it is asked for."""

    kind = CONFIG_MAP
    retry = Constant(1.0)
    failures: list[Exception] = attrs.field(factory=list)
    told: list[tuple[bool, Any]] = attrs.field(factory=list)

    async def reconcile(self, request: Request[Any, None]) -> Result[None]:
        self.told.append((request.deleting, request.object["data"]))
        if self.failures:
            raise self.failures.pop(0)
        return Result()


@pytest.mark.parametrize(("plain", "finalizers"), [(None, ()), ((), ["controller.vworkspace.io/held"])])
def test_a_reconciler_of_somebody_elses_kind_writes_only_what_it_is_asked_for(plain: Any, finalizers: Any) -> None:
    held = type("Held", (Held,), {"plain": plain})([RuntimeError("no")])

    async def story(site: ControllerSite) -> None:
        async with site.running(held):
            ref = await site.create("settings", CONFIG_MAP, data={"a": "1"})
            await site.clock.sleep(5)
            assert await site.events("CallFailed") == ["held: RuntimeError: no"]
            assert await site.finalizers(ref) == finalizers
            assert "status" not in (await site.get(ref) or {})
            await site.admin.delete(ref)
            await site.until_gone(ref)
            await site.clock.sleep(5)

    play(story)
    assert held.told == [(False, {"a": "1"}), (False, {"a": "1"}), (True, {"a": "1"})]


@attrs.define
class Failing(Watcher[Shop]):
    """Fails with what it is given."""

    kind = SHOP
    retry = Constant(10.0)
    failures: list[BaseException] = attrs.field(factory=list)
    added: int = 0

    async def on_add(self, new: Shop) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.added += 1


@run_by(play)
async def test_what_a_watcher_raises_is_told_by_one_event_and_no_status(site: ControllerSite) -> None:
    watcher = Failing([RuntimeError("no route"), RuntimeError("no route"), asyncio.CancelledError()])
    async with site.running(watcher):
        ref = await site.create()
        await site.clock.sleep(60)
        assert watcher.added == 1
        assert await site.events("CallFailed") == ["failing: RuntimeError: no route", "failing: CancelledError"]
        assert "status" not in (await site.get(ref) or {})


@run_by(play)
async def test_a_waiting_object_is_looked_at_again_though_nobody_says_when(site: ControllerSite) -> None:
    shops = Shops([Result(waiting="for somebody"), Result()])
    async with site.running(shops):
        ref = await site.create()
        await site.clock.sleep(59)
        assert len(shops.requests) == 1
        await site.until_ready(ref)


@run_by(play)
async def test_an_object_that_does_not_fit_its_classes_says_why_and_is_worked_on_once_it_does(
    site: ControllerSite,
) -> None:
    shops = Shops()
    loose = SHOP.crd()
    loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    await site.edit(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, "shops.example.com"), {"spec": loose["spec"]})
    async with site.running(shops):
        ref = await site.create(spec={"replicas": "many"})
        await site.clock.sleep(1)
        status, reason, message = await site.condition(ref, "Stalled")
        assert (status, reason) == ("True", "ObjectUnreadable")
        assert "spec.replicas" in message
        assert not shops.requests
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.until_ready(ref)


@run_by(play)
async def test_a_right_that_is_missing_is_told_on_the_object_with_the_command_that_gives_it(
    site: ControllerSite,
) -> None:
    refused = 'User "system:x" cannot patch resource "shops" in API group "example.com" in the namespace "team"'
    site.faults.schedule = lambda call: Fault(Forbidden(refused)) if call.verb == "patch" else None
    async with site.running(Shops()):
        ref = await site.create()
        await site.clock.sleep(5)
        status, reason, message = await site.condition(ref, "Stalled")
        assert (status, reason) == ("True", "Forbidden")
        assert "vworkspace-operator controllers rbac shops --namespace team | kubectl apply" in message
        site.faults.schedule = lambda call: None
        await site.clock.sleep(60)
        assert (await site.condition(ref))[0] == "True"


@run_by(play)
async def test_a_status_that_somebody_holds_is_told_and_not_taken(site: ControllerSite) -> None:
    shops = Shops([Result(ShopStatus("r-1")), Result(ShopStatus("r-2")), Result(ShopStatus("r-2"))])
    async with site.running(shops):
        ref = await site.create()
        await site.until_ready(ref)
        taken = {**SHOP.kind.manifest("shop", NS), "status": {"remoteId": "mine"}}
        await site.admin.apply_status(taken, kind=SHOP.kind, field_manager="somebody", force=True)
        await site.edit(ref, {"spec": {"replicas": 2}})
        await site.clock.sleep(5)
        assert get_path(await site.get(ref), "status", "remoteId") == "mine"
        (note,) = await site.events("StatusHeld")
        assert "somebody holds .status.remoteId" in note


def test_the_report_of_a_refused_write_wakes_nobody() -> None:
    """A webhook that refuses with a number of its own makes each report another one."""
    shops, asked = Shops(), [0]

    def schedule(request: KubeRequest) -> Fault | None:
        asked[0] += request.subresource == "status"
        refused = request.subresource and asked[0] % 2 and asked[0] < 100
        return Fault(Forbidden(f"denied as number {asked[0]}")) if refused else None

    async def story(site: ControllerSite) -> None:
        site.faults.schedule = schedule
        async with site.running(shops):
            ref = await site.create()
            await site.clock.sleep(150)
            assert "denied as number" in (await site.condition(ref))[2]

    play(story)
    assert 2 < len(shops.requests) < 10, "with backoff"
