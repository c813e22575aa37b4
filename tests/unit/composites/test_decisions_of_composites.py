"""Decisions about parents that are refused, stuck or left alone, and the records on parents (PH-1 to PH-3, PH-9)."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from kubelab.entropy import SeededEntropy
from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, NAMESPACE, SECRET
from purekube.apimachinery.timestamps import format_time
from purekube.composites.composite import Composite, Explanation, SecretUse, status_writer
from purekube.composites.decisions import (
    missing_account,
    orphan_children,
    out_of_scope,
    present_fields,
    reconcile_children,
    tear_down,
    with_status,
)
from purekube.composites.parent import (
    Parent,
    as_stored,
    created_annotation,
    created_records,
    kinds_annotation,
    recorded_kinds,
)
from purekube.composites.rights import hidden_message
from purekube.composites.status_writers import StatusWriter, other_writer, refusal, shared_statuses
from purekube.controller.decision import Decision, Delete, Finalizer, Requeue, Snapshot
from purekube.graph.node import Scope
from purekube.graph.node_order import Graph
from purekube.graph.owner import CreateRecord
from purekube.graph.plan import Plan
from tests.support.composites import (
    FINALIZER,
    GADGET,
    MANAGER,
    MARKS,
    PLANET,
    SHOP,
    by_account,
    composite,
    recording,
    shop,
)
from tests.support.simulation import START

BOX = composite()
PLAN = Plan({}, Decision(), Scope())
HIDDEN = {GADGET: Right("list", "example.org", "gadgets")}


def conditions(decision: Decision) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each condition that is written."""
    written = get_path(decision.status, "status", "conditions") or ()
    return {each["type"]: (each["status"], each["reason"], each.get("message", "")) for each in written}


def with_ready_field(described: Composite = BOX, **status: Any) -> Parent:
    """A parent whose status stands."""
    return described.read({**shop(), "status": {"ready": 3, "other": 1, **status}})


# --- parents of which nothing is done --------------------------------------------------------------------------------


def test_a_parent_in_a_namespace_that_is_not_selected_is_told_so_and_loses_its_fields() -> None:
    message = "the box shop does not look after namespace team: spec.namespaces asks for other labels"
    decision = out_of_scope(BOX, with_ready_field(), START)
    assert conditions(decision) == {
        "Ready": ("False", "NamespaceNotSelected", message),
        "Reconciling": ("False", "NamespaceNotSelected", ""),
        "Stalled": ("True", "NamespaceNotSelected", message),
    }
    assert decision.status is not None
    assert decision.status["status"].keys() == {"observedGeneration", "conditions"}
    assert decision.row == "Ready=False/NamespaceNotSelected"
    assert decision.requeue == Requeue.NO


def test_a_parent_without_an_account_keeps_the_fields_of_its_status() -> None:
    message = (
        "the box shop works as the ServiceAccount that its spec.serviceAccountName names, and ${self.spec.account} "
        "gives no name of one: until it does, nothing is made, changed or removed"
    )
    decision = missing_account(by_account(), with_ready_field(), "${self.spec.account}", START)
    assert conditions(decision) == {
        "Ready": ("False", "NoServiceAccount", message),
        "Reconciling": ("False", "NoServiceAccount", ""),
        "Stalled": ("True", "NoServiceAccount", message),
    }
    assert get_path(decision.status, "status", "ready") == 3
    assert get_path(decision.status, "status", "observedGeneration") == 3
    assert [(event.type, event.reason) for event in decision.events] == [("Warning", "NoServiceAccount")]


# --- deletion --------------------------------------------------------------------------------------------------------


def test_a_deletion_with_nothing_left_removes_the_finalizer() -> None:
    done = Decision(finalizer=Finalizer.REMOVE, row="nothing is left")
    assert tear_down(BOX, recording(), Snapshot(), None, START) == done
    assert orphan_children(BOX, recording(), Snapshot(), START) == done


