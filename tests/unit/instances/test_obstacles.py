"""Each obstacle of an instance with its exact message, and the order in which they are looked for (RES-4, RES-5)."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, SECRET
from purekube.controller.decision import Requeue
from tests.support.instance_worlds import CLUSTER, NAMESPACE, RELEASE, SETTINGS, UID, instance_manifest, with_meta
from vworkspace_core.api.admission import check_managed_namespace
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.labels import APPLICATION_INSTANCE, CLUSTER_ID, MANAGED_BY
from vworkspace_core.api.managed_namespace import claimed_by_another_operator, closed_namespace, is_labelled_for
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import not_installed
from vworkspace_core.instances.blocking_reasons import (
    BlockingReason,
    intent_blocking_reason,
    name_blocking_reason,
    needed_kinds,
    without_chart,
)
from vworkspace_core.instances.context import InstanceObserved, Settings
from vworkspace_core.instances.desired import desired_objects
from vworkspace_core.instances.naming import (
    Names,
    former_names,
    names_of,
    release_account,
    releases_of,
    replaced_account,
    unimpersonated,
)
from vworkspace_core.instances.observe import foreign_release
from vworkspace_core.instances.ownership import name_taken

NS = "org-myteam"
UNGATED = {**NAMESPACE, "metadata": {"name": NS}}
ENDING = {**NAMESPACE, "metadata": {**NAMESPACE["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}  # type: ignore[dict-item]
LABEL = "the label app.vworkspace.io/cluster-id is missing"
OWNED = {"metadata": {"ownerReferences": [{"uid": UID, "controller": True}]}}
THEIRS = {"metadata": {"ownerReferences": [{"uid": "they", "controller": True}]}}
PLACEHOLDER: dict[str, Any] = {"mode": "placeholder", "chart": None, "release": None, "values": None}
DEMOTED = "spec.mode: a managed instance cannot become a placeholder while it owns a release; delete and recreate it"


def obstacle(
    *, labels: Any = None, observed: InstanceObserved | None = None, settings: Settings = SETTINGS, **spec: Any
) -> BlockingReason | None:
    manifest = instance_manifest(**spec)
    manifest = manifest if labels is None else with_meta(manifest, labels=labels)
    found = observed if observed is not None else InstanceObserved(NAMESPACE)
    return intent_blocking_reason(read_application_instance(manifest), found, settings)


def ruled(**rules: Any) -> Settings:
    return attrs.evolve(SETTINGS, policy=Policy(**rules))


ONLY = "spec.chart.url: charts may come from {} only (spec.policy of the Cluster), not from {}"
URL = "oci://registry.example/charts/nextcloud"
OTHER = "oci://other.example"


def test_nothing_is_in_the_way_of_a_good_instance() -> None:
    assert obstacle() is None
    assert obstacle(**PLACEHOLDER) is None


def test_an_instance_of_another_cluster_says_for_which_it_is_meant() -> None:
    other = obstacle(labels={MANAGED_BY: "control-plane", CLUSTER_ID: "b"})
    none = obstacle(labels={MANAGED_BY: "control-plane"})

    assert other is not None
    assert other.reason == Reason.WRONG_CLUSTER
    assert other.message.startswith(f'the object is meant for cluster "b"; this cluster is "{CLUSTER}". To fix, if it ')
    assert other.message.endswith("If not, delete it here")
    assert none is not None
    assert none.message.startswith(f'{LABEL}; this cluster is "{CLUSTER}". To fix: kubectl label ')
    assert (none.stalled, none.requeue) == (False, Requeue.NO)


def test_a_namespace_that_is_not_open_says_how_to_open_it() -> None:
    closed, ending, absent = (obstacle(observed=InstanceObserved(found)) for found in (UNGATED, ENDING, None))

    ends = f"namespace {NS} is being terminated: nothing new can be created in it"
    assert ending == BlockingReason(Reason.NAMESPACE_NOT_GATED, ends)
    assert closed is not None
    assert closed == absent
    start = f"namespace {NS} does not carry the label managed-by=vworkspace. To fix: "
    assert (closed.reason, closed.message.startswith(start)) == (Reason.NAMESPACE_NOT_GATED, True)
    assert closed_namespace(NS, NAMESPACE) == ""


def test_a_namespace_that_another_tool_labelled_is_opened_by_a_command_that_succeeds() -> None:
    """kubectl: error: 'managed-by' already has a value (terraform), and --overwrite is false."""
    theirs = {"metadata": {"name": NS, "labels": {"managed-by": "terraform"}}}
    label = f"kubectl label namespace {NS} managed-by=vworkspace --overwrite"
    start = f'namespace {NS} does not carry the label managed-by=vworkspace, but managed-by="terraform". To fix: '
    assert closed_namespace(NS, theirs).startswith(f"{start}{label} && vworkspace-operator manifests")
    (problem,) = check_managed_namespace(read_application_instance(instance_manifest()).metadata, theirs, CLUSTER)
    assert problem.message.endswith(f": {label}")


@pytest.mark.parametrize(("other", "option"), [("former", " --overwrite"), (None, "")])
def test_what_an_instance_of_another_name_left_is_taken_over_by_a_command_that_succeeds(
    other: str | None, option: str
) -> None:
    """kubectl: error: 'app.vworkspace.io/application-instance' already has a value (former)."""
    source = read_application_instance(instance_manifest())
    labels = {APPLICATION_INSTANCE: other} if other else {MANAGED_BY: "control-plane"}
    left = {"metadata": {"name": RELEASE.name, "namespace": NS, "labels": labels}}
    told = name_taken(RELEASE, left, source)
    assert told.endswith(f"{APPLICATION_INSTANCE}={source.metadata.name}{option}")
    secret = ObjectRef(SECRET, NS, f"sh.helm.release.v1.{RELEASE.name}.v1")
    told = foreign_release(source, InstanceObserved(NAMESPACE, {secret: left}))
    assert told.endswith(f"{APPLICATION_INSTANCE}={source.metadata.name}{option}")


def test_an_object_of_another_owner_is_named_with_its_owner_s_uid_REC_4() -> None:
    source = read_application_instance(instance_manifest())
    owner = {"kind": "Other", "name": "they", "uid": "u-2", "controller": True}

    assert name_taken(RELEASE, {"metadata": {"ownerReferences": [owner]}}, source) == (
        f"{RELEASE} is controlled by Other they (uid u-2): let Other they give it up, or create this instance again "
        "with another spec.release.name"
    )


def test_an_invalid_spec_stalls_with_every_problem() -> None:
    chart = {**instance_manifest()["spec"]["chart"], "version": ">=6"}

    found = obstacle(chart=chart, values={"source": "inline", "inline": {"password": "hunter2"}})

    assert found is not None
    assert (found.reason, found.stalled, found.requeue) == (Reason.VALIDATION_FAILED, True, Requeue.NO)
    assert [part.partition(": ")[0] for part in found.message.split("; spec.")] == [
        "spec.chart.version",
        "values.inline.password",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ruled(allowed_chart_sources=(OTHER,)), ONLY.format(OTHER, URL)),
        (ruled(allowed_chart_sources=(OTHER, "oci://x.example")), ONLY.format(f"{OTHER}, oci://x.example", URL)),
        (ruled(allowed_chart_sources=(URL,), further_chart_sources=((OTHER,),)), ONLY.format(OTHER, URL)),
        (ruled(allowed_chart_sources=(URL,), further_chart_sources=((),)), None),
        (ruled(allowed_chart_sources=("oci://registry.example/charts",)), None),
        (
            ruled(forbidden_versions=("nextcloud@6.6.0",)),
            "spec.chart.version: 6.6.0 of nextcloud is forbidden here (spec.policy of the Cluster): choose another "
            "version",
        ),
        (ruled(forbidden_versions=("nextcloud@6.6.1",)), None),
    ],
)
def test_the_policy_of_the_cluster_says_what_is_allowed(settings: Settings, message: str | None) -> None:
    assert obstacle(settings=settings) == (None if message is None else BlockingReason(Reason.POLICY_DENIED, message))
    assert obstacle(settings=settings, **PLACEHOLDER) is None


def test_flux_s_own_rights_are_not_for_charts_unless_that_is_allowed() -> None:
    bare = attrs.evolve(SETTINGS, default_service_account=None)
    found = obstacle(settings=bare)

    assert found is not None
    assert found.reason == Reason.POLICY_DENIED
    assert found.message.startswith("no service account is set for Flux to install this release with")
    assert obstacle(settings=attrs.evolve(bare, allow_unimpersonated_releases=True)) is None
    assert obstacle(settings=bare, **PLACEHOLDER) is None
    assert unimpersonated(None, bare) == ""


@pytest.mark.parametrize(
    ("objects", "ref", "blocked"),
    [
        ({}, None, False),
        ({RELEASE: OWNED}, None, True),
        ({RELEASE: THEIRS}, None, False),
        ({ObjectRef(OCI_REPOSITORY, NS, "nextcloud"): OWNED}, None, False),
        ({}, {"name": "nextcloud", "namespace": NS}, True),
    ],
)
def test_a_placeholder_may_own_no_release(objects: Any, ref: Any, blocked: bool) -> None:
    manifest = {**instance_manifest(**PLACEHOLDER), "status": {"helmReleaseRef": ref} if ref else {}}
    source = read_application_instance(manifest)

    found = intent_blocking_reason(source, InstanceObserved(NAMESPACE, objects), SETTINGS)

    assert found == (BlockingReason(Reason.VALIDATION_FAILED, DEMOTED, stalled=True) if blocked else None)
    managed = read_application_instance({**instance_manifest(), "status": manifest["status"]})
    assert intent_blocking_reason(managed, InstanceObserved(NAMESPACE, objects), SETTINGS) is None


def test_an_object_of_another_owner_with_a_desired_name_is_looked_at_again_after_a_while_REC_4() -> None:
    source = read_application_instance(instance_manifest())
    theirs = InstanceObserved(NAMESPACE, {RELEASE: {**THEIRS, "spec": {}}})
    desired = desired_objects(source, None, theirs.objects, SETTINGS)

    found = name_blocking_reason(source, desired, theirs)

    assert found == BlockingReason(
        Reason.NAME_TAKEN, name_taken(RELEASE, theirs.objects[RELEASE], source), requeue=Requeue.SLOW
    )
    assert name_blocking_reason(source, desired, InstanceObserved(NAMESPACE)) is None


HELM = {"sourceType": "helm", "url": "https://charts.example", "name": "nextcloud", "version": "6.6.0"}


@pytest.mark.parametrize(
    ("missing", "names"),
    [
        ({HELM_RELEASE}, [HELM_RELEASE.crd_name]),
        ({OCI_REPOSITORY, HELM_RELEASE}, [OCI_REPOSITORY.crd_name, HELM_RELEASE.crd_name]),
        ({HELM_REPOSITORY}, []),
    ],
)
def test_missing_kinds_of_flux_are_named(missing: Any, names: list[str]) -> None:
    found = obstacle(observed=InstanceObserved(NAMESPACE, missing_kinds=frozenset(missing)))

    assert found == (
        BlockingReason(Reason.MISSING_DEPENDENCIES, not_installed(names), requeue=Requeue.SLOW) if names else None
    )


def test_an_instance_needs_the_kinds_of_its_source_and_release() -> None:
    managed, other, placeholder = (
        read_application_instance(instance_manifest(**spec)) for spec in ({}, {"chart": HELM}, PLACEHOLDER)
    )

    assert needed_kinds(managed) == (OCI_REPOSITORY, HELM_RELEASE)
    assert needed_kinds(other) == (HELM_REPOSITORY, HELM_RELEASE)
    assert needed_kinds(placeholder) == ()
    assert needed_kinds(read_application_instance(instance_manifest(chart=None))) == ()
    why = "spec.chart, spec.release: required when managed"
    assert without_chart() == BlockingReason(Reason.MISSING_CHART_SOURCE, why, stalled=True)


def test_obstacles_are_looked_for_in_a_fixed_order() -> None:
    chart = {**instance_manifest()["spec"]["chart"], "version": ">=6"}
    bare = attrs.evolve(ruled(allowed_chart_sources=(OTHER,)), default_service_account=None)
    missing = frozenset({HELM_RELEASE})
    closed, there = (InstanceObserved(found, missing_kinds=missing) for found in (UNGATED, NAMESPACE))
    wrong = {MANAGED_BY: "control-plane", CLUSTER_ID: "b"}
    found = [
        obstacle(labels=wrong, observed=closed, settings=bare, chart=chart),
        obstacle(observed=closed, settings=bare, chart=chart),
        obstacle(observed=there, settings=bare, chart=chart),
        obstacle(observed=there, settings=bare),
        obstacle(observed=there, settings=attrs.evolve(SETTINGS, default_service_account=None)),
        obstacle(observed=there),
    ]

    assert [one.reason if one else None for one in found] == [
        Reason.WRONG_CLUSTER,
        Reason.NAMESPACE_NOT_GATED,
        Reason.VALIDATION_FAILED,
        Reason.POLICY_DENIED,
        Reason.POLICY_DENIED,
        Reason.MISSING_DEPENDENCIES,
    ]
    assert found[3] != found[4]


# --- whose it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "labelled"),
    [
        ({MANAGED_BY: "control-plane"}, True),
        ({MANAGED_BY: "control-plane", CLUSTER_ID: ""}, True),
        ({MANAGED_BY: "control-plane", CLUSTER_ID: CLUSTER}, True),
        ({MANAGED_BY: "control-plane", CLUSTER_ID: "b"}, False),
        ({MANAGED_BY: "me", CLUSTER_ID: CLUSTER}, False),
        ({CLUSTER_ID: CLUSTER}, False),
        ("x", False),
        (None, False),
    ],
)
def test_labels_assign_an_object_to_this_operator(labels: Any, labelled: bool) -> None:
    assert is_labelled_for({"metadata": {"labels": labels}}, CLUSTER) is labelled


def told(kind: str, reason: str, message: str = "") -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}


@pytest.mark.parametrize(
    ("cluster", "conditions", "claimed"),
    [
        ("b", [], False),
        ("b", [told("Ready", "X")], True),
        (CLUSTER, [told("Ready", "X")], False),
        ("b", [told("Ready", "X"), told("Blocked", "WrongCluster", f'this cluster is "{CLUSTER}"')], False),
        ("b", [told("Blocked", "WrongCluster", 'this cluster is "c"')], True),
        ("b", [told("Blocked", "NameTaken", f'this cluster is "{CLUSTER}"')], True),
    ],
)
def test_an_object_with_a_status_of_another_operator_is_theirs(
    cluster: str, conditions: list[Any], claimed: bool
) -> None:
    labels = {MANAGED_BY: "control-plane", CLUSTER_ID: cluster}
    manifest = {**with_meta(instance_manifest(), labels=labels), "status": {"conditions": conditions}}

    assert claimed_by_another_operator(read_application_instance(manifest), SETTINGS.cluster_id) is claimed


# --- names and accounts -------------------------------------------------------------------------------------------


def test_names_change_with_what_is_fetched_and_with_the_values_beneath() -> None:
    release = read_application_instance(instance_manifest()).spec.release
    assert release is not None
    names = names_of(release, {"url": "a"}, {"b": 1}, "u")

    assert names == names_of(release, {"url": "a"}, {"b": 1}, "u")
    assert names.source.startswith("nextcloud-")
    assert len(names.source) == len("nextcloud-") + 8
    assert names.fragment.startswith("nextcloud-integrations-")
    assert names_of(release, {"url": "b"}, {"b": 1}, "u") == Names(
        names_of(release, {"url": "b"}, {}, "").source, names.fragment
    )
    assert names_of(release, {"url": "a"}, {"b": 2}, "u").source == names.source
    fragments = {
        names_of(release, {}, values, uid).fragment
        for values, uid in (({"b": 1}, "u"), ({"b": 2}, "u"), ({"b": 1}, "v"))
    }
    assert len(fragments) == 3
    assert former_names(release) == Names("nextcloud", "nextcloud-integrations")


@pytest.mark.parametrize(
    ("name", "releases"),
    [
        ("a", ["a"]),
        ("a-0123abcd", ["a-0123abcd", "a"]),
        ("a-0123abc", ["a-0123abc"]),
        ("a-integrations", ["a-integrations", "a"]),
        ("a-integrations-0123abcd", ["a-integrations-0123abcd", "a-integrations", "a"]),
    ],
)
def test_an_object_s_name_tells_for_which_releases_it_may_have_been_made(name: str, releases: list[str]) -> None:
    assert list(releases_of(name)) == releases


@pytest.mark.parametrize(
    ("given", "usual", "allowed", "used"),
    [
        (None, "usual", (), "usual"),
        ("usual", "usual", (), "usual"),
        ("mine", "usual", (), "usual"),
        ("mine", "usual", ("mine",), "mine"),
        ("mine", None, (), ""),
        ("mine", None, ("mine",), "mine"),
        (None, None, ("mine",), ""),
    ],
)
def test_a_release_has_its_own_account_if_that_is_allowed(
    given: str | None, usual: str | None, allowed: tuple[str, ...], used: str
) -> None:
    settings = attrs.evolve(SETTINGS, default_service_account=usual, allowed_release_service_accounts=allowed)
    account = {"serviceAccountName": given} if given else {}
    source = read_application_instance(instance_manifest(release={"name": "a", "namespace": NS, **account}))
    release = source.spec.release
    assert release is not None

    assert release_account(release, settings) == used
    events = replaced_account(source, release, settings)
    assert [event.reason for event in events] == ["ServiceAccountReplaced"] * (given not in (None, used))
    for event in events:
        assert (event.type, event.action, event.regarding_uid) == ("Warning", "Reconcile", UID)
        assert event.note.startswith(f"spec.release.serviceAccountName: {given} is not among the accounts that this ")
        assert f"{used or 'no account'} is used" in event.note
    seen = attrs.evolve(source, status=attrs.evolve(source.status, observed_generation=source.metadata.generation))
    assert replaced_account(seen, release, settings) == ()
