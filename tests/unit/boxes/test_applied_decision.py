"""PH-10: the decision about an applied box in each of its phases, and the status by which people read it."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.definitions import BROUGHT_TO, OPERATOR_BOX, PIN
from purekube.apimachinery.errors import Forbidden, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.apimachinery.timestamps import format_time
from purekube.boxes.box import finalizer_named
from purekube.boxes.read import BoxProblem
from purekube.boxes.rollout_policy import DeletionPolicy
from purekube.boxes.rollouts.applied import (
    FINALIZER,
    AppliedBox,
    AppliedBoxState,
    BoxSnapshot,
    BoxState,
    decide_applied,
)
from purekube.boxes.rollouts.applied_status import WORDS, decide_with_status
from purekube.boxes.rollouts.judgement import DryRunResult, Judgement
from purekube.boxes.rollouts.members import ParentReadings
from purekube.boxes.rollouts.revisions import (
    CONTROLLER_REVISION,
    GIVEN_UP,
    PROVEN,
    REFUSED,
    definition_of,
    revision_manifest,
    revision_name,
)
from purekube.boxes.webhooks.conversion_webhook import ConversionWebhook
from purekube.cel import DYN, Environment, compile_expression
from purekube.controller.decision import Decision, Failure, Finalizer, Requeue
from purekube.controller.reconcile_error import ReconcileError, ReconcileErrorCause
from tests.support.boxes import box_of, config, crd

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SYSTEM = "system"
SHOP = box_of(config("settings")).kind
POLICY = {"maxUnavailable": "100%"}


def spec(value: str = "one", **more: Any) -> dict[str, Any]:
    """A box's spec whose one resource has this value."""
    return {"crd": {"name": "shops.example.com"}, "resources": [config("settings", data={"v": value})], **more}


def applied(written: Mapping[str, Any], *, is_going: bool = False, **more: Any) -> AppliedBox:
    meta = {"name": "shops", "uid": "u", "resourceVersion": "7", "generation": 2, "finalizers": [FINALIZER]}
    going = {"deletionTimestamp": format_time(NOW)} if is_going else {}
    return AppliedBox.read({**OPERATOR_BOX.manifest("shops"), "metadata": {**meta, **going}, "spec": written, **more})


def revision(number: int, written: Mapping[str, Any], **annotations: str) -> Manifest:
    manifest = revision_manifest(applied(written).metadata, SYSTEM, definition_of(written), number)
    meta = {"namespace": SYSTEM, "uid": f"r{number}", "resourceVersion": str(number), "annotations": annotations}
    return {**manifest, "metadata": {**manifest["metadata"], **meta}}


def named(written: Mapping[str, Any]) -> str:
    return revision_name("shops", definition_of(written))


def condition(type: str, status: str, reason: str = "Told", message: str = "") -> dict[str, Any]:
    at = {"observedGeneration": 2, "lastTransitionTime": format_time(NOW)}
    return {"type": type, "status": status, "reason": reason, "message": message, **at}


def parent(name: str, written: Mapping[str, Any], ready: str = "True", stalled: str = "False", **meta: Any) -> Manifest:
    """A shop that was brought to the revision of a spec a minute ago, and has its status by that revision."""
    at = named(written)
    told = [condition("Ready", ready), condition("Stalled", stalled), condition("Revision", "True", "Recorded", at)]
    brought = {BROUGHT_TO: f"{at} {format_time(NOW - timedelta(minutes=1))}", **meta.pop("annotations", {})}
    whole = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "9", "generation": 2, **meta}
    return {
        **SHOP.manifest(name, "team"),
        "metadata": {**whole, "annotations": brought},
        "status": {"conditions": told},
    }


def state(of: AppliedBox, *objects: Manifest, **observed: Any) -> BoxState:
    """The box with its compiled definition, and these revisions and shops."""
    rollout = of.spec.get("rollout") or {}
    box = box_of(config("settings", data={"v": "one"}), rollout=rollout)
    kinds = {kind.kind: kind for kind in (CONTROLLER_REVISION, SHOP, CUSTOM_RESOURCE_DEFINITION)}
    by_ref = {ref_of(each, kinds[each["kind"]]): each for each in objects}
    whole = {"box": box, "kind": SHOP, "serving": frozenset((of.revision,)), **observed}
    return BoxState(of, BoxSnapshot(objects=by_ref, **whole), NOW, SYSTEM)