def test_a_deletion_waits_for_kinds_that_may_not_be_listed() -> None:
    parent, observed = with_ready_field(), Snapshot(hidden_kinds=HIDDEN)
    for decision in (tear_down(BOX, parent, observed, None, START), orphan_children(BOX, parent, observed, START)):
        assert decision.finalizer is None
        said = conditions(decision)
        assert said["Deleting"][0] == "True"
        assert hidden_message(BOX, HIDDEN) in said["Deleting"][2]
        assert get_path(decision.status, "status", "ready") == 3
        assert decision.requeue.after == 30.0


def child(name: str, **meta: Any) -> dict[ObjectRef, Any]:
    """A ConfigMap of the parent."""
    owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "corner", "uid": "u-1", "controller": True}
    said = {"uid": f"u-{name}", "resourceVersion": "1", "labels": {MARKS.owner_uid: "u-1"}, "ownerReferences": [owner]}
    manifest = CONFIG_MAP.manifest(name, "team")
    return {ObjectRef(CONFIG_MAP, "team", name): {**manifest, "metadata": {**manifest["metadata"], **said, **meta}}}


def test_children_that_stay_are_disowned_before_the_finalizer_goes() -> None:
    observed = Snapshot(objects={**child("a"), **child("b")}, hidden_kinds=HIDDEN)
    decision = orphan_children(BOX, recording(), observed, START)
    assert [patch.ref.name for patch in decision.patches] == ["a", "b"]
    assert (decision.finalizer, decision.requeue, decision.only_if_current) == (None, Requeue.NO, True)


def far(**meta: Any) -> dict[ObjectRef, Any]:
    """A ConfigMap of the parent in another namespace, where Kubernetes permits no owner reference."""
    ((_, manifest),) = child("far", ownerReferences=[], **meta).items()
    return {ObjectRef(CONFIG_MAP, "elsewhere", "far"): manifest}


def test_children_that_the_garbage_collector_has_orphaned_keep_the_others_PH_3() -> None:
    """The request was made while no process ran: its finalizer is gone, and a child far away was deleted."""
    orphaned = Snapshot(objects={**child("a", ownerReferences=[]), **far()})
    done = Decision(finalizer=Finalizer.REMOVE, row="nothing is left")
    assert tear_down(BOX, recording(), orphaned, None, START) == done
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": format_time(START)}
    served = with_ready_field(conditions=[{**ready, "message": ""}])
    assert tear_down(BOX, served, orphaned, None, START).deletes == (), "it has not begun"

    by_label = child("b", ownerReferences=[], annotations={MARKS.owner: "Label"})
    for there in (far(), {**by_label, **far()}, {**child("a"), **child("b", ownerReferences=[]), **far()}):
        deletes = tear_down(BOX, recording(), Snapshot(objects=there), None, START).deletes
        assert "far" in {delete.ref.name for delete in deletes}, "nothing shows such a request"


def test_a_child_that_somebody_keeps_after_the_deletion_began_keeps_no_other_PH_3() -> None:
    deleting = {"type": "Deleting", "status": "True", "reason": "DeletingResources", "message": ""}
    parent = with_ready_field(conditions=[{**deleting, "lastTransitionTime": format_time(START)}])
    kept = Snapshot(objects={**child("a", ownerReferences=[]), **far()})
    assert [delete.ref.name for delete in tear_down(BOX, parent, kept, None, START).deletes] == ["far"]


# --- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recorded", "observed", "expected"),
    [
        ((), Snapshot(), (CONFIG_MAP, DEPLOYMENT, NAMESPACE)),
        ((CONFIG_MAP, DEPLOYMENT, NAMESPACE), Snapshot(hidden_kinds=HIDDEN), None),
        ((CONFIG_MAP, GADGET), Snapshot(), (CONFIG_MAP, DEPLOYMENT, NAMESPACE)),
        ((CONFIG_MAP, GADGET), Snapshot(hidden_kinds=HIDDEN), (CONFIG_MAP, DEPLOYMENT, NAMESPACE, GADGET)),
        (
            (CONFIG_MAP, GADGET),
            Snapshot(missing_kinds=frozenset({GADGET})),
            (CONFIG_MAP, DEPLOYMENT, NAMESPACE, GADGET),
        ),
        ((CONFIG_MAP, DEPLOYMENT, NAMESPACE, GADGET), Snapshot(missing_kinds=frozenset({GADGET})), None),
        ((CONFIG_MAP, PLANET), Snapshot(missing_kinds=frozenset({GADGET})), (CONFIG_MAP, DEPLOYMENT, NAMESPACE)),
    ],
)
def test_a_parent_records_present_kinds_and_former_ones_of_which_something_may_be_left(
    recorded: tuple[Kind, ...], observed: Snapshot, expected: tuple[Kind, ...] | None
) -> None:
    parent = recording(*recorded, finalizers=[FINALIZER])
    decision = reconcile_children(BOX, parent, observed, PLAN)
    text = {} if expected is None else {"box.example.com/kinds": kinds_annotation(expected)}
    assert decision.annotations == text


