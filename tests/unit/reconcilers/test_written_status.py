"""PH-7: the status that follows a call of a reconciler, the Events about it, and when an object counts as Ready."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Decision
from purekube.reconcilers import Reconciler, Request, Result, Watcher, resource
from purekube.reconcilers.controllers import AnyController, Feature
from purekube.reconcilers.status import condition_types, is_ready, status_owner, status_to_write

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


@attrs.frozen
class ShopSpec:
    """What a shop is to be."""


@attrs.frozen
class ShopStatus:
    """How a shop stands."""

    ready: int = 0
    url: str = ""


SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)


class Shops(Reconciler[Any, Any]):
    kind = SHOP
    conditions = ("Warm",)

    async def reconcile(self, request: Request[Any, Any]) -> Result[Any]:
        return Result()


class Plain(Shops):
    plain = (Feature.CONDITIONS,)


class Audit(Watcher[Any]):
    kind = SHOP


class Foreign(Reconciler[Any, Any]):
    kind = CONFIG_MAP

    async def reconcile(self, request: Request[Any, Any]) -> Result[Any]:
        return Result()


def condition(kind: str, status: str, reason: str, **more: Any) -> dict[str, Any]:
    moment = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2, "message": ""}
    return {"type": kind, "status": status, "reason": reason, **moment, **more}


def shop(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    meta = {"name": "shop", "namespace": "team", "uid": "u", "resourceVersion": "5", "generation": 2}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": meta,
        "status": {"conditions": list(conditions), **status},
    }


DONE = tuple(
    DesiredCondition(kind, status, "Succeeded")
    for kind, status in (("Ready", TRUE), ("Reconciling", FALSE), ("Stalled", FALSE))
)
OWN = DesiredCondition("Warm", TRUE, "Enough")
SETTLED = [condition(one.type, one.status.value, one.reason) for one in DONE]


def written(
    manifest: dict[str, Any],
    conditions: tuple[DesiredCondition, ...] | None = DONE,
    result: Result[Any] | None = Result(),  # noqa: B008
    controller: AnyController = Shops(),  # noqa: B008
) -> Decision | None:
    return status_to_write(controller, manifest, conditions, result, 2, NOW)


def status_of(decision: Decision | None) -> dict[str, Any]:
    assert decision is not None
    assert decision.status is not None
    return dict(decision.status["status"])


def test_the_conditions_of_a_reconciler_are_the_standard_ones_and_its_own() -> None:
    assert condition_types(Shops()) == ("Ready", "Reconciling", "Stalled", "Warm")
    assert condition_types(Audit()) == ("Ready", "Reconciling", "Stalled")
    owner = status_owner(Shops())
    assert owner.manager == "vworkspace-controller.shops"
    assert owner.types == {SHOP.kind: frozenset({"Ready", "Reconciling", "Stalled", "Warm"})}


def test_a_result_is_the_whole_status_and_no_result_keeps_it() -> None:
    before = shop(ready=1, url="x")
    fresh = status_of(written(before, result=Result(ShopStatus(2, "y"))))
    assert (fresh["ready"], fresh["url"], fresh["observedGeneration"]) == (2, "y", 2)
    assert [(one["type"], one["status"]) for one in fresh["conditions"]] == [
        ("Ready", "True"),
        ("Reconciling", "False"),
        ("Stalled", "False"),
    ]
    nothing: Result[Any] = Result()
    for result in (nothing, None):
        kept = status_of(written(before, result=result))
        assert (kept["ready"], kept["url"]) == (1, "x")
    bare: dict[str, Any] = {**before, "status": None}
    assert set(status_of(written(bare))) == {"conditions", "observedGeneration"}


def test_conditions_of_its_own_stay_where_the_call_failed() -> None:
    before = shop(condition("Warm", "True", "Enough"), condition("Theirs", "True", "x"))
    kept = status_of(written(before, result=None))["conditions"]
    assert [one["type"] for one in kept] == ["Ready", "Reconciling", "Stalled", "Warm"]
    gone = status_of(written(before))["conditions"]
    assert [one["type"] for one in gone] == ["Ready", "Reconciling", "Stalled"]


def test_a_status_that_is_up_to_date_is_not_written() -> None:
    settled = shop(*SETTLED, ready=1, observedGeneration=2)

    assert written(settled) is None
    full = shop(*SETTLED, ready=1, url="x", observedGeneration=2)
    assert written(full, result=Result(ShopStatus(1, "x"))) is None
    assert written(shop(*SETTLED, ready=1, url="x", observedGeneration=2), result=Result(ShopStatus(1, "x"))) is None
    assert written(shop(*SETTLED, ready=1, observedGeneration=1)) is not None
    assert written(shop(*SETTLED, ready=1, observedGeneration="2")) is not None
    assert written(settled, result=Result(ShopStatus(2))) is not None
    assert written(settled, (*DONE, OWN)) is not None


@pytest.mark.parametrize("controller", [Audit(), Foreign()])
def test_only_a_reconciler_of_a_kind_of_ours_writes_statuses(controller: AnyController) -> None:
    assert written(shop(), result=Result(ShopStatus(3)), controller=controller) is None
    assert written(shop(), None, Result(ShopStatus(3))) is None, "it is about to be removed"


def test_without_conditions_only_changed_fields_are_written() -> None:
    before = shop(ready=1, url="x", more=5)

    assert written(before, result=None, controller=Plain()) is None
    assert written(before, result=Result(), controller=Plain()) is None
    assert written(before, result=Result(ShopStatus(1, "x")), controller=Plain()) is None
    emptied = written(before, result=Result(ShopStatus(1)), controller=Plain())
    assert emptied is not None
    assert emptied.status is not None
    assert emptied.status["status"] == {"ready": 1}, "an empty field is removed"
    decision = written(before, result=Result(ShopStatus(2, "x")), controller=Plain())
    assert decision == Decision(
        status={
            "apiVersion": "example.com/v1",
            "kind": "Shop",
            "metadata": {"name": "shop", "namespace": "team", "resourceVersion": "5"},
            "status": {"ready": 2, "url": "x"},
        }
    )


def failed(reason: str, stalled: ConditionStatus) -> tuple[DesiredCondition, ...]:
    return (
        DesiredCondition("Ready", FALSE, reason, "no"),
        DesiredCondition("Reconciling", FALSE, reason),
        DesiredCondition("Stalled", stalled, reason, "no"),
    )


PROGRESSING = tuple(
    DesiredCondition(kind, status, "Progressing")
    for kind, status in (("Ready", FALSE), ("Reconciling", TRUE), ("Stalled", FALSE))
)
STUCK = [condition("Ready", "False", "TooLarge"), condition("Stalled", "True", "TooLarge")]


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        ([], DONE, [("Ready", "Normal")]),
        ([], PROGRESSING, []),
        ([], failed("ReconcileFailed", FALSE), [("Ready", "Warning")]),
        ([], failed("TimedOut", FALSE), [("Ready", "Warning")]),
        ([], failed("TooLarge", TRUE), [("Stalled", "Warning")]),
        (SETTLED, PROGRESSING, [("Ready", "Normal")]),
        (SETTLED, failed("TooLarge", TRUE), [("Ready", "Normal"), ("Stalled", "Warning")]),
        (STUCK, DONE, [("Ready", "Normal"), ("Stalled", "Normal")]),
        (STUCK, failed("ReconcileFailed", FALSE), [("Ready", "Warning"), ("Stalled", "Normal")]),
        ([condition("Ready", "False", "Progressing"), condition("Stalled", "False", "Progressing")],
         failed("ReconcileFailed", FALSE), [("Ready", "Warning")]),
    ],
)  # fmt: skip
def test_what_is_news_to_people_is_an_event_and_a_bad_one_a_warning(
    before: list[dict[str, Any]], after: tuple[DesiredCondition, ...], events: list[tuple[str, str]]
) -> None:
    decision = written(shop(*before), after, None)
    assert decision is not None

    reasons = {one.type: one.reason for one in after}
    assert [(event.reason, event.type) for event in decision.events] == [(reasons[kind], type) for kind, type in events]
    assert {event.regarding_uid for event in decision.events} <= {"u"}
    assert {event.regarding.name for event in decision.events} <= {"shop"}


READY = condition("Ready", "True", "Succeeded")


@pytest.mark.parametrize(
    ("manifest", "ready"),
    [
        (shop(READY, observedGeneration=2), True),
        (shop(condition("Stalled", "False", "x"), READY, observedGeneration=2), True),
        (shop(READY, observedGeneration=1), False),
        (shop(READY), False),
        (shop({**READY, "observedGeneration": 1}, observedGeneration=2), False),
        (shop({**READY, "status": "False"}, observedGeneration=2), False),
        (shop(condition("Stalled", "True", "x"), observedGeneration=2), False),
        (shop(observedGeneration=2), False),
        ({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}, False),
        ({"metadata": {"generation": 2}}, False),
        ({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}, False),
    ],
)
def test_an_object_is_ready_at_its_generation_alone(manifest: dict[str, Any], ready: bool) -> None:
    assert is_ready(manifest) is ready
