"""PH-1, PH-2, OPS-1: what is written for one object, and what is told of it, from a snapshot that is given as data."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import AlreadyExists, Conflict, FieldConflict, Forbidden, Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Apply, Create, Delete, Fill, MergePatch, Requeue
from purekube.controller.ownership import UNRECORDED
from purekube.graph.node import ApplyPolicy, Edge, Hold, HoldCause, Item, OnImmutable, Rendered, Until
from purekube.graph.owner import CreateRecord, Owner
from purekube.graph.states import NodeState, Observation
from purekube.readiness import Readiness
from purekube.readiness.result import failed, progressing, unknown
from purekube.schema import compile_schema
from tests.support.graph_snapshots import (
    LINE,
    MARKS,
    OWNER,
    REFERENCE,
    live,
    named,
    node,
    of,
    planned,
    refused,
    written,
)

A, B = named("a"), named("b")
SOON = Requeue.at_latest(0.0)
HELD = Conflict("held", (FieldConflict("kubectl-edit", ".data.size"),))


def holding(cause: HoldCause) -> Hold:
    return Hold(cause, "because", Place("resources.a.readyWhen", "box.yaml", 9))


def test_what_is_sent_has_the_marks_of_its_owner_OPS_1() -> None:
    result = planned(node())
    (apply,) = result.effects.applies

    assert of(result) == Observation("a", NodeState.PENDING, "Applying", ref=A)
    assert apply == Apply(CONFIG_MAP, apply.manifest, force=False)
    meta = apply.manifest["metadata"]
    assert meta["annotations"].pop(MARKS.applied_hash)
    assert apply.manifest == {
        **written(),
        "metadata": {
            "name": "a",
            "namespace": "team",
            "labels": {"made-by": "box", "box.example/owner-uid": "u-1", "box.example/node": "a"},
            "annotations": {"box.example/wave": "0"},
            "ownerReferences": [REFERENCE],
        },
    }
    assert result.effects.only_if_current
    assert (result.effects.requeue, result.records) == (Requeue.NO, ())


def test_what_is_as_desired_is_not_written_PH_2() -> None:
    there = live(node())
    result = planned(node(), objects={A: there})

    assert of(result) == Observation("a", NodeState.READY, "Exists", ref=A)
    assert of(result).live is there
    assert (result.effects.applies, result.effects.only_if_current, result.is_ready) == ((), False, True)
    drifted = {**there, "data": {"size": "2"}}
    assert of(planned(node(), objects={A: drifted})).state is NodeState.PENDING


@pytest.mark.parametrize(
    ("health", "state"),
    [(failed("R", "m"), NodeState.FAILED), (progressing("R", "m"), NodeState.PROGRESSING),
     (unknown("R", "m"), NodeState.PROGRESSING)],
)  # fmt: skip
def test_the_health_of_what_exists_is_told_in_its_words_PH_1(health: Readiness, state: NodeState) -> None:
    asked = []

    def judged(live: Manifest) -> Readiness:
        asked.append(live)
        return health

    one = node(readiness=judged, ready=lambda scope, item, live: False)
    there = live(node())

    assert of(planned(one, objects={A: there})) == Observation("a", state, "R", "m", ref=A)
    assert asked == [there]


@pytest.mark.parametrize(
    ("answer", "state", "reason", "message", "line"),
    [
        (True, NodeState.READY, "Exists", "", 0),
        (False, NodeState.PROGRESSING, "NotReady", "its readiness condition does not hold yet", 0),
        (holding(HoldCause.FAULT), NodeState.ERROR, "ExpressionFailed", "because", 9),
        (holding(HoldCause.NO), NodeState.PROGRESSING, "NotReady", "because", 9),
        (holding(HoldCause.LIMIT), NodeState.ERROR, "ExpressionFailed", "because", 9),
    ],
)
def test_the_condition_of_a_node_is_told_in_its_words_PH_1(
    answer: bool | Hold, state: NodeState, reason: str, message: str, line: int
) -> None:
    asked: list[Any] = []

    def judged(*given: Any) -> bool | Hold:
        asked.append(given)
        return answer

    one = node(ready=judged)
    result = planned(one, objects={A: live(node())})
    told = of(result)

    assert asked == [(result.scope, Item("", written()), told.live)]
    assert (told.state, told.reason, told.message, told.place.line) == (state, reason, message, line)


def test_a_refusal_of_this_pass_is_the_state_and_is_not_repeated_REC_13() -> None:
    for there in ({}, {A: live(node())}):
        result = planned(node(), objects=there, failures=refused(Invalid("too large")))
        assert of(result) == Observation("a", NodeState.REFUSED, "Invalid", "apply: too large", ref=A, place=LINE)
        assert result.effects.applies == ()
        denied = planned(node(), objects=there, failures=refused(Forbidden("a quota")))
        assert (of(denied).state, of(denied).place.line) == (NodeState.DENIED, 0)
        assert denied.effects.requeue == Requeue.SLOW


def test_only_a_conflict_with_our_own_history_is_forced_REC_6() -> None:
    ours = Conflict("held", (FieldConflict("box.shop", ".data.size"),))
    forced, plain = planned(node(), failures=refused(ours)), planned(node())

    assert of(forced) == Observation("a", NodeState.PENDING, "Applying", ref=A)
    assert [apply.force for apply in forced.effects.applies] == [True]
    assert [apply.force for apply in plain.effects.applies] == [False]


DEPLOYMENT = {"template": {"spec": {"containers": [{"name": "web", "resources": {"limits": {"cpu": "1000m"}}}]}}}
INJECTED = {"containers": [{"name": "web", "resources": {"limits": {"cpu": "1"}}}, {"name": "sidecar"}]}
OWN_SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
                },
            }
        },
    }
)


@pytest.mark.parametrize(
    ("group", "version", "kind", "wanted", "stored", "schema", "writes"),
    [
        ("apps", "v1", "Deployment", DEPLOYMENT, {"template": {"spec": INJECTED}}, None, False),
        ("tests.example", "v1", "Deployment", DEPLOYMENT, {"template": {"spec": INJECTED}}, None, True),
        ("tests.example", "v1", "Part", {"names": ["a", "b"]}, {"names": ["b", "c", "a"]}, OWN_SCHEMA, False),
        ("tests.example", "v1", "Part", {"names": ["a", "b"]}, {"names": ["b", "c", "a"]}, None, True),
        ("tests.example", "v1", "Part", {"names": []}, {}, OWN_SCHEMA, True),
        ("apps", "v1", "Deployment", {"paused": False}, {}, None, False),
        ("", "v1", "Part", {"names": []}, {}, None, False),
        ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", {"rules": []}, {}, None, False),
        ("tests.k8s.io.example", "v1", "Part", {"names": []}, {}, None, True),
        ("apps", "v1", "Deployment", {"paused": False}, {}, OWN_SCHEMA, False),
        ("apps", "v1", "Deployment", DEPLOYMENT, {"template": {"spec": INJECTED}}, OWN_SCHEMA, True),
    ],
)
def test_what_the_server_stores_otherwise_is_no_drift_PH_2(
    group: str, version: str, kind: str, wanted: Any, stored: Any, schema: Any, writes: bool
) -> None:
    """The schema says which lists are keyed; built-in kinds, whose group has no dot of others, drop what is empty."""
    of_kind = Kind(group, version, kind, "things")
    item = Item("", {**of_kind.manifest("a"), "spec": wanted})
    one = node(kind=of_kind, schema=schema, render=lambda scope: Rendered((item,)))
    ref = ObjectRef(of_kind, "team", "a")
    assert len(planned(one, objects={ref: live(one)}).effects.applies) == 0
    result = planned(one, objects={ref: {**live(one), "spec": stored}})

    assert len(result.effects.applies) == writes


def test_a_name_that_was_taken_meanwhile_is_no_refusal_once_the_object_is_seen() -> None:
    failures = refused(AlreadyExists("there"), "create")
    absent = node(policy=ApplyPolicy.IF_ABSENT)

    assert of(planned(absent, failures=failures)) == Observation(
        "a", NodeState.RETRYING, "AlreadyExists", "create: there; tried again", ref=A
    )
    assert of(planned(node(), objects={A: live(node())}, failures=failures)).state is NodeState.READY
    stale = refused(Invalid("no"), "create")
    assert of(planned(node(), objects={A: live(node())}, failures=stale)).state is NodeState.REFUSED


def test_a_field_of_others_leaves_the_object_ready_for_what_depends_on_it_REC_8() -> None:
    there = live(node())
    old = {**there, "metadata": {**there["metadata"], "annotations": {MARKS.applied_hash: "of before"}}}
    more = {**there["metadata"]["annotations"], "note": "theirs"}
    noted = {**there, "metadata": {**there["metadata"], "annotations": more}}
    bare = {**there, "metadata": {**there["metadata"], "annotations": None}}
    unhealthy = node(readiness=lambda live: progressing("Slow", "slow"))

    for one, objects, holds in (
        (node(), {A: {**there, "data": {"size": "9"}}}, True),
        (node(), {A: noted}, True),
        (node(), {A: old}, False),
        (node(), {A: bare}, False),
        (node(), {}, False),
        (unhealthy, {A: there}, False),
    ):
        result = planned(one, objects=objects, failures=refused(HELD))
        told = of(result)
        assert (told.state, told.reason, told.holds_ready) == (NodeState.CONFLICT, "FieldConflict", holds)
        assert 'field manager "kubectl-edit" holds .data.size' in told.message
        assert result.effects.requeue == Requeue.SLOW
        assert (told.is_ready, told.place) == (False, Place())
    assert not of(planned(node(policy=ApplyPolicy.IF_ABSENT), failures=refused(HELD))).holds_ready


IMMUTABLE = Invalid("data is immutable")


def test_an_object_is_made_again_by_the_uid_that_was_refused_PH_2() -> None:
    again = node(on_immutable=OnImmutable.RECREATE)
    there = live(node())
    gone = Observation("a", NodeState.LEAVING, "Recreating", "a field cannot be changed: it is made again", ref=A)

    for seen in (None, there, {**there, "data": {}}):
        result = planned(again, objects={A: there}, failures=refused(IMMUTABLE, live=seen))
        assert of(result) == gone
        assert (result.effects.deletes, result.effects.applies) == ((Delete(A, "u-a"),), ())
        assert result.effects.only_if_current


def test_an_object_is_not_made_again_where_that_was_not_asked_for_PH_2() -> None:
    again, there = node(on_immutable=OnImmutable.RECREATE), live(node())
    table = [
        (node(), {A: there}, refused(IMMUTABLE)),
        (again, {A: there}, refused(IMMUTABLE, "patch")),
        (again, {A: there}, refused(Invalid("too large"))),
    ]
    for one, objects, failures in table:
        result = planned(one, objects=objects, failures=failures)
        assert (of(result).state, result.effects.deletes) == (NodeState.REFUSED, ())


def test_an_object_that_was_replaced_meanwhile_is_judged_as_it_is_PH_2() -> None:
    again, there = node(on_immutable=OnImmutable.RECREATE), live(node())
    replaced = planned(again, objects={A: there}, failures=refused(IMMUTABLE, live=live(node(), "u-other")))
    assert (of(replaced).state, replaced.effects.deletes) == (NodeState.READY, ())

    gone = planned(again, failures=refused(IMMUTABLE))
    assert (of(gone).reason, len(gone.effects.applies), gone.effects.deletes) == ("Applying", 1, ())


def test_what_is_absent_is_created_with_its_random_fields_OPS_1() -> None:
    fills = (Fill("data.password"), Fill("data.token", 8))
    one = node("a", Edge("b", Until.APPLIED, declared=True), policy=ApplyPolicy.IF_ABSENT, generate=fills)
    result = planned(node("b"), one)
    (create,) = result.effects.creates

    assert of(result) == Observation("a", NodeState.PENDING, "Creating", ref=A)
    assert create == Create(CONFIG_MAP, create.manifest, fills, frozenset({B}))
    meta = create.manifest["metadata"]
    assert (meta["annotations"], "finalizers" in meta) == ({"box.example/wave": "1"}, False)
    assert result.records == ()


def test_what_belongs_to_others_is_only_read_PH_1() -> None:
    one = node(policy=ApplyPolicy.NEVER)
    absent, present = planned(one), planned(one, objects={A: written()})

    assert of(absent) == Observation("a", NodeState.WAITING, "NotFound", "it does not exist", ref=A, is_external=True)
    assert of(present) == Observation("a", NodeState.READY, "Exists", ref=A, is_external=True)
    assert [result.effects.only_if_current for result in (absent, present)] == [False, False]
    nameless = node(policy=ApplyPolicy.NEVER, render=lambda scope: Rendered((Item("", written("")),)))
    assert of(planned(nameless)).message == "metadata.name is empty"
    twice = planned(node(), node("b", policy=ApplyPolicy.NEVER, render=node().render))
    assert of(twice, "b").reason == "NotFound", "what is read is claimed by nobody"


# --- created once -----------------------------------------------------------------------------------------------------

ONCE = node(policy=ApplyPolicy.ONCE)


def recorded(uid: str) -> Owner:
    return attrs.evolve(OWNER, records=(CreateRecord("a", "a", "team", "", uid), CreateRecord("z", "z", uid="u-z")))


def test_an_intent_is_recorded_before_anything_is_created_OPS_1() -> None:
    result = planned(ONCE)

    assert of(result) == Observation(
        "a", NodeState.PENDING, "Recording", "it is created once the owner's status says so", ref=A
    )
    assert (result.records, result.effects.creates) == ((CreateRecord("a", "a", "team"),), ())
    assert (result.effects.requeue, result.effects.only_if_current) == (SOON, False)


def test_what_has_a_record_is_created_locked_and_its_record_kept_OPS_1() -> None:
    result = planned(ONCE, owner=recorded(""))
    (create,) = result.effects.creates

    assert of(result) == Observation("a", NodeState.PENDING, "Creating", ref=A)
    assert create.manifest["metadata"]["finalizers"] == [UNRECORDED]
    assert result.records == recorded("").records
    assert result.effects.requeue == Requeue.NO
    refusal = planned(ONCE, owner=recorded(""), failures=refused(Forbidden("a quota"), "create"))
    assert (of(refusal).message, refusal.effects.creates) == ("create: a quota", ())


def test_what_was_created_and_has_gone_is_left_OPS_1() -> None:
    result = planned(ONCE, owner=recorded("u-a"))

    assert of(result) == Observation("a", NodeState.LEFT, "CreatedOnce", "it has gone", ref=A, counts=False)
    assert (result.effects.creates, result.records) == ((), recorded("u-a").records)
    assert (result.effects.requeue, result.is_ready) == (Requeue.NO, True)


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("known", ["", "u-old", "u-a"])
def test_the_lock_goes_once_the_uid_is_recorded_OPS_1(known: str, leaving: bool) -> None:
    going: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    there = live(ONCE, finalizers=[UNRECORDED, "others"], **going)
    result = planned(ONCE, owner=recorded(known), objects={A: there})

    assert of(result).reason == ("Terminating" if leaving else "Exists")
    assert result.records == recorded("u-a").records
    unlock = MergePatch(A, {"metadata": {"resourceVersion": "5", "finalizers": ["others"]}})
    assert result.effects.patches == ((unlock,) if known == "u-a" else ())
    assert result.effects.requeue == (Requeue.NO if known == "u-a" else SOON)


def test_a_lock_that_cannot_be_taken_off_is_tried_again_as_the_refusal_says_OPS_1() -> None:
    there = live(ONCE, finalizers=[UNRECORDED])
    result = planned(ONCE, owner=recorded("u-a"), objects={A: there}, failures=refused(Forbidden("quota"), "patch"))

    assert (result.effects.patches, result.effects.requeue) == ((), Requeue.SLOW)
    unlocked = planned(ONCE, owner=OWNER, objects={A: live(ONCE)})
    assert (unlocked.records, unlocked.effects.patches, unlocked.effects.requeue) == (
        (CreateRecord("a", "a", "team", "", "u-a"),),
        (),
        Requeue.NO,
    )
    fresh = planned(ONCE, owner=OWNER, objects={A: there})
    assert (fresh.effects.patches, fresh.effects.requeue) == ((), SOON)


@pytest.mark.parametrize("keys", [("",), ("x", "y")])
def test_each_item_has_a_record_of_its_own_OPS_1(keys: tuple[str, ...]) -> None:
    cluster = Kind("tests.example", "v1", "Zone", "zones", namespaced=False)
    for kind, namespace in ((CONFIG_MAP, "team"), (cluster, "")):
        items = tuple(Item(key, kind.manifest(f"name{key}")) for key in keys)
        result = planned(
            node("z", kind=kind, policy=ApplyPolicy.ONCE, render=lambda scope, items=items: Rendered(items))
        )

        assert result.records == tuple(CreateRecord("z", f"name{key}", namespace, key, "") for key in keys)
