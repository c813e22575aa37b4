"""What every decision about an instance owes, whatever is asked, observed or refused (REC-2, REC-6, REC-10, REC-11)."""

from datetime import timedelta
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Forbidden, Invalid, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE
from purekube.controller.decision import Decision, Failure, Finalizer
from tests.support.flux_reports import helm_reports, source_reports
from tests.support.instance_worlds import (
    CONTEXT,
    NAMESPACE,
    NOW,
    RELEASE,
    SOURCE,
    UID,
    applied,
    attempted,
    conditions_of,
    decide,
    deployed,
    fetched,
    flux_condition,
    history,
    instance_manifest,
    message_of,
    scene,
    with_meta,
    written,
)
from vworkspace_core.api.labels import FINALIZER, RETRY, UNINSTALL
from vworkspace_core.instances.context import InstanceObserved

GOING = "2026-06-01T11:59:00Z"
ENDING = with_meta(NAMESPACE, deletionTimestamp=GOING, uid="uid-namespace")
REFUSALS: list[OperatorError] = [Forbidden("no"), Invalid("wrong"), Unavailable("busy", status=503)]
LEFT_OVER = ObjectRef(CONFIG_MAP, "org-myteam", "nextcloud-values-former")


def left_over() -> dict[str, Any]:
    """An object of the instance that it wants no longer."""
    owner = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "nextcloud-myteam"}
    manifest = CONFIG_MAP.manifest(LEFT_OVER.name, "org-myteam")
    owners = [{**owner, "uid": UID, "controller": True}]
    return {**manifest, "metadata": {**manifest["metadata"], "uid": "uid-old", "resourceVersion": "7",
                                     "ownerReferences": owners}}  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], InstanceObserved]:
    """An instance in any phase of its life, and what is there of it."""
    manifest = instance_manifest(suspend=draw(st.booleans()))
    objects = applied(manifest)
    objects[RELEASE]["status"] = draw(helm_reports())
    objects[SOURCE]["status"] = draw(source_reports())
    objects[LEFT_OVER] = left_over()
    if draw(st.booleans()):
        objects[RELEASE]["spec"]["suspend"] = True
    for ref in draw(st.sets(st.sampled_from(sorted(objects)))):
        del objects[ref]
    for ref in draw(st.sets(st.sampled_from([RELEASE, SOURCE, LEFT_OVER]))):
        if ref in objects:
            objects[ref]["metadata"]["deletionTimestamp"] = GOING
    notes = draw(st.sets(st.sampled_from([RETRY, ABANDON, UNINSTALL])))
    refused = draw(st.lists(st.sampled_from(sorted(objects)), max_size=1)) if objects else []
    manifest = with_meta(
        manifest,
        annotations=dict.fromkeys(sorted(notes), "true"),
        finalizers=draw(st.sampled_from([[FINALIZER], [FINALIZER], []])),
        deletionTimestamp=draw(st.sampled_from([None, GOING])),
    )
    observed = InstanceObserved(
        draw(st.sampled_from([NAMESPACE, ENDING])),
        objects,
        failures=tuple(Failure(ref, "patch", draw(st.sampled_from(REFUSALS))) for ref in refused),
        missing_kinds=draw(st.sampled_from([frozenset(), frozenset({HELM_RELEASE})])),
        definition_ending=draw(st.booleans()),
    )
    return manifest, observed


@pytest.mark.slow
@given(worlds())
def test_what_writes_downstream_is_decided_on_the_newest_copy_or_adds_the_finalizer_REC_6(
    world: tuple[dict[str, Any], InstanceObserved],
) -> None:
    decision = decide(*world)

    if decision.patches or decision.applies or decision.creates or decision.deletes:
        assert decision.only_if_current or decision.finalizer is Finalizer.ADD