def told(decision: Decision) -> Mapping[str, tuple[str, str, str]]:
    """Status, reason and message of each condition that a decision writes."""
    found = get_path(decision.status, "status", "conditions") or ()
    return {each["type"]: (each["status"], each["reason"], each.get("message", "")) for each in found}


def judged(written: Mapping[str, Any], refused: int = 0) -> dict[str, Any]:
    refusals = [{"object": f"Shop team/{number}", "message": "no"} for number in range(refused)]
    return {"status": {"judgement": {"revision": named(written), "refused": refused, "refusals": refusals}}}


# --- the order of steps -----------------------------------------------------------------------------------------------


def test_a_box_gets_its_finalizer_before_anything_else() -> None:
    new = AppliedBox.read({**OPERATOR_BOX.manifest("shops"), "spec": spec()})
    assert decide_with_status(state(new)) == Decision(finalizer=Finalizer.ADD)


def test_a_refused_definition_writes_nothing_and_is_looked_at_again_after_ten_seconds() -> None:
    problems = tuple(BoxProblem(Place(f"spec.{name}"), "is wrong") for name in "ab")
    refused = state(applied(spec()), box=None, problems=problems, serving=frozenset())
    assert decide_applied(refused) == Decision(requeue=Requeue.at_latest(10.0))
    decision = decide_with_status(refused)
    assert told(decision) == {
        "Accepted": ("False", "Invalid", "spec.a: is wrong (and 1 more in status.problems)"),
        "Permitted": ("Unknown", "NotAccepted", ""),
        "Serving": ("False", "NotAccepted", ""),
        "RolledOut": ("Unknown", "NotServed", ""),
    }
    assert get_path(decision.status, "status", "problems") == [
        {"path": "spec.a", "message": "is wrong"},
        {"path": "spec.b", "message": "is wrong"},
    ]
    one = state(applied(spec()), box=None, problems=problems[:1], serving=frozenset())
    assert told(decide_with_status(one))["Accepted"] == ("False", "Invalid", "spec.a: is wrong")


def test_a_box_whose_rights_are_missing_stores_nothing() -> None:
    forbidden = state(applied(spec()), lacking="the box may not get configmaps", serving=frozenset())
    assert decide_applied(forbidden) == Decision(requeue=Requeue.at_latest(30.0))
    conditions = told(decide_with_status(forbidden))
    assert conditions["Accepted"] == ("True", "Valid", "")
    assert conditions["Permitted"] == ("False", "Forbidden", "the box may not get configmaps")
    assert conditions["Serving"] == ("False", "NotPermitted", "")


def test_a_definition_is_stored_before_its_crd_is_applied() -> None:
    first = decide_applied(state(applied(spec())))
    (created,) = first.creates
    assert created.manifest["revision"] == 1
    assert created.manifest["metadata"]["name"] == named(spec())
    assert created.manifest["data"] == {"spec": spec()}
    assert not first.applies
    (second,) = decide_applied(state(applied(spec("two")), revision(1, spec()))).creates
    assert second.manifest["revision"] == 2


def test_a_definition_that_comes_again_is_its_revision_with_the_next_number_and_a_new_chance() -> None:
    former = revision(1, spec(), **{GIVEN_UP: "Shop a", REFUSED: "no"})
    decision = decide_applied(state(applied(spec()), former, revision(2, spec("two"))))
    (patch,) = decision.patches
    assert patch.ref.name == named(spec())
    assert patch.patch["revision"] == 3
    assert patch.patch["metadata"]["annotations"] == {GIVEN_UP: None, REFUSED: None}
    assert patch.patch["metadata"]["resourceVersion"] == "1"
    assert not decision.creates


@pytest.mark.parametrize(("unserved", "seconds"), [("", 0.0), ("caches are filled", 0.5)])
def test_until_a_definition_is_served_nothing_moves(unserved: str, seconds: float) -> None:
    waiting = state(applied(spec()), revision(1, spec()), serving=frozenset(), unserved=unserved)
    assert waiting.phase is AppliedBoxState.UNSERVED
    assert decide_applied(waiting) == Decision(requeue=Requeue.at_latest(seconds))
    assert told(decide_with_status(waiting))["Serving"] == ("False", "Starting", unserved)


def test_earlier_revisions_are_served_while_the_present_one_is_not() -> None:
    history = (revision(1, spec()), revision(2, spec("two")))
    waiting = state(applied(spec("two")), *history, serving=frozenset((named(spec()),)))
    assert told(decide_with_status(waiting))["Serving"][:2] == ("True", "FormerRevisions")


