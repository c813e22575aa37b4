"""Decisions about boxes and reconcilers that many tests reached and none saw, as laws (PH-3, PH-4, REC-13)."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubelab.inprocess import run_sync
from purekube.apimachinery.conditions import READY, STALLED
from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.composites.decisions import condition_as_written
from purekube.controller.reconcile_error import (
    ReconcileError,
    ReconcileErrorCause,
    blocked_status,
    standard_conditions,
    standard_words,
)
from purekube.ports import PatchType
from purekube.reconcilers import Children, Desired, Node, Object, pure_reconciler
from purekube.reconcilers.decide_pure import composite_of
from tests.property.boxes.test_box_laws import SHOP as BOX
from tests.support.box_world import PureWorld
from tests.support.boxes import box_of, config
from tests.support.composite_world import NS, CompositeWorld
from tests.support.effort import effort
from tests.support.shop import SHOP, ShopSpec, shop
from tests.support.shop import config as manifest_of
from tests.support.simulation import START

# --- readyWhen -------------------------------------------------------------------------------------------------------

ASKED: Final = box_of(
    config(
        "settings",
        data={"image": "${self.spec.image}", "one": "x"},
        readyWhen=[
            "${settings.data.image != 'r/false:1'}",
            "${settings.data[self.spec.?host.orValue('one')] == 'x'}",
            "${6 / (self.spec.replicas - 3) != 0}",
        ],
    ),
    config("behind", dependsOn=["settings"]),
)
"""It is asked for three things: one that may be false, one that may have no value, one that may fail."""


@settings(max_examples=effort(0.3))
@given(st.sampled_from(("r/x:1", "r/false:1")), st.sampled_from(("one", "two")), st.integers(2, 4))
@example("r/x:1", "one", 2)
@example("r/x:1", "one", 3)
@example("r/x:1", "two", 2)
def test_a_box_is_ready_exactly_where_all_that_ready_when_asks_holds(image: str, host: str, replicas: int) -> None:
    world = PureWorld(ASKED, {"image": image, "host": host, "replicas": replicas, "parts": []})
    world.settle()
    is_ready = image == "r/x:1" and host == "one" and replicas != 3

    assert (world.condition()["status"] == "True") is is_ready
    assert {ref.name for ref in world.children()} == ({"settings", "behind"} if is_ready else {"settings"})


@pytest.mark.parametrize("text", ["x", "y"])
def test_what_a_box_reads_is_ready_where_all_that_ready_when_asks_of_it_holds(text: str) -> None:
    given_map = {"id": "given", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "given"}}
    box = box_of(
        config("behind", data={"text": "${given.data['a']}"}),
        externals=[{**given_map, "readyWhen": ["${given.data['a'] == 'x'}"]}],
    )
    world = PureWorld(box, {"image": "r/x:1", "replicas": 1, "parts": []})
    world.make({**CONFIG_MAP.manifest("given", NS), "data": {"a": text}}, CONFIG_MAP)
    world.settle()

    assert (world.condition()["status"] == "True") is (text == "x")


@pytest.mark.parametrize("wanted", [True, False])
def test_a_pure_reconciler_is_ready_exactly_where_what_its_node_asks_holds(wanted: bool) -> None:
    @pure_reconciler(SHOP, owns=["v1/ConfigMap"])
    def asking(self: Object[Any, Any], children: Children) -> Desired[Any]:
        first = Node("first", manifest_of("first"), healthy=lambda live: wanted)
        return Desired([first, Node("behind", manifest_of("behind"), depends_on=[first])], SHOP.status())

    world = CompositeWorld(composite_of(asking), SHOP.crd(), SHOP.spec_json(ShopSpec()))
    world.settle()

    assert (world.condition()["status"] == "True") is wanted
    assert {ref.name for ref in world.children()} == ({"first", "behind"} if wanted else {"first"})


# --- drift -----------------------------------------------------------------------------------------------------------


def workload(cpu: str) -> dict[str, Any]:
    """A Deployment whose container may use that much."""
    labels = {"app": "one"}
    containers = [{"name": "main", "image": "r/x:1", "resources": {"limits": {"cpu": cpu}}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"}, "spec": spec}


@pytest.mark.parametrize(("stored", "is_written"), [("1", False), ("2", True)])
def test_an_amount_that_is_spelled_otherwise_is_no_drift_of_a_built_in_kind(stored: str, is_written: bool) -> None:
    @pure_reconciler(SHOP, owns=["apps/v1/Deployment"])
    def making(self: Object[Any, Any], children: Children) -> Desired[Any]:
        return Desired([Node("one", workload("1000m"), healthy=lambda live: True)], SHOP.status())

    world = CompositeWorld(composite_of(making), SHOP.crd(), SHOP.spec_json(ShopSpec()))
    world.settle()
    (ref,) = world.children()
    changed = {"spec": {"template": workload(stored)["spec"]["template"]}}
    run_sync(world.admin.patch(ref, changed, patch_type=PatchType.MERGE, field_manager="kubectl"))

    assert bool(world.reconcile().writes) is is_written  # type: ignore[union-attr]


# --- the status that a box declares ----------------------------------------------------------------------------------

NO_VALUE, FAULT = "settings.data[self.spec.?host.orValue('one')]", "string(6 / (self.spec.replicas - 3))"
"""One has a value unless the host is another, the other unless there are three replicas."""
PLACES: Final = ("field", "status", "reason", "message")


def declaring(place: str, text: str) -> dict[str, Any]:
    """A status with an expression in one place, and something else in each other place."""
    told = {"type": "Open", "status": "${true}", "reason": "Known", "message": "yes"}
    if place == "field":
        return {"fields": {"address": f"${{{text}}}"}, "conditions": [told]}
    return {"conditions": [{**told, place: f"${{{text} != ''}}" if place == "status" else f"${{{text}}}"}]}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("text", "is_fault"), [(NO_VALUE, False), (FAULT, True)])
@pytest.mark.parametrize("has_value", [True, False])
def test_a_status_without_a_value_yet_is_left_out_and_one_that_fails_is_told(
    place: str, text: str, is_fault: bool, has_value: bool
) -> None:
    box = box_of(config("settings", data={"one": "x"}), status=declaring(place, text))
    given_spec = {"image": "r/x:1", "host": "one" if has_value else "two", "replicas": 2 if has_value else 3}
    world = PureWorld(box, {**given_spec, "parts": []})
    world.settle()

    said = {kind: world.condition(kind) for kind in (READY, STALLED, "Open")}
    is_told = is_fault and not has_value
    assert said[READY]["status"] == ("False" if is_told else "True")
    if is_told:
        assert said[READY]["reason"] == said[STALLED]["reason"] == "ExpressionFailed"
        assert "division by zero" in said[STALLED]["message"]
    else:
        assert said[STALLED].get("status") != "True"
    value = "x" if text == NO_VALUE else "-6"
    parent = world.get(world.ref)
    assert get_path(parent, "status", "address") == (value if place == "field" and has_value else None)
    expected = {"status": "True", "reason": "Known", "message": "yes"}
    if place in ("reason", "message"):
        expected[place] = value if has_value else {"reason": "Open", "message": ""}[place]
    elif place == "status" and not has_value:
        expected |= {"status": "Unknown", "reason": "NoValueYet"}
    assert {name: said["Open"][name] for name in expected} == expected


# --- a pass that was stopped -----------------------------------------------------------------------------------------

CAUSES = st.sampled_from(ReconcileErrorCause)
STANDING = st.none() | st.builds(
    lambda status: Condition(READY, status, "Before", "it was so", "2026-01-01T00:00:00Z", 1),
    st.sampled_from(ConditionStatus),
)

STANDARD_FIELDS = {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}


@given(CAUSES, STANDING)
def test_a_blocked_pass_never_says_ready_of_an_object_that_was_not(
    cause: ReconcileErrorCause, before: Condition | None
) -> None:
    blocked = ReconcileError(cause, "the box shop may not do it", right=Right("list", "", "secrets"))
    composite = composite_of(shop)
    words = standard_words(composite.kind, composite.condition_types, condition_as_written)
    stalled = Condition(STALLED, ConditionStatus.TRUE, "Before", "it was so", "2026-01-01T00:00:00Z", 1)
    standing = (stalled,) if before is None else (before, stalled)
    manifest = {**SHOP.kind.manifest("corner", "team"), "status": {"conditions": [], "ready": 3}}
    decision = blocked_status(words, manifest, standing, blocked, START)
    assert get_path(decision.status, "status", "ready") == 3, "what stands beside is kept"
    said = {condition["type"]: condition for condition in get_path(decision.status, "status", "conditions") or ()}
    assert all(condition.keys() == STANDARD_FIELDS for condition in said.values()), "others' CRDs declare no more"
    ready = said.get(READY)
    if before is None:
        assert ready is not None
        assert ready["status"] in ("False", "Unknown")
    elif ready is not None:
        assert ready["status"] == before.status
    if not blocked.is_transient:
        assert said[STALLED]["status"] == "True"
    assert {desired_condition.type: desired_condition.status for desired_condition in standard_conditions({}, blocked)}[
        READY
    ] != ConditionStatus.TRUE


# --- abandon ---------------------------------------------------------------------------------------------------------

ABANDON: Final = {"metadata": {"annotations": {"vworkspace.io/abandon": "true"}}}
BOX_SPECS = st.builds(
    lambda replicas, names: {"image": "r/x:1", "replicas": replicas, "parts": [{"name": name} for name in names]},
    st.integers(0, 2),
    st.lists(st.sampled_from(("a", "b")), unique=True, max_size=2),
)
SHOP_SPECS = st.builds(
    lambda replicas, names: SHOP.spec_json(ShopSpec(replicas=replicas, parts=tuple(names))),
    st.integers(1, 2),
    st.lists(st.sampled_from(("a", "b")), unique=True, max_size=2),
)
WORLDS = st.one_of(
    BOX_SPECS.map(lambda spec: lambda: PureWorld(BOX, spec)),
    SHOP_SPECS.map(lambda spec: lambda: CompositeWorld(composite_of(shop), SHOP.crd(), spec)),
)


@settings(max_examples=effort(0.3))
@given(WORLDS, st.booleans())
def test_an_object_that_is_abandoned_goes_and_all_that_was_made_for_it_stays(
    made: Callable[[], CompositeWorld], abandoned: bool
) -> None:
    world = made()
    world.settle()
    before = set(world.children())
    if abandoned:
        world.edit(ABANDON)
        world.settle()
        kept = world.children()
        assert all(get_path(live, "metadata", "ownerReferences") for live in kept.values()), "nothing is deleted yet"
        assert set(kept) == before
    world.delete()
    world.settle()

    assert world.get(world.ref) is None
    left = world.children()
    assert set(left) == (before if abandoned else set())
    for live in left.values():
        assert not get_path(live, "metadata", "ownerReferences")
        assert world.composite.marks.owner_uid not in _labels(live)


def _labels(live: Manifest) -> Any:
    return get_path(live, "metadata", "labels") or {}
