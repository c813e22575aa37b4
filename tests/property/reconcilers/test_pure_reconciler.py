"""Laws of pure reconcilers at work, on a virtual clock with simulated workloads (PH-1 to PH-3, PH-7; L1 to L5, L11)."""

import base64
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import nan
from typing import Any, Final

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubelab.inprocess import run_sync
from kubelab.model.calls import RequestTarget
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import ObjectRef, canonical_json, get_path
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.composites.observe import observe_live
from purekube.controller.decision import as_data
from purekube.reconcilers import Children, Desired, Node, PureReconciler, Read, pure_reconciler
from purekube.reconcilers.decide_pure import composite_of, decide_pure
from purekube_run.simulation.faults import Crash, interruption
from tests.support.composite_world import NS, CompositeWorld, condition_of
from tests.support.effort import effort
from tests.support.faulty_kube import FaultyKube
from tests.support.shop import SHOP, ShopSpec, config, shop

NAMES: Final = ("a", "b", "c-1")
SPECS = st.builds(
    ShopSpec,
    image=st.sampled_from(["r/x:1", "r/y:2"]),
    replicas=st.integers(1, 2),
    parts=st.lists(st.sampled_from(NAMES), unique=True, max_size=3).map(tuple),
)


def world_of(
    spec: ShopSpec, wrap: Callable[[Any], Any] = lambda api: api, of: PureReconciler[Any, Any] = shop
) -> CompositeWorld:
    return CompositeWorld(composite_of(of), SHOP.crd(), SHOP.spec_json(spec), wrap)


def settled(spec: ShopSpec, wrap: Callable[[Any], Any] = lambda api: api) -> CompositeWorld:
    world = world_of(spec, wrap)
    world.settle()
    return world


def edit(world: CompositeWorld, spec: ShopSpec) -> None:
    world.edit({"spec": {"banner": None, "fails": "", "parts": [], **SHOP.spec_json(spec)}})


def versions(world: CompositeWorld) -> Mapping[ObjectRef, str]:
    return {ref: live["metadata"]["resourceVersion"] for ref, live in world.children().items()}


def shape(world: CompositeWorld) -> Sequence[Any]:
    """What is left, but for what differs from world to world."""
    uid = str(get_path(world.get(world.ref), "metadata", "uid"))
    return sorted(
        (str(ref), canonical_json([live.get("spec"), live.get("data")]).replace(uid.encode(), b""))
        for ref, live in world.children().items()
    )


def delete(world: CompositeWorld) -> None:
    world.server.delete(RequestTarget(world.server.resource(SHOP.kind), NS, "shop"))


# --- steady state, changes, order ------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=effort(0.2))
@given(SPECS, SPECS)
@example(ShopSpec(), ShopSpec(parts=("a",)))
def test_what_has_settled_writes_nothing_and_a_change_leads_where_a_new_one_does(
    before: ShopSpec, after: ShopSpec
) -> None:
    world = settled(before)
    assert world.reconcile().writes == 0  # type: ignore[union-attr]

    edit(world, after)
    world.settle()

    assert world.condition()["status"] == "True"
    assert shape(world) == shape(settled(after))
    assert get_path(world.get(world.ref), "status", "ready") == after.replicas
    assert tuple(get_path(world.get(world.ref), "status", "parts") or ()) == after.parts
    for kind in ("Ready", "Reconciling", "Stalled"):
        said = [condition_of(status, kind).get("status") for status in world.statuses]
        assert sum(one != other for one, other in pairwise(said)) <= 4


@settings(max_examples=effort(0.3))
@given(SPECS, st.integers(1, 8))
def test_a_decision_is_the_same_twice(spec: ShopSpec, passes: int) -> None:
    """The function is asked twice for the same world, and nothing it answers depends on anything else."""
    world = world_of(spec)
    for _ in range(passes):
        world.reconcile()
        world.workloads.tick(world.now)
    parent = world.composite.read(world.get(world.ref) or {})
    observed = run_sync(observe_live(world.admin, world.composite, parent))

    one, other = (decide_pure(shop, parent, observed, world.now) for _ in range(2))
    assert canonical_json(as_data(one)) == canonical_json(as_data(other))


def test_nothing_is_made_before_what_it_waits_for_is_ready() -> None:
    world = world_of(ShopSpec(parts=("a", "b")))
    for _ in range(3):
        world.reconcile()
    assert {ref.name for ref in world.children()} == {"password", "settings", "web"}
    ready = world.condition()
    assert (ready["reason"], ready["message"].partition(":")[0]) == ("ResourceNotReady", "Deployment team/web")
    assert "Waiting behind it: part-a, part-b, last" in ready["message"]

    world.settle()
    assert {ref.name for ref in world.children()} == {"password", "settings", "web", "part-a", "part-b", "last"}