@pytest.mark.slow
@given(worlds())
def test_every_patch_and_delete_names_exactly_the_object_it_was_decided_on_REC_6(
    world: tuple[dict[str, Any], InstanceObserved],
) -> None:
    manifest, observed = world
    decision = decide(manifest, observed)

    for patch in decision.patches:
        live = observed.objects[patch.ref]["metadata"]
        assert get_path(patch.patch, "metadata", "resourceVersion") == live["resourceVersion"]
    for delete in decision.deletes:
        live = observed.objects[delete.ref]["metadata"]
        assert delete.uid == live["uid"]
        assert [owner["uid"] for owner in live["ownerReferences"] if owner.get("controller")] == [UID]
        assert "deletionTimestamp" not in live


@pytest.mark.slow
@given(worlds())
def test_a_suspended_release_is_asked_for_no_retry_REC_14(world: tuple[dict[str, Any], InstanceObserved]) -> None:
    manifest, observed = world
    decision = decide(manifest, observed)
    live = observed.objects.get(RELEASE)
    if live is None or live["spec"].get("suspend") is not True:
        return

    asked = [patch for patch in decision.patches if get_path(patch.patch, "metadata", "annotations")]
    assert not [patch for patch in asked if "reconcile.fluxcd.io/requestedAt" in patch.patch["metadata"]["annotations"]]


def test_a_retry_of_a_release_that_runs_is_asked_for_once_REC_14() -> None:
    there = scene(deployed(), manifest=with_meta(instance_manifest(), annotations={RETRY: "again"}))
    (patch,) = there.decide().patches

    assert patch.ref == RELEASE
    assert patch.patch["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"] == "again"
    assert not scene(deployed(), manifest=with_meta(instance_manifest(), annotations={})).decide().patches


@pytest.mark.slow
@given(worlds(), st.booleans())
def test_a_placeholder_has_nothing_true_but_ready_and_writes_nothing_REC_11(
    world: tuple[dict[str, Any], InstanceObserved], was_blocked: bool
) -> None:
    """Whatever it was before."""
    manifest, observed = world
    assume("deletionTimestamp" not in manifest["metadata"])
    observed = attrs.evolve(observed, namespace=NAMESPACE, failures=(), missing_kinds=frozenset())
    if was_blocked:
        observed = attrs.evolve(observed, failures=(Failure(RELEASE, "apply", Forbidden("no")),))
    before = written(manifest, decide(manifest, observed))
    placeholder = instance_manifest(mode="placeholder", chart=None, release=None, values=None)
    status = {name: value for name, value in before.get("status", {}).items() if name != "helmReleaseRef"}
    after = {**placeholder, "metadata": {**manifest["metadata"], "generation": 2}, "status": status}

    decision = decide(after, InstanceObserved(NAMESPACE))  # what had a release does not become one (RES-1)

    found = conditions_of(decision)
    assert found["Ready"] == ("True", "Placeholder")
    assert [kind for kind, (status, _) in found.items() if status == "True"] == ["Ready"]
    assert not decision.writes_downstream


# --- what Flux has released once stays released -----------------------------------------------------------------------


def stalled(**more: Any) -> dict[str, Any]:
    """Flux has given up on an upgrade to a version that could not be deployed."""
    message = "Helm upgrade failed for release org-myteam/nextcloud with chart nextcloud@6.6.0: boom"
    conditions = [
        flux_condition("Ready", "False", "UpgradeFailed", message),
        flux_condition("Released", "False", "UpgradeFailed", message),
        flux_condition("Stalled", "True", "RetriesExceeded", message),
    ]
    return attempted(conditions, failures=1, upgradeFailures=1, **more)


@pytest.mark.parametrize(
    ("past", "reason"),
    [
        ([history(status="failed"), history("6.5.0", status="superseded")], "Upgrading"),
        ([history(status="failed"), history("6.5.0", status="deployed")], "Upgrading"),
        ([history(status="failed"), history("6.5.0", status="uninstalled")], "Installing"),
        ([history(status="failed")], "Installing"),
        ([], "Installing"),
    ],
)
def test_after_a_failure_and_an_edit_a_release_that_was_deployed_once_is_upgraded_REC_5(
    past: list[dict[str, Any]], reason: str
) -> None:
    """The history decides: neither the failure nor the edit makes it a first installation again."""
    failed = scene(stalled(history=past))
    before = written(failed.manifest, failed.decide())
    edited = instance_manifest(values={"source": "inline", "inline": {"replicas": 3}})
    edited = {**edited, "metadata": {**edited["metadata"], "generation": 2}, "status": before["status"]}

    decision = decide(edited, failed.observed)

    assert conditions_of(decision)["Ready"] == ("False", reason)
    expected = "HelmReleaseUpgrading" if reason == "Upgrading" else "HelmReleaseInstalling"
    assert conditions_of(decision)["Reconciling"] == ("True", expected)
    assert decision.requeue.after is None


