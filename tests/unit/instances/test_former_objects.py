"""REC-6, REC-14, RUN-5: objects of former requests, writes that were refused, and a first status that may wait."""

import copy
from datetime import timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Conflict, FieldConflict, Forbidden, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, SECRET
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import Decision, Delete, Failure, MergePatch, Requeue
from tests.support.instance_worlds import (
    CONTEXT,
    NOW,
    RELEASE,
    SOURCE,
    conditions_of,
    deployed,
    instance_manifest,
    message_of,
    scene,
)
from vworkspace_core.api.installation import PRINTED, Installation, InstallTool
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.remedies import not_permitted
from vworkspace_core.instances.ownership import adoption
from vworkspace_core.instances.reconcile import deletes_afterwards

NS = "org-myteam"
WORLD = scene(deployed())


def left_over(ref: ObjectRef, **meta: Any) -> dict[str, Any]:
    """An object with the labels of the instance, which an earlier one of that name has left."""
    like = WORLD.observed.objects[SOURCE]["metadata"]
    kept = {"labels": like["labels"], "uid": f"uid-{ref.name}", "resourceVersion": "5", **meta}
    return {**ref.kind.manifest(ref.name, ref.namespace), "metadata": {"name": ref.name, "namespace": NS, **kept}}


def owned(ref: ObjectRef, created: str = "") -> dict[str, Any]:
    owners = copy.deepcopy(WORLD.observed.objects[SOURCE]["metadata"]["ownerReferences"])
    return left_over(ref, ownerReferences=owners, **({"creationTimestamp": created} if created else {}))


def decided(*extra: tuple[ObjectRef, Manifest], status: Any = None) -> Decision:
    world = scene(status or deployed())
    objects = {**dict(extra), **world.observed.objects}
    return attrs.evolve(world, observed=attrs.evolve(world.observed, objects=objects)).decide()


def oci(name: str) -> ObjectRef:
    return ObjectRef(OCI_REPOSITORY, NS, name)


A, B = oci("a"), ObjectRef(HELM_REPOSITORY, NS, "b")


def test_what_an_earlier_instance_left_is_adopted_in_order() -> None:
    expected = tuple(adoption(ref, left_over(ref), WORLD.source) for ref in sorted((A, B)))

    assert decided((A, left_over(A)), (B, left_over(B))).patches == expected
    assert decided((B, left_over(B)), (A, left_over(A))).patches == expected
    assert decided().patches == ()


@pytest.mark.parametrize(
    "other",
    [
        (A, left_over(A, labels={})),
        (A, left_over(A, deletionTimestamp="2026-06-01T11:00:00Z")),
        (A, left_over(A, ownerReferences=[{"kind": "X", "name": "x", "uid": "other", "controller": True}])),
        (ObjectRef(SECRET, NS, "s"), left_over(ObjectRef(SECRET, NS, "s"))),
    ],
    ids=["foreign", "being deleted", "controlled by another", "of another kind"],
)
def test_nothing_else_is_adopted(other: tuple[ObjectRef, Manifest]) -> None:
    decision = decided(other)

    assert (decision.patches, decision.deletes) == ((), ())


def former(count: int) -> list[tuple[ObjectRef, Manifest]]:
    """Sources of former versions, the youngest first by name."""
    return [(oci(f"s{at}"), owned(oci(f"s{at}"), f"2026-05-{20 - at:02}T00:00:00Z")) for at in range(count)]


def test_former_sources_go_once_the_new_one_is_in_use_REC_14() -> None:
    gone = decided(*former(6)).deletes

    assert [delete.ref.name for delete in gone] == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert gone[0] == Delete(oci("s0"), "uid-s0", gone[0].resource_version)


