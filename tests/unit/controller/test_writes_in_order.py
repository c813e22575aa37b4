"""Applies and creates of one decision: what refers to a refused one is left out, and no more; texts drawn at random."""

import base64

import pytest

from kubelab import SeededEntropy
from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import SECRET
from purekube.controller.decision import Apply, Create, Decision, Fill, Snapshot, chained
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import run_pass
from tests.support.graph_world import MANAGER, NS, PART, SHOP, Decide, GraphWorld, NoEvents, Shop, read_shop


def part(name: str) -> Manifest:
    return PART.manifest(name, NS)


def ref(name: str) -> ObjectRef:
    return ObjectRef(PART, NS, name)


def made(decision: Decision, *refused: str, entropy: SeededEntropy | None = None) -> GraphWorld:
    """A world in which the decision was carried out once, where the API server refuses these names."""
    world = GraphWorld(Decide(()))
    world.create()
    world.refuse(lambda verb, ref: Invalid("no") if ref.name in refused else None)

    def decide(shop: Shop, observed: Snapshot) -> Decision:
        return Decision() if observed.objects or observed.failures else decision

    reconciler = PassRules(SHOP, read_shop, decide, MANAGER, "test/finalizer", entropy=entropy)
    run_sync(run_pass(reconciler, world.shop, Snapshot(), world.face, NoEvents()))
    return world


def test_what_refers_to_a_refused_apply_is_left_out_and_what_refers_to_that() -> None:
    """L5: what stands beside goes through, creates as well as applies."""
    decision = Decision(
        applies=(
            Apply(PART, part("a")),
            Apply(PART, part("b"), after=frozenset({ref("a")})),
            Apply(PART, part("c"), after=frozenset({ref("b")})),
            Apply(PART, part("d")),
        ),
        creates=(Create(PART, part("e"), after=frozenset({ref("c")})), Create(PART, part("f"))),
    )

    assert sorted(obj.name for obj in made(decision, "a").objects) == ["d", "f"]
    assert sorted(obj.name for obj in made(decision).objects) == ["a", "b", "c", "d", "e", "f"]


def test_one_after_another_stops_at_the_first_that_is_refused() -> None:
    """REC-3: a release is not applied where its source was refused."""
    applies = chained(Apply(PART, part(name)) for name in "abc")

    assert [obj.name for obj in made(Decision(applies=applies), "b").objects] == ["a"]


def test_random_text_is_drawn_as_the_object_is_created() -> None:
    """A decision has none: the same one makes another password each time, in the form in which a Secret holds it."""
    fills = (Fill(("data", "password"), 12, "xy", base64=True), Fill(("data", "more"), 3, base64=True))
    secret = {**SECRET.manifest("s", NS), "data": {"user": "YQ=="}}
    decision = Decision(creates=(Create(SECRET, secret, fills),))
    found = []
    for seed in (1, 2):
        world = made(decision, entropy=SeededEntropy(seed))
        found.append(get_path(run_sync(world.kube.get(ObjectRef(SECRET, NS, "s"))), "data"))

    texts = [base64.b64decode(data["password"]).decode() for data in found]
    assert [(len(text), set(text)) for text in texts] == [(12, {"x", "y"})] * 2
    assert texts[0] != texts[1]
    assert {data["user"] for data in found} == {"YQ=="}


def test_random_text_takes_the_place_of_what_is_there() -> None:
    secret = {**SECRET.manifest("s", NS), "data": {"password": "YQ==", "user": "YQ=="}}
    world = made(
        Decision(creates=(Create(SECRET, secret, (Fill(("data", "password"), 3, "x", base64=True),)),)),
        entropy=SeededEntropy(1),
    )

    found = get_path(run_sync(world.kube.get(ObjectRef(SECRET, NS, "s"))), "data")
    assert found == {"password": base64.b64encode(b"xxx").decode(), "user": "YQ=="}


def test_random_text_needs_a_source_of_it() -> None:
    decision = Decision(creates=(Create(PART, part("a"), (Fill(("spec", "text")),)),))

    with pytest.raises(ValueError, match="Part team/a is created with random text"):
        made(decision)