@pytest.mark.parametrize(("uid", "is_kept"), [("u-1", True), ("u-2", False)])
def test_a_former_kind_is_recorded_while_a_child_of_it_lives(uid: str, is_kept: bool) -> None:
    live = {**GADGET.manifest("old", "team"), "metadata": {"name": "old", "labels": {MARKS.owner_uid: uid}}}
    observed = Snapshot(objects={ObjectRef(GADGET, "team", "old"): live})
    decision = reconcile_children(BOX, recording(CONFIG_MAP, GADGET), observed, PLAN)
    assert ("Gadget" in str(decision.annotations["box.example.com/kinds"])) is is_kept


@pytest.mark.parametrize("is_served", [True, False])
def test_a_former_version_is_recorded_only_while_the_present_one_is_not_served_PH_3(is_served: bool) -> None:
    former = attrs.evolve(GADGET, version="v1alpha1")
    live = {**former.manifest("old", "team"), "metadata": {"name": "old", "labels": {MARKS.owner_uid: "u-1"}}}
    missing = frozenset() if is_served else frozenset({GADGET})
    observed = Snapshot(objects={ObjectRef(former, "team", "old"): live}, missing_kinds=missing)
    decision = reconcile_children(composite(child_kinds=(GADGET,)), recording(former), observed, PLAN)
    assert ("v1alpha1" in str(decision.annotations["box.example.com/kinds"])) is not is_served


@pytest.mark.parametrize(
    ("finalizers", "writes", "finalizer", "only_if_current"),
    [
        ([], True, Finalizer.ADD, False),
        (["other"], True, Finalizer.ADD, False),
        ([FINALIZER], False, None, False),
        (["other", FINALIZER], True, None, True),
    ],
)
def test_children_are_written_for_a_parent_that_is_guarded_and_current(
    finalizers: list[str], writes: bool, finalizer: Finalizer | None, only_if_current: bool
) -> None:
    effects = Decision(deletes=(Delete(ObjectRef(SECRET, "team", "s"), "u-s"),) if writes else ())
    decision = reconcile_children(
        BOX, recording(finalizers=finalizers), Snapshot(), attrs.evolve(PLAN, effects=effects)
    )
    assert (decision.finalizer, decision.only_if_current) == (finalizer, only_if_current)
    assert decision.deletes == effects.deletes


RECORD = CreateRecord("once", "one", "team", uid="u-9")


@pytest.mark.parametrize(
    ("text", "manager", "expected"),
    [
        (None, "vworkspace-box.shop", created_annotation((RECORD,))),
        ("[]", "vworkspace-box.shop", created_annotation((RECORD,))),
        (created_annotation((RECORD,)), "vworkspace-box.shop", "-"),
        (created_annotation((RECORD,)), "mary", None),
        ("[]", "mary", created_annotation((RECORD,))),
    ],
)
def test_a_record_that_another_manager_wrote_alike_is_removed_first(
    text: str | None, manager: str, expected: str | None
) -> None:
    """RUN-12."""
    said = {} if text is None else {"box.example.com/created": text}
    plan = attrs.evolve(PLAN, records=(RECORD,))
    written = reconcile_children(BOX, BOX.read(shop(said, manager)), Snapshot(), plan).annotations
    assert written.get("box.example.com/created", "-") == expected
    assert next(iter(written)) == "box.example.com/kinds"