@pytest.mark.parametrize("has_versions", [False, True])
def test_a_crd_of_the_box_is_applied_until_it_is_the_one_of_the_definition(has_versions: bool) -> None:
    kind, declared = crd(), list[Any]()
    (stored,) = kind["spec"]["versions"]
    if has_versions:
        kind["spec"]["versions"] = [stored, {**stored, "name": "v1alpha1", "storage": False}]
        up, down = {"spec.image": "${old.spec.image}"}, {"spec.image": "${self.spec.image}"}
        declared = [{"name": "v1"}, {"name": "v1alpha1", "up": up, "down": down, "keeps": "annotation"}]
    box = box_of(config("settings"), kind=kind, crd={"spec": kind["spec"]}, versions=declared)
    webhook = ConversionWebhook({"url": "https://boxes/convert"})
    observed = {"box": box, "webhook": webhook, "serving": frozenset()}
    (apply,) = decide_applied(state(applied(spec()), revision(1, spec()), **observed)).applies
    assert apply.ref == ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, "shops.example.com")
    assert webhook.converts(apply.manifest) is has_versions
    again = state(applied(spec()), revision(1, spec()), apply.manifest, **observed)
    assert decide_applied(again).applies == ()
    renewed = {**observed, "webhook": ConversionWebhook({**webhook.client, "caBundle": "YQ=="})}
    later = decide_applied(state(applied(spec()), revision(1, spec()), apply.manifest, **renewed))
    assert bool(later.applies) is has_versions


# --- roll-out ---------------------------------------------------------------------------------------------------------


def rolling(*shops: Manifest, status: Mapping[str, Any] | None = None, **more: Any) -> BoxState:
    """A box whose definition went from `one` to `two`, which is judged and refused by nothing unless `status` says."""
    wanted = spec("two", rollout={**POLICY, **more.pop("rollout", {})})
    box = applied(wanted, **(judged(spec("two")) if status is None else status))
    former, present = more.pop("former", {PROVEN: "true"}), more.pop("present", {})
    return state(box, revision(1, spec(), **former), revision(2, wanted, **present), *shops, **more)


def test_shops_move_one_after_the_other_oldest_first_by_writes_that_fail_if_they_have_changed() -> None:
    born = {"a": "2026-01-01T03:00:00Z", "b": "2026-01-01T02:00:00Z", "c": "2026-01-01T01:00:00Z"}
    shops = [parent(name, spec(), creationTimestamp=at) for name, at in born.items()]
    decision = decide_applied(rolling(*shops))
    assert [patch.ref.name for patch in decision.patches] == ["c", "b", "a"]
    assert [[ref.name for ref in patch.after] for patch in decision.patches] == [[], ["c"], ["b"]]
    moved = {"resourceVersion": "9", "annotations": {BROUGHT_TO: f"{named(spec('two'))} {format_time(NOW)}"}}
    assert all(patch.patch == {"metadata": moved} for patch in decision.patches)


def test_a_finished_roll_out_is_told_and_learned_once() -> None:
    done = rolling(parent("a", spec("two")), parent("b", spec("two")))
    (learned,) = decide_applied(done).patches
    assert learned.patch["metadata"]["annotations"] == {PROVEN: "true"}
    assert learned.ref.name == named(spec("two"))
    conditions = told(decide_with_status(done))
    assert conditions["Serving"] == ("True", "Running", "")
    assert conditions["RolledOut"] == ("True", "Complete", f"2 objects at {named(spec('two'))}")
    assert decide_applied(rolling(parent("a", spec("two")), present={PROVEN: "true"})).patches == ()


STOPPED = "Shop team/a failed: Told"
BACK = ", or go back: vworkspace-operator box rollout undo shops"


