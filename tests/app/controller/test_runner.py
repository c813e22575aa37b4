"""RUN-3, REC-8, REC-13: one runner serves the objects of every kind, under virtual time on the embedded API server."""

import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, Final

import anyio
import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Forbidden, NotFound, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SERVICE_ACCOUNT
from purekube.controller.execute import OnWrite
from purekube.controller.managed_fields import StatusOwner
from purekube.controller.queue.event_handlers import same_object
from purekube.controller.reconcile import ReconcileResult
from purekube.controller.reconcile_error import standard_words
from purekube.ports import PatchType
from purekube_run.composites.further_watches import AccountWatches
from purekube_run.controller.controller import ControllerDefinition, For, Queue, StatusManager, Watches
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers, StoredObject
from purekube_run.controller.manager import ControllerManager
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.signals import run_in_background
from tests.support.controller_site import NS, SHOP
from tests.support.effort import effort
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_core.api.labels import FIELD_MANAGER

TYPES: Final = ("Ready", "Reconciling", "Stalled")
MANAGER: Final = "runner-test"
RESYNC: Final = 10_000.0
REFUSED: Final = (
    'secrets is forbidden: User "operator" cannot list resource "secrets" in API group "" at the cluster scope'
)


@attrs.frozen
class Pass:
    """One pass over an object: when it ran, and the version that it saw; "" for an object that is gone."""

    key: str
    began: float
    ended: float
    saw: str


@attrs.define
class Scripted:
    """A reconciler that takes `seconds` and raises the next of an object's `failures`; it records its passes."""

    clock: VirtualClock
    seconds: float = 0.0
    failures: dict[str, list[Exception]] = attrs.field(factory=dict)
    passes: list[Pass] = attrs.field(factory=list)

    async def reconcile(self, key: ObjectRef, stored: StoredObject | None, on_write: OnWrite) -> ReconcileResult:
        """Do what the script says."""
        began, saw = self.clock.monotonic(), "" if stored is None else metadata(stored.manifest)["resourceVersion"]
        await self.clock.sleep(self.seconds)
        self.passes.append(Pass(key.name, began, self.clock.monotonic(), saw))
        if left := self.failures.get(key.name):
            raise left.pop(0)
        return ReconcileResult()

    def of(self, name: str) -> list[Pass]:
        """The passes over one object."""
        return [pass_ for pass_ in self.passes if pass_.key == name]


@attrs.define
class Site:
    """A cluster with one controller; `admin` acts as a user."""

    admin: InProcessKube
    clock: VirtualClock
    script: Scripted
    manager: ControllerManager

    async def create(self, name: str, **status: Any) -> None:
        """Create an object, with a status if one is given."""
        made = {**SHOP.kind.manifest(name, NS), "spec": {}}
        await self.admin.create(made, kind=SHOP.kind, field_manager="kubectl")
        if status:
            manifest = {**SHOP.kind.manifest(name, NS), "status": status}
            await self.admin.apply_status(manifest, kind=SHOP.kind, field_manager=MANAGER)

    async def live(self, name: str) -> Manifest | None:
        """An object; None where there is none."""
        try:
            return await self.admin.get(ObjectRef(SHOP.kind, NS, name))
        except NotFound:
            return None

    async def act(self, verb: str, name: str) -> None:
        """Create, change or delete an object; what cannot be done is not."""
        live, ref = await self.live(name), ObjectRef(SHOP.kind, NS, name)
        match verb, live:
            case "create", None:
                await self.create(name)
            case "edit", {"metadata": {"generation": generation}}:
                patch = {"spec": {"replicas": generation + 1}}
                await self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="kubectl")
            case "delete", {}:
                await self.admin.delete(ref)


def play(
    story: Callable[[Site], Awaitable[None]],
    *,
    workers: int = 4,
    seconds: float = 0.0,
    elected_after: float = 0.0,
    resync: float = RESYNC,
) -> None:
    """Run a story next to a controller of shops, which leads after so many seconds."""

    async def main() -> None:
        clock = VirtualClock()
        server = ApiServer(now=clock.now)
        admin = InProcessKube(server)
        await admin.create(SHOP.crd(), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")
        await admin.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup")
        api = InProcessKube(server, caller=Caller("operator", agent="runner/1"))
        shops = InformerRunner(api, SHOP.kind, clock=clock, random=Random(0).random)
        script = Scripted(clock, seconds)
        words = standard_words(SHOP.kind, TYPES)
        owner = StatusOwner(MANAGER, {SHOP.kind: frozenset(TYPES)})
        controller = ControllerDefinition(
            "shops",
            SHOP.kind,
            script,
            Informers([shops]),
            For((shops,)),
            StatusManager(owner, "may not {}".format, "grant {}".format, words),
            queue=Queue(workers),
            resync=resync,
            synced=shops.wait_for_sync,
        )
        events = BackgroundEvents(api, clock, instance="test", field_manager=FIELD_MANAGER)
        manager = ControllerManager(api, clock, [controller], events, Informers(()), ManagerOptions(Random(0).random))
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run, partial(clock.sleep, elected_after))
            await manager.wait_ready()
            await story(Site(admin, clock, script, manager))
            group.cancel_scope.cancel()

    with capture_logs():
        run(main)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from((0.0, 0.01, 0.3, 2.0)),
        st.sampled_from(("create", "edit", "edit", "delete")),
        st.sampled_from("abc"),
    ),
    max_size=14,
)