def test_a_closed_gate_holds_what_exists_and_names_itself() -> None:
    world = settled(ShopSpec())
    before = world.get(ObjectRef(CONFIG_MAP, NS, "last"))
    edit(world, ShopSpec(image="r/broken:1"))
    world.workloads.behaviour = attrs.evolve(
        world.workloads.behaviour,
        workloads=attrs.evolve(world.workloads.behaviour.workloads, ready_seconds=1e6),
    )
    for _ in range(4):
        world.reconcile()
        world.workloads.tick(world.now)

    assert world.condition()["status"] == "False"
    assert world.get(ObjectRef(CONFIG_MAP, NS, "last")) == before


def test_what_is_read_is_waited_for_and_its_text_goes_where_the_function_puts_it() -> None:
    world = settled(ShopSpec(banner="sale"))
    assert (world.condition()["reason"], world.condition()["status"]) == ("WaitingForExternal", "False")

    world.make({**config("sale", text="half price"), "metadata": {"name": "sale", "namespace": NS}}, CONFIG_MAP)
    world.settle()

    assert world.condition()["status"] == "True"
    assert get_path(world.get(world.ref), "status", "banner") == "half price"
    assert get_path(world.get(ObjectRef(CONFIG_MAP, NS, "last")), "data", "banner") == "half price"


def test_a_password_is_made_once_and_stays() -> None:
    world = settled(ShopSpec())
    first = get_path(world.get(ObjectRef(SECRET, NS, "password")), "data", "password")
    edit(world, ShopSpec(image="r/y:2"))
    world.settle()

    assert first
    assert get_path(world.get(ObjectRef(SECRET, NS, "password")), "data", "password") == first


# --- what is not known deletes nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fails", "reason", "stalled"),
    [
        ("raises", "ReconcileFailed", "False"),
        ("type", "ReconcileFailed", "False"),
        ("exit", "ReconcileFailed", "False"),
        ("terminal", "TooLarge", "True"),
    ],
)
def test_a_function_that_fails_touches_nothing_is_told_and_goes_on_when_it_can(
    fails: str, reason: str, stalled: str
) -> None:
    world = settled(ShopSpec(parts=("a",)))
    before = versions(world)
    edit(world, ShopSpec(fails=fails))
    result = world.reconcile()

    assert versions(world) == before
    assert world.condition()["reason"] == reason
    assert world.condition("Stalled")["status"] == stalled
    assert result is not None
    assert (result.error is not None) is (fails != "terminal")
    assert world.reconcile().writes == 0  # type: ignore[union-attr]

    edit(world, ShopSpec())
    world.settle()
    assert world.condition()["status"] == "True"
    assert "part-a" not in {ref.name for ref in world.children()}


@settings(max_examples=effort(0.15))
@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=4, max_size=12))
@example("s3cr:et\n'quoted'")
def test_an_error_is_told_without_what_stands_in_a_secret(secret: str) -> None:
    world = settled(ShopSpec())
    coded = base64.b64encode(secret.encode()).decode()
    world.make({**SECRET.manifest("given", NS), "data": {"key": coded}}, SECRET)
    edit(world, ShopSpec(fails="raises"))
    world.reconcile()

    message = world.condition()["message"]
    assert message.startswith("shop: RuntimeError: the shop is closed: ")
    assert coded not in message
    assert secret not in message


def other(function: Callable[[Any, Children], Any], **more: Any) -> PureReconciler[Any, Any]:
    """A later version of the shop's reconciler."""
    owns = ["apps/v1/Deployment", "v1/ConfigMap", "v1/Secret"]
    return pure_reconciler(SHOP, owns=owns, **{"name": "shop", **more})(function)


ROUND: Final = [Node("a", config("a"), depends_on=["b"]), Node("b", config("b"), depends_on=["a"])]
STATUS: Final = SHOP.status()
WRONG: Final[Any] = {"id": "a"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "the function returned NoneType, not Desired(nodes, status)"),
        (Desired([], ShopSpec()), "the status is of ShopSpec, not of ShopStatus"),
        (Desired(ROUND, STATUS), "these wait for each other: a -> b -> a"),
        (Desired([Node("a", config("a"), depends_on=["x"])], STATUS), "a depends on x, and there is no such resource"),
        (Desired([ROUND[0], ROUND[0]], STATUS), "two resources have the id a"),
        (Desired([Node("a", {"apiVersion": "v1", "kind": "Pod"})], STATUS), "add v1/Pod to owns=[…]"),
        (Desired([Node("a", config(""))], STATUS), "node a: its manifest has no metadata.name"),
        (Desired([Node("a", {**config("a"), "data": {"a": print}})], STATUS), "node a: its manifest is no JSON"),
        (Desired([WRONG], STATUS), "there is a dict among the nodes: write Node(id, manifest)"),
        (
            Desired([Node("a", config("a"), depends_on="web")], STATUS),
            "a depends on web, and there is no such resource",
        ),
        (Desired([Node("given", config("a"))], STATUS), "node given has the id of something that is read"),
    ],
)
def test_an_answer_that_cannot_be_is_named_and_nothing_goes(answer: Any, told: str) -> None:
    world = settled(ShopSpec(parts=("a",)))
    before = versions(world)
    world.composite = composite_of(other(lambda shop, children: answer, reads=[Read("given", SECRET, lambda _: "x")]))
    world.reconcile()

    assert versions(world) == before
    assert world.condition("Stalled")["reason"] == "DesiredInvalid"
    assert told in world.condition()["message"]