@pytest.mark.parametrize(
    ("shops", "more", "reason", "message"),
    [
        (
            [parent("a", spec("two"), "False", "True"), parent("b", spec())],
            {},
            "Stopped",
            f"{STOPPED}; 1 of 2 objects at TARGET, 0 of them Ready. Mend it or the box{BACK}",
        ),
        (
            [parent(name, spec("two"), "False", "True") for name in "abcd"],
            {"former": {}},
            "Stopped",
            "; ".join(STOPPED.replace("/a", f"/{name}") for name in "abc")
            + f" and 1 more; 4 of 4 objects at TARGET, 0 of them Ready. Mend it or the box{BACK}",
        ),
        ([parent("a", spec("two"), "False")], {}, "Progressing", "1 of 1 object at TARGET, 0 of them Ready"),
        (
            [parent("a", spec())],
            {"rollout": {"pause": True}},
            "Paused",
            "0 of 1 object at TARGET, 0 of them Ready. To go on: vworkspace-operator box rollout resume shops",
        ),
        (
            [parent("a", spec())],
            {"status": {}},
            "Judging",
            "0 of 1 object judged; 0 of 1 object at TARGET, 0 of them Ready",
        ),
        (
            [parent("a", spec()), parent("b", spec())],
            {"status": judged(spec("two"), 2)},
            "Refused",
            "Shop team/0 would fail: no, and 1 more (status.judgement); 0 of 2 objects at TARGET, 0 of them Ready. "
            f"Nothing moves: change the box or the object, or keep it where it is by the annotation {PIN}{BACK}",
        ),
    ],
)
def test_people_read_where_a_roll_out_stands_and_what_to_do(
    shops: list[Manifest], more: Any, reason: str, message: str
) -> None:
    conditions = told(decide_with_status(rolling(*shops, **more)))
    assert conditions["RolledOut"] == ("False", reason, message.replace("TARGET", named(spec("two"))))


def pinned(name: str, revision: str) -> Manifest:
    return parent(name, spec(), annotations={PIN: revision})


def test_a_roll_out_is_not_complete_while_an_object_is_pinned_to_a_revision_that_does_not_exist() -> None:
    end = (
        "which the box does not have. Unpin it, or take a revision from: vworkspace-operator box rollout history shops"
    )
    lost = rolling(pinned("a", "shops-lost"), parent("b", spec("two")))
    message = f"Shop team/a is pinned to shops-lost, {end}"
    assert told(decide_with_status(lost))["RolledOut"] == ("False", "NoSuchRevision", message)
    many = told(decide_with_status(rolling(*(pinned(name, "x") for name in "abcd"))))["RolledOut"][2]
    assert many.startswith("Shop team/a is pinned to x; ")
    assert many.endswith(f"Shop team/c is pinned to x and 1 more, {end}")


def test_an_object_that_is_pinned_rightly_or_on_its_way_out_does_not_hold_a_roll_out_up() -> None:
    going = parent("a", spec(), annotations={PIN: "shops-lost"}, deletionTimestamp=format_time(NOW))
    for shop in (pinned("a", named(spec())), going):
        assert told(decide_with_status(rolling(shop)))["RolledOut"][:2] == ("True", "Complete")


def test_a_roll_out_that_may_not_go_back_says_nothing_of_it() -> None:
    """A revision at which nothing was ever Ready, beside one at which something was, is no way back."""
    stuck = rolling(parent("a", spec("two"), "False", "True"), former={}, present={PROVEN: "true"})
    assert told(decide_with_status(stuck))["RolledOut"][2].endswith("Mend it or the box")


def test_a_failure_gives_the_revision_up_where_the_policy_says_undo_and_there_is_a_way_back() -> None:
    failed, policy = parent("a", spec("two"), "False", "True"), {"rollout": {"onFailure": "Undo"}}
    (patch,) = decide_applied(rolling(failed, **policy)).patches
    assert patch.ref.name == named(spec("two"))
    assert patch.patch["metadata"]["annotations"] == {GIVEN_UP: "Shop team/a: Told"}
    assert decide_applied(rolling(failed)).patches == ()
    assert decide_applied(rolling(failed, former={REFUSED: "no"}, **policy)).patches == ()


def test_what_was_given_up_is_left_by_all_and_then_said() -> None:
    given_up = {GIVEN_UP: "Shop team/a: Told"}
    failed, former = parent("a", spec("two"), "False", "True"), frozenset((named(spec()),))
    returning = rolling(failed, present=given_up, serving=former)
    assert returning.target == named(spec())
    (patch,) = decide_applied(returning).patches
    assert patch.patch["metadata"]["annotations"][BROUGHT_TO].startswith(f"{named(spec())} ")
    undone = rolling(parent("a", spec()), present=given_up, serving=former)
    status, reason, message = told(decide_with_status(undone))["RolledOut"]
    assert (status, reason) == ("False", "Undone")
    assert message == (
        f"{named(spec('two'))} was undone, since an object failed: Shop team/a: Told. Objects are at {named(spec())}. "
        "Change the box, or try again: vworkspace-operator box rollout resume shops"
    )


