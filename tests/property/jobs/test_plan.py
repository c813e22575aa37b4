"""What a job's turn comes to (REC-6, PULL-3, PULL-4)."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from tests.support.builders import NAMESPACE
from tests.support.jobs import CLUSTER_ID, instance
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.jobs.job_store import UNAPPLIED, Tombstone
from vworkspace_core.jobs.plan import (
    AlreadyApplied,
    EffectIntent,
    FinishJob,
    Inspection,
    PlanApply,
    PlanDelete,
    PlanRotate,
    SlotHolder,
    WaitDeleted,
    applied_generation,
    plan,
)
from vworkspace_core.jobs.result import EXPIRED, SUCCEEDED, JobOutcome, JobResult
from vworkspace_core.jobs.scope import ApplyTask, DeleteTask, JobScope, RotateTask

SCOPE = JobScope(CLUSTER_ID)
REF = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, "nextcloud-myteam")
GATED = {"metadata": {"name": NAMESPACE, "labels": {"managed-by": "vworkspace"}}}
UNGATED = {"metadata": {"name": NAMESPACE}}
OURS = {labels.MANAGED_BY: "control-plane", labels.CLUSTER_ID: CLUSTER_ID}
PLACEHOLDER = {**instance(), "spec": {"mode": "placeholder", "appRef": {"catalogId": "nextcloud"}}}
KEY = "ApplicationInstance/org-myteam/nextcloud-myteam@5"
NOOP = FinishJob(JobResult(JobOutcome.NOOP))


def live(
    *, uid: str = "u1", key: str = "", generation: str = "", terminating: bool = False, by: str = "", **meta: Any
) -> Any:
    """An object whose annotations were written by that field manager, the operator unless told otherwise."""
    annotations = {labels.IDEMPOTENCY_KEY: key} if key else {}
    if generation:
        annotations[labels.LAST_APPLIED_GENERATION] = generation
    ends = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {}
    told = {"labels": OURS, "annotations": annotations, "managedFields": written(annotations, by), **ends, **meta}
    return instance(uid=uid, generation=3, resourceVersion="9", **told)


def written(annotations: Mapping[str, Any], by: str = "") -> list[Any]:
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}
    return [{"manager": by or labels.FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}]


def apply_turn(**fields: Any) -> SlotHolder:
    found: dict[str, Any] = {"task": ApplyTask(REF, instance()), "key": KEY, "generation": 5, "expired": False}
    return SlotHolder(**{**found, **fields})


def delete_turn(**fields: Any) -> SlotHolder:
    return apply_turn(task=DeleteTask(REF), **fields)


def seen(found: Any = None, namespace: Any = GATED, **fields: Any) -> Inspection:
    return Inspection(found, namespace, **fields)


WRITTEN = {"name", "namespace", "labels", "annotations", "finalizers", "uid", "resourceVersion"}


def stone(uid: str = "u1", generation: int = 5) -> Tombstone:
    return Tombstone(KEY, "succeeded", uid, generation)


UNAPPLIED_STONE = Tombstone(KEY, UNAPPLIED)
OUTRUN = FinishJob(JobResult.failed("Superseded", f"a later request for {REF} came first: ask under a key of its own"))


def superseded(newer: int, own: int = 5) -> FinishJob:
    goes_on = "the counter of an object goes on, also when it was deleted and is made anew"
    told = f"generation {newer} is newer than {own}; {goes_on}: ask with {newer + 1} or more"
    return FinishJob(JobResult.failed("Superseded", told))


def test_an_absent_object_is_applied_without_a_uid() -> None:
    chosen = plan(apply_turn(), seen(), SCOPE)

    assert isinstance(chosen, PlanApply)
    assert chosen.uid == ""
    assert "uid" not in chosen.manifest["metadata"]
    assert chosen.manifest["metadata"]["annotations"] == {
        labels.IDEMPOTENCY_KEY: KEY,
        labels.LAST_APPLIED_GENERATION: "5",
    }


def test_a_live_object_is_applied_with_its_uid_so_that_a_deleted_one_is_not_resurrected_REC_6() -> None:
    chosen = plan(apply_turn(), seen(live(uid="u7")), SCOPE)

    assert isinstance(chosen, PlanApply)
    assert (chosen.uid, chosen.manifest["metadata"]["uid"]) == ("u7", "u7")


def test_the_annotations_of_the_manifest_are_kept() -> None:
    chosen = plan(apply_turn(task=ApplyTask(REF, instance(annotations={"team": "a"}))), seen(), SCOPE)

    assert isinstance(chosen, PlanApply)
    assert chosen.manifest["metadata"]["annotations"]["team"] == "a"


def test_a_terminating_object_is_waited_for() -> None:
    assert plan(apply_turn(), seen(live(terminating=True)), SCOPE) == WaitDeleted("u1")


def test_a_key_without_a_generation_keeps_the_one_on_the_object() -> None:
    chosen = plan(apply_turn(key="hash", generation=None), seen(live(generation="4")), SCOPE)

    assert isinstance(chosen, PlanApply)
    assert chosen.manifest["metadata"]["annotations"][labels.LAST_APPLIED_GENERATION] == "4"


@pytest.mark.parametrize(
    ("turn", "found", "chosen"),
    [
        (apply_turn(), seen(live(key=KEY)), NOOP),
        (apply_turn(), seen(live(), tombstone=stone()), NOOP),
        (apply_turn(), seen(None, tombstone=stone()), NOOP),
        (apply_turn(expired=True), seen(live(key=KEY)), NOOP),
        (apply_turn(expired=True), seen(), FinishJob(EXPIRED)),
        (apply_turn(expired=True), seen(live(terminating=True)), FinishJob(EXPIRED)),
        (delete_turn(expired=True), seen(live()), FinishJob(EXPIRED)),
        (delete_turn(expired=True), seen(), FinishJob(SUCCEEDED)),
        (apply_turn(), seen(live(generation="6")), superseded(6)),
        (apply_turn(), seen(None, newest=stone(generation=8)), superseded(8)),
        (delete_turn(), seen(live(generation="6")), superseded(6)),
        (delete_turn(), seen(live(generation="5")), PlanDelete("u1", 3)),
        (delete_turn(), seen(live()), PlanDelete("u1", 3)),
        (delete_turn(), seen(live(terminating=True)), PlanDelete("u1", 3)),
        (delete_turn(), seen(), FinishJob(SUCCEEDED)),
        (delete_turn(), seen(None, namespace=None), FinishJob(SUCCEEDED)),
        (delete_turn(), seen(live(uid="u2"), tombstone=stone("u1")), NOOP),
        (delete_turn(), seen(None, tombstone=stone("u1")), NOOP),
        (delete_turn(), seen(live(uid="u1"), tombstone=stone("u1")), PlanDelete("u1", 3)),
        (apply_turn(generation=None), seen(live(), tombstone=UNAPPLIED_STONE), OUTRUN),
        (apply_turn(generation=None), seen(tombstone=UNAPPLIED_STONE), OUTRUN),
        (delete_turn(generation=None), seen(live(), tombstone=UNAPPLIED_STONE), OUTRUN),
        (delete_turn(generation=None), seen(tombstone=UNAPPLIED_STONE), FinishJob(SUCCEEDED)),
        (apply_turn(task=RotateTask(), generation=None), seen(namespace=None), PlanRotate()),
        (apply_turn(task=RotateTask(), generation=None), seen(namespace=None, tombstone=stone("")), NOOP),
        (apply_turn(task=RotateTask(), generation=None, expired=True), seen(namespace=None), FinishJob(EXPIRED)),
    ],
)
def test_the_table_before_the_effect(turn: SlotHolder, found: Inspection, chosen: Any) -> None:
    assert plan(turn, found, SCOPE) == chosen


@pytest.mark.parametrize(
    ("turn", "found", "chosen"),
    [
        (apply_turn(intent=EffectIntent("u1")), seen(live(key=KEY)), AlreadyApplied(live(key=KEY))),
        (apply_turn(intent=EffectIntent("")), seen(live(key=KEY)), AlreadyApplied(live(key=KEY))),
        (apply_turn(intent=EffectIntent(""), expired=True), seen(live(key=KEY)), AlreadyApplied(live(key=KEY))),
        (delete_turn(intent=EffectIntent("u1")), seen(live(uid="u2")), FinishJob(SUCCEEDED)),
        (delete_turn(intent=EffectIntent("u1")), seen(), FinishJob(SUCCEEDED)),
        (delete_turn(intent=EffectIntent("u1")), seen(live()), PlanDelete("u1", 3)),
        (delete_turn(intent=EffectIntent("u1"), expired=True), seen(live()), FinishJob(EXPIRED)),
        (apply_turn(intent=EffectIntent("u1")), seen(live(key="other", generation="6")), superseded(6)),
        (apply_turn(intent=EffectIntent("u1", happened=True)), seen(live(key=KEY)), AlreadyApplied(live(key=KEY))),
        (apply_turn(task=RotateTask(), generation=None, intent=EffectIntent()), seen(namespace=None), PlanRotate()),
    ],
)
def test_the_table_after_a_crash_or_an_unanswered_write_PULL_4(
    turn: SlotHolder, found: Inspection, chosen: Any
) -> None:
    assert plan(turn, found, SCOPE) == chosen


@pytest.mark.parametrize("uid", ["", "u1"])
def test_a_repeated_delete_does_nothing_also_if_there_never_was_an_object(uid: str) -> None:
    """PULL-3: the key had its turn before, whatever became of the object since."""
    for found in (None, live(uid="u2")):
        assert plan(delete_turn(), seen(found, tombstone=stone(uid)), SCOPE) == NOOP


def test_a_delete_that_was_sent_is_waited_for_even_when_it_expired_meanwhile() -> None:
    found = live(terminating=True)

    assert plan(delete_turn(intent=EffectIntent("u1"), expired=True), seen(found), SCOPE) == AlreadyApplied(found)


@pytest.mark.parametrize("found", [None, live(uid="u2")])
def test_an_object_that_was_deleted_while_we_crashed_is_not_resurrected(found: Any) -> None:
    chosen = plan(apply_turn(intent=EffectIntent("u1")), seen(found), SCOPE)

    assert isinstance(chosen, FinishJob)
    assert chosen.result.error.startswith("Deleted: ")
    assert chosen.had_effect, "nor is it by the same job, should it be asked for again"


def test_an_effect_that_is_on_record_is_not_had_again_over_a_later_one() -> None:
    turn = apply_turn(key="hash", generation=None, intent=EffectIntent("u1", happened=True))

    chosen = plan(turn, seen(live(key="another-hash")), SCOPE)

    assert isinstance(chosen, FinishJob)
    assert chosen.result.error.startswith("Superseded: a later request for")
    assert chosen.had_effect


@pytest.mark.parametrize(
    "turn",
    [apply_turn(), delete_turn(), *(make(intent=EffectIntent("u1")) for make in (apply_turn, delete_turn))],
)
def test_where_the_gate_is_closed_nobody_looked_and_nothing_counts_as_gone(turn: SlotHolder) -> None:
    chosen = plan(turn, seen(None, namespace=UNGATED), SCOPE)

    assert isinstance(chosen, FinishJob)
    assert chosen.result.error.startswith("NotPermitted: ")


@pytest.mark.parametrize(
    ("text", "generation"),
    [("5", 5), ("", None), ("-1", None), ("five", None), ("\u0665", None), ("9" * 30, None), (5, None)],
)
def test_an_unreadable_generation_on_an_object_is_none(text: Any, generation: int | None) -> None:
    annotations = {labels.LAST_APPLIED_GENERATION: text}
    found = {"metadata": {"annotations": annotations, "managedFields": written(annotations)}}

    assert applied_generation(found) == generation


def edited(found: Any) -> Any:
    return {**found, "spec": {**found["spec"], "appRef": {"catalogId": "another"}}}


@pytest.mark.parametrize("by", ["kubectl-annotate", ""])
def test_a_key_that_somebody_wrote_makes_no_upgrade_a_noop_RUN_12(by: str) -> None:
    """Under their own name, or under ours: then the spec tells that the key has not had its effect."""
    found = edited(live(key=KEY, by=by))

    assert isinstance(plan(apply_turn(), seen(found), SCOPE), PlanApply)
    assert plan(apply_turn(), seen(live(key=KEY)), SCOPE) == NOOP
    assert plan(apply_turn(), seen(found, tombstone=stone()), SCOPE) == NOOP, "the job store is out of others' reach"


@pytest.mark.parametrize("newest", [None, stone(generation=4)])
def test_a_generation_that_somebody_wrote_locks_nobody_out_RUN_12(newest: Tombstone | None) -> None:
    found = live(generation="9" * 18, by="kubectl-annotate")

    assert isinstance(plan(apply_turn(), seen(found, newest=newest), SCOPE), PlanApply)
    assert isinstance(plan(delete_turn(), seen(found, newest=newest), SCOPE), PlanDelete)


def test_what_the_job_store_remembers_counts_before_what_the_object_says() -> None:
    found = live(generation="9" * 18)

    assert isinstance(plan(apply_turn(), seen(found, newest=stone(generation=4)), SCOPE), PlanApply)
    assert plan(apply_turn(), seen(live(), newest=stone(generation=6)), SCOPE) == superseded(6)
    assert plan(apply_turn(), seen(live(generation="6")), SCOPE) == superseded(6), "where it remembers nothing"


def test_a_key_that_somebody_wrote_over_ours_is_no_later_request() -> None:
    found = live(key="theirs", by="kubectl-annotate")

    assert plan(apply_turn(intent=EffectIntent("u1", happened=True)), seen(found), SCOPE) == AlreadyApplied(found)


lives = st.none() | st.builds(
    live,
    uid=st.sampled_from(["u1", "u2"]),
    key=st.sampled_from(["", KEY, "other"]),
    generation=st.sampled_from(["", "4", "5", "6", "x"]),
    terminating=st.booleans(),
    by=st.sampled_from(["", "kubectl-annotate"]),
    finalizers=st.sampled_from([[], ["theirs"], [labels.FINALIZER], ["theirs", labels.FINALIZER]]),
)
turns = st.builds(
    apply_turn,
    task=st.sampled_from([ApplyTask(REF, instance()), ApplyTask(REF, PLACEHOLDER), DeleteTask(REF)]),
    generation=st.none() | st.integers(4, 6),
    expired=st.booleans(),
    intent=st.none() | st.sampled_from([EffectIntent(""), EffectIntent("u1"), EffectIntent("u1", happened=True)]),
)
stones = st.none() | st.builds(stone, st.sampled_from(["u1", "u2"]), st.integers(3, 7))


def check_finalizer_REC_6(written: Any, found: Any) -> None:
    """What may have a release carries our finalizer, no apply takes it away, and those of others are not ours."""
    finalizers = written["metadata"].get("finalizers", [])
    is_placeholder = written["spec"].get("mode") == "placeholder"
    had_it = found is not None and labels.FINALIZER in found["metadata"].get("finalizers", [])
    assert finalizers == ([labels.FINALIZER] if had_it or not is_placeholder else [])


@given(turns, lives, st.sampled_from([GATED, UNGATED, None]), stones, stones)
def test_no_plan_ever_breaks_the_rules(
    turn: SlotHolder, found: Any, namespace: Any, tombstone: Tombstone | None, newest: Tombstone | None
) -> None:
    chosen = plan(turn, Inspection(found, namespace, tombstone, newest), SCOPE)

    if isinstance(chosen, PlanApply | PlanDelete):
        assert namespace != UNGATED
        known = newest.generation if newest else applied_generation(found) or 0
        assert turn.generation is None or turn.generation >= known, "an older generation never wins"
        assert not turn.expired
    if isinstance(chosen, PlanApply):
        assert namespace == GATED
        assert not (found and found["metadata"].get("deletionTimestamp"))
        assert chosen.manifest["metadata"].get("uid", "") == (found["metadata"]["uid"] if found else "")
        assert tombstone is None or turn.intent is not None, "a key has its effect once"
        assert turn.intent is None or not turn.intent.happened, "and what is on record is not repeated"
        assert set(chosen.manifest["metadata"]) <= WRITTEN
        assert "resourceVersion" in chosen.manifest["metadata"], "what was judged, or nothing at all"
        check_finalizer_REC_6(chosen.manifest, found)
    if isinstance(chosen, PlanDelete):
        assert found is not None
        assert chosen.uid == found["metadata"]["uid"]