def test_an_object_that_does_not_fit_its_classes_is_told_and_keeps_what_it_has() -> None:
    world = settled(ShopSpec(parts=("a",)))
    before = versions(world)
    stored = dict(world.get(world.ref) or {})
    world.server.store.put(world.server.resource(SHOP.kind).storage, {**stored, "spec": {"replicas": "many"}})
    world.reconcile()

    assert versions(world) == before
    assert world.condition("Stalled")["reason"] == "ObjectUnreadable"
    assert "spec.replicas: must be an integer, not a string" in world.condition()["message"]


def test_a_status_that_does_not_fit_is_written_anew() -> None:
    world = settled(ShopSpec())
    stored = dict(world.get(world.ref) or {})
    status = {**stored["status"], "ready": "many"}
    world.server.store.put(world.server.resource(SHOP.kind).storage, {**stored, "status": status})
    world.settle()

    assert (world.condition()["status"], get_path(world.get(world.ref), "status", "ready")) == ("True", 1)


# --- removal ---------------------------------------------------------------------------------------------------------


@settings(max_examples=effort(0.3))
@given(SPECS, st.integers(0, 6), st.sampled_from(["", "raises", "terminal"]))
def test_a_removal_ends_from_every_world_whatever_the_function_says(spec: ShopSpec, passes: int, fails: str) -> None:
    world = world_of(spec)
    for _ in range(passes):
        world.reconcile()
        world.workloads.tick(world.now)
    edit(world, attrs.evolve(spec, fails=fails))
    delete(world)
    world.settle()

    assert world.get(world.ref) is None
    assert world.children() == {}


def test_a_drain_runs_before_anything_goes() -> None:
    world = settled(ShopSpec(banner="sale"))
    left = {ref.name for ref in world.children()}
    delete(world)
    world.reconcile()
    world.reconcile()

    assert {ref.name for ref in world.children()} == {*left, "bye"}
    assert world.condition("Deleting")["reason"] == "Draining"
    world.settle()
    assert (world.get(world.ref), world.children()) == (None, {})


def test_strict_order_takes_down_in_reverse() -> None:
    """Without owner references the controller alone decides, so that what depends on something goes first."""
    chain = [Node("a", config("a")), Node("b", config("b"), depends_on=["a"]), Node("c", config("c"), depends_on=["b"])]
    world = world_of(ShopSpec(), of=other(lambda shop, children: Desired(chain, STATUS), strict_order=True))
    world.settle()
    delete(world)
    result = world.reconcile()

    assert result is not None
    assert [ref.name for verb, ref in result.executed if verb == "delete"] == ["c", "b", "a"]
    assert world.get(world.ref) is None


# --- the process dies ------------------------------------------------------------------------------------------------

STORY: Final = ShopSpec(parts=("a",))


def survived(number: int, *, after: bool, crash: bool) -> None:
    world = world_of(STORY, FaultyKube)
    world.api.strike_at(number, interruption(after=after, crash=crash))
    for _ in range(2):  # the process is started again
        try:
            world.settle()
        except (Crash, OperatorError):
            continue
    world.settle()
    assert world.condition()["status"] == "True"
    assert [name for name, _ in shape(world)] == [name for name, _ in shape(settled(STORY))]


@pytest.mark.slow
@pytest.mark.parametrize("crash", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_a_pure_reconciler_survives_a_sigkill_at_every_request(after: bool, crash: bool) -> None:
    world = settled(STORY, FaultyKube)
    for number in range(1, world.api.count + 1):
        survived(number, after=after, crash=crash)


@pytest.mark.parametrize("number", [2, 7])
def test_a_pure_reconciler_survives_a_sigkill_at_some_requests(number: int) -> None:
    survived(number, after=True, crash=True)


# --- how it is declared ----------------------------------------------------------------------------------------------


def test_a_reconciler_is_called_as_the_function_that_it_is() -> None:
    desired = shop(SHOP.new("mine", ShopSpec(parts=("a",)), namespace=NS))

    assert [node.id for node in desired.nodes] == ["password", "settings", "web", "part-a", "last"]
    assert desired.nodes[-1].when == "the workload is not ready yet"
    assert desired.status == SHOP.status()


def test_a_kind_that_is_not_known_is_refused_with_what_to_write() -> None:
    with pytest.raises(ValueError, match="'apps/v1/Deploy' is no kind that is known here: write such as apps/v1/Dep"):
        pure_reconciler(SHOP, owns=["apps/v1/Deploy"])
    with pytest.raises(ValueError, match="two of reads have the id tls: give one of them another one"):
        pure_reconciler(SHOP, owns=[], reads=[Read("tls", "v1/Secret", str), Read("tls", "v1/ConfigMap", str)])
    for resync in (0, -5.0, nan, "60"):
        with pytest.raises(ValueError, match="resync must be seconds, more than 0, not "):
            pure_reconciler(SHOP, owns=[], resync=resync)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the name 'Shop' must be such as shop-audit"):
        other(lambda shop, children: Desired([], STATUS), name="Shop")