def test_a_refusal_is_recorded_on_its_revision_and_taken_back() -> None:
    refused = decide_applied(rolling(parent("a", spec()), status=judged(spec("two"), 1)))
    (patch,) = refused.patches
    assert patch.patch["metadata"]["annotations"] == {REFUSED: "Shop team/0 would fail: no"}
    cured = decide_applied(rolling(parent("a", spec()), present={REFUSED: "Shop team/0 would fail: no"}))
    assert [each.patch["metadata"]["annotations"] for each in cured.patches] == [{REFUSED: None}]
    still = decide_applied(
        rolling(parent("a", spec()), status=judged(spec("two"), 1), present={REFUSED: "Shop team/0 would fail: no"})
    )
    assert (still.patches, still.requeue) == ((), Requeue.at_latest(60.0))


def test_a_dry_run_goes_on_at_once_unless_something_is_in_its_way() -> None:
    waiting = [parent("a", spec()), parent("b", spec())]
    assert rolling(*waiting, status={}).needs_judgement
    assert decide_applied(rolling(*waiting, status={})).requeue == Requeue.at_latest(0.0)
    verdict = DryRunResult(ObjectRef(SHOP, "team", "a"), creates=1)
    judgement = Judgement(named(spec("two")), (verdict,), left=1, obstacle="no answer")
    held = rolling(*waiting, status={}, judgement=judgement)
    assert decide_applied(held).requeue == Requeue.at_latest(1.0)
    assert told(decide_with_status(held))["RolledOut"][2].startswith("1 of 2 objects judged; no answer; ")
    whole = decide_with_status(rolling(*waiting, status={}, judgement=attrs.evolve(judgement, left=0, obstacle="")))
    assert get_path(whole.status, "status", "judgement", "creates") == 1
    assert not rolling(parent("a", spec("two")), status={}).needs_judgement


def test_revisions_that_nobody_has_are_deleted_beyond_ten_the_oldest_first() -> None:
    many = [spec(f"v{number}") for number in range(14)]
    history = [revision(number + 1, each) for number, each in enumerate(many)]
    for known in (history[0], history[-1]):
        known["metadata"]["annotations"] = {PROVEN: "true"}
    box = applied(many[-1], **judged(many[-1]))
    deletes = decide_applied(state(box, *history, parent("a", many[0]), parent("b", many[-1]))).deletes
    assert [(each.ref.name, each.uid, each.resource_version) for each in deletes] == [
        (named(many[number]), f"r{number + 1}", str(number + 1)) for number in (1, 2)
    ]


# --- removal ----------------------------------------------------------------------------------------------------------


def going(policy: DeletionPolicy, *shops: Manifest, **observed: Any) -> BoxState:
    return state(applied(spec(deletionPolicy=policy.value), is_going=True), revision(1, spec()), *shops, **observed)


@pytest.mark.parametrize("policy", DeletionPolicy)
def test_a_box_without_objects_goes_once_nothing_serves_it(policy: DeletionPolicy) -> None:
    assert decide_applied(going(policy, serving=frozenset())) == Decision(finalizer=Finalizer.REMOVE)


def test_a_box_whose_kind_is_not_known_keeps_its_finalizer() -> None:
    """Whether objects are left cannot be told."""
    assert decide_applied(going(DeletionPolicy.DELETE, kind=None, box=None)) == Decision(requeue=Requeue.SLOW)
    never = state(applied(spec(), is_going=True), kind=None, box=None)
    assert decide_applied(never) == Decision(finalizer=Finalizer.REMOVE)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            DeletionPolicy.REFUSE,
            "the deletion waits until 1 object of its kind is gone. To leave objects in place: "
            """kubectl patch operatorbox shops --type=merge -p '{"spec":{"deletionPolicy":"Orphan"}}'. """
            "To delete them: "
            """kubectl patch operatorbox shops --type=merge -p '{"spec":{"deletionPolicy":"Delete"}}'""",
        ),
        (DeletionPolicy.DELETE, "1 object is being deleted"),
        (DeletionPolicy.ORPHAN, "1 object is being released"),
    ],
)
def test_a_deletion_says_what_it_waits_for(policy: DeletionPolicy, message: str) -> None:
    shop = parent("a", spec(), finalizers=[finalizer_named("shops")])
    assert told(decide_with_status(going(policy, shop)))["Serving"] == ("True", "Deleting", message)
    unserved = told(decide_with_status(going(policy, shop, serving=frozenset())))
    assert unserved["Serving"] == ("False", "Deleting", message)
    assert told(decide_with_status(going(policy, shop)))["RolledOut"] == ("Unknown", "Deleting", "")
    two = told(decide_with_status(going(policy, shop, parent("b", spec()))))["Serving"][2]
    assert two == re.sub("1 object(.*?) is", r"2 objects\1 are", message)