def test_a_record_that_nobody_needs_any_more_is_removed() -> None:
    parent = BOX.read(shop({"box.example.com/created": created_annotation((RECORD,))}))
    assert reconcile_children(composite(child_kinds=()), parent, Snapshot(), PLAN).annotations == {
        "box.example.com/created": None
    }


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("", ()),
        ("[]", ()),
        ("{}", ()),
        ("3", ()),
        ("[", ()),
        ('[{"node":"a","name":"b","namespace":"c","item":"d","uid":"e"}]', (CreateRecord("a", "b", "c", "d", "e"),)),
        ('[{"node":"a","name":null},3,{"uid":7}]', (CreateRecord("a", ""), CreateRecord("", "", uid="7"))),
    ],
)
def test_records_of_what_was_created_are_read_leniently(text: str, records: tuple[CreateRecord, ...]) -> None:
    assert created_records(text) == records
    if text.startswith('[{"node":"a","name":"b"'):
        assert created_annotation(records) == text


def test_a_record_is_written_without_what_is_empty() -> None:
    assert created_annotation((CreateRecord("a", "b"), RECORD)) == (
        '[{"node":"a","name":"b"},{"node":"once","name":"one","namespace":"team","uid":"u-9"}]'
    )


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", ()),
        ("ConfigMap/configmaps.v1", (CONFIG_MAP,)),
        ("Namespace/namespaces.v1/ Gadget/gadgets.v1beta1.example.org", (NAMESPACE, GADGET)),
        ("Planet/planets.v1.example.com/", (PLANET,)),
        ("  what? ConfigMap/configmaps.v1 ConfigMap/ x/y Configmap/configmaps.v1//", (CONFIG_MAP,)),
        ("ConfigMap/configmaps", ()),
    ],
)
def test_recorded_kinds_are_read_leniently(text: str, kinds: tuple[Kind, ...]) -> None:
    assert recorded_kinds(text) == kinds


@pytest.mark.parametrize(("count", "read"), [(255, 255), (256, 256), (257, 256), (258, 256)])
def test_at_most_256_recorded_kinds_are_read(count: int, read: int) -> None:
    kinds = recorded_kinds(" ".join(f"K{number}/k{number}.v1" for number in range(count)))
    assert [kind.kind for kind in kinds] == [f"K{number}" for number in range(read)]


def test_kinds_are_recorded_in_the_order_of_their_names() -> None:
    text = "ConfigMap/configmaps.v1 Gadget/gadgets.v1beta1.example.org Planet/planets.v1.example.com/"
    assert kinds_annotation((PLANET, CONFIG_MAP, GADGET)) == text


@pytest.mark.parametrize(
    ("secret", "stored"),
    [
        ({"data": {"a": "eA=="}}, {"data": {"a": "eA=="}}),
        ({"stringData": {"a": "x"}}, {"data": {"a": "eA=="}}),
        ({"stringData": {"a": "y"}, "data": {"a": "eA==", "b": "eA=="}}, {"data": {"a": "eQ==", "b": "eA=="}}),
        ({"stringData": {"a": 1}, "data": None}, {"data": {"a": "MQ=="}}),
        ({"stringData": None}, {}),
        ({"stringData": "x"}, {}),
    ],
)
def test_a_secret_is_stored_as_data(secret: dict[str, Any], stored: dict[str, Any]) -> None:
    assert as_stored(secret) == stored


# --- status ----------------------------------------------------------------------------------------------------------


def condition(kind: str, status: str, reason: str, message: str = "", ago: float = 0.0) -> dict[str, Any]:
    """A condition that stands since some seconds."""
    since = format_time(START - timedelta(seconds=ago))
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": since, "observedGeneration": 3}


def standing(*conditions: dict[str, Any], generation: int = 3, **meta: Any) -> Parent:
    """A parent with these conditions, whose generation is 3."""
    status = {"observedGeneration": generation, "conditions": list(conditions), "ready": 3}
    return BOX.read({**shop(**meta), "status": status})


def desired(kind: str, status: str, reason: str, message: str = "") -> DesiredCondition:
    return DesiredCondition(kind, ConditionStatus(status), reason, message)