@pytest.mark.parametrize(("created", "confirmed"), [(-1, []), (0, []), (1, [RELEASE])])
def test_a_source_newer_than_the_wanted_one_goes_once_the_release_is_known_not_to_read_it_REC_10(
    created: int, confirmed: list[ObjectRef]
) -> None:
    """The cache may show the HelmRelease as it was before the newer source. The dry run is refused if so."""
    world = scene(deployed())
    objects = world.observed.objects
    objects[SOURCE]["metadata"]["creationTimestamp"] = "2026-05-20T00:00:10Z"
    newer = {A: owned(A, f"2026-05-20T00:00:{10 + created:02}Z")}

    decision = attrs.evolve(world, observed=attrs.evolve(world.observed, objects={**objects, **newer})).decide()

    assert [delete.ref for delete in decision.deletes] == [A]
    assert [apply.ref for apply in decision.dry_runs] == confirmed


@pytest.mark.parametrize(("count", "names"), [(4, []), (5, ["s4"]), (6, ["s4", "s5"])])
def test_until_then_the_four_youngest_are_kept_REC_14(count: int, names: list[str]) -> None:
    installing = {"observedGeneration": 1}

    assert [delete.ref.name for delete in decided(*former(count), status=installing).deletes] == names


def test_of_sources_of_one_age_those_with_the_first_names_go_and_those_without_an_age_before_all_REC_14() -> None:
    installing = {"observedGeneration": 1}
    alike = [(ref, owned(ref, "2026-05-20T00:00:00Z")) for ref in map(oci, ("s3", "s0", "s2", "s1"))]
    ageless = (oci("z"), owned(oci("z")))

    assert [delete.ref.name for delete in decided(*alike, ageless, status=installing).deletes] == ["z"]
    fifth = (oci("s4"), owned(oci("s4"), "2026-05-20T00:00:00Z"))
    assert [delete.ref.name for delete in decided(fifth, *alike, status=installing).deletes] == ["s0"]


def test_a_wanted_object_without_a_controller_is_applied_and_not_adopted() -> None:
    world = scene(deployed())
    world.observed.objects[SOURCE]["metadata"].pop("ownerReferences")

    decision = world.decide()
    assert SOURCE in [apply.ref for apply in decision.applies]
    assert decision.patches == ()


def test_what_others_control_or_what_is_wanted_is_not_deleted() -> None:
    foreign = left_over(A, ownerReferences=[{"kind": "X", "name": "x", "uid": "other", "controller": True}])

    assert decided((A, foreign)).deletes == ()
    secret = ObjectRef(SECRET, NS, "s")
    assert decided((secret, owned(secret))).deletes == ()
    assert [delete.ref for delete in decided((A, owned(A))).deletes] == [A]
    config = ObjectRef(CONFIG_MAP, NS, "c")
    assert [delete.ref for delete in decided((config, owned(config))).deletes] == [config]


def test_a_suspended_release_that_is_not_wanted_is_resumed_so_that_flux_uninstalls_it_REC_14() -> None:
    """Flux skips the uninstall of a suspended one: its workload would run on without an owner."""
    former_release = ObjectRef(HELM_RELEASE, NS, "former")
    decision = decided((former_release, {**owned(former_release), "spec": {"suspend": True}}))

    resume = MergePatch(former_release, {"metadata": {"resourceVersion": "5"}, "spec": {"suspend": None}})
    assert (decision.patches, decision.deletes) == ((resume,), (Delete(former_release, "uid-former"),))


def test_former_objects_stay_as_they_are_until_what_replaces_them_is_applied_REC_14() -> None:
    world = scene(deployed(), manifest=instance_manifest())
    former_release = ObjectRef(HELM_RELEASE, NS, "former")
    live = {**owned(former_release), "spec": {"suspend": True}}
    objects = {**world.observed.objects, A: owned(A), former_release: live}
    observed = attrs.evolve(world.observed, objects=objects)
    pending = {ref: live for ref, live in objects.items() if ref != RELEASE}
    first = attrs.evolve(world, observed=attrs.evolve(observed, objects=pending)).decide()

    assert first.applies
    assert (first.patches, first.deletes) == ((), ())
    assert [one.ref for one in deletes_afterwards(world.source, observed, CONTEXT, first)] == [former_release, A]
    assert deletes_afterwards(world.source, observed, CONTEXT, Decision()) == ()


# --- refused writes ---------------------------------------------------------------------------------------------------


def after(*failures: Failure) -> Decision:
    world = scene(deployed(), manifest=instance_manifest())
    return attrs.evolve(world, observed=attrs.evolve(world.observed, failures=failures)).decide()