def test_a_refused_deletion_waits_and_a_granted_one_deletes_each_object_once() -> None:
    shop, ending = parent("a", spec()), parent("b", spec(), deletionTimestamp=format_time(NOW))
    assert decide_applied(going(DeletionPolicy.REFUSE, shop)) == Decision()
    decision = decide_applied(going(DeletionPolicy.DELETE, shop, ending))
    assert [(delete.ref.name, delete.uid) for delete in decision.deletes] == [("a", "a")]
    assert decide_applied(going(DeletionPolicy.DELETE, ending)) == Decision()


def test_objects_are_released_once_no_controller_serves_them_and_keep_other_finalizers() -> None:
    ours = finalizer_named("shops")
    held, free = parent("a", spec(), finalizers=["other", ours]), parent("b", spec(), finalizers=["other"])
    assert decide_applied(going(DeletionPolicy.ORPHAN, held)) == Decision()
    (patch,) = decide_applied(going(DeletionPolicy.ORPHAN, held, free, serving=frozenset())).patches
    assert patch.ref.name == "a"
    assert patch.patch == {"metadata": {"resourceVersion": "9", "finalizers": ["other"]}}
    released = decide_applied(going(DeletionPolicy.ORPHAN, free, serving=frozenset()))
    assert released == Decision(finalizer=Finalizer.REMOVE)


def test_a_policy_that_cannot_be_read_keeps_everything() -> None:
    for unreadable in ("Everything", 7, None):
        assert applied(spec(deletionPolicy=unreadable)).deletion_policy is DeletionPolicy.REFUSE
    assert AppliedBox.read({**OPERATOR_BOX.manifest("shops"), "spec": "none"}).spec == {}


# --- when the status is written ---------------------------------------------------------------------------------------


def written(decided: BoxState) -> Mapping[str, Any]:
    """The status that a state leads to, as it is on the object afterwards."""
    status = get_path(decide_with_status(decided).status, "status")
    assert status is not None
    return dict(status)


def after(decided: BoxState, seconds: float, *shops: Manifest, **observed: Any) -> BoxState:
    """The same box with that status, so many seconds later, and with other shops if any are given."""
    box = AppliedBox.read({**decided.applied.manifest, "status": written(decided)})
    objects = dict(decided.observed.objects)
    objects |= {ref_of(each, SHOP): each for each in shops}
    snapshot = attrs.evolve(decided.observed, objects=objects, readings=ParentReadings(), **observed)
    return BoxState(box, snapshot, decided.now + timedelta(seconds=seconds), SYSTEM)


def settled(*shops: Manifest) -> BoxState:
    return rolling(*shops, present={PROVEN: "true"})


def test_a_status_that_says_the_same_is_not_written_again() -> None:
    done = settled(parent("a", spec("two")))
    assert decide_with_status(after(done, 3600)).status is None


def test_counts_alone_are_written_every_five_seconds_at_most() -> None:
    begun = settled(parent("a", spec("two"), "False"), parent("b", spec("two"), "False"))
    more = parent("a", spec("two"))
    soon = decide_with_status(after(begun, 2, more))
    assert soon.status is None
    assert soon.requeue.after == 3.0
    assert get_path(decide_with_status(after(begun, 5, more)).status, "status", "ready") == 1


def test_a_process_that_starts_leaves_a_status_that_says_served_while_its_caches_fill() -> None:
    done = settled(parent("a", spec("two")))
    starting: Any = {"serving": frozenset(), "unserved": "caches are filled"}
    for seconds, is_written in ((0.0, False), (59.9, False), (60.0, True), (None, True)):
        decision = decide_with_status(after(done, 10, filling=seconds, **starting))
        assert (decision.status is not None) is is_written, seconds
    never = attrs.evolve(done, observed=attrs.evolve(done.observed, filling=1.0, **starting))
    assert decide_with_status(never).status is not None


@pytest.mark.parametrize("error", [Forbidden("no"), Unavailable("later")])
def test_a_write_that_was_refused_is_in_the_status_and_nothing_else_is_written(error: Any) -> None:
    failure = Failure(ObjectRef(SHOP, "team", "a"), "patch", error)
    decision = decide_with_status(rolling(parent("a", spec()), failures=(failure,)))
    assert told(decision)["Serving"] == ("False", "Refused", f"patch Shop team/a: {error.message}")
    assert (decision.patches, decision.applies, decision.requeue) == ((), (), Requeue.BACKOFF)