def written(parent: Parent, *wanted: DesiredCondition, ready: int = 3) -> Decision:
    return with_status(Decision(), BOX, parent, Snapshot(), wanted, {"ready": ready}, START)


WAITING = ("Ready", "False", "ResourceNotReady")


@pytest.mark.parametrize(
    ("before", "after", "ago", "wait"),
    [
        ("web: 1 of 2", "web: 2 of 2", 0, 10),
        ("web: 1 of 2", "web: 2 of 2", 4, 6),
        ("web: 1 of 2", "web: 2 of 2", 9, 1),
        ("web: 1 of 2", "web: 2 of 2", 10, None),
        ("web: 1 of 2", "web: 2 of 2", 11, None),
        ("web: 1 of 2", "api: 1 of 2", 0, None),
        ("web 1 of 2", "web: 1 of 2", 0, None),
        ("web", "web: 1 of 2", 0, 10),
        ("web:1", "web:2", 0, None),
        ("", "", 0, None),
    ],
)
def test_progress_of_the_same_obstacle_waits_for_ten_seconds_from_the_last_transition(
    before: str, after: str, ago: float, wait: float | None
) -> None:
    parent = standing(condition(*WAITING, before, ago), condition("Stalled", "False", "Stable", ago=60))
    decision = written(parent, desired(*WAITING, after), desired("Stalled", "False", "Stable"), ready=4)
    assert (decision.status is None) is (wait is not None)
    assert decision.requeue.after == wait


def test_progress_does_not_wait_after_times_that_cannot_be_read() -> None:
    live = {**condition(*WAITING, "web: 1"), "lastTransitionTime": "yesterday"}
    assert written(standing(live), desired(*WAITING, "web: 2")).status is not None


READY = ("Ready", "True", "Ready")


@pytest.mark.parametrize(
    ("live", "wanted", "more", "wait"),
    [
        (condition(*READY, ago=0), WAITING, {}, 10),
        (condition(*READY, ago=9.5), WAITING, {}, None),
        (condition(*READY, ago=8), WAITING, {}, 2),
        (condition(*READY, ago=10), WAITING, {}, None),
        (condition("Ready", "Unknown", "Ready"), WAITING, {}, None),
        (condition(*READY), ("Ready", "False", "ResourceFailed"), {}, None),
        (condition(*READY), WAITING, {"generation": 2}, None),
        (condition(*READY), WAITING, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, None),
        ({**condition(*READY), "lastTransitionTime": "yesterday"}, WAITING, {}, None),
        (condition("Stalled", "False", "Stable"), WAITING, {}, None),
        (condition(*READY), ("Stalled", "True", "ResourceNotReady"), {}, None),
    ],
)
def test_a_parent_that_became_ready_stays_so_for_ten_seconds(
    live: dict[str, Any], wanted: tuple[str, str, str], more: dict[str, Any], wait: float | None
) -> None:
    decision = written(standing(live, **more), desired(*wanted, "web: 0 of 1"))
    assert (decision.status is None) is (wait is not None)
    assert decision.requeue.after == wait


def test_a_status_that_stands_is_not_written() -> None:
    parent = standing(condition(*READY))
    decision = written(parent, desired(*READY))
    assert (decision.status, decision.requeue, decision.row) == (None, Requeue.NO, "Ready=True/Ready")
    assert written(parent, desired(*READY), ready=4).status is not None
    assert written(standing(condition(*READY), generation=2), desired(*READY)).status is not None


def test_notes_of_a_parent_stand_beside_the_conditions() -> None:
    parent = attrs.evolve(standing(condition(*READY)), notes=(desired("Reconciling", "True", "Rolling"),))
    assert set(conditions(written(parent, desired(*READY)))) == {"Ready", "Reconciling"}