@pytest.mark.slow
@given(ACTIONS, st.sampled_from((0.0, 0.05, 1.0)), st.integers(1, 3), st.sampled_from((0.0, 3.0)))
@settings(max_examples=effort(0.6))
@example([(0.0, "create", "a"), (0.3, "edit", "a"), (0.3, "edit", "a")], 1.0, 3, 0.0)
@example([(0.0, "create", "a"), (0.3, "delete", "a")], 1.0, 1, 0.0)
def test_a_key_has_one_worker_at_a_time_and_nothing_woken_is_lost_RUN_3(
    actions: Sequence[tuple[float, str, str]], seconds: float, workers: int, elected_after: float
) -> None:
    """The last pass over each object begins after its last change, and sees it."""

    async def story(site: Site) -> None:
        for wait, verb, name in actions:
            await site.clock.sleep(wait)
            await site.act(verb, name)
        await site.clock.sleep(300.0)
        for name in "abc":
            passes, live = site.script.of(name), await site.live(name)
            assert all(one.ended <= following.began for one, following in pairwise(passes))
            if live is not None:
                assert passes[-1].saw == metadata(live)["resourceVersion"]
            elif passes:
                assert passes[-1].saw == ""

    play(story, workers=workers, seconds=seconds, elected_after=elected_after)


FAILURES = st.lists(
    st.sampled_from((Unavailable("no route"), ZeroDivisionError("a defect"), RecursionError())), min_size=1, max_size=6
)


@given(FAILURES)
@settings(max_examples=effort(0.2))
@example([ZeroDivisionError("a defect")] * 6)
def test_a_pass_that_fails_is_retried_with_backoff_until_it_succeeds(failures: list[Exception]) -> None:
    async def story(site: Site) -> None:
        site.script.failures["a"] = list(failures)
        await site.create("a")
        await site.clock.sleep(3000.0)
        passes = site.script.of("a")
        assert len(passes) >= len(failures) + 1, "it goes on until it succeeds"
        assert not site.script.failures["a"]
        tries = passes[: len(failures) + 1]
        waits = [later.began - earlier.ended for earlier, later in pairwise(tries)]
        for number, wait in enumerate(waits):
            assert wait <= 2.0 ** (number + 1), "no longer than the backoff of that many failures"
        last = site.manager.worker_pools["shops"].stats()
        assert last.results["error"] == len(failures)

    play(story)


ERRORS: Final[Sequence[Exception]] = (
    Forbidden(REFUSED),
    Unavailable("no route"),
    OperatorError("refused"),
    ValueError("a defect"),
    RecursionError(),
)


@pytest.mark.slow
@given(st.sampled_from(ERRORS), st.sampled_from((None, "True", "False", "Unknown")), st.integers(1, 4))
@settings(max_examples=effort(0.8))
def test_a_blocked_pass_never_makes_ready_true_REC_13(error: Exception, ready: str | None, times: int) -> None:
    """Ready keeps its status, and an object that had none is not Ready."""

    async def story(site: Site) -> None:
        site.script.failures["a"] = [error] * times
        before = () if ready is None else (condition("Ready", ready),)
        await site.create("a", conditions=list(before), observedGeneration=1)
        await site.clock.sleep(1000.0)
        conditions = get_path(await site.live("a"), "status", "conditions") or ()
        after = {one["type"]: one["status"] for one in conditions}
        assert after.get("Ready", ready) == ready if ready is not None else after["Ready"] in ("False", "Unknown")

    play(story)


def condition(kind: str, status: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Before",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }


@run_by(play)
async def test_a_missing_right_is_reported_on_the_object_with_its_remedy_REC_13(site: Site) -> None:
    site.script.failures["a"] = [Forbidden(REFUSED)]
    await site.create("a")
    await site.clock.sleep(5.0)
    conditions = get_path(await site.live("a"), "status", "conditions")
    said = {one["type"]: (one["status"], one["reason"], one["message"]) for one in conditions}
    assert said["Stalled"] == ("True", "Forbidden", "may not list secrets in the whole cluster")


@run_by(play, resync=1000.0)
async def test_a_resync_reconciles_every_object_spread_over_a_tenth_of_the_interval_REC_8(site: Site) -> None:
    names = [f"shop-{number}" for number in range(50)]
    for name in names:
        await site.create(name)
    await site.clock.sleep(50.0)
    site.script.passes.clear()
    await site.clock.sleep(2200.0)
    passes = site.script.passes
    assert len(passes) == 2 * len(names)
    first = [pass_.began for pass_ in passes[: len(names)]]
    assert timedelta(seconds=max(first) - min(first)) <= timedelta(seconds=100)
    assert len(set(first)) > 40


@run_by(play, elected_after=100.0)
async def test_a_standby_reconciles_nothing_and_a_leader_begins_with_every_object_RUN_4(site: Site) -> None:
    for name in "abc":
        await site.create(name)
    await site.clock.sleep(90.0)
    assert not site.script.passes
    assert site.manager.worker_pools["shops"].stats().queue.adds == 0
    await site.clock.sleep(20.0)
    assert sorted(pass_.key for pass_ in site.script.passes) == ["a", "b", "c"]


@run_by(play)
async def test_informers_of_an_account_that_nobody_names_any_more_are_let_go(site: Site) -> None:
    (runner,) = site.manager.runners
    made: list[weakref.ref[InformerRunner]] = []

    def informers_of(account: ObjectRef) -> Iterator[InformerRunner]:
        informer = InformerRunner(site.admin, SHOP.kind, clock=site.clock, random=Random(0).random)
        made.append(weakref.ref(informer))
        yield informer

    accounts = AccountWatches(informers_of)
    async with run_in_background(
        partial(accounts.run, lambda informers: runner.subscribe(Watches(informers, same_object)))
    ):
        for number in range(3):
            accounts.record(ObjectRef(SHOP.kind, NS, "a"), ObjectRef(SERVICE_ACCOUNT, NS, f"account-{number}"))
            await site.clock.sleep(5.0)
        gc.collect()
        assert [informer() is None for informer in made] == [True, True, False]