def transitions(decision: Decision) -> Iterator[tuple[str, str]]:
    return ((event.type, event.reason) for event in decision.events)


def test_events_are_about_what_is_bad_and_what_becomes_good_again() -> None:
    assert [*transitions(decide_with_status(rolling(parent("a", spec("two"), "False"))))] == []
    stopped = rolling(parent("a", spec("two"), "False", "True"))
    assert [*transitions(decide_with_status(stopped))] == [("Warning", "Stopped")]
    mended = after(stopped, 60, parent("a", spec("two")))
    assert [*transitions(decide_with_status(mended))] == [("Normal", "Complete")]


# --- limits and errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gates", "reason"),
    [
        ([], "Progressing"),
        (
            ["rollout.total == 1 && rollout.waiting == 1 && rollout.moved + rollout.ready + rollout.failed == 0"],
            "Progressing",
        ),
        (["rollout.pinned > 0"], "Gated"),
        (["true", "rollout.moved > 0"], "Gated"),
        (["1 / rollout.moved == 1"], "Gated"),
        (["dyn('yes')"], "Gated"),
    ],
)
def test_nothing_moves_where_a_condition_of_the_user_does_not_hold(gates: list[str], reason: str) -> None:
    programs = tuple(compile_expression(text, Environment({"rollout": DYN})) for text in gates)
    found = rolling(parent("a", spec()), gates=programs)
    assert told(decide_with_status(found))["RolledOut"][1] == reason
    assert len(decide_applied(found).patches) == (reason == "Progressing")


def test_a_pinned_shop_is_counted_and_keeps_its_revision() -> None:
    pinned = parent("a", spec(), annotations={PIN: named(spec())})
    found = rolling(pinned, parent("b", spec("two")), present={PROVEN: "true"})
    assert decide_applied(found).patches == ()
    counts = {"total": 1, "moved": 1, "ready": 1, "failed": 0, "pinned": 1, "waiting": 0}
    written_ = written(found)
    assert written_["rollout"] == counts
    assert (written_["objects"], written_["ready"], written_["kind"]) == (2, 2, "Shop")


def test_a_box_that_is_gone_but_for_others_is_left_alone() -> None:
    meta = {"name": "shops", "deletionTimestamp": format_time(NOW), "finalizers": ["other"]}
    ending = AppliedBox.read({**OPERATOR_BOX.manifest("shops"), "metadata": meta, "spec": spec()})
    assert decide_applied(state(ending, parent("a", spec()))) == Decision()


def test_the_states_of_a_box_are_tested_in_their_order() -> None:
    problems = (BoxProblem(Place("a"), "wrong"),)
    wrong: dict[str, Any] = {"box": None, "problems": problems, "lacking": "rights", "serving": frozenset()}
    assert state(applied(spec(), is_going=True), **wrong).phase is AppliedBoxState.GOING
    assert (
        state(AppliedBox.read({**OPERATOR_BOX.manifest("shops"), "spec": spec()}), **wrong).phase
        is AppliedBoxState.UNGUARDED
    )
    assert state(applied(spec()), **wrong).phase is AppliedBoxState.REFUSED
    assert state(applied(spec()), lacking="rights").phase is AppliedBoxState.FORBIDDEN
    assert state(applied(spec())).phase is AppliedBoxState.UNRECORDED
    assert state(applied(spec()), revision(1, spec()), revision(2, spec("two"))).phase is AppliedBoxState.UNRECORDED
    assert state(applied(spec()), revision(1, spec()), serving=frozenset()).phase is AppliedBoxState.UNSERVED
    assert state(applied(spec()), revision(1, spec())).phase is AppliedBoxState.SERVED


def test_at_most_fifty_problems_are_in_the_status_and_fifty_shops_are_released_at_a_time() -> None:
    problems = tuple(BoxProblem(Place(f"p{number:02}"), "wrong") for number in range(51))
    refused = decide_with_status(state(applied(spec()), box=None, problems=problems, serving=frozenset()))
    assert [each["path"] for each in get_path(refused.status, "status", "problems")] == [
        f"p{at:02}" for at in range(50)
    ]
    assert told(refused)["Accepted"][2] == "p00: wrong (and 50 more in status.problems)"
    shops = [parent(f"s{number:02}", spec(), finalizers=[finalizer_named("shops")]) for number in range(51)]
    released = decide_applied(going(DeletionPolicy.ORPHAN, *shops, serving=frozenset())).patches
    assert [patch.ref.name for patch in released] == [f"s{number:02}" for number in range(50)]