@pytest.mark.parametrize(
    ("live", "wanted", "events"),
    [
        ((), READY, [("Normal", "Ready")]),
        ((), WAITING, []),
        ((condition(*WAITING, ago=60),), READY, [("Normal", "Ready")]),
        ((condition(*READY, ago=60),), WAITING, [("Normal", "ResourceNotReady")]),
        ((), ("Stalled", "True", "Failed"), [("Warning", "Failed")]),
        ((condition("Stalled", "True", "Failed", ago=60),), ("Stalled", "False", "Stable"), [("Normal", "Stable")]),
        ((), ("Stalled", "False", "Stable"), []),
        ((), ("Reconciling", "True", "Progressing"), []),
        ((), ("Deleting", "True", "Draining"), [("Normal", "Draining")]),
    ],
)
def test_events_tell_changes_of_ready_stalled_and_deleting(
    live: tuple[dict[str, Any], ...], wanted: tuple[str, str, str], events: list[tuple[str, str]]
) -> None:
    decision = written(standing(*live), desired(*wanted, "so it is"))
    assert [(event.type, event.reason) for event in decision.events] == events
    for event in decision.events:
        assert event.regarding == ObjectRef(SHOP, "team", "corner")
        assert (event.regarding_uid, event.note) == ("u-1", f"{wanted[0]} is {wanted[1]}: so it is")


@pytest.mark.parametrize(("observed", "is_written"), [(3, False), (None, True), ("3", True), (2, True)])
def test_a_status_of_which_the_generation_is_unknown_is_written_again(observed: Any, is_written: bool) -> None:
    status = {"conditions": [condition(*READY)], "ready": 3, "observedGeneration": observed}
    parent = BOX.read({**shop(), "status": status})
    assert (written(parent, desired(*READY)).status is not None) is is_written


@pytest.mark.parametrize(
    ("status", "fields"), [(None, {}), ("x", {}), ({"other": 1}, {}), ({"ready": None}, {"ready": None})]
)
def test_the_fields_of_a_status_are_those_that_the_composite_declares(status: Any, fields: dict[str, Any]) -> None:
    assert present_fields(BOX, BOX.read({**shop(), "status": status})) == fields
    assert present_fields(BOX, with_ready_field()) == {"ready": 3}


# --- what a composite says of itself ---------------------------------------------------------------------------------


def test_names_of_a_composite_follow_from_its_word_and_its_domain() -> None:
    other = composite(word="reconciler", name="r", controller="pure-r")
    assert (BOX.title, BOX.told, other.title, other.told) == ("box shop", "shop", "reconciler r", "pure-r")
    assert BOX.kinds_annotation == "box.example.com/kinds"
    assert BOX.created_annotation == "box.example.com/created"
    assert MARKS.peers == "box.example.com/peers"
    assert composite(conditions=("Open",)).condition_types == ("Ready", "Reconciling", "Stalled", "Deleting", "Open")
    assert status_writer(BOX) == StatusWriter(SHOP, "box shop")


def test_an_account_acts_for_a_parent_where_the_composite_has_one() -> None:
    parent = recording()
    assert (BOX.impersonates, BOX.account_of(parent)) == (False, None)
    described = by_account()
    assert described.impersonates
    assert str(described.account_of(parent)) == "ServiceAccount team/builder"


@pytest.mark.parametrize(
    ("more", "kind", "is_near", "namespace"),
    [
        ({}, CONFIG_MAP, True, "team"),
        ({}, NAMESPACE, False, None),
        ({"anywhere": frozenset({CONFIG_MAP})}, CONFIG_MAP, False, None),
        ({"anywhere": frozenset({CONFIG_MAP})}, SECRET, True, "team"),
        ({"kind": PLANET}, CONFIG_MAP, False, "team"),
    ],
)
def test_children_are_near_their_parent_or_anywhere(
    more: dict[str, Any], kind: Kind, is_near: bool, namespace: str | None
) -> None:
    described = composite(**more)
    assert described.is_near(kind) is is_near
    assert described.namespace_of_children(recording(), kind) == namespace


def test_metadata_suffices_of_secrets_alone_and_only_where_no_more_is_read() -> None:
    slim = composite(secrets=SecretUse.METADATA)
    assert [slim.wants_metadata_of(kind) for kind in (SECRET, CONFIG_MAP)] == [True, False]
    assert not BOX.wants_metadata_of(SECRET)
    assert not composite(secrets=SecretUse.TYPE).wants_metadata_of(SECRET)