# --- deletion ---------------------------------------------------------------------------------------------------------


def deleted(**annotations: str) -> dict[str, Any]:
    """A settled instance whose deletion was requested a minute ago."""
    there = scene(deployed())
    told = written(there.manifest, there.decide())
    return with_meta(told, deletionTimestamp=GOING, annotations=annotations)


def there() -> dict[ObjectRef, Manifest]:
    return dict(scene(deployed()).observed.objects)


def refs_of(decision: Decision) -> list[ObjectRef]:
    return [delete.ref for delete in decision.deletes]


def test_a_deletion_goes_release_first_then_what_it_read_then_the_finalizer_REC_10() -> None:
    objects = there()
    first = decide(deleted(), InstanceObserved(NAMESPACE, objects))
    assert refs_of(first) == [RELEASE]
    assert first.finalizer is None
    assert conditions_of(first)["Deleting"] == ("True", "Uninstalling")
    assert conditions_of(first)["Ready"] == ("False", "Uninstalling")

    del objects[RELEASE]
    second = decide(deleted(), InstanceObserved(NAMESPACE, objects))
    assert refs_of(second) == sorted(objects)
    assert second.finalizer is None

    assert decide(deleted(), InstanceObserved(NAMESPACE)).finalizer is Finalizer.REMOVE


@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("ending", [False, True])
def test_while_the_definition_is_deleted_only_a_confirmation_uninstalls_REC_10(ending: bool, confirmed: bool) -> None:
    manifest = deleted(**({UNINSTALL: "true"} if confirmed else {}))
    decision = decide(manifest, InstanceObserved(NAMESPACE, there(), definition_ending=ending))

    if ending and not confirmed:
        assert not decision.writes_downstream
        assert conditions_of(decision)["Deleting"] == ("True", "AwaitingConfirmation")
        assert conditions_of(decision)["Ready"][0] == "True", "the application runs on"
        assert f"{UNINSTALL}=true" in message_of(decision, "Deleting")
        assert f"{ABANDON}=true" in message_of(decision, "Deleting")
    else:
        assert refs_of(decision) == [RELEASE]


def test_an_instance_that_owns_nothing_goes_with_the_definition_without_a_confirmation_REC_10() -> None:
    decision = decide(deleted(), InstanceObserved(NAMESPACE, {}, definition_ending=True))

    assert decision.finalizer is Finalizer.REMOVE


@pytest.mark.parametrize("had_a_release", [True, False])
def test_without_flux_the_finalizer_is_kept_where_there_was_a_release_REC_10(had_a_release: bool) -> None:
    manifest = deleted()
    if not had_a_release:
        manifest = {**manifest, "status": {**manifest["status"], "helmReleaseRef": None}}
        del manifest["status"]["helmReleaseRef"]
    decision = decide(manifest, InstanceObserved(NAMESPACE, {}, missing_kinds=frozenset({HELM_RELEASE})))

    if had_a_release:
        assert not decision.writes_downstream
        assert conditions_of(decision)["Deleting"] == ("True", "WaitingForChildResources")
        assert f"{ABANDON}=true" in message_of(decision, "Deleting")
    else:
        assert decision.finalizer is Finalizer.REMOVE