def conflict(ref: ObjectRef, *managers: str) -> Failure:
    return Failure(ref, "apply", Conflict("held", tuple(FieldConflict(name, ".spec.chart") for name in managers)))


def test_a_conflict_with_our_own_past_is_forced_and_nothing_else_is_done_REC_6() -> None:
    decision = after(conflict(RELEASE, FIELD_MANAGER))

    assert [(apply.ref, apply.force) for apply in decision.applies] == [(RELEASE, True)]
    assert (decision.status, decision.requeue, decision.only_if_current) == (None, Requeue.NO, True)
    assert (decision.row, decision.patches, decision.deletes) == ("own history", (), ())


def test_beside_a_real_conflict_our_own_past_is_forced_too_REC_6_REC_8() -> None:
    decision = after(conflict(RELEASE, FIELD_MANAGER), conflict(SOURCE, "kubectl"))

    assert [(apply.ref, apply.force) for apply in decision.applies] == [(RELEASE, True)]
    assert decision.only_if_current
    assert decision.row.startswith("blocked ")
    assert conditions_of(decision)["Blocked"][0] == "True"
    assert after(conflict(RELEASE, "kubectl")).applies == ()


def test_a_missing_right_is_told_with_the_installation_of_this_operator_REC_13() -> None:
    refusal = Forbidden(
        'User "sa" cannot patch resource "ocirepositories" in API group "source.toolkit.fluxcd.io" '
        'in the namespace "org-myteam"'
    )
    settings = attrs.evolve(CONTEXT.settings, installation=Installation("elsewhere", keeper=InstallTool.HELM))
    world = scene(deployed(), manifest=instance_manifest())
    failing = attrs.evolve(world.observed, failures=(Failure(SOURCE, "apply", refusal),))
    decision = attrs.evolve(world, observed=failing).decide(attrs.evolve(CONTEXT, settings=settings))

    assert refusal.right is not None
    assert message_of(decision, "Blocked") == not_permitted(refusal.right, settings.installation)
    assert message_of(decision, "Blocked") != not_permitted(refusal.right, PRINTED)
    assert (decision.requeue, decision.applies) == (Requeue.REFUSED, ())


def test_a_write_that_may_succeed_later_is_told_and_tried_again_REC_13() -> None:
    decision = after(Failure(SOURCE, "apply", Unavailable("down")), conflict(RELEASE, FIELD_MANAGER))

    assert [(apply.ref, apply.force) for apply in decision.applies] == [(RELEASE, True)]
    assert (decision.requeue, decision.only_if_current) == (Requeue.BACKOFF, True)
    assert decision.row == "refused write ChartSourceSyncing"
    assert conditions_of(decision)["Reconciling"] == ("True", "ChartSourceSyncing")
    assert get_path(decision.status, "status", "helmReleaseRef") is None, "the present fields stay: there is none yet"


@pytest.mark.parametrize(("count", "waits"), [(4, True), (5, False)])
def test_the_first_status_does_not_wait_where_former_objects_go_REC_6(count: int, waits: bool) -> None:
    assert (decided(*former(count), status={"observedGeneration": -1}).status_may_wait > 0) is waits


# --- the first status -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "delay"),
    [(-5.0, 1.0), (0.0, 1.0), (1.0, 1.0), (1.25, 0.75), (1.75, 0.25), (2.0, 0.0), (9.0, 0.0), (None, 1.0)],
)
@pytest.mark.parametrize("status", [{"observedGeneration": -1}, {"observedGeneration": 1}])
def test_the_first_status_waits_until_the_release_is_between_one_and_two_seconds_old(
    age: float | None, delay: float, status: Any
) -> None:
    world = scene(status)
    if age is not None:
        created = format_time(NOW.replace(microsecond=0))
        world.observed.objects[RELEASE]["metadata"]["creationTimestamp"] = created
    at = NOW if age is None else NOW.replace(microsecond=0) + timedelta(seconds=age)

    assert world.decide(attrs.evolve(CONTEXT, now=at)).status_may_wait == delay