UNWANTED = tuple(Delete(ObjectRef(CONFIG_MAP, "team", name), f"u-{name}") for name in ("a", "b"))


def test_deletes_that_are_postponed_leave_out_what_was_made_and_are_none_in_a_deletion() -> None:
    plan = attrs.evolve(PLAN, unwanted=UNWANTED)
    asked = list[Any]()

    def explain(*given: Any) -> Explanation:
        asked.append(given)
        return Explanation(Graph.of([]), plan)

    described = composite(explain=explain)
    parent, going = recording(), recording(deletionTimestamp="2026-01-01T00:00:00Z")
    assert described.deletes_afterwards(parent, Snapshot(), START, ()) == UNWANTED
    assert described.deletes_afterwards(parent, Snapshot(), START, {UNWANTED[0].ref}) == UNWANTED[1:]
    assert described.deletes_afterwards(going, Snapshot(), START, ()) == ()
    assert BOX.deletes_afterwards(parent, Snapshot(), START, ()) == ()
    assert asked == [(parent, Snapshot(), START)] * 2


def test_a_cached_parent_keeps_its_records_and_who_wrote_them() -> None:
    manifest = shop({BOX.kinds_annotation: "a", BOX.created_annotation: "b", "theirs": "c"})
    cached = BOX.read(BOX.as_cached(manifest))
    assert [BOX.record(cached, name) for name in (BOX.kinds_annotation, BOX.created_annotation)] == ["a", "b"]
    assert BOX.record(cached, "theirs") == ""
    assert BOX.record(BOX.read(shop({BOX.kinds_annotation: "a"}, "mary")), BOX.kinds_annotation) == ""


@pytest.mark.parametrize(("rounds", "most"), [(1, 1), (16, 16), (17, 16)])
def test_a_pass_has_at_most_sixteen_rounds(rounds: int, most: int) -> None:
    described = composite(rounds=rounds)
    rules = described.pass_rules(lambda: START, SeededEntropy(0))
    assert (rules.rounds, rules.kind, rules.finalizer) == (most, SHOP, FINALIZER)
    assert (rules.idempotent, rules.looks_up) == (True, True)


# --- two writers of a status -----------------------------------------------------------------------------------------


def test_two_writers_of_a_status_are_told_with_the_first_of_them() -> None:
    later = attrs.evolve(SHOP, version="v2")
    writers = [StatusWriter(SHOP, "box a"), StatusWriter(GADGET, "box b"), StatusWriter(later, "box c")]
    writers += [StatusWriter(SHOP, "operator"), StatusWriter(attrs.evolve(SHOP, group="example.org"), "box d")]
    told = (
        "the box a and the {} would both write the status of Shop objects (shops.example.com), and each would undo the "
        "other: run one of them"
    )
    assert list(shared_statuses(writers)) == [told.format("box c"), told.format("operator")]


@pytest.mark.parametrize(
    ("other", "hint"),
    [("box old", " If it was renamed, give it its former name back."), ("operator", ""), ("controller shop", "")],
)
def test_a_refusal_to_write_a_status_says_how_to_take_it_over(other: str, hint: str) -> None:
    assert refusal("box shop", other, "kubectl patch x") == (
        f"the {other} writes the status of this object, so the box shop leaves it alone: each would undo the other. "
        f"Run one of them.{hint} Once the {other} is gone for good, hand the status over: kubectl patch x"
    )


@pytest.mark.parametrize(
    ("manager", "title"),
    [
        ("vworkspace-operator", "operator"),
        ("vworkspace-box.old", "box old"),
        ("vworkspace-controller.c", "controller c"),
        ("vworkspace-operators", ""),
        ("my-vworkspace-box.old", ""),
        ("kubectl", ""),
        (MANAGER, ""),
    ],
)
def test_the_other_writer_of_a_status_is_named_after_its_field_manager(manager: str, title: str) -> None:
    held: dict[str, Any] = {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {"f:status": {}}}}}
    entry = {"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": held}
    assert other_writer(BOX.status_owner, shop(managedFields=[entry])) == title