@pytest.mark.parametrize(
    ("refused", "more"), [(1, ""), (2, ", and 1 more (status.judgement)"), (4, ", and 3 more (status.judgement)")]
)
def test_a_refusal_names_one_object_and_counts_the_others(refused: int, more: str) -> None:
    found = rolling(parent("a", spec()), status=judged(spec("two"), refused))
    message = told(decide_with_status(found))["RolledOut"][2]
    assert message.startswith(f"Shop team/0 would fail: no{more}; 0 of 1 object at ")


@pytest.mark.parametrize(
    ("before", "cause", "expected"),
    [
        ((), ReconcileErrorCause.TRANSIENT, ("False", "Retrying", "no answer")),
        ((), ReconcileErrorCause.FORBIDDEN, ("False", "Forbidden", "no answer")),
        ((("True", "Running"),), ReconcileErrorCause.FORBIDDEN, None),
        ((("False", "Starting"),), ReconcileErrorCause.TRANSIENT, ("False", "Retrying", "no answer")),
        ((("False", "Retrying"),), ReconcileErrorCause.TRANSIENT, ("False", "Retrying", "no answer")),
        ((("False", "Refused"),), ReconcileErrorCause.FORBIDDEN, ("False", "Forbidden", "no answer")),
    ],
)
def test_an_error_that_stopped_a_pass_is_told_of_a_box_that_is_not_served(
    before: tuple[tuple[str, str], ...], cause: ReconcileErrorCause, expected: Any
) -> None:
    present = [Condition("Serving", ConditionStatus(status), reason, "", "", 2) for status, reason in before]
    standing = {each.type: each for each in present}
    found = [
        (str(each.status), str(each.reason), each.message)
        for each in WORDS.conditions(standing, ReconcileError(cause, "no answer"))
    ]
    assert found == ([] if expected is None else [expected])
    starting = bool(before) and before[0][1] in ("Starting", "Retrying")
    assert WORDS.tells_retries(standing) is starting
    assert WORDS.fields((), NOW) == {}
    assert (WORDS.kind, dict(WORDS.events)) == (OPERATOR_BOX, {"Serving": True})
    assert tuple(WORDS.types) == ("Accepted", "Permitted", "Serving", "RolledOut")


def test_a_status_that_says_something_else_than_served_is_written_while_caches_fill() -> None:
    done = settled(parent("a", spec("two")))
    filling: Any = {"filling": 1.0, "serving": frozenset(), "unserved": "caches are filled"}
    standing = written(done)

    def decides(**change: Any) -> bool:
        status = {**standing, **change.pop("status", {})}
        box = AppliedBox.read({**done.applied.manifest, "status": status})
        snapshot = attrs.evolve(done.observed, readings=ParentReadings(), **{**filling, **change})
        return decide_with_status(BoxState(box, snapshot, NOW, SYSTEM)).status is not None

    others = [each for each in standing["conditions"] if each["type"] != "Serving"]
    serving = next(each for each in standing["conditions"] if each["type"] == "Serving")
    assert decides() is False
    assert decides(status={"revision": "another"})
    assert decides(status={"conditions": others})
    assert decides(status={"conditions": [*others, {**serving, "status": "False"}]})
    assert decides(status={"conditions": [*others, {**serving, "observedGeneration": 1}]})
    assert decides(failures=(Failure(ObjectRef(SHOP, "team", "a"), "patch", Unavailable("later")),))


@pytest.mark.parametrize(
    ("counted", "wait"), [("2026-01-01T11:59:58Z", 3.0), ("2026-01-01T11:59:55Z", None), ("soon", None), (None, None)]
)
def test_counts_wait_from_when_they_were_counted(counted: Any, wait: float | None) -> None:
    begun = settled(parent("a", spec("two"), "False"), parent("b", spec("two"), "False"))
    box = AppliedBox.read({**begun.applied.manifest, "status": {**written(begun), "countedAt": counted}})
    objects = {**begun.observed.objects, ObjectRef(SHOP, "team", "a"): parent("a", spec("two"))}
    snapshot = attrs.evolve(begun.observed, objects=objects, readings=ParentReadings())
    decision = decide_with_status(BoxState(box, snapshot, NOW, SYSTEM))
    assert (decision.status is None) is (wait is not None)
    if wait is not None:
        assert decision.requeue.after == wait
