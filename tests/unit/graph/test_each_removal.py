"""PH-3: what is pruned, let go of and taken down, wave by wave, from a snapshot that is given as data."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Forbidden, Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller.decision import Decision, Delete, MergePatch, Requeue, Snapshot
from purekube.controller.ownership import UNRECORDED, unlocking
from purekube.graph.node import ApplyPolicy, Edge, Hold, HoldCause, Item, PruneTime, Removal, Rendered, Scope
from purekube.graph.node_order import Graph
from purekube.graph.owner import CreateRecord, Owner
from purekube.graph.plan import plan
from purekube.graph.states import NodeState, Observation
from purekube.graph.teardown import Hooks, Teardown, TeardownStep, teardown
from purekube.readiness.result import failed, progressing
from tests.support.graph_snapshots import LINE, MARKS, OWNER, live, named, node, planned, refused, written

A, B, C, D = map(named, "abcd")
NOW: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
UNLABEL = {"ownerReferences": [], "labels": {MARKS.owner_uid: None}}


def there(name: str, wave: int = 0, node_id: str | None = None, uid: str = "", **meta: Any) -> dict[str, Any]:
    """Return an object of the owner that was applied in a wave for a node."""
    manifest = live(node(name), uid or f"u-{name}", **meta)
    labels = {**manifest["metadata"]["labels"], MARKS.node: name if node_id is None else node_id}
    annotations = {**manifest["metadata"]["annotations"], MARKS.wave: str(wave), **meta.get("annotations", {})}
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels, "annotations": annotations}}


def orphan(name: str, **meta: Any) -> dict[str, Any]:
    return there(name, annotations={MARKS.removal: "Orphan"}, **meta)


def going(name: str, state: NodeState, reason: str, message: str, node_id: str = "") -> Observation:
    return Observation(node_id or name, state, reason, message, ref=named(name))


PENDING = NodeState.PENDING, "Deleting", "it is deleted"
BEHIND = NodeState.WAITING, "Behind", "others go first"
LEAVING = NodeState.LEAVING, "Terminating", "deleted at 2026-01-01T00:00:00Z, not gone yet"


# --- prune ------------------------------------------------------------------------------------------------------------


def test_what_is_wanted_in_another_version_is_never_pruned_PH_3() -> None:
    """An API server returns one object in each version of its kind, and under each of its groups, with the same uid."""
    former = [Kind("", "v0", "ConfigMap", "configmaps"), Kind("legacy", "v1", "ConfigMap", "configmaps")]
    wanted = live(node())
    seen = {ObjectRef(kind, "team", "a"): {**wanted, "apiVersion": kind.api_version} for kind in former}
    result = planned(node(), objects={A: wanted, **seen, B: there("b")})

    assert result.effects.deletes == (Delete(B, "u-b"),)
    assert result.unwanted == (Delete(B, "u-b"),)


def test_an_object_that_is_seen_in_two_versions_is_deleted_once_PH_3() -> None:
    former = ObjectRef(Kind("", "v0", "ConfigMap", "configmaps"), "team", "a")
    step = torn(objects={A: there("a"), former: there("a")})

    assert (len(step.effects.deletes), step.effects.deletes[0].uid) == (1, "u-a")
    assert len(step.left) == 1


def test_what_is_not_wanted_goes_once_all_that_is_wanted_is_ready_PH_3() -> None:
    extra = {B: there("b", 2), C: there("c", 1), D: there("d", 2)}
    ready = planned(node(), objects={A: live(node()), **extra})
    unready = planned(node(), objects=extra)
    deletes = (Delete(B, "u-b"), Delete(D, "u-d"))

    assert ready.effects == Decision(deletes=deletes, only_if_current=True)
    assert ready.going == (going("b", *PENDING), going("d", *PENDING), going("c", *BEHIND))
    assert [one.live for one in ready.going] == [extra[B], extra[D], extra[C]]
    assert (unready.effects.deletes, unready.going) == ((), ())
    assert ready.unwanted == unready.unwanted == (Delete(B, "u-b"), Delete(C, "u-c"), Delete(D, "u-d"))
    assert (ready.is_ready, unready.is_ready) == (True, False)


def test_nothing_is_pruned_where_nothing_is_unwanted_PH_3() -> None:
    result = planned(node(), objects={A: live(node())}, failures=refused(Forbidden("a quota"), "delete", "b"))

    assert (result.effects, result.going, result.unwanted) == (Decision(), (), ())
    assert not planned(node(), node("b"), objects={A: live(node())}).is_ready


@pytest.mark.parametrize(
    ("first", "prune", "pruned"),
    [
        ("absent", PruneTime.AT_ONCE, True),
        ("absent", PruneTime.WHEN_READY, False),
        ("waiting", PruneTime.AT_ONCE, False),
        ("excluded", PruneTime.AT_ONCE, True),
        ("excluded", PruneTime.WHEN_READY, False),
        ("held", PruneTime.AT_ONCE, False),
        ("unknown", PruneTime.AT_ONCE, False),
    ],
)
def test_a_node_may_prune_before_the_others_are_ready_PH_3(first: str, prune: PruneTime, pruned: bool) -> None:
    """Unless it waits itself, or whether it wants the object is not known."""
    table: dict[str, dict[str, Any]] = {
        "absent": {},
        "waiting": {"edges": (Edge("z", declared=True),)},
        "excluded": {"include": lambda scope: False},
        "held": {"when": lambda scope: False},
        "unknown": {"render": lambda scope: Hold(HoldCause.MISSING, "not yet")},
    }
    one = attrs.evolve(node(prune=prune), **table[first])
    result = planned(node("z"), one, objects={B: there("b", node_id="a"), C: there("c", node_id="z")})

    assert result.effects.deletes == ((Delete(B, "u-b"),) if pruned else ())
    certain = first not in ("held", "unknown")
    assert [delete.ref for delete in result.unwanted] == ([B, C] if certain else [C])


def test_a_node_of_which_only_some_objects_wait_does_not_prune_PH_3() -> None:
    items = Item("", written()), Item("b", written("b"))
    one = node("a", Edge("z", declared=True), prune=PruneTime.AT_ONCE, render=lambda scope: Rendered(items))
    leaving = {A: live(node(), **NOW), C: there("c", node_id="a")}

    states = planned(node("z"), one, objects=leaving)
    assert [each.state for each in states.observations["a"]] == [NodeState.LEAVING, NodeState.WAITING]
    assert states.effects.deletes == ()


def test_an_object_without_the_label_of_a_node_is_kept_while_any_node_is_unknown_PH_3() -> None:
    unlabelled = {B: there("b", node_id=""), C: there("c", node_id="gone")}
    unknown = node(render=lambda scope: Hold(HoldCause.FAULT, "no"))

    assert [delete.ref for delete in planned(unknown, objects=unlabelled).unwanted] == [C]
    assert [delete.ref for delete in planned(node(), objects=unlabelled).unwanted] == [B, C]


def test_what_is_orphaned_or_going_is_not_deleted_PH_3() -> None:
    objects = {B: orphan("b"), C: there("c", **NOW), D: orphan("d", **NOW)}
    result = planned(objects=objects)

    release = MergePatch(B, {"metadata": {"resourceVersion": "5", **UNLABEL}})
    assert result.unwanted == ()
    assert result.effects == Decision(patches=(release,), only_if_current=True)
    assert result.going == (going("b", *PENDING), going("c", *LEAVING), going("d", *LEAVING))


def test_a_refused_removal_is_told_and_not_repeated_in_its_pass_PH_3() -> None:
    failures = (
        *refused(Forbidden("a quota"), "delete", "b"),
        *refused(Invalid("no"), "patch", "c"),
        *refused(Forbidden("a quota"), "apply", "z"),
    )
    result = planned(objects={B: there("b"), C: orphan("c"), D: there("d")}, failures=failures)

    assert result.effects == Decision(deletes=(Delete(D, "u-d"),), only_if_current=True, requeue=Requeue.SLOW)
    assert result.going == (
        going("c", NodeState.REFUSED, "Invalid", "patch: no"),
        going("b", NodeState.DENIED, "Forbidden", "delete: a quota"),
        going("d", *PENDING),
    )
    others = planned(objects={D: there("d")}, failures=refused(Forbidden("a quota"), "apply", "z"))
    assert others.effects.requeue == Requeue.NO, "only what is removed is asked about"


def test_a_lock_is_taken_off_what_is_deleted_and_another_patch_precedes_it_OPS_1() -> None:
    patched = MergePatch(C, {"spec": {"suspend": False}})
    asked = []

    def before(ref: ObjectRef, live: Manifest) -> MergePatch | None:
        asked.append(ref)
        return patched if ref == C else None

    objects = {B: there("b", finalizers=[UNRECORDED, "x"]), C: there("c"), D: there("d"), A: there("a", **NOW)}
    result = plan(Graph.of([]), OWNER, Snapshot(objects=objects), Scope(), before)

    unlock = MergePatch(B, {"metadata": {"resourceVersion": "5", "finalizers": ["x"]}})
    assert result.effects.patches == (unlock, patched)
    assert [delete.ref for delete in result.effects.deletes] == [B, C, D]
    assert asked == [A, B, C, D]


KUSTOMIZATION = Kind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")


@pytest.mark.parametrize("kind", [HELM_RELEASE, attrs.evolve(HELM_RELEASE, version="v2beta2"), KUSTOMIZATION])
@pytest.mark.parametrize("is_torn_down", [False, True])
def test_what_flux_would_leave_deployed_is_resumed_before_it_is_deleted_PH_3(kind: Kind, is_torn_down: bool) -> None:
    ref = ObjectRef(kind, "team", "a")
    suspended = {**there("a"), "apiVersion": kind.api_version, "kind": kind.kind, "spec": {"suspend": True}}
    active = {**suspended, "spec": {"suspend": False}}

    def effects(manifest: Manifest) -> Decision:
        objects = {ref: manifest, B: {**there("b"), "spec": {"suspend": True}}}
        return (torn(objects=objects) if is_torn_down else planned(objects=objects)).effects

    resumed = MergePatch(ref, {"metadata": {"resourceVersion": "5"}, "spec": {"suspend": None}})
    assert effects(suspended).patches == (resumed,)
    assert effects(active).patches == ()
    assert Delete(ref, "u-a") in effects(suspended).deletes
    # One that is locked too is resumed first: once it is unlocked, Flux would let it go without an uninstall.
    locked = {**suspended, "metadata": {**suspended["metadata"], "finalizers": [UNRECORDED]}}
    assert effects(locked).patches == (resumed,)
    assert effects({**locked, "spec": {}}).patches == (unlocking(ref, locked),)


# --- teardown ---------------------------------------------------------------------------------------------------------


def torn(owner: Owner = OWNER, hooks: Hooks | None = None, **observed: Any) -> Teardown:
    return teardown(owner, Snapshot(**observed), hooks)


RECORD = CreateRecord("job", "job", "team", uid="u-j")
RECORDING = attrs.evolve(OWNER, records=(RECORD,))


def test_nothing_is_done_where_nothing_is_left_PH_3() -> None:
    foreign = live(node(), owner=attrs.evolve(OWNER, meta=attrs.evolve(OWNER.meta, uid="u-2")))

    done = torn(RECORDING, objects={A: foreign})
    assert done == Teardown(TeardownStep.DONE, "nothing is left", Decision(), (RECORD,))
    assert done.is_done


def test_an_owner_that_is_deleted_with_cascade_orphan_leaves_all_as_it_is_PH_3() -> None:
    meta = attrs.evolve(OWNER.meta, finalizers=("x", "orphan"))

    done = torn(attrs.evolve(RECORDING, meta=meta), objects={A: there("a")})
    assert done == Teardown(TeardownStep.DONE, "its objects stay, as was asked for", Decision(), (RECORD,))


def test_a_finalizer_that_the_garbage_collector_has_removed_is_remembered_PH_3() -> None:
    """An object without an owner reference was deleted: its label alone held it, and nothing showed the request."""
    kept = torn(RECORDING, objects={A: there("a")}, is_orphaning=True)
    assert kept == Teardown(TeardownStep.DONE, "its objects stay, as was asked for", Decision(), (RECORD,))


def test_what_stays_after_cascade_orphan_is_unlocked_first_PH_3() -> None:
    """An object that is created once has a finalizer until its owner has recorded it; later nothing takes it off."""
    owner = attrs.evolve(RECORDING, meta=attrs.evolve(OWNER.meta, finalizers=("x", "orphan")))
    locked = there("a", finalizers=["mine", UNRECORDED])
    step = torn(owner, objects={A: locked, B: there("b")})

    unlock = MergePatch(A, {"metadata": {"resourceVersion": "5", "finalizers": ["mine"]}})
    assert (step.effects.patches, step.effects.deletes, step.is_done) == ((unlock,), (), False)
    collected = torn(owner, objects={A: {**locked, "metadata": {**locked["metadata"], "ownerReferences": []}}})
    assert (collected.effects.patches, collected.left, collected.is_done) == ((unlock,), (A,), False)
    refusal = torn(owner, objects={A: locked}, failures=refused(Forbidden("no"), "patch"))
    assert (refusal.effects.patches, refusal.effects.requeue, refusal.is_done) == ((), Requeue.SLOW, False)
    assert torn(owner, objects={A: there("a", finalizers=["mine"]), B: there("b")}).is_done


def test_the_highest_wave_goes_first_and_the_others_are_told_behind_it_PH_3() -> None:
    step = torn(RECORDING, objects={A: there("a"), B: there("b", 1), C: there("c", 1), D: orphan("d")})

    release = MergePatch(D, {"metadata": {"resourceVersion": "5", **UNLABEL}})
    assert step == Teardown(
        TeardownStep.DELETING,
        "ConfigMap team/d: it is deleted; ConfigMap team/b: it is deleted; ConfigMap team/c: it is deleted; "
        "then ConfigMap team/a",
        Decision(patches=(release,), deletes=(Delete(B, "u-b"), Delete(C, "u-c")), only_if_current=True),
        (RECORD,),
        (D, B, C, A),
    )
    assert not step.is_done


def test_a_wave_that_is_going_is_waited_for_PH_3() -> None:
    step = torn(objects={A: there("a"), B: there("b", 1, finalizers=["x/y"], **NOW)})

    assert step == Teardown(
        TeardownStep.WAITING,
        "ConfigMap team/b: deleted at 2026-01-01T00:00:00Z, not gone yet, held by x/y; then ConfigMap team/a",
        Decision(),
        (),
        (B, A),
    )
    denied = refused(Forbidden("a quota"), "delete", "b")
    refusal = torn(objects={A: there("a"), B: there("b", 1)}, failures=denied)
    assert (refusal.step, refusal.effects) == (TeardownStep.DELETING, Decision(requeue=Requeue.SLOW))


def test_where_only_orphans_are_left_these_are_let_go_PH_3() -> None:
    step = torn(objects={D: orphan("d")})

    release = MergePatch(D, {"metadata": {"resourceVersion": "5", **UNLABEL}})
    assert (step.message, step.left) == ("ConfigMap team/d: it is deleted", (D,))
    assert step.effects == Decision(patches=(release,), only_if_current=True)


@pytest.mark.parametrize(("count", "more"), [(1, ""), (8, ""), (9, " and 1 more"), (12, " and 4 more")])
def test_eight_objects_are_told_and_the_others_counted_PH_3(count: int, more: str) -> None:
    names = [f"n{number:02}" for number in range(count)]
    now = torn(objects={named(name): there(name) for name in names})
    assert now.message == "; ".join(f"ConfigMap team/{name}: it is deleted" for name in names[:8]) + more

    behind = torn(objects={named("z"): there("z", 1), **{named(name): there(name) for name in names}})
    told = ", ".join(f"ConfigMap team/{name}" for name in names[:8])
    assert behind.message == f"ConfigMap team/z: it is deleted; then {told}{more}"


HOOK = node("hook")


def hooks(**more: Any) -> Hooks:
    return Hooks.of([attrs.evolve(HOOK, **more)], Scope())


def test_hooks_are_created_once_and_what_is_of_others_stays_so() -> None:
    given = Hooks.of([node(), node("b", policy=ApplyPolicy.NEVER)], Scope({"x": 1}))

    assert {name: one.policy for name, one in given.graph.nodes.items()} == {
        "a": ApplyPolicy.ONCE,
        "b": ApplyPolicy.NEVER,
    }
    assert given.scope == Scope({"x": 1})


def test_hooks_run_before_anything_is_deleted_PH_3() -> None:
    step = torn(RECORDING, hooks(), objects={A: there("a"), B: there("b")})

    assert step == Teardown(
        TeardownStep.DRAINING,
        "ConfigMap team/hook: it is created once the owner's status says so",
        Decision(requeue=Requeue.at_latest(0.0)),
        (RECORD, CreateRecord("hook", "hook", "team")),
        (A, B),
    )
    placed = hooks(render=lambda scope: Hold(HoldCause.FAULT, "no such key", LINE))
    fault = torn(OWNER, placed, objects={A: there("a")})
    assert fault.message == "ConfigMap hook: no such key (box.yaml:7: resources.a)"
    assert (fault.step, fault.is_stalled, fault.effects) == (TeardownStep.DRAINING, True, Decision())


@pytest.mark.parametrize("stalled", [False, True])
def test_the_obstacle_among_the_hooks_is_told_and_not_what_waits_for_it_PH_3(stalled: bool) -> None:
    health = failed("Broken", "") if stalled else progressing("Slow", "slow")
    second = node("b", Edge("hook", declared=True))
    given = Hooks.of([attrs.evolve(HOOK, readiness=lambda live: health), second], Scope())
    records = (CreateRecord("hook", "hook", "team", uid="u-h"),)
    step = torn(attrs.evolve(OWNER, records=records), given, objects={named("hook"): live(HOOK, "u-h")})

    assert step.message == f"ConfigMap team/hook: {'Failed' if stalled else 'slow'}"
    assert (step.is_stalled, step.left) == (stalled, (named("hook"),))


def test_a_hook_that_has_run_is_no_obstacle_PH_3() -> None:
    given = Hooks.of([node("b", Edge("c", declared=True)), node("c", Edge("hook", declared=True)), HOOK], Scope())
    records = (CreateRecord("hook", "hook", "team", uid="u-h"),)
    step = torn(attrs.evolve(OWNER, records=records), given, objects={named("hook"): live(HOOK, "u-h")})

    assert step.message == "ConfigMap team/c: it is created once the owner's status says so"


def test_the_objects_of_hooks_go_after_all_others_PH_3() -> None:
    records = (CreateRecord("hook", "hook", "team", uid="u-h"),)
    owner, ran = attrs.evolve(OWNER, records=records), {named("hook"): live(HOOK, "u-h")}

    others = torn(owner, hooks(), objects={**ran, A: there("a")})
    assert others.effects.deletes == (Delete(A, "u-a"),)
    assert (others.left, others.records) == ((A,), records)
    last = torn(owner, hooks(), objects=ran)
    assert (last.effects.deletes, last.left) == ((Delete(named("hook"), "u-h"),), (named("hook"),))
    gone = torn(owner, hooks())
    assert (gone.step, gone.records) == (TeardownStep.DONE, records)


def test_a_plan_of_hooks_prunes_nothing_PH_3() -> None:
    at_once = hooks(prune=PruneTime.AT_ONCE, removal=Removal.ORPHAN, place=Place("hooks"))

    assert torn(OWNER, at_once, objects={A: there("a", node_id="hook")}).effects.deletes == ()