def test_in_a_namespace_that_ends_flux_gets_its_time_and_then_the_finalizer_goes_REC_10() -> None:
    """Counted from the request to delete the instance, a minute ago."""
    seconds = CONTEXT.settings.namespace_end_seconds
    observed = InstanceObserved(ENDING, there())

    early = decide(deleted(), observed)
    assert refs_of(early) == [RELEASE]
    assert early.finalizer is None
    assert early.requeue.after == seconds - 60

    last = attrs.evolve(CONTEXT, now=NOW + timedelta(seconds=seconds - 60.5))
    assert decide(deleted(), observed, last).finalizer is None
    late = attrs.evolve(CONTEXT, now=NOW + timedelta(seconds=seconds - 60))
    decision = decide(deleted(), observed, late)
    assert decision.finalizer is Finalizer.REMOVE
    assert decision.row == "REC-10 release left behind"
    assert decision.deletes == ()
    assert decision.patches == ()
    (event,) = decision.events
    assert (event.type, event.reason, event.regarding.name) == ("Warning", "ReleaseLeftBehind", "org-myteam")
    assert event.regarding_uid == "uid-namespace"
    assert str(RELEASE) in event.note


def test_in_a_namespace_that_ends_nothing_but_a_release_is_waited_for_REC_10() -> None:
    objects = there()
    del objects[RELEASE]

    decision = decide(deleted(), InstanceObserved(ENDING, objects))

    assert decision.finalizer is Finalizer.REMOVE
    assert decision.deletes == ()


def test_in_a_namespace_that_ends_a_missing_right_is_not_tried_again_and_blocks_nothing_REC_10() -> None:
    refused = Failure(RELEASE, "delete", Forbidden("no"))
    decision = decide(deleted(), InstanceObserved(ENDING, there(), failures=(refused,)))

    assert decision.deletes == ()
    assert decision.patches == ()
    assert decision.requeue.after == CONTEXT.settings.namespace_end_seconds - 60
    assert "Blocked" not in conditions_of(decision)
    busy = Failure(RELEASE, "delete", Unavailable("busy", status=503))
    assert "busy" in message_of(decide(deleted(), InstanceObserved(ENDING, there(), failures=(busy,))), "Deleting")


def test_each_step_of_a_deletion_has_its_name_REC_10() -> None:
    """As recordings and runs of the simulation show it."""
    settled, abandoned = deleted(), deleted(**{ABANDON: "true"})
    orphaned = with_meta(settled, finalizers=[FINALIZER, "orphan"])
    gone = attrs.evolve(InstanceObserved(NAMESPACE), missing_kinds=frozenset({HELM_RELEASE}))
    without_release = {ref: live for ref, live in there().items() if ref != RELEASE}
    steps = [
        (settled, InstanceObserved(NAMESPACE, there()), "REC-10 Uninstalling"),
        (settled, InstanceObserved(NAMESPACE, there(), definition_ending=True), "REC-10 AwaitingConfirmation"),
        (settled, gone, "REC-10 WaitingForChildResources"),
        (settled, InstanceObserved(NAMESPACE), "REC-10 nothing is left"),
        (settled, InstanceObserved(ENDING, there()), "REC-10 Uninstalling"),
        (settled, InstanceObserved(ENDING, without_release), "REC-10 goes with its namespace"),
        (abandoned, InstanceObserved(NAMESPACE, there()), "REC-10 WaitingForChildResources"),
        (abandoned, InstanceObserved(NAMESPACE), "REC-10 abandoned"),
        (orphaned, InstanceObserved(NAMESPACE, there()), "REC-10 orphaned by the garbage collector"),
    ]
    for manifest, observed, row in steps:
        assert decide(manifest, observed).row == row


def test_a_suspended_release_is_resumed_before_it_is_deleted_REC_10() -> None:
    objects = there()
    objects[RELEASE] = {**objects[RELEASE], "spec": {**objects[RELEASE]["spec"], "suspend": True}}

    decision = decide(deleted(), InstanceObserved(NAMESPACE, objects))

    (patch,) = decision.patches
    assert patch.patch["spec"] == {"suspend": None}
    assert refs_of(decision) == [RELEASE]


def test_the_source_of_a_settled_release_was_fetched() -> None:
    """What the tests above build on."""
    assert conditions_of(scene(deployed(), fetched()).decide())["Ready"][0] == "True"
