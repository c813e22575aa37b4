"""What an instance's spec, its cluster and refused writes come to: REC-3, REC-4, REC-8, REC-9, REC-13, RES-1, RES-5."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import (
    Conflict,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    StatusCause,
    Unavailable,
)
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from purekube.controller.decision import Decision, Failure, Requeue
from tests.support.instance_worlds import (
    CLUSTER,
    CONTEXT,
    NAMESPACE,
    NOW,
    RELEASE,
    SETTINGS,
    SOURCE,
    applied,
    conditions_of,
    decide,
    deployed,
    fetched,
    instance_manifest,
    message_of,
    scene,
    with_meta,
    written,
)
from tests.support.source_names import source_name
from vworkspace_core.api.application_instance import ReleaseOverride
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.release_override import spec_hash
from vworkspace_core.instances.context import Context, InstanceObserved

HELM_CHART = {"sourceType": "helm", "url": "https://charts.example", "name": "nextcloud", "version": "6.6.0"}
INGRESS = {"ingress": {"enabled": True, "host": "cloud.example"}, "certManager": {"enabled": True}}


def manifests(decision: Decision) -> dict[str, Mapping[str, Any]]:
    return {apply.kind.kind: apply.manifest for apply in decision.applies}


def fresh(**spec: Any) -> dict[str, Mapping[str, Any]]:
    return manifests(decide(instance_manifest(**spec), InstanceObserved(NAMESPACE)))


# --- REC-3, REC-4: sources and release ----------------------------------------------------------------------------


def test_an_oci_chart_is_an_oci_repository_and_goes_by_chart_ref_REC_3_REC_4() -> None:
    chart: dict[str, Any] = {
        "sourceType": "oci",
        "url": "oci://r.example/charts/",
        "name": "nextcloud",
        "version": "6.6.0+build.1",
    }
    chart |= {"secretRef": {"name": "pull"}, "certSecretRef": {"name": "ca"}}
    found = fresh(chart=chart)

    spec = found["OCIRepository"]["spec"]
    assert spec["url"] == "oci://r.example/charts/nextcloud"
    assert spec["ref"] == {"tag": "6.6.0_build.1"}
    assert spec["layerSelector"]["operation"] == "copy"
    assert (spec["secretRef"], spec["certSecretRef"]) == ({"name": "pull"}, {"name": "ca"})
    assert found["HelmRelease"]["spec"]["chartRef"] == {
        "kind": "OCIRepository",
        "name": source_name("nextcloud", chart),
    }
    assert found["OCIRepository"]["metadata"]["name"] == source_name("nextcloud", chart)
    assert "chart" not in found["HelmRelease"]["spec"]


def test_a_helm_chart_is_a_helm_repository_and_goes_by_source_ref_REC_3_REC_4() -> None:
    found = fresh(chart=HELM_CHART)

    assert found["HelmRepository"]["spec"]["url"] == "https://charts.example"
    assert found["HelmRelease"]["spec"]["chart"]["spec"] == {
        "chart": "nextcloud",
        "version": "6.6.0",
        "sourceRef": {"kind": "HelmRepository", "name": source_name("nextcloud", HELM_CHART)},
    }
    assert "chartRef" not in found["HelmRelease"]["spec"]


def test_failure_rollback_and_stalled_are_asked_for_in_one_pass_REC_4() -> None:
    spec = fresh()["HelmRelease"]["spec"]

    assert spec["install"] == {"remediation": {"retries": 3}}
    remediation = {"retries": 0, "remediateLastFailure": True, "strategy": "rollback"}
    assert spec["upgrade"] == {"cleanupOnFail": True, "remediation": remediation}
    assert spec["driftDetection"] == {"mode": "warn", "ignore": [{"paths": ["/spec/replicas"]}]}
    assert (spec["interval"], spec["timeout"], spec["maxHistory"]) == ("5m", "5m", 10)


def test_what_drift_detection_ignores_is_said_only_where_it_is_on() -> None:
    off = attrs.evolve(CONTEXT, settings=attrs.evolve(SETTINGS, drift_detection="disabled"))

    release = manifests(decide(instance_manifest(), InstanceObserved(NAMESPACE), off))["HelmRelease"]
    assert release["spec"]["driftDetection"] == {"mode": "disabled"}


def test_suspend_is_sent_only_when_true_REC_4() -> None:
    assert "suspend" not in fresh()["HelmRelease"]["spec"]
    assert fresh(suspend=True)["HelmRelease"]["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("own", "usual", "allowed", "expected"),
    [
        (None, "vworkspace-release", (), "vworkspace-release"),
        ("own", "vworkspace-release", (), "vworkspace-release"),
        ("own", "vworkspace-release", ("own",), "own"),
        ("vworkspace-release", "vworkspace-release", (), "vworkspace-release"),
        ("own", None, ("own",), "own"),
    ],
)
def test_a_release_is_installed_with_an_account_that_the_cluster_allows_REC_4(
    own: Any, usual: Any, allowed: Any, expected: str
) -> None:
    release = {"name": "nextcloud", "namespace": "org-myteam", **({"serviceAccountName": own} if own else {})}
    settings = attrs.evolve(SETTINGS, default_service_account=usual, allowed_release_service_accounts=allowed)

    decision = decide(instance_manifest(release=release), InstanceObserved(NAMESPACE), Context(settings, NOW))

    assert manifests(decision)["HelmRelease"]["spec"]["serviceAccountName"] == expected
    told = [event.note for event in decision.events if event.reason == "ServiceAccountReplaced"]
    assert bool(told) == (own not in (None, expected)), "C2: another account than the one asked for is told"
    assert not any(
        f"own is not among the accounts that this cluster allows for releases; {expected} is" not in note
        for note in told
    )


def test_the_default_account_is_vworkspace_release_REC_4() -> None:
    assert fresh()["HelmRelease"]["spec"]["serviceAccountName"] == "vworkspace-release"


@pytest.mark.parametrize("own", [None, "cluster-admin"])
def test_nothing_is_installed_with_fluxs_own_rights_unless_told_REC_4(own: Any) -> None:
    release = {"name": "nextcloud", "namespace": "org-myteam", **({"serviceAccountName": own} if own else {})}
    manifest = instance_manifest(release=release)
    settings = attrs.evolve(SETTINGS, default_service_account=None)

    refused = decide(manifest, InstanceObserved(NAMESPACE), Context(settings, NOW))
    assert not refused.applies
    assert conditions_of(refused)["Blocked"] == ("True", "PolicyDenied")
    message = message_of(refused, "Blocked")
    assert "--service-account" in message
    assert "--allow-unimpersonated-releases" in message

    opened = attrs.evolve(settings, allow_unimpersonated_releases=True)
    decision = decide(manifest, InstanceObserved(NAMESPACE), Context(opened, NOW))
    assert "serviceAccountName" not in manifests(decision)["HelmRelease"]["spec"]


def test_everything_downstream_is_owned_and_labelled_RES_5() -> None:
    for manifest in fresh(values=_secret(), integrations=INGRESS).values():
        meta = manifest["metadata"]
        assert meta["ownerReferences"][0]["controller"] is True
        assert meta["labels"]["app.vworkspace.io/managed-by"] == "control-plane"
        assert meta["labels"]["app.vworkspace.io/cluster-id"] == CLUSTER
        assert meta["labels"]["app.vworkspace.io/application-instance"] == "nextcloud-myteam"
        assert meta["labels"]["app.vworkspace.io/instance-uid"]


# --- values and integrations --------------------------------------------------------------------------------------


def _secret() -> dict[str, Any]:
    return {"source": "secretRef", "secretRef": {"name": "values", "key": "v.yaml"}}


def test_integrations_lie_beneath_inline_values_RES_1() -> None:
    inline = {"source": "inline", "inline": {"ingress": {"host": "mine.example"}, "replicas": 2}}

    spec = fresh(values=inline, integrations=INGRESS)["HelmRelease"]["spec"]

    assert spec["values"] == {
        "ingress": {"enabled": True, "host": "mine.example"},
        "certManager": {"enabled": True},
        "replicas": 2,
    }
    assert "valuesFrom" not in spec


def test_integrations_come_first_where_values_are_never_read_RES_1() -> None:
    found = fresh(values=_secret(), integrations=INGRESS)

    assert found["HelmRelease"]["spec"]["valuesFrom"] == [
        {"kind": "ConfigMap", "name": found["ConfigMap"]["metadata"]["name"], "valuesKey": "values.yaml"},
        {"kind": "Secret", "name": "values", "valuesKey": "v.yaml"},
    ]
    assert "values" not in found["HelmRelease"]["spec"]
    assert found["ConfigMap"]["data"] == {
        "values.yaml": '{"certManager":{"enabled":true},"ingress":{"enabled":true,"host":"cloud.example"}}'
    }
    assert found["ConfigMap"]["metadata"]["labels"]["reconcile.fluxcd.io/watch"] == "Enabled"


def test_a_config_map_reference_is_passed_on_unread() -> None:
    spec = fresh(values={"source": "configMapRef", "configMapRef": {"name": "cm", "key": "k"}})["HelmRelease"]["spec"]

    assert spec["valuesFrom"] == [{"kind": "ConfigMap", "name": "cm", "valuesKey": "k"}]


def test_the_ingress_host_becomes_an_endpoint_RES_1() -> None:
    decision = decide(instance_manifest(integrations=INGRESS), InstanceObserved(NAMESPACE))

    assert decision.status is not None
    assert decision.status["status"]["endpoints"] == [
        {"name": "ingress", "url": "https://cloud.example", "type": "ingress"}
    ]


def test_what_is_no_longer_wanted_is_pruned_when_the_new_is_in_use_REC_14_PH_3() -> None:
    before = instance_manifest(values=_secret(), integrations=INGRESS)
    objects = applied(before)
    after = applied(instance_manifest())
    for ref, live in after.items():
        live["status"] = deployed() if ref == RELEASE else fetched()
    (config_map,) = (ref for ref in objects if ref.kind == CONFIG_MAP)

    decision = decide(instance_manifest(), InstanceObserved(NAMESPACE, {**objects, **after}))

    assert [delete.ref for delete in decision.deletes] == [config_map]


@pytest.mark.parametrize(("in_use", "gone"), [(False, 3), (True, 7)])
def test_the_oldest_of_what_is_no_longer_wanted_go_first_and_four_stay_until_the_new_is_in_use_REC_14(
    in_use: bool, gone: int
) -> None:
    objects = applied(instance_manifest())
    if in_use:
        for ref, live in objects.items():
            live["status"] = deployed() if ref == RELEASE else fetched()
    (source,) = (live for ref, live in objects.items() if ref.kind == OCI_REPOSITORY)
    former = [
        (
            ObjectRef(OCI_REPOSITORY, "org-myteam", f"former-{7 - age}"),
            with_meta(source, name=f"former-{7 - age}", creationTimestamp=f"2026-05-0{age}T00:00:00Z"),
        )
        for age in range(1, 8)
    ]

    decision = decide(instance_manifest(), InstanceObserved(NAMESPACE, {**objects, **dict(former)}))

    assert {delete.ref for delete in decision.deletes} == {ref for ref, _ in former[:gone]}


# --- REC-9: the override of a helm Operation ----------------------------------------------------------------------


def override(manifest: Mapping[str, Any], **fields: Any) -> ReleaseOverride:
    spec = read_application_instance(manifest).spec
    return ReleaseOverride("up", "op-uid", spec_hash(spec), **fields)


@pytest.mark.parametrize("chart", [None, HELM_CHART])
def test_an_override_overlays_version_and_values_and_is_recorded_REC_9(chart: Any) -> None:
    manifest = instance_manifest(**({"chart": chart} if chart else {}))
    asked = override(manifest, version="6.9.0", values_patch={"replicas": 5, "extra": {"a": 1}})

    decision = decide(manifest, InstanceObserved(NAMESPACE, override=asked))

    found = manifests(decision)
    assert found["HelmRelease"]["spec"]["values"] == {"replicas": 5, "extra": {"a": 1}}
    version = (
        found["HelmRelease"]["spec"]["chart"]["spec"]["version"]
        if chart
        else found["OCIRepository"]["spec"]["ref"]["tag"]
    )
    assert version == "6.9.0"
    assert get_path(decision.status, "status", "releaseOverride", "uid") == "op-uid"
    assert get_path(decision.status, "status", "lastAppliedChart", "version") == "6.9.0"


def test_a_recorded_override_outlives_its_operation_and_a_suspension_REC_9() -> None:
    manifest = instance_manifest()
    manifest = written(
        manifest, decide(manifest, InstanceObserved(NAMESPACE, override=override(manifest, version="6.9.0")))
    )
    suspended = {**manifest, "spec": {**manifest["spec"], "suspend": True}}

    assert manifests(decide(suspended, InstanceObserved(NAMESPACE)))["OCIRepository"]["spec"]["ref"] == {"tag": "6.9.0"}


@pytest.mark.parametrize("why", ["withdrawn", "new chart"])
def test_an_override_lapses_with_its_operation_and_with_new_intent_REC_9(why: str) -> None:
    manifest = instance_manifest()
    manifest = written(
        manifest, decide(manifest, InstanceObserved(NAMESPACE, override=override(manifest, version="6.9.0")))
    )
    observed = InstanceObserved(NAMESPACE)
    match why:
        case "withdrawn":
            observed = InstanceObserved(NAMESPACE, withdrawn=frozenset({"op-uid"}))
        case "new chart":
            chart = {**manifest["spec"]["chart"], "version": "6.7.0"}
            manifest = {**manifest, "spec": {**manifest["spec"], "chart": chart}}

    decision = decide(manifest, observed)

    expected = "6.7.0" if why == "new chart" else "6.6.0"
    assert manifests(decision)["OCIRepository"]["spec"]["ref"] == {"tag": expected}
    assert get_path(decision.status, "status", "releaseOverride") is None


def test_an_override_to_a_forbidden_version_is_not_followed_RES_3() -> None:
    manifest = instance_manifest()
    context = Context(attrs.evolve(SETTINGS, policy=Policy(forbidden_versions=("nextcloud@6.9.0",))), NOW)

    decision = decide(manifest, InstanceObserved(NAMESPACE, override=override(manifest, version="6.9.0")), context)

    assert manifests(decision)["OCIRepository"]["spec"]["ref"] == {"tag": "6.6.0"}
    assert conditions_of(decision)["Degraded"] == ("True", "ForbiddenVersionOverride")


# --- barriers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "denied"),
    [
        (Policy(), False),
        (Policy(allowed_chart_sources=("oci://registry.example",)), False),
        (Policy(allowed_chart_sources=("oci://registry.example/charts",)), False),
        (Policy(allowed_chart_sources=("oci://registry.example/cha",)), True),
        (Policy(allowed_chart_sources=("oci://other",)), True),
        (Policy(forbidden_versions=("6.6.0",)), True),
        (Policy(forbidden_versions=("nextcloud@6.6.0",)), True),
        (Policy(forbidden_versions=("redis@6.6.0",)), False),
    ],
)
def test_the_clusters_policy_is_obeyed_RES_3(policy: Policy, denied: bool) -> None:
    decision = decide(
        instance_manifest(), InstanceObserved(NAMESPACE), Context(attrs.evolve(SETTINGS, policy=policy), NOW)
    )

    assert bool(decision.applies) is not denied
    if denied:
        assert conditions_of(decision)["Blocked"] == ("True", "PolicyDenied")


def test_every_problem_of_the_spec_is_named_at_once_with_its_path() -> None:
    broken = instance_manifest(
        chart={"sourceType": "oci", "url": "https://r", "name": "nextcloud", "version": "latest"},
        release={"name": "nextcloud", "namespace": "elsewhere"},
    )

    decision = decide(broken, InstanceObserved(NAMESPACE))

    message = message_of(decision, "Blocked")
    assert all(path in message for path in ("spec.chart.url:", "spec.chart.version:", "spec.release.namespace:"))
    assert conditions_of(decision)["Stalled"] == ("True", "ValidationFailed")
    assert not decision.writes_downstream


def test_a_blocked_generation_keeps_ready_of_the_release_before_RES_4() -> None:
    ready = scene(deployed())
    manifest = with_meta(written(ready.manifest, ready.decide()), generation=2)
    manifest["spec"] = {**manifest["spec"], "chart": {**manifest["spec"]["chart"], "version": "latest"}}

    decision = decide(manifest, ready.observed)

    assert conditions_of(decision)["Ready"] == ("True", "HelmReleaseReady")
    generations = {c["type"]: c["observedGeneration"] for c in get_path(decision.status, "status", "conditions")}
    assert (generations["Ready"], generations["Blocked"]) == (1, 2)
    assert get_path(decision.status, "status", "observedGeneration") == 2


def test_a_foreign_object_is_marked_once_and_left_alone_when_its_operator_spoke_RES_5() -> None:
    foreign = with_meta(
        instance_manifest(),
        finalizers=None,
        labels={"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": "another"},
    )
    marked = decide(foreign, InstanceObserved(NAMESPACE))
    assert conditions_of(marked)["Blocked"] == ("True", "WrongCluster")
    assert decide(written(foreign, marked), InstanceObserved(NAMESPACE)).is_empty

    ready = scene(deployed())
    theirs = {**foreign, "status": get_path(ready.decide().status, "status")}

    assert decide(theirs, InstanceObserved(NAMESPACE)).is_empty


def test_a_label_that_moves_an_object_away_is_reported_while_its_release_is_of_this_cluster_RES_5() -> None:
    """A stranger relabelled a Ready application: it stayed Ready, and nothing said that its care had ended."""
    ready = scene(deployed())
    manifest = written(ready.manifest, ready.decide())
    moved = with_meta(manifest, labels={**manifest["metadata"]["labels"], "app.vworkspace.io/cluster-id": "another"})
    assert conditions_of(decide(moved, ready.observed))["Blocked"] == ("True", "WrongCluster")

    release = next(ref for ref in ready.observed.objects if ref.kind == HELM_RELEASE)
    theirs = with_meta(ready.observed.objects[release], labels={"app.vworkspace.io/cluster-id": "another"})
    taken_over = attrs.evolve(ready.observed, objects={**ready.observed.objects, release: theirs})
    assert decide(moved, taken_over).is_empty, "the operator of the other cluster has applied its own release"


def test_a_placeholder_that_owned_a_release_is_refused_RES_1() -> None:
    ready = scene(deployed())
    manifest = written(ready.manifest, ready.decide())
    spec = {"appRef": {"catalogId": "x"}, "mode": "placeholder"}

    decision = decide({**manifest, "spec": spec}, ready.observed)

    assert conditions_of(decision)["Blocked"] == ("True", "ValidationFailed")
    assert not decision.writes_downstream


# --- REC-13: refused writes ---------------------------------------------------------------------------------------


MISSING_RIGHT = (
    'helmreleases.helm.toolkit.fluxcd.io "nextcloud" is forbidden: User "sa" cannot patch resource "helmreleases" in '
    'API group "helm.toolkit.fluxcd.io" in the namespace "org-myteam"'
)


def refused(error: OperatorError, ref: ObjectRef = RELEASE, live: Any = None) -> Decision:
    return decide(instance_manifest(), InstanceObserved(NAMESPACE, failures=(Failure(ref, "apply", error, live),)))


@pytest.mark.parametrize(
    ("error", "condition", "reason", "requeue"),
    [
        (Conflict("c", (FieldConflict("kubectl", ".spec.interval"),)), "Blocked", "FieldConflict", Requeue.SLOW),
        (Invalid("no", (StatusCause("spec", "no"),)), "Blocked", "ValidationFailed", Requeue.NO),
        (KindMissing("gone"), "Blocked", "MissingDependencies", Requeue.SLOW),
        (NotFound("namespace"), "Blocked", "NamespaceNotGated", Requeue.NO),
        (Forbidden("x", namespace_terminating=True), "Blocked", "NamespaceNotGated", Requeue.NO),
        (Forbidden("cannot patch"), "Reconciling", "HelmReleaseInstalling", Requeue.SLOW),
        (Forbidden(MISSING_RIGHT), "Blocked", "Forbidden", Requeue.REFUSED),
        (Permanent("odd"), "Reconciling", "HelmReleaseInstalling", Requeue.SLOW),
        (Unavailable("503"), "Reconciling", "HelmReleaseInstalling", Requeue.BACKOFF),
        (Stale("moved"), "Reconciling", "HelmReleaseInstalling", Requeue.BACKOFF),
    ],
)
def test_every_refusal_is_named_and_paced_REC_13(
    error: OperatorError, condition: str, reason: str, requeue: Requeue
) -> None:
    decision = refused(error)

    assert conditions_of(decision)[condition] == ("True", reason)
    assert decision.requeue is requeue
    assert not decision.writes_downstream


def test_a_missing_permission_names_what_is_refused_REC_14() -> None:
    told = 'helmreleases.helm.toolkit.fluxcd.io "nextcloud" is forbidden: User "sa" cannot patch in "org-myteam"'

    assert told in message_of(refused(Forbidden(told)), "Reconciling")


def test_a_conflict_with_our_own_past_is_forced_and_with_nobody_else_REC_6() -> None:
    own = refused(Conflict("c", (FieldConflict(FIELD_MANAGER, ".spec.interval"),)))
    mixed = refused(Conflict("c", (FieldConflict(FIELD_MANAGER, ".a"), FieldConflict("kubectl", ".b"))))

    assert [(apply.ref, apply.force) for apply in own.applies] == [(RELEASE, True)]
    assert mixed.applies == ()
    assert FIELD_MANAGER not in message_of(mixed, "Blocked").partition("To hand it back")[0]


def test_a_conflict_names_every_holder_whatever_order_the_server_gave_S_81() -> None:
    conflicts = (FieldConflict("b", ".spec.y"), FieldConflict("a", ".spec.z"), FieldConflict("a", ".spec.x"))

    forward = message_of(refused(Conflict("c", conflicts)), "Blocked")

    assert forward == message_of(refused(Conflict("c", conflicts[::-1])), "Blocked")
    assert 'field manager "a" holds .spec.x, .spec.z; field manager "b" holds .spec.y' in forward


def test_the_status_is_written_with_the_resource_version_it_was_decided_on_REC_6() -> None:
    decision = scene(deployed()).decide()

    assert decision.status is not None
    assert decision.status["metadata"] == {
        "name": "nextcloud-myteam",
        "namespace": "org-myteam",
        "resourceVersion": "10",
    }


def test_nothing_but_time_decides_when_to_look_again() -> None:
    world = scene(deployed())
    settled = written(world.manifest, world.decide())

    assert decide(settled, world.observed).requeue.after is None
    assert decide(settled, world.observed, attrs.evolve(CONTEXT, now=NOW + timedelta(days=30))).is_empty


def test_the_finalizer_is_asked_for_together_with_the_first_applies() -> None:
    decision = decide(with_meta(instance_manifest(), finalizers=None), InstanceObserved(NAMESPACE))

    assert decision.finalizer is not None
    assert {apply.ref for apply in decision.applies} == {RELEASE, SOURCE}
    kinds = {apply.kind for apply in decision.applies}
    assert kinds == {HELM_RELEASE, OCI_REPOSITORY}
    assert HELM_REPOSITORY not in kinds
